/* The engine: rules and a table, and requests decided by them.
 *
 *   struct weir_engine *engine;
 *   char memory[WEIR_ASK_BYTES];               // aligned for any object
 *   struct weir_ask *ask;
 *
 *   weir_engine_new(table, rules, NULL, &engine);
 *
 *   weir_ask_init(memory, sizeof memory, engine, domain, &ask);
 *   weir_ask_http(ask, &view);                 // descriptors by `requests:`, or weir_ask_add each
 *   switch (weir_ask_decide(ask, now_ns)) {
 *   case WEIR_ADMIT:   pass it on
 *   case WEIR_DELAY:   pass it on after result.delay_ns
 *   case WEIR_REFUSE:  answer result.http_status, weir_ask_header …, weir_ask_body
 *   case WEIR_DEFER:   keep it and answer 202, or take it for a refusal
 *   case WEIR_WAIT:    see below
 *   }
 *   weir_ask_done(ask);
 *
 * WHAT IT PROMISES
 *   All or none  A request takes from every limit that is enforced for it or from none. Limits in
 *                shadow or quota mode are counted when the others admit. A counter that is named
 *                twice is one take of the summed cost.
 *   Rules        A request is decided by the rules of the moment it began, whatever is loaded
 *                meanwhile; they are freed when no request holds them any more.
 *   Memory       Deciding allocates nothing and reads no clock. An ask lives in the caller's memory
 *                and stays where it is.
 *   Threads      Any number may ask one engine at once. One ask belongs to one thread at a time.
 *   Fork         A child may go on asking the engine it inherited. Start weir_watch_start after the
 *                fork: threads do not come along, and a lock one holds would stay held.
 *
 * WAITING
 *   A rule whose `consistency` is not `local` is decided by a central store if the engine was told
 *   that there is one (WEIR_ENGINE_CENTRAL). weir_ask_decide then says WEIR_WAIT; weir_ask_question
 *   gives the bytes to ask, and weir_ask_answer or weir_ask_store_failed the verdict. After any
 *   other verdict weir_ask_question gives what the store has to be told, to be sent once and not
 *   answered, until it gives nothing; usually that is at once: what has to be given back, and what
 *   was admitted while the store was away.
 */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include <weir/algo.h>
#include <weir/error.h>
#include <weir/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_opts;
struct weir_table;
struct weir_engine;
struct weir_ask;

#define WEIR_DESCRIPTORS_MAX 32 /* of one ask */
#define WEIR_ASK_BYTES 25600    /* enough memory for an ask; weir_ask_size is what it needs */

/* ---- engine ---- */

enum weir_engine_flags {
	WEIR_ENGINE_CENTRAL =
		1, /* there is a central store: rules that are not local wait for it */
	WEIR_ENGINE_NO_STATS = 2, /* decides and counts nothing in the statistics: trial runs */
};

/* What top keys (weir/stats.h) may show of clients: keys may be personal data. */
enum weir_engine_keys {
	WEIR_KEYS_TEXT,   /* 64 bytes of the first ones */
	WEIR_KEYS_HASHED, /* hashes under the table's secret */
	WEIR_KEYS_HIDDEN, /* none are kept */
};

struct weir_engine_opts {
	uint32_t size;  /* sizeof(struct weir_engine_opts) */
	uint32_t flags; /* enum weir_engine_flags */
	/* Keys the hashes in questions to the central store: 192 bytes that all nodes have alike.
	 * NULL: not known yet, see weir_engine_fleet. */
	const uint8_t *fleet_secret;
	uint64_t now_ns; /* when the first rules came into force */
	/* Admitted above so much of a limit counts as near_limit in statistics; 0 means 80. */
	uint32_t near_percent;
	uint32_t keys; /* enum weir_engine_keys; texts that are there go if it is not TEXT */
	/* What this process is called among the table's hosts, 23 bytes: "nginx". May be NULL. */
	const char *host;
	/* How many nodes the fleet has, where the table has never been told (weir_fleet_note); 0
	 * means 1. */
	uint32_t fleet_size;
	uint32_t reserved;
};

/* The engine owns the rules from here on, unless this fails; the table must outlive it. Without
 * rules (NULL) every domain is unknown until the first swap. `opts` may be NULL.
 *   WEIR_EINVAL, WEIR_EMEMORY */
WEIR_API int weir_engine_new(struct weir_table *table, struct weir_rules *rules,
			     const struct weir_engine_opts *opts, struct weir_engine **engine);

