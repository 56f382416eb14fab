/* A table of text for a terminal, whose columns are as wide as their longest cell:
 *
 *   struct wr_cli_columns table;
 *
 *   wr_cli_columns_begin(&table, utf8, "RULE", "#REQUESTS", NULL);
 *   wr_cli_columns_text(&table, rule);
 *   wr_cli_columns_number(&table, 1234);
 *   …                                            // row by row
 *   wr_cli_columns_print(&table, 2);
 *
 * A column whose title begins with '#' is aligned to the right; the '#' is not shown. */
#ifndef WR_CLI_COLUMNS_H
#define WR_CLI_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_COLUMNS_MAX 12u
#define WR_COLUMNS_WIDTH 60u /* longer texts are cut */

struct wr_cli_columns {
	const char *titles[WR_COLUMNS_MAX];
	size_t widths[WR_COLUMNS_MAX];
	size_t column_count;
	/* The cells, row by row. */
	struct wr_cli_cell {
		char text[4 * WR_COLUMNS_WIDTH + 1];
		size_t width; /* in columns of the terminal */
	} * cells;
	size_t cell_count, cell_cap;
	bool utf8;
};

/* Begins a table. The titles end with NULL. The macro makes an array of them. */
void wr_cli_columns_begin_with(struct wr_cli_columns *table, bool utf8, const char *const *titles);
#define wr_cli_columns_begin(table, utf8, ...)                                                     \
	wr_cli_columns_begin_with(table, utf8, (const char *const[]){__VA_ARGS__})

/* Adds a column to a table without cells. The caller keeps the title until the table is printed. */
void wr_cli_columns_add(struct wr_cli_columns *table, const char *title);

/* Adds a cell with untrusted text, escaped. */
void wr_cli_columns_text(struct wr_cli_columns *table, struct weir_str text);
/* Adds a cell with a number, with commas. */
void wr_cli_columns_number(struct wr_cli_columns *table, uint64_t number);
void wr_cli_columns_cell(struct wr_cli_columns *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the table to standard output, with `indent` blanks before each line, and frees it. Prints
 * nothing if the table has no row. */
void wr_cli_columns_print(struct wr_cli_columns *table, size_t indent);

#endif
