#include "serve/net/client_count.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "serve/networks.h"

struct wr_crowd_client {
	struct wr_address address;
	unsigned connections;
	struct wr_crowd_client *next;
};

struct wr_crowd *wr_crowd_new(unsigned max)
{
	struct wr_crowd *crowd = calloc(1, sizeof *crowd);

	if (!crowd)
		return NULL;
	pthread_mutex_init(&crowd->lock, NULL);
	crowd->max = max;
	if (getrandom(&crowd->seed, sizeof crowd->seed, 0) < 0)
		crowd->seed = (uint64_t)(uintptr_t)crowd;
	return crowd;
}

void wr_crowd_free(struct wr_crowd *crowd)
{
	if (!crowd)
		return;
	for (size_t i = 0; i < WR_CROWD_BUCKETS; i++)
		while (crowd->buckets[i]) {
			struct wr_crowd_client *client = crowd->buckets[i];

			crowd->buckets[i] = client->next;
			free(client);
		}
	pthread_mutex_destroy(&crowd->lock);
	free(crowd);
}

static bool is_loopback(const struct wr_address *address)
{
	static const struct wr_address six = {{[15] = 1}};

	if (wr_address_is_v4(address))
		return address->bytes[12] == 127;
	return memcmp(address, &six, sizeof six) == 0;
}

/* The client that an address belongs to. */
static void mask(struct wr_address *address)
{
	if (!wr_address_is_v4(address))
		memset(address->bytes + 8, 0, 8);
}

/* Where the client is, or would be put. */
static struct wr_crowd_client **find(struct wr_crowd *crowd, const struct wr_address *address)
{
	uint64_t halves[2], hash;
	struct wr_crowd_client **at;

	memcpy(halves, address->bytes, sizeof halves);
	hash = (halves[0] ^ crowd->seed) * 0x9e3779b97f4a7c15;
	hash = (hash ^ (hash >> 32) ^ halves[1]) * 0xd6e8feb86659fd93;
	at = &crowd->buckets[(hash >> 40) % WR_CROWD_BUCKETS];
	while (*at && memcmp(&(*at)->address, address, sizeof *address) != 0)
		at = &(*at)->next;
	return at;
}

/* Called with the lock held. */
static bool count_one(struct wr_crowd *crowd, const struct wr_address *address)
{
	struct wr_crowd_client **at = find(crowd, address);

	if (!*at) {
		*at = calloc(1, sizeof **at);
		if (!*at)
			return false;
		(*at)->address = *address;
	}
	if ((*at)->connections >= crowd->max)
		return false;
	(*at)->connections++;
	return true;
}

bool wr_crowd_enter(struct wr_crowd *crowd, const struct sockaddr *peer, struct wr_address *client,
		    bool *counted)
{
	*counted = false;
	if (!wr_networks_address(peer, client) || is_loopback(client))
		return true;
	mask(client);
	pthread_mutex_lock(&crowd->lock);
	*counted = count_one(crowd, client);
	pthread_mutex_unlock(&crowd->lock);
	return *counted;
}

void wr_crowd_leave(struct wr_crowd *crowd, const struct wr_address *client)
{
	struct wr_crowd_client **at, *gone;

	pthread_mutex_lock(&crowd->lock);
	at = find(crowd, client);
	gone = *at;
	if (gone && --gone->connections == 0) {
		*at = gone->next;
		free(gone);
	}
	pthread_mutex_unlock(&crowd->lock);
}
