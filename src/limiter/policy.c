/* Writes the texts of limits for the RateLimit header fields: a name, the number of units that can
 * be taken at once (q) and a window in seconds (w). The texts of rules are written once, when the
 * rules come into force. The texts of limits that came with a request are written with each
 * response. */
#include "limiter/policy.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/duration.h"

/* Writes the descriptor keys of a rule, from the first level below the domain: "route.ip". */
static void put_keys(struct wr_limiter_text *text, const struct wr_node *node)
{
	const struct wr_node *path[WR_DEPTH_MAX];
	size_t depth = 0;

	for (; node->depth && depth < WR_DEPTH_MAX; node = node->parent)
		path[depth++] = node;
	while (depth) {
		wr_limiter_text_put(text, path[--depth]->key);
		if (depth)
			wr_limiter_text_char(text, '.');
	}
}

size_t wr_policy_name(const struct wr_ask_need *need, char name[WR_POLICY_NAME])
{
	struct wr_limiter_text text = {name, WR_POLICY_NAME, 0};
	char period[WR_DURATION_TEXT];
	size_t len;

	if (need->rule && need->rule->name.len) {
		wr_limiter_text_put(&text, need->rule->name);
	} else if (need->rule) {
		put_keys(&text, need->rule->node);
	} else {
		wr_limiter_text_put(&text, WR_STR("override"));
	}
	if (!need->rule || !need->rule->name.len) {
		len = wr_duration_text(need->need.limit->period_ns, period);
		wr_limiter_text_char(&text, '/');
		wr_limiter_text_put(&text, (struct weir_str){period, len});
	}
	return wr_limiter_text_fits(&text) ? text.len : text.cap;
}

void wr_policy_put_name(struct wr_limiter_text *text, const struct wr_ask_need *need)
{
	char name[WR_POLICY_NAME];
	size_t len = wr_policy_name(need, name);

	wr_limiter_text_char(text, '"');
	wr_limiter_text_quoted(text, (struct weir_str){name, len});
	wr_limiter_text_char(text, '"');
}

static __attribute__((nonnull)) struct wr_policy_text
write_policy(const struct wr_rules_limit *limit, char at[WR_POLICY_TEXT])
{
	struct wr_ask_need need = {.rule = limit, .need.limit = &limit->limit};
	struct wr_limiter_text text = {at, WR_POLICY_TEXT, 0};
	struct wr_policy_text policy = {0};

	wr_policy_put_name(&text, &need);
	policy.label = (uint8_t)text.len;
	if (!limit->calendar && !limit->unlimited) {
		wr_limiter_text_put(&text, WR_STR(";q="));
		wr_limiter_text_number(&text, limit->limit.capacity);
		wr_limiter_text_put(&text, WR_STR(";w="));
		wr_limiter_text_number(&text, wr_policy_window_s(&need));
	}
	policy.len = (uint8_t)text.len;
	return policy;
}

/* Writes the texts of all limits to `text`. Returns false if there is no memory. */
static bool write_policies(struct wr_generation *generation, struct wr_buf *text)
{
	for (const struct wr_node *node = generation->rules->first_domain; node;
	     node = wr_limiter_node_next(node))
		for (uint32_t i = 0; i < node->limit_count; i++) {
			struct wr_policy_text *policy =
				&generation->policies[generation->first[node->id] + i];
			char *at = wr_buf_reserve(text, WR_POLICY_TEXT);

			if (!at)
				return false;
			*policy = write_policy(&node->limits[i], at);
			policy->at = (uint32_t)text->len;
			wr_buf_commit(text, policy->len);
		}
	return true;
}

bool wr_policies_write(struct wr_generation *generation, uint32_t count)
{
	struct wr_buf text;
	size_t len;
	bool written;

	generation->policies = calloc(count + 1, sizeof *generation->policies);
	if (!generation->policies)
		return false;
	wr_buf_init(&text, UINT32_MAX);
	written = write_policies(generation, &text);
	generation->policy_text = wr_buf_release(&text, &len);
	return written;
}

uint64_t wr_policy_window_s(const struct wr_ask_need *need)
{
	const struct weir_limit *limit = need->need.limit;
	unsigned __int128 ns = limit->period_ns;

	if (limit->window_end_ns)
		ns = limit->window_end_ns - limit->window_start_ns;
	else if (limit->limit && limit->capacity)
		ns = ns * limit->capacity / limit->limit;
	return wr_limiter_wait_seconds(ns < UINT64_MAX ? (uint64_t)ns : UINT64_MAX);
}

/* The time until more units are available. If the limit refused the request and waiting helps, this
 * is the time until the request would be admitted. Otherwise it is the result of
 * wr_ask_need_reset_ns, but for a bucket at most the time in which one token is added. */
uint64_t wr_policy_more_s(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_ask_need_decision(ask, need);
	const struct weir_limit *limit = need->need.limit;
	uint64_t ns = wr_ask_need_reset_ns(ask, need);

	if (!decision->admitted && decision->retry_after_ns != WEIR_NEVER)
		ns = decision->retry_after_ns;
	else if ((limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET) &&
		 limit->limit && limit->period_ns / limit->limit < ns)
		ns = limit->period_ns / limit->limit;
	return wr_limiter_seconds_rounded_up(ns);
}
