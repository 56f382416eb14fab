/* weir_log_advice: rules with logs, and a table that was made with little memory for logs. */
#include "helper.h"

#include <string.h>

#define LOG "rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_window_log}\n"
#define COUNTER "rate_limit: {unit: day, requests_per_unit: 3"

static const char without[] = "domain: d\ndescriptors:\n- key: a\n  " COUNTER "}\n";
static const char with[] = "domain: d\ndescriptors:\n- key: a\n  " LOG "- key: b\n  " LOG;
static const char candidate[] =
	"domain: d\ndescriptors:\n- key: a\n  " COUNTER
	", candidates: [{algorithm: sliding_window_log, unit: day, requests_per_unit: 5}]}\n";

static uint64_t logs_of(const char *yaml)
{
	struct weir_rules_info info = {.size = sizeof info};
	struct weir_rules *rules = rig_rules(yaml);

	assert_int_equal(weir_rules_info(rules, &info), 0);
	weir_rules_free(rules);
	return info.logs;
}

static void rules_info_counts_logs(void **unused)
{
	(void)unused;
	assert_int_equal(logs_of(without), 0);
	assert_int_equal(logs_of(with), 2);
	assert_int_equal(logs_of(candidate), 1);
}

/* Calls weir_log_advice for a table that is made with these options. */
static int advise(struct weir_opts opts, const char *yaml, uint64_t log_memory, char text[1024])
{
	struct weir_rules *rules = rig_rules(yaml);
	struct weir_table *table;
	int advice;

	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	opts.log_bytes = log_memory;
	advice = weir_log_advice(table, &opts, rules, text, 1024);
	weir_close(table);
	weir_rules_free(rules);
	assert_int_equal(weir_remove(opts.name, opts.dir, NULL), 0);
	return advice;
}

static void too_little_log_memory_is_reported(void **unused)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "log-advice",
				 .dir = "/dev/shm",
				 .memory_bytes = 1 << 20,
				 .now_ns = NOW_NS};
	char text[1024];

	(void)unused;
	assert_int_equal(advise(opts, with, 0, text), 1);
	assert_non_null(strstr(text, "log-advice.v2 was made with 64K of 1M for logs"));
	assert_non_null(strstr(text, ": weir table resize log-advice 1M --log-memory 256K --dir "
				     "/dev/shm"));
	assert_int_equal(advise(opts, candidate, 0, text), 1);
	assert_int_equal(advise(opts, without, 0, text), 0);
	/* With an explicit --log-memory there is no advice. */
	assert_int_equal(advise(opts, with, 64 << 10, text), 0);
	opts.flags = WEIR_OPEN_LOGS;
	assert_int_equal(advise(opts, with, 0, text), 0);
	/* A quarter of the memory is 15 spans and a part of one, so it is rounded to whole
	 * spans. */
	opts.memory_bytes = (1 << 20) - 4096;
	assert_int_equal(advise(opts, with, 0, text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_info_counts_logs),
		cmocka_unit_test(too_little_log_memory_is_reported),
	};

	return cmocka_run_group_tests_name("limiter/log_advice", tests, NULL, NULL);
}
