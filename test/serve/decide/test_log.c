/* Tests the decision log: the choice of decisions, full rings, slow readers, whole lines. */
#include "limiter/helper.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/decide/log.h"

static const char rules[] =
	"domain: api\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: free, rate_limit: {unit: day, requests_per_unit: 1000000}}\n";

static char folder[] = "/tmp/weir-test-XXXXXX", path[64], moved[64];

static int make_folder(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/log", folder);
	snprintf(moved, sizeof moved, "%s/log.1", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	unlink(moved);
	return rmdir(folder);
}

static struct wr_serve_decision_log *open_log(const char *file, uint64_t refused, const char *share,
					      unsigned loops)
{
	struct wr_settings settings = {
		.decision_log = file, .decision_log_refused = refused, .decision_log_share = share};
	struct weir_error error = {0};
	struct wr_serve_decision_log *log;

	unlink(path);
	if (wr_serve_decision_log_open(&settings, loops, &log, &error) != 0)
		fail_msg("%s", error.text);
	return log;
}

static void note(struct wr_serve_decision_log *log, unsigned lane, const struct weir_ask *ask,
		 uint64_t now_ns)
{
	struct wr_decision_view view = {
		.ask = ask, .now_ns = now_ns, .via = "test", .enforced = true};

	wr_serve_decision_note(wr_serve_decision_lane(log, lane), &view);
}

/* Returns the number of lines in a file. Checks that each line is complete. */
static uint64_t count_lines(const char *name)
{
	FILE *file = fopen(name, "r");
	char line[WR_DECISION_LINE];
	uint64_t count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof line, file)) {
		size_t len = strlen(line);

		assert_memory_equal(line, "{\"time\":\"", 9);
		assert_string_equal(line + len - 2, "}\n");
		count++;
	}
	fclose(file);
	return count;
}

static struct wr_serve_decision_log_tally tally_of(struct wr_serve_decision_log *log)
{
	struct wr_serve_decision_log_tally tally;

	wr_serve_decision_log_sum(log, &tally);
	return tally;
}

static void wait_written(struct wr_serve_decision_log *log, uint64_t lines)
{
	for (int i = 0; i < 20000 && tally_of(log).written < lines; i++)
		usleep(1000);
	assert_int_equal(tally_of(log).written, lines);
}

static void test_refusals_up_to_a_rate(void **state)
{
	struct wr_serve_decision_log *log = open_log(path, 3, "0", 2);
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	assert_int_equal(rig_ask(&rig, "user=1"), WEIR_ADMIT);
	note(log, 0, rig.ask,
	     NOW_NS); /* not logged: the request is not refused, and the share is 0 */
	assert_int_equal(rig_ask(&rig, "user=1"), WEIR_REFUSE);
	for (int i = 0; i < 5; i++)
		note(log, (unsigned)i % 2, rig.ask, NOW_NS + (uint64_t)i);
	assert_int_equal(tally_of(log).held, 2);
	note(log, 0, rig.ask, NOW_NS + SECOND_NS - 1);
	assert_int_equal(tally_of(log).held, 3);
	note(log, 0, rig.ask, NOW_NS + SECOND_NS);
	assert_int_equal(tally_of(log).held, 3);
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	wait_written(log, 4);
	wr_serve_decision_log_close(log);
	assert_int_equal(count_lines(path), 4);
	rig_close(&rig);
}

static void test_share_of_the_rest(void **state)
{
	static const struct {
		const char *share;
		uint64_t least, most;
	} cases[] = {{"100%", 20000, 20000},
		     {"0", 0, 0},
		     {"25", 4694, 5306}}; /* within five standard deviations */
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	rig_ask(&rig, "free=1");
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct wr_serve_decision_log *log = open_log(path, 0, cases[c].share, 1);
		struct wr_serve_decision_log_tally tally;

		assert_int_equal(wr_serve_decision_log_start(log), 0);
		for (int i = 0; i < 20000; i++) {
			note(log, 0, rig.ask, NOW_NS);
			if (i % 500 == 0)
				usleep(1000);
		}
		for (int i = 0; i < 20000; i++) {
			tally = tally_of(log);
			if (tally.written + tally.lost >= cases[c].least)
				break;
			usleep(1000);
		}
		wr_serve_decision_log_sum(log, &tally);
		wr_serve_decision_log_close(log);
		assert_true(count_lines(path) + tally.lost >= cases[c].least);
		assert_true(count_lines(path) + tally.lost <= cases[c].most);
	}
	rig_close(&rig);
}

static void note_settled(struct wr_serve_decision_log *log, const struct weir_ask *ask)
{
	struct wr_decision_view view = {.ask = ask, .now_ns = NOW_NS, .via = "test"};

	wr_serve_decision_note_settled(wr_serve_decision_lane(log, 0), &view);
}

/* A settlement is logged if it is in the sample. A request that was not settled has none. */
static void test_settlements(void **state)
{
	struct wr_serve_decision_log *log = open_log(path, 1000, "100%", 1);
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	assert_int_equal(rig_ask(&rig, "free=1"), WEIR_ADMIT);
	note_settled(log, rig.ask);
	assert_int_equal(weir_ask_settle(rig.ask, 7, rig.now_ns), 0);
	note_settled(log, rig.ask);
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	wait_written(log, 1);
	wr_serve_decision_log_close(log);
	assert_int_equal(count_lines(path), 1);
	log = open_log(path, 1000, "0", 1);
	note_settled(log, rig.ask);
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	wr_serve_decision_log_close(log);
	assert_int_equal(count_lines(path), 0);
	rig_close(&rig);
}

