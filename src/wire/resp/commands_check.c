/* Runs WEIR.CHECK, WEIR.PEEK and WEIR.RESET: reads descriptors and writes decisions. The decisions
 * are made by host->decider (wait.h). Called through the table of commands.c. */
#include "wire/resp/commands_check.h"

#include <inttypes.h>
#include <stdio.h>

#include <weir/control.h>

#include "base/str.h"
#include "limiter/ask.h"
#include "limiter/refund.h"
#include "wire/check/decision_json.h"
#include "wire/resp/wait.h"

#define MS_NS 1000000ull
#define TIME_MAX_MS 9000000000000 /* largest argument of TAKENAT */

/* Writes a bulk string whose text and length are constants. */
#define KEY(out, text, len)                                                                        \
	wr_reply_raw(out, "$" #len "\r\n" text "\r\n", sizeof("$" #len "\r\n" text "\r\n") - 1)

bool wr_resp_syntax_error(const struct wr_resp_arguments *reader, const char *why)
{
	wr_reply_error(reader->call->out, "ERR syntax error: %s", why);
	return false;
}

int wr_resp_read_option(struct wr_resp_arguments *reader, const char *name, int64_t least,
			int64_t most, int64_t *number)
{
	const struct wr_resp_call *call = reader->call;
	char why[96];

	reader->option = name;
	if (reader->at >= call->argc || !wr_str_equal_nocase(call->argv[reader->at], wr_str(name)))
		return 0;
	snprintf(why, sizeof why, "%s needs an integer from %" PRId64 " to %" PRId64, name, least,
		 most);
	if (reader->at + 1 == call->argc || !wr_resp_integer(call->argv[reader->at + 1], number) ||
	    *number < least || *number > most) {
		wr_resp_syntax_error(reader, why);
		return -1;
	}
	reader->at += 2;
	if (reader->at < call->argc)
		return 1;
	wr_resp_syntax_error(reader, "a descriptor has no keys");
	return -1;
}

static bool read_hits(struct wr_resp_arguments *reader)
{
	if (!reader->costs)
		return wr_resp_syntax_error(reader, "this command does not accept HITS");
	if (reader->has_hits)
		return wr_resp_syntax_error(reader, "HITS is given twice");
	if (reader->count)
		return wr_resp_syntax_error(reader,
					    "HITS must come before the first key of a descriptor");
	if (reader->at == reader->call->argc ||
	    !wr_resp_integer(reader->call->argv[reader->at], &reader->hits) ||
	    reader->hits < (reader->refunds ? -(int64_t)UINT32_MAX : 0) ||
	    reader->hits > (int64_t)UINT32_MAX)
		return wr_resp_syntax_error(
			reader, reader->refunds
					? "HITS needs an integer from -4294967295 to 4294967295"
					: "HITS needs an integer from 0 to 4294967295");
	reader->at++;
	reader->has_hits = true;
	return true;
}

static bool is_option(const struct wr_resp_arguments *reader, struct weir_str word)
{
	return reader->option && wr_str_equal_nocase(word, wr_str(reader->option));
}

/* Writes the error for an option that is repeated, or that comes after HITS or a key. */
static bool misplaced_option(const struct wr_resp_arguments *reader)
{
	char why[128];

	snprintf(why, sizeof why,
		 "%s can be given once, directly after the domain; a key of that name needs a "
		 "backslash",
		 reader->option);
	return wr_resp_syntax_error(reader, why);
}

static bool read_entry(struct wr_resp_arguments *reader, struct weir_str key,
		       struct weir_str source)
{
	if (reader->at == reader->call->argc)
		return wr_resp_syntax_error(reader, "a key has no value");
	if (reader->count == WR_RESP_ENTRIES_MAX)
		return wr_resp_syntax_error(reader, "a descriptor may have at most 32 entries");
	if (key.len && key.ptr[0] == '\\')
		key = wr_str_from(key, 1);
	reader->entries[reader->count++] =
		(struct weir_entry){key, reader->call->argv[reader->at++], source};
	return true;
}

/* Reads `source key value` after FROM. */
static bool read_from(struct wr_resp_arguments *reader)
{
	const struct weir_str *argv = reader->call->argv;
	struct weir_str key;

	if (reader->call->argc - reader->at < 3)
		return wr_resp_syntax_error(reader, "FROM needs a source, a key and a value");
	key = argv[reader->at + 1];
	if (wr_str_equal_nocase(key, WR_STR("from")))
		return wr_resp_syntax_error(reader, "FROM is given twice");
	if (wr_str_equal_nocase(key, WR_STR("hits")) || is_option(reader, key) ||
	    wr_str_equal(key, WR_STR("|")))
		return wr_resp_syntax_error(reader, "FROM needs a source, a key and a value");
	reader->at += 2;
	return read_entry(reader, key, argv[reader->at - 2]);
}

bool wr_resp_read_descriptor(struct wr_resp_arguments *reader)
{
	reader->count = 0;
	reader->has_hits = false;
	while (reader->at < reader->call->argc) {
		struct weir_str word = reader->call->argv[reader->at++];
		bool good;

		if (word.len == 1 && word.ptr[0] == '|') {
			if (reader->at == reader->call->argc)
				return wr_resp_syntax_error(reader,
							    "no descriptor follows the last |");
			break;
		}
		if (wr_str_equal_nocase(word, WR_STR("hits"))) {
			good = read_hits(reader);
		} else if (wr_str_equal_nocase(word, WR_STR("from"))) {
			good = read_from(reader);
		} else if (is_option(reader, word)) {
			good = misplaced_option(reader);
		} else {
			good = read_entry(reader, word, (struct weir_str){0});
		}
		if (!good)
			return false;
	}
	return reader->count || wr_resp_syntax_error(reader, "a descriptor has no keys");
}

static bool write_error(struct wr_resp_out *out, int rc)
{
	wr_reply_error(out, "ERR %s", weir_strerror(rc));
	return false;
}

bool wr_resp_add_descriptors(struct weir_ask *ask, struct wr_resp_arguments *reader)
{
	while (reader->at < reader->call->argc) {
		int rc;

		if (!wr_resp_read_descriptor(reader))
			return false;
		rc = weir_ask_add(ask, reader->entries, reader->count, NULL, reader->hits);
		if (rc != 0)
			return write_error(reader->call->out, rc);
	}
	if (wr_ask_gives_back(ask) && !wr_resp_operates(reader->call)) {
		wr_reply_error(reader->call->out, WR_RESP_NO_REFUNDS);
		return false;
	}
	return !wr_ask_lacks_time(ask) ||
	       wr_resp_syntax_error(reader, "negative HITS need TAKENAT, the time at which the "
					    "units were taken; WEIR.RESERVE and WEIR.COMMIT give "
					    "units back exactly");
}

/* ---- the answer ---- */

static int64_t ms_up(uint64_t ns)
{
	return ns == WEIR_NEVER ? -1 : (int64_t)(ns / MS_NS + (ns % MS_NS != 0));
}

/* Writes a number that belongs to a limit, or null if no limit applies. */
static void write_number(struct wr_resp_out *out, const struct weir_status *status, int64_t number)
{
	if (status->flags & WEIR_STATUS_LIMITED)
		wr_reply_integer(out, number);
	else
		wr_reply_null(out);
}

/* Writes four members of the reply: limit, remaining, reset_after_ms and rule. */
static void write_reply_limit(struct wr_resp_out *out, const struct weir_status *status)
{
	KEY(out, "limit", 5);
	write_number(out, status, status->limit);
	KEY(out, "remaining", 9);
	write_number(out, status, status->remaining);
	KEY(out, "reset_after_ms", 14);
	write_number(out, status, ms_up(status->decision.reset_after_ns));
	KEY(out, "rule", 4);
	if (status->rule.len)
		wr_reply_bulk(out, status->rule);
	else
		wr_reply_null(out);
}

static void write_waits(struct wr_resp_out *out, uint64_t retry_after_ns, uint64_t delay_ns)
{
	KEY(out, "retry_after_ms", 14);
	wr_reply_integer(out, ms_up(retry_after_ns));
	KEY(out, "delay_ms", 8);
	wr_reply_integer(out, ms_up(delay_ns));
}

static void write_descriptor(struct wr_resp_out *out, const struct weir_ask *ask, size_t at)
{
	struct weir_status status = {.size = sizeof status};

	if (weir_ask_status(ask, at, &status) != 0)
		status = (struct weir_status){.code = WEIR_STATUS_OK};
	wr_reply_map(out, 7);
	KEY(out, "code", 4);
	if (status.code == WEIR_STATUS_OVER_LIMIT)
		KEY(out, "over_limit", 10);
	else
		KEY(out, "ok", 2);
	write_reply_limit(out, &status);
	write_waits(out, status.decision.retry_after_ns, status.decision.delay_ns);
}

void wr_resp_write_decision(struct wr_resp_wait *wait, struct wr_resp_out *out, uint32_t more)
{
	struct wr_resp_host *host = wait->session->host;
	struct weir_status tightest = {.size = sizeof tightest};
	struct weir_result result = {.size = sizeof result};
	bool several;

	weir_ask_result(wait->ask, &result);
	if (weir_ask_tightest(wait->ask, &tightest) != 0)
		tightest = (struct weir_status){0};
	if (result.verdict == WEIR_REFUSE)
		wr_resp_count(&host->tally.limited);
	if (result.verdict != (uint32_t)wait->verdict)
		result = (struct weir_result){.verdict = (uint32_t)wait->verdict,
					      .http_status = 200,
					      .descriptors = result.descriptors};
	several = result.descriptors > 1;
	wr_reply_map(out, (several ? 9 : 8) + more);
	KEY(out, "verdict", 7);
	wr_reply_bulk(out, wr_decision_verdict_name((int)result.verdict));
	write_reply_limit(out, &tightest);
	write_waits(out, result.retry_after_ns, result.delay_ns);
	KEY(out, "status", 6);
	wr_reply_integer(out, result.http_status);
	if (!several)
		return;
	KEY(out, "descriptors", 11);
	wr_reply_array(out, result.descriptors);
	for (size_t i = 0; i < result.descriptors; i++)
		write_descriptor(out, wait->ask, i);
}

/* ---- the commands ---- */

static void write_check(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	if (wait->verdict < 0)
		write_error(out, wait->verdict);
	else
		wr_resp_write_decision(wait, out, 0);
}

static const struct wr_resp_wait_kind check_kind = {NULL, write_check, NULL};

static void run_check(const struct wr_resp_call *call, int64_t hits, bool costs)
{
	const struct wr_resp_decider *decider = call->host->decider;
	struct wr_resp_arguments reader = {
		.call = call, .at = 2, .costs = costs, .refunds = costs, .hits = hits};
	int64_t taken_ms = 0;
	struct wr_resp_wait *wait;
	int rc = 0;

	if (costs && wr_resp_read_option(&reader, "TAKENAT", 1, TIME_MAX_MS, &taken_ms) < 0)
		return;
	rc = decider->begin(call->host, call->argv[1], &wait);
	if (rc == 0 && taken_ms)
		weir_ask_taken_at(wait->ask, (uint64_t)taken_ms * MS_NS);
	if (rc != 0) {
		write_error(call->out, rc);
	} else if (!wr_resp_add_descriptors(wait->ask, &reader)) {
		decider->end(call->host, wait);
	} else {
		wr_resp_wait_init(wait, call->session, WR_RESP_DECIDER, &check_kind);
		decider->decide(call->host, wait, call->now_ns);
		wr_resp_wait_reply(wait, call->out);
	}
}

void wr_resp_command_check(const struct wr_resp_call *call)
{
	run_check(call, 1, true);
}

void wr_resp_command_peek(const struct wr_resp_call *call)
{
	run_check(call, 0, false);
}

/* Reads all descriptors before the first counter is reset, so that a command with a syntax error
 * resets nothing. */
void wr_resp_command_reset_counters(const struct wr_resp_call *call)
{
	struct wr_resp_arguments reader = {.call = call, .at = 2};
	struct weir_target target = {.size = sizeof target, .domain = call->argv[1]};
	struct weir_error error;
	int64_t counters = 0;

	while (reader.at < call->argc)
		if (!wr_resp_read_descriptor(&reader))
			return;
	for (reader.at = 2; reader.at < call->argc;) {
		int rc;

		wr_resp_read_descriptor(&reader);
		target.entries = reader.entries;
		target.count = reader.count;
		rc = call->host->decider->reset(call->host, &target, call->now_ns, &error);
		if (rc < 0 && rc != WEIR_ENOENT) {
			wr_reply_error(call->out, "ERR %s", error.text);
			return;
		}
		counters += rc > 0 ? rc : 0;
	}
	wr_reply_integer(call->out, counters);
}
