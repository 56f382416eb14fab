/* Implements the limit on wrong tokens that guard.h describes. Called by admin.c. */
#include "serve/admin/guard.h"

#include <stdbool.h>
#include <string.h>

/* The number of bytes of an IPv6 address that are compared. The other bytes are ignored, because an
 * IPv6 host can use any address of its /64. */
#define V6_NETWORK_BYTES 8u

/* Returns the entry of the address. The FNV-1a hash of the address selects a set of entries. If no
 * entry of this set belongs to the address, the address gets the entry with the lowest clear_ms,
 * and the guard forgets the previous address of that entry. An attacker with many addresses in the
 * same set can therefore make the guard forget some of them, and send more wrong tokens. Clients
 * with a correct token are not affected. */
static struct wr_admin_guard_entry *find_entry(struct wr_admin_guard *guard,
					       const struct wr_address *network)
{
	struct wr_admin_guard_entry *set, *soonest;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < sizeof network->bytes; i++)
		hash = (hash ^ network->bytes[i]) * 16777619u;
	set = &guard->entries[(size_t)(hash % WR_ADMIN_GUARD_SETS) * WR_ADMIN_GUARD_WAYS];
	soonest = set;
	for (unsigned i = 0; i < WR_ADMIN_GUARD_WAYS; i++) {
		if (set[i].clear_ms && memcmp(&set[i].address, network, sizeof *network) == 0)
			return &set[i];
		if (set[i].clear_ms < soonest->clear_ms)
			soonest = &set[i];
	}
	*soonest = (struct wr_admin_guard_entry){.address = *network};
	return soonest;
}

/* Counts a wrong token with the algorithm GCRA, whose theoretical arrival time is entry->clear_ms.
 * Returns 0 if the limit allows this wrong token. Otherwise counts nothing, and returns the time in
 * milliseconds until the limit allows a wrong token again. */
static uint64_t count_wrong(struct wr_admin_guard_entry *entry, uint64_t now_ms)
{
	uint64_t clear_ms = entry->clear_ms > now_ms ? entry->clear_ms : now_ms;
	uint64_t most_ms = now_ms + (uint64_t)(WR_ADMIN_GUARD_BURST - 1) * WR_ADMIN_GUARD_PERIOD_MS;

	if (clear_ms > most_ms)
		return clear_ms - most_ms;
	entry->clear_ms = clear_ms + WR_ADMIN_GUARD_PERIOD_MS;
	return 0;
}

uint64_t wr_admin_guard_wrong(struct wr_admin_guard *guard, const struct wr_address *address,
			      uint64_t now_ms)
{
	struct wr_address network = *address;
	uint64_t wait_ms;

	if (!wr_address_is_v4(address))
		memset(network.bytes + V6_NETWORK_BYTES, 0,
		       sizeof network.bytes - V6_NETWORK_BYTES);
	pthread_mutex_lock(&guard->lock);
	wait_ms = count_wrong(find_entry(guard, &network), now_ms);
	pthread_mutex_unlock(&guard->lock);
	return wait_ms;
}
