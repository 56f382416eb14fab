/* A simple model of the lease script: every stamp is in an array, and waits are found by searching
 * for the first sufficient time. The clock must not step back. */
#ifndef TEST_REDIS_LEASE_MODEL_H
#define TEST_REDIS_LEASE_MODEL_H

#include "redis/script_lease.h"

#define MODEL_HOLDERS 64
#define MODEL_STAMPS 4096

struct model_lease {
	uint64_t holder, seq; /* holder 0: its holder has lost track of it */
	uint64_t out, ends_us;
	struct wr_leased answer;
};

struct model {
	uint64_t at_us;    /* bucket: the time of `backlog` */
	__int128 backlog;  /* missing units, in tokens · period */
	uint64_t window;   /* number of the counted window */
	uint64_t count[2]; /* in it, and in the one before */
	uint64_t stamps[MODEL_STAMPS];
	size_t stamp_count;
	struct model_lease leases[MODEL_HOLDERS];
	size_t lease_count;
	uint64_t burnt, granted, spent, returned; /* units */
};

/* The expected reply at now_us, except taken.decided_us. */
struct wr_leased model_call(struct model *model, const struct wr_lease_call *call, uint64_t now_us);

/* Units lent at now_us. */
uint64_t model_out(const struct model *model, uint64_t now_us);

#endif
