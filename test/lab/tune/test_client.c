/* The clients that stand out. Each rule is tested at its threshold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "lab/tune/client.h"

#define SECOND_NS 1000000000ull
#define NOON_NS (1772366400ull * SECOND_NS) /* 2026-03-01 12:00 UTC */
#define ALL 100000u                         /* requests of the whole log */
#define CLIENTS 1000u

/* A client and the time of its next request. */
struct sender {
	struct wr_lab_tune_client client;
	uint64_t time_ns;
};

static void send_as(struct sender *sender, const char *agent, const char *method,
		    const char *target, uint32_t status, uint64_t pause_ns)
{
	struct weir_header header = {WR_STR("User-Agent"), wr_str(agent)};
	struct wr_lab_record record = {.time_ns = NOON_NS + (sender->time_ns += pause_ns),
				       .method = wr_str(method),
				       .target = wr_str(target),
				       .status = status,
				       .headers = &header,
				       .header_count = 1,
				       .cost = 1};

	wr_lab_client_add(&sender->client, &record);
}

static void send(struct sender *sender, const char *method, const char *target, uint32_t status,
		 uint64_t pause_ns)
{
	send_as(sender, "Mozilla/5.0", method, target, status, pause_ns);
}

static enum wr_lab_kind kind_of(const struct sender *sender)
{
	return wr_lab_client_kind(&sender->client, ALL, CLIENTS);
}

static void assert_reason(const struct sender *sender, const char *reason)
{
	char text[512];

	wr_lab_client_reason(&sender->client, kind_of(sender), text, sizeof text);
	assert_string_equal(text, reason);
}

/* ---- guessers ---- */

static void twenty_refused_logins_are_guesses(void **state)
{
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 19; i++)
		send(&sender, "POST", "/api/enter", 401, 9 * SECOND_NS + i * SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
	send(&sender, "POST", "/api/enter", 403, 50 * SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_GUESSER);
	assert_reason(&sender, "20 of 20 requests are POST /api/enter; 100 % of all were answered "
			       "with 401 or 403");
}

static void posts_to_a_login_are_guesses_even_if_answered_with_200(void **state)
{
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 25; i++)
		send(&sender, "POST", "/wp-login.php?x=1", 200, SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_GUESSER);
	/* 25 of 51 requests are less than half. */
	for (unsigned i = 0; i < 26; i++)
		send(&sender, "GET", "/", 200, SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
}

/* ---- retry loops ---- */

static void the_same_request_after_errors_is_a_retry_loop(void **state)
{
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		send(&sender, "GET", "/v1/jobs?id=7", 503, SECOND_NS / 10);
	assert_int_equal(sender.client.retries, 19);
	assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
	send(&sender, "GET", "/v1/jobs?id=7", 200, 2 * SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_RETRIER);
	assert_reason(&sender, "20 of 21 requests repeat a failed request within 2 s, mostly GET "
			       "/v1/jobs");
}

static void slow_or_different_requests_are_no_retries(void **state)
{
	struct sender slow = {0}, different = {0}, successful = {0};
	char target[32];

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		snprintf(target, sizeof target, "/v1/jobs?id=%u", i);
		send(&slow, "GET", "/v1/jobs?id=7", 503, 2 * SECOND_NS + 1);
		send(&different, "GET", target, 503, 1);
		send(&successful, "GET", "/v1/jobs?id=7", 200, 1);
	}
	assert_int_equal(slow.client.retries, 0);
	assert_int_equal(different.client.retries, 0);
	assert_int_equal(successful.client.retries, 0);
}

/* ---- scanners ---- */

static void many_missing_paths_are_a_scan(void **state)
{
	struct sender sender = {0};
	char target[32];

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		snprintf(target, sizeof target, "/.env.%u", i);
		send(&sender, "GET", target, 404, SECOND_NS / 5);
	}
	assert_int_equal(wr_lab_client_paths(&sender.client), 39); /* an estimate */
	assert_int_equal(kind_of(&sender), WR_LAB_SCANNER);
	assert_reason(&sender, "40 requests for about 39 paths; 100 % answered with 4xx");
	/* 40 of 60 responses are two thirds, 40 of 61 are not. */
	for (unsigned i = 0; i < 20; i++)
		send(&sender, "GET", "/", 200, SECOND_NS / 5);
	assert_int_equal(kind_of(&sender), WR_LAB_SCANNER);
	send(&sender, "GET", "/", 200, SECOND_NS / 5);
	assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
}

