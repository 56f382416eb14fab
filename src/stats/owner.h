/* Who owns a place in the table: a process by its id, when it started, and the namespace its id is
 * from. Ids of another namespace mean nothing here, so what belongs to them is left alone.
 *
 *   lo  process 32 · a number that makes each owner word one of its own 32; 0: nobody
 *   hi  namespace 24 · start 40 */
#ifndef WR_STATS_OWNER_H
#define WR_STATS_OWNER_H

#include "base/pair.h"

/* This process; lo is without a number. */
struct wr_pair wr_owner_self(void);

/* Whether the owner is gone, as far as `self` can see. */
bool wr_owner_is_dead(struct wr_pair owner, struct wr_pair self);

static inline uint32_t wr_owner_pid(struct wr_pair owner)
{
	return (uint32_t)(owner.lo >> 32);
}

#endif
