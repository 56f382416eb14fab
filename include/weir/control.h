/* Calls for operators: inspect and reset counters, grant more units, ban keys, and pause rules.
 *
 *   struct weir_entry who = {.key = {"user", 4}, .value = {"7", 1}};
 *   struct weir_target target = {.size = sizeof target, .domain = {"api", 3},
 *                                .entries = &who, .count = 1};
 *
 *   weir_control_ban(engine, &target, now_ns + 3600 * 1000000000ull, now_ns, NULL);
 *   weir_control_get(engine, &target, now_ns, show, NULL);
 *   weir_control_ban(engine, &target, 0, now_ns, NULL);             // lift it
 *   weir_control_pause(engine, (struct weir_str){"api", 3}, NULL);  // its rules refuse nothing
 *
 * GUARANTEES
 *   Scope    Changes are stored in the table. They apply in every process that has the table open,
 * to every request that is decided after the call has returned. Restart  Changes survive restarts,
 * checkpoints and resizes. If the process is killed during a call, each limit is either changed or
 * not. Memory   A ban or grant takes two cells of the table for each limit until it ends. These
 * cells are evicted only if all candidates are bans and grants; weir_info counts such evictions in
 * override_evicted. Cost     Decisions on keys without a ban or grant are not slower. Times    A
 * ban or grant ends at a whole second: its end is rounded up. Threads  Any number of threads and
 * processes may call at once. If two calls change the same ban or grant, the last call wins. No
 * call waits for another. weir_control_overrides takes milliseconds: do not call it on an event
 * loop. Store    The calls change the table only. For limits that a central store decides, the bans
 * and grants of the asking node's table apply. weir_control_question makes the message that resets
 * their counters in the store.
 */
#ifndef WEIR_CONTROL_H
#define WEIR_CONTROL_H

#include <weir/algo.h>
#include <weir/engine.h>
#include <weir/error.h>
#include <weir/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The counters of a descriptor under the rules in force. `size` as in struct weir_engine_opts. */
struct weir_target {
	uint32_t size; /* sizeof(struct weir_target) */
	uint32_t reserved;
	struct weir_str domain;
	const struct weir_entry *entries;
	size_t count;
	/* Only the limit with this name, or with this name in statistics. Empty: all limits that
	 * apply. */
	struct weir_str limit;
	/* A limit that applies instead of the rules, or NULL: see weir_ask_add. */
	const struct weir_limit *override;
};

enum weir_counter_flags {
	WEIR_COUNTER_SHADOW = 1, /* counted, not enforced: shadow mode, or by `enforce` */
	WEIR_COUNTER_QUOTA = 2,  /* quota mode */
	WEIR_COUNTER_PAUSED = 4, /* counted, not enforced: an operator paused the rule */
	/* The central store decides; the figures are those of the table. */
	WEIR_COUNTER_CENTRAL = 8,
	WEIR_COUNTER_OVERRIDE = 16,   /* the limit is the target's `override` */
	WEIR_COUNTER_STORE = 32,      /* CENTRAL, and the figures are the store's */
	WEIR_COUNTER_EVENTUAL = 64,   /* counted in the table, and exchanged with other nodes */
	WEIR_COUNTER_EXCHANGED = 128, /* EVENTUAL, and the figures include the other nodes */
};

/* The counter of one limit. */
struct weir_counter {
	uint32_t size;      /* sizeof(struct weir_counter) as the library knows it */
	uint32_t flags;     /* enum weir_counter_flags */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t requests;  /* of the rule: requests per period */
	uint32_t limit; /* the value that `remaining` starts from: burst, queue …, plus the grant */
	uint32_t remaining; /* units that could be taken now without the ban */
	uint64_t period_ns;
	uint64_t retry_after_ns;   /* until a unit could be taken without the ban, or WEIR_NEVER */
	uint64_t reset_after_ns;   /* until no use of the key is left */
	uint64_t banned_until_ns;  /* 0: not banned; WEIR_NEVER: for ever */
	uint64_t granted_until_ns; /* 0: no grant; WEIR_NEVER: for ever */
	uint32_t granted;          /* part of `limit` */
	uint32_t reserved;
	struct weir_str name; /* of the limit, or empty */
	struct weir_str rule; /* the limit's name in statistics; empty for an override */
};

/* Called for each counter. Texts are valid until it returns. 0 continues, another value ends the
 * iteration. */
typedef int (*weir_counter_fn)(void *context, const struct weir_counter *counter);

/* Every call with a target returns the number of counters, the value with which `fn` ended, or
 *   WEIR_EINVAL  an argument is missing or has a wrong size
 *   WEIR_ETIME   now_ns is out of range, or until_ns is not after it
 *   WEIR_ELIMIT  the override is not usable
 *   WEIR_ENOENT  no limit applies to the descriptor, or no limit has that name
 *   WEIR_EMOVED  the table was resized during the call: open it again, and repeat the call
 * `error` may be NULL; otherwise it gets a sentence. */

