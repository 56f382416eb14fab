/* An ask: one request from weir_ask_init to weir_ask_done.
 *
 * When a descriptor is added, its rule is found and its key is hashed, so the ask keeps no pointer
 * to the descriptor's entries. For each descriptor the ask stores the rule, and one need for each
 * limit that applies. A need has a limit, a key and a cost, which is the number of units that the
 * request takes from the counter. The decision uses only the needs. */
#ifndef WR_LIMITER_ASK_H
#define WR_LIMITER_ASK_H

#include "limiter/engine.h"
#include "rules/match.h"
#include "rules/requests.h"
#include "store/need.h"

#define WR_ASK_TEXT 4096       /* number of bytes for the values of header fields */
#define WR_ASK_ENTRIES_AT 2112 /* offset of the entries behind the texts of keys */
#define WR_ASK_HEADERS 8
#define WR_ASK_MAGIC 0x6b736177

enum wr_ask_state {
	WR_ASK_OPEN,    /* descriptors can be added */
	WR_ASK_WAITING, /* the ask waits for an answer of the central store */
	WR_ASK_DECIDED,
};

/* The class of a need: whether its limit can refuse the request. */
enum wr_ask_need_class {
	WR_ENFORCED,
	/* The quotas refuse the request only if each descriptor with quotas has an exhausted
	 * quota. */
	WR_QUOTA_CLASS,
	WR_COUNTED, /* never refuses: shadow mode, paused, or `enforce` excludes the key */
};

/* Which part of weir decides a need. */
enum wr_decided_by {
	WR_NEED_TABLE,   /* the table */
	WR_NEED_CENTRAL, /* the central store */
	WR_NEED_LEASED,  /* already decided by spending units of a lease */
	WR_NEED_DECIDED, /* decided without taking units: by a ban or `replaces`, for example */
};

/* The message about a need that is sent to the central store after the verdict. */
enum wr_ask_need_message {
	WR_MESSAGE_NONE,
	WR_MESSAGE_RETURN, /* gives the units back */
	/* Reports units that were admitted while the central store was unavailable. */
	WR_MESSAGE_REPORT,
	WR_MESSAGE_OWE, /* charges units that were used beyond the reservation */
};

/* The fields of struct weir_limit that change when a limit is divided among nodes. */
struct wr_limiter_limit_numbers {
	uint32_t limit;
	uint32_t burst;
	uint32_t queue_size;
	uint32_t soft_ceiling;
	uint64_t soft_for_ns;
};

