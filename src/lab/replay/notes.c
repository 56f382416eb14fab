/* Notes on parts of the rules that a log cannot show. Called at the end of a replay. */
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "lab/replay/inner.h"
#include "rules/requests.h"

/* ---- header fields ---- */

static struct wr_lab_name *find_name(struct wr_lab_replay *replay, struct weir_str name)
{
	/* A name is a text of the rules, so the same name has the same address. */
	for (size_t i = 0; i < replay->name_count; i++)
		if (replay->names[i].name.ptr == name.ptr)
			return &replay->names[i];
	for (size_t i = 0; i < replay->name_count; i++)
		if (wr_str_equal(replay->names[i].name, name))
			return &replay->names[i];
	if (replay->name_count == WR_LAB_NAMES_MAX)
		return NULL;
	replay->names[replay->name_count].name = name;
	return &replay->names[replay->name_count++];
}

size_t wr_lab_replay_header(void *context, struct weir_str name, struct weir_str *values,
			    size_t max)
{
	struct wr_lab_replay *replay = context;
	const struct wr_lab_record *record = replay->viewed;
	struct wr_lab_name *known = find_name(replay, name);
	size_t count = 0;

	for (uint32_t i = 0; i < record->header_count; i++) {
		if (!wr_str_equal_nocase(record->headers[i].name, name))
			continue;
		if (count < max)
			values[count] = record->headers[i].value;
		count++;
	}
	if (known) {
		known->asked++;
		known->found += count > 0;
	}
	return count;
}

/* ---- notes ---- */

static void add_note(struct wr_lab_replay *replay, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add_note(struct wr_lab_replay *replay, const char *format, ...)
{
	struct wr_lab_replay_report *report = &replay->report;
	va_list args;

	if (report->note_count == WR_LAB_NOTES)
		return;
	va_start(args, format);
	vsnprintf(report->notes[report->note_count++], WR_LAB_NOTE, format, args);
	va_end(args);
}

static void note_headers(struct wr_lab_replay *replay)
{
	for (size_t i = 0; i < replay->name_count; i++) {
		const struct wr_lab_name *name = &replay->names[i];

		if (name->asked && name->found == 0)
			add_note(replay,
				 "The log has no header field %.*s, which the rules use. The "
				 "requests were decided without it.",
				 (int)name->name.len, name->name.ptr);
	}
}

/* Notes a cost that cannot be read from the log. */
static void note_cost(struct wr_lab_replay *replay, const struct wr_rules_request *request)
{
	const struct wr_rules_cost *cost = request->cost;

	if (cost && cost->arrival.from == WR_COST_REQUEST_BYTES)
		add_note(replay,
			 "%s:%u: the log does not have request.bytes. Each request cost the "
			 "`default` of the entry.",
			 request->file, request->line);
	if (cost && cost->settles &&
	    (cost->actual.from == WR_COST_RESPONSE_HEADER ||
	     cost->actual.from == WR_COST_RESPONSE_JSON ||
	     (cost->actual.from == WR_COST_RESPONSE_TIME_MS && !replay->saw_duration) ||
	     (cost->actual.from != WR_COST_NUMBER && !replay->saw_status)))
		add_note(replay,
			 "%s:%u: the log does not have %.*s. Each request cost the `default` of "
			 "`actual`, or its reserved units.",
			 request->file, request->line, (int)cost->actual.label.len,
			 cost->actual.label.ptr);
	if (request->count && !replay->saw_status)
		add_note(replay, "%s:%u: the log has no status, so `count` counted every request.",
			 request->file, request->line);
}

static void note_requests(struct wr_lab_replay *replay)
{
	const struct wr_rules_requests *requests = replay->domain->more->requests;

	if (replay->descriptor_count || !requests)
		return;
	for (const struct wr_rules_request *request = requests->first; request;
	     request = request->next)
		note_cost(replay, request);
}

static void note_slots(struct wr_lab_replay *replay)
{
	for (size_t i = 0; i < replay->limit_count; i++) {
		const struct wr_lab_replay_limit *limit = &replay->limits[i];
		struct weir_str name = limit->rule->stat;

		if (limit->no_duration == 0)
			continue;
		if (limit->no_duration == limit->requests)
			add_note(
				replay,
				"%.*s cannot be replayed: the log has no durations of requests, so "
				"no request held a slot.",
				(int)name.len, name.ptr);
		else
			add_note(replay,
				 "%.*s: %llu of %llu requests have no duration in the log and held "
				 "no slot.",
				 (int)name.len, name.ptr, (unsigned long long)limit->no_duration,
				 (unsigned long long)limit->requests);
	}
}

static void note_clients(struct wr_lab_replay *replay)
{
	if (replay->report.totals.requests && !replay->saw_client)
		add_note(replay, "The log has no clients, so rules that use remote_address apply "
				 "to no request. --fields names the field of the client.");
}

static void note_deferred(struct wr_lab_replay *replay)
{
	if (replay->report.totals.deferred)
		add_note(replay, "Deferred requests are counted, but their later delivery is not "
				 "replayed.");
	if (replay->report.settled_early)
		add_note(replay,
			 "%llu responses were settled before their end, because more than %u "
			 "requests were in flight.",
			 (unsigned long long)replay->report.settled_early, WR_LAB_OPEN_MAX);
}

void wr_lab_replay_write_notes(struct wr_lab_replay *replay)
{
	replay->report.note_count = 0;
	note_clients(replay);
	note_headers(replay);
	note_requests(replay);
	note_slots(replay);
	note_deferred(replay);
}
