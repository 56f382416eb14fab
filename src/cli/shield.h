/* weir shield: parts that the files of this subcommand share. */
#ifndef WR_CLI_SHIELD_H
#define WR_CLI_SHIELD_H

#include "cli/cli.h"
#include "cli/options/table.h"

/* shield_bans.c: the verbs that read or write the bans of a table. Each opens the table and returns
 * an exit code. */
int wr_cli_shield_add(const struct wr_cli_table_choice *choice, const char *address,
		      const char *span);
int wr_cli_shield_release(const struct wr_cli_table_choice *choice, const char *address);
int wr_cli_shield_flush(const struct wr_cli_table_choice *choice);
int wr_cli_shield_list(const struct wr_cli_table_choice *choice, const char *rules_path, bool json);

#endif
