/* WEIR.CHECK, WEIR.PEEK and WEIR.RESET: descriptors in, what the rules say out. */
#include "wire/resp/commands.h"

#include <weir/control.h>

#include "base/str.h"
#include "limiter/ask.h"
#include "limiter/log_text.h"
#include "limiter/refund.h"
#include "wire/check/decision_json.h"
#include "wire/resp/wait.h"

#define ENTRIES_MAX 32 /* of one descriptor; rules go no deeper */
#define MS_NS 1000000ull

/* A bulk string that is known when the program is built, as a reply. */
#define KEY(out, text, len)                                                                        \
	wr_reply_raw(out, "$" #len "\r\n" text "\r\n", sizeof("$" #len "\r\n" text "\r\n") - 1)

/* Reads the arguments behind the domain, a descriptor at a time. Words are words only where a key
 * is expected; a key that looks like one is written with a backslash before it, and so is a key
 * that begins with one. */
struct reader {
	const struct wr_resp_call *call;
	uint32_t at;
	bool costs; /* HITS may be said */
	int64_t hits;
	size_t count;
	struct weir_entry entries[ENTRIES_MAX];
};

static struct weir_str unescaped(struct weir_str key)
{
	return key.len && key.ptr[0] == '\\' ? wr_str_from(key, 1) : key;
}

static bool fail(const struct reader *reader, const char *why)
{
	wr_reply_error(reader->call->out, "ERR syntax error: %s", why);
	return false;
}

static bool read_hits(struct reader *reader)
{
	if (!reader->costs)
		return fail(reader, "HITS is for WEIR.CHECK");
	if (reader->count)
		return fail(reader, "HITS comes before a descriptor's first key");
	if (reader->at == reader->call->argc ||
	    !wr_resp_integer(reader->call->argv[reader->at], &reader->hits) ||
	    reader->hits < -(int64_t)UINT32_MAX || reader->hits > (int64_t)UINT32_MAX)
		return fail(reader, "HITS takes an integer of 32 bits");
	reader->at++;
	return true;
}

static bool read_entry(struct reader *reader, struct weir_str key, struct weir_str source)
{
	if (reader->at == reader->call->argc)
		return fail(reader, "a key has no value");
	if (reader->count == ENTRIES_MAX)
		return fail(reader, "a descriptor has 32 entries at most");
	reader->entries[reader->count++] =
		(struct weir_entry){unescaped(key), reader->call->argv[reader->at++], source};
	return true;
}

static bool read_from(struct reader *reader)
{
	struct weir_str source;

	if (reader->call->argc - reader->at < 3)
		return fail(reader, "FROM takes a source, a key and a value");
	source = reader->call->argv[reader->at++];
	return read_entry(reader, reader->call->argv[reader->at++], source);
}

/* One descriptor, up to a bar or the end. False: the client has been told. */
static bool read_descriptor(struct reader *reader)
{
	reader->count = 0;
	while (reader->at < reader->call->argc) {
		struct weir_str word = reader->call->argv[reader->at++];
		bool good;

		if (word.len == 1 && word.ptr[0] == '|') {
			if (reader->at == reader->call->argc)
				return fail(reader, "nothing behind the last bar");
			break;
		}
		if (wr_str_equal_nocase(word, WR_STR("hits")))
			good = read_hits(reader);
		else if (wr_str_equal_nocase(word, WR_STR("from")))
			good = read_from(reader);
		else
			good = read_entry(reader, word, (struct weir_str){0});
		if (!good)
			return false;
	}
	return reader->count || fail(reader, "a descriptor without keys");
}

static bool tell_error(struct wr_resp_out *out, int rc)
{
	wr_reply_error(out, "ERR %s", weir_strerror(rc));
	return false;
}

/* All descriptors of the command. */
static bool add_descriptors(struct weir_ask *ask, struct reader *reader)
{
	while (reader->at < reader->call->argc) {
		int rc;

		if (!read_descriptor(reader))
			return false;
		rc = weir_ask_add(ask, reader->entries, reader->count, NULL, reader->hits);
		if (rc != 0)
			return tell_error(reader->call->out, rc);
	}
	if (!wr_ask_gives_back(ask) || wr_resp_operates(reader->call))
		return true;
	wr_reply_error(reader->call->out, WR_RESP_NO_REFUNDS);
	return false;
}

/* ---- the answer ---- */

static int64_t ms_up(uint64_t ns)
{
	return ns == WEIR_NEVER ? -1 : (int64_t)(ns / MS_NS + (ns % MS_NS != 0));
}

static void tell_verdict(struct wr_resp_out *out, uint32_t verdict)
{
	switch (verdict) {
	case WEIR_ADMIT:
		KEY(out, "admit", 5);
		break;
	case WEIR_DELAY:
		KEY(out, "delay", 5);
		break;
	case WEIR_DEFER:
		KEY(out, "defer", 5);
		break;
	default:
		KEY(out, "refuse", 6);
	}
}

/* A number of a limit, or null if none applies. */
static void tell_number(struct wr_resp_out *out, const struct weir_status *status, int64_t number)
{
	if (status->flags & WEIR_STATUS_LIMITED)
		wr_reply_integer(out, number);
	else
		wr_reply_null(out);
}

/* limit, remaining, reset_after_ms, rule: four pairs. */
static void tell_limit(struct wr_resp_out *out, const struct weir_status *status)
{
	KEY(out, "limit", 5);
	tell_number(out, status, status->limit);
	KEY(out, "remaining", 9);
	tell_number(out, status, status->remaining);
	KEY(out, "reset_after_ms", 14);
	tell_number(out, status, ms_up(status->decision.reset_after_ns));
	KEY(out, "rule", 4);
	if (status->rule.len)
		wr_reply_bulk(out, status->rule);
	else
		wr_reply_null(out);
}

static void tell_waits(struct wr_resp_out *out, uint64_t retry_after_ns, uint64_t delay_ns)
{
	KEY(out, "retry_after_ms", 14);
	wr_reply_integer(out, ms_up(retry_after_ns));
	KEY(out, "delay_ms", 8);
	wr_reply_integer(out, ms_up(delay_ns));
}

static void tell_descriptor(struct wr_resp_out *out, const struct weir_ask *ask, size_t at)
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
	tell_limit(out, &status);
	tell_waits(out, status.decision.retry_after_ns, status.decision.delay_ns);
}