struct wr_ask_need {
	struct wr_need need;
	const struct wr_rules_limit *rule; /* NULL: the limit came with the request */
	uint64_t fleet_key[2]; /* with WR_NEED_CENTRAL: the key, hashed with the fleet's secret */
	/* When the central store took the units, by its own clock. With WR_NEED_LEASED: when it
	 * granted them, or 0 if that is not known. */
	uint64_t decided_us;
	/* For a token bucket whose units may be settled: the count of tokens that were given back
	 * before the take, from the answer of the central store or from the table
	 * (store/returned.h). 0: not known. */
	uint64_t given;
	/* Units of a token bucket that were in use after the central store took units, or after the
	 * take of a restored need. 0: unknown. */
	uint32_t used;
	/* If `failed`: the amounts of the whole limit, before it was divided among nodes. */
	struct wr_limiter_limit_numbers whole;
	/* With WR_NEED_CENTRAL and WR_NEED_LEASED: units that an operator granted in this table. */
	uint32_t granted;
	/* With WR_NEED_LEASED: the number that wr_store_lease_unspend needs to give the units back.
	 * */
	uint32_t lease_grant;
	/* Number of units that were added to this node's own counter of the limit (share.c). The
	 * decision's charged_ns is the time at which they were added. */
	uint32_t booked;
	/* If `eventual`: the number of the exchange slot (store/exchange.h); below 0: no slot. */
	int32_t exchange;
	uint32_t slot; /* slot of the limit in the statistics */
	/* The track of the limit (stats/history.h), which tells where its top keys are counted. 0:
	 * the limit has no top keys. */
	uint32_t track;
	uint32_t policy; /* index of the limit in the generation's policies */
	uint8_t descriptor;
	uint8_t class;      /* enum wr_ask_need_class */
	uint8_t decided_by; /* enum wr_decided_by */
	/* Index of the need that takes the units for this need; usually its own index. */
	uint8_t same_as;
	/* If the need has its own copy of the limit: the index of the copy in ask->own. */
	uint8_t own;
	bool replaced;
	/* The need is decided in the table, and its units are exchanged with other nodes. */
	bool eventual;
	bool paused;    /* an operator paused the rule; `class` is then WR_COUNTED */
	bool taken;     /* units are taken (table or central store) and not given back */
	bool failed;    /* the rule's on_store_failure was applied to the need */
	bool looked_at; /* the need is in the sample for the top keys */
	/* The request is counted here, even if its cost at arrival is 0. False if the host only
	 * asks whether the request would be admitted, and for a repeated reading of the request. */
	bool counts;
	uint8_t message; /* enum wr_ask_need_message */
	/* One bit for each candidate of the rule that admitted the request. */
	uint8_t candidates;
	/* Cost of this need alone; need.cost may include the costs of other needs on the same
	 * counter. */
	int64_t own_cost;
	/* Units in the message to the central store. 0: need.cost. */
	int64_t message_cost;
};

struct wr_ask_descriptor {
	/* The entry of `requests:` that made the descriptor, or NULL. */
	const struct wr_rules_request *request;
	const struct wr_node *node; /* the rule; NULL: no rule matches, or there is an override */
	uint8_t outcome;            /* enum wr_outcome */
	uint8_t first_need;
	uint8_t need_count;
	bool override;
	bool has_text;       /* wr_ask_sample copied the text of the key */
	bool replaced;       /* the rule is `unlimited`, and another rule replaces it */
	bool crowded;        /* the limits of the descriptor did not fit into the ask */
	uint8_t cost_note;   /* enum wr_cost_note: how the cost at arrival was found */
	uint8_t actual_note; /* enum wr_cost_note: how the actual cost was found */
	bool certain; /* every reading of the request makes this descriptor, see rules/http.h */
	uint16_t log_at, log_len; /* offset and length of the descriptor's text in log_text */
};

struct wr_ask_header {
	struct weir_str name; /* points to a constant */
	uint16_t value;       /* offset of the value in ask->text */
	uint16_t value_len;
};

/* How a need was settled. */
struct wr_ask_settlement {
	const struct wr_ask_need *need;
	uint64_t charged;  /* units charged at arrival */
	uint64_t actual;   /* units used */
	uint64_t returned; /* units given back */
	uint64_t owed;     /* units charged at settling, beyond those charged at arrival */
};

