/* Limits wrong tokens by client address: a burst of 20, then one a second. A correct token is
 * always accepted, so that another client cannot lock out an operator with the same address.
 *
 *   20 wrong tokens at 0 s get 401, the 21st gets 429 with Retry-After: 1, and at 1 s one more gets
 *   401.
 *
 * Memory is bounded: the guard has WR_ADMIN_GUARD_ENTRIES entries. An entry is for one IPv4 address
 * or one IPv6 network (/64). Each address belongs to one of WR_ADMIN_GUARD_SETS sets of entries. A
 * new address replaces the entry with the lowest clear_ms in its set. */
#ifndef WR_SERVE_ADMIN_GUARD_H
#define WR_SERVE_ADMIN_GUARD_H

#include <pthread.h>
#include <stdint.h>

#include "base/address.h"

#define WR_ADMIN_GUARD_BURST 20u
#define WR_ADMIN_GUARD_PERIOD_MS 1000u
#define WR_ADMIN_GUARD_SETS 64u
#define WR_ADMIN_GUARD_WAYS 4u
#define WR_ADMIN_GUARD_ENTRIES (WR_ADMIN_GUARD_SETS * WR_ADMIN_GUARD_WAYS)

struct wr_admin_guard_entry {
	struct wr_address address; /* the IPv4 address, or the first address of the IPv6 network */
	/* Time at which the address has its full burst again. 0: the entry is unused. */
	uint64_t clear_ms;
};

struct wr_admin_guard {
	pthread_mutex_t lock; /* protects the entries */
	struct wr_admin_guard_entry entries[WR_ADMIN_GUARD_ENTRIES];
};

/* Counts a wrong token of an address. Returns 0 if the limit allows this wrong token. Otherwise
 * counts nothing, and returns the time in milliseconds until the limit allows a wrong token again.
 * `now_ms` is from a clock that never steps back. Any thread may call. */
uint64_t wr_admin_guard_wrong(struct wr_admin_guard *guard, const struct wr_address *address,
			      uint64_t now_ms);

#endif