static void tell_answer(struct wr_resp_host *host, const struct weir_ask *ask,
			struct wr_resp_out *out)
{
	struct weir_status tightest = {.size = sizeof tightest};
	struct weir_result result = {.size = sizeof result};
	bool several;

	if (host->decided)
		host->decided(host, ask);
	weir_ask_result(ask, &result);
	if (weir_ask_tightest(ask, &tightest) != 0)
		tightest = (struct weir_status){0};
	if (result.verdict == WEIR_REFUSE)
		wr_resp_count(&host->tally.limited);
	if (host->shadow)
		result = (struct weir_result){.verdict = WEIR_ADMIT,
					      .http_status = 200,
					      .descriptors = result.descriptors};
	several = result.descriptors > 1;
	wr_reply_map(out, several ? 9 : 8);
	KEY(out, "verdict", 7);
	tell_verdict(out, result.verdict);
	tell_limit(out, &tightest);
	tell_waits(out, result.retry_after_ns, result.delay_ns);
	KEY(out, "status", 6);
	wr_reply_integer(out, result.http_status);
	if (!several)
		return;
	KEY(out, "descriptors", 11);
	wr_reply_array(out, result.descriptors);
	for (size_t i = 0; i < result.descriptors; i++)
		tell_descriptor(out, ask, i);
}

/* ---- by the table alone ---- */

/* Behind an ask there is room for them. */
static void keep_texts(const struct wr_resp_host *host, struct weir_ask *ask)
{
	if (host->decided)
		wr_ask_set_log_memory(ask, (char *)ask + weir_ask_size(), WR_DECISION_KEPT);
}

/* ---- how long it takes ---- */

/* When a decision begins, if it will be timed. Commands of a pipeline are run at one time, so the
 * call's own will not do. */
static uint64_t clock_before(const struct wr_resp_host *host, const struct weir_ask *ask)
{
	return host->clock_ns && wr_ask_wants_latency_next(ask) ? host->clock_ns(host) : 0;
}

static void note_took(struct weir_ask *ask, uint64_t begun_ns, uint64_t now_ns)
{
	if (begun_ns && weir_ask_wants_latency(ask) > 0)
		weir_ask_report_latency(ask, now_ns > begun_ns ? now_ns - begun_ns : 0);
}

static int decide_timed(const struct wr_resp_call *call, struct weir_ask *ask)
{
	uint64_t begun_ns = clock_before(call->host, ask);
	int rc = weir_ask_decide(ask, call->now_ns);

	if (begun_ns && rc > 0)
		note_took(ask, begun_ns, call->host->clock_ns(call->host));
	return rc;
}

