/* Decisions on the state in the table: one limit, or all limits of a request.
 *
 * An attempt is one step of one algorithm on one key's state, either looked at or carried out. Soft
 * mode, several limits at once and the public functions are built from attempts. */
#ifndef WR_STORE_STORE_H
#define WR_STORE_STORE_H

#include "algo/harm.h"
#include "table/override.h"
#include "table/table.h"

#define WR_KEY_MAX 65536u /* bytes of a key */

enum wr_purpose {
	WR_LOOK, /* writes nothing */
	WR_MARK, /* takes nothing; a refusal marks the key */
	WR_TRY,  /* a refusal writes nothing: another attempt will follow */
	WR_TAKE, /* a refusal marks the key, and is charged if the limit counts rejected requests */
	WR_CHARGE, /* charged whatever the limit is: another limit refused the request */
	/* Cost is negative. Undoes a take where it was counted (charged_ns), or does nothing:
	 * wr_step_back(). */
	WR_RETURN,
};

struct wr_attempt {
	const struct weir_limit *limit;
	struct wr_key key;
	int64_t cost;
	uint64_t now_ns;
	uint32_t ceiling; /* capacity to enforce: the limit's own, or its soft ceiling */
	enum wr_purpose purpose;
	struct weir_decision *decision;
	/* The count of changes in the key's cell for the override that limit and ceiling include.
	 * An attempt that finds another count writes nothing and sets `changed`. */
	unsigned changes;
	bool changed;
	struct weir_table *table; /* WR_RETURN: where resets of keys are recorded */
	uint64_t charged_ns;      /* WR_RETURN: that of the take */
	uint64_t returned;        /* out, WR_RETURN: number of whole units */
	uint64_t ceiling_wait_ns; /* out, in soft mode: wait of a refused request under
				     limit->ceiling */
};

/* For limits whose state fits into a cell. */
void wr_cell_attempt(struct weir_table *table, struct wr_attempt *attempt);

/* For sliding window logs. */
void wr_log_attempt(struct weir_table *table, struct wr_attempt *attempt);

/* Takes from one limit, soft or hard. */
void wr_take_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		 int64_t cost, uint64_t now_ns, struct weir_decision *decision);

/* Whether a take would be admitted, if a quick look can tell. False: use wr_decide_key. It is a
 * guess, because the two words may belong to different states: only the take decides. */
bool wr_seems_free(const struct weir_table *table, const struct weir_limit *limit,
		   struct wr_key key, int64_t cost, uint64_t now_ns);

/* Decides the attempt under the limit and the key's override. Fills in limit and ceiling. */
void wr_attempt_decide(struct weir_table *table, struct wr_attempt *attempt,
		       const struct weir_limit *limit);

/* The same for another purpose: a look, a mark or a charge. */
void wr_decide_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		   int64_t cost, uint64_t now_ns, enum wr_purpose purpose,
		   struct weir_decision *decision);

/* Takes as much of `cost` as there is, for a request that was admitted already. Returns how much it
 * took; *charged_ns is for wr_return_key. */
uint32_t wr_charge_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		       int64_t cost, uint64_t now_ns, uint64_t *charged_ns);

/* Charges in full the use of another node, whatever the limit or a ban is. */
void wr_impose_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		   int64_t cost, uint64_t now_ns);

/* Gives back `cost` (above 0) of a take where that was counted, or as much as possible. Returns the
 * number of whole units. */
uint64_t wr_return_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		       int64_t cost, uint64_t charged_ns, uint64_t now_ns);

/* A look at the counter itself, whatever ban there is, and at the override in force:
 * store/override.c. */
void wr_inspect_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		    uint64_t now_ns, struct weir_decision *decision, struct wr_override *override);

/* The decision for a banned key. */
void wr_refuse_banned(const struct weir_limit *limit, const struct wr_override *override,
		      uint64_t now_ns, struct weir_decision *decision);

