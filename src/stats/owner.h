/* The owner of a lane or a host entry in the table: a process id, its start time, and its pid
 * namespace. The state of a process in another namespace is unknown, so its entries are never taken
 * over.
 *
 * An owner word is a struct wr_pair:
 *
 *   lo  the process id (32 bits), and a number that makes each owner word unique (32 bits). If
 *       there is no owner, lo is 0.
 *   hi  the namespace (24 bits), and the start time (40 bits) */
#ifndef WR_STATS_OWNER_H
#define WR_STATS_OWNER_H

#include "base/pair.h"

/* Returns the owner word of this process, with 0 as the unique number. */
struct wr_pair wr_stats_owner_self(void);

/* Returns whether the owner has ended. Returns false if `self` is in another namespace than the
 * owner. */
bool wr_stats_owner_is_dead(struct wr_pair owner, struct wr_pair self);

static inline uint32_t wr_stats_owner_pid(struct wr_pair owner)
{
	return (uint32_t)(owner.lo >> 32);
}

#endif
