/* Prints the report of weir explain as text (explain_text.c). */
#ifndef WR_CLI_EXPLAIN_H
#define WR_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "serve/admin/explain_find.h"

void wr_cli_explain_print(const struct wr_explain *explain);

#endif