static void decide_here(const struct wr_resp_call *call, struct reader *reader)
{
	struct weir_ask *ask;
	int rc = weir_ask_init(call->host->ask, sizeof call->host->ask, call->host->engine,
			       call->argv[1], &ask);

	if (rc != 0) {
		tell_error(call->out, rc);
		return;
	}
	keep_texts(call->host, ask);
	if (add_descriptors(ask, reader)) {
		rc = decide_timed(call, ask);
		/* Nobody here can ask a central store. */
		if (rc == WEIR_WAIT)
			rc = weir_ask_store_failed(ask, call->now_ns);
		if (rc < 0)
			tell_error(call->out, rc);
		else
			tell_answer(call->host, ask, call->out);
	}
	weir_ask_done(ask);
}

/* ---- with the central store ---- */

static void hear(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	int rc = len ? weir_ask_answer(wait->ask, answer, len, now_ns) : WEIR_EFORMAT;

	if (rc == WEIR_EFORMAT)
		rc = weir_ask_store_failed(wait->ask, now_ns);
	wait->rc = rc;
	if (rc > 0)
		note_took(wait->ask, wait->begun_ns, now_ns);
	wr_resp_tell_store(wait->session->host, wait->ask, now_ns);
}

static void tell(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	if (wait->rc < 0)
		tell_error(out, wait->rc);
	else
		tell_answer(wait->session->host, wait->ask, out);
}

/* A client that has left gets nothing for what was taken. */
static void end(struct wr_resp_wait *wait, bool told, uint64_t now_ns)
{
	if (!told && wait->heard && weir_ask_cancel(wait->ask, now_ns) == 0)
		wr_resp_tell_store(wait->session->host, wait->ask, now_ns);
	weir_ask_done(wait->ask);
}

static const struct wr_resp_wait_kind check_kind = {hear, tell, end};

/* True: it waits. */
static bool decide_or_ask(const struct wr_resp_call *call, struct wr_resp_wait *wait)
{
	struct wr_resp_host *host = call->host;
	int rc = decide_timed(call, wait->ask);

	if (rc == WEIR_WAIT) {
		int len = weir_ask_question(wait->ask, host->question, sizeof host->question);

		if (len > 0) {
			wait->begun_ns = call->now_ns;
			wr_resp_wait_ask(wait, host->question, (size_t)len, call->now_ns);
			return true;
		}
		rc = weir_ask_store_failed(wait->ask, call->now_ns);
	}
	wr_resp_tell_store(host, wait->ask, call->now_ns);
	if (rc < 0)
		tell_error(call->out, rc);
	else
		tell_answer(host, wait->ask, call->out);
	return false;
}

static void decide_there(const struct wr_resp_call *call, struct reader *reader)
{
	struct wr_resp_wait *wait = wr_resp_wait_begin(call->session, &check_kind, true);
	int rc = wait ? weir_ask_init(wait->ask, weir_ask_size(), call->host->engine, call->argv[1],
				      &wait->ask)
		      : WEIR_EMEMORY;

	if (rc == 0) {
		keep_texts(call->host, wait->ask);
		if (add_descriptors(wait->ask, reader) && decide_or_ask(call, wait))
			return;
		weir_ask_done(wait->ask);
	} else {
		tell_error(call->out, rc);
	}
	if (wait)
		wr_resp_wait_drop(call->session, wait);
}

static void decide(const struct wr_resp_call *call, int64_t hits, bool costs)
{
	struct reader reader = {.call = call, .at = 2, .costs = costs, .hits = hits};

	if (call->host->store)
		decide_there(call, &reader);
	else
		decide_here(call, &reader);
}

void wr_command_check(const struct wr_resp_call *call)
{
	decide(call, 1, true);
}

void wr_command_peek(const struct wr_resp_call *call)
{
	decide(call, 0, false);
}

static int reset(const struct wr_resp_call *call, const struct weir_target *target,
		 struct weir_error *error)
{
	if (call->host->store)
		return call->host->store->reset(call->host, target, call->now_ns, error);
	return weir_control_reset(call->host->engine, target, call->now_ns, error);
}

/* All descriptors are read before the first counter is touched. */
void wr_command_reset_counters(const struct wr_resp_call *call)
{
	struct reader reader = {.call = call, .at = 2};
	struct weir_target target = {.size = sizeof target, .domain = call->argv[1]};
	struct weir_error error;
	int64_t counters = 0;

	while (reader.at < call->argc)
		if (!read_descriptor(&reader))
			return;
	for (reader.at = 2; reader.at < call->argc;) {
		int rc;

		read_descriptor(&reader);
		target.entries = reader.entries;
		target.count = reader.count;
		rc = reset(call, &target, &error);
		if (rc < 0 && rc != WEIR_ENOENT) {
			wr_reply_error(call->out, "ERR %s", error.text);
			return;
		}
		counters += rc > 0 ? rc : 0;
	}
	wr_reply_integer(call->out, counters);
}
