/* What an ask and a central store say to each other: fields in the order of the machine, little
 * endian, without padding.
 *
 *   question  head · { item · id }*     TAKE is answered; the others are carried out once and are
 * not answer    head · { verdict }*       one for each item, in the same order
 *
 * key and id name the counter: the hash of domain and entries under the fleet's secret, and
 * "fixed_window/1m" as wr_limit.id has it. An id of more than WR_QUESTION_ID bytes is cut and ends
 * in a hash of the whole. A store takes from each item for itself, or from all items of a key or
 * none; what has to be undone because another one refused comes as a question of kind RETURN. */
#ifndef WR_LIMITER_QUESTION_H
#define WR_LIMITER_QUESTION_H

#include <stdint.h>

#include <weir/host.h>

#define WR_QUESTION_VERSION 2u
#define WR_QUESTION_ID 128u

enum wr_question_kind {
	WR_QUESTION_TAKE = 1,   /* decide */
	WR_QUESTION_RETURN = 2, /* give back what a TAKE took, or what the request returns */
	WR_QUESTION_ANSWER = 3,
	WR_QUESTION_REPORT = 4, /* admitted by this node alone while the store was away */
	WR_QUESTION_RESET = 5,  /* an operator's reset: forget the counters; costs are 0 */
	WR_QUESTION_LATE = 6,   /* takes whose answer came after the asker had given up */
};

struct wr_question_head {
	uint8_t version;
	uint8_t kind;
	uint16_t count;
	uint32_t bytes; /* head included */
};

struct wr_question_item {
	uint16_t bytes; /* id included */
	uint8_t algorithm;
	uint8_t consistency; /* enum wr_consistency */
	uint16_t flags;      /* enum weir_limit_flags */
	uint16_t id_len;
	uint64_t key[2];
	uint64_t tag; /* the key in this node's table: where a lease of it is spent from */
	int64_t cost; /* RETURN: below 0; REPORT, LATE: above 0 */
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint64_t period_ns;
	uint64_t max_wait_ns;
	uint64_t soft_for_ns;
	uint64_t window_start_ns; /* calendar windows; both 0 otherwise */
	uint64_t window_end_ns;
	/* … the beginning of the window before it and the end of the one after it: the store's
	 * clock may be there, and then that window counts. */
	uint64_t window_before_ns;
	uint64_t window_after_ns;
	/* When it was taken. RETURN, LATE: as the answer said, by the store's clock; RETURN with 0:
	 * the request gives back by itself what was taken at some time. REPORT: by this node's
	 * clock. TAKE: 0. */
	uint64_t decided_us;
	/* RETURN, LATE: what the answer said, so that a leaky bucket knows the place: it leaves at
	 * decided_us + this. 0 otherwise. */
	uint64_t delay_ns;
	uint32_t granted; /* what an operator granted beyond the limit, at this moment */
	/* TAKE: items with the same key and group are taken together or not at all. 0: enforced
	 * ones. What is only counted has a group of its own, for it must not hold others up. */
	uint32_t group;
};

enum wr_answer_flags {
	WR_ANSWER_ADMITTED = 1,
	WR_ANSWER_SOFT = 2,
	WR_ANSWER_FAILED = 4,    /* nobody could say: the rule's on_store_failure decides */
	WR_ANSWER_NOT_TAKEN = 8, /* admitted, but another limit of the same key refused: nothing was
				    taken, and nothing is to be given back */
	WR_ANSWER_ALL = 15,
};

struct wr_answer {
	uint32_t flags;
	uint32_t limit; /* what remaining counts down from, `granted` included */
	uint32_t remaining;
	uint32_t reserved;
	uint64_t retry_after_ns;
	uint64_t reset_after_ns;
	uint64_t delay_ns;
	uint64_t decided_us; /* by the store's clock */
};

_Static_assert(sizeof(struct wr_question_head) == 8, "as on the wire");
_Static_assert(sizeof(struct wr_question_item) == 136, "as on the wire");
_Static_assert(sizeof(struct wr_answer) == 48, "as on the wire");

#endif
