/* The format of messages between an ask and the central store: little endian, without padding.
 *
 *   question   A struct wr_question_head. Then follow the items: each is a struct wr_question_item
 *              and its id. The central store answers a TAKE and a SETTLE. The other kinds get no
 *              answer and must be carried out exactly once.
 *   answer     A struct wr_question_head. Then follows one struct wr_answer for each item of a TAKE,
 *              in the order of the items. The answer to a SETTLE has one struct wr_answer, for the
 *              marker.
 *
 * The key and the id of an item together identify the counter. The key is a hash of the domain and
 * the entries, computed with the fleet's secret. The id is wr_rules_limit.id, for example
 * "fixed_window/1m". An id of more than WR_QUESTION_ID bytes is cut and ends in a hash of the whole
 * id. The central store takes units for all items with the same key and group, or for none of them.
 * If an item with another key or group refuses the request, the ask gives the units back with a
 * RETURN. */
#ifndef WR_LIMITER_QUESTION_H
#define WR_LIMITER_QUESTION_H

#include <stdint.h>

#include <weir/host.h>

#define WR_QUESTION_VERSION 4u
#define WR_QUESTION_ID 128u

enum wr_question_kind {
	WR_QUESTION_TAKE = 1, /* asks the central store to decide and take */
	WR_QUESTION_RETURN =
		2, /* gives units back: of a TAKE, or of a request with a cost below 0 */
	WR_QUESTION_ANSWER = 3, /* the central store's answer to a TAKE */
	WR_QUESTION_REPORT = 4, /* reports units admitted while the central store was unavailable */
	WR_QUESTION_RESET = 5,  /* resets the counters for an operator; costs are 0 */
	/* Lists the units of a late take: the central store took them, but its answer came after
	 * the timeout. */
	WR_QUESTION_LATE = 6,
	/* Charges units that requests used beyond their reservations, even beyond the limit, up to
	 * the largest debt. */
	WR_QUESTION_OWE = 7,
	/* Settles a reservation. The first item is the marker, which the central store takes or
	 * refuses. The other items give units back, like a RETURN, or charge units, like an OWE.
	 * They are carried out only if the marker was taken. */
	WR_QUESTION_SETTLE = 8,
};

struct wr_question_head {
	uint8_t version;
	uint8_t kind;
	uint16_t count;
	uint32_t bytes; /* length of the whole message, including this struct */
};

struct wr_question_item {
	uint16_t bytes; /* length of the item, including the id */
	uint8_t algorithm;
	uint8_t consistency; /* enum wr_consistency */
	uint16_t flags;      /* enum weir_limit_flags */
	uint16_t id_len;
	uint64_t key[2];
	uint64_t tag; /* tag of the key in this node's table, where leased units are deposited */
	/* Negative in a RETURN; positive in a REPORT, LATE or OWE. In a SETTLE: positive for the
	 * marker and for units to charge, negative for units to give back. */
	int64_t cost;
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint64_t period_ns;
	uint64_t max_wait_ns;
	uint64_t soft_for_ns;
	uint64_t window_start_ns; /* start and end of a calendar window; both 0 for other limits */
	uint64_t window_end_ns;
	/* The start of the previous calendar window and the end of the next one. If the central
	 * store's clock is in the previous or the next window, the central store counts in that
	 * window. */
	uint64_t window_before_ns;
	uint64_t window_after_ns;
	/* The time at which the units were taken. In a RETURN or LATE, and in an item of a SETTLE
	 * that gives units back: decided_us of the answer, by the clock of the central store. In a
	 * RETURN for a request with a negative cost: 0, because it is not known when the units were
	 * taken. In a REPORT: the time by this node's clock. In a TAKE: 0. */
	uint64_t decided_us;
	/* delay_ns of the answer, if decided_us is that of the answer; otherwise 0. The position in
	 * a leaky bucket is identified by the time at which its request leaves the bucket: delay_ns
	 * after decided_us. */
	uint64_t delay_ns;
	uint32_t granted; /* units that an operator granted beyond the limit */
	/* In a TAKE: items with the same key and group are taken together or not at all. Enforced
	 * limits have group 0. A limit that is only counted has its own group, so that it does not
	 * cause other items to be refused. */
	uint32_t group;
	uint32_t max_debt; /* as in struct weir_limit */
	/* Of a token bucket. In a TAKE: 1 if the units may be given back later, so that the answer
	 * shall have WR_ANSWER_PROVEN. In a RETURN, and in an item of a SETTLE that gives units
	 * back: the number of units that were in use after the take, or 0 if it is not proven. */
	uint32_t used;
	uint64_t given; /* if `used` is not 0 in a RETURN or SETTLE: `given` of the answer */
};

enum wr_answer_flags {
	WR_ANSWER_ADMITTED = 1,
	WR_ANSWER_SOFT = 2,
	/* The central store did not decide, so the rule's on_store_failure applies. */
	WR_ANSWER_FAILED = 4,
	/* The item is admitted, but nothing was taken, because another limit of the key refused. */
	WR_ANSWER_NOT_TAKEN = 8,
	/* The bucket lacked limit - remaining + debt units after the take, and `given` is valid. */
	WR_ANSWER_PROVEN = 16,
	WR_ANSWER_ALL = 31,
};

struct wr_answer {
	uint32_t flags;
	uint32_t limit; /* value of `remaining` for an unused key, including the grant */
	uint32_t remaining;
	uint32_t debt; /* units in use beyond the limit */
	uint64_t retry_after_ns;
	uint64_t reset_after_ns;
	uint64_t delay_ns;
	uint64_t decided_us; /* time of the decision by the central store's clock */
	/* Number of tokens that were given back to the bucket before the decision. */
	uint64_t given;
};

_Static_assert(sizeof(struct wr_question_head) == 8, "as on the wire");
_Static_assert(sizeof(struct wr_question_item) == 152, "as on the wire");
_Static_assert(sizeof(struct wr_answer) == 56, "as on the wire");

#endif
