/* An ask: one request from weir_ask_init to weir_ask_done.
 *
 * Descriptors are matched and their keys are hashed when they are added, so an ask keeps no pointer
 * to the caller's data. Of a descriptor it keeps the rule, and a need for each limit that applies.
 * The decision uses needs alone. */
#ifndef WR_LIMITER_ASK_H
#define WR_LIMITER_ASK_H

#include "limiter/engine.h"
#include "rules/match.h"
#include "store/need.h"

#define WR_ASK_TEXT 4096 /* bytes for header fields */
#define WR_ASK_HEADERS 8
#define WR_ASK_MAGIC 0x6b736177

enum wr_ask_state {
	WR_ASK_OPEN,    /* descriptors may be added */
	WR_ASK_WAITING, /* for the central store */
	WR_ASK_DECIDED,
};

/* Whether a limit may refuse. */
enum wr_need_class {
	WR_ENFORCED,
	WR_QUOTA_CLASS, /* refuses only if all descriptors in quota mode are over their limit */
	WR_COUNTED,     /* never refuses: shadow mode, or the key is outside the `enforce` share */
};

/* Which part of weir decides a need. */
enum wr_need_state {
	WR_NEED_TABLE,   /* the table */
	WR_NEED_CENTRAL, /* the central store */
	WR_NEED_LEASED,  /* decided: units of a lease were spent */
	WR_NEED_DECIDED, /* decided otherwise: replaced, banned, or the store failed */
};

/* The message for the central store after the verdict. */
enum wr_need_message {
	WR_MESSAGE_NONE,
	WR_MESSAGE_RETURN, /* give the units back */
	WR_MESSAGE_REPORT, /* admitted by this node while the store was unavailable */
};

/* The numbers of a limit that shrink when it is divided among nodes. */
struct wr_limit_numbers {
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint64_t soft_for_ns;
};

struct wr_ask_need {
	struct wr_need need;
	const struct wr_limit *rule; /* NULL: an override */
	uint64_t fleet_key[2];       /* WR_NEED_CENTRAL: the key's hash under the fleet's secret */
	uint64_t decided_us;         /* when the store took the units, by its clock */
	struct wr_limit_numbers whole; /* `failed`: the limit before it was divided among nodes */
	uint32_t granted;     /* WR_NEED_CENTRAL: units an operator granted, in this table */
	uint32_t lease_grant; /* WR_NEED_LEASED: argument of wr_lease_unspend */
	uint32_t booked;  /* units charged to this node's counter, at the decision's charged_ns */
	int32_t exchange; /* eventual: its slot, or below 0, see store/exchange.h */
	uint32_t slot;    /* in the statistics */
	uint32_t track;   /* where its top keys are, see stats/history.h; 0: nowhere */
	uint32_t policy;  /* index into the generation's policies */
	uint8_t descriptor;
	uint8_t class;   /* enum wr_need_class */
	uint8_t part;    /* enum wr_need_state */
	uint8_t same_as; /* index of the need that takes for this need too, or its own index */
	uint8_t own;     /* index of its own copy of the limit */
	bool replaced;
	bool eventual;    /* decided in the table, and exchanged with other nodes */
	bool paused;      /* by an operator; `class` is then WR_COUNTED */
	bool taken;       /* from the table or the store, and not given back */
	bool failed;      /* the store did not answer */
	bool looked_at;   /* sampled for the top keys */
	uint8_t message;  /* enum wr_need_message */
	int64_t own_cost; /* before costs on one counter were added up */
};

struct wr_ask_descriptor {
	const struct wr_node *node; /* NULL: no rule, or an override */
	uint8_t outcome;            /* enum wr_outcome */
	uint8_t first_need;
	uint8_t need_count;
	bool override;
	bool has_text;            /* see wr_ask_sample */
	bool replaced;            /* an `unlimited` rule that another rule replaces */
	bool crowded;             /* its limits did not fit into the ask */
	bool certain;             /* every reading of the request makes it, see rules/http.h */
	uint16_t log_at, log_len; /* its text in log_text */
};

struct wr_ask_header {
	struct weir_str name; /* a constant */
	uint16_t value;       /* offset into text */
	uint16_t value_len;
};

