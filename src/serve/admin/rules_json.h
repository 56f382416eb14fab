/* Writes the rules in force: as JSON for the admin API, and as envoyproxy/ratelimit prints them for
 * /rlconfig. Called from worker threads by rules.c and rule_json.c. */
#ifndef WR_SERVE_ADMIN_RULES_JSON_H
#define WR_SERVE_ADMIN_RULES_JSON_H

#include <weir/engine.h>

#include "base/json_write.h"

/* Writes an object with the generation and the hash of the rules, the error of the latest failed
 * load, and all limits. Each limit has its descriptor, text, file and line. */
void wr_admin_json_rules(struct wr_json_out *json, struct weir_engine *engine);

/* Writes one limit as an object: the limit that has the name `stat` in the statistics. Writes null
 * if there is no such limit. The object has the domain of the limit, and the members that a limit
 * has in wr_admin_json_rules(). In the descriptor, each entry whose value comes from the client has
 * "open": true. */
void wr_admin_json_limit(struct wr_json_out *json, struct weir_engine *engine,
			 struct weir_str stat);

/* Writes the members "files", "left_out" and "diagnostics": the rule files at this path as they are
 * on disk now, the number of files that are not shown, and the errors of the files. Reads and
 * parses the files, so a loop must not call this. Returns 0 or WEIR_EMEMORY. */
int wr_admin_json_rules_text(struct wr_json_out *json, struct weir_engine *engine,
			     const char *path);

/* Writes one line for each limit: domain.key_value.key: unit=MINUTE requests_per_unit=20,
 * shadow_mode: false, … */
void wr_admin_write_rlconfig(struct wr_buf *out, struct weir_engine *engine);

#endif
