/* The fleet of an engine: its secret, which may be set late and change, and its number of nodes. */
#ifndef WR_LIMITER_FLEET_H
#define WR_LIMITER_FLEET_H

#include "limiter/engine.h"

/* A secret that was set once. Requests read it without a lock, so it is not freed before the
 * engine. */
struct wr_fleet_secret {
	struct wr_fleet_secret *next;
	uint8_t bytes[WEIR_SECRET_BYTES];
};

/* The secret in force, or NULL. */
static inline const uint8_t *wr_fleet_secret(const struct weir_engine *engine)
{
	/* Paired with the store in weir_engine_fleet: a thread that sees the pointer sees the
	 * bytes. */
	return __atomic_load_n(&engine->fleet_secret, __ATOMIC_ACQUIRE);
}

/* Frees all secrets. Called by weir_engine_free. */
void wr_fleet_secrets_free(struct weir_engine *engine);

/* The number of nodes that share a limit: from the table, from the options of the engine, or 1. */
uint32_t wr_fleet_size(const struct weir_engine *engine);

#endif
