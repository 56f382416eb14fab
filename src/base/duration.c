/* Reads and writes durations in rule files, options and header fields. */
#include "base/duration.h"

#include "base/buffer.h"

/* The units, largest first. A duration lists its units in this order. wr_duration_text uses the
 * first unit in which the duration is a whole number. */
static const struct unit {
	struct weir_str name;
	uint64_t ns;
} units[] = {
	{WR_STR("w"), 604800000000000}, {WR_STR("d"), 86400000000000},
	{WR_STR("h"), 3600000000000},   {WR_STR("m"), 60000000000},
	{WR_STR("s"), 1000000000},      {WR_STR("ms"), 1000000},
	{WR_STR("us"), 1000},           {WR_STR("ns"), 1},
};
#define UNITS (sizeof units / sizeof *units)

/* Reads one part such as "12ms", adds it to *ns and removes it from the front of *text. *at is the
 * index of the largest unit that is still allowed. Returns 0, or -1 if the part is not valid. */
static int parse_part(struct weir_str *text, size_t *at, uint64_t *ns)
{
	uint64_t number = 0;
	size_t digits = 0;
	size_t letters = 0;

	while (digits < text->len && text->ptr[digits] >= '0' && text->ptr[digits] <= '9') {
		if (number > INT64_MAX / 10 - 1)
			return -1;
		number = number * 10 + (uint64_t)(text->ptr[digits++] - '0');
	}
	*text = wr_str_from(*text, digits);
	while (letters < text->len && (text->ptr[letters] < '0' || text->ptr[letters] > '9'))
		letters++;
	for (; digits && *at < UNITS; ++*at)
		if (wr_str_equal(units[*at].name, wr_str_first(*text, letters))) {
			if (number > (INT64_MAX - *ns) / units[*at].ns)
				return -1;
			*ns += number * units[(*at)++].ns;
			*text = wr_str_from(*text, letters);
			return 0;
		}
	return -1;
}

int wr_duration_parse(struct weir_str text, uint64_t *ns)
{
	size_t at = 0;

	*ns = 0;
	do {
		if (parse_part(&text, &at, ns) != 0)
			return -1;
	} while (text.len);
	return 0;
}

/* Does not use snprintf, because snprintf took a quarter of the time in which the header fields of
 * a response are written. */
size_t wr_duration_text(uint64_t ns, char text[WR_DURATION_TEXT])
{
	const struct unit *unit = units;
	struct wr_buf out;

	wr_buf_init_fixed(&out, text, WR_DURATION_TEXT);
	while (ns % unit->ns)
		unit++;
	wr_buf_add_uint(&out, ns / unit->ns);
	wr_buf_add_str(&out, ns ? unit->name : WR_STR("s"));
	return out.len;
}