struct weir_ask {
	uint32_t magic; /* WR_ASK_MAGIC between weir_ask_init and weir_ask_done */
	uint8_t shard;
	uint8_t state;   /* enum wr_ask_state */
	uint8_t verdict; /* enum weir_verdict, or 0 */
	uint8_t descriptor_count;
	uint8_t need_count;
	uint8_t own_count;
	uint8_t sibling; /* first need of the descriptors that one entry of `requests:` made */
	uint8_t header_count;
	bool allowed;    /* `requests:` exempts this request: no limit applies */
	bool denied;     /* by `missing: deny` */
	bool unreadable; /* the descriptors of the request cannot be determined */
	bool crowded;    /* it has more descriptors or limits than fit */
	bool cancelled;
	bool has_replaces;
	bool has_calendar;
	bool waited;        /* for the central store */
	bool timed;         /* the host should report the latency */
	bool no_secret;     /* the fleet's secret is not known, so the store cannot be asked */
	bool plain;         /* every need is enforced, decided in the table, and costs something */
	bool leased;        /* every need is enforced, may be leased, and costs something */
	bool leases;        /* some need may be leased */
	bool eventual;      /* some need is eventual */
	bool is_delivery;   /* of a deferred request */
	bool no_defer;      /* the host cannot queue the request */
	bool gives_back;    /* a descriptor has negative hits */
	bool counted;       /* in the statistics */
	bool unrecorded;    /* a part of the request could not be recorded */
	uint8_t defer_need; /* 1 + index of the need that names the queue; 0: no need defers */
	uint8_t defer_key[16];
	struct weir_engine *engine;
	struct wr_generation *generation;
	const struct wr_node *domain;       /* NULL: unknown */
	const struct wr_limit *crowding;    /* the first limit that did not fit, or NULL */
	const struct wr_ask_need *tightest; /* after the verdict; NULL: no limit is enforced */
	int64_t hits;
	uint64_t now_ns;  /* of the decision */
	uint64_t mono_ns; /* the same by CLOCK_BOOTTIME; 0: not read yet */
	uint64_t delay_ns;
	uint64_t retry_after_ns;
	uint64_t behind_ns; /* part of retry_after_ns: the wait for requests queued before it */
	char *log_text;     /* texts of descriptors, in the caller's memory, or NULL */
	uint16_t log_cap, log_len;
	const char *why_not; /* the reason why the host did not queue it, in a word */
	uint8_t *record;     /* descriptors as bytes, in the caller's memory, or NULL */
	size_t record_cap, record_len;
	struct wr_ask_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
	struct wr_ask_need needs[WEIR_NEEDS_MAX];
	struct weir_limit own[WEIR_NEEDS_MAX]; /* overrides, and limits with a calendar window */
	struct wr_ask_header headers[WR_ASK_HEADERS];
	char text[WR_ASK_TEXT]; /* before the verdict: texts of keys, see wr_ask_sample */
};

_Static_assert(sizeof(struct weir_ask) <= WEIR_ASK_BYTES, "an ask fits into WEIR_ASK_BYTES");

/* False for a pointer from outside that is not an ask in progress. */
static inline bool wr_ask_ok(const struct weir_ask *ask)
{
	return ask && ask->magic == WR_ASK_MAGIC;
}

/* The decision on a need. Costs on one counter are taken by the first need that names it. */
static inline const struct weir_decision *wr_need_decision(const struct weir_ask *ask,
							   const struct wr_ask_need *need)
{
	return &ask->needs[need->same_as].need.decision;
}

/* Whether the question to the central store contains the need. Units are given back to the store
 * after the verdict instead. */
static inline bool wr_need_is_asked(const struct wr_ask_need *need)
{
	return need->part == WR_NEED_CENTRAL && need->need.cost >= 0;
}

/* prepare.c: sets the window that contains now_ns in limits with a calendar. */
void wr_ask_open_windows(struct weir_ask *ask);

/* prepare.c: the steps before any need is decided: pauses, `replaces`, windows, equal counters. */
void wr_ask_prepare(struct weir_ask *ask);

/* pause.c: whether an operator paused the need's rule. `pausing` is wr_pause_state() and not 0. */
bool wr_need_is_paused(const struct weir_ask *ask, const struct wr_ask_need *need,
		       unsigned pausing);

/* decide.c: decides the needs of the table, after the central store has answered or if it need not
 * be asked. Returns the verdict. */
int wr_ask_decide_rest(struct weir_ask *ask);

/* question.c: marks the units that the store granted to be given back. */
void wr_ask_return_to_central(struct weir_ask *ask);

/* exchange.c, before the decision, if ask->eventual: finds or claims the slots of eventual needs. A
 * need that was not exchanged for too long is decided by the rule's on_store_failure. */
void wr_ask_exchange_begin(struct weir_ask *ask);

/* exchange.c, after an admission: counts what was taken and given back for the other nodes. */
void wr_ask_exchange_note(struct weir_ask *ask);

/* exchange.c: `returned` units of the need's take were given back. */
void wr_need_exchange_undo(struct weir_ask *ask, struct wr_ask_need *need, uint64_t returned);

/* result.c: sets verdict, waits and statistics from the decisions on the needs. Returns the
 * verdict. */
int wr_ask_set_verdict(struct weir_ask *ask, bool admitted);

/* status.c: the tightest limit that is enforced, or NULL. */
const struct wr_ask_need *wr_ask_find_tightest(const struct weir_ask *ask);

/* count.c: writes the statistics. */
void wr_ask_count(struct weir_ask *ask, bool admitted);

/* count.c: whether the latency of this thread's next decision will be wanted. For hosts that read
 * no clock otherwise. */
bool wr_ask_wants_latency_next(const struct weir_ask *ask);

#endif
