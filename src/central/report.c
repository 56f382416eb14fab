/* Reports: units that this node admitted on its own while a shard was unavailable, stored until the
 * shard is back. Called by send.c, late.c, call.c, shard.c and the timer.
 *
 * Units of one counter in one window are added up. A call reports the counters of one key under a
 * rising sequence number. For each key, Redis stores the latest sequence number of this loop for
 * one minute, so a report whose reply was lost can be sent again and counts once. Therefore a
 * report waits until the report before it is confirmed, and is dropped when Redis may have
 * forgotten its number. */
#include <stdio.h>
#include <string.h>

#include "central/inner.h"

#include "base/assert.h"

#define SEND_NS (200 * WR_MS_NS)
#define REPORTS_IN_FLIGHT_MAX 512u
/* How long an unconfirmed report is repeated. This is less than the minute for which Redis stores
 * the sequence number. */
#define REMEMBERED_NS (50000 * WR_MS_NS)

static struct wr_call **report_list(struct wr_central *central, const uint64_t key[2])
{
	return &central->reports.lists[key[0] % WR_REPORT_LISTS];
}

static void send_reports_at(struct wr_central *central, uint64_t mono_ns)
{
	if (central->reports.calls == 0)
		return;
	if (mono_ns < central->reports.send_at_ns)
		central->reports.send_at_ns = mono_ns;
	wr_central_wake_at(central, central->reports.send_at_ns);
}

void wr_central_reports_send_soon(struct wr_central *central)
{
	send_reports_at(central, central->mono_ns);
}

/* ---- storing ---- */

static uint64_t window_of(const struct wr_take *take)
{
	if (take->window_end_us)
		return take->window_start_us;
	return take->decided_us / take->period_us;
}

static bool is_same_sum(const struct wr_central_part *a, const struct wr_central_part *b)
{
	return wr_central_same_id(a, b) && window_of(&a->take) == window_of(&b->take);
}

/* Adds the units of `part` to the part of the call that has the same counter and window. That part
 * also gets the newer settings of the limit. Returns false if the call has no such part. */
static bool add_to_part(struct wr_call *call, const struct wr_central_part *part)
{
	for (struct wr_central_part *sum = call->first; sum; sum = sum->call_next) {
		int64_t cost = sum->take.cost;

		if (!is_same_sum(sum, part))
			continue;
		sum->take = part->take;
		if (__builtin_add_overflow(cost, part->take.cost, &sum->take.cost))
			sum->take.cost = INT64_MAX;
		return true;
	}
	return false;
}

/* Returns the newest unsent report to which the parts of `like` can be added. Returns NULL if there
 * is no such report. A report that was sent must not change. A counter whose units can be leased
 * has a report of its own. */
static struct wr_call *find_unsent(struct wr_central *central, const struct wr_call *like)
{
	struct wr_call *found = NULL;

	for (struct wr_call *call = *report_list(central, like->key); call;
	     call = call->report_next)
		if (wr_central_same_key(call->key, like->key) && call->report_seq == 0 &&
		    call->leased == like->leased &&
		    (!call->leased || is_same_sum(call->first, like->first)))
			found = call;
	return found;
}

static void append_report(struct wr_central *central, struct wr_call *call)
{
	struct wr_call **at = report_list(central, call->key);

	while (*at)
		at = &(*at)->report_next;
	*at = call;
	call->report_next = NULL;
	central->reports.calls++;
}

static void lose_report(struct wr_central *central, struct wr_central_part *part)
{
	struct wr_central_reports *reports = &central->reports;

	if (!reports->full_logged)
		wr_central_log(
			central, WR_CENTRAL_LOG_WARN,
			"Redis is unavailable and reports of %u counters are waiting; requests "
			"of other counters will not be reported",
			WR_REPORTS_MAX);
	reports->full_logged = true;
	central->counts.reports_lost++;
	wr_central_part_free(central, part);
}

/* Returns whether the call already has the counter. A counter must occur only once in a call,
 * because the script reads all counters of a call before it writes. So units of the next window go
 * into the next call. */
static bool has_counter(const struct wr_call *call, const struct wr_central_part *part)
{
	for (const struct wr_central_part *other = call->first; other; other = other->call_next)
		if (wr_central_same_id(other, part))
			return true;
	return false;
}

/* Moves the parts of the new report `call` into `unsent`, an older report that was not sent yet (or
 * NULL). Parts that do not fit stay in `call`. If all reports together have WR_REPORTS_MAX parts,
 * further parts are lost. */