/* While no writer thread runs, a ring fills up. Lines that do not fit are lost and counted. */
static void test_full(void **state)
{
	struct wr_serve_decision_log *log = open_log(path, 1000000, "0", 1);
	struct wr_serve_decision_log_tally tally;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	rig_ask(&rig, "user=1");
	rig_ask(&rig, "user=1");
	for (int i = 0; i < 5000; i++)
		note(log, 0, rig.ask, NOW_NS);
	tally = tally_of(log);
	assert_true(tally.lost > 3000 && tally.lost < 4500);
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	wait_written(log, 5000 - tally.lost);
	note(log, 0, rig.ask, NOW_NS); /* fits, because the ring was emptied */
	wait_written(log, 5001 - tally.lost);
	wr_serve_decision_log_close(log);
	assert_int_equal(count_lines(path), 5001 - tally.lost);
	rig_close(&rig);
}

struct loop {
	struct wr_serve_decision_log *log;
	const struct weir_ask *ask;
	unsigned number;
};

static void *run_loop(void *argument)
{
	const struct loop *loop = argument;

	for (int i = 0; i < 20000; i++)
		note(loop->log, loop->number, loop->ask, NOW_NS);
	return NULL;
}

static void test_loops_at_once(void **state)
{
	struct wr_serve_decision_log *log = open_log(path, 1000000, "0", 3);
	struct wr_serve_decision_log_tally tally;
	struct loop loops[3];
	pthread_t threads[3];
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	rig_ask(&rig, "user=1");
	rig_ask(&rig, "user=1");
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	for (unsigned i = 0; i < 3; i++) {
		loops[i] = (struct loop){log, rig.ask, i};
		pthread_create(&threads[i], NULL, run_loop, &loops[i]);
	}
	wr_serve_decision_log_reopen(log);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	wait_written(log, 60000 - tally_of(log).lost);
	tally = tally_of(log);
	wr_serve_decision_log_close(log);
	assert_int_equal(count_lines(path), 60000 - tally.lost);
	rig_close(&rig);
}

static void test_opened_again(void **state)
{
	struct wr_serve_decision_log *log = open_log(path, 100, "0", 1);
	struct stat found;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	rig_ask(&rig, "user=1");
	rig_ask(&rig, "user=1");
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	note(log, 0, rig.ask, NOW_NS);
	wait_written(log, 1);
	assert_int_equal(rename(path, moved), 0);
	wr_serve_decision_log_reopen(log);
	for (int i = 0; i < 20000 && stat(path, &found) < 0; i++)
		usleep(1000);
	note(log, 0, rig.ask, NOW_NS);
	wait_written(log, 2);
	wr_serve_decision_log_close(log);
	assert_int_equal(count_lines(moved), 1);
	assert_int_equal(count_lines(path), 1);
	assert_int_equal(stat(path, &found), 0);
	assert_int_equal(found.st_mode & 0137, 0); /* only owner and group have access */
	rig_close(&rig);
}

/* If the reader of a pipe does not read, neither the loops nor the shutdown wait for it. */
static void test_slow_reader(void **state)
{
	struct wr_serve_decision_log *log;
	char name[64];
	struct rig rig;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	snprintf(name, sizeof name, "/proc/self/fd/%d", ends[1]);
	log = open_log(name, 1000000, "0", 1);
	rig_open(&rig, rules, "api");
	rig_ask(&rig, "user=1");
	rig_ask(&rig, "user=1");
	assert_int_equal(wr_serve_decision_log_start(log), 0);
	for (int i = 0; i < 5000; i++)
		note(log, 0, rig.ask, NOW_NS);
	assert_true(tally_of(log).lost > 0);
	wr_serve_decision_log_close(log);
	close(ends[0]);
	close(ends[1]);
	rig_close(&rig);
}

static void test_wrong_settings(void **state)
{
	static const char *const shares[] = {"", "x", "101", "-1", "5%%", "nan", "1 %"};
	struct wr_settings settings = {.decision_log = path};
	struct wr_serve_decision_log *log;
	struct weir_error error;

	(void)state;
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		settings.decision_log_share = shares[i];
		assert_int_equal(wr_serve_decision_log_open(&settings, 1, &log, &error),
				 WEIR_EINVAL);
		assert_null(log);
	}
	settings = (struct wr_settings){.decision_log = "/no/such/folder/log"};
	assert_int_equal(wr_serve_decision_log_open(&settings, 1, &log, &error), WEIR_ESYS);
	assert_non_null(strstr(error.text, "--decision-log /no/such/folder/log: No such file"));
	settings = (struct wr_settings){0};
	assert_int_equal(wr_serve_decision_log_open(&settings, 1, &log, &error), 0);
	assert_null(log);
	assert_null(wr_serve_decision_lane(log, 0));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals_up_to_a_rate),
		cmocka_unit_test(test_share_of_the_rest),
		cmocka_unit_test(test_settlements),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_loops_at_once),
		cmocka_unit_test(test_opened_again),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_wrong_settings),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
