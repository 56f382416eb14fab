/* The traffic of scenarios: rates, bursts, flash sales, logs, and the choice of clients. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/simulate/arrivals.h"
#include "lab/simulate/scenario_test.h"

#define S_NS 1000000000ull
#define LIMIT "limit: {requests_per_unit: 10}\n"

struct counts {
	uint64_t total, last_ns;
	uint64_t seconds[120], clients[16], regions[4];
};

/* Reads all arrivals of a scenario, which must come in the order of time. */
static struct counts count_arrivals(const char *text, uint64_t seed)
{
	struct wr_lab_scenario *scenario = scenario_of(text);
	struct wr_lab_arrivals *arrivals;
	struct wr_lab_arrival arrival;
	struct counts counts = {0};
	struct weir_error error;

	if (wr_lab_arrivals_open(scenario, seed, &arrivals, &error) != 0)
		fail_msg("%s", error.text);
	while (wr_lab_arrivals_next(arrivals, &arrival)) {
		assert_true(arrival.at_ns >= counts.last_ns);
		assert_true(arrival.at_ns < scenario->duration_ns);
		assert_true(arrival.client < scenario->clients);
		counts.last_ns = arrival.at_ns;
		counts.total++;
		counts.seconds[arrival.at_ns / S_NS]++;
		counts.clients[arrival.client % 16]++;
		counts.regions[arrival.regions % 4]++;
	}
	wr_lab_arrivals_close(arrivals);
	wr_lab_scenario_free(scenario);
	return counts;
}

/* Asserts that a count is within five standard deviations of a Poisson distribution. The seeds are
 * fixed, so the result is always the same. */
static void assert_near(uint64_t count, double mean)
{
	double difference = (double)count - mean;

	if (difference * difference > 25 * mean)
		fail_msg("%llu is far from %.0f", (unsigned long long)count, mean);
}

static void test_steady_rate(void **state)
{
	struct counts counts = count_arrivals(
		LIMIT "duration: 20s\ntraffic: [{kind: steady, rate: 1000/s, start: 5s, for: 10s}]",
		1);

	(void)state;
	assert_near(counts.total, 10000);
	assert_int_equal(counts.seconds[4], 0);
	assert_near(counts.seconds[5], 1000);
	assert_near(counts.seconds[14], 1000);
	assert_int_equal(counts.seconds[15], 0);
}

static void test_same_seed_same_traffic(void **state)
{
	static const char text[] = LIMIT "clients: {count: 16, zipf: 1}\n"
					 "traffic: [{kind: steady, rate: 500/s}, "
					 "{kind: bursts, size: 7, every: 3s, base: 10/s}]";
	struct counts first = count_arrivals(text, 3), again = count_arrivals(text, 3);
	struct counts other = count_arrivals(text, 4);

	(void)state;
	assert_memory_equal(&first, &again, sizeof first);
	assert_true(memcmp(&first, &other, sizeof first) != 0);
}

static void test_bursts(void **state)
{
	struct counts counts =
		count_arrivals(LIMIT "duration: 20s\nclients: 16\n"
				     "traffic: [{kind: bursts, size: 40, every: 6s, start: 1s}]",
			       1);
	uint64_t clients = 0;

	(void)state;
	assert_int_equal(counts.total, 160);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(counts.seconds[1 + 6 * i], 40);
	/* all requests of a burst come from one client */
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(counts.clients[i] % 40, 0);
		clients += counts.clients[i] / 40;
	}
	assert_int_equal(clients, 4);
}

/* The additional rate halves every two seconds. In the seconds of one half-life after the start,
 * peak * half_life / ln 2 * (1 - 1/2) requests come. */
static void test_flash_sale(void **state)
{
	struct counts counts = count_arrivals(
		LIMIT "duration: 20s\ntraffic: [{kind: flash_sale, base: 100/s, peak: 10000/s, "
		      "start: 4s, half_life: 2s}]",
		1);

	(void)state;
	assert_near(counts.seconds[3], 100);
	assert_near(counts.seconds[4] + counts.seconds[5], 200 + 10000 * 2 / 0.6931 / 2);
	assert_near(counts.seconds[6] + counts.seconds[7], 200 + 10000 * 2 / 0.6931 / 4);
	assert_near(counts.seconds[18] + counts.seconds[19], 200 + 10000 * 2 / 0.6931 / 256);
}

