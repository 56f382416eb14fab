/* Writes the lines of the decision log. Called by serve/decide/log.c. */
#include "wire/check/decision_json.h"

#include <stdio.h>
#include <time.h>

#include "base/assert.h"
#include "limiter/log_text.h"
#include "limiter/status.h"
#include "wire/json.h"

#define MILLION 1000000u
#define NAME_MAX_BYTES 512u

_Static_assert(sizeof(struct weir_ask) + WR_DECISION_TEXT_BYTES <= WEIR_ASK_BYTES,
	       "room for texts");

/* ---- the limit that a line shows ---- */

bool wr_decision_counts(const struct weir_ask *ask)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].counts)
			return true;
	return ask->need_count == 0;
}

/* Returns the first limit in shadow mode that would have refused the request, or NULL. */
static const struct wr_ask_need *shadowed_need(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->class == WR_COUNTED && !need->replaced && need->need.cost > 0 &&
		    !wr_ask_need_decision(ask, need)->admitted)
			return need;
	}
	return NULL;
}

bool wr_decision_has_settlement(const struct weir_ask *ask)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	return ask->settlement.need != NULL;
}

bool wr_decision_refused(const struct weir_ask *ask)
{
	return wr_ask_refused(ask) || (!ask->plain && shadowed_need(ask));
}

/* ---- writing ---- */

struct weir_str wr_decision_verdict_name(int verdict)
{
	switch (verdict) {
	case WEIR_ADMIT:
		return WR_STR("admit");
	case WEIR_DELAY:
		return WR_STR("delay");
	case WEIR_DEFER:
		return WR_STR("defer");
	default:
		return WR_STR("refuse");
	}
}

static void write_key(struct wr_json_out *json, const struct wr_decision_view *view,
		      const struct wr_ask_need *need)
{
	struct weir_str text = wr_ask_log_text(view->ask, need->descriptor);
	char hash[24];

	if (view->keys == WEIR_KEYS_HIDDEN)
		return;
	if (view->keys == WEIR_KEYS_TEXT && text.len) {
		wr_json_member_bytes(json, "key", text);
		return;
	}
	snprintf(hash, sizeof hash, "#%016llx", (unsigned long long)need->need.key.tag);
	wr_json_member_string(json, "key", wr_str(hash));
}

/* Writes the rule, the key and the algorithm of a need. */
static void write_limit(struct wr_json_out *json, const struct wr_decision_view *view,
			const struct wr_ask_need *need)
{
	const char *algorithm = weir_algorithm_name((int)need->need.limit->algorithm);

	if (need->rule)
		wr_json_member_bytes(json, "rule", wr_str_first(need->rule->stat, NAME_MAX_BYTES));
	else
		wr_json_member_null(json, "rule"); /* the request itself has set this limit */
	write_key(json, view, need);
	wr_json_member_string_or_null(json, "algorithm", wr_str(algorithm ? algorithm : ""));
}

/* Writes that a ban refused, and the end of the ban; null for a ban that never ends. */
static void write_ban(struct wr_json_out *json, const struct weir_ask *ask,
		      const struct weir_decision *decision)
{
	wr_json_raw(json, WR_STR("\"banned\":true"));
	wr_json_key(json, "banned_until");
	if (decision->retry_after_ns == WEIR_NEVER)
		wr_json_null(json);
	else
		wr_wire_json_time(json, ask->now_ns + decision->retry_after_ns);
}

static void write_need(struct wr_json_out *json, const struct wr_decision_view *view,
		       const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_ask_need_decision(view->ask, need);
	int64_t cost = view->ask->needs[need->same_as].need.cost;

	write_limit(json, view, need);
	if (need->counts && cost != 1)
		wr_json_member_uint(json, "cost", (uint64_t)cost);
	wr_json_member_uint(json, "limit", decision->limit);
	wr_json_member_uint(json, "remaining", decision->remaining);
	if (decision->debt)
		wr_json_member_uint(json, "debt", decision->debt);
	if (!decision->admitted)
		wr_json_member_seconds(json, "retry_after", decision->retry_after_ns);
	if (decision->banned)
		write_ban(json, view->ask, decision);
	if (need->class == WR_COUNTED && !decision->admitted)
		wr_json_raw(json, WR_STR("\"shadowed\":true"));
}

