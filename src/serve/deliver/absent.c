/* Counts responses with status 502, 503 or 504 for each deferred request, as absent.h describes. */
#include "serve/deliver/absent.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/hash.h"

#define SIZE_FIRST 256u
#define SIZE_MOST 131072u
/* If no row can be added to the hash table for a request, this number is used in place of `times`.
 * It is so high that the request gets the longest back-off. */
#define TIMES_UNKNOWN 16u

_Static_assert(WR_DELIVER_ABSENT_MAX == SIZE_MOST / 4 * 3, "a quarter of the rows stays free");

struct wr_deliver_absent_row {
	uint64_t id; /* id of the request; 0: the row is free */
	uint64_t at_us;
	/* Number of responses with 502, 503 or 504 that did not count as failed attempts. */
	uint32_t times;
};

static uint64_t *present_of(struct wr_deliver_absent *absent, struct weir_str rule)
{
	return &absent->present_us[XXH3_64bits(rule.ptr, rule.len) % WR_DELIVER_PRESENT_MAX];
}

void wr_deliver_absent_present(struct wr_deliver_absent *absent, struct weir_str rule,
			       uint64_t now_us)
{
	wr_assert(now_us != 0);
	*present_of(absent, rule) = now_us;
}

/* Returns the row of request `id`. If the request has no row, returns the free row that it would
 * get. At least one row has to be free. */
static struct wr_deliver_absent_row *find_row(struct wr_deliver_absent_row *rows, uint32_t size,
					      uint64_t id)
{
	uint32_t at = (uint32_t)XXH3_64bits(&id, sizeof id) & (size - 1);

	while (rows[at].id && rows[at].id != id)
		at = (at + 1) & (size - 1);
	return &rows[at];
}

static bool is_live(const struct wr_deliver_absent_row *row, uint64_t now_us)
{
	return row->id && now_us - row->at_us < WR_DELIVER_ABSENT_STALE_US;
}

/* Makes room for a new row. Copies all rows that are not stale to new memory. The new memory has
 * twice as many rows if more than half of the old rows are not stale. Returns false if there is no
 * memory, or if the number of rows is at its maximum and three quarters of the rows are not
 * stale. */
static bool make_room(struct wr_deliver_absent *absent, uint64_t now_us)
{
	uint32_t before = absent->rows ? absent->size : 0, size = before ? before : SIZE_FIRST;
	struct wr_deliver_absent_row *rows;
	uint32_t live = 0;

	for (uint32_t i = 0; i < before; i++)
		live += is_live(&absent->rows[i], now_us);
	if (live > size / 2 && size < SIZE_MOST)
		size *= 2;
	if (live >= size / 4 * 3)
		return false;
	rows = calloc(size, sizeof *rows);
	if (!rows)
		return false;
	for (uint32_t i = 0; i < before; i++)
		if (is_live(&absent->rows[i], now_us))
			*find_row(rows, size, absent->rows[i].id) = absent->rows[i];
	free(absent->rows);
	absent->rows = rows;
	absent->size = size;
	absent->used = live;
	return true;
}

/* Returns the row of request `id`. Adds a row if the request has none. Returns NULL if no row can
 * be added. */
static struct wr_deliver_absent_row *row_of(struct wr_deliver_absent *absent, uint64_t id,
					    uint64_t now_us)
{
	struct wr_deliver_absent_row *row;

	if (!absent->rows && !make_room(absent, now_us))
		return NULL;
	row = find_row(absent->rows, absent->size, id);
	if (row->id)
		return row;
	if (absent->used >= absent->size / 4 * 3) {
		if (!make_room(absent, now_us))
			return NULL;
		row = find_row(absent->rows, absent->size, id);
	}
	*row = (struct wr_deliver_absent_row){.id = id, .at_us = now_us};
	absent->used++;
	return row;
}

uint32_t wr_deliver_absent_note(struct wr_deliver_absent *absent, uint64_t id, struct weir_str rule,
				uint64_t now_us, bool *counts)
{
	struct wr_deliver_absent_row *row = row_of(absent, id, now_us);
	uint32_t times;

	wr_assert(absent->used <= absent->size);
	*counts = row && *present_of(absent, rule) > row->at_us;
	if (!row)
		return TIMES_UNKNOWN;
	times = row->times;
	row->at_us = now_us;
	row->times += !*counts;
	return times;
}

void wr_deliver_absent_free(struct wr_deliver_absent *absent)
{
	free(absent->rows);
	*absent = (struct wr_deliver_absent){0};
}
