/* Decides the requests of a log and counts what each limit does. Called by the commands replay and
 * tune for each record. */
#include "lab/replay/replay.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "lab/record.h"
#include "lab/replay/inner.h"

/* ---- the request ---- */

void wr_lab_replay_fill_view(struct wr_lab_replay *replay, const struct wr_lab_record *record)
{
	replay->viewed = record;
	wr_lab_record_view(record, &replay->view);
}

static void add_descriptors(struct wr_lab_replay *replay, struct weir_ask *ask,
			    const struct wr_lab_record *record)
{
	if (replay->descriptor_count == 0) {
		wr_lab_replay_fill_view(replay, record);
		weir_ask_http(ask, &replay->view);
		return;
	}
	for (size_t i = 0; i < replay->descriptor_count; i++) {
		struct weir_entry entries[WR_LAB_ENTRIES_MAX];
		char status[16];
		size_t count =
			wr_lab_descriptor_make(&replay->descriptors[i], record, entries, status);

		if (count)
			weir_ask_add(ask, entries, count, NULL, WEIR_HITS_UNSET);
	}
}

/* ---- counting ---- */

static bool is_admitted(const struct weir_ask *ask)
{
	return ask->verdict == WEIR_ADMIT || ask->verdict == WEIR_DELAY;
}

/* Returns whether the need is counted for its limit. Needs on a counter that another need of the
 * request takes from, and limits that were replaced, are not. */
static bool is_counted(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	return &ask->needs[need->same_as] == need && !need->replaced &&
	       (need->need.cost > 0 || need->counts);
}

static void count_second(struct wr_lab_replay_limit *limit, uint64_t time_ns, bool admitted)
{
	uint64_t second_s = time_ns / WR_SECOND_NS;

	if (second_s != limit->second_s) {
		limit->second_s = second_s;
		limit->second_offered = limit->second_admitted = 0;
	}
	limit->second_offered++;
	limit->second_admitted += admitted;
	if (limit->second_offered > limit->peak_offered)
		limit->peak_offered = limit->second_offered;
	if (limit->second_admitted > limit->peak_admitted)
		limit->peak_admitted = limit->second_admitted;
}

static void note_wait(struct wr_lab_replay_limit *limit, const struct weir_decision *decision)
{
	if (decision->retry_after_ns == WEIR_NEVER)
		limit->never++;
	else if (decision->retry_after_ns > limit->longest_wait_ns)
		limit->longest_wait_ns = decision->retry_after_ns;
}

static void note_delay(struct wr_lab_replay_limit *limit, const struct weir_decision *decision)
{
	limit->delayed++;
	if (decision->delay_ns > limit->longest_delay_ns)
		limit->longest_delay_ns = decision->delay_ns;
}

/* Counts the need in the numbers of its limit. Returns whether the limit refused the request, or
 * would have refused it. */
static bool count_verdict(struct wr_lab_replay_limit *limit, const struct weir_ask *ask,
			  const struct wr_ask_need *need)
{
	const struct weir_decision *decision = &need->need.decision;

	limit->requests++;
	if (decision->admitted) {
		limit->admitted += is_admitted(ask);
		limit->elsewhere += !is_admitted(ask);
		if (decision->delay_ns && is_admitted(ask))
			note_delay(limit, decision);
		return false;
	}
	if (!is_admitted(ask) && need->class == WR_COUNTED) {
		limit->elsewhere++;
		return false;
	}
	note_wait(limit, decision);
	if (is_admitted(ask))
		limit->would_refuse++;
	else if (ask->verdict == WEIR_DEFER)
		limit->deferred++;
	else
		limit->refused++;
	return true;
}

static void count_refused_key(struct wr_lab_replay *replay, uint32_t at, const struct weir_ask *ask,
			      const struct wr_ask_need *need)
{
	char text[WR_LAB_TOP_TEXT + 1];

	if (wr_lab_top_count(&replay->top, at, need->need.key.tag))
		wr_lab_top_name(&replay->top,
				(struct weir_str){text, wr_lab_replay_key_text(replay, ask, need,
									       text, sizeof text)});
}

static enum wr_lab_replay_track track_of(const struct weir_ask *ask, bool refused)
{
	if (!refused)
		return is_admitted(ask) ? WR_LAB_TRACK_ADMITTED : WR_LAB_TRACK_ELSEWHERE;
	return ask->verdict == WEIR_DEFER ? WR_LAB_TRACK_DEFERRED : WR_LAB_TRACK_REFUSED;
}

