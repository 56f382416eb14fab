/* Decisions on the state in the table: one limit, or all limits of a request.
 *
 * An attempt is one step of one algorithm on one key's state, looked at or carried out. The soft
 * mode's second chance, several limits at once and the public calls are built from attempts. */
#ifndef WR_STORE_STORE_H
#define WR_STORE_STORE_H

#include "table/table.h"

enum wr_purpose {
	WR_LOOK,   /* writes nothing, whatever comes out */
	WR_MARK,   /* takes nothing; a refusal marks the key */
	WR_TRY,    /* a refusal writes nothing: another attempt will follow */
	WR_TAKE,   /* a refusal marks the key, and is charged where the limit says so */
	WR_CHARGE, /* charged whatever the limit says: another limit refused the request */
	WR_RETURN, /* cost is negative and undoes a take of the same time, or does nothing */
};

struct wr_attempt {
	const struct weir_limit *limit;
	struct wr_key key;
	int64_t cost;
	uint64_t now_ns;
	uint32_t ceiling; /* capacity to enforce: the limit's own, or its soft ceiling */
	enum wr_purpose purpose;
	struct weir_decision *decision;
	uint64_t ceiling_wait_ns; /* out, in soft mode: wait of a refused request under
				     limit->ceiling */
};

/* For limits whose state fits a cell. */
void wr_cell_attempt(struct weir_table *table, struct wr_attempt *attempt);

/* For sliding window logs. */
void wr_log_attempt(struct weir_table *table, struct wr_attempt *attempt);

/* One limit, soft or hard. */
void wr_take_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t cost, uint64_t now_ns, struct weir_decision *decision);

/* The same for another purpose: what a take of `cost` would say, a mark, a charge, a return. */
void wr_decide_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		   int64_t cost, uint64_t now_ns, enum wr_purpose purpose,
		   struct weir_decision *decision);

/* Whether an attempt that was refused leaves a mark, and in soft mode counts as excess. */
static inline bool wr_leaves_mark(const struct wr_attempt *attempt)
{
	return (attempt->purpose == WR_TAKE || attempt->purpose == WR_MARK) && attempt->cost > 0;
}

/* Whether the decision is all there is to it. */
static inline bool wr_writes_nothing(const struct wr_attempt *attempt)
{
	return attempt->purpose == WR_LOOK || attempt->purpose == WR_MARK ||
	       (attempt->purpose == WR_TRY && !attempt->decision->admitted);
}

/* Share of the limit a key uses, for eviction: 0 … 254. */
static inline unsigned wr_harm_of(const struct weir_decision *decision)
{
	uint64_t used = decision->limit - decision->remaining;

	return decision->limit ? (unsigned)(used * 254 / decision->limit) : 0;
}

/* Marks a key refused, the first time: then it outlives the others in a full table. */
static inline void wr_mark_refused(struct wr_spot *spot)
{
	struct wr_pair marked =
		wr_hot_with(spot->hot, spot->hot.lo, wr_hot_s1(spot->hot), WR_HARM_REFUSED);

	if (wr_hot_harm(spot->hot) != WR_HARM_REFUSED)
		wr_pair_cas(&spot->cell->hot, &spot->hot, marked);
}

#endif
