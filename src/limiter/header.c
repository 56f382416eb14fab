/* weir_ask_headers: writes the header fields of a response. */
#include "limiter/policy.h"

/* The header fields of a response while they are written. Their values are appended to ask->text. A
 * field that does not fit is left out. */
struct fields {
	struct weir_ask *ask;
	struct wr_limiter_text text;
};

int weir_profile_by_name(struct weir_str name)
{
#define IS_PROFILE(profile, number, text)                                                          \
	if (wr_str_equal(name, WR_STR(text)))                                                      \
		return profile;
	WEIR_PROFILES(IS_PROFILE)
#undef IS_PROFILE
	return -1;
}

static struct wr_ask_header *begin_field(struct fields *fields, struct weir_str name)
{
	struct wr_ask_header *header = &fields->ask->headers[fields->ask->header_count];

	header->name = name;
	header->value = (uint16_t)fields->text.len;
	return header;
}

static void end_field(struct fields *fields, struct wr_ask_header *header)
{
	if (!wr_limiter_text_fits(&fields->text)) {
		fields->text.len = header->value;
		return;
	}
	header->value_len = (uint16_t)(fields->text.len - header->value);
	fields->ask->header_count++;
}

static void add_number(struct fields *fields, struct weir_str name, uint64_t value)
{
	struct wr_ask_header *header = begin_field(fields, name);

	wr_limiter_text_number(&fields->text, value);
	end_field(fields, header);
}

/* Returns the policy text that was written when the rules were loaded. Returns NULL for a limit
 * that came with the request. */
static const struct wr_policy_text *policy_of(const struct weir_ask *ask,
					      const struct wr_ask_need *need)
{
	return need->rule ? &ask->generation->policies[need->policy] : NULL;
}

static void put_name(const struct weir_ask *ask, struct wr_limiter_text *text,
		     const struct wr_ask_need *need)
{
	const struct wr_policy_text *policy = policy_of(ask, need);

	if (policy)
		wr_limiter_text_put(text,
				    (struct weir_str){ask->generation->policy_text + policy->at,
						      policy->label});
	else
		wr_policy_put_name(text, need);
}

static void put_policy(const struct weir_ask *ask, struct wr_limiter_text *text,
		       const struct wr_ask_need *need)
{
	const struct wr_policy_text *policy = policy_of(ask, need);

	if (policy && policy->len > policy->label && !wr_ask_need_decision(ask, need)->granted) {
		wr_limiter_text_put(
			text,
			(struct weir_str){ask->generation->policy_text + policy->at, policy->len});
		return;
	}
	put_name(ask, text, need);
	wr_limiter_text_put(text, WR_STR(";q="));
	wr_limiter_text_number(text, (uint64_t)need->need.limit->capacity +
					     wr_ask_need_decision(ask, need)->granted);
	wr_limiter_text_put(text, WR_STR(";w="));
	wr_limiter_text_number(text, wr_policy_window_s(need));
}

static uint32_t remaining_units(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_ask_need_decision(ask, need);

	return decision->full ? 0 : decision->remaining;
}

static void put_state(const struct weir_ask *ask, struct wr_limiter_text *text,
		      const struct wr_ask_need *need)
{
	put_name(ask, text, need);
	wr_limiter_text_put(text, WR_STR(";r="));
	wr_limiter_text_number(text, remaining_units(ask, need));
	wr_limiter_text_put(text, WR_STR(";t="));
	wr_limiter_text_number(text, wr_policy_more_s(ask, need));
}

/* Adds a header field with one list item for each counter that the response shows
 * (wr_ask_need_is_shown). The value takes at most two fifths of ask->text, so that RateLimit-Policy
 * and RateLimit both fit. */
