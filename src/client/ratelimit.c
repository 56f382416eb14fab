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

/* Reads the value of Retry-After. */
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

static bool read_ms(struct weir_str value, uint64_t *wait_ns)
{
	if (!wr_moment_units(value, MS_NS, wait_ns))
		return false;
	if (*wait_ns > WEIR_RATELIMIT_TIME_MAX_NS)
		*wait_ns = WEIR_RATELIMIT_TIME_MAX_NS;
	return true;
}

/* Reads a field that tells a wait. Returns false if the field is another one. */
static bool read_wait(const struct weir_header *field, const struct wr_told *policies,
		      uint64_t *wait_ns)
{
	struct weir_str value = wr_str_trim(field->value);

	if (is_named(field, "Retry-After") || is_named(field, "X-RateLimit-Retry-After") ||
	    is_named(field, "X-Rate-Limit-Retry-After"))
		return read_retry_after(value, policies, wait_ns);
	if (is_named(field, "Retry-After-Ms"))
		return read_ms(value, wait_ns);
	if (is_named(field, "X-Retry-In"))
		return wr_moment_duration(value, wait_ns);
	return false;
}

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
