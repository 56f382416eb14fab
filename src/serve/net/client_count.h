/* How many connections each client address has, over all loops, with a bound.
 *
 * A client is an IPv4 address, or a /64 of IPv6, which is what one client is given. Clients on this
 * machine are not counted: all of them have one address. */
#ifndef WR_SERVE_NET_CLIENT_COUNT_H
#define WR_SERVE_NET_CLIENT_COUNT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rules/address.h"
#include "serve/log.h"

#define WR_CROWD_BUCKETS 4096u

struct wr_crowd_client;

struct wr_crowd {
	pthread_mutex_t lock;
	unsigned max; /* of one client */
	uint64_t seed;
	struct wr_crowd_client *buckets[WR_CROWD_BUCKETS];
	struct wr_log_gate gate;
};

/* NULL: no memory. */
struct wr_crowd *wr_crowd_new(unsigned max);
void wr_crowd_free(struct wr_crowd *crowd);

/* Whether this peer may have one more connection. If so, and *counted, wr_crowd_leave is due with
 * *client when the connection ends. */
bool wr_crowd_enter(struct wr_crowd *crowd, const struct sockaddr *peer, struct wr_address *client,
		    bool *counted);
void wr_crowd_leave(struct wr_crowd *crowd, const struct wr_address *client);

#endif
