/* Joins the parts of policies that came in several header fields. */
#include "client/policies.h"

#include <stdbool.h>

/* Returns whether `quota` is an item of a list of quotas that describes `policy`. */
static bool describes(const struct weir_ratelimit_policy *quota,
		      const struct weir_ratelimit_policy *policy)
{
	bool same_family = quota->form == policy->form || (quota->form == WEIR_RATELIMIT_DRAFT3 &&
							   policy->form == WEIR_RATELIMIT_DRAFT7);

	return same_family &&
	       quota->has == (WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_WINDOW) &&
	       (policy->has & WEIR_RATELIMIT_HAS_LIMIT) &&
	       (policy->has & WEIR_RATELIMIT_HAS_REMAINING) &&
	       !(policy->has & WEIR_RATELIMIT_HAS_WINDOW) && quota->limit == policy->limit;
}

static void remove_at(struct weir_ratelimit *result, uint32_t at)
{
	result->count--;
	for (uint32_t i = at; i < result->count; i++)
		result->policies[i] = result->policies[i + 1];
	result->policies[result->count] = (struct weir_ratelimit_policy){0};
}

/* Joins the quota at `at` with the policy that it describes. */
static bool join_quota(struct weir_ratelimit *result, uint32_t at)
{
	const struct weir_ratelimit_policy *quota = &result->policies[at];

	for (uint32_t i = 0; i < result->count; i++) {
		struct weir_ratelimit_policy *policy = &result->policies[i];

		if (i == at || !describes(quota, policy))
			continue;
		policy->window_ns = quota->window_ns;
		policy->has |= WEIR_RATELIMIT_HAS_WINDOW;
		if (!policy->name.len)
			policy->name = quota->name;
		remove_at(result, at);
		return true;
	}
	return false;
}

void wr_told_finish(struct wr_told *policies)
{
	const uint8_t telling = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING;
	struct weir_ratelimit *result = policies->result;

	for (uint32_t i = 0; i < result->count;)
		if (!(result->policies[i].has & telling))
			remove_at(result, i);
		else if (!join_quota(result, i))
			i++;
	for (uint32_t i = 0; i < result->count; i++)
		if (result->policies[i].form == WEIR_RATELIMIT_X && !result->policies[i].name.len)
			result->policies[i].name = policies->x_name;
}