static void merge_reports(struct wr_central *central, struct wr_call *unsent, struct wr_call *call)
{
	struct wr_central_reports *reports = &central->reports;
	struct wr_central_part *part = wr_call_detach_parts(call);

	while (part) {
		struct wr_central_part *next = part->call_next;

		wr_central_late_deduct(central, call, part);
		if (part->take.cost == 0 || (unsent && add_to_part(unsent, part))) {
			wr_central_part_free(central, part);
		} else if (reports->parts == WR_REPORTS_MAX) {
			lose_report(central, part);
		} else {
			bool fits = unsent && unsent->count < WR_TAKES_MAX &&
				    !has_counter(unsent, part);

			wr_call_add(fits ? unsent : call, part);
			reports->parts++;
		}
		part = next;
	}
}

void wr_central_reports_add(struct wr_central *central, struct wr_call *call)
{
	wr_assert_magic(call, WR_CALL_MAGIC);
	wr_assert(call->kind == WR_CALL_REPORT && !call->report_seq);
	merge_reports(central, find_unsent(central, call), call);
	if (call->count == 0)
		wr_call_free(central, call);
	else
		append_report(central, call);
	send_reports_at(central, central->mono_ns + SEND_NS);
}

/* Removes a part from a call that was not sent yet. */
static void drop_part(struct wr_central *central, struct wr_call *call,
		      const struct wr_central_part *dropped)
{
	struct wr_central_part *part = wr_call_detach_parts(call);

	while (part) {
		struct wr_central_part *next = part->call_next;

		if (part == dropped)
			wr_central_part_free(central, part);
		else
			wr_call_add(call, part);
		part = next;
	}
	central->reports.parts--;
}

/* Removes the call from its list and frees it. */
static void remove_report(struct wr_central *central, struct wr_call *call)
{
	struct wr_call **at = report_list(central, call->key);

	while (*at != call)
		at = &(*at)->report_next;
	*at = call->report_next;
	central->reports.calls--;
	central->reports.parts -= call->count;
	if (central->reports.parts < WR_REPORTS_MAX / 2)
		central->reports.full_logged = false;
	wr_call_free(central, call);
}

bool wr_central_reports_deduct(struct wr_central *central, const struct wr_central_part *late)
{
	for (struct wr_call *call = *report_list(central, late->key); call;
	     call = call->report_next)
		for (struct wr_central_part *part = call->first; part; part = part->call_next) {
			if (call->report_seq || !wr_central_late_matches(central, late, call, part))
				continue;
			part->take.cost -= late->take.cost;
			if (part->take.cost == 0)
				drop_part(central, call, part);
			if (call->count == 0)
				remove_report(central, call);
			return true;
		}
	return false;
}

/* ---- sending ---- */

static enum wr_call_written write_report(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_central *central = conn->central;
	struct wr_take takes[WR_TAKES_MAX];
	char reporter[WR_REDIS_KEY], text[WR_CENTRAL_KEY_TEXT];
	size_t count = 0;

	for (const struct wr_central_part *part = call->first; part; part = part->call_next) {
		takes[count] = part->take;
		takes[count].decided_us += (uint64_t)conn->shard->clock_us;
		count++;
	}
	wr_central_key_text(call->key, text);
	snprintf(reporter, sizeof reporter, "%s{%s}:r:%s", central->prefix, text,
		 central->reporter);
	conn->shard->counts.calls++;
	if (call->leased)
		return wr_central_lease_write(conn, call, reporter, &takes[0]) ? WR_CALL_WRITTEN
									       : WR_CALL_NO_ROOM;
	wr_call_write_script(conn, call, WR_SCRIPT_TAKE, 2 + count + wr_script_argc(takes, count));
	wr_command_number(&conn->out, (int64_t)count + 1);
	wr_call_write_part_keys(conn, call);
	wr_command_text(&conn->out, reporter);
	wr_script_args(takes, count, call->report_seq, &conn->out);
	return wr_call_write_end(conn);
}

static void note_returned(struct wr_central *central, struct wr_call *call)
{
	call->report_in_flight = false;
	central->reports.in_flight--;
}

static void read_report(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = conn->central;

	(void)reply;
	wr_central_shard_on_success(conn->shard);
	conn->shard->counts.reported += call->count;
	note_returned(central, call);
	remove_report(central, call);
	if (central->reports.in_flight == 0)
		wr_central_reports_send_soon(central);
}

/* A report that Redis rejects as invalid is not repeated. */
static void on_report_failed(struct wr_central *central, struct wr_call *call)
{
	call->written = call->asking = call->eval = call->late = false;
	call->tries = 0;
	note_returned(central, call);
	if (central->freeing || call->fault == WR_FAULT_OTHER ||
	    call->fault == WR_FAULT_WRONGTYPE) {
		central->counts.reports_lost += call->count;
		remove_report(central, call);
		return;
	}
	send_reports_at(central, central->mono_ns + SEND_NS);
}

