/* The clients of a log, see tune_clients.h. Both tables use open addressing, and at most half of
 * their slots. */
#include "lab/tune/clients.h"

#include <stdlib.h>
#include <string.h>

#include <weir/error.h>

#include "base/assert.h"

#define FIRST_CAP 1024u

int wr_lab_clients_init(struct wr_lab_clients *clients, uint32_t pair_max)
{
	wr_assert(pair_max >= FIRST_CAP / 64);
	*clients = (struct wr_lab_clients){.pair_max = pair_max, .slot_count = 2 * FIRST_CAP};
	clients->client_slots = calloc(clients->slot_count, sizeof *clients->client_slots);
	clients->pair_slots = calloc(clients->slot_count, sizeof *clients->pair_slots);
	return clients->client_slots && clients->pair_slots ? 0 : WEIR_EMEMORY;
}

void wr_lab_clients_free(struct wr_lab_clients *clients)
{
	free(clients->clients);
	free(clients->pairs);
	free(clients->client_slots);
	free(clients->pair_slots);
}

static bool is_sampled(const struct wr_lab_clients *clients, uint64_t hash)
{
	return clients->sample_bits == 0 || hash >> (64 - clients->sample_bits) == 0;
}

/* ---- slots ---- */

static uint32_t *find_client(const struct wr_lab_clients *clients, uint64_t hash)
{
	for (uint64_t i = hash;; i++) {
		uint32_t *slot = &clients->client_slots[i & (clients->slot_count - 1)];

		if (*slot == 0 || clients->clients[*slot - 1].hash == hash)
			return slot;
	}
}

static uint32_t *find_pair(const struct wr_lab_clients *clients, uint32_t client, uint32_t route)
{
	uint64_t hash = clients->clients[client].hash + route * 0x9e3779b97f4a7c15ull;

	for (uint64_t i = hash ^ hash >> 32;; i++) {
		uint32_t *slot = &clients->pair_slots[i & (clients->slot_count - 1)];
		const struct wr_lab_pair *pair = &clients->pairs[*slot ? *slot - 1 : 0];

		if (*slot == 0 || (pair->client == client && pair->route == route))
			return slot;
	}
}

static void fill_slots(struct wr_lab_clients *clients)
{
	memset(clients->client_slots, 0, clients->slot_count * sizeof *clients->client_slots);
	memset(clients->pair_slots, 0, clients->slot_count * sizeof *clients->pair_slots);
	for (uint32_t i = 0; i < clients->client_count; i++)
		*find_client(clients, clients->clients[i].hash) = i + 1;
	for (uint32_t i = 0; i < clients->pair_count; i++)
		*find_pair(clients, clients->pairs[i].client, clients->pairs[i].route) = i + 1;
}

/* ---- growing and sampling ---- */

static int grow_slots(struct wr_lab_clients *clients)
{
	uint32_t count = 2 * clients->slot_count;
	uint32_t *client_slots = calloc(count, sizeof *client_slots);
	uint32_t *pair_slots = calloc(count, sizeof *pair_slots);

	if (!client_slots || !pair_slots) {
		free(client_slots);
		free(pair_slots);
		return WEIR_EMEMORY;
	}
	free(clients->client_slots);
	free(clients->pair_slots);
	clients->client_slots = client_slots;
	clients->pair_slots = pair_slots;
	clients->slot_count = count;
	fill_slots(clients);
	return 0;
}

/* Makes room for one more item of an array. Returns the array, or NULL if there is no memory; the
 * old array is valid then. */
static void *grow(void *items, uint32_t *cap, size_t size)
{
	uint32_t more = *cap ? 2 * *cap : FIRST_CAP;
	void *larger = realloc(items, (size_t)more * size);

	if (larger)
		*cap = more;
	return larger;
}

/* Drops half of the clients. Clients that stay keep their order. Returns the new number of the client
 * `follow`, or WR_LAB_NO_CLIENT if it was dropped. */
static uint32_t halve_sample(struct wr_lab_clients *clients, uint32_t follow)
{
	uint32_t kept = 0, pairs = 0, found = WR_LAB_NO_CLIENT;

	clients->sample_bits++;
	/* First the pairs: they need the old numbers of clients. The new number of a client is the
	 * number of kept clients before it. It is stored in `renumber`. */
	for (uint32_t i = 0; i < clients->client_count; i++)
		clients->clients[i].renumber =
			is_sampled(clients, clients->clients[i].hash) ? kept++ : WR_LAB_NO_CLIENT;
	for (uint32_t i = 0; i < clients->pair_count; i++) {
		uint32_t client = clients->clients[clients->pairs[i].client].renumber;

		if (client == WR_LAB_NO_CLIENT)
			continue;
		clients->pairs[pairs] = clients->pairs[i];
		clients->pairs[pairs++].client = client;
	}
	found = clients->clients[follow].renumber;
	for (uint32_t i = 0; i < clients->client_count; i++)
		if (clients->clients[i].renumber != WR_LAB_NO_CLIENT)
			clients->clients[clients->clients[i].renumber] = clients->clients[i];
	clients->client_count = kept;
	clients->pair_count = pairs;
	fill_slots(clients);
	return found;
}

/* ---- finding ---- */

int wr_lab_clients_get(struct wr_lab_clients *clients, uint64_t hash, uint32_t *index)
{
	uint32_t *slot;

	*index = WR_LAB_NO_CLIENT;
	if (!is_sampled(clients, hash))
		return 0;
	slot = find_client(clients, hash);
	if (*slot) {
		*index = *slot - 1;
		return 0;
	}
	if (clients->client_count == clients->client_cap) {
		void *larger =
			grow(clients->clients, &clients->client_cap, sizeof *clients->clients);

		if (!larger)
			return WEIR_EMEMORY;
		clients->clients = larger;
	}
	if (2 * (clients->client_count + 1) > clients->slot_count) {
		if (grow_slots(clients) < 0)
			return WEIR_EMEMORY;
		slot = find_client(clients, hash);
	}
	*index = clients->client_count++;
	clients->clients[*index] = (struct wr_lab_tune_client){.hash = hash};
	*slot = *index + 1;
	return 0;
}

static int make_room_for_pair(struct wr_lab_clients *clients)
{
	if (clients->pair_count == clients->pair_cap) {
		void *larger = grow(clients->pairs, &clients->pair_cap, sizeof *clients->pairs);

		if (!larger)
			return WEIR_EMEMORY;
		clients->pairs = larger;
	}
	return 2 * (clients->pair_count + 1) > clients->slot_count ? grow_slots(clients) : 0;
}

int wr_lab_clients_pair(struct wr_lab_clients *clients, uint32_t client, uint32_t route,
			struct wr_lab_pair **pair)
{
	uint32_t *slot;

	*pair = NULL;
	if (make_room_for_pair(clients) < 0)
		return WEIR_EMEMORY;
	slot = find_pair(clients, client, route);
	while (*slot == 0 && clients->pair_count >= clients->pair_max) {
		client = halve_sample(clients, client);
		if (client == WR_LAB_NO_CLIENT)
			return 0;
		slot = find_pair(clients, client, route);
	}
	if (*slot == 0) {
		clients->pairs[clients->pair_count] =
			(struct wr_lab_pair){.client = client, .route = route};
		*slot = ++clients->pair_count;
	}
	*pair = &clients->pairs[*slot - 1];
	return 0;
}
