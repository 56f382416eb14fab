/* Reads and writes durations in rule files, options and header fields. */
#include "base/duration.h"

#include <stdio.h>

#include "base/str.h"

/* Units, largest first. Units appear in this order within a duration, and wr_duration_text tries
 * them in this order. */
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

/* Reads one part such as "12ms" and removes it from the front of *text. *at is the index of the
 * first unit that may still follow. */
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

/* Written without snprintf, which took a quarter of the time of writing a response's header fields.
 */
size_t wr_duration_text(uint64_t ns, char text[WR_DURATION_TEXT])
{
	char digits[20];
	size_t unit = 0, at = sizeof digits, len;
	uint64_t count;

	if (ns == 0)
		return (size_t)snprintf(text, WR_DURATION_TEXT, "0s");
	while (ns % units[unit].ns)
		unit++;
	count = ns / units[unit].ns;
	do
		digits[--at] = (char)('0' + count % 10);
	while (count /= 10);
	len = sizeof digits - at;
	memcpy(text, digits + at, len);
	memcpy(text + len, units[unit].name.ptr, units[unit].name.len + 1);
	return len + units[unit].name.len;
}
