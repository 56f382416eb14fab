/* The open reservations of a loop whose limits have `on_expiry: refund`. When such a reservation
 * expires without a commit, its units are given back. The reservations are in memory only: if the
 * process ends before, they stay charged. */
#ifndef WR_SERVE_DECIDE_EXPIRY_H
#define WR_SERVE_DECIDE_EXPIRY_H

#include <weir/rules.h>

#include "base/heap.h"

struct wr_loop;

#define WR_EXPIRIES_MAX 65536u                 /* maximum number of reservations of a loop */
#define WR_EXPIRY_BYTES_MAX ((size_t)32 << 20) /* maximum memory for their tokens */

struct wr_expiries {
	struct wr_heap heap; /* by time of expiry */
	size_t bytes;        /* memory of the tokens in the heap */
};

void wr_expiries_init(struct wr_expiries *expiries);
void wr_expiries_free(struct wr_expiries *expiries);

/* Remembers a token. If there is no room, the reservation will stay charged. */
void wr_expiries_add(struct wr_expiries *expiries, struct weir_str token, uint64_t expires_ns);

/* Gives back the units of reservations that have expired. Called several times a second. */
void wr_expiries_sweep(struct wr_loop *loop);

#endif