/* The limit with an operator's grant, as far as its algorithm and this table can count it. */
struct weir_limit wr_limit_raised(const struct weir_table *table, const struct weir_limit *limit,
				  uint32_t extra);

/* Resets the counter and its overshoot. Overrides stay. Takes up to now_ns cannot be given back any
 * more, because they were counted in the old counter. */
void wr_reset_key(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		  uint64_t now_ns);

/* WR_RETURN: whether the key was reset after the take. Called after the state was read: the reset
 * is recorded before the state is cleared, so a state from after it has its record. */
bool wr_was_reset(const struct wr_attempt *attempt);

/* The key of the cell for the overshoot of a soft key. It is a separate cell, so that keys within
 * their limit cost nothing more. */
static inline struct wr_key wr_soft_key(struct wr_key key)
{
	struct wr_key soft = {key.tag ^ 0x736f66742d6b6579};

	return soft;
}

/* Every process takes in the same order, so that fewer pairs of requests refuse each other. Leaky
 * buckets come last, because a position in a queue cannot always be given back. */
static inline bool wr_takes_before(const struct weir_limit *a, struct wr_key a_key,
				   const struct weir_limit *b, struct wr_key b_key)
{
	bool a_queues = a->algorithm == WEIR_LEAKY_BUCKET;
	bool b_queues = b->algorithm == WEIR_LEAKY_BUCKET;

	return a_queues == b_queues ? a_key.tag < b_key.tag : b_queues;
}

/* Whether the attempt includes the override of the cell, or there is none. */
static inline bool wr_knows_override(struct wr_attempt *attempt, struct wr_pair hot)
{
	unsigned changes = wr_hot_override(hot) ? wr_hot_changes(hot) : 0;

	attempt->changed = __builtin_expect(changes != attempt->changes, 0);
	attempt->changes = changes;
	return !attempt->changed;
}

/* Whether a refused attempt leaves a mark, and counts as excess in soft mode. */
static inline bool wr_leaves_mark(const struct wr_attempt *attempt)
{
	return (attempt->purpose == WR_TAKE || attempt->purpose == WR_MARK) && attempt->cost > 0;
}

/* Whether the attempt changes no state. */
static inline bool wr_writes_nothing(const struct wr_attempt *attempt)
{
	return attempt->purpose == WR_LOOK || attempt->purpose == WR_MARK ||
	       (attempt->purpose == WR_TRY && !attempt->decision->admitted);
}

/* The harm to write into a cell that had `hot` before this request. A request raises it by one
 * octave at most, and the first one by less: keys that were seen once weigh less than any key in
 * use, whatever their requests cost. */
static inline unsigned wr_harm_next(struct wr_pair hot, unsigned harm)
{
	unsigned known = wr_hot_harm(hot) & WR_HARM_MOST;
	unsigned most = known ? known + WR_HARM_OCTAVE : WR_HARM_OCTAVE - 1;

	if (harm > most)
		harm = most;
	return harm < WR_HARM_MOST ? harm : WR_HARM_MOST;
}

/* … of a refused key that has used so much. */
static inline unsigned wr_harm_refused(uint64_t used)
{
	unsigned harm = wr_harm_of(used);

	return (harm < WR_HARM_MOST ? harm : WR_HARM_MOST) | WR_HARM_REFUSED;
}

static inline unsigned wr_harm_after(struct wr_pair hot, const struct weir_decision *decision)
{
	unsigned harm = wr_harm_next(hot, wr_harm_of(decision->limit - decision->remaining));

	return decision->admitted ? harm : harm | WR_HARM_REFUSED;
}

/* Marks a key as refused, if it is not. It then stays longer than others in a full table. */
static inline void wr_mark_refused(struct wr_spot *spot)
{
	struct wr_pair marked = wr_hot_with(spot->hot, spot->hot.lo, wr_hot_s1(spot->hot),
					    wr_hot_harm(spot->hot) | WR_HARM_REFUSED);

	if (!wr_hot_refused(spot->hot))
		wr_pair_cas(&spot->cell->hot, &spot->hot, marked);
}

#endif
