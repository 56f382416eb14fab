/* The text that `weir gateway` prints when nginx is ready. */
#ifndef WR_GATEWAY_SUMMARY_H
#define WR_GATEWAY_SUMMARY_H

#include <stdio.h>

#include "gateway/plan.h"

/* Writes the listeners, the API servers, the table, the rules and a line for each limit. `rules`
 * are the rules in force. Opens the table to read its size. */
void wr_summary_write(const struct wr_gateway_plan *plan, const struct weir_rules *rules,
		      uint64_t now_ns, FILE *out);

/* Writes one limit as text: "api/user_id: 2 per second for each user_id, token_bucket, burst 4". */
struct wr_limit;
void wr_summary_limit(const struct wr_limit *limit, FILE *out);

#endif
