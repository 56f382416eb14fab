/* The answer to a question of /v1/check, written straight into the caller's memory: this is the
 * hot path, and building a tree to print it would cost more than the decision. */
#include "wire/check/json.h"

#include "rules/rules.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

/* X(flag, name in answers) */
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

static void put_flags(struct wr_text *out, uint32_t flags)
{
	bool first = true;

	PUT(out, ",\"flags\":[");
	for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++) {
		if (!(flags & flag_names[i].flag))
			continue;
		if (!first)
			wr_text_char(out, ',');
		wr_json_put_text(out, flag_names[i].name);
		first = false;
	}
	wr_text_char(out, ']');
}

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

/* What a limit says; the same members for a descriptor and for the question as a whole. */
static void put_limit(struct wr_text *out, const struct weir_status *status)
{
	PUT(out, "\"rule\":");
	wr_json_put_text_or_null(out, status->rule);
	PUT(out, ",\"name\":");
	wr_json_put_text_or_null(out, status->name);
	PUT(out, ",\"limit\":");
	wr_text_number(out, status->limit);
	PUT(out, ",\"remaining\":");
	wr_text_number(out, status->remaining);
	PUT(out, ",\"reset_after\":");
	wr_json_put_seconds(out, status->decision.reset_after_ns);
}

static void put_no_limit(struct wr_text *out)
{
	PUT(out, "\"rule\":null,\"name\":null,\"limit\":null,\"remaining\":null,"
		 "\"reset_after\":null");
}

static void put_descriptor(struct wr_text *out, const struct weir_status *status)
{
	if (status->code == WEIR_STATUS_OVER_LIMIT)
		PUT(out, "{\"code\":\"over_limit\",");
	else
		PUT(out, "{\"code\":\"ok\",");
	if (status->flags & WEIR_STATUS_LIMITED) {
		put_limit(out, status);
		PUT(out, ",\"retry_after\":");
		wr_json_put_seconds(out, status->decision.retry_after_ns);
		PUT(out, ",\"requests_per_unit\":");
		wr_text_number(out, status->requests_per_unit);
		PUT(out, ",\"unit\":");
		wr_json_put_text_or_null(out, unit_name(status->unit));
	} else {
		put_no_limit(out);
		PUT(out, ",\"retry_after\":0,\"requests_per_unit\":null,\"unit\":null");
	}
	put_flags(out, status->flags);
	wr_text_char(out, '}');
}

static void put_descriptors(const struct weir_ask *ask, struct wr_text *out, uint32_t count)
{
	PUT(out, ",\"descriptors\":[");
	for (uint32_t i = 0; i < count; i++) {
		struct weir_status status = {.size = sizeof status};

		if (weir_ask_status(ask, i, &status) != 0)
			break;
		if (i)
			wr_text_char(out, ',');
		put_descriptor(out, &status);
	}
	wr_text_char(out, ']');
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

void wr_check_answer(const struct weir_ask *ask, int verdict, struct wr_text *out)
{
	struct weir_result result = {.size = sizeof result};
	struct weir_status tightest = {.size = sizeof tightest};
	bool admitted = verdict == WEIR_ADMIT || verdict == WEIR_DELAY;

	weir_ask_result(ask, &result);
	if (admitted)
		PUT(out, "{\"admitted\":true,\"verdict\":");
	else
		PUT(out, "{\"admitted\":false,\"verdict\":");
	wr_json_put_text(out, verdict_name(verdict));
	PUT(out, ",\"status\":");
	wr_text_number(out, verdict == WEIR_ADMIT ? 200 : result.http_status);
	wr_text_char(out, ',');
	if (weir_ask_tightest(ask, &tightest) == 0)
		put_limit(out, &tightest);
	else
		put_no_limit(out);
	PUT(out, ",\"retry_after\":");
	wr_json_put_seconds(out, admitted ? 0 : result.retry_after_ns);
	PUT(out, ",\"delay\":");
	wr_json_put_seconds(out, verdict == WEIR_DELAY ? result.delay_ns : 0);
	PUT(out, ",\"generation\":");
	wr_text_number(out, result.generation);
	put_descriptors(ask, out, result.descriptors);
	wr_text_char(out, '}');
}
