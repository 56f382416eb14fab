/* Finds mistakes in the names that the user gives. Without these checks, a request whose cost has a
 * wrong name would cost 1, and nothing would tell the user. */
#include "lab/log/given.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/log/csv.h"
#include "lab/log/example.h"

#define NAME_SHOWN 65u  /* room for a name in a message */
#define LIST_SHOWN 200u /* room for a list of names */

static const char *const formats[] = {"",
#define FORMAT(name, text, help) text,
				      WR_LAB_FORMATS(FORMAT)
#undef FORMAT
};

bool wr_lab_format_named(enum wr_lab_format format)
{
	return format == WR_LAB_JSON || format == WR_LAB_CSV;
}

int wr_lab_given_format(const struct wr_lab_fields *fields, enum wr_lab_format format,
			const char *path, struct weir_error *error)
{
	if (wr_lab_fields_given(fields) == 0 || wr_lab_format_named(format))
		return 0;
	if (!path)
		return wr_error(error, WEIR_EINVAL,
				"--fields is for JSON and CSV: the fields of the format %s have no "
				"names. Leave out --fields or --format",
				formats[format]);
	return wr_error(error, WEIR_EINVAL,
			"--fields is for JSON and CSV, but the format of %s is %s, whose fields "
			"have no names. Leave out --fields, or set --format",
			wr_lab_show_path(path).text,
			format == WR_LAB_COMBINED ? "common or combined" : formats[format]);
}

/* ---- columns ---- */

/* Adds a name to a list. The last name of a list that is too long is "…". */
static void add_name(char list[LIST_SHOWN], struct weir_str name, const char *quote)
{
	char shown[NAME_SHOWN];
	size_t used = strlen(list), room = LIST_SHOWN - used;
	const char *comma = used ? ", " : "";

	if (wr_str_ends(wr_str(list), WR_STR("…")))
		return;
	wr_lab_show(shown, sizeof shown, name);
	if (strlen(comma) + strlen(shown) + 2 * strlen(quote) + sizeof ", …" > room)
		snprintf(list + used, room, "%s…", comma);
	else
		snprintf(list + used, room, "%s%s%s%s", comma, quote, shown, quote);
}

/* Returns whether a file has a column. The user may give its name or its number. */
static bool has_column(const struct weir_str *cells, uint32_t count, bool header,
		       struct weir_str name)
{
	char number[16];

	for (uint32_t i = 0; i < count; i++) {
		snprintf(number, sizeof number, "%u", i + 1);
		if ((header && wr_str_equal_nocase(cells[i], name)) ||
		    wr_str_equal(wr_str(number), name))
			return true;
	}
	return false;
}

static int report_column(const struct weir_str *cells, uint32_t count, bool header,
			 struct weir_str name, const char *path, struct weir_error *error)
{
	char list[LIST_SHOWN] = "", shown[NAME_SHOWN];

	wr_lab_show(shown, sizeof shown, name);
	if (!header)
		return wr_error(
			error, WEIR_EINVAL,
			"%s has no column \"%s\" of --fields. It has no line with the names "
			"of columns: give the numbers of columns, from 1 to %u",
			wr_lab_show_path(path).text, shown, count);
	for (uint32_t i = 0; i < count; i++)
		add_name(list, cells[i], "");
	return wr_error(error, WEIR_EINVAL,
			"%s has no column \"%s\" of --fields. Its columns are: %s",
			wr_lab_show_path(path).text, shown, list);
}

/* Returns whether all cells could be names of columns. */
static bool look_like_names(const struct weir_str *cells, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (cells[i].len == 0 || cells[i].len >= NAME_SHOWN || cells[i].ptr[0] == '{')
			return false;
		for (size_t j = 0; j < cells[i].len; j++)
			if ((uint8_t)cells[i].ptr[j] < 0x20)
				return false;
	}
	return count > 1;
}

/* Splits the first line, which is copied to `copy`. */
static uint32_t split_first(struct weir_str head, char *copy, struct weir_str *cells)
{
	struct weir_str line = wr_str_first(head, wr_str_find(head, '\n'));

	if (line.len && line.ptr[line.len - 1] == '\r')
		line.len--;
	if (line.len)
		memcpy(copy, line.ptr, line.len);
	return wr_lab_csv_split(copy, line.len, false, cells);
}

static int check_columns(struct wr_lab_fields *fields, struct weir_str head, char *copy,
			 bool certain, const char *path, struct weir_error *error)
{
	struct wr_lab_parser parser = {.format = WR_LAB_CSV, .fields = fields};
	struct weir_str cells[WR_LAB_COLUMNS];
	uint32_t count;

	wr_lab_csv_start(&parser, head, copy);
	count = split_first(head, copy, cells);
	if (count == 0 || (!certain && (!parser.csv.skip || !look_like_names(cells, count))))
		return 0;
	for (size_t i = 0; i < wr_lab_fields_given(fields); i++) {
		struct weir_str name = wr_lab_fields_given_name(fields, i);

		if (!has_column(cells, count, parser.csv.skip, name))
			return report_column(cells, count, parser.csv.skip, name, path, error);
	}
	wr_lab_fields_saw(fields, UINT64_MAX);
	return 0;
}

int wr_lab_given_columns(struct wr_lab_fields *fields, struct wr_lab_input *input, bool certain,
			 const char *path, struct weir_error *error)
{
	size_t len;
	const char *peeked;
	char *copy;
	int rc;

	if (wr_lab_fields_given(fields) == 0)
		return 0;
	peeked = wr_lab_input_peek(input, &len);
	copy = malloc(WR_LAB_PEEK_BYTES + WR_LAB_PADDING);
	if (!peeked || !copy)
		rc = wr_error(error, WEIR_EMEMORY, "no memory to read %s",
			      wr_lab_show_path(path).text);
	else if (len == 0)
		rc = 0;
	else
		rc = check_columns(fields, (struct weir_str){peeked, len}, copy, certain, path,
				   error);
	free(copy);
	return rc;
}

/* ---- fields of objects ---- */

void wr_lab_given_note(const struct wr_lab_fields *fields, struct wr_lab_log_totals *totals)
{
	uint64_t unseen = wr_lab_fields_unseen(fields);
	char list[LIST_SHOWN] = "";

	if (unseen == 0 || totals->lines == totals->unreadable)
		return;
	for (size_t i = 0; i < wr_lab_fields_given(fields); i++)
		if (unseen >> i & 1)
			add_name(list, wr_lab_fields_given_name(fields, i), "\"");
	wr_lab_totals_note(totals, "no readable line has the %s %s of --fields.",
			   unseen & (unseen - 1) ? "fields" : "field", list);
}
