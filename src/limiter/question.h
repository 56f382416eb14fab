/* The format of messages between an ask and the central store: little endian, without padding.
 *
 *   question   head · { item · id }*    TAKE gets an answer. The other kinds are carried out once
 * and get no answer. answer     head · { answer }*       one struct wr_answer per item, in the same
 * order
 *
 * key and id name the counter. The key is the hash of domain and entries under the fleet's secret.
 * The id is wr_limit.id, for example "fixed_window/1m". An id of more than WR_QUESTION_ID bytes is
 * cut and ends in a hash of the whole id. The store takes from all items with the same key and
 * group or from none of them. If another item refuses, the units are given back by a RETURN. */
#ifndef WR_LIMITER_QUESTION_H
#define WR_LIMITER_QUESTION_H

#include <stdint.h>

#include <weir/host.h>

#define WR_QUESTION_VERSION 2u
#define WR_QUESTION_ID 128u

enum wr_question_kind {
	WR_QUESTION_TAKE = 1,   /* decide */
	WR_QUESTION_RETURN = 2, /* give back units of a TAKE, or the negative cost of a request */
	WR_QUESTION_ANSWER = 3,
	WR_QUESTION_REPORT = 4, /* admitted by this node while the store was unavailable */
	WR_QUESTION_RESET = 5,  /* an operator's reset of the counters; costs are 0 */
	WR_QUESTION_LATE = 6,   /* takes whose answer came after a timeout */
};

struct wr_question_head {
	uint8_t version;
	uint8_t kind;
	uint16_t count;
	uint32_t bytes; /* of the message, with the head */
};

struct wr_question_item {
	uint16_t bytes; /* of the item, with the id */
	uint8_t algorithm;
	uint8_t consistency; /* enum wr_consistency */
	uint16_t flags;      /* enum weir_limit_flags */
	uint16_t id_len;
	uint64_t key[2];
	uint64_t tag; /* the key in this node's table, for its leases */
	int64_t cost; /* RETURN: negative; REPORT, LATE: positive */
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint64_t period_ns;
	uint64_t max_wait_ns;
	uint64_t soft_for_ns;
	uint64_t window_start_ns; /* calendar windows; otherwise both 0 */
	uint64_t window_end_ns;
	/* The start of the previous window and the end of the next window. If the store's clock is
	 * in one of them, that window counts. */
	uint64_t window_before_ns;
	uint64_t window_after_ns;
	/* When the units were taken. RETURN, LATE: decided_us of the answer, by the store's clock.
	 * RETURN with 0: a request with a negative cost, without a known take. REPORT: by this
	 * node's clock. TAKE: 0. */
	uint64_t decided_us;
	/* RETURN, LATE: delay_ns of the answer. It identifies the position in a leaky bucket, which
	 * leaves at decided_us + delay_ns. Otherwise 0. */
	uint64_t delay_ns;
	uint32_t granted; /* units that an operator granted beyond the limit */
	/* TAKE: items with the same key and group are taken together or not at all. 0: enforced
	 * limits. A limit that is only counted has its own group, so that it refuses nothing. */
	uint32_t group;
};

enum wr_answer_flags {
	WR_ANSWER_ADMITTED = 1,
	WR_ANSWER_SOFT = 2,
	WR_ANSWER_FAILED = 4,    /* not decided: the rule's on_store_failure applies */
	WR_ANSWER_NOT_TAKEN = 8, /* admitted, but another limit of the same key refused: nothing was
				    taken */
	WR_ANSWER_ALL = 15,
};

struct wr_answer {
	uint32_t flags;
	uint32_t limit; /* the value that `remaining` starts from, with `granted` */
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
