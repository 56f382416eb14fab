/* The fleet of an engine: its number of nodes, and its secret. The secret can be set after the
 * engine was made, and can change. */
#ifndef WR_LIMITER_FLEET_H
#define WR_LIMITER_FLEET_H

#include "limiter/engine.h"

/* A secret that is or was in force. Requests read secrets without a lock, so a secret is freed only
 * with the engine. */
struct wr_fleet_secret {
	struct wr_fleet_secret *next;
	uint8_t bytes[WEIR_SECRET_BYTES];
};

/* Returns the secret in force, or NULL if no secret is known. */
static inline const uint8_t *wr_fleet_secret(const struct weir_engine *engine)
{
	/* Acquire: paired with the store in weir_engine_fleet, so that a thread that sees the
	 * pointer also sees the bytes of the secret. */
	return __atomic_load_n(&engine->fleet_secret, __ATOMIC_ACQUIRE);
}

/* Frees all secrets. Called by weir_engine_free. */
void wr_fleet_secrets_free(struct weir_engine *engine);

/* Returns the number of nodes that share a limit, at least 1. The number is read from the table or,
 * if the table does not contain it, from the options of the engine. */
uint32_t wr_fleet_size(const struct weir_engine *engine);

#endif
