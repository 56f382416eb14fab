/* The rules in force: as JSON for the admin API, and as the reference prints them at /rlconfig. */
#ifndef WR_SERVE_ADMIN_RULES_JSON_H
#define WR_SERVE_ADMIN_RULES_JSON_H

#include <weir/engine.h>

#include "limiter/text.h"

/* Every limit with its descriptor, words and place; generation, hash, last error. */
void wr_rules_json(struct weir_engine *engine, struct wr_text *out);

/* The limit that statistics call so, or null. As above, and its domain; an entry of its descriptor
 * whose value is the client's has "open": true. */
void wr_rules_json_one(struct weir_engine *engine, struct weir_str stat, struct wr_text *out);

/* The rule files of this path as they are on disk now, and all that is wrong with them:
 * "files":[{"name":…,"text":…,"cut":false}],"diagnostics":[…]. Reads and loads them: not for a
 * loop. */
int wr_rules_text_json(struct weir_engine *engine, const char *path, struct wr_text *out);

/* A line each: domain.key_value.key: unit=MINUTE requests_per_unit=20, shadow_mode: false, … */
void wr_rules_rlconfig(struct weir_engine *engine, struct wr_text *out);

#endif