static void test_attack_comes_from_one_client_and_region(void **state)
{
	struct counts counts = count_arrivals(
		LIMIT "regions: [{name: a}, {name: b}]\nclients: 10\nduration: 10s\n"
		      "traffic: [{kind: attack, rate: 200/s, client: 4, regions: b}]",
		1);

	(void)state;
	assert_near(counts.total, 2000);
	assert_int_equal(counts.clients[3], counts.total);
	assert_int_equal(counts.regions[2], counts.total);
}

/* By Zipf's law with the exponent 1 and four clients, the weights are 12, 6, 4 and 3. */
static void test_zipf(void **state)
{
	struct counts counts = count_arrivals(LIMIT "clients: {count: 4, zipf: 1}\nduration: 100s\n"
						    "traffic: [{kind: steady, rate: 1000/s}]",
					      1);

	(void)state;
	assert_near(counts.clients[0], (double)counts.total * 12 / 25);
	assert_near(counts.clients[1], (double)counts.total * 6 / 25);
	assert_near(counts.clients[2], (double)counts.total * 4 / 25);
	assert_near(counts.clients[3], (double)counts.total * 3 / 25);
}

static void test_all_clients_alike(void **state)
{
	struct counts counts = count_arrivals(
		LIMIT "clients: 16\nduration: 100s\ntraffic: [{kind: steady, rate: 1000/s}]", 1);

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		assert_near(counts.clients[i], (double)counts.total / 16);
}

/* Three requests of a log at 0, 2 and 10 s, twice as fast, from the third second on. */
static void test_log(void **state)
{
	char path[] = "/tmp/weir-arrivals-XXXXXX", text[512];
	int fd = mkstemp(path);
	struct counts counts;

	(void)state;
	assert_true(fd >= 0);
	dprintf(fd, "192.0.2.1 - - [01/Mar/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n"
		    "192.0.2.2 - - [01/Mar/2026:10:00:02 +0000] \"GET / HTTP/1.1\" 200 5\n"
		    "192.0.2.1 - - [01/Mar/2026:10:00:10 +0000] \"GET / HTTP/1.1\" 200 5\n");
	snprintf(text, sizeof text,
		 LIMIT "clients: 16\ntraffic: [{kind: log, path: %s, start: 3s, speed: 2}]", path);
	counts = count_arrivals(text, 1);
	assert_int_equal(counts.total, 3);
	assert_int_equal(counts.seconds[3], 1);
	assert_int_equal(counts.seconds[4], 1);
	assert_int_equal(counts.seconds[8], 1);
	close(fd);
	unlink(path);
}

/* The totals of two logs are added up: 3 + 2 lines, of which 1 + 1 are unreadable. */
static void test_totals_of_logs(void **state)
{
	char good[] = "/tmp/weir-arrivals-XXXXXX", bad[] = "/tmp/weir-arrivals-XXXXXX", text[512];
	int fds[] = {mkstemp(good), mkstemp(bad)};
	struct wr_lab_log_totals totals;
	struct wr_lab_scenario *scenario;
	struct wr_lab_arrivals *arrivals;
	struct wr_lab_arrival arrival;
	struct weir_error error;

	(void)state;
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	dprintf(fds[0], "192.0.2.1 - - [01/Mar/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n"
			"nonsense\n"
			"192.0.2.2 - - [01/Mar/2026:10:00:02 +0000] \"GET / HTTP/1.1\" 200 5\n");
	dprintf(fds[1], "192.0.2.3 - - [01/Mar/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n"
			"more nonsense\n");
	snprintf(text, sizeof text,
		 LIMIT "clients: 16\ntraffic: [{kind: log, path: %s}, {kind: log, path: %s}]", good,
		 bad);
	scenario = scenario_of(text);
	assert_int_equal(wr_lab_arrivals_open(scenario, 1, &arrivals, &error), 0);
	while (wr_lab_arrivals_next(arrivals, &arrival))
		;
	wr_lab_arrivals_logs(arrivals, &totals);
	assert_int_equal(totals.lines, 5);
	assert_int_equal(totals.records, 3);
	assert_int_equal(totals.unreadable, 2);
	assert_int_equal(totals.example_count, 2);
	assert_non_null(strstr(totals.examples[0], ":2: "));
	assert_non_null(strstr(totals.examples[1], "more nonsense"));
	wr_lab_arrivals_close(arrivals);
	wr_lab_scenario_free(scenario);
	for (unsigned i = 0; i < 2; i++)
		close(fds[i]);
	unlink(good);
	unlink(bad);
}

