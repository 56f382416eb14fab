/* weir_ask_status and weir_ask_tightest: the status of a descriptor and of a request. Called by
 * hosts after the verdict, and by the files that write header fields and bodies. */
#include "limiter/status.h"

#include "base/str.h"
#include "base/versioned.h"

/* A caller needs at least the fields `code` and `flags`. */
#define STATUS_LEAST offsetof(struct weir_status, requests_per_unit)

/* Returns the rank of a need for display. Limits that refused are shown before limits that
 * admitted, and limits that admitted before limits that are only counted. */
static int display_rank(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	if (need->class == WR_COUNTED)
		return 2;
	return wr_ask_need_decision(ask, need)->admitted ? 1 : 0;
}

static uint64_t wait_of(const struct weir_decision *decision)
{
	return decision->admitted ? decision->reset_after_ns : decision->retry_after_ns;
}

/* Returns whether `a` is tighter than `b`. The need with the lower rank is tighter. At equal rank,
 * the need with fewer units remaining is tighter. If the remaining units are equal too, the need
 * with the longer wait is tighter. */
static bool is_tighter(const struct weir_ask *ask, const struct wr_ask_need *a,
		       const struct wr_ask_need *b)
{
	const struct weir_decision *x = wr_ask_need_decision(ask, a),
				   *y = wr_ask_need_decision(ask, b);

	if (display_rank(ask, a) != display_rank(ask, b))
		return display_rank(ask, a) < display_rank(ask, b);
	if (x->remaining != y->remaining)
		return x->remaining < y->remaining;
	return wait_of(x) > wait_of(y);
}

static const struct wr_ask_need *tightest(const struct weir_ask *ask, uint8_t first, uint8_t count)
{
	const struct wr_ask_need *found = NULL;

	for (uint8_t i = first; i < first + count; i++)
		if (!ask->needs[i].replaced && (!found || is_tighter(ask, &ask->needs[i], found)))
			found = &ask->needs[i];
	return found;
}

const struct wr_ask_need *wr_ask_find_tightest(const struct weir_ask *ask)
{
	const struct wr_ask_need *found = tightest(ask, 0, ask->need_count);

	return found && found->class != WR_COUNTED ? found : NULL;
}

const struct wr_rules_response *wr_ask_response(const struct weir_ask *ask)
{
	const struct wr_ask_need *need = ask->tightest;

	if (ask->crowded && ask->crowding && !ask->denied && !ask->unreadable)
		return ask->crowding->response;
	return need && need->rule ? need->rule->response : NULL;
}

uint64_t wr_ask_need_reset_ns(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_ask_need_decision(ask, need);
	const struct weir_limit *limit = need->need.limit;

	if (limit->algorithm != WEIR_FIXED_WINDOW || decision->banned)
		return decision->reset_after_ns;
	if (limit->window_end_ns)
		return limit->window_end_ns - ask->now_ns;
	return limit->period_ns - ask->now_ns % limit->period_ns;
}

static uint32_t need_flags(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	uint32_t flags = WEIR_STATUS_LIMITED;

	if (need->class == WR_COUNTED)
		flags |= WEIR_STATUS_SHADOW;
	if (need->class == WR_COUNTED && !wr_ask_need_decision(ask, need)->admitted)
		flags |= WEIR_STATUS_WOULD_REFUSE;
	if (need->class == WR_QUOTA_CLASS)
		flags |= WEIR_STATUS_QUOTA;
	if (!need->rule)
		flags |= WEIR_STATUS_OVERRIDE;
	if (ask->needs[need->same_as].failed)
		flags |= WEIR_STATUS_FAILED;
	if (wr_ask_need_decision(ask, need)->banned)
		flags |= WEIR_STATUS_BANNED;
	if (need->paused)
		flags |= WEIR_STATUS_PAUSED;
	return flags;
}

static void fill_status(const struct weir_ask *ask, const struct wr_ask_need *need,
			struct weir_status *status)
{
	const struct weir_decision *decision = wr_ask_need_decision(ask, need);
	const struct weir_limit *limit = need->need.limit;
	uint64_t reset_s = wr_limiter_wait_seconds(wr_ask_need_reset_ns(ask, need));
	bool over = !decision->admitted;

	*status = (struct weir_status){
		.size = sizeof *status,
		.code = over && need->class != WR_COUNTED ? WEIR_STATUS_OVER_LIMIT : WEIR_STATUS_OK,
		.flags = need_flags(ask, need),
		.requests_per_unit = limit->limit,
		.unit = need->rule ? need->rule->unit : wr_unit_of(limit->period_ns),
		.remaining = decision->full ? 0 : decision->remaining,
		.limit = decision->limit,
		.reset_s = reset_s < UINT32_MAX ? (uint32_t)reset_s : UINT32_MAX,
		.period_ns = limit->period_ns,
		.name = need->rule ? need->rule->name : WR_STR(""),
		.rule = need->rule ? need->rule->stat : WR_STR(""),
		.decision = *decision,
	};
}

/* Fills in the status of a descriptor that has no limits, or whose limits did not fit into the ask.
 */
static void fill_status_without_limit(const struct wr_ask_descriptor *descriptor,
				      struct weir_status *status)
{
	*status = (struct weir_status){.size = sizeof *status,
				       .code = WEIR_STATUS_OK,
				       .name = WR_STR(""),
				       .rule = WR_STR(""),
				       .decision = {.admitted = 1}};
	if (descriptor->crowded) {
		status->code = WEIR_STATUS_OVER_LIMIT;
		status->decision = (struct weir_decision){.retry_after_ns = WEIR_NEVER};
	} else if (descriptor->replaced ||
		   (descriptor->outcome == WR_LIMITED && descriptor->need_count)) {
		status->flags = WEIR_STATUS_REPLACED;
	} else if (descriptor->outcome == WR_UNLIMITED) {
		status->flags = WEIR_STATUS_UNLIMITED;
		status->remaining = UINT32_MAX;
		status->name = descriptor->node->limits[0].name;
		status->rule = descriptor->node->limits[0].stat;
	} else if (descriptor->outcome == WR_WHITELISTED) {
		status->flags = WEIR_STATUS_WHITELISTED;
	}
}

int weir_ask_status(const struct weir_ask *ask, size_t at, struct weir_status *status)
{
	const struct wr_ask_descriptor *descriptor;
	const struct wr_ask_need *need;
	struct weir_status known, *out;

	if (!wr_ask_ok(ask) || !status || !ask->verdict || at >= ask->descriptor_count)
		return WEIR_EINVAL;
	out = wr_versioned_target(status, &known, sizeof known, STATUS_LEAST);
	if (!out)
		return WEIR_EINVAL;
	descriptor = &ask->descriptors[at];
	need = tightest(ask, descriptor->first_need, descriptor->need_count);
	if (need)
		fill_status(ask, need, out);
	else
		fill_status_without_limit(descriptor, out);
	if (descriptor->node)
		out->metadata = descriptor->node->more->metadata;
	wr_versioned_write(status, out, sizeof known);
	return 0;
}

int weir_ask_tightest(const struct weir_ask *ask, struct weir_status *status)
{
	struct weir_status known, *out;

	if (!wr_ask_ok(ask) || !status || !ask->verdict)
		return WEIR_EINVAL;
	out = wr_versioned_target(status, &known, sizeof known, STATUS_LEAST);
	if (!out)
		return WEIR_EINVAL;
	if (!ask->tightest)
		return WEIR_ENOENT;
	fill_status(ask, ask->tightest, out);
	wr_versioned_write(status, out, sizeof known);
	return 0;
}