struct weir_ask {
	uint32_t magic; /* WR_ASK_MAGIC between weir_ask_init and weir_ask_done */
	uint8_t shard;
	uint8_t state;   /* enum wr_ask_state */
	uint8_t verdict; /* enum weir_verdict, or 0 */
	uint8_t descriptor_count;
	uint8_t need_count;
	uint8_t own_count;
	uint8_t sibling; /* index of the first need made by the current entry of `requests:` */
	uint8_t header_count;
	bool allowed;    /* `requests:` exempts this request: no limit applies */
	bool denied;     /* `missing: deny` refuses this request */
	bool unreadable; /* the descriptors of the request cannot be determined */
	/* The request has more descriptors or limits than fit into the ask, so it is refused. */
	bool crowded;
	bool cancelled;
	bool has_replaces;
	bool has_calendar;
	bool waited;    /* the ask waited for the central store */
	bool timed;     /* the host should report the latency */
	bool no_secret; /* the fleet's secret is unknown, so the central store cannot be asked */
	bool plain;    /* every need is enforced, is decided in the table, and has a cost above 0 */
	bool leased;   /* every need is enforced, can be leased, and has a cost above 0 */
	bool leases;   /* some need can be leased */
	bool eventual; /* some need has a limit with consistency `eventual` */
	bool is_delivery; /* the ask is the delivery of a deferred request */
	bool no_defer;    /* the host cannot queue the request */
	bool dry_run;     /* the host serves the request even if it is refused */
	bool gives_back;  /* a descriptor has negative hits */
	bool counted;     /* the request was counted in the statistics */
	bool settles;     /* some need can be settled after the response */
	bool settled;
	bool reserves;   /* the ask becomes a reservation (reservation.h) */
	bool unrecorded; /* a part of the request could not be recorded */
	/* 1 + index of the need whose limit can defer the request. A deferred request waits in the
	 * queue of this need's key. 0: no limit can defer the request. */
	uint8_t defer_need;
	uint8_t defer_key[16];
	int64_t actual; /* valid if settled: the largest actual cost of a descriptor */
	struct weir_engine *engine;
	struct wr_generation *generation;
	const struct wr_node *domain; /* NULL: the rules have no such domain */
	/* The entry of `requests:` whose descriptors are being added, if it has a `cost` or a
	 * `count`; otherwise NULL. */
	const struct wr_rules_request *request;
	bool asks_only; /* the descriptors being added have hits 0 */
	/* The first limit that did not fit into the ask, or NULL. */
	const struct wr_rules_limit *crowding;
	/* Need of the tightest enforced limit, set by the verdict. NULL: no limit is enforced. */
	const struct wr_ask_need *tightest;
	int64_t hits;
	/* The settled need that the decision log shows: the need whose counter was changed by the
	 * most units, slots excepted. settlement.need is NULL if no need with a cost was
	 * settled. */
	struct wr_ask_settlement settlement;
	/* When the units were taken that negative costs give back: 0 if it was not set, or
	 * WEIR_TAKEN_UNKNOWN. */
	uint64_t taken_ns;
	/* The largest numbers of units that settling gave back to a limit, and charged as debt. */
	uint64_t returned, owed;
	uint64_t now_ns;  /* time of the decision */
	uint64_t mono_ns; /* time of the decision by CLOCK_BOOTTIME; 0: not read yet */
	uint64_t delay_ns;
	uint64_t retry_after_ns;
	/* Part of retry_after_ns: the time that the limit needs to admit the requests queued
	 * earlier. */
	uint64_t behind_ns;
	char *log_text; /* texts of descriptors, in the caller's memory, or NULL */
	uint16_t log_cap, log_len;
	bool bans;            /* some need has a limit with `ban` */
	uint16_t entries_len; /* length of the entries in `text` */
	const char *why_not;  /* the reason, in one word, why the host did not queue the request */
	uint8_t *record;      /* descriptors as bytes, in the caller's memory, or NULL */
	size_t record_cap, record_len;
	struct wr_ask_descriptor descriptors[WEIR_DESCRIPTORS_MAX];
	struct wr_ask_need needs[WEIR_NEEDS_MAX];
	/* Copies of limits: overrides, limits with a calendar window, and shares of limits. */
	struct weir_limit own[WEIR_NEEDS_MAX];
	struct wr_ask_header headers[WR_ASK_HEADERS];
	/* Until the verdict: texts of keys, copied by wr_ask_sample, and from WR_ASK_ENTRIES_AT the
	 * entries of descriptors with `ban`, kept for the order of a ban (ban_write.c). After the
	 * verdict: values of header fields. */
	char text[WR_ASK_TEXT];
};

_Static_assert(sizeof(struct weir_ask) <= WEIR_ASK_BYTES, "an ask fits into WEIR_ASK_BYTES");

/* Returns whether a pointer passed in by the host is an ask between weir_ask_init and
 * weir_ask_done. */
