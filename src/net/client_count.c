/* Counts the connections of each client; see client_count.h. Called by accept.c and the streams. */
#include "net/client_count.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "net/networks.h"

struct wr_client_count {
	struct wr_address address;
	unsigned connections;
	struct wr_client_count *next;
};

struct wr_client_counts *wr_client_counts_new(unsigned max)
{
	struct wr_client_counts *counts = calloc(1, sizeof *counts);

	if (!counts)
		return NULL;
	counts->magic = WR_CLIENT_COUNTS_MAGIC;
	pthread_mutex_init(&counts->lock, NULL);
	counts->max = max;
	if (getrandom(&counts->seed, sizeof counts->seed, 0) < 0)
		counts->seed = (uint64_t)(uintptr_t)counts;
	return counts;
}

void wr_client_counts_free(struct wr_client_counts *counts)
{
	if (!counts)
		return;
	wr_assert_magic(counts, WR_CLIENT_COUNTS_MAGIC);
	for (size_t i = 0; i < WR_CLIENT_BUCKETS; i++)
		while (counts->buckets[i]) {
			struct wr_client_count *client = counts->buckets[i];

			counts->buckets[i] = client->next;
			free(client);
		}
	pthread_mutex_destroy(&counts->lock);
	counts->magic = 0;
	free(counts);
}

static bool is_loopback(const struct wr_address *address)
{
	static const struct wr_address six = {{[15] = 1}};

	if (wr_address_is_v4(address))
		return address->bytes[12] == 127;
	return memcmp(address, &six, sizeof six) == 0;
}

/* Returns the address of the pointer that links this client's struct wr_client_count into its list.
 * If the client has no such struct, that pointer is NULL, and the caller can make it point to a new
 * struct. Called with the lock held. */
static struct wr_client_count **find_link(struct wr_client_counts *counts,
					  const struct wr_address *address)
{
	uint64_t halves[2], hash;
	struct wr_client_count **at;

	memcpy(halves, address->bytes, sizeof halves);
	hash = (halves[0] ^ counts->seed) * 0x9e3779b97f4a7c15;
	hash = (hash ^ (hash >> 32) ^ halves[1]) * 0xd6e8feb86659fd93;
	at = &counts->buckets[(hash >> 40) % WR_CLIENT_BUCKETS];
	while (*at && memcmp(&(*at)->address, address, sizeof *address) != 0)
		at = &(*at)->next;
	return at;
}

/* Counts a connection. Returns false if the client has reached the maximum or there is no memory.
 * Called with the lock held. */
static bool count_one(struct wr_client_counts *counts, const struct wr_address *address)
{
	struct wr_client_count **at = find_link(counts, address);

	if (!*at) {
		*at = calloc(1, sizeof **at);
		if (!*at)
			return false;
		(*at)->address = *address;
	}
	if ((*at)->connections >= counts->max)
		return false;
	(*at)->connections++;
	return true;
}

bool wr_client_counts_enter(struct wr_client_counts *counts, const struct sockaddr *peer,
			    struct wr_address *client, bool *counted)
{
	wr_assert_magic(counts, WR_CLIENT_COUNTS_MAGIC);
	*counted = false;
	if (!wr_networks_address(peer, client) || is_loopback(client))
		return true;
	if (!wr_address_is_v4(client))
		memset(client->bytes + 8, 0, 8); /* all addresses of a /64 count as one client */
	pthread_mutex_lock(&counts->lock);
	*counted = count_one(counts, client);
	pthread_mutex_unlock(&counts->lock);
	return *counted;
}

void wr_client_counts_leave(struct wr_client_counts *counts, const struct wr_address *client)
{
	struct wr_client_count **at, *gone;

	wr_assert_magic(counts, WR_CLIENT_COUNTS_MAGIC);
	pthread_mutex_lock(&counts->lock);
	at = find_link(counts, client);
	gone = *at;
	wr_assert(gone && gone->connections > 0);
	if (--gone->connections == 0) {
		*at = gone->next;
		free(gone);
	}
	pthread_mutex_unlock(&counts->lock);
}
