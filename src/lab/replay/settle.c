/* Settles the requests of a replay by the responses in the log. Called by replay.c.
 *
 * A request with something to settle stays open until the end of its response, so that it holds its
 * reserved units and its slots as in production. The number of open requests is bounded. If one
 * more is needed, the request whose response ends first is settled early. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "lab/replay/inner.h"
#include "rules/cost.h"

static void release(struct wr_lab_replay *replay, struct wr_lab_open *open)
{
	open->next = replay->unused;
	replay->unused = open;
}

void wr_lab_replay_drop(struct wr_lab_replay *replay, struct wr_lab_open *open)
{
	weir_ask_done(open->ask);
	release(replay, open);
}

static void settle(struct wr_lab_replay *replay, struct wr_lab_open *open, uint64_t now_ns)
{
	weir_ask_settle_outcome(open->ask, &open->outcome, now_ns);
	wr_lab_replay_drop(replay, open);
}

static struct wr_lab_open *first_open(const struct wr_lab_replay *replay)
{
	struct wr_heap_node *node = wr_heap_first(&replay->open);

	return node ? wr_container_of(node, struct wr_lab_open, node) : NULL;
}

static void settle_first(struct wr_lab_replay *replay, uint64_t now_ns)
{
	struct wr_lab_open *open = first_open(replay);

	wr_heap_pop(&replay->open);
	settle(replay, open, open->end_ns < now_ns ? open->end_ns : now_ns);
}

void wr_lab_replay_settle_due(struct wr_lab_replay *replay, uint64_t now_ns)
{
	const struct wr_lab_open *open = first_open(replay);

	for (; __builtin_expect(open && open->end_ns <= now_ns, 0); open = first_open(replay))
		settle_first(replay, now_ns);
}

bool wr_lab_replay_make_open(struct wr_lab_replay *replay, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct wr_lab_open *open = calloc(1, sizeof *open);

		if (!open)
			return false;
		replay->open_count++;
		release(replay, open);
	}
	return true;
}

struct wr_lab_open *wr_lab_replay_begin(struct wr_lab_replay *replay, uint64_t now_ns)
{
	struct wr_lab_open *open;

	if (!replay->unused &&
	    (replay->open_count >= WR_LAB_OPEN_MAX || !wr_lab_replay_make_open(replay, 1))) {
		/* A request waits for its response, because at most two others are in use, and
		 * wr_lab_replay_open() has made two. */
		wr_assert(first_open(replay));
		replay->report.settled_early++;
		settle_first(replay, now_ns);
	}
	open = replay->unused;
	replay->unused = open->next;
	return open;
}

void wr_lab_replay_finish(struct wr_lab_replay *replay, struct wr_lab_open *open)
{
	const struct wr_lab_record *record = replay->record;

	if (weir_ask_settles(open->ask) <= 0) {
		wr_lab_replay_drop(replay, open);
		return;
	}
	/* The length of a response is only used if there was a response, that is, a status. */
	open->outcome = (struct weir_outcome){
		.size = sizeof open->outcome,
		.status = record->status || !record->bytes ? record->status : 200,
		.bytes = record->bytes,
		.time_ns = record->duration_ns,
	};
	open->end_ns = record->time_ns + record->duration_ns;
	if (record->duration_ns == 0 || open->end_ns > INT64_MAX ||
	    !wr_heap_add(&replay->open, &open->node))
		settle(replay, open, record->time_ns);
}

void wr_lab_replay_free_open(struct wr_lab_replay *replay)
{
	if (replay->prepared)
		wr_lab_replay_drop(replay, replay->prepared);
	wr_lab_replay_settle_due(replay, UINT64_MAX);
	while (replay->unused) {
		struct wr_lab_open *open = replay->unused;

		replay->unused = open->next;
		free(open);
	}
	wr_heap_free(&replay->open);
}

/* ---- the cost, for the comparison of algorithms ---- */

/* Reads the actual cost from the record. Returns false if the log does not have it. */
static bool read_actual(const struct wr_lab_record *record, const struct wr_rules_cost_source *from,
			int64_t *value)
{
	switch ((enum wr_cost_from)from->from) {
	case WR_COST_RESPONSE_BYTES:
		*value = record->bytes < INT64_MAX ? (int64_t)record->bytes : INT64_MAX;
		return record->status || record->bytes;
	case WR_COST_RESPONSE_STATUS:
		*value = record->status;
		return record->status != 0;
	case WR_COST_RESPONSE_TIME_MS:
		*value = (int64_t)((record->duration_ns + 999999) / 1000000);
		return true;
	case WR_COST_NUMBER:
		*value = from->otherwise;
		return true;
	case WR_COST_HEADER:
	case WR_COST_QUERY:
	case WR_COST_REQUEST_BYTES:
	case WR_COST_RESPONSE_HEADER:
	case WR_COST_RESPONSE_JSON:
		break;
	}
	return false;
}

int64_t wr_lab_replay_cost(const struct wr_lab_record *record, const struct weir_ask *ask,
			   const struct wr_ask_need *need)
{
	const struct wr_rules_request *request = ask->descriptors[need->descriptor].request;
	int64_t value = 0, units = need->need.cost;
	enum wr_cost_note note;

	if (!request)
		return units;
	if (request->count && !wr_rules_counts_status(request->count, record->status))
		return 0;
	if (request->cost && request->cost->settles) {
		bool found = read_actual(record, &request->cost->actual, &value);

		value = wr_rules_cost_value(&request->cost->actual, found, value, &note);
		units = value == WR_COST_RESERVED ? units : value;
	}
	return units;
}
