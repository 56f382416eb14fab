/* Tables with aligned columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "cli/columns.h"

/* Prints a table into a text. */
static const char *print(struct wr_cli_columns *table, size_t indent)
{
	static char text[4096];
	FILE *kept = stdout;
	FILE *out = fmemopen(text, sizeof text, "w");

	assert_non_null(out);
	text[0] = 0;
	stdout = out;
	wr_cli_columns_print(table, indent);
	stdout = kept;
	fclose(out);
	return text;
}

static void columns_are_aligned(void **state)
{
	struct wr_cli_columns table;

	(void)state;
	wr_cli_columns_begin(&table, false, "RULE", "#REQUESTS", "NOTE", NULL);
	wr_cli_columns_text(&table, WR_STR("api/user/1m"));
	wr_cli_columns_number(&table, 1234567);
	wr_cli_columns_cell(&table, "%s", "x");
	wr_cli_columns_text(&table, WR_STR("a"));
	wr_cli_columns_number(&table, 8);
	wr_cli_columns_cell(&table, "%d of %d", 1, 2);
	assert_string_equal(print(&table, 2), "  RULE          REQUESTS  NOTE\n"
					      "  api/user/1m  1,234,567  x\n"
					      "  a                    8  1 of 2\n");
}

static void untrusted_text_is_escaped_and_cut(void **state)
{
	struct wr_cli_columns table;
	char text[WR_COLUMNS_WIDTH + 9];

	(void)state;
	memset(text, 'x', sizeof text);
	wr_cli_columns_begin(&table, false, "KEY", "#N", NULL);
	wr_cli_columns_text(&table, WR_STR("\x1b[2J"));
	wr_cli_columns_number(&table, 1);
	wr_cli_columns_text(&table, (struct weir_str){text, sizeof text});
	wr_cli_columns_number(&table, 2);
	assert_non_null(strstr(print(&table, 0), "\\x1b[2J"));
	memset(text, 'x', WR_COLUMNS_WIDTH - 1);
	memcpy(text + WR_COLUMNS_WIDTH - 1, "~  2\n", 6);
	wr_cli_columns_begin(&table, false, "KEY", "#N", NULL);
	wr_cli_columns_text(&table, (struct weir_str){memset((char[99]){0}, 'x', 99), 99});
	wr_cli_columns_number(&table, 2);
	assert_non_null(strstr(print(&table, 0), text));
}

static void a_table_without_rows_is_not_printed(void **state)
{
	struct wr_cli_columns table;

	(void)state;
	wr_cli_columns_begin(&table, false, "KEY", NULL);
	assert_string_equal(print(&table, 0), "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_aligned),
		cmocka_unit_test(untrusted_text_is_escaped_and_cut),
		cmocka_unit_test(a_table_without_rows_is_not_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
