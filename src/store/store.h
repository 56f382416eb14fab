/* Decisions on the state in the table: one limit, or all limits of a request.
 *
 * An attempt is one step of one algorithm on the state of one key. Its purpose determines whether
 * the new state is written. Soft mode, decisions on several limits and the public functions are
 * built from attempts. */
#ifndef WR_STORE_STORE_H
#define WR_STORE_STORE_H

#include "algo/harm.h"
#include "table/override.h"
#include "table/table.h"

#define WR_KEY_MAX 65536u /* maximum length of a key in bytes */

enum wr_purpose {
	WR_LOOK, /* decides, and writes nothing */
	/* Takes nothing; if the request is refused, marks the key as refused
	 * (wr_mark_refused()). */
	WR_MARK,
	WR_TRY, /* takes units; a refusal writes nothing, because another attempt will follow */
	/* Takes units. A refusal marks the key as refused, and counts the cost if the limit has
	 * WEIR_COUNT_REJECTED. */
	WR_TAKE,
	/* Counts the cost even if it exceeds the limit, for example because another limit refused
	 * the request. */
	WR_CHARGE,
	/* Counts units that a request used beyond its reservation, even if they exceed the limit,
	 * up to the largest debt (wr_most_owed()). Sets `returned` to the number of units
	 * counted. */
	WR_OWE,
	/* Gives back units (the cost is negative) to the window or bucket that counted them at
	 * charged_ns. Gives back nothing if wr_step_back() does not allow it. */
	WR_RETURN,
};

struct wr_attempt {
	const struct weir_limit *limit;
	struct wr_key key;
	int64_t cost;
	uint64_t now_ns;
	/* The number of units to enforce: limit->capacity, or limit->ceiling in soft mode. */
	uint32_t ceiling;
	enum wr_purpose purpose;
	struct weir_decision *decision;
	/* The value of wr_hot_changes() when `limit` and `ceiling` were computed from the key's
	 * override; 0 if they include no override. If the attempt finds another value in the key's
	 * cell, the override has changed: the attempt then writes nothing and sets `changed`. */
	unsigned changes;
	bool changed;
	struct weir_table *table; /* for WR_RETURN: the table, which records resets of keys */
	uint64_t charged_ns; /* for WR_RETURN: charged_ns of the decision that took the units */
	/* For WR_RETURN to a token bucket: the tokens that have flowed in after this time are not
	 * given back. 0: charged_ns. */
	uint64_t refilled_since_ns;
	/* For WR_RETURN: entries of a log are removed even if they are not the newest ones. This
	 * takes a new ring. */
	bool settles;
	/* For WR_RETURN to a log: charged_ns is not the exact time of the entries
	 * (wr_algo_log_find_taken()). */
	bool roughly;
	/* For WR_RETURN: the caller does not read the decision, and `decision` may be left
	 * unchanged. */
	bool quiet;
	/* Result of WR_RETURN: number of whole units given back. Result of WR_OWE: number of units
	 * counted. */
	uint64_t returned;
	/* Result in soft mode: how long a refused request would have to wait under
	 * limit->ceiling. */
	uint64_t ceiling_wait_ns;
};

/* Checks the arguments of weir_take() and weir_return(). Returns 0 or the error. On an error,
 * zeroes *decision, so that a caller who ignores the error admits nothing. */
static inline int wr_store_check_take(const struct weir_table *table,
				      const struct weir_limit *limit, const void *key, size_t len,
				      int64_t cost, uint64_t time_ns,
				      struct weir_decision *decision)
{
	int rc = 0;

	if (!table || !limit || !decision || (!key && len) || len > WR_KEY_MAX || cost < 0)
		rc = WEIR_EINVAL;
	else if (limit->size != sizeof *limit || !limit->checked)
		rc = WEIR_ELIMIT;
	else if (time_ns > INT64_MAX)
		rc = WEIR_ETIME;
	if (__builtin_expect(rc && decision, 0))
		*decision = (struct weir_decision){0};
	return rc;
}

/* Checks a need of weir_take_all() or weir_take_many(). Returns 0 or the error. */
static inline int wr_store_check_need(const struct weir_need *need)
{
	if (!need->limit || (!need->key && need->len) || need->len > WR_KEY_MAX || need->cost < 0)
		return WEIR_EINVAL;
	return need->limit->size == sizeof *need->limit && need->limit->checked ? 0 : WEIR_ELIMIT;
}

/* Carries out an attempt on a sliding window log. */
void wr_store_log_attempt(struct weir_table *table, struct wr_attempt *attempt);

/* Carries out an attempt on a limit on concurrent requests (slots.c). */
void wr_store_slots_attempt(struct weir_table *table, struct wr_attempt *attempt);

