/* The sums of amounts within a moving span of time, one sum for each of several numbered things, and
 * the maximum of each sum. The memory depends on the number of things and on the number of amounts
 * within the span. */
#ifndef WR_LAB_RECENT_H
#define WR_LAB_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wr_lab_recent_item;

struct wr_lab_recent {
	uint64_t span_ns;
	uint32_t *within;                 /* the sum of each thing within the last span_ns */
	uint32_t *most;                   /* its maximum */
	bool failed;                      /* there was no memory; the sums are too small */
	struct wr_lab_recent_item *items; /* a ring of the amounts within span_ns */
	size_t first, count, cap;         /* `cap` is a power of two */
};

/* Returns false if there is no memory. The caller calls wr_lab_recent_free() in any case. */
bool wr_lab_recent_init(struct wr_lab_recent *recent, uint64_t span_ns, size_t things);
void wr_lab_recent_free(struct wr_lab_recent *recent);

/* Adds an amount. Times must not go back. */
void wr_lab_recent_add(struct wr_lab_recent *recent, uint32_t thing, uint32_t amount,
		       uint64_t at_ns);
/* Removes the amounts that are older than span_ns at now_ns. */
void wr_lab_recent_advance(struct wr_lab_recent *recent, uint64_t now_ns);

#endif
