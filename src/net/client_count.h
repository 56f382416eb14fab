/* Limits the number of connections of each client, counted over all loops.
 *
 * A client is an IPv4 address or an IPv6 /64, the usual allocation of one customer. Clients on this
 * machine are not counted, because they all have the loopback address. */
#ifndef WR_NET_CLIENT_COUNT_H
#define WR_NET_CLIENT_COUNT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/address.h"
#include "net/log.h"

#define WR_CLIENT_BUCKETS 4096u

struct wr_client_count;

#define WR_CLIENT_COUNTS_MAGIC 0x636e7473u

struct wr_client_counts {
	uint32_t magic; /* WR_CLIENT_COUNTS_MAGIC */
	pthread_mutex_t lock;
	unsigned max;  /* maximum number of connections of a client */
	uint64_t seed; /* random, so that clients cannot choose addresses that share a bucket */
	struct wr_client_count *buckets[WR_CLIENT_BUCKETS];
	struct wr_log_gate gate;
};

/* Returns NULL if there is no memory. `max` is the maximum number of connections per client. */
struct wr_client_counts *wr_client_counts_new(unsigned max);
void wr_client_counts_free(struct wr_client_counts *counts);

/* Counts a new connection of this peer. Returns false if the peer's client already has the maximum
 * number of connections, or if there is no memory. Sets *client to the client's address. Sets
 * *counted to whether the connection was counted. A connection is not counted if it is refused, if
 * its peer has no Internet address, or if its peer is on this machine. If *counted is true, the
 * caller calls wr_client_counts_leave with *client when the connection ends. */
bool wr_client_counts_enter(struct wr_client_counts *counts, const struct sockaddr *peer,
			    struct wr_address *client, bool *counted);
void wr_client_counts_leave(struct wr_client_counts *counts, const struct wr_address *client);

#endif