/* Frees all slots of a key. Requests that hold a slot cannot give it back any more. */
void wr_store_slots_reset(struct weir_table *table, struct wr_key key);

/* Takes `cost` units under one limit, with or without soft mode. */
void wr_store_take(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		   int64_t cost, uint64_t now_ns, struct weir_decision *decision);

/* Returns true if a quick check shows that `cost` units would be admitted. If it returns false, the
 * caller uses wr_store_decide(). A result of true may be wrong, because the two words of the state
 * are not read together: only wr_store_take() decides. */
bool wr_store_likely_admits(const struct weir_table *table, const struct weir_limit *limit,
			    struct wr_key key, int64_t cost, uint64_t now_ns);

/* Decides the attempt under the limit and the key's override. Fills in attempt->limit and
 * attempt->ceiling. */
void wr_attempt_decide(struct weir_table *table, struct wr_attempt *attempt,
		       const struct weir_limit *limit);

/* Decides for the purpose WR_LOOK, WR_MARK or WR_CHARGE. */
void wr_store_decide(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t cost, uint64_t now_ns, enum wr_purpose purpose,
		     struct weir_decision *decision);

/* Takes `cost` units for a request that was admitted already, or fewer if fewer remain. Returns the
 * number of units taken. Sets *charged_ns, which wr_store_return() needs. */
uint32_t wr_store_charge(struct weir_table *table, const struct weir_limit *limit,
			 struct wr_key key, int64_t cost, uint64_t now_ns, uint64_t *charged_ns);

/* Counts units that another node took. These units are counted in full, even if they exceed the
 * limit, and even if the key is banned. */
void wr_store_impose(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t cost, uint64_t now_ns);

/* Returns the number of units in use after a decision. */
static inline uint64_t wr_store_units_used(const struct weir_decision *decision)
{
	return (uint64_t)decision->limit - decision->remaining + decision->debt;
}

/* How a request took units. */
struct wr_store_taken {
	uint64_t charged_ns; /* of the decision */
	/* For a token bucket: the number of units that were in use after the take
	 * (wr_store_units_used()), and wr_returned_read() before the take. If `used` is 0, both are
	 * not known, and less may be given back. */
	uint64_t used;
	uint64_t given;
};

/* Settles units that a request took under one limit: `charged` units, of which `actual` were used.
 * Gives back the rest, or charges the excess as debt. Sets *returned to the units given back and
 * *owed to the units charged. Fills *decision. The limit must not be a leaky bucket. */
void wr_store_settle(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		     int64_t charged, int64_t actual, const struct wr_store_taken *taken,
		     uint64_t now_ns, uint64_t *returned, uint64_t *owed,
		     struct weir_decision *decision);

/* Gives back `cost` units (above 0) to the window or bucket that counted them at charged_ns. Gives
 * back fewer units if not all of them can be given back. Returns the number of whole units given
 * back. */
uint64_t wr_store_return(struct weir_table *table, const struct weir_limit *limit,
			 struct wr_key key, int64_t cost, uint64_t charged_ns, uint64_t now_ns);

/* The same for a caller that knows the time of its take only roughly. A log gives back its newest
 * entries at or before taken_ns. */
uint64_t wr_store_return_at(struct weir_table *table, const struct weir_limit *limit,
			    struct wr_key key, int64_t cost, uint64_t taken_ns, uint64_t now_ns);

/* Counts `cost` units that a request used beyond its reservation, up to the largest debt of the
 * limit. Bans are ignored. Returns the number of units counted. Fills *decision. */
uint64_t wr_store_owe(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		      int64_t cost, uint64_t now_ns, struct weir_decision *decision);

/* Fills *decision with the counter's decision for cost 0, as if the key were not banned. Fills
 * *override with the override in force. */
void wr_store_inspect(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		      uint64_t now_ns, struct weir_decision *decision,
		      struct wr_override *override);

/* Fills the decision for a banned key. */
void wr_store_refuse_banned(const struct weir_limit *limit, const struct wr_override *override,
			    uint64_t now_ns, struct weir_decision *decision);

/* Returns the limit raised by an operator's grant of `extra` units. The raised limit is at most the
 * largest value that the algorithm and this table can count. */
struct weir_limit wr_store_limit_raised(const struct weir_table *table,
					const struct weir_limit *limit, uint32_t extra);

/* Resets the counter and its soft mode. Overrides stay. Units that were taken up to now_ns cannot
 * be given back any more, because the old counter counted them. */
void wr_store_reset(struct weir_table *table, const struct weir_limit *limit, struct wr_key key,
		    uint64_t now_ns);

