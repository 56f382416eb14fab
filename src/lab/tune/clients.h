/* The clients of a log in bounded memory: one object per client, and one demand per client and
 * route.
 *
 * If there are more demands than the bound, the table becomes a sample: it keeps every second
 * client, then every fourth, and so on. A hash of the client decides, so that a client that is in
 * the sample at the end was in it from its first request on. Its demand is therefore exact. */
#ifndef WR_LAB_TUNE_CLIENTS_H
#define WR_LAB_TUNE_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/tune/client.h"
#include "lab/tune/demand.h"

/* The demand of a client on a route. */
struct wr_lab_pair {
	uint32_t client, route;
	struct wr_lab_demand demand;
};

struct wr_lab_clients {
	struct wr_lab_tune_client *clients;
	struct wr_lab_pair *pairs;
	uint32_t client_count, client_cap;
	uint32_t pair_count, pair_cap;
	uint32_t *client_slots, *pair_slots; /* index + 1; 0: free */
	uint32_t slot_count;                 /* of each of the two tables; a power of two */
	uint32_t pair_max;                   /* the bound */
	unsigned sample_bits;                /* one of 2^sample_bits clients is kept */
};

#define WR_LAB_NO_CLIENT UINT32_MAX

/* Returns 0 or WEIR_EMEMORY. */
int wr_lab_clients_init(struct wr_lab_clients *clients, uint32_t pair_max);
void wr_lab_clients_free(struct wr_lab_clients *clients);

/* Finds or adds the client with this hash. Sets *index to its number, or to WR_LAB_NO_CLIENT if the
 * client is not in the sample. Numbers are valid until the next wr_lab_clients_pair(). Returns 0 or
 * WEIR_EMEMORY. */
int wr_lab_clients_get(struct wr_lab_clients *clients, uint64_t hash, uint32_t *index);

/* Finds or adds the demand of a client on a route. Sets *pair to NULL if the client has fallen out of
 * the sample in this call. Returns 0 or WEIR_EMEMORY. */
int wr_lab_clients_pair(struct wr_lab_clients *clients, uint32_t client, uint32_t route,
			struct wr_lab_pair **pair);

#endif
