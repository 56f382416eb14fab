/* A request on its way to a decision.
 *
 * Descriptors are matched and their keys hashed when they are added, so nothing of the caller's is
 * kept: what is left of a descriptor is its rule and a need for each limit that applies. Deciding
 * is then about needs alone. */
#ifndef WR_LIMITER_ASK_H
#define WR_LIMITER_ASK_H

#include "limiter/engine.h"
#include "rules/match.h"
#include "store/need.h"

#define WR_ASK_TEXT 4096 /* for header fields */
#define WR_ASK_HEADERS 8
#define WR_ASK_MAGIC 0x6b736177

enum wr_ask_state {
	WR_ASK_OPEN,    /* descriptors may be added */
	WR_ASK_WAITING, /* for the central store */
	WR_ASK_DECIDED,
};

/* Whether a limit may refuse. */
enum wr_class {
	WR_ENFORCED,
	WR_QUOTA_CLASS, /* only together with all other descriptors in quota mode */
	WR_COUNTED,     /* never: shadow mode, or the key is outside the `enforce` share */
};

/* Who decides a need, and what has been done about it. */
enum wr_part {
	WR_HERE,    /* the table */
	WR_THERE,   /* the central store */
	WR_SPENT,   /* units of a lease, which the store handed over before */
	WR_NOWHERE, /* decided already: replaced, or the store failed */
};

/* What the store is to be told after the verdict. */
enum wr_tell {
	WR_TELL_NOTHING,
	WR_TELL_RETURN,
	WR_TELL_REPORT,
};

/* What makes a limit large or small. */
struct wr_numbers {
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint64_t soft_for_ns;
};

struct wr_ask_need {
	struct wr_need need;
	const struct wr_limit *rule; /* NULL: an override */
	uint64_t fleet_key[2];       /* part WR_THERE: the key's hash under the fleet's secret */
	uint64_t decided_us;         /* when the store took, by its clock */
	struct wr_numbers whole;     /* decided here for want of the store: before it was shared */
	uint32_t granted;            /* part WR_THERE: by an operator, in this table */
	uint32_t lease_grant;        /* part WR_SPENT: what giving back needs, store/lease.h */
	uint32_t booked;  /* taken by the store: how much was charged to this node's own use, at the
			     decision's charged_ns */
	int32_t exchange; /* eventual: its slot, or below 0, see store/exchange.h */
	uint32_t slot;    /* in the statistics */
	uint32_t track;   /* where its top keys are, see stats/history.h; 0: nowhere */
	uint32_t said;    /* what header fields say of the rule: its number there */
	uint8_t descriptor;
	uint8_t class;   /* enum wr_class */
	uint8_t part;    /* enum wr_part */
	uint8_t same_as; /* need that takes for this one too, or its own number */
	uint8_t own;     /* number of its own copy of the limit */
	bool replaced;
	bool eventual;    /* counted here, and told to other nodes */
	bool paused;      /* by an operator: class is WR_COUNTED for that */
	bool taken;       /* from the table or the store, and not given back */
	bool failed;      /* the store did not answer */
	bool looked_at;   /* for the top keys */
	uint8_t tell;     /* enum wr_tell: what the next question says of it */
	int64_t own_cost; /* before costs on one counter were added up */
};

struct wr_ask_descriptor {
	const struct wr_node *node; /* NULL: no rule, or an override */
	uint8_t outcome;            /* enum wr_outcome */
	uint8_t first_need;
	uint8_t need_count;
	bool override;
	bool has_text;              /* see wr_ask_sample */
	bool replaced;              /* an `unlimited` rule that another one put out of force */
	bool crowded;               /* its limits found no room */
	bool certain;               /* every reading of the request makes it, see rules/http.h */
	uint16_t kept_at, kept_len; /* its text in what is kept */
};

struct wr_ask_header {
	struct weir_str name; /* a constant */
	uint16_t value;       /* offset into text */
	uint16_t value_len;
};

