/* Sets the fleet's secret of an engine, and sets and reads the number of nodes, which the table
 * stores. Called by hosts. */
#include "limiter/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

_Static_assert(WEIR_SECRET_BYTES == WR_SECRET_BYTES, "one kind of secret");

static struct wr_fleet_secret *add_secret(struct weir_engine *engine, const uint8_t *bytes)
{
	struct wr_fleet_secret *secret = malloc(sizeof *secret);

	if (!secret)
		return NULL;
	memcpy(secret->bytes, bytes, sizeof secret->bytes);
	secret->next = engine->fleet_secrets;
	engine->fleet_secrets = secret;
	return secret;
}

int weir_engine_fleet(struct weir_engine *engine, const uint8_t *bytes)
{
	struct wr_fleet_secret *secret;

	if (!engine || !bytes)
		return WEIR_EINVAL;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	pthread_mutex_lock(&engine->lock);
	secret = engine->fleet_secrets;
	while (secret && memcmp(secret->bytes, bytes, sizeof secret->bytes) != 0)
		secret = secret->next;
	if (!secret)
		secret = add_secret(engine, bytes);
	/* Release: a thread that gets this pointer from wr_fleet_secret() also sees the bytes of
	 * the secret. */
	if (secret)
		__atomic_store_n(&engine->fleet_secret, secret->bytes, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&engine->lock);
	return secret ? 0 : WEIR_EMEMORY;
}

void wr_fleet_secrets_free(struct weir_engine *engine)
{
	struct wr_fleet_secret *next;

	wr_assert(!engine->current);
	for (struct wr_fleet_secret *secret = engine->fleet_secrets; secret; secret = next) {
		next = secret->next;
		free(secret);
	}
}

int weir_fleet_note(struct weir_table *table, uint32_t nodes, uint64_t now_ns)
{
	if (!table || nodes == 0)
		return WEIR_EINVAL;
	/* The number of nodes and the time are stored in one word, so that a reader never gets the
	 * number from one update and the time from another. */
	__atomic_store_n(&table->tallies->fleet, (uint64_t)wr_seconds(now_ns) << 32 | nodes,
			 __ATOMIC_RELAXED);
	return 0;
}

uint32_t weir_fleet_nodes(const struct weir_table *table, uint64_t *noted_ns)
{
	uint64_t word = table ? __atomic_load_n(&table->tallies->fleet, __ATOMIC_RELAXED) : 0;

	if (noted_ns)
		*noted_ns = (word >> 32) * 1000000000;
	return (uint32_t)word;
}

uint32_t wr_fleet_size(const struct weir_engine *engine)
{
	uint32_t nodes = weir_fleet_nodes(engine->table, NULL);

	return nodes ? nodes : engine->fleet_size;
}
