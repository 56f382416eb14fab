/* weir_take_many(): takes of several independent requests. The processor loads the cells of a batch
 * at the same time, and not one after the other. */
#include <string.h>

#include "store/store.h"

/* A processor has about this many loads from memory under way at once. */
#define BATCH 16u

static int check_takes(const struct weir_need *takes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int rc = wr_store_check_need(&takes[i]);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Two loops, because the second one needs the cache lines that the first one asks for. */
static void prefetch_cells(struct weir_table *table, const struct weir_need *takes, size_t count,
			   struct wr_key keys[BATCH])
{
	for (size_t i = 0; i < count; i++) {
		keys[i] = wr_hash_key(table->secret, takes[i].key, takes[i].len,
				      takes[i].limit->checked);
		wr_table_prefetch(table, keys[i]);
	}
	for (size_t i = 0; i < count; i++)
		__builtin_prefetch(wr_table_guess(table, keys[i]), 1);
}

static void take_batch(struct weir_table *table, const struct weir_need *takes, size_t count,
		       uint64_t now_ns, struct weir_decision *decisions)
{
	struct wr_key keys[BATCH];

	prefetch_cells(table, takes, count, keys);
	for (size_t i = 0; i < count; i++)
		wr_store_take(table, takes[i].limit, keys[i], takes[i].cost, now_ns, &decisions[i]);
}

int weir_take_many(struct weir_table *table, const struct weir_need *takes, size_t count,
		   uint64_t now_ns, struct weir_decision *decisions)
{
	int rc = 0;

	if (!table || (count && (!takes || !decisions)))
		rc = WEIR_EINVAL;
	else
		rc = now_ns > INT64_MAX ? WEIR_ETIME : check_takes(takes, count);
	if (rc < 0) {
		/* Zero results: a caller that ignores the error then admits nothing. */
		if (decisions)
			memset(decisions, 0, count * sizeof *decisions);
		return rc;
	}
	for (size_t done = 0; done < count; done += BATCH)
		take_batch(table, takes + done, count - done < BATCH ? count - done : BATCH, now_ns,
			   decisions + done);
	return 0;
}