/* Adds the request to the timeline of its limit. The first limits with requests get a timeline. */
static void count_over_time(struct wr_lab_replay *replay, struct wr_lab_replay_limit *limit,
			    const struct weir_ask *ask, bool refused)
{
	if (!limit->timeline && replay->timeline_count < WR_LAB_TIMELINES) {
		replay->timeline_count++;
		limit->timeline = calloc(1, sizeof *limit->timeline);
	}
	if (limit->timeline)
		wr_lab_timeline_add(limit->timeline, track_of(ask, refused),
				    replay->record->time_ns, 1);
}

static void count_need(struct wr_lab_replay *replay, const struct weir_ask *ask,
		       const struct wr_ask_need *need)
{
	uint32_t at = replay->by_policy[need->policy];
	struct wr_lab_replay_limit *limit = &replay->limits[at];
	const struct wr_lab_record *record = replay->record;
	bool refused = count_verdict(limit, ask, need);

	count_second(limit, record->time_ns, is_admitted(ask));
	wr_lab_keys_mark(&replay->keys, at, need->need.key.tag, refused ? WR_LAB_MARK_REFUSED : 0);
	if (refused)
		count_refused_key(replay, at, ask, need);
	if (wr_ask_need_is_slot(need) && record->duration_ns == 0)
		limit->no_duration++;
	if (replay->timelines)
		count_over_time(replay, limit, ask, refused);
	if (replay->algorithms)
		wr_lab_algorithms_feed(replay->algorithms, at, need->need.key.tag,
				       wr_lab_replay_cost(record, ask, need), record->time_ns);
}

/* Counts the request in the totals. Returns what became of it. */
static enum wr_lab_verdict count_request(struct wr_lab_replay *replay, const struct weir_ask *ask,
					 bool limited)
{
	struct wr_lab_replay_totals *totals = &replay->report.totals;

	if (ask->unreadable && wr_lab_status_is_from_server(replay->record->status)) {
		totals->no_request++;
		return WR_LAB_NOT_DECIDED;
	}
	if (is_admitted(ask)) {
		totals->exempt += ask->allowed;
		totals->unlimited += !ask->allowed && !limited;
		totals->admitted += !ask->allowed && limited;
		totals->delayed += ask->verdict == WEIR_DELAY;
		return WR_LAB_ADMITTED;
	}
	if (ask->unreadable)
		totals->malformed++;
	else if (ask->denied)
		totals->missing++;
	else if (ask->crowded)
		totals->too_many++;
	else if (ask->verdict == WEIR_DEFER)
		totals->deferred++;
	else
		totals->refused++;
	return WR_LAB_REFUSED;
}

uint64_t wr_lab_replay_client(const struct wr_lab_record *record)
{
	return XXH3_64bits(record->client.ptr, record->client.len);
}

/* Counts the client of the record, and its refusal. */
static void count_client(struct wr_lab_replay *replay, uint64_t client, enum wr_lab_verdict verdict)
{
	uint32_t group = (uint32_t)replay->limit_count;
	bool refused = verdict == WR_LAB_REFUSED;

	wr_lab_keys_mark(&replay->keys, group, client, refused ? WR_LAB_MARK_REFUSED : 0);
	if (refused && wr_lab_top_count(&replay->top, group, client))
		wr_lab_top_name(&replay->top, replay->record->client);
}

/* Counts the decision. Returns what became of the request. */
static enum wr_lab_verdict count_decision(struct wr_lab_replay *replay, const struct weir_ask *ask)
{
	enum wr_lab_verdict verdict;
	bool limited = false;

	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_counted(ask, &ask->needs[i])) {
			limited = true;
			count_need(replay, ask, &ask->needs[i]);
		}
	verdict = count_request(replay, ask, limited);
	if (replay->timelines && verdict != WR_LAB_NOT_DECIDED)
		wr_lab_timeline_add(replay->timeline, track_of(ask, verdict == WR_LAB_REFUSED),
				    replay->record->time_ns, 1);
	return verdict;
}

/* ---- feeding ---- */

static void note_record(struct wr_lab_replay *replay, const struct wr_lab_record *record)
{
	struct wr_lab_replay_totals *totals = &replay->report.totals;

	replay->record = record;
	if (totals->requests++ == 0)
		totals->first_ns = record->time_ns;
	if (record->time_ns > totals->last_ns)
		totals->last_ns = record->time_ns;
	replay->saw_client |= record->client.len != 0;
	replay->saw_status |= record->status != 0;
	replay->saw_duration |= record->duration_ns != 0;
}

/* Begins the request of a record: finds its limits and keys. The processor then loads the counters
 * from the table and the statistics of the keys, which the decision will need. */