/* Calls `fn` for each counter. Takes nothing. */
WEIR_API int weir_control_get(struct weir_engine *engine, const struct weir_target *target,
			      uint64_t now_ns, weir_counter_fn fn, void *context);

/* Resets the counters to unused: full buckets, empty windows, queues and logs, soft mode available.
 * Bans and grants stay. Requests that already wait for a leaky bucket keep their delay; new
 * requests do not wait behind them. */
WEIR_API int weir_control_reset(struct weir_engine *engine, const struct weir_target *target,
				uint64_t now_ns, struct weir_error *error);

/* Writes a message that resets the target's counters in the central store. Send it as a message of
 * weir_ask_question (weir/host.h). Returns its length, 0 if the store has none of the counters, the
 * errors above, or WEIR_EROOM. */
WEIR_API int weir_control_question(struct weir_engine *engine, const struct weir_target *target,
				   void *bytes, size_t cap, uint64_t now_ns,
				   struct weir_error *error);

/* Raises the limit by `extra` until `until_ns` (WEIR_NEVER: for ever). Windows and logs admit limit
 * + extra per window, a token bucket holds burst + extra, and a leaky bucket queues queue_size +
 * extra; rates stay. The sum is bounded: a log by WEIR_LOG_MAX, a bucket by 100 years. A bucket
 * with a limit of 0 still refuses everything. Units taken above the limit still count after the
 * grant has ended. A new grant replaces the earlier grant. `extra` 0 ends the grant, for any
 * `until_ns`. */
WEIR_API int weir_control_grant(struct weir_engine *engine, const struct weir_target *target,
				uint32_t extra, uint64_t until_ns, uint64_t now_ns,
				struct weir_error *error);

/* Refuses every request until `until_ns` (WEIR_NEVER: for ever; 0 lifts the ban). Refused requests
 * are not counted, and their retry_after_ns ends with the ban. Units can still be given back. A
 * rule in shadow mode, or a paused rule, reports the ban and refuses nothing. */
WEIR_API int weir_control_ban(struct weir_engine *engine, const struct weir_target *target,
			      uint64_t until_ns, uint64_t now_ns, struct weir_error *error);

/* ---- bans and grants in force ---- */

/* A ban or a grant, or both, on one counter. */
struct weir_override {
	uint32_t size; /* sizeof(struct weir_override) as the library knows it */
	uint32_t granted;
	uint64_t banned_until_ns;  /* 0: not banned; WEIR_NEVER: for ever */
	uint64_t granted_until_ns; /* 0: no grant; WEIR_NEVER: for ever */
	uint64_t changed_ns;       /* in whole seconds; 0: not known */
	uint64_t counter;          /* identifies the counter in this table */
	/* Texts are cut at 119 bytes. They are empty if the table had no space for them: a table of
	 * 64 MiB has space for the texts of a thousand bans and grants. */
	struct weir_str rule; /* the limit's name in statistics */
	struct weir_str key;  /* domain and descriptor: "api|user=7" */
};

typedef int (*weir_override_fn)(void *context, const struct weir_override *override);

/* Calls `fn` for each ban and grant, in no order, until it returns another value than 0. Reads the
 * whole table. Returns 0, that value, WEIR_EINVAL or WEIR_ETIME. */
WEIR_API int weir_control_overrides(struct weir_engine *engine, uint64_t now_ns,
				    weir_override_fn fn, void *context);

/* ---- pause ---- */

#define WEIR_PAUSES_MAX 64

/* Pauses rules: they refuse and delay no request, and count as in shadow mode. `rule` is a limit's
 * name in statistics ("api/route=signup/ip/1d"), or its beginning up to a slash: "api/ip" pauses
 * all limits of that rule and of the rules below it, "api" the domain, the empty name everything.
 * The rules need not exist yet. Refusals by `missing: deny` are not paused, because they are not
 * limits. Returns 0, WEIR_EINVAL, WEIR_EMOVED, or WEIR_EMANY: WEIR_PAUSES_MAX names are already
 * paused. */
WEIR_API int weir_control_pause(struct weir_engine *engine, struct weir_str rule,
				struct weir_error *error);

/* Ends the pause with the same name. Pauses with other names stay. Returns 0, WEIR_EINVAL,
 * WEIR_EMOVED, or WEIR_ENOENT: there is no pause with this name. */
WEIR_API int weir_control_resume(struct weir_engine *engine, struct weir_str rule,
				 struct weir_error *error);

/* Called for each pause. 0 continues, another value ends the iteration. */
typedef int (*weir_pause_fn)(void *context, struct weir_str rule);

/* Calls `fn` for each paused name, the empty name first. The table stores hashes of names. A name
 * that matches no rule in the statistics is passed as "#" and its hash, and weir_control_resume
 * accepts that form. Returns 0, the value with which `fn` ended, or WEIR_EINVAL. */
WEIR_API int weir_control_paused(struct weir_engine *engine, weir_pause_fn fn, void *context);

#ifdef __cplusplus
}
#endif
#endif
