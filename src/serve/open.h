/* Opens the service's core (rules, table and engine), and reacts to changes of the rules, the table
 * and Redis. The functions below are called in the housekeeping thread, or before threads start. */
#ifndef WR_SERVE_OPEN_H
#define WR_SERVE_OPEN_H

#include "serve/service.h"

/* Returns the value of --keys as enum weir_engine_keys. */
uint32_t wr_settings_keys(const struct wr_settings *settings);

/* Returns the options for opening or creating the table for these rules. */
struct weir_opts wr_settings_table(const struct wr_settings *settings,
				   const struct weir_rules *rules);

/* Loads the rules and opens the table. If `print` is set, errors in the rules are printed as `weir
 * check` prints them. Returns the core, and sets *rules to the rules of the core. The engine owns
 * the rules. *rules is valid until the first reload. On failure, returns NULL and fills in
 * `error`. */
struct wr_core *wr_core_open(struct wr_service *service, bool print, struct weir_rules **rules,
			     struct weir_error *error);

/* Starts a watch that reloads the rules whenever their files change. */
int wr_core_watch_rules(struct wr_service *service, struct wr_core *core,
			const struct weir_rules *rules, struct weir_watch **watch,
			struct weir_error *error);

/* If the table was resized, opens a new core and hands it to all loops. */
void wr_core_follow_resize(struct wr_service *service);

/* Writes the state of Redis into the table, for statistics, and updates the readiness of the
 * service. The service is not ready while Redis is unavailable and every rule has
 * on_store_failure: deny. */
void wr_core_check_redis(struct wr_service *service);

/* Logs a warning when the table becomes more than 80 % full. */
void wr_core_check_fill(struct wr_service *service);

#endif