/* No ask may be under way, and no watch. */
WEIR_API void weir_engine_free(struct weir_engine *engine);

/* Requests that begin from now on are decided by these rules, whose numbers go up by one each time.
 * Counters go on where limits keep their identity. The engine owns the rules unless this fails.
 * Allocates, and takes as long as there are rules: not for an event loop. WEIR_EINVAL, WEIR_EMEMORY
 */
WEIR_API int weir_engine_swap(struct weir_engine *engine, struct weir_rules *rules,
			      uint64_t now_ns);

/* Notes that new rules could not be loaded: the last good ones stay in force. */
WEIR_API int weir_engine_load_failed(struct weir_engine *engine, const char *text, uint64_t now_ns);

#define WEIR_SECRET_BYTES 192

/* The fleet's secret is known now, or has changed: questions of requests whose descriptors are
 * added from now on name their counters by it. Until an engine knows one, there is no store for it:
 * what should wait for the store is decided as if weir_ask_store_failed had been called. Any thread
 * may call, at any time. `secret` has WEIR_SECRET_BYTES and is copied; each other secret takes
 * memory until the engine is freed. WEIR_EINVAL, WEIR_EMEMORY */
WEIR_API int weir_engine_fleet(struct weir_engine *engine, const uint8_t *secret);

/* Whether the table, opened with `opts`, has less room for logs than it would get if it were made
 * for these rules now: 1 and a sentence in `text` that names the remedy, or 0. A log_bytes in
 * `opts` is a choice, and a table without advice. */
WEIR_API int weir_log_advice(struct weir_table *table, const struct weir_opts *opts,
			     const struct weir_rules *rules, char *text, size_t size);

/* ---- the fleet ----
 *
 * When the store fails, a rule that says `on_store_failure: local` lets this node admit its share:
 * the limit divided by the number of nodes, and 1 at least. What the store admitted before counts.
 * The number stands in the table, for all processes that have it open, and stays there when the
 * store is gone. */

/* So many nodes were heard from lately, this one included. WEIR_EINVAL: 0 nodes */
WEIR_API int weir_fleet_note(struct weir_table *table, uint32_t nodes, uint64_t now_ns);

/* How many were noted last, and when (in whole seconds; may be NULL); 0: never. */
WEIR_API uint32_t weir_fleet_nodes(const struct weir_table *table, uint64_t *noted_ns);

/* ---- what an engine knows of itself ---- */

struct weir_engine_info {
	uint32_t size;       /* sizeof(struct weir_engine_info), set by the caller */
	uint32_t held;       /* older rules that requests still hold */
	uint64_t generation; /* from 1; 0: no rules yet */
	uint64_t hash;       /* of the rules, see weir_rules_info */
	uint64_t loaded_ns;
	uint64_t loads_good, loads_failed;
	uint64_t failed_ns; /* when loading failed last; 0: never, or since then it went well */
	char error[1024];   /* and why: the first diagnostics */
};

WEIR_API int weir_engine_info(struct weir_engine *engine, struct weir_engine_info *info);

/* ---- watching rules on disk ---- */

struct weir_watch;

/* What came of a load. */
struct weir_load {
	uint32_t size;
	int rc;              /* 0, or why weir_rules_load failed */
	uint64_t generation; /* in force now */
	uint64_t hash;
	uint64_t duration_ns;
	const struct weir_errors *errors; /* warnings too; until the callback returns */
};

enum weir_watch_flags {
	/* The host calls weir_watch_look. For a process that has but one thread: while there is a
	 * second one, every call of the kernel on a descriptor takes it longer. */
	WEIR_WATCH_BY_HOST = 1,
};

struct weir_watch_opts {
	uint32_t size;  /* sizeof(struct weir_watch_opts) */
	uint32_t flags; /* enum weir_watch_flags */
	/* Called by the watching thread for each load: once for each content that fails. */
	void (*loaded)(void *context, const struct weir_load *load);
	void *context;
	uint64_t (*now_ns)(void *context); /* NULL: CLOCK_REALTIME */
};

/* Starts a thread that loads the rules at `path` when they change on disk, within a second: plain
 * writes, renames, links that come to point elsewhere. It also calls weir_tick (weir/stats.h).
 * Rules with errors change nothing. `seen` is the set the host loaded before from this path, or
 * NULL: then the first load is at once. The thread takes no signals. WEIR_EINVAL, WEIR_EMEMORY,
 * WEIR_ESYS */
