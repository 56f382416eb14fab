/* The rules in force: as JSON for the admin API, and as the reference prints them at /rlconfig. */
#ifndef WR_WIRE_RULES_JSON_H
#define WR_WIRE_RULES_JSON_H

#include <weir/engine.h>

#include "limiter/text.h"

/* Every limit with its descriptor, words and place; generation, hash, last error. */
void wr_rules_json(struct weir_engine *engine, struct wr_text *out);

/* A line each: domain.key_value.key: unit=MINUTE requests_per_unit=20, shadow_mode: false, … */
void wr_rules_rlconfig(struct weir_engine *engine, struct wr_text *out);

#endif
