/* What the gateway does, in words, for whoever started it. */
#ifndef WR_GATEWAY_SUMMARY_H
#define WR_GATEWAY_SUMMARY_H

#include <stdio.h>

#include "gateway/plan.h"

/* Where it listens, where requests go, the table, the rules, and a line for each limit. `rules` are
 * those in force; the table is opened to look. */
void wr_summary_write(const struct wr_gateway_plan *plan, const struct weir_rules *rules,
		      uint64_t now_ns, FILE *out);

/* A limit: "api/user_id: 2 per second for each user_id, token_bucket, burst 4". */
struct wr_limit;
void wr_summary_limit(const struct wr_limit *limit, FILE *out);

#endif