WEIR_API int weir_watch_start(struct weir_engine *engine, const char *path,
			      const struct weir_rules *seen, const struct weir_watch_opts *opts,
			      struct weir_watch **watch);

/* With WEIR_WATCH_BY_HOST, some times a second and always from the same thread: looks for a change
 * and calls weir_tick. What takes longer than a moment, a load above all, is done by a thread that
 * ends with it. WEIR_EINVAL, WEIR_ESYS: no thread could be started, the next look tries again */
WEIR_API int weir_watch_look(struct weir_watch *watch);

/* Loads now, changed or not, as SIGHUP asks for; with WEIR_WATCH_BY_HOST at the next look. Safe in
 * a signal handler. */
WEIR_API void weir_watch_poke(struct weir_watch *watch);

/* Waits for a load that is under way. */
WEIR_API void weir_watch_stop(struct weir_watch *watch);

/* ---- asking ---- */

enum weir_verdict {
	WEIR_ADMIT = 1,
	WEIR_REFUSE = 2,
	WEIR_DELAY = 3, /* admitted, to go on after a wait */
	WEIR_DEFER = 4, /* refused by limits that all want it kept and delivered later: 202 from
			   who does that, a refusal like others from who does not */
	WEIR_WAIT = 5,  /* not decided: ask the central store */
};

WEIR_API size_t weir_ask_size(void);

/* Begins a request. `domain` is not kept. WEIR_EINVAL, or WEIR_EROOM: `size` is too small. */
WEIR_API int weir_ask_init(void *memory, size_t size, struct weir_engine *engine,
			   struct weir_str domain, struct weir_ask **ask);

/* What descriptors cost that do not say it themselves, those added after this; 1 otherwise. */
WEIR_API int weir_ask_hits(struct weir_ask *ask, int64_t hits);

#define WEIR_HITS_UNSET INT64_MIN /* the descriptor says no cost of its own */

/* Adds a descriptor, and what it costs: 0 only looks, below 0 gives back. `override` is a limit the
 * request brought along, or NULL: it stands in for the rules, is checked, and needs the domain to
 * exist. Nothing that is passed is kept. A request with more than WEIR_DESCRIPTORS_MAX descriptors,
 * or that WEIR_NEEDS_MAX limits are not enough for, cannot be counted: this returns 0, and
 * weir_ask_decide refuses, with 429 or the status of the rule that found no room.
 *   WEIR_EINVAL, WEIR_ELIMIT (the override) */
WEIR_API int weir_ask_add(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			  const struct weir_limit *override, int64_t hits);

/* The limit `requests` per unit, numbered as RLS does: second 1, minute 2, hour 3, day 4, month 5,
 * year 6, week 7. WEIR_ELIMIT: there is no such unit. */
WEIR_API int weir_limit_per_unit(uint32_t requests, int unit, struct weir_limit *limit,
				 struct weir_error *error);

/* Adds the descriptors that the domain's `requests:` make of a request. Returns 0 or WEIR_EINVAL. A
 * request that cannot be read or counted is refused by weir_ask_decide: with 400 if its target is
 * malformed or there is too much of it, with 429 as above if too many limits apply. */
WEIR_API int weir_ask_http(struct weir_ask *ask, const struct weir_http_view *view);

/* The time by CLOCK_BOOTTIME, which leases end by: not older than now_ns of the decision. Optional:
 * without it the engine reads that clock itself, if a rule is leased or eventual. For hosts that
 * read one clock per decision: the wall clock's distance to it hardly ever changes. */
WEIR_API int weir_ask_set_boottime(struct weir_ask *ask, uint64_t mono_ns);

/* Decides, once. Returns an enum weir_verdict, WEIR_EINVAL (decided before) or WEIR_ETIME. */
WEIR_API int weir_ask_decide(struct weir_ask *ask, uint64_t now_ns);

/* Whether to tell how long this decision took, as one in 64 is asked to; the engine reads no clock.
 *
 *   verdict = weir_ask_decide(ask, now_ns);
 *   …                                          // and with WEIR_WAIT, weir_ask_answer
 *   if (weir_ask_wants_latency(ask))
 *           weir_ask_report_latency(ask, clock_ns() - now_ns);
 */
WEIR_API int weir_ask_wants_latency(const struct weir_ask *ask);
WEIR_API int weir_ask_report_latency(struct weir_ask *ask, uint64_t ns);

/* The client has left before it was served: what was taken is given back where that is possible. To
 * be called before weir_ask_done, after any verdict; while waiting, an answer may still be passed
 * in, to give back what it granted. */
