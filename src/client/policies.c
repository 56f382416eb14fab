/* Implements policies.h, without wr_told_finish (policies_finish.c). */
#include "client/policies.h"

#include "base/str.h"
#include "client/items.h"
#include "client/moment.h"

#define SECOND_NS 1000000000ull
#define MS_NS 1000000ull
#define EPOCH_SECONDS_MIN 1000000000u        /* smaller numbers of a reset are seconds from now */
#define EPOCH_MILLISECONDS_MIN 100000000000u /* numbers from here on are milliseconds since 1970 */

uint64_t wr_told_until(const struct wr_told *policies, uint64_t at_ns)
{
	uint64_t ns = at_ns > policies->server_ns ? at_ns - policies->server_ns : 0;

	return ns < WEIR_RATELIMIT_TIME_MAX_NS ? ns : WEIR_RATELIMIT_TIME_MAX_NS;
}

/* Returns the policy with this form and name, which is added if it does not exist. Returns NULL if
 * there is no room. */
static struct weir_ratelimit_policy *find_or_add(struct wr_told *policies, uint8_t form,
						 struct weir_str name)
{
	struct weir_ratelimit *result = policies->result;

	for (uint32_t i = 0; i < result->count; i++)
		if (result->policies[i].form == form &&
		    wr_str_equal_nocase(result->policies[i].name, name))
			return &result->policies[i];
	if (result->count == WEIR_RATELIMIT_POLICIES_MAX)
		return NULL;
	result->policies[result->count] =
		(struct weir_ratelimit_policy){.form = form, .name = name};
	return &result->policies[result->count++];
}

static void set_limit(struct weir_ratelimit_policy *policy, uint64_t limit)
{
	policy->limit = limit;
	policy->has |= WEIR_RATELIMIT_HAS_LIMIT;
}

static void set_remaining(struct weir_ratelimit_policy *policy, uint64_t remaining)
{
	policy->remaining = remaining;
	policy->has |= WEIR_RATELIMIT_HAS_REMAINING;
}

static void set_window(struct weir_ratelimit_policy *policy, uint64_t window_ns)
{
	if (!window_ns)
		return;
	policy->window_ns = window_ns;
	policy->has |= WEIR_RATELIMIT_HAS_WINDOW;
}

static void set_reset(struct weir_ratelimit_policy *policy, uint64_t reset_ns)
{
	policy->reset_ns = reset_ns;
	policy->has |= WEIR_RATELIMIT_HAS_RESET;
}

static bool has_word(struct weir_str text, const char *word)
{
	struct weir_str wanted = wr_str(word);

	for (size_t i = 0; i + wanted.len <= text.len; i++)
		if (wr_str_equal_nocase(wr_str_first(wr_str_from(text, i), wanted.len), wanted))
			return true;
	return false;
}

static uint8_t unit_of(struct weir_str text)
{
	if (has_word(text, "concurrent"))
		return WEIR_RATELIMIT_CONCURRENT;
	if (has_word(text, "token"))
		return WEIR_RATELIMIT_TOKENS;
	if (has_word(text, "byte"))
		return WEIR_RATELIMIT_BYTES;
	return has_word(text, "request") ? WEIR_RATELIMIT_REQUESTS : WEIR_RATELIMIT_OTHER;
}

/* Sets what a parameter of RateLimit or RateLimit-Policy says. */
static void set_parameter(struct weir_ratelimit_policy *policy, const struct wr_items_piece *piece)
{
	uint64_t value;

	if (wr_str_equal_nocase(piece->key, WR_STR("qu")))
		policy->unit = unit_of(piece->value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("w")) &&
		 wr_moment_seconds(piece->value, &value))
		set_window(policy, value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("t")) &&
		 wr_moment_seconds(piece->value, &value))
		set_reset(policy, value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("q")) &&
		 wr_moment_count(piece->value, &value))
		set_limit(policy, value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("r")) &&
		 wr_moment_count(piece->value, &value))
		set_remaining(policy, value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("name")) && !policy->name.len)
		policy->name = piece->value;
}

/* Sets what a member of the dictionary of draft 7 says: limit=100, remaining=50, reset=30 */
static void set_member(struct wr_told *policies, const struct wr_items_piece *piece)
{
	struct weir_ratelimit_policy *policy =
		find_or_add(policies, WEIR_RATELIMIT_DRAFT7, (struct weir_str){0});
	uint64_t value;

	if (!policy)
		return;
	if (wr_str_equal_nocase(piece->key, WR_STR("limit")) &&
	    wr_moment_count(piece->value, &value))
		set_limit(policy, value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("remaining")) &&
		 wr_moment_count(piece->value, &value))
		set_remaining(policy, value);
	else if (wr_str_equal_nocase(piece->key, WR_STR("reset")) &&
		 wr_moment_seconds(piece->value, &value))
		set_reset(policy, value);
}