const struct wr_call_ops wr_call_report_ops = {.write = write_report,
					       .on_reply = read_report,
					       .on_failure = on_report_failed,
					       .keyed = true,
					       .feeds_breaker = true,
					       .script = WR_SCRIPT_TAKE};

/* Returns the time in µs for which a take can influence later decisions. */
static uint64_t lasting_us(const struct wr_take *take)
{
	if (take->window_end_us)
		return take->window_end_us - take->window_start_us;
	if (take->algorithm != WEIR_TOKEN_BUCKET && take->algorithm != WEIR_LEAKY_BUCKET)
		return 2 * take->period_us;
	if (take->limit == 0)
		return 0;
	return (uint64_t)((unsigned __int128)wr_take_capacity(take) * take->period_us /
			  take->limit);
}

bool wr_central_report_is_stale(const struct wr_central *central, const struct wr_take *take)
{
	uint64_t now_us = central->now_ns / 1000;

	return now_us > take->decided_us && now_us - take->decided_us > lasting_us(take);
}

static bool is_stale(const struct wr_central *central, const struct wr_call *call)
{
	for (const struct wr_central_part *part = call->first; part; part = part->call_next)
		if (!wr_central_report_is_stale(central, &part->take))
			return false;
	return true;
}

static bool is_behind_another(const struct wr_call *list, const struct wr_call *call)
{
	for (; list != call; list = list->report_next)
		if (wr_central_same_key(list->key, call->key))
			return true;
	return false;
}

static void send_report(struct wr_central *central, struct wr_call *call)
{
	if (call->report_seq == 0) {
		call->report_seq = central->reports.next_seq++;
		call->report_since_ns = central->mono_ns;
	}
	call->report_in_flight = true;
	central->reports.in_flight++;
	wr_call_send(central, call);
}

static bool can_send(struct wr_central *central, const struct wr_call *call)
{
	const struct wr_central_shard *shard = wr_central_key_shard(central, call->key);

	return shard && wr_central_shard_answers(shard);
}

/* Sends the report, drops it if it is too old, or leaves it for later. */
static void check_report(struct wr_central *central, struct wr_call *list, struct wr_call *call)
{
	if (call->report_in_flight)
		return;
	if (is_stale(central, call)) {
		central->counts.reports_stale += call->count;
		remove_report(central, call);
	} else if (call->report_seq && central->mono_ns - call->report_since_ns >= REMEMBERED_NS) {
		central->counts.reports_lost += call->count;
		remove_report(central, call);
	} else if (!is_behind_another(list, call) && can_send(central, call)) {
		send_report(central, call);
	}
}

void wr_central_reports_send_before(struct wr_central *central, const struct wr_call *take)
{
	struct wr_call *list = *report_list(central, take->key);
	const struct wr_central_shard *shard = wr_central_key_shard(central, take->key);
	const struct wr_call *oldest = shard && shard->conn ? shard->conn->waiting.first : NULL;

	wr_assert_magic(take, WR_CALL_MAGIC);
	/* Reports wait until Redis has replied to the calls that timed out. If such a reply says
	 * that Redis took units, late.c deducts these units from the report. */
	if (!shard || (oldest && oldest->late))
		return;
	for (struct wr_call *call = list; call; call = call->report_next)
		if (wr_central_same_key(call->key, take->key)) {
			if (!call->report_in_flight &&
			    central->reports.in_flight < REPORTS_IN_FLIGHT_MAX &&
			    can_send(central, call))
				send_report(central, call);
			return;
		}
}

void wr_central_reports_tick(struct wr_central *central)
{
	struct wr_central_reports *reports = &central->reports;

	if (central->mono_ns < reports->send_at_ns) {
		wr_central_wake_at(central, reports->send_at_ns);
		return;
	}
	reports->send_at_ns = UINT64_MAX;
	for (size_t i = 0; i < WR_REPORT_LISTS; i++)
		for (struct wr_call *call = reports->lists[i], *next; call; call = next) {
			next = call->report_next;
			if (reports->in_flight < REPORTS_IN_FLIGHT_MAX)
				check_report(central, reports->lists[i], call);
		}
	send_reports_at(central, central->mono_ns + SEND_NS);
}

/* Frees all reports. No report is in flight any more, because the shards are closed. */
void wr_central_reports_free(struct wr_central *central)
{
	for (size_t i = 0; i < WR_REPORT_LISTS; i++)
		while (central->reports.lists[i])
			remove_report(central, central->reports.lists[i]);
}