WEIR_API int weir_ask_cancel(struct weir_ask *ask, uint64_t now_ns);

/* ---- put off for later ----
 *
 * A host that can keep a refused request and deliver it later says so before it adds descriptors
 * (weir_ask_record), and what became of it after WEIR_DEFER (weir_ask_report_deferral). Who delivers asks
 * again with the descriptors that were recorded:
 *
 *   weir_ask_record(ask, memory, sizeof memory);          // the host
 *   weir_ask_http(ask, &view);
 *   if (weir_ask_decide(ask, now_ns) == WEIR_DEFER) {
 *           weir_ask_deferral(ask, &deferral);
 *           …                                             // keep it, with weir_ask_recorded
 *           weir_ask_report_deferral(ask, kept ? NULL : "away");     // 202, or a refusal like others
 *   }
 *
 *   weir_ask_replay(ask, bytes, len);                     // who delivers
 *   weir_ask_mark_delivery(ask);
 *   weir_ask_decide(ask, now_ns);                         // ADMIT or DELAY: deliver it
 *
 * While requests are kept under a key (table/deferred.h), new ones of that key are told WEIR_DEFER
 * without taking anything, so that they come behind them. Nobody else heeds that: an ask that is
 * not recorded gets WEIR_DEFER when its limits refuse, as a refusal of another name. */

#define WEIR_RECORD_MAX 16384 /* bytes to record in; requests that need more are not kept */

/* Bytes of `memory` get what is added from here on; they are of no use after weir_ask_done. An
 * override cannot be recorded: then, and if `cap` is too small, weir_ask_deferral says WEIR_EROOM.
 * WEIR_EINVAL: something was added before. */
WEIR_API int weir_ask_record(struct weir_ask *ask, void *memory, size_t cap);

/* What was recorded; empty if nothing of it would be put off, so that nobody keeps it in vain. */
WEIR_API struct weir_str weir_ask_recorded(const struct weir_ask *ask);

/* Adds the descriptors that were recorded, costs included. The domain is not among them.
 *   WEIR_EFORMAT: no such bytes; nothing was added. And as weir_ask_add */
WEIR_API int weir_ask_replay(struct weir_ask *ask, const void *bytes, size_t len);

/* This one was kept and is to be delivered now: it does not wait for those behind it, and when it
 * is refused once more, nothing is counted. To be called before weir_ask_decide. WEIR_EINVAL */
WEIR_API int weir_ask_mark_delivery(struct weir_ask *ask);

/* This one cannot be kept (it is a GET, nobody would deliver it): limits that would put it off
 * refuse it. To be called before weir_ask_decide. WEIR_EINVAL */
WEIR_API int weir_ask_no_defer(struct weir_ask *ask);

/* How to keep a request. Texts are the rules' and last until weir_ask_done. */
struct weir_deferral {
	uint32_t size; /* sizeof(struct weir_deferral), set by the caller */
	uint32_t max_tries;
	/* Whose order is kept: names the counter of the request's most specific limit that defers,
	 * the same in all processes, on all nodes, for ever. */
	uint8_t key[16];
	struct weir_str rule;           /* that limit's name in statistics */
	const struct weir_str *headers; /* fields to keep, in lower case */
	uint32_t header_count;
	uint32_t max_waiting; /* of the key */
	uint64_t max_body;
	uint64_t max_age_ns;
	uint64_t wait_ns;     /* until the limits would admit it, were it alone; or WEIR_NEVER */
	uint64_t interval_ns; /* how far apart that limit admits requests in the long run */
	/* More than so many of the key that limit cannot admit within max_age_ns: with that many
	 * waiting, one more would only die of age. 0: not even this one, were it alone;
	 * UINT64_MAX: not known */
	uint64_t in_time;
};

/* After WEIR_DEFER, if the ask was recorded. WEIR_EINVAL: not so. WEIR_EROOM: what was added did
 * not fit, and the request cannot be kept. */
WEIR_API int weir_ask_deferral(const struct weir_ask *ask, struct weir_deferral *deferral);

/* It was kept, which counts as deferred; or it was not, which counts as refused, and `why_not` is a
 * word that bodies of the refusal say, and has to last until weir_ask_done. Until then it counts as
 * nothing. Returns the verdict that holds: WEIR_DEFER or WEIR_REFUSE. WEIR_EINVAL: not WEIR_DEFER,
 * not recorded, or told before. */