/* A log with requests at 0, 2 and 10 s. It goes on after the end of the run, unless the run is longer
 * or `for` ends the log. */
static void test_unread_logs(void **state)
{
	static const struct {
		const char *keys, *duration;
		uint64_t end_ns;
		uint32_t unread;
	} cases[] = {
		{"", "9s", 9 * S_NS, 1},
		{"", "11s", 11 * S_NS, 0},
		{", for: 5s", "9s", 9 * S_NS, 0},
		{", for: 9s", "9s", 9 * S_NS, 0},
		{", for: 10500ms", "9s", 9 * S_NS, 1},
		{", for: 5s", "9s", 1 * S_NS, 1}, /* --requests */
		{", start: 4s", "9s", 4 * S_NS, 0},
	};
	char path[] = "/tmp/weir-arrivals-XXXXXX", text[512];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	dprintf(fd, "192.0.2.1 - - [01/Mar/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n"
		    "192.0.2.2 - - [01/Mar/2026:10:00:02 +0000] \"GET / HTTP/1.1\" 200 5\n"
		    "192.0.2.1 - - [01/Mar/2026:10:00:10 +0000] \"GET / HTTP/1.1\" 200 5\n");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_lab_scenario *scenario;
		struct wr_lab_arrivals *arrivals;
		struct wr_lab_arrival arrival;
		struct weir_error error;

		snprintf(text, sizeof text,
			 LIMIT "duration: %s\ntraffic: [{kind: log, path: %s%s}]",
			 cases[i].duration, path, cases[i].keys);
		scenario = scenario_of(text);
		assert_int_equal(wr_lab_arrivals_open(scenario, 1, &arrivals, &error), 0);
		while (wr_lab_arrivals_next_ns(arrivals) < cases[i].end_ns)
			assert_true(wr_lab_arrivals_next(arrivals, &arrival));
		assert_int_equal(wr_lab_arrivals_unread(arrivals, cases[i].end_ns),
				 cases[i].unread);
		wr_lab_arrivals_close(arrivals);
		wr_lab_scenario_free(scenario);
	}
	close(fd);
	unlink(path);
}

/* A log in which nothing is readable is an error, and not a run without requests. */
static void test_unreadable_log(void **state)
{
	char path[] = "/tmp/weir-arrivals-XXXXXX", text[512], expected[512];
	int fd = mkstemp(path);
	struct wr_lab_scenario *scenario;
	struct wr_lab_arrivals *arrivals;
	struct weir_error error = {0};

	(void)state;
	assert_true(fd >= 0);
	snprintf(text, sizeof text, LIMIT "traffic: [{kind: log, path: %s}]", path);
	snprintf(expected, sizeof expected, "%s: no line could be read as a request", path);
	scenario = scenario_of(text);
	assert_true(wr_lab_arrivals_open(scenario, 1, &arrivals, &error) < 0);
	assert_string_equal(error.text, expected);
	wr_lab_scenario_free(scenario);
	close(fd);
	unlink(path);
}

/* The log is removed after the scenario has been read. */
static void test_missing_log(void **state)
{
	char path[] = "/tmp/weir-arrivals-XXXXXX", text[512];
	int fd = mkstemp(path);
	struct wr_lab_scenario *scenario;
	struct wr_lab_arrivals *arrivals;
	struct weir_error error = {0};

	(void)state;
	assert_true(fd >= 0);
	snprintf(text, sizeof text, LIMIT "traffic: [{kind: log, path: %s}]", path);
	scenario = scenario_of(text);
	close(fd);
	unlink(path);
	assert_true(wr_lab_arrivals_open(scenario, 1, &arrivals, &error) < 0);
	assert_non_null(strstr(error.text, path));
	wr_lab_scenario_free(scenario);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady_rate),
		cmocka_unit_test(test_same_seed_same_traffic),
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_flash_sale),
		cmocka_unit_test(test_attack_comes_from_one_client_and_region),
		cmocka_unit_test(test_zipf),
		cmocka_unit_test(test_all_clients_alike),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_totals_of_logs),
		cmocka_unit_test(test_unread_logs),
		cmocka_unit_test(test_missing_log),
		cmocka_unit_test(test_unreadable_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