/* ---- monitors ---- */

static void equal_periods_are_a_monitor(void **state)
{
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
		send(&sender, "GET", "/health", 200, 60 * SECOND_NS);
	}
	assert_int_equal(kind_of(&sender), WR_LAB_MONITOR);
	assert_reason(&sender, "100 % of 50 requests for GET /health, 1 every 60 s");
}

/* Three checks per five minutes from one address: at 0, 2 and 20 s. */
static void a_monitor_can_send_several_requests_per_period(void **state)
{
	static const uint64_t pauses_s[] = {280, 2, 18};
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 60; i++)
		send(&sender, "HEAD", "/", 200, pauses_s[i % 3] * SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_MONITOR);
	assert_reason(&sender, "100 % of 60 requests for HEAD /, 3 every 300 s");
}

static void people_have_no_equal_periods(void **state)
{
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 60; i++)
		send(&sender, "GET", "/", 200, (10 + i * i % 97) * SECOND_NS);
	assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
}

/* ---- crawlers and heavy users ---- */

static void an_agent_can_say_that_it_is_a_robot(void **state)
{
	struct sender sender = {0};
	char target[32];

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(kind_of(&sender), WR_LAB_USUAL);
		snprintf(target, sizeof target, "/page/%u", i % 10);
		send_as(&sender, "ExampleBot/1.0", "GET", target, 200, (5 + i % 7) * SECOND_NS);
	}
	assert_int_equal(kind_of(&sender), WR_LAB_CRAWLER);
	assert_reason(&sender, "50 requests for about 10 paths; its user agent is ExampleBot/1.0");
}

static void wide_steady_reading_is_a_crawler(void **state)
{
	struct sender reader = {0}, browser = {0};
	char target[32];

	(void)state;
	for (unsigned i = 0; i < 130; i++) {
		snprintf(target, sizeof target, "/page/%u", i);
		send(&reader, "GET", target, 200, (5 + i % 7) * SECOND_NS);
		send(&browser, "GET", target, 200, 60 * SECOND_NS);
		snprintf(target, sizeof target, "/static/%u.css", i);
		send(&browser, "GET", target, 200, SECOND_NS / 10);
	}
	assert_int_equal(wr_lab_client_paths(&reader.client), 139);
	assert_int_equal(kind_of(&reader), WR_LAB_CRAWLER);
	assert_int_equal(kind_of(&browser), WR_LAB_USUAL);
	assert_reason(
		&reader,
		"130 requests for about 139 paths, 100 % of them alone, 0 % for static files");
}

static void a_twentieth_of_all_requests_is_heavy_use(void **state)
{
	struct sender sender = {0};

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		send(&sender, "POST", "/v1/orders", 200, (1 + i * i % 89) * SECOND_NS);
	assert_int_equal(wr_lab_client_kind(&sender.client, 2000, 20), WR_LAB_HEAVY);
	assert_int_equal(wr_lab_client_kind(&sender.client, 2001, 20), WR_LAB_USUAL);
	assert_int_equal(wr_lab_client_kind(&sender.client, 2000, 19), WR_LAB_USUAL);
}

/* The estimate stays useful when all bits are set. */
static void the_number_of_paths_is_an_estimate(void **state)
{
	struct sender sender = {0};
	char target[32];

	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		snprintf(target, sizeof target, "/p/%u", i);
		send(&sender, "GET", target, 200, SECOND_NS);
	}
	assert_int_equal(wr_lab_client_paths(&sender.client), 3194); /* 512 · ln 512 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(twenty_refused_logins_are_guesses),
		cmocka_unit_test(posts_to_a_login_are_guesses_even_if_answered_with_200),
		cmocka_unit_test(the_same_request_after_errors_is_a_retry_loop),
		cmocka_unit_test(slow_or_different_requests_are_no_retries),
		cmocka_unit_test(many_missing_paths_are_a_scan),
		cmocka_unit_test(equal_periods_are_a_monitor),
		cmocka_unit_test(a_monitor_can_send_several_requests_per_period),
		cmocka_unit_test(people_have_no_equal_periods),
		cmocka_unit_test(an_agent_can_say_that_it_is_a_robot),
		cmocka_unit_test(wide_steady_reading_is_a_crawler),
		cmocka_unit_test(a_twentieth_of_all_requests_is_heavy_use),
		cmocka_unit_test(the_number_of_paths_is_an_estimate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