/* Adds an entry for an item of a list of quotas such as "10;w=1". wr_told_finish joins it with
 * the policy that has the same limit. */
static struct weir_ratelimit_policy *add_quota(struct wr_told *policies, uint8_t form,
					       uint64_t limit)
{
	struct weir_ratelimit *result = policies->result;
	struct weir_ratelimit_policy *policy;

	if (result->count == WEIR_RATELIMIT_POLICIES_MAX)
		return NULL;
	policy = &result->policies[result->count++];
	*policy = (struct weir_ratelimit_policy){.form = form};
	set_limit(policy, limit);
	return policy;
}

/* Returns the policy that an item of RateLimit or RateLimit-Policy is about, or NULL. */
static struct weir_ratelimit_policy *begin_item(struct wr_told *policies,
						const struct wr_items_piece *piece)
{
	uint64_t limit;

	if (piece->key.len) {
		set_member(policies, piece);
		return NULL;
	}
	if (!piece->quoted && wr_moment_count(piece->value, &limit))
		return add_quota(policies, WEIR_RATELIMIT_DRAFT3, limit);
	return find_or_add(policies, WEIR_RATELIMIT_IETF, piece->value);
}

/* RateLimit and RateLimit-Policy, of all drafts. */
static void read_ietf(struct wr_told *policies, struct weir_str value)
{
	struct wr_items items = wr_items_of(value);
	struct weir_ratelimit_policy *policy = NULL;
	struct wr_items_piece piece;

	while (wr_items_next(&items, &piece)) {
		if (piece.item)
			policy = begin_item(policies, &piece);
		else if (policy)
			set_parameter(policy, &piece);
	}
}

/* "100", or "100, 10;w=1, 100;w=60": the first number is the limit that applies now. */
static void read_limits(struct wr_told *policies, struct weir_ratelimit_policy *policy,
			struct weir_str value)
{
	struct wr_items items = wr_items_of(value);
	struct wr_items_piece piece;
	uint64_t limit;
	bool first = true;

	for (uint8_t form = policy->form; wr_items_next(&items, &piece);) {
		if (!piece.item) {
			if (policy)
				set_parameter(policy, &piece);
			continue;
		}
		if (!wr_moment_count(piece.value, &limit))
			return;
		if (!first)
			policy = add_quota(policies, form, limit);
		else
			set_limit(policy, limit);
		first = false;
	}
}

/* A reset in one of the forms that weir/ratelimit.h lists. */
static bool read_reset(const struct wr_told *policies, struct weir_str value, uint64_t *reset_ns)
{
	uint64_t number, at_ns;

	if (wr_moment_count(value, &number)) {
		if (number < EPOCH_SECONDS_MIN)
			return wr_moment_seconds(value, reset_ns);
		if (!wr_moment_units(value, number < EPOCH_MILLISECONDS_MIN ? SECOND_NS : MS_NS,
				     &at_ns))
			return false;
		*reset_ns = wr_told_until(policies, at_ns);
		return true;
	}
	if (wr_moment_duration(value, reset_ns))
		return true;
	if (!wr_moment_date(value, policies->server_ns, &at_ns))
		return false;
	*reset_ns = wr_told_until(policies, at_ns);
	return true;
}

/* What a field of the families X-RateLimit-… tells. */
enum verb {
	VERB_LIMIT,
	VERB_REMAINING,
	VERB_RESET,
	VERB_RESET_AFTER,
	VERB_NAME,
	VERB_NONE,
};

static const struct {
	struct weir_str word;
	enum verb verb;
} verbs[] = {
	{{"limit", 5}, VERB_LIMIT},
	{{"remaining", 9}, VERB_REMAINING},
	{{"reset-after", 11}, VERB_RESET_AFTER}, /* before "reset" */
	{{"reset", 5}, VERB_RESET},
	{{"next", 4}, VERB_RESET},
	{{"resource", 8}, VERB_NAME},
	{{"bucket", 6}, VERB_NAME},
};

/* Splits "limit-tokens", "tokens-limit" or "limit" into the verb and the rest. */
static enum verb find_verb(struct weir_str text, struct weir_str *rest)
{
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		size_t len = verbs[i].word.len;

