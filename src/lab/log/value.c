/* Makes records of the values that JSON and CSV name. */
#include "lab/log/value.h"

#include <math.h>
#include <stdlib.h>

#include "base/str.h"

#define STATUS_MAX 999u
#define MAX_DURATION_NS (1ull << 62)
#define NUMBER_BYTES 64u /* longer texts are no numbers */

bool wr_lab_values_want(const struct wr_lab_values *values, const struct wr_lab_meaning *meaning)
{
	const struct wr_lab_value *value = &values->items[meaning->means];

	if (value->kind == WR_LAB_VALUE_NONE || meaning->rank < value->rank)
		return true;
	return meaning->means == WR_LAB_MEANS_COST && meaning->rank == value->rank;
}

/* ---- numbers ---- */

/* Reads "12" or "0.25" as a number of billionths. Sets the rest of the text. */
static bool read_decimal(struct weir_str *text, uint64_t *whole, uint64_t *billionths,
			 bool *fraction)
{
	uint64_t unit = 100000000;
	size_t i = 0;

	*whole = *billionths = 0;
	*fraction = false;
	for (; i < text->len && i < 18 && text->ptr[i] >= '0' && text->ptr[i] <= '9'; i++)
		*whole = *whole * 10 + (uint64_t)(text->ptr[i] - '0');
	if (i == 0)
		return false;
	if (i < text->len && text->ptr[i] == '.') {
		*fraction = true;
		for (i++; i < text->len && text->ptr[i] >= '0' && text->ptr[i] <= '9'; i++) {
			*billionths += (uint64_t)(text->ptr[i] - '0') * unit;
			unit /= 10;
		}
	}
	*text = wr_str_from(*text, i);
	return true;
}

static uint64_t scale(uint64_t whole, uint64_t billionths, uint64_t unit_ns)
{
	if (whole > MAX_DURATION_NS / unit_ns)
		return MAX_DURATION_NS;
	return whole * unit_ns +
	       (uint64_t)((double)billionths * (double)unit_ns / (double)WR_LAB_SECOND_NS);
}

uint64_t wr_lab_duration(struct weir_str text, uint64_t unit_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1},       {"us", 1000},      {"µs", 1000},
		     {"ms", 1000000}, {"s", 1000000000}, {"", 0}};
	uint64_t whole, billionths;
	bool fraction;

	if (!read_decimal(&text, &whole, &billionths, &fraction))
		return 0;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (!wr_str_equal(text, wr_str(units[i].name)))
			continue;
		if (units[i].ns)
			unit_ns = units[i].ns;
		else if (unit_ns == 0)
			unit_ns = fraction ? WR_LAB_SECOND_NS : 1000000;
		return scale(whole, billionths, unit_ns);
	}
	return 0;
}

static uint64_t duration_of(const struct wr_lab_value *value)
{
	double unit_ns = value->unit_ns ? (double)value->unit_ns : 1e9;

	switch (value->kind) {
	case WR_LAB_VALUE_TEXT:
		return wr_lab_duration(value->text, value->unit_ns);
	case WR_LAB_VALUE_INTEGER:
		if (value->integer < 0)
			return 0;
		return scale((uint64_t)value->integer, 0,
			     value->unit_ns ? value->unit_ns : 1000000);
	case WR_LAB_VALUE_REAL:
		if (!(value->real > 0 && value->real * unit_ns < (double)MAX_DURATION_NS))
			return 0;
		return (uint64_t)llround(value->real * unit_ns);
	default:
		return 0;
	}
}

/* Rounds a number that is not negative. Numbers above 10^18 become 10^18. */
static bool round_real(double real, int64_t *number)
{
	if (!(real >= 0))
		return false;
	*number = real < 1e18 ? llround(real) : 1000000000000000000;
	return true;
}

/* Reads a number with more than 18 digits or with an exponent, such as "1.5e3". */
static bool read_large(struct weir_str text, int64_t *number)
{
	char copy[NUMBER_BYTES], *end;

	if (text.len == 0 || text.len >= sizeof copy || text.ptr[0] < '0' || text.ptr[0] > '9')
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (!strchr("0123456789.eE+-", text.ptr[i]) || text.ptr[i] == '\0')
			return false;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	return round_real(strtod(copy, &end), number) && end == copy + text.len;
}

/* Reads a number that is not negative, and rounds it. Numbers above 10^18 become 10^18. */
static bool read_integer(const struct wr_lab_value *value, int64_t *number)
{
	struct weir_str text = wr_str_trim(value->text), rest = text;
	uint64_t whole, billionths;
	bool fraction;

	switch (value->kind) {
	case WR_LAB_VALUE_TEXT:
		if (!read_decimal(&rest, &whole, &billionths, &fraction) || rest.len)
			return read_large(text, number);
		*number = (int64_t)whole + (billionths >= WR_LAB_SECOND_NS / 2);
		return true;
	case WR_LAB_VALUE_INTEGER:
		*number = value->integer;
		return value->integer >= 0;
	case WR_LAB_VALUE_REAL:
		return round_real(value->real, number);
	default:
		return false;
	}
}