static struct wr_lab_open *begin_request(struct wr_lab_replay *replay,
					 const struct wr_lab_record *record)
{
	struct wr_lab_open *open = wr_lab_replay_begin(replay, record->time_ns);
	struct weir_ask *ask;

	weir_ask_init(open->memory, sizeof open->memory, replay->engine, replay->domain->key, &ask);
	open->ask = ask;
	open->client = wr_lab_replay_client(record);
	if (record->cost != 1)
		weir_ask_hits(ask, record->cost > 0 ? record->cost : 0);
	add_descriptors(replay, ask, record);
	wr_lab_keys_prefetch(&replay->keys, open->client);
	for (uint8_t i = 0; i < ask->need_count; i++)
		wr_lab_keys_prefetch(&replay->keys, ask->needs[i].need.key.tag);
	return open;
}

static void prepare(struct wr_lab_replay *replay, const struct wr_lab_record *next)
{
	if (!wr_lab_record_has_request(next))
		return;
	replay->prepared = begin_request(replay, next);
	replay->prepared_record = next;
}

/* Returns the request of the record, which prepare() has perhaps begun. */
static struct wr_lab_open *take_request(struct wr_lab_replay *replay,
					const struct wr_lab_record *record)
{
	struct wr_lab_open *open = replay->prepared;

	replay->prepared = NULL;
	if (!open)
		return begin_request(replay, record);
	wr_assert(replay->prepared_record == record);
	return open;
}

enum wr_lab_verdict wr_lab_replay_feed(struct wr_lab_replay *replay,
				       const struct wr_lab_record *record,
				       const struct wr_lab_record *next)
{
	struct wr_lab_open *open;
	enum wr_lab_verdict verdict;

	wr_lab_replay_settle_due(replay, record->time_ns);
	note_record(replay, record);
	if (!wr_lab_record_has_request(record)) {
		replay->report.totals.no_request++;
		return WR_LAB_NOT_DECIDED;
	}
	open = take_request(replay, record);
	if (next)
		prepare(replay, next);
	if (weir_ask_decide(open->ask, record->time_ns) < 0) {
		replay->report.totals.undecided++;
		wr_lab_replay_drop(replay, open);
		return WR_LAB_NOT_DECIDED;
	}
	verdict = count_decision(replay, open->ask);
	count_client(replay, open->client, verdict);
	wr_lab_replay_finish(replay, open);
	return verdict;
}

/* ---- the report ---- */

static void count_keys(struct wr_lab_replay *replay)
{
	uint32_t group = (uint32_t)replay->limit_count;

	for (uint32_t i = 0; i < replay->limit_count; i++) {
		struct wr_lab_replay_limit *limit = &replay->limits[i];

		limit->keys = wr_lab_keys_all(&replay->keys, i);
		limit->keys_refused = wr_lab_keys_count(&replay->keys, i, WR_LAB_MARK_REFUSED);
		limit->keys_exact = wr_lab_keys_exact(&replay->keys, i);
	}
	replay->report.clients = wr_lab_keys_all(&replay->keys, group);
	replay->report.clients_refused =
		wr_lab_keys_count(&replay->keys, group, WR_LAB_MARK_REFUSED);
	replay->report.clients_exact = wr_lab_keys_exact(&replay->keys, group);
}

void wr_lab_replay_end(struct wr_lab_replay *replay)
{
	struct wr_lab_replay_report *report = &replay->report;
	struct weir_info info = {.size = sizeof info};

	wr_lab_replay_settle_due(replay, UINT64_MAX);
	count_keys(replay);
	if (weir_info(replay->table, report->totals.last_ns, &info) == 0) {
		report->evicted = info.evicted;
		report->log_evicted = info.log_evicted;
		report->log_approximate = info.log_approximate;
		report->log_full = info.log_full;
	}
	report->domain = replay->domain->key;
	report->limits = replay->limits;
	report->limit_count = replay->limit_count;
	report->timeline = replay->timeline;
	wr_lab_replay_write_notes(replay);
}

const struct wr_lab_replay_report *wr_lab_replay_report(const struct wr_lab_replay *replay)
{
	return &replay->report;
}

size_t wr_lab_replay_top(const struct wr_lab_replay *replay, size_t at,
			 const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS])
{
	wr_assert(at < replay->limit_count);
	return wr_lab_top_find(&replay->top, (uint32_t)at, found, WR_LAB_TOP_KEYS);
}

size_t wr_lab_replay_top_clients(const struct wr_lab_replay *replay,
				 const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS])
{
	return wr_lab_top_find(&replay->top, (uint32_t)replay->limit_count, found, WR_LAB_TOP_KEYS);
}

const struct wr_lab_algorithms_limit *wr_lab_replay_algorithms(const struct wr_lab_replay *replay,
							       size_t at)
{
	return replay->algorithms ? wr_lab_algorithms_result(replay->algorithms, at) : NULL;
}
