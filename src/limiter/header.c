/* Header fields of an answer. */
#include "limiter/policy.h"

/* Fields go into the ask's text one after the other; what does not fit is left out whole. */
struct fields {
	struct weir_ask *ask;
	struct wr_text text;
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

static struct wr_ask_header *begin(struct fields *fields, struct weir_str name)
{
	struct wr_ask_header *header = &fields->ask->headers[fields->ask->header_count];

	header->name = name;
	header->value = (uint16_t)fields->text.len;
	return header;
}

static void end(struct fields *fields, struct wr_ask_header *header)
{
	if (!wr_text_fits(&fields->text)) {
		fields->text.len = header->value;
		return;
	}
	header->value_len = (uint16_t)(fields->text.len - header->value);
	fields->ask->header_count++;
}

static void add_text(struct fields *fields, struct weir_str name, struct weir_str value)
{
	struct wr_ask_header *header = begin(fields, name);

	wr_text_put(&fields->text, value);
	end(fields, header);
}

static void add_number(struct fields *fields, struct weir_str name, uint64_t value)
{
	struct wr_ask_header *header = begin(fields, name);

	wr_text_number(&fields->text, value);
	end(fields, header);
}

/* NULL: an override, of which nothing is known beforehand. */
static const struct wr_said *said_of(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	return need->rule ? &ask->generation->said[need->said] : NULL;
}

static void put_name(const struct weir_ask *ask, struct wr_text *text,
		     const struct wr_ask_need *need)
{
	const struct wr_said *said = said_of(ask, need);

	if (said)
		wr_text_put(text,
			    (struct weir_str){ask->generation->said_text + said->at, said->label});
	else
		wr_policy_put_name(text, need);
}

static void put_policy(const struct weir_ask *ask, struct wr_text *text,
		       const struct wr_ask_need *need)
{
	const struct wr_said *said = said_of(ask, need);

	if (said && said->len > said->label && !wr_ask_decision(ask, need)->granted) {
		wr_text_put(text,
			    (struct weir_str){ask->generation->said_text + said->at, said->len});
		return;
	}
	put_name(ask, text, need);
	wr_text_put(text, WR_STR(";q="));
	wr_text_number(text, wr_policy_quota(ask, need));
	wr_text_put(text, WR_STR(";w="));
	wr_text_number(text, wr_policy_window_s(need));
}

static uint32_t remaining(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	const struct weir_decision *decision = wr_ask_decision(ask, need);

	return decision->admitted ? decision->remaining : 0;
}

static void put_state(const struct weir_ask *ask, struct wr_text *text,
		      const struct wr_ask_need *need)
{
	put_name(ask, text, need);
	wr_text_put(text, WR_STR(";r="));
	wr_text_number(text, remaining(ask, need));
	wr_text_put(text, WR_STR(";t="));
	wr_text_number(text, wr_policy_more_s(ask, need));
}

/* A list with an item for each limit that is enforced; a counter that was named twice is one. As
 * many items as fit into half of the text, so that both lists end at the same limit or later. */
static void add_list(struct fields *fields, struct weir_str name,
		     void (*put)(const struct weir_ask *, struct wr_text *,
				 const struct wr_ask_need *))
{
	const struct weir_ask *ask = fields->ask;
	struct wr_ask_header *header = begin(fields, name);
	size_t bound = fields->text.len + WR_ASK_TEXT / 5 * 2;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		size_t before = fields->text.len;

		if (!wr_ask_shows(need) || need->same_as != i)
			continue;
		if (before != header->value)
			wr_text_put(&fields->text, WR_STR(", "));
		put(ask, &fields->text, need);
		if (fields->text.len > bound) {
			fields->text.len = before;
			break;
		}
	}
	end(fields, header);
}

static void add_ietf(struct fields *fields)
{
	add_list(fields, WR_STR("RateLimit-Policy"), put_policy);
	add_list(fields, WR_STR("RateLimit"), put_state);
}

static void add_x(struct fields *fields, const struct wr_ask_need *tightest)
{
	const struct weir_decision *decision = wr_ask_decision(fields->ask, tightest);

	add_number(fields, WR_STR("X-Ratelimit-Limit"), decision->limit);
	add_number(fields, WR_STR("X-Ratelimit-Remaining"), remaining(fields->ask, tightest));
	add_ietf(fields);
}

static void add_github(struct fields *fields, const struct wr_ask_need *tightest)
{
	const struct weir_ask *ask = fields->ask;
	const struct weir_decision *decision = wr_ask_decision(ask, tightest);
	uint32_t left = remaining(ask, tightest);
	struct wr_ask_header *header;
	char name[WR_POLICY_NAME];
	size_t len = wr_policy_name(tightest, name);

	add_number(fields, WR_STR("x-ratelimit-limit"), decision->limit);
	add_number(fields, WR_STR("x-ratelimit-remaining"), left);
	add_number(fields, WR_STR("x-ratelimit-used"), decision->limit - left);
	add_number(fields, WR_STR("x-ratelimit-reset"),
		   wr_seconds_over(ask->now_ns + wr_ask_reset_ns(ask, tightest)));
	header = begin(fields, WR_STR("x-ratelimit-resource"));
	wr_text_quoted(&fields->text, (struct weir_str){name, len});
	end(fields, header);
}

/* Whole seconds, rounded up and never 0; left out when no wait will do. */
static void add_retry(struct fields *fields, int profile)
{
	uint64_t seconds = wr_seconds_over(fields->ask->retry_after_ns);

	if (fields->ask->retry_after_ns == WEIR_NEVER || profile == WEIR_PROFILE_NONE)
		return;
	if (seconds == 0)
		seconds = 1;
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
	tightest = wr_ask_tightest_need(ask);
	if (tightest && profile == WEIR_PROFILE_X)
		add_x(&fields, tightest);
	else if (tightest && profile == WEIR_PROFILE_IETF)
		add_ietf(&fields);
	else if (tightest && profile == WEIR_PROFILE_GITHUB)
		add_github(&fields, tightest);
	if (wr_ask_refused(ask)) {
		add_retry(&fields, profile);
		add_text(&fields, WR_STR("Cache-Control"), WR_STR("no-store"));
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
