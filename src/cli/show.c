/* Formats untrusted text, rates and bars for a terminal. Called by the commands that print names of
 * rules and keys. */
#include "cli/show.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/str.h"
#include "base/utf8.h"

#define PIECE 16u

bool wr_cli_show_setup(void)
{
	setlocale(LC_CTYPE, "");
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Formats the first character of the text, or its first byte if that is not a UTF-8 character. Sets
 * *took to the number of bytes used. Returns the number of columns. */
static size_t show_one(struct weir_str text, bool utf8, char piece[PIECE], size_t *took)
{
	size_t len = wr_utf8_len(text.ptr, text.len);
	uint32_t point = len ? wr_utf8_point(text.ptr, len) : 0;
	int width = len > 1 && utf8 ? wcwidth((wchar_t)point) : 0;

	*took = len ? len : 1;
	if (len == 1 && point >= ' ' && point < 0x7f && point != '\\') {
		piece[0] = (char)point;
		piece[1] = '\0';
		return 1;
	}
	if (width > 0) {
		memcpy(piece, text.ptr, len);
		piece[len] = '\0';
		return (size_t)width;
	}
	if (len == 1 && point == '\\')
		return (size_t)snprintf(piece, PIECE, "\\\\");
	if (len > 1)
		return (size_t)snprintf(piece, PIECE, "\\u{%x}", (unsigned)point);
	return (size_t)snprintf(piece, PIECE, "\\x%02x", (unsigned char)text.ptr[0]);
}

static size_t columns_of(struct weir_str text, bool utf8, size_t most)
{
	size_t columns = 0;

	for (size_t i = 0, took; i < text.len && columns <= most; i += took) {
		char piece[PIECE];

		columns += show_one(wr_str_from(text, i), utf8, piece, &took);
	}
	return columns;
}

size_t wr_cli_show_text(struct weir_str text, size_t columns, bool utf8, char *out, size_t cap)
{
	bool fits = columns_of(text, utf8, columns) <= columns;
	size_t room = fits || columns == 0 ? columns : columns - 1, used = 0, len = 0;

	for (size_t i = 0, took; i < text.len; i += took) {
		char piece[PIECE];
		size_t width = show_one(wr_str_from(text, i), utf8, piece, &took);
		size_t bytes = strlen(piece);

		if (used + width > room || len + bytes + 4 > cap)
			break;
		memcpy(out + len, piece, bytes);
		len += bytes;
		used += width;
	}
	if (!fits && columns) {
		len += (size_t)snprintf(out + len, cap - len, "%s", utf8 ? "…" : "~");
		used++;
	}
	out[len] = '\0';
	return used;
}

void wr_cli_show_print(struct weir_str text, bool utf8)
{
	for (size_t i = 0, took; i < text.len; i += took) {
		char piece[PIECE];

		show_one(wr_str_from(text, i), utf8, piece, &took);
		fputs(piece, stdout);
	}
}

/* ---- numbers ---- */

static const char *const bars[2][9] = {
	{" ", "_", ".", ":", "-", "=", "+", "*", "#"},
	{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
};

/* Returns the sum of the known points that the bar in `column` covers. Returns UINT64_MAX if all of
 * these points are unknown. */
static uint64_t sum_column(const uint64_t *points, size_t count, size_t column, size_t columns)
{
	size_t from = column * count / columns, to = (column + 1) * count / columns;
	uint64_t sum = UINT64_MAX;

	for (size_t i = from; i < to; i++)
		if (points[i] != UINT64_MAX)
			sum = (sum == UINT64_MAX ? 0 : sum) + points[i];
	return sum;
}

void wr_cli_show_bars(const uint64_t *points, size_t count, size_t columns, bool utf8, char *out,
		      size_t cap)
{
	uint64_t most = 1;
	size_t len = 0;

	for (size_t i = 0; i < columns; i++) {
		uint64_t sum = sum_column(points, count, i, columns);

		if (sum != UINT64_MAX && sum > most)
			most = sum;
	}
	for (size_t i = 0; i < columns && len + 4 < cap; i++) {
		uint64_t sum = sum_column(points, count, i, columns);
		/* A sum of 0 gets the lowest bar; every larger sum gets a higher bar. */
		size_t level = sum == UINT64_MAX ? 0 : 1 + (size_t)((sum * 7 + most - 1) / most);

		len += (size_t)snprintf(out + len, cap - len, "%s", bars[utf8][level]);
	}
	out[len] = '\0';
}

void wr_cli_show_rate(uint64_t milli, char text[WR_SHOW_RATE])
{
	static const char units[] = {'k', 'M', 'G', 'T'};
	uint64_t whole = milli / 1000, scale = 1;
	size_t unit = 0;

	if (milli == 0) {
		snprintf(text, WR_SHOW_RATE, "0");
	} else if (milli < 10000) {
		snprintf(text, WR_SHOW_RATE, "%llu.%llu", (unsigned long long)(milli / 1000),
			 (unsigned long long)(milli % 1000 / 100));
	} else if (whole < 10000) {
		snprintf(text, WR_SHOW_RATE, "%llu", (unsigned long long)whole);
	} else {
		for (scale = 1000; whole / scale >= 1000 && unit < 3; scale *= 1000)
			unit++;
		snprintf(text, WR_SHOW_RATE, "%llu.%llu%c", (unsigned long long)(whole / scale),
			 (unsigned long long)(whole % scale * 10 / scale), units[unit]);
	}
}

void wr_cli_show_count(uint64_t count, char text[WR_SHOW_RATE])
{
	if (count < 10000)
		snprintf(text, WR_SHOW_RATE, "%llu", (unsigned long long)count);
	else
		wr_cli_show_rate(count < UINT64_MAX / 1000 ? count * 1000 : UINT64_MAX, text);
}
