/* Reads lines of values separated by commas. log_columns.c finds out what the columns mean. */
#include "lab/log/csv.h"

#include "base/str.h"
#include "lab/log/value.h"

const char wr_lab_csv_header[] = "header line";

/* Reads a cell in quotes at `from`. Returns the place behind it, or `len` + 1 if the quote is not
 * closed. */
static size_t split_quoted(char *line, size_t len, size_t from, bool escapes, struct weir_str *cell)
{
	size_t start = from + 1, to = start, at = start;

	*cell = (struct weir_str){"", 0};
	for (;; at++) {
		if (at >= len)
			return len + 1;
		if (escapes && line[at] == '\\' && at + 1 < len) {
			line[to++] = line[at++];
		} else if (line[at] == '"') {
			if (at + 1 >= len || line[at + 1] != '"' || escapes)
				break;
			at++;
		}
		line[to++] = line[at];
	}
	cell->ptr = line + start;
	cell->len = escapes ? wr_lab_unescape(line + start, to - start) : to - start;
	return at + 1;
}

uint32_t wr_lab_csv_split(char *line, size_t len, bool escapes,
			  struct weir_str cells[WR_LAB_COLUMNS])
{
	uint32_t count = 0;
	size_t at = 0;

	while (count < WR_LAB_COLUMNS) {
		struct weir_str rest = {line + at, len - at};

		if (at < len && line[at] == '"') {
			at = split_quoted(line, len, at, escapes, &cells[count]);
			if (at > len)
				return 0;
			at += wr_str_find((struct weir_str){line + at, len - at}, ',');
		} else {
			cells[count] = wr_str_trim(wr_str_first(rest, wr_str_find(rest, ',')));
			at += wr_str_find(rest, ',');
		}
		count++;
		if (at >= len)
			break;
		at++;
	}
	return count;
}

static void read_cell(struct wr_lab_values *values, struct wr_lab_slot *slot,
		      const struct wr_lab_meaning *meaning, struct weir_str cell)
{
	struct wr_lab_value value = {.kind = WR_LAB_VALUE_TEXT, .text = cell};

	if (meaning->means == WR_LAB_MEANS_HEADER)
		wr_lab_slot_header(slot, meaning->header, cell);
	else if (meaning->means != WR_LAB_MEANS_NOTHING && cell.len &&
		 wr_lab_values_want(values, meaning))
		wr_lab_values_put(values, meaning, value);
}

const char *wr_lab_csv_read(struct wr_lab_parser *parser, char *line, size_t len,
			    struct wr_lab_slot *slot)
{
	struct weir_str cells[WR_LAB_COLUMNS];
	struct wr_lab_values values = {.cost = 0};
	uint32_t count;

	if (parser->csv.skip) {
		parser->csv.skip = false;
		return wr_lab_csv_header;
	}
	count = wr_lab_csv_split(line, len, parser->csv.escapes, cells);
	if (count == 0)
		return "a quote is not closed";
	for (uint32_t i = 0; i < count && i < parser->csv.count; i++)
		read_cell(&values, slot, &parser->csv.columns[i], cells[i]);
	return wr_lab_values_record(&values, parser, slot);
}
