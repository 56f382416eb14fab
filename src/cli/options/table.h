/* --table and --dir: the options of commands that read a table or ask the service that uses the
 * table. */
#ifndef WR_CLI_OPTIONS_TABLE_H
#define WR_CLI_OPTIONS_TABLE_H

#include "cli/options/options.h"

struct wr_cli_table_choice {
	const char *name, *dir;     /* NULL: the default table or the default folder */
	bool name_given, dir_given; /* the option is on the command line */
};

#define WR_TABLE_OPTIONS 2
/* --table and --dir, which fill a struct wr_cli_table_choice */
extern const struct wr_cli_option wr_cli_table_options[WR_TABLE_OPTIONS];

#define WR_TABLE_DIR_HELP                                                                          \
	"folder of the table; without it /run/weir for root, else\n"                               \
	"$XDG_RUNTIME_DIR/weir, else /dev/shm"

#endif