/* Returns the reason why no limit was applied. */
static struct weir_str reason_of(const struct weir_ask *ask)
{
	return !ask->domain      ? WR_STR("domain_not_found")
	       : ask->allowed    ? WR_STR("allowed")
	       : ask->denied     ? WR_STR("missing")
	       : ask->unreadable ? WR_STR("unreadable")
	       : ask->crowded    ? WR_STR("too_many_limits")
				 : WR_STR("no_limit");
}

/* Begins a line: the time, the verdict and the domain. */
static void begin_line(struct wr_json_out *json, const struct wr_decision_view *view,
		       struct weir_str verdict, struct wr_buf *line)
{
	wr_assert(view->ask && view->via);
	wr_json_begin(json, line);
	wr_json_object(json);
	wr_json_key(json, "time");
	wr_wire_json_time(json, view->now_ns);
	wr_json_member_string(json, "verdict", verdict);
	if (view->ask->domain)
		wr_json_member_bytes(json, "domain",
				     wr_str_first(view->ask->domain->key, NAME_MAX_BYTES));
}

/* Ends a line: the protocol, the trace and the share of the random sample. */
static void end_line(struct wr_json_out *json, const struct wr_decision_view *view,
		     struct wr_buf *line)
{
	const struct wr_trace *trace = view->trace;

	wr_json_member_string(json, "via", wr_str(view->via));
	if (trace && trace->known) {
		wr_json_member_string(json, "trace_id",
				      (struct weir_str){trace->trace_id, WR_TRACE_ID});
		wr_json_member_string(json, "span_id",
				      (struct weir_str){trace->span_id, WR_SPAN_ID});
	}
	if (view->sampled_ppm < MILLION) {
		char share[16];

		snprintf(share, sizeof share, "0.%06u", view->sampled_ppm);
		wr_json_key(json, "sampled");
		wr_json_raw(json, wr_str(share));
	}
	wr_json_end_object(json);
	wr_buf_add_char(line, '\n');
}

void wr_decision_json(const struct wr_decision_view *view, struct wr_buf *line)
{
	const struct weir_ask *ask = view->ask;
	const struct wr_ask_need *need = wr_ask_refused(ask) ? NULL : shadowed_need(ask);
	struct wr_json_out json;

	need = need ? need : wr_ask_tightest_need(ask);
	begin_line(&json, view, wr_decision_verdict_name(ask->verdict), line);
	if (need) {
		write_need(&json, view, need);
	} else {
		wr_json_member_null(&json, "rule");
		wr_json_member_string(&json, "reason", reason_of(ask));
	}
	if (ask->delay_ns)
		wr_json_member_seconds(&json, "delay", ask->delay_ns);
	if (!view->enforced && wr_ask_refused(ask))
		wr_json_raw(&json, WR_STR("\"enforced\":false"));
	end_line(&json, view, line);
}

void wr_decision_settlement_json(const struct wr_decision_view *view, struct wr_buf *line)
{
	const struct wr_ask_settlement *settlement = &view->ask->settlement;
	struct wr_json_out json;

	wr_assert(settlement->need);
	begin_line(&json, view, WR_STR("settle"), line);
	write_limit(&json, view, settlement->need);
	wr_json_member_uint(&json, "reserved", settlement->charged);
	wr_json_member_uint(&json, "actual", settlement->actual);
	wr_json_member_uint(&json, "refunded", settlement->returned);
	wr_json_member_uint(&json, "debt", settlement->owed);
	end_line(&json, view, line);
}