struct weir_ask {
	uint32_t magic;
	uint8_t shard;
	uint8_t state;   /* enum wr_ask_state */
	uint8_t verdict; /* enum weir_verdict, or 0 */
	uint8_t descriptor_count;
	uint8_t need_count;
	uint8_t own_count;
	uint8_t sibling; /* first need of the descriptors that one entry of `requests:` made */
	uint8_t header_count;
	bool allowed;    /* by `requests:`: nothing limits this */
	bool denied;     /* by `missing: deny` */
	bool unreadable; /* it cannot be told whose counters it is for */
	bool crowded;    /* it has more descriptors or limits than can be counted */
	bool cancelled;
	bool has_replaces;
	bool has_calendar;
	bool waited;       /* for the central store */
	bool timed;        /* one of those whose host is asked how long it took */
	bool strayed;      /* the fleet's secret is not known: nobody can be asked */
	bool plain;        /* every need is enforced, here, and costs something */
	bool leased;       /* every need is enforced, may be leased, and costs something */
	bool leases;       /* some need may be */
	bool eventual;     /* some need is counted by exchanges */
	bool drains;       /* it was put off before and is to be delivered now */
	bool stays;        /* it can not be put off */
	bool gives_back;   /* a descriptor has hits below 0 */
	bool counted;      /* in the statistics */
	bool unrecorded;   /* some of it could not be recorded */
	uint8_t deferring; /* 1 + the need that says how it is put off; 0: none does */
	uint8_t defer_key[16];
	struct weir_engine *engine;
	struct wr_generation *generation;
	const struct wr_node *domain;    /* NULL: unknown */
	const struct wr_limit *crowding; /* the first limit that found no room, or NULL */
	int64_t hits;
	uint64_t now_ns;  /* of the decision */
	uint64_t mono_ns; /* … by the clock of leases; 0: not read yet */
	uint64_t delay_ns;
	uint64_t retry_after_ns;
	uint64_t behind_ns; /* … of which for those that were put off before it */
	char *kept; /* texts of descriptors, in the caller's memory; NULL: they are not kept */
	uint16_t kept_cap, kept_len;
	const char *why_not; /* it was not put off: why, in a word */
	uint8_t *
		record; /* descriptors as bytes, in the caller's memory; NULL: nobody puts it off */
	size_t record_cap, record_len;
	struct wr_ask_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
	struct wr_ask_need needs[WEIR_NEEDS_MAX];
	struct weir_limit own[WEIR_NEEDS_MAX]; /* overrides, and limits with a calendar's window */
	struct wr_ask_header headers[WR_ASK_HEADERS];
	char text[WR_ASK_TEXT]; /* before the verdict: texts of keys, see wr_ask_sample */
};

_Static_assert(sizeof(struct weir_ask) <= WEIR_ASK_BYTES, "WEIR_ASK_BYTES is enough");

static inline bool wr_ask_ok(const struct weir_ask *ask)
{
	return ask && ask->magic == WR_ASK_MAGIC;
}

/* What a need was told: costs on one counter are taken by the first who named it. */
static inline const struct weir_decision *wr_ask_decision(const struct weir_ask *ask,
							  const struct wr_ask_need *need)
{
	return &ask->needs[need->same_as].need.decision;
}

/* Whether the central store decides it. What only gives back goes there once all is decided. */
static inline bool wr_ask_is_asked(const struct wr_ask_need *need)
{
	return need->part == WR_THERE && need->need.cost >= 0;
}

/* arrange.c: puts the windows that hold now_ns into limits with a calendar. */
void wr_ask_open_windows(struct weir_ask *ask);

/* arrange.c: what has to be known of the needs before any is decided. */
void wr_ask_arrange(struct weir_ask *ask);

/* pause.c: whether an operator paused what this need is counted under. `pausing` is not 0. */
bool wr_ask_is_paused(const struct weir_ask *ask, const struct wr_ask_need *need, unsigned pausing);

/* decide.c: the central store has spoken, or there is none. Returns the verdict. */
int wr_ask_settle(struct weir_ask *ask);

/* question.c: notes that what the store granted is to be given back. */
void wr_ask_return_central(struct weir_ask *ask);

/* result.c: verdict, waits and statistics from the needs' decisions. Returns the verdict. */
int wr_ask_conclude(struct weir_ask *ask, bool admitted);

/* count.c: the statistics of it. */
void wr_ask_count(struct weir_ask *ask, bool admitted);

/* count.c: whether the next decision of this thread will be one of those that are timed: for hosts
 * that read no clock otherwise. */
bool wr_ask_timed_next(const struct weir_ask *ask);

#endif