/* Returns a number, or 0 for other values. */
static int64_t integer_of(const struct wr_lab_value *value)
{
	int64_t number;

	return read_integer(value, &number) ? number : 0;
}

/* ---- texts ---- */

static struct weir_str text_of(const struct wr_lab_value *value)
{
	struct weir_str none = {"", 0};

	if (value->kind == WR_LAB_VALUE_NONE || wr_str_equal(value->text, WR_STR("-")))
		return none;
	return value->text;
}

struct weir_str wr_lab_last_of(struct weir_str list)
{
	size_t start = list.len;

	while (start > 0 && list.ptr[start - 1] != ',')
		start--;
	return wr_str_trim(wr_str_from(list, start));
}

void wr_lab_values_put(struct wr_lab_values *values, const struct wr_lab_meaning *meaning,
		       struct wr_lab_value value)
{
	struct wr_lab_value *item = &values->items[meaning->means];
	bool adds = item->kind != WR_LAB_VALUE_NONE && meaning->rank == item->rank;
	int64_t cost = 0;

	if (meaning->means == WR_LAB_MEANS_COST && !read_integer(&value, &cost))
		return;
	value.rank = meaning->rank;
	value.unit_ns = meaning->unit_ns;
	*item = value;
	if (meaning->means != WR_LAB_MEANS_COST)
		return;
	values->cost = adds ? values->cost : 0;
	values->cost += cost < WR_LAB_COST_MAX ? cost : WR_LAB_COST_MAX;
	if (values->cost > WR_LAB_COST_MAX)
		values->cost = WR_LAB_COST_MAX;
}

/* ---- the record ---- */

static bool read_time(const struct wr_lab_value *value, struct wr_lab_parser *parser,
		      struct wr_lab_time *time)
{
	switch (value->kind) {
	case WR_LAB_VALUE_TEXT:
		return wr_lab_time_read(value->text, &parser->day, time);
	case WR_LAB_VALUE_INTEGER:
		return wr_lab_time_integer(value->integer, time);
	case WR_LAB_VALUE_REAL:
		return wr_lab_time_real(value->real, time);
	default:
		return false;
	}
}

/* Appends the query to the target. Both are in the line, the query behind the target, with at least
 * one byte between them. */
static void join_query(struct wr_lab_record *record, struct weir_str query)
{
	char *end = (char *)(uintptr_t)(record->target.ptr + record->target.len);

	if (query.len == 0 || record->target.len == 0 || query.ptr <= end ||
	    wr_str_has(record->target, '?'))
		return;
	if (query.ptr[0] != '?') {
		*end++ = '?';
		record->target.len++;
	}
	memmove(end, query.ptr, query.len);
	record->target.len += query.len;
}

/* Sets the client. Without a client, the last proxy's entry in X-Forwarded-For is the client, or
 * the user is. */
static void set_client(struct wr_lab_slot *slot, struct weir_str client,
		       struct wr_lab_parser *parser)
{
	struct wr_lab_record *record = &slot->record;

	for (uint32_t i = 0; client.len == 0 && i < record->header_count; i++)
		if (wr_str_equal_nocase(record->headers[i].name, WR_STR("x-forwarded-for")))
			client = wr_lab_last_of(record->headers[i].value);
	wr_lab_slot_client(slot, client.len ? client : record->user, &parser->client);
}

const char *wr_lab_values_record(struct wr_lab_values *values, struct wr_lab_parser *parser,
				 struct wr_lab_slot *slot)
{
	const struct wr_lab_value *items = values->items;
	struct wr_lab_record *record = &slot->record;
	struct wr_lab_time time;
	int64_t status = integer_of(&items[WR_LAB_MEANS_STATUS]);

	if (items[WR_LAB_MEANS_TIME].kind == WR_LAB_VALUE_NONE)
		return "no field with a time";
	if (!read_time(&items[WR_LAB_MEANS_TIME], parser, &time))
		return "no time";
	record->time_ns = time.ns;
	slot->whole = time.whole;
	wr_lab_slot_request(slot, text_of(&items[WR_LAB_MEANS_REQUEST]));
	if (text_of(&items[WR_LAB_MEANS_METHOD]).len)
		record->method = text_of(&items[WR_LAB_MEANS_METHOD]);
	if (text_of(&items[WR_LAB_MEANS_TARGET]).len) {
		record->target = text_of(&items[WR_LAB_MEANS_TARGET]);
		join_query(record, text_of(&items[WR_LAB_MEANS_QUERY]));
	}
	record->host = text_of(&items[WR_LAB_MEANS_HOST]);
	record->user = text_of(&items[WR_LAB_MEANS_USER]);
	record->status = status <= (int64_t)STATUS_MAX ? (uint32_t)status : 0;
	record->bytes = (uint64_t)integer_of(&items[WR_LAB_MEANS_BYTES]);
	record->duration_ns = duration_of(&items[WR_LAB_MEANS_DURATION]);
	if (items[WR_LAB_MEANS_COST].kind != WR_LAB_VALUE_NONE)
		record->cost = values->cost;
	set_client(slot, text_of(&items[WR_LAB_MEANS_CLIENT]), parser);
	return NULL;
}
