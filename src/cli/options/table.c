/* The options --table and --dir, which several subcommands share. */
#include "cli/options/table.h"

#define AT(field) .at = offsetof(struct wr_cli_table_choice, field)
#define GIVEN(field) .given_at = offsetof(struct wr_cli_table_choice, field)

const struct wr_cli_option wr_cli_table_options[WR_TABLE_OPTIONS] = {
	{"table", WR_OPTION_TEXT, "NAME", NULL, "name of the table; without it: default", AT(name),
	 GIVEN(name_given)},
	{"dir", WR_OPTION_TEXT, "DIR", NULL, WR_TABLE_DIR_HELP, AT(dir), GIVEN(dir_given),
	 .variable = "WEIR_TABLE_DIR"},
};
