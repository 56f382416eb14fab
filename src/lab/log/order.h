/* Puts records into the order of their times, within a window.
 *
 * The records of a second stay in the window until enough later lines were read, or until a line was
 * read that is later by the length of the window. Then the second is complete: its records leave
 * the window in the order of their times. A record whose second has already left, and that is
 * before the record that left last, is late. It leaves at once and is marked, and the log leaves it
 * out: at any other time than its own, it would look like part of a burst.
 *
 * A record that is ahead of all records before it by more than the length of the window waits. If
 * further records are ahead as well, there was a pause, and the window moves on. If other records
 * follow, the time was wrong: the record counts as late. So a single wrong time does not make the
 * rest of a log late. The first records wait until there are WR_LAB_AHEAD_LINES of them, and the
 * earliest of them begins the window. So a wrong time in the first line has no effect either. */
#ifndef WR_LAB_LOG_ORDER_H
#define WR_LAB_LOG_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "lab/log/slot.h"

/* The window also has limits of memory, for logs with very many lines in each second. */
#define WR_LAB_WINDOW_BYTES ((size_t)64 << 20)
#define WR_LAB_WINDOW_TEXTS 128u
/* This many records show whether records ahead are behind a pause or have wrong times. */
#define WR_LAB_AHEAD_LINES 10u

/* A list of slots in the order in which they were added. */
struct wr_lab_chain {
	struct wr_lab_slot *head, *tail;
};

struct wr_lab_second;

struct wr_lab_order {
	uint64_t window_lines, window_s;
	struct wr_lab_second *seconds; /* a ring with the seconds of the window */
	uint64_t *busy;                /* a bit for each second of the ring that has records */
	uint64_t mask;                 /* number of seconds in the ring, less 1 */
	uint64_t floor_s;              /* all seconds before this one have left the window */
	uint64_t oldest_s;             /* second of the oldest record, unless the window is empty */
	uint64_t newest_s;             /* the latest second so far */
	uint64_t newest_ns;            /* the latest time of a record so far */
	uint64_t last_ns;              /* the time of the record that left last */
	/* Some records of part_s have already left, because the window was full. They have used
	 * the first part_ns of their second. */
	uint64_t part_s, part_ns;
	uint64_t held; /* number of records in the window */
	size_t held_bytes;
	uint32_t held_texts; /* number of blocks of text that records of the window refer to */
	bool begun;          /* the first records have entered the window */
	struct wr_lab_chain ahead; /* the first records, then those that may be behind a pause */
	uint32_t ahead_lines, behind_lines; /* records in `ahead`, and others since the first */
	struct wr_lab_chain ready;          /* records that have left the window */
	uint64_t late, reordered;
};

/* Returns 0, or WEIR_EMEMORY. */
int wr_lab_order_init(struct wr_lab_order *order, uint64_t window_lines, uint64_t window_ns);

/* Frees the window. The caller owns the slots. */
void wr_lab_order_free(struct wr_lab_order *order);

/* Adds a record. Records that leave the window are then in order->ready. */
void wr_lab_order_add(struct wr_lab_order *order, struct wr_lab_slot *slot);

/* Makes the oldest records leave until fewer than WR_LAB_WINDOW_TEXTS blocks of text are in use. */
void wr_lab_order_unpin(struct wr_lab_order *order);

/* Makes all records leave. */
void wr_lab_order_flush(struct wr_lab_order *order);

static inline void wr_lab_chain_add(struct wr_lab_chain *chain, struct wr_lab_slot *slot)
{
	slot->next = NULL;
	if (chain->head)
		chain->tail->next = slot;
	else
		chain->head = slot;
	chain->tail = slot;
}

#endif