		if (text.len < len)
			continue;
		if (wr_str_equal_nocase(wr_str_first(text, len), verbs[i].word) &&
		    (text.len == len || text.ptr[len] == '-')) {
			*rest = wr_str_from(text, text.len > len ? len + 1 : len);
			return verbs[i].verb;
		}
		if (text.len > len && text.ptr[text.len - len - 1] == '-' &&
		    wr_str_equal_nocase(wr_str_from(text, text.len - len), verbs[i].word)) {
			*rest = wr_str_first(text, text.len - len - 1);
			return verbs[i].verb;
		}
	}
	return VERB_NONE;
}

/* Sets the unit and the window that the rest of a field's name says: "tokens", "minute". */
static void set_by_label(struct weir_ratelimit_policy *policy, struct weir_str label)
{
	static const struct {
		const char *word;
		uint64_t seconds;
	} windows[] = {
		{"second", 1}, {"minute", 60}, {"24hour", 86400}, {"hour", 3600}, {"day", 86400}};

	if (!label.len)
		return;
	policy->unit = unit_of(label);
	if (policy->unit != WEIR_RATELIMIT_OTHER)
		return;
	for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
		if (has_word(label, windows[i].word)) {
			policy->unit = WEIR_RATELIMIT_REQUESTS;
			set_window(policy, windows[i].seconds * SECOND_NS);
			return;
		}
}

/* X-RateLimit-Limit and the fields like it: `text` is the name without its prefix. */
static void read_family(struct wr_told *policies, uint8_t form, struct weir_str text,
			struct weir_str value)
{
	struct weir_ratelimit_policy *policy;
	struct weir_str label;
	enum verb verb = find_verb(text, &label);
	uint64_t number;

	if (verb == VERB_NAME)
		policies->x_name = value;
	if (verb == VERB_NAME || verb == VERB_NONE)
		return;
	policy = find_or_add(policies, form, label);
	if (!policy)
		return;
	set_by_label(policy, label);
	if (verb == VERB_LIMIT)
		read_limits(policies, policy, value);
	else if (verb == VERB_REMAINING && wr_moment_count(value, &number))
		set_remaining(policy, number);
	else if (verb == VERB_RESET_AFTER && wr_moment_seconds(value, &number))
		set_reset(policy, number);
	else if (verb == VERB_RESET && read_reset(policies, value, &number) &&
		 !(policy->has & WEIR_RATELIMIT_HAS_RESET))
		set_reset(policy, number);
}

/* X-Shopify-Shop-Api-Call-Limit: 32/40 */
static void read_used_of(struct wr_told *policies, struct weir_str value)
{
	size_t slash = wr_str_find(value, '/');
	struct weir_ratelimit_policy *policy;
	uint64_t used, limit;

	if (slash == value.len || !wr_moment_count(wr_str_first(value, slash), &used) ||
	    !wr_moment_count(wr_str_from(value, slash + 1), &limit))
		return;
	policy = find_or_add(policies, WEIR_RATELIMIT_VENDOR, (struct weir_str){0});
	if (!policy)
		return;
	set_limit(policy, limit);
	set_remaining(policy, used < limit ? limit - used : 0);
}

void wr_told_read(struct wr_told *policies, const struct weir_header *field)
{
	static const struct {
		struct weir_str prefix;
		uint8_t form;
	} families[] = {
		{{"ratelimit-", 10}, WEIR_RATELIMIT_DRAFT3},
		{{"x-ratelimit-", 12}, WEIR_RATELIMIT_X},
		{{"x-rate-limit-", 13}, WEIR_RATELIMIT_X},
		{{"x-user-limit-", 13}, WEIR_RATELIMIT_X},
		{{"anthropic-ratelimit-", 20}, WEIR_RATELIMIT_VENDOR},
	};
	struct weir_str value = wr_str_trim(field->value);

	if (wr_str_equal_nocase(field->name, WR_STR("RateLimit")) ||
	    wr_str_equal_nocase(field->name, WR_STR("RateLimit-Policy"))) {
		read_ietf(policies, value);
		return;
	}
	if (wr_str_equal_nocase(field->name, WR_STR("X-Shopify-Shop-Api-Call-Limit"))) {
		read_used_of(policies, value);
		return;
	}
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (wr_str_equal_nocase(wr_str_first(field->name, families[i].prefix.len),
					families[i].prefix)) {
			read_family(policies, families[i].form,
				    wr_str_from(field->name, families[i].prefix.len), value);
			return;
		}
}
