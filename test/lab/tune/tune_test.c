#include "lab/tune/tune_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct trace_item *trace_add(struct trace *trace, uint32_t client, const char *target,
			     uint64_t after_ns)
{
	if (trace->count == trace->cap) {
		trace->cap = trace->cap ? 2 * trace->cap : 1024;
		trace->items = realloc(trace->items, trace->cap * sizeof *trace->items);
		assert_non_null(trace->items);
	}
	trace->items[trace->count] = (struct trace_item){after_ns, client, "GET", target, "", 200};
	return &trace->items[trace->count++];
}

static int compare_times(const void *a, const void *b)
{
	const struct trace_item *x = a, *y = b;

	return x->after_ns < y->after_ns ? -1 : x->after_ns > y->after_ns;
}

void trace_sort(struct trace *trace)
{
	qsort(trace->items, trace->count, sizeof *trace->items, compare_times);
}

struct wr_lab_record trace_record(const struct trace_item *item, char client[24])
{
	struct wr_lab_record record;

	snprintf(client, 24, "10.%u.%u.%u", item->client >> 16 & 255, item->client >> 8 & 255,
		 item->client & 255);
	record = replay_record(client, item->after_ns);
	record.method = wr_str(item->method);
	record.target = wr_str(item->target);
	record.user = wr_str(item->user);
	record.status = item->status;
	return record;
}

struct wr_lab_tune *tune_trace(const struct trace *trace, struct wr_lab_tune_opts opts)
{
	struct weir_error error = {0};
	struct wr_lab_tune *tune;

	if (opts.untouched_ppm == 0)
		opts.untouched_ppm = 999000;
	if (wr_lab_tune_open(&opts, &tune, &error) < 0)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < trace->count; i++) {
		char client[24];
		struct wr_lab_record record = trace_record(&trace->items[i], client);

		assert_int_equal(wr_lab_tune_feed(tune, &record, &error), 0);
	}
	if (wr_lab_tune_end(tune, &error) < 0)
		fail_msg("%s", error.text);
	return tune;
}

/* Finds a route by its text. */
const struct wr_lab_tune_route *tune_route(const struct wr_lab_tune *tune, const char *text)
{
	const struct wr_lab_tune_report *report = wr_lab_tune_report(tune);

	for (size_t i = 0; i < report->route_count; i++)
		if (strcmp(report->routes[i].text, text) == 0)
			return &report->routes[i];
	fail_msg("there is no route %s", text);
	return NULL;
}

/* ---- the proposed rules ---- */

/* Returns the proposed rules. Fails if they cause an error or a warning. */
char *tune_yaml(const struct wr_lab_tune *tune)
{
	struct wr_buf yaml;

	wr_buf_init(&yaml, 1 << 20);
	wr_lab_tune_yaml(tune, false, &yaml);
	assert_false(wr_buf_failed(&yaml));
	return wr_buf_release(&yaml, &(size_t){0});
}

/* Replays the proposed rules. Returns the number of clients from which a request was refused. Sets
 * *by_limits to the number of requests that limits refused, unless it is NULL. */
uint64_t tune_replay_with(const struct wr_lab_tune *tune, const struct trace *trace,
			  uint64_t *by_limits)
{
	char *yaml = tune_yaml(tune);
	struct wr_lab_replay *replay = replay_open(yaml, NULL);
	const struct wr_lab_replay_report *report;
	uint64_t refused;

	for (size_t i = 0; i < trace->count; i++) {
		char client[24];
		struct wr_lab_record record = trace_record(&trace->items[i], client);

		wr_lab_replay_feed(replay, &record, NULL);
	}
	report = replay_end(replay);
	refused = report->clients_refused;
	for (size_t i = 0; by_limits && i < report->limit_count; i++)
		*by_limits += report->limits[i].refused;
	wr_lab_replay_close(replay);
	free(yaml);
	return refused;
}

uint64_t tune_replay(const struct wr_lab_tune *tune, const struct trace *trace)
{
	return tune_replay_with(tune, trace, NULL);
}
