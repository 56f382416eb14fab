/* Logs in memory, and the replay of proposed rules on them, for the tests of tune. */
#ifndef TEST_LAB_TUNE_TEST_H
#define TEST_LAB_TUNE_TEST_H

#include "lab/tune/inner.h"
#include "lab/replay/replay_test.h"

#define HOUR_NS (60 * MINUTE_NS)

/* A log in memory. */
struct trace_item {
	uint64_t after_ns;
	uint32_t client;
	const char *method, *target, *user;
	uint32_t status;
};

struct trace {
	struct trace_item *items;
	size_t count, cap;
};

static const struct wr_lab_tune_opts any_unit = {.unit = WR_LAB_UNIT_COUNT};

/* Adds a request GET of client `client` at noon plus `after_ns`. Returns it; the pointer is valid until
 * the next request. */
struct trace_item *trace_add(struct trace *trace, uint32_t client, const char *target,
			     uint64_t after_ns);

/* Puts the requests in the order of their times. */
void trace_sort(struct trace *trace);

/* Returns the record of a request. Writes the address of its client. */
struct wr_lab_record trace_record(const struct trace_item *item, char client[24]);

/* Tunes a log. The level is 99.9 % if opts has none. Fails the test if that is not possible. */
struct wr_lab_tune *tune_trace(const struct trace *trace, struct wr_lab_tune_opts opts);

/* Finds a route by its text. */
const struct wr_lab_tune_route *tune_route(const struct wr_lab_tune *tune, const char *text);

/* Returns the proposed rules, which the caller frees. */
char *tune_yaml(const struct wr_lab_tune *tune);

/* Replays the proposed rules. Returns the number of clients from which a request was refused. Sets
 * *by_limits to the number of requests that limits refused, unless it is NULL. */
uint64_t tune_replay_with(const struct wr_lab_tune *tune, const struct trace *trace,
			  uint64_t *by_limits);
uint64_t tune_replay(const struct wr_lab_tune *tune, const struct trace *trace);

#endif
