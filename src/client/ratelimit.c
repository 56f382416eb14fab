/* Implements weir/ratelimit.h: finds the fields of interest, and the wait. policies.h reads the
 * policies in them. */
#include <weir/ratelimit.h>

#include "base/str.h"
#include "base/versioned.h"
#include "client/moment.h"
#include "client/policies.h"

#define MS_NS 1000000ull
#define STATUS_FORBIDDEN 403
#define STATUS_TOO_MANY 429
#define STATUS_UNAVAILABLE 503

static bool is_named(const struct weir_header *field, const char *name)
{
	return wr_str_equal_nocase(field->name, wr_str(name));
}

/* ---- waits ---- */

/* Reads seconds or a date, as in Retry-After. */
static bool read_retry_after(struct weir_str value, const struct wr_told *policies,
			     uint64_t *wait_ns)
{
	uint64_t at_ns;

	if (wr_moment_seconds(value, wait_ns))
		return true;
	if (!wr_moment_date(value, policies->server_ns, &at_ns))
		return false;
	*wait_ns = wr_told_until(policies, at_ns);
	return true;
}

static bool read_ms(struct weir_str value, const struct wr_told *policies, uint64_t *wait_ns)
{
	(void)policies;
	if (!wr_moment_units(value, MS_NS, wait_ns))
		return false;
	if (*wait_ns > WEIR_RATELIMIT_TIME_MAX_NS)
		*wait_ns = WEIR_RATELIMIT_TIME_MAX_NS;
	return true;
}

static bool read_duration(struct weir_str value, const struct wr_told *policies, uint64_t *wait_ns)
{
	(void)policies;
	return wr_moment_duration(value, wait_ns);
}

/* The fields that tell a wait. */
static const struct wait_field {
	const char *name;
	bool (*read)(struct weir_str value, const struct wr_told *policies, uint64_t *wait_ns);
} wait_fields[] = {
	{"Retry-After", read_retry_after},
	{"X-RateLimit-Retry-After", read_retry_after},
	{"X-Rate-Limit-Retry-After", read_retry_after},
	{"Retry-After-Ms", read_ms},
	{"X-Retry-In", read_duration},
};

static const struct wait_field *find_wait_field(const struct weir_header *field)
{
	for (size_t i = 0; i < sizeof wait_fields / sizeof *wait_fields; i++)
		if (is_named(field, wait_fields[i].name))
			return &wait_fields[i];
	return NULL;
}

static bool is_day(struct weir_str word)
{
	static const char names[] = "montuewedthufrisatsun";

	for (size_t i = 0; i < sizeof names - 1; i += 3)
		if (wr_str_equal_nocase(wr_str_first(word, 3), (struct weir_str){names + i, 3}))
			return true;
	return false;
}

/* Returns the length of the first value of a list. The comma behind the name of a day is part of a
 * date: "3, Wed, 21 Oct 2026 07:28:00 GMT" has two values. */
static size_t value_length(struct weir_str list)
{
	size_t len = wr_str_find(list, ',');
	struct weir_str word = wr_str_trim(wr_str_first(list, len));

	if (len < list.len && is_day(word) && !wr_str_has(word, ' '))
		len += 1 + wr_str_find(wr_str_from(list, len + 1), ',');
	return len;
}

/* Reads a field that tells a wait. A proxy can have joined several fields into a list; the longest
 * wait counts. Returns false if the field is another one. */
static bool read_wait(const struct weir_header *field, const struct wr_told *policies,
		      uint64_t *longest_ns)
{
	const struct wait_field *kind = find_wait_field(field);
	struct weir_str rest = field->value;
	bool told = false;
	uint64_t wait_ns;

	if (!kind)
		return false;
	for (*longest_ns = 0; rest.len;) {
		size_t len = value_length(rest);

		if (kind->read(wr_str_trim(wr_str_first(rest, len)), policies, &wait_ns)) {
			told = true;
			if (wait_ns > *longest_ns)
				*longest_ns = wait_ns;
		}
		rest = wr_str_from(rest, len < rest.len ? len + 1 : len);
	}
	/* "Jan 15, 2027 08:00:05 GMT" is no list. */
	return told || kind->read(wr_str_trim(field->value), policies, longest_ns);
}

/* ---- the response ---- */

/* Reads the fields that the other fields depend on: Date and Age. */
static void read_context(const struct weir_header *fields, size_t count, uint64_t now_ns,
			 struct wr_told *policies, bool *cached)
{
	uint64_t value;

	policies->server_ns = now_ns;
	for (size_t i = 0; i < count; i++) {
		if (fields[i].value.len > WEIR_RATELIMIT_VALUE_MAX)
			continue;
		if (is_named(&fields[i], "Date") &&
		    wr_moment_date(wr_str_trim(fields[i].value), now_ns, &value))
			policies->server_ns = value;
		if (is_named(&fields[i], "Age") &&
		    wr_moment_count(wr_str_trim(fields[i].value), &value) && value > 0)
			*cached = true;
	}
}

/* Returns whether a policy has no units left, and the longest reset of these policies. */
static bool is_exhausted(const struct weir_ratelimit *result, uint64_t *reset_ns)
{
	bool exhausted = false;

	*reset_ns = 0;
	for (uint32_t i = 0; i < result->count; i++) {
		const struct weir_ratelimit_policy *policy = &result->policies[i];

		if (!(policy->has & WEIR_RATELIMIT_HAS_REMAINING) || policy->remaining)
			continue;
		exhausted = true;
		if (policy->reset_ns > *reset_ns)
			*reset_ns = policy->reset_ns;
	}
	return exhausted;
}

static void judge(struct weir_ratelimit *result, int status, bool wait_told)
{
	uint64_t reset_ns;
	bool exhausted = is_exhausted(result, &reset_ns);

	result->refused = status == STATUS_TOO_MANY ||
			  (status == STATUS_FORBIDDEN && (exhausted || wait_told)) ||
			  (status == STATUS_UNAVAILABLE && exhausted);
	if (result->refused && !wait_told)
		result->wait_ns = reset_ns;
}

static void parse(const struct weir_header *fields, size_t count, int status, uint64_t now_ns,
		  struct weir_ratelimit *result)
{
	struct wr_told policies = {.result = result};
	bool wait_told = false, cached = false;

	if (count > WEIR_RATELIMIT_FIELDS_MAX)
		count = WEIR_RATELIMIT_FIELDS_MAX;
	read_context(fields, count, now_ns, &policies, &cached);
	for (size_t i = 0; i < count; i++) {
		uint64_t wait_ns;

		if (fields[i].value.len > WEIR_RATELIMIT_VALUE_MAX)
			continue;
		if (read_wait(&fields[i], &policies, &wait_ns)) {
			wait_told = true;
			if (wait_ns > result->wait_ns)
				result->wait_ns = wait_ns;
		} else if (!cached) {
			wr_told_read(&policies, &fields[i]);
		}
	}
	wr_told_finish(&policies);
	result->cached = cached;
	judge(result, status, wait_told);
}

int weir_ratelimit_parse(const struct weir_header *fields, size_t count, int status,
			 uint64_t now_ns, struct weir_ratelimit *result)
{
	struct weir_ratelimit known, *out;

	out = result && (fields || !count)
		      ? wr_versioned_target(result, &known, sizeof known,
					    offsetof(struct weir_ratelimit, policies))
		      : NULL;
	if (!out)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	*out = (struct weir_ratelimit){.size = sizeof *out};
	parse(fields, count, status, now_ns, out);
	wr_versioned_write(result, out, sizeof known);
	return 0;
}