static void add_list(struct fields *fields, struct weir_str name,
		     void (*put)(const struct weir_ask *, struct wr_limiter_text *,
				 const struct wr_ask_need *))
{
	const struct weir_ask *ask = fields->ask;
	struct wr_ask_header *header = begin_field(fields, name);
	size_t bound = fields->text.len + WR_ASK_TEXT / 5 * 2;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		size_t before = fields->text.len;

		if (!wr_ask_need_is_shown(need) || need->same_as != i)
			continue;
		if (before != header->value)
			wr_limiter_text_put(&fields->text, WR_STR(", "));
		put(ask, &fields->text, need);
		if (fields->text.len > bound) {
			fields->text.len = before;
			break;
		}
	}
	end_field(fields, header);
}

static void add_github(struct fields *fields, const struct wr_ask_need *tightest)
{
	const struct weir_ask *ask = fields->ask;
	const struct weir_decision *decision = wr_ask_need_decision(ask, tightest);
	uint32_t left = remaining_units(ask, tightest);
	struct wr_ask_header *header;
	char name[WR_POLICY_NAME];
	size_t len = wr_policy_name(tightest, name);

	add_number(fields, WR_STR("x-ratelimit-limit"), decision->limit);
	add_number(fields, WR_STR("x-ratelimit-remaining"), left);
	add_number(fields, WR_STR("x-ratelimit-used"), decision->limit - left);
	add_number(
		fields, WR_STR("x-ratelimit-reset"),
		wr_limiter_seconds_rounded_up(ask->now_ns + wr_ask_need_reset_ns(ask, tightest)));
	header = begin_field(fields, WR_STR("x-ratelimit-resource"));
	wr_limiter_text_quoted(&fields->text, (struct weir_str){name, len});
	end_field(fields, header);
}

/* Adds the wait in whole seconds, rounded up and at least 1. Adds nothing if waiting does not help.
 */
static void add_retry(struct fields *fields, int profile)
{
	uint64_t seconds = wr_limiter_wait_seconds(fields->ask->retry_after_ns);

	if (fields->ask->retry_after_ns == WEIR_NEVER || profile == WEIR_PROFILE_NONE)
		return;
	if (profile == WEIR_PROFILE_X)
		add_number(fields, WR_STR("X-Ratelimit-Retry-After"), seconds);
	add_number(fields,
		   profile == WEIR_PROFILE_GITHUB ? WR_STR("retry-after") : WR_STR("Retry-After"),
		   seconds);
}

int weir_ask_headers(struct weir_ask *ask, int profile)
{
	const struct wr_ask_need *tightest;
	struct fields fields = {ask, {NULL, WR_ASK_TEXT, 0}};

	if (!wr_ask_ok(ask) || !ask->verdict)
		return WEIR_EINVAL;
	fields.text.at = ask->text;
	ask->header_count = 0;
	tightest = ask->tightest;
	if (tightest && profile == WEIR_PROFILE_X) {
		add_number(&fields, WR_STR("X-Ratelimit-Limit"),
			   wr_ask_need_decision(ask, tightest)->limit);
		add_number(&fields, WR_STR("X-Ratelimit-Remaining"),
			   remaining_units(ask, tightest));
	}
	if (tightest && (profile == WEIR_PROFILE_X || profile == WEIR_PROFILE_IETF)) {
		add_list(&fields, WR_STR("RateLimit-Policy"), put_policy);
		add_list(&fields, WR_STR("RateLimit"), put_state);
	}
	if (tightest && profile == WEIR_PROFILE_GITHUB)
		add_github(&fields, tightest);
	if (wr_ask_refused(ask)) {
		struct wr_ask_header *header;

		add_retry(&fields, profile);
		header = begin_field(&fields, WR_STR("Cache-Control"));
		wr_limiter_text_put(&fields.text, WR_STR("no-store"));
		end_field(&fields, header);
	}
	return ask->header_count;
}

int weir_ask_header(const struct weir_ask *ask, size_t i, struct weir_str *name,
		    struct weir_str *value)
{
	const struct wr_ask_header *header;

	if (!wr_ask_ok(ask) || !name || !value || i >= ask->header_count)
		return WEIR_EINVAL;
	header = &ask->headers[i];
	*name = header->name;
	*value = (struct weir_str){ask->text + header->value, header->value_len};
	return 0;
}