WEIR_API int weir_ask_report_deferral(struct weir_ask *ask, const char *why_not);

/* ---- waiting one's turn ----
 *
 * A host that holds delayed requests itself lets them move up when one leaves: it trades places
 * from the leaver to the last one it holds of that queue, which leaves the leaver with the last
 * place, and then cancels the leaver.
 *
 *   weir_ask_swap_positions(leaver, next); weir_ask_swap_positions(leaver, the one after); …
 *   weir_ask_cancel(leaver, now_ns);
 *
 * Places are of a table, and other processes hold some of them: one that others stand behind is
 * not given back but stays empty, so that departures never come closer. */

struct weir_queue_position {
	uint32_t size; /* sizeof(struct weir_queue_position), set by the caller */
	uint32_t reserved;
	uint64_t queue;  /* the leaky bucket that sets the wait: one number in all processes */
	uint64_t due_ns; /* when the request may go on */
};

/* Where a request waits that was told WEIR_DELAY. WEIR_EINVAL: it was not, or it was cancelled. */
WEIR_API int weir_ask_queue_position(const struct weir_ask *ask, struct weir_queue_position *place);

/* `leaving` and `staying` wait in the same queue, `leaving` before `staying`: they trade places.
 * weir_ask_queue_position tells the new ones; the queue of `staying` may be another if it waits in several.
 * WEIR_EINVAL: not so, or they cost differently and their places are not of one length. */
WEIR_API int weir_ask_swap_positions(struct weir_ask *leaving, struct weir_ask *staying);

/* Lets go of the rules. All that was asked from the ask is void. NULL is fine. */
WEIR_API void weir_ask_done(struct weir_ask *ask);

/* ---- the central store ---- */

#define WEIR_QUESTION_MAX 20480

/* Whether the store keeps a limit of what was added so far: 1 or 0, or WEIR_EINVAL. */
WEIR_API int weir_ask_central(const struct weir_ask *ask);

/* Bytes to send: limiter/question.h tells the format. Returns how many, 0 for none, or WEIR_EROOM.
 * While waiting it gives the question, as often as it is asked. After a verdict it gives what the
 * store is to be told, each message once. */
WEIR_API int weir_ask_question(struct weir_ask *ask, void *bytes, size_t cap);

/* Returns a verdict. WEIR_EINVAL: not waiting. WEIR_EFORMAT: not an answer to this question; call
 * weir_ask_store_failed. */
WEIR_API int weir_ask_answer(struct weir_ask *ask, const void *bytes, size_t len, uint64_t now_ns);

/* There will be no answer: each rule does what its `on_store_failure` says. Returns a verdict. */
WEIR_API int weir_ask_store_failed(struct weir_ask *ask, uint64_t now_ns);

/* An answer came after weir_ask_store_failed. `question` is a copy of the question, which the
 * caller made while the ask waited; the ask may have ended. The function overwrites the copy with
 * what the store is to be told of the answer: send it once, then the units are counted once.
 * Returns the length, 0 if the answer took nothing, or WEIR_EFORMAT: not an answer to this
 * question. */
WEIR_API int weir_question_late(void *question, size_t len, const void *answer, size_t answer_len);

/* ---- the answer ---- */

struct weir_result {
	uint32_t size;           /* sizeof(struct weir_result), set by the caller */
	uint32_t verdict;        /* enum weir_verdict; 0: not decided yet */
	uint32_t http_status;    /* 200, or that of a refusal: 429, a rule's own, … */
	uint32_t descriptors;    /* how many have a status */
	uint64_t delay_ns;       /* WEIR_DELAY: the longest of all */
	uint64_t retry_after_ns; /* refused: when all who refused would admit; or WEIR_NEVER */
	uint64_t generation;     /* of the rules that decided */
};

WEIR_API int weir_ask_result(const struct weir_ask *ask, struct weir_result *result);

enum weir_status_code { /* as RLS numbers them */
			WEIR_STATUS_OK = 1,
			WEIR_STATUS_OVER_LIMIT = 2,
};

