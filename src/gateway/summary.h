/* The text that `weir gateway` prints when nginx is ready. */
#ifndef WR_GATEWAY_SUMMARY_H
#define WR_GATEWAY_SUMMARY_H

#include <stdio.h>

#include "gateway/plan.h"

/* Writes the listeners, the API servers, the table, the rules and a line for each limit. `rules`
 * are the rules in force. Opens the table to read its size. */
void wr_summary_write(const struct wr_gateway_plan *plan, const struct weir_rules *rules,
		      uint64_t now_ns, FILE *out);

#endif