static inline bool wr_ask_ok(const struct weir_ask *ask)
{
	return ask && ask->magic == WR_ASK_MAGIC;
}

/* Returns the decision on a need. If several needs name the same counter, the first of these needs
 * takes all their costs and has the decision. */
static inline const struct weir_decision *wr_ask_need_decision(const struct weir_ask *ask,
							       const struct wr_ask_need *need)
{
	return &ask->needs[need->same_as].need.decision;
}

/* Returns whether the question to the central store contains the need. A need with a negative cost
 * is not in the question, because units are given back to the central store after the verdict. */
static inline bool wr_ask_need_is_asked(const struct wr_ask_need *need)
{
	return need->decided_by == WR_NEED_CENTRAL && need->need.cost >= 0;
}

/* Returns whether the need takes a slot of a limit on concurrent requests. */
static inline bool wr_ask_need_is_slot(const struct wr_ask_need *need)
{
	return need->need.limit->algorithm == WEIR_CONCURRENT;
}

/* Returns whether the request has taken the cost of the need, perhaps together with other needs on
 * the same counter. */
static inline bool wr_ask_need_is_taken(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	return ask->needs[need->same_as].taken && need->counts;
}

/* prepare.c: sets the windows of limits with a calendar window. The window of such a limit is then
 * the day, month or other calendar period that contains ask->now_ns. */
void wr_ask_open_windows(struct weir_ask *ask);

/* prepare.c: prepares the needs before any need is decided: applies pauses and `replaces`, sets
 * calendar windows, and joins needs on the same counter. */
void wr_ask_prepare(struct weir_ask *ask);

/* pause.c: returns whether an operator paused the need's rule. `pausing` is the value of
 * wr_pause_state() and must not be 0. */
bool wr_ask_need_is_paused(const struct weir_ask *ask, const struct wr_ask_need *need,
			   unsigned pausing);

/* decide.c: decides the needs whose counters are in the table. Called when the central store has
 * answered or failed, or if it need not be asked. Returns the verdict. */
int wr_ask_decide_rest(struct weir_ask *ask);

/* question.c: marks the needs whose units the central store took, so that weir_ask_question writes
 * a message that gives the units back. */
void wr_ask_return_to_central(struct weir_ask *ask);

/* exchange.c: finds or claims the exchange slots of needs with `eventual`. Called before the
 * decision if ask->eventual. If the latest exchange of a slot is too long ago, the rule's
 * on_store_failure is applied to the need. */
void wr_ask_exchange_begin(struct weir_ask *ask);

/* exchange.c: counts the units that the ask took and gave back, so that the exchange reports them
 * to other nodes. Called after an admission. */
void wr_ask_exchange_note(struct weir_ask *ask);

/* exchange.c: counts `returned` units as given back, so that the exchange reports them to other
 * nodes. Called after these units of the need were given back. */
void wr_ask_need_exchange_undo(struct weir_ask *ask, struct wr_ask_need *need, uint64_t returned);

/* exchange.c: counts units that settling has given back or charged, so that the exchange reports
 * them to other nodes. */
void wr_ask_need_exchange_settle(struct weir_ask *ask, struct wr_ask_need *need, uint64_t returned,
				 uint64_t owed);

/* result.c: sets the verdict and the waits from the decisions on the needs, and counts the request
 * in the statistics. Returns the verdict. */
int wr_ask_set_verdict(struct weir_ask *ask, bool admitted);

/* status.c: returns the need of the tightest enforced limit, or NULL. */
const struct wr_ask_need *wr_ask_find_tightest(const struct weir_ask *ask);

/* count.c: counts the decision in the statistics. */
void wr_ask_count(struct weir_ask *ask, bool admitted);

/* count.c: returns whether the host should report the latency of this thread's next decision. A
 * host that calls this function can skip reading the clock if the result is false. */
bool wr_ask_wants_latency_next(const struct weir_ask *ask);

#endif
