/* Opening what a service decides with: table, rules, engine, and the watch on the rules. */
#ifndef WR_SERVE_OPEN_H
#define WR_SERVE_OPEN_H

#include "serve/service.h"

/* What --keys says, as enum weir_engine_keys. */
uint32_t wr_settings_keys(const struct wr_settings *settings);

/* How the table is opened, or made for these rules. */
struct weir_opts wr_settings_table(const struct wr_settings *settings,
				   const struct weir_rules *rules);

/* Loads the rules and opens the table. Broken rules are printed as `weir check` does if `print`.
 * *rules are the engine's and good until the first reload. NULL: the error says why. */
struct wr_core *wr_core_open(struct wr_service *service, bool print, struct weir_rules **rules,
			     struct weir_error *error);

/* Follows the rules on disk from here on. */
int wr_core_watch_rules(struct wr_service *service, struct wr_core *core,
			const struct weir_rules *rules, struct weir_watch **watch,
			struct weir_error *error);

/* When the table has been resized: a new core for all loops. */
void wr_core_follow_resize(struct wr_service *service);

/* Tells how the central store fares, and whether questions are welcome: not while it is away and
 * all rules refuse without it. */
void wr_core_check_redis(struct wr_service *service);

/* Says once when the table is more than four fifths full. */
void wr_core_check_fill(struct wr_service *service);

#endif
