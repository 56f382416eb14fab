#include "wire/check/decision_json.h"

#include <stdio.h>
#include <time.h>

#include "limiter/log_text.h"
#include "limiter/status.h"
#include "wire/json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define MILLION 1000000u
#define NAME_MAX_BYTES 512u

_Static_assert(sizeof(struct weir_ask) + WR_DECISION_KEPT <= WEIR_ASK_BYTES, "room for texts");

/* ---- what it is about ---- */

bool wr_decision_counts(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].own_cost > 0)
			return true;
	return ask->need_count == 0;
}

static const struct wr_ask_need *shadowed_need(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->class == WR_COUNTED && !need->replaced && need->need.cost > 0 &&
		    !wr_need_decision(ask, need)->admitted)
			return need;
	}
	return NULL;
}

bool wr_decision_refused(const struct weir_ask *ask)
{
	return wr_ask_refused(ask) || (!ask->plain && shadowed_need(ask));
}

static const struct wr_ask_need *subject(const struct weir_ask *ask)
{
	const struct wr_ask_need *shadowed = wr_ask_refused(ask) ? NULL : shadowed_need(ask);

	return shadowed ? shadowed : wr_ask_tightest_need(ask);
}

/* ---- writing ---- */

static void put_name(struct wr_text *out, struct weir_str name)
{
	wr_json_put_bytes(out, wr_str_first(name, NAME_MAX_BYTES));
}

static struct weir_str verdict_name(const struct weir_ask *ask)
{
	switch (ask->verdict) {
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

static void put_key(struct wr_text *out, const struct wr_decision_view *view,
		    const struct wr_ask_need *need)
{
	struct weir_str text = wr_ask_log_text(view->ask, need->descriptor);
	char hash[24];

	if (view->keys == WEIR_KEYS_HIDDEN)
		return;
	PUT(out, ",\"key\":");
	if (view->keys == WEIR_KEYS_TEXT && text.len) {
		wr_json_put_bytes(out, text);
		return;
	}
	snprintf(hash, sizeof hash, "\"#%016llx\"", (unsigned long long)need->need.key.tag);
	wr_text_put(out, wr_str(hash));
}

static void put_limit(struct wr_text *out, const struct wr_decision_view *view,
		      const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_need_decision(view->ask, need);
	const char *algorithm = weir_algorithm_name((int)need->need.limit->algorithm);

	PUT(out, ",\"rule\":");
	if (need->rule)
		put_name(out, need->rule->stat);
	else
		PUT(out, "null"); /* the limit came with the request */
	put_key(out, view, need);
	PUT(out, ",\"algorithm\":");
	wr_json_put_text_or_null(out, wr_str(algorithm ? algorithm : ""));
	PUT(out, ",\"limit\":");
	wr_text_number(out, decision->limit);
	PUT(out, ",\"remaining\":");
	wr_text_number(out, decision->remaining);
	if (!decision->admitted) {
		PUT(out, ",\"retry_after\":");
		wr_json_put_seconds(out, decision->retry_after_ns);
	}
	if (decision->banned)
		PUT(out, ",\"banned\":true");
	if (need->class == WR_COUNTED && !decision->admitted)
		PUT(out, ",\"shadowed\":true");
}

/* Why no limit had a say. */
static void put_reason(struct wr_text *out, const struct weir_ask *ask)
{
	PUT(out, ",\"rule\":null,\"reason\":");
	wr_json_put_text(out, !ask->domain      ? WR_STR("domain_not_found")
			      : ask->allowed    ? WR_STR("allowed")
			      : ask->denied     ? WR_STR("missing")
			      : ask->unreadable ? WR_STR("unreadable")
			      : ask->crowded    ? WR_STR("too_many_limits")
						: WR_STR("no_limit"));
}

static void put_trace(struct wr_text *out, const struct wr_trace *trace)
{
	if (!trace || !trace->known)
		return;
	PUT(out, ",\"trace_id\":\"");
	wr_text_put(out, (struct weir_str){trace->trace_id, WR_TRACE_ID});
	PUT(out, "\",\"span_id\":\"");
	wr_text_put(out, (struct weir_str){trace->span_id, WR_SPAN_ID});
	PUT(out, "\"");
}

static void put_share(struct wr_text *out, unsigned ppm)
{
	char text[32];

	snprintf(text, sizeof text, ",\"sampled\":0.%06u", ppm);
	wr_text_put(out, wr_str(text));
}

void wr_decision_json(const struct wr_decision_view *view, struct wr_text *out)
{
	const struct weir_ask *ask = view->ask;
	const struct wr_ask_need *need = subject(ask);

	PUT(out, "{\"time\":");
	wr_json_put_time(out, view->now_ns);
	PUT(out, ",\"verdict\":");
	wr_json_put_text(out, verdict_name(ask));
	if (ask->domain) {
		PUT(out, ",\"domain\":");
		put_name(out, ask->domain->key);
	}
	if (need)
		put_limit(out, view, need);
	else
		put_reason(out, ask);
	if (ask->delay_ns) {
		PUT(out, ",\"delay\":");
		wr_json_put_seconds(out, ask->delay_ns);
	}
	if (!view->enforced && wr_ask_refused(ask))
		PUT(out, ",\"enforced\":false");
	PUT(out, ",\"via\":");
	wr_json_put_text(out, wr_str(view->via));
	put_trace(out, view->trace);
	if (view->sampled_ppm < MILLION)
		put_share(out, view->sampled_ppm);
	PUT(out, "}\n");
}
