/* What an engine knows of the fleet: its secret, which may come late and change, and how many nodes
 * there are. */
#ifndef WR_LIMITER_FLEET_H
#define WR_LIMITER_FLEET_H

#include "limiter/engine.h"

/* One that was in use once. Requests read it without a lock, so it stays until the engine goes. */
struct wr_fleet_secret {
	struct wr_fleet_secret *next;
	uint8_t bytes[WEIR_SECRET_BYTES];
};

/* The secret in force, or NULL. */
static inline const uint8_t *wr_fleet_secret(const struct weir_engine *engine)
{
	/* Paired with the store in weir_engine_fleet: who sees the pointer sees the bytes. */
	return __atomic_load_n(&engine->fleet_secret, __ATOMIC_ACQUIRE);
}

/* Frees them all; nobody asks the engine any more. */
void wr_fleet_secrets_free(struct weir_engine *engine);

/* How many nodes share a limit: noted in the table, or as the engine was told, or 1. */
uint32_t wr_fleet_size(const struct weir_engine *engine);

#endif
