/* Reads the map `defer`: how requests that a limit refused are stored and delivered later. */
#include "rules/read.h"

#include "base/duration.h"
#include "base/hop_by_hop.h"
#include "base/size.h"

#define NS_PER_S 1000000000ull
#define FIELDS_MAX 64u
#define BODY_MAX (16u << 20)
#define TRIES_MAX 1000000u
#define WAITING_MAX 1000000000u
#define AGE_MAX_NS (366ull * 86400 * NS_PER_S)

/* Header fields that are stored by default: they describe the body and its sender, and contain no
 * credentials. */
static const struct weir_str default_headers[] = {
	WR_STR("content-type"), WR_STR("content-encoding"), WR_STR("content-language"),
	WR_STR("accept"),       WR_STR("accept-language"),  WR_STR("user-agent"),
	WR_STR("x-request-id"), WR_STR("idempotency-key"),  WR_STR("traceparent"),
	WR_STR("tracestate"),
};

static const struct weir_str methods[] = {WR_STR("POST"), WR_STR("PUT"), WR_STR("PATCH"),
					  WR_STR("DELETE")};

const struct wr_rules_defer wr_rules_defer_default = {
	.headers = default_headers,
	.header_count = sizeof default_headers / sizeof *default_headers,
	.max_tries = 20,
	.max_waiting = 1000,
	.max_body = 1u << 20,
	.max_age_ns = 86400 * NS_PER_S,
};

bool wr_rules_defer_method(struct weir_str method)
{
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		if (wr_str_equal(method, methods[i]))
			return true;
	return false;
}

static struct weir_str lower_names(struct wr_load *load, struct weir_str text)
{
	char *copy = wr_load_alloc(load, &load->rules->arena, text.len + 1);

	for (size_t i = 0; i < text.len; i++)
		copy[i] = wr_lower(text.ptr[i]);
	return (struct weir_str){copy, text.len};
}

static void read_headers(struct wr_load *load, const struct wr_fields *f,
			 struct wr_rules_defer *defer)
{
	const struct wr_yaml *value;
	struct weir_str *names;
	struct wr_rules_list list;
	uint32_t count = 0;

	if (!wr_get_list(load, f, WR_KEY_HEADERS, false, FIELDS_MAX, &list))
		return;
	names = wr_load_alloc(load, &load->rules->arena, list.count * sizeof *names);
	while ((value = wr_rules_list_next(&list))) {
		struct weir_str name = lower_names(load, value->text);

		if (!wr_is_token(name))
			wr_rules_report(load, WR_D_bad_field_name, value, WR_ARGS(value->text));
		else if (wr_hop_by_hop_name(name))
			wr_rules_report(load, WR_D_hop_by_hop_field, value, WR_ARGS(value->text));
		else
			names[count++] = name;
	}
	defer->headers = names;
	defer->header_count = count;
}

static void read_size(struct wr_load *load, const struct wr_fields *f, struct wr_rules_defer *defer)
{
	const struct wr_yaml *value = f->value[WR_KEY_MAX_BODY];
	uint64_t bytes = UINT64_MAX;

	if (!value)
		return;
	if (value->kind != WR_YAML_TEXT || wr_size_parse(value->text, &bytes) != 0 ||
	    bytes > BODY_MAX)
		wr_rules_report(load, WR_D_bad_size, value,
				WR_ARGS(wr_keys[WR_KEY_MAX_BODY].name, WR_STR("0"), WR_STR("16M")));
	else
		defer->max_body = (uint32_t)bytes;
}

static void read_age(struct wr_load *load, const struct wr_fields *f, struct wr_rules_defer *defer)
{
	const struct wr_yaml *value = f->value[WR_KEY_MAX_AGE];
	uint64_t ns;

	if (!wr_get_duration(load, f, WR_KEY_MAX_AGE, &ns))
		return;
	if (ns < NS_PER_S || ns > AGE_MAX_NS)
		wr_rules_report(load, WR_D_bad_max_age, value,
				WR_ARGS(WR_STR("1s"), WR_STR("366d")));
	else
		defer->max_age_ns = ns;
}

/* Warns if the limit admits so few requests that the second request in the queue would reach
 * max_age before it is admitted. */
static void check_age(struct wr_load *load, const struct wr_fields *f,
		      const struct wr_rules_limit *limit)
{
	char every[WR_DURATION_TEXT], age[WR_DURATION_TEXT];
	struct weir_str args[] = {{every, 0}, {age, 0}};
	uint64_t max_ns = limit->defer->max_age_ns;

	if (limit->limit.algorithm == WEIR_CONCURRENT || limit->limit.limit == 0 ||
	    limit->limit.period_ns / limit->limit.limit <= max_ns)
		return;
	args[0].len = wr_duration_text(limit->limit.period_ns / limit->limit.limit, every);
	args[1].len = wr_duration_text(max_ns, age);
	wr_rules_report(load, WR_D_defer_too_old, f->key[WR_KEY_ON_LIMIT], args);
}

static void read_map(struct wr_load *load, const struct wr_yaml *value,
		     struct wr_rules_limit *limit)
{
	struct wr_fields fields;
	struct wr_rules_defer *defer;

	if (!wr_fields_read(load, value, WR_IN_DEFER, WR_STR("defer"), &fields))
		return;
	defer = wr_load_alloc(load, &load->rules->arena, sizeof *defer);
	*defer = wr_rules_defer_default;
	read_headers(load, &fields, defer);
	read_size(load, &fields, defer);
	read_age(load, &fields, defer);
	wr_get_number(load, &fields, WR_KEY_MAX_TRIES, 1, TRIES_MAX, &defer->max_tries);
	wr_get_number(load, &fields, WR_KEY_MAX_WAITING, 1, WAITING_MAX, &defer->max_waiting);
	limit->defer = defer;
}

void wr_read_defer(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	const struct wr_yaml *value = f->value[WR_KEY_DEFER];

	if (value && limit->on_limit != WR_DEFER)
		wr_rules_report(load, WR_D_defer_without_on_limit, f->key[WR_KEY_DEFER], NULL);
	if (limit->on_limit != WR_DEFER)
		return;
	if (limit->limit.flags & WEIR_COUNT_REJECTED)
		wr_rules_report(load, WR_D_defer_count_rejected, f->key[WR_KEY_COUNT_REJECTED],
				NULL);
	if (f->value[WR_KEY_REQUESTS_PER_UNIT] && limit->limit.limit == 0)
		wr_rules_report(load, WR_D_defer_never, f->key[WR_KEY_ON_LIMIT], NULL);
	limit->defer = &wr_rules_defer_default;
	if (value)
		read_map(load, value, limit);
	check_age(load, f, limit);
}