/* Returns true if the key was reset after it took the units that the attempt (a WR_RETURN) gives
 * back. Called after the state was read. A reset is recorded before the state is cleared, so a
 * thread that has read a cleared state finds the record. */
bool wr_attempt_was_reset(const struct wr_attempt *attempt);

/* Returns the time of the latest reset of any key, or 0. Called after the cell was read, so that a
 * swap of the cell fails if its key is reset later. */
static inline uint64_t wr_store_reset_ns(const struct weir_table *table)
{
	return __atomic_load_n(&table->tallies->reset_ns, __ATOMIC_RELAXED);
}

/* Returns the key of the cell that stores the second state of a key in soft mode (algo/soft.h).
 * This state has a cell of its own, so that keys within their limit need only one cell. */
static inline struct wr_key wr_store_soft_key(struct wr_key key)
{
	struct wr_key soft = {key.tag ^ 0x736f66742d6b6579};

	return soft;
}

/* Returns true if a request takes units from the counter of `a` before the counter of `b`. The
 * order is the same in every process, so that concurrent requests cause each other to be refused
 * less often. Leaky buckets come last, because a position in a queue cannot always be given
 * back. */
static inline bool wr_takes_before(const struct weir_limit *a, struct wr_key a_key,
				   const struct weir_limit *b, struct wr_key b_key)
{
	bool a_queues = a->algorithm == WEIR_LEAKY_BUCKET;
	bool b_queues = b->algorithm == WEIR_LEAKY_BUCKET;

	return a_queues == b_queues ? a_key.tag < b_key.tag : b_queues;
}

/* Returns true if the key's override is still the one that was applied to attempt->limit, that is,
 * if attempt->changes is equal to the count of changes in the cell. The count is 0 for a key
 * without an override. If the two differ, returns false, sets attempt->changed, and sets
 * attempt->changes to the count in the cell. */
static inline bool wr_knows_override(struct wr_attempt *attempt, struct wr_pair hot)
{
	unsigned changes = wr_hot_override(hot) ? wr_hot_changes(hot) : 0;

	attempt->changed = __builtin_expect(changes != attempt->changes, 0);
	attempt->changes = changes;
	return !attempt->changed;
}

/* Returns true if the key has to be marked as refused when the attempt is refused. In soft mode,
 * such a refusal is also recorded as an excess. */
static inline bool wr_leaves_mark(const struct wr_attempt *attempt)
{
	return (attempt->purpose == WR_TAKE || attempt->purpose == WR_MARK) && attempt->cost > 0;
}

/* Returns true if the attempt changes no state. */
static inline bool wr_writes_nothing(const struct wr_attempt *attempt)
{
	return attempt->purpose == WR_LOOK || attempt->purpose == WR_MARK ||
	       (attempt->purpose == WR_TRY && !attempt->decision->admitted);
}

/* Returns the harm (algo/harm.h) to write into a cell that had the pair `hot` before this request.
 * That is `harm`, but at most WR_HARM_OCTAVE more than the harm in `hot`. WR_HARM_OCTAVE stands for
 * a doubling of the used units. For the first request of a key, the result is at most
 * WR_HARM_OCTAVE - 1, so that a key with only one request is evicted before any other key in use,
 * even if that request had a high cost. */
static inline unsigned wr_store_harm_next(struct wr_pair hot, unsigned harm)
{
	unsigned known = wr_hot_harm(hot) & WR_HARM_MOST;
	unsigned most = known ? known + WR_HARM_OCTAVE : WR_HARM_OCTAVE - 1;

	if (harm > most)
		harm = most;
	return harm < WR_HARM_MOST ? harm : WR_HARM_MOST;
}

/* Returns the harm of a refused key that has used `used` units. */
static inline unsigned wr_store_harm_refused(uint64_t used)
{
	unsigned harm = wr_harm_of(used);

	return (harm < WR_HARM_MOST ? harm : WR_HARM_MOST) | WR_HARM_REFUSED;
}

static inline unsigned wr_store_harm_after(struct wr_pair hot, const struct weir_decision *decision)
{
	unsigned harm = wr_store_harm_next(hot, wr_harm_of(decision->limit - decision->remaining));

	return decision->admitted ? harm : harm | WR_HARM_REFUSED;
}

/* Sets the bit WR_HARM_REFUSED of a key's cell. A key with this bit is evicted later than other
 * keys. */
static inline void wr_mark_refused(struct wr_spot *spot)
{
	struct wr_pair marked = wr_hot_with(spot->hot, spot->hot.lo, wr_hot_s1(spot->hot),
					    wr_hot_harm(spot->hot) | WR_HARM_REFUSED);

	if (!wr_hot_refused(spot->hot))
		wr_pair_cas(&spot->cell->hot, &spot->hot, marked);
}

#endif
