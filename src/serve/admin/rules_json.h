/* Writes the rules in force: as JSON for the admin API, and at /rlconfig as Envoy's ratelimit
 * prints them. Called from worker threads by rules.c and rule_json.c. */
#ifndef WR_SERVE_ADMIN_RULES_JSON_H
#define WR_SERVE_ADMIN_RULES_JSON_H

#include <weir/engine.h>

#include "base/json_write.h"

/* Writes an object with every limit (its descriptor, words, file and line), the generation and the
 * hash of the rules, and the last error. */
void wr_admin_json_rules(struct wr_json_out *json, struct weir_engine *engine);

/* Writes the limit that has this name in the statistics, or null if there is none. The object also
 * has the domain of the limit, and "open": true in each entry of the descriptor whose value comes
 * from the client. */
void wr_admin_json_limit(struct wr_json_out *json, struct weir_engine *engine,
			 struct weir_str stat);

/* Writes the members "files", "left_out" and "diagnostics": the rule files at this path as they are
 * on disk now, and their errors. Reads and loads the files, so a loop must not call this. Returns 0
 * or WEIR_EMEMORY. */
int wr_admin_json_rules_text(struct wr_json_out *json, struct weir_engine *engine,
			     const char *path);

/* Writes one line for each limit:
 * domain.key_value.key: unit=MINUTE requests_per_unit=20, shadow_mode: false, … */
void wr_admin_write_rlconfig(struct wr_buf *out, struct weir_engine *engine);

#endif
