/* Writes the answer to a check (json.h). The answer is written without a tree of JSON values,
 * because building a tree would cost more than the decision. Called by serve/http/check.c. */
#include "wire/check/json.h"

#include "base/assert.h"
#include "rules/rules.h"
#include "wire/check/decision_json.h"
#include "wire/check/reserve_json.h"

/* The flags of struct weir_status and their names in the answer. */
static const struct {
	uint32_t flag;
	const char *name;
} flag_names[] = {
	{WEIR_STATUS_UNLIMITED, "unlimited"},       {WEIR_STATUS_WHITELISTED, "whitelisted"},
	{WEIR_STATUS_REPLACED, "replaced"},         {WEIR_STATUS_SHADOW, "shadow"},
	{WEIR_STATUS_WOULD_REFUSE, "would_refuse"}, {WEIR_STATUS_QUOTA, "quota"},
	{WEIR_STATUS_OVERRIDE, "override"},         {WEIR_STATUS_FAILED, "store_failed"},
};

static struct weir_str unit_name(uint32_t unit)
{
	switch (unit) {
#define UNIT_CASE(name, number, text, seconds)                                                     \
	case number:                                                                               \
		return WR_STR(text);
		WR_UNITS(UNIT_CASE)
#undef UNIT_CASE
	default:
		return WR_STR("");
	}
}

/* Writes the members that describe a limit, for a descriptor or for the whole check. If `status` is
 * NULL, no limit applies, and all members are null. */
static void write_limit_members(struct wr_json_out *json, const struct weir_status *status)
{
	if (!status) {
		wr_json_raw(json, WR_STR("\"rule\":null,\"name\":null,\"limit\":null,"
					 "\"remaining\":null,\"reset_after\":null"));
		return;
	}
	wr_json_member_string_or_null(json, "rule", status->rule);
	wr_json_member_string_or_null(json, "name", status->name);
	wr_json_member_uint(json, "limit", status->limit);
	wr_json_member_uint(json, "remaining", status->remaining);
	wr_json_member_seconds(json, "reset_after", status->decision.reset_after_ns);
}

static void write_descriptor(struct wr_json_out *json, const struct weir_status *status)
{
	wr_json_object(json);
	wr_json_member_string(json, "code",
			      status->code == WEIR_STATUS_OVER_LIMIT ? WR_STR("over_limit")
								     : WR_STR("ok"));
	if (status->flags & WEIR_STATUS_LIMITED) {
		write_limit_members(json, status);
		wr_json_member_seconds(json, "retry_after", status->decision.retry_after_ns);
		wr_json_member_uint(json, "requests_per_unit", status->requests_per_unit);
		wr_json_member_string_or_null(json, "unit", unit_name(status->unit));
	} else {
		write_limit_members(json, NULL);
		wr_json_raw(json, WR_STR("\"retry_after\":0,\"requests_per_unit\":null,"
					 "\"unit\":null"));
	}
	wr_json_key(json, "flags");
	wr_json_array(json);
	for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++)
		if (status->flags & flag_names[i].flag)
			wr_json_string(json, wr_str(flag_names[i].name));
	wr_json_end_array(json);
	wr_json_end_object(json);
}

/* The end of a ban that never ends is null. */
static void write_end_of_ban(struct wr_json_out *json, uint64_t until_ns)
{
	wr_json_key(json, "banned_until");
	if (until_ns == WEIR_NEVER)
		wr_json_null(json);
	else
		wr_wire_json_time(json, until_ns);
}

/* Writes the members of an answer, without the braces. */
static void write_answer(const struct weir_ask *ask, int verdict, struct wr_json_out *json)
{
	struct weir_result result = {.size = sizeof result};
	struct weir_status tightest = {.size = sizeof tightest};
	bool admitted = verdict == WEIR_ADMIT || verdict == WEIR_DELAY;

	wr_assert(ask && verdict > 0 && verdict != WEIR_WAIT);
	weir_ask_result(ask, &result);
	wr_json_member_bool(json, "admitted", admitted);
	wr_json_member_string(json, "verdict", wr_decision_verdict_name(verdict));
	wr_json_member_uint(json, "status", verdict == WEIR_ADMIT ? 200 : result.http_status);
	write_limit_members(json, weir_ask_tightest(ask, &tightest) == 0 ? &tightest : NULL);
	wr_json_member_seconds(json, "retry_after", admitted ? 0 : result.retry_after_ns);
	if (result.banned_until_ns)
		write_end_of_ban(json, result.banned_until_ns);
	wr_json_member_seconds(json, "delay", verdict == WEIR_DELAY ? result.delay_ns : 0);
	wr_json_member_uint(json, "generation", result.generation);
	wr_json_key(json, "descriptors");
	wr_json_array(json);
	for (uint32_t i = 0; i < result.descriptors; i++) {
		struct weir_status status = {.size = sizeof status};

		if (weir_ask_status(ask, i, &status) != 0)
			break;
		write_descriptor(json, &status);
	}
	wr_json_end_array(json);
}

void wr_check_answer(const struct weir_ask *ask, int verdict, struct wr_json_out *json)
{
	wr_json_object(json);
	write_answer(ask, verdict, json);
	wr_json_end_object(json);
}

void wr_check_answer_reserved(const struct weir_ask *ask, int verdict, struct weir_str token,
			      uint64_t ttl_ns, struct wr_json_out *json)
{
	wr_json_object(json);
	wr_json_member_string(json, "reservation", token);
	wr_json_member_seconds(json, "expires_after", ttl_ns);
	write_answer(ask, verdict, json);
	wr_json_end_object(json);
}
