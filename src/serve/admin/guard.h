/* Wrong tokens: an address may show a few, then one a second. A right token is always accepted, so
 * that nobody can lock an operator out who has the same address.
 *
 *   burst 20, one a second: 20 wrong ones at 0 s are answered 401, the 21st 429 with Retry-After 1,
 *   at 1 s one more is answered 401.
 *
 * Memory is bounded: WR_GUARD_PLACES addresses are remembered, an IPv6 address by its /64. A new
 * address takes the place of the one of its set that is due soonest. */
#ifndef WR_SERVE_ADMIN_GUARD_H
#define WR_SERVE_ADMIN_GUARD_H

#include <pthread.h>
#include <stdint.h>

#include "rules/address.h"

#define WR_GUARD_BURST 20u
#define WR_GUARD_PERIOD_MS 1000u
#define WR_GUARD_SETS 64u
#define WR_GUARD_WAYS 4u
#define WR_GUARD_PLACES (WR_GUARD_SETS * WR_GUARD_WAYS)

struct wr_guard_place {
	struct wr_address address; /* of an IPv6 network, its first */
	uint64_t clear_ms;         /* when all that it showed is forgotten; 0: unused */
};

struct wr_guard {
	pthread_mutex_t lock;
	struct wr_guard_place places[WR_GUARD_PLACES];
};

/* Counts a wrong token of this address. Returns 0, or the milliseconds until one more is answered
 * without a word. `now_ms` is of a clock that never goes back. Any thread. */
uint64_t wr_guard_wrong(struct wr_guard *guard, const struct wr_address *address, uint64_t now_ms);

#endif
