/* Writes the response to a question of /v1/check. It is written without a tree of JSON values,
 * because building a tree would cost more than the decision. Called by serve/http/check.c. */
#include "wire/check/json.h"

#include "base/assert.h"
#include "rules/rules.h"

/* X(flag, name in the response): the flags of a status. */
#define FLAGS(X)                                                                                   \
	X(WEIR_STATUS_UNLIMITED, "unlimited")                                                      \
	X(WEIR_STATUS_WHITELISTED, "whitelisted")                                                  \
	X(WEIR_STATUS_REPLACED, "replaced")                                                        \
	X(WEIR_STATUS_SHADOW, "shadow")                                                            \
	X(WEIR_STATUS_WOULD_REFUSE, "would_refuse")                                                \
	X(WEIR_STATUS_QUOTA, "quota")                                                              \
	X(WEIR_STATUS_OVERRIDE, "override")                                                        \
	X(WEIR_STATUS_FAILED, "store_failed")

static const struct {
	uint32_t flag;
	struct weir_str name;
} flag_names[] = {
#define FLAG_ROW(flag, name) {flag, {name, sizeof(name) - 1}},
	FLAGS(FLAG_ROW)
#undef FLAG_ROW
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

/* Writes the members that a descriptor and the whole question have in common. If `status` is NULL,
 * no limit applies. */
static void write_limit(struct wr_json_out *json, const struct weir_status *status)
{
	if (!status) {
		wr_json_raw(json, WR_STR("\"rule\":null,\"name\":null,\"limit\":null,"
					 "\"remaining\":null,\"reset_after\":null"));
		return;
	}
	wr_json_key(json, "rule");
	wr_json_string_or_null(json, status->rule);
	wr_json_key(json, "name");
	wr_json_string_or_null(json, status->name);
	wr_json_key(json, "limit");
	wr_json_uint(json, status->limit);
	wr_json_key(json, "remaining");
	wr_json_uint(json, status->remaining);
	wr_json_key(json, "reset_after");
	wr_json_seconds(json, status->decision.reset_after_ns);
}

static void write_descriptor(struct wr_json_out *json, const struct weir_status *status)
{
	wr_json_object(json);
	wr_json_key(json, "code");
	wr_json_string(json, status->code == WEIR_STATUS_OVER_LIMIT ? WR_STR("over_limit")
								    : WR_STR("ok"));
	if (status->flags & WEIR_STATUS_LIMITED) {
		write_limit(json, status);
		wr_json_key(json, "retry_after");
		wr_json_seconds(json, status->decision.retry_after_ns);
		wr_json_key(json, "requests_per_unit");
		wr_json_uint(json, status->requests_per_unit);
		wr_json_key(json, "unit");
		wr_json_string_or_null(json, unit_name(status->unit));
	} else {
		write_limit(json, NULL);
		wr_json_raw(json, WR_STR("\"retry_after\":0,\"requests_per_unit\":null,"
					 "\"unit\":null"));
	}
	wr_json_key(json, "flags");
	wr_json_array(json);
	for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++)
		if (status->flags & flag_names[i].flag)
			wr_json_string(json, flag_names[i].name);
	wr_json_end_array(json);
	wr_json_end_object(json);
}

static struct weir_str verdict_name(int verdict)
{
	switch (verdict) {
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

void wr_check_answer(const struct weir_ask *ask, int verdict, struct wr_json_out *json)
{
	struct weir_result result = {.size = sizeof result};
	struct weir_status tightest = {.size = sizeof tightest};
	bool admitted = verdict == WEIR_ADMIT || verdict == WEIR_DELAY;

	wr_assert(ask && verdict > 0 && verdict != WEIR_WAIT);
	weir_ask_result(ask, &result);
	wr_json_object(json);
	wr_json_key(json, "admitted");
	wr_json_bool(json, admitted);
	wr_json_key(json, "verdict");
	wr_json_string(json, verdict_name(verdict));
	wr_json_key(json, "status");
	wr_json_uint(json, verdict == WEIR_ADMIT ? 200 : result.http_status);
	write_limit(json, weir_ask_tightest(ask, &tightest) == 0 ? &tightest : NULL);
	wr_json_key(json, "retry_after");
	wr_json_seconds(json, admitted ? 0 : result.retry_after_ns);
	wr_json_key(json, "delay");
	wr_json_seconds(json, verdict == WEIR_DELAY ? result.delay_ns : 0);
	wr_json_key(json, "generation");
	wr_json_uint(json, result.generation);
	wr_json_key(json, "descriptors");
	wr_json_array(json);
	for (uint32_t i = 0; i < result.descriptors; i++) {
		struct weir_status status = {.size = sizeof status};

		if (weir_ask_status(ask, i, &status) != 0)
			break;
		write_descriptor(json, &status);
	}
	wr_json_end_array(json);
	wr_json_end_object(json);
}
