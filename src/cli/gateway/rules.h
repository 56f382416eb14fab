/* The rules that the service beside nginx decides by. */
#ifndef WR_CLI_GATEWAY_RULES_H
#define WR_CLI_GATEWAY_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct weir_engine;

/* Their number, from 1; 0: there are none. *defers: a rule of the domain says on_limit: defer. */
uint64_t gateway_rules_look(struct weir_engine *engine, const char *domain, bool *defers);

#endif
