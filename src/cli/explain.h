/* weir explain: the report as text. */
#ifndef WR_CLI_EXPLAIN_H
#define WR_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "serve/admin/explain_find.h"

void explain_print_text(const struct wr_explain *explain);

#endif
