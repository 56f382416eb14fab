/* Prints tables with aligned columns. Called by commands that report on logs. */
#include "cli/columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "cli/show.h"
#include "stats/words.h"

#define FIRST_CELLS 64u

void wr_cli_columns_add(struct wr_cli_columns *table, const char *title)
{
	wr_assert(table->column_count < WR_COLUMNS_MAX && table->cell_count == 0);
	table->widths[table->column_count] = strlen(title) - (*title == '#');
	table->titles[table->column_count++] = title;
}

void wr_cli_columns_begin_with(struct wr_cli_columns *table, bool utf8, const char *const *titles)
{
	*table = (struct wr_cli_columns){.utf8 = utf8};
	for (; *titles; titles++)
		wr_cli_columns_add(table, *titles);
}

void wr_cli_columns_text(struct wr_cli_columns *table, struct weir_str text)
{
	size_t *width = &table->widths[table->cell_count % table->column_count];
	struct wr_cli_cell *cell;

	if (table->cell_count == table->cell_cap) {
		table->cell_cap = table->cell_cap ? 2 * table->cell_cap : FIRST_CELLS;
		table->cells = realloc(table->cells, table->cell_cap * sizeof *table->cells);
		if (!table->cells)
			abort();
	}
	cell = &table->cells[table->cell_count++];
	cell->width = wr_cli_show_text(text, WR_COLUMNS_WIDTH, table->utf8, cell->text,
				       sizeof cell->text);
	*width = cell->width > *width ? cell->width : *width;
}

void wr_cli_columns_number(struct wr_cli_columns *table, uint64_t number)
{
	char text[WR_NUMBER_WORDS];

	wr_number_words(number, text);
	wr_cli_columns_text(table, wr_str(text));
}

void wr_cli_columns_cell(struct wr_cli_columns *table, const char *format, ...)
{
	char text[4 * WR_COLUMNS_WIDTH];
	va_list args;

	va_start(args, format);
	// NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): version 14 misses va_start
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	wr_cli_columns_text(table, wr_str(text));
}

/* Prints one cell. The last column is not padded, so that lines have no blanks at their end. */
static void print_cell(const struct wr_cli_columns *table, size_t column, const char *text,
		       size_t width)
{
	bool right = *table->titles[column] == '#', last = column + 1 == table->column_count;
	int blanks = (int)(table->widths[column] - width);

	printf("%*s%s%*s%s", right ? blanks : 0, "", text, right || last ? 0 : blanks, "",
	       last ? "\n" : "  ");
}

void wr_cli_columns_print(struct wr_cli_columns *table, size_t indent)
{
	wr_assert(table->cell_count % table->column_count == 0);
	for (size_t i = 0; table->cell_count && i < table->column_count; i++) {
		const char *title = table->titles[i] + (*table->titles[i] == '#');

		printf("%*s", i == 0 ? (int)indent : 0, "");
		print_cell(table, i, title, strlen(title));
	}
	for (size_t i = 0; i < table->cell_count; i++) {
		printf("%*s", i % table->column_count == 0 ? (int)indent : 0, "");
		print_cell(table, i % table->column_count, table->cells[i].text,
			   table->cells[i].width);
	}
	free(table->cells);
	table->cells = NULL;
	table->cell_count = table->cell_cap = 0;
}
