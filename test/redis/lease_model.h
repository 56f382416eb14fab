/* A simple model of the lease script: every stamp is in an array, and wait times are found by
 * searching for the first sufficient time. The clock must not step back. */
#ifndef TEST_REDIS_LEASE_MODEL_H
#define TEST_REDIS_LEASE_MODEL_H

#include "redis/script_lease.h"

#define MODEL_HOLDERS 64
#define MODEL_STAMPS 4096

struct model_lease {
	uint64_t holder, seq; /* holder 0: the holder has lost track of this lease */
	uint64_t out, ends_us;
	struct wr_leased answer;
};

struct model {
	uint64_t at_us;    /* token bucket: the time at which `backlog` is valid */
	__int128 backlog;  /* missing units, in tokens · period */
	uint64_t window;   /* number of the window that count[0] belongs to */
	uint64_t count[2]; /* units in this window, and in the window before */
	uint64_t stamps[MODEL_STAMPS];
	size_t stamp_count;
	struct model_lease leases[MODEL_HOLDERS];
	size_t lease_count;
	uint64_t burnt, granted, spent, returned; /* total numbers of units */
};

/* Returns the expected reply at now_us, except taken.decided_us. */
struct wr_leased model_call(struct model *model, const struct wr_redis_lease_call *call,
			    uint64_t now_us);

/* Returns the number of units that are lent at now_us. */
uint64_t model_out(const struct model *model, uint64_t now_us);

#endif