enum weir_status_flags {
	WEIR_STATUS_LIMITED = 1,       /* a limit applies: the fields below are set */
	WEIR_STATUS_UNLIMITED = 2,     /* the rule says `unlimited`; remaining is UINT32_MAX */
	WEIR_STATUS_WHITELISTED = 4,   /* the rule says nothing on purpose */
	WEIR_STATUS_REPLACED = 8,      /* another rule's `replaces` put this one out of force */
	WEIR_STATUS_SHADOW = 16,       /* counted, not enforced: shadow mode, or by `enforce` */
	WEIR_STATUS_WOULD_REFUSE = 32, /* … and were it enforced, it would have refused */
	WEIR_STATUS_QUOTA = 64,        /* quota mode: refuses only together with all others */
	WEIR_STATUS_OVERRIDE = 128,    /* the limit came with the request */
	WEIR_STATUS_FAILED = 256,      /* the central store did not answer */
	WEIR_STATUS_BANNED = 512,      /* an operator's ban refused it, see weir/control.h */
	WEIR_STATUS_PAUSED = 1024,     /* counted, not enforced, because an operator paused it */
};

/* What became of one descriptor. If several limits apply to it, the tightest speaks. */
struct weir_status {
	uint32_t size; /* sizeof(struct weir_status), set by the caller */
	uint32_t code; /* enum weir_status_code */
	uint32_t flags;
	uint32_t requests_per_unit;
	uint32_t unit;      /* as RLS numbers them; 0: the period is none of them */
	uint32_t remaining; /* what could still be taken; 0 when over */
	uint32_t limit;     /* what `remaining` counts down from: the burst of a token bucket … */
	uint32_t reset_s; /* seconds until the window ends or all is free again, rounded up, never 0
			   */
	uint64_t period_ns;
	struct weir_str name;     /* the limit's, or empty */
	struct weir_str rule;     /* its name in statistics; empty for an override */
	struct weir_str metadata; /* the rule's, a JSON object; or empty */
	struct weir_decision decision;
};

/* Of descriptor `at`, in the order they were added. Texts are the rules' and last until
 * weir_ask_done. WEIR_EINVAL: no such descriptor, or not decided. */
WEIR_API int weir_ask_status(const struct weir_ask *ask, size_t at, struct weir_status *status);

/* Without metadata, of the tightest limit that is enforced: one that refused if the request is
 * refused, then least remaining, then longest wait. WEIR_ENOENT: no limit applies. */
WEIR_API int weir_ask_tightest(const struct weir_ask *ask, struct weir_status *status);

/* ---- HTTP ---- */

/* X(enum, number, name): which header fields an answer carries.
 *   x       X-Ratelimit-Limit, -Remaining, and the IETF's two; refused also X-Ratelimit-Retry-After
 *           and Retry-After
 *   ietf    RateLimit-Policy and RateLimit; refused also Retry-After
 *   github  x-ratelimit-limit, -remaining, -used, -reset (epoch seconds), -resource; refused also
 *           retry-after
 *   none    none
 * A refusal always has Cache-Control: no-store. */
#define WEIR_PROFILES(X)                                                                           \
	X(WEIR_PROFILE_X, 0, "x")                                                                  \
	X(WEIR_PROFILE_IETF, 1, "ietf")                                                            \
	X(WEIR_PROFILE_GITHUB, 2, "github")                                                        \
	X(WEIR_PROFILE_NONE, 3, "none")

enum weir_profile {
#define WEIR_PROFILE_ENUM(name, number, text) name = (number),
	WEIR_PROFILES(WEIR_PROFILE_ENUM)
#undef WEIR_PROFILE_ENUM
};

/* The profile of a name, or -1. */
WEIR_API int weir_profile_by_name(struct weir_str name);

/* Makes the header fields of the answer. Returns how many there are, WEIR_EINVAL when the request
 * is not decided. */
WEIR_API int weir_ask_headers(struct weir_ask *ask, int profile);

/* The i-th of them. Names are constants and last for ever, values until the next weir_ask_headers
 * or weir_ask_done. */
WEIR_API int weir_ask_header(const struct weir_ask *ask, size_t i, struct weir_str *name,
			     struct weir_str *value);

enum weir_body {
	WEIR_BODY_PROBLEM = 0, /* application/problem+json, RFC 9457 */
	WEIR_BODY_TEXT = 1,
	WEIR_BODY_HTML = 2,
};

/* What a client with this Accept field would like best; an empty one takes anything. */
WEIR_API int weir_body_type(struct weir_str accept);

/* The body of a refusal, without a zero behind it, and its content type. A rule that has a
 * `response` of its own is taken at its word. Returns its length, which may be more than `cap`:
 * then it was cut. WEIR_EINVAL: not refused. */
WEIR_API int weir_ask_body(const struct weir_ask *ask, int type, char *body, size_t cap,
			   struct weir_str *content_type);

#ifdef __cplusplus
}
#endif
#endif
