/* Reads which rules the service beside nginx uses. */
#ifndef WR_CLI_GATEWAY_RULES_H
#define WR_CLI_GATEWAY_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct weir_engine;

/* Returns the generation of the rules in use, counted from 1, or 0 if there are no rules. Sets
 * *defers if a rule of the domain has on_limit: defer. */
uint64_t wr_gateway_rules_read(struct weir_engine *engine, const char *domain, bool *defers);

#endif
