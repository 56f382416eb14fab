/* Calls for operators: inspect and reset counters, grant more units, ban keys, and pause rules.
 *
 *   struct weir_entry who = {.key = {"user", 4}, .value = {"7", 1}};
 *   struct weir_target target = {.size = sizeof target, .domain = {"api", 3},
 *                                .entries = &who, .count = 1};
 *
 *   weir_control_ban(engine, &target, now_ns + 3600 * 1000000000ull, now_ns, NULL);
 *   weir_control_get(engine, &target, now_ns, show, NULL);
 *   weir_control_ban(engine, &target, 0, now_ns, NULL);             // lift the ban
 *   weir_control_pause(engine, (struct weir_str){"api", 3}, NULL);  // rules of api refuse nothing
 *
 * GUARANTEES
 *   Scope    Changes are stored in the table. They apply in every process that has the table open,
 *            to every request that is decided after the call has returned.
 *   Restart  Changes survive restarts, checkpoints and resizes. If the process is killed during a
 *            call, some limits may be changed and others not, but no limit is half changed.
 *   Memory   A ban or grant takes two cells of the table for each limit until the ban or grant
 *            ends. These cells are evicted only if all cells that could be evicted belong to bans
 *            and grants; weir_info counts such evictions in override_evicted.
 *   Cost     Decisions on keys without a ban or grant are not slower.
 *   Times    The end of a ban or grant is rounded up to a whole second.
 *   Threads  Any number of threads and processes may call at once. If two calls change the same ban
 *            or grant, the later call wins. No call waits for another call. weir_control_overrides
 *            takes milliseconds: do not call it on an event loop.
 *   Store    The calls change the table of this node only. A ban or grant in this table also
 *            applies to limits that a central store decides, for requests to this node. To reset
 *            counters in the central store, send the message that weir_control_question writes.
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

/* Selects the counters of a descriptor under the rules in force. A smaller or larger `size` is
 * handled as in struct weir_engine_opts. */
struct weir_target {
	uint32_t size; /* sizeof(struct weir_target) */
	uint32_t reserved;
	struct weir_str domain;
	const struct weir_entry *entries;
	size_t count;
	/* If not empty, selects only the limit whose `name` in the rule file, or whose name in
	 * statistics, is equal to `limit`. If empty, all limits that apply are selected. */
	struct weir_str limit;
	/* A limit that applies instead of the rules (see weir_ask_add), or NULL. */
	const struct weir_limit *override;
};

enum weir_ban_flags {
	WEIR_BAN_AUTOMATIC = 1, /* set by the `ban` of a rule, not by an operator */
	WEIR_BAN_SHIELD = 2,    /* weir shield drops the packets of the address */
	/* The rule is not enforced: the ban would be in force if it were. */
	WEIR_BAN_SHADOW = 4,
};

enum weir_counter_flags {
	/* The limit is counted but not enforced: the rule is in shadow mode, or its `enforce`
	 * excludes the key. */
	WEIR_COUNTER_SHADOW = 1,
	WEIR_COUNTER_QUOTA = 2, /* the limit is a quota, see WEIR_STATUS_QUOTA */
	/* The limit is counted but not enforced, because an operator paused the rule. */
	WEIR_COUNTER_PAUSED = 4,
	/* The central store decides the limit. The numbers in struct weir_counter are from the
	 * table, unless STORE is set too. */
	WEIR_COUNTER_CENTRAL = 8,
	WEIR_COUNTER_OVERRIDE = 16, /* the limit is the target's `override` */
	/* Set with CENTRAL: the numbers in struct weir_counter are from the central store. */
	WEIR_COUNTER_STORE = 32,
	WEIR_COUNTER_EVENTUAL = 64, /* the table counts, and nodes exchange their counts */
	/* Set with EVENTUAL: the numbers in struct weir_counter include other nodes' counts. */
	WEIR_COUNTER_EXCHANGED = 128,
};

/* The counter of one limit. */
struct weir_counter {
	uint32_t size;      /* sizeof(struct weir_counter) in the library's version */
	uint32_t flags;     /* enum weir_counter_flags */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t requests;  /* requests per period that the rule admits */
	/* Value of `remaining` for an unused key: burst, queue size or limit, plus the grant. */
	uint32_t limit;
	uint32_t remaining; /* units that could be taken now if there were no ban */
	uint64_t period_ns;
	/* Time until a unit could be taken, without regard to a ban. WEIR_NEVER: waiting does not
	 * help. */
	uint64_t retry_after_ns;
	uint64_t reset_after_ns;   /* time until the counter is as if the key was never used */
	uint64_t banned_until_ns;  /* 0: not banned; WEIR_NEVER: banned for ever */
	uint64_t granted_until_ns; /* 0: no grant; WEIR_NEVER: granted for ever */
	uint32_t granted;          /* part of `limit` that an operator granted */
	/* Units in use beyond `limit`, in soft mode beyond the ceiling (weir_settle in
	 * weir/weir.h). */
	uint32_t debt;
	struct weir_str name; /* `name` of the limit in the rule file, or empty */
	struct weir_str rule; /* the limit's name in statistics; empty with WEIR_COUNTER_OVERRIDE */
	/* The fields below are 0 if the rule has no `ban` and no ban is in force. */
	uint32_t refusals;  /* refusals that count toward an automatic ban now */
	uint32_t ban_after; /* number of refusals that start a ban */
	uint32_t ban_level; /* level of the last automatic ban within a day: 1 for the first */
	uint32_t ban_flags; /* enum weir_ban_flags of the ban in force */
	/* The end of the ban that would be in force if the limit were enforced, or 0. */
	uint64_t shadow_ban_until_ns;
};

/* The callback of weir_control_get, called for each counter. The texts of the counter are valid
 * until the callback returns. The callback returns 0 to continue, or another value to end the
 * iteration. */
typedef int (*weir_counter_fn)(void *context, const struct weir_counter *counter);

/* Every function with a parameter `target`, except weir_control_question, returns the number of
 * counters that the target selects, or one of the errors below. If `fn` ends the iteration of
 * weir_control_get, weir_control_get returns the value that `fn` returned.
 *   WEIR_EINVAL  an argument is missing or has a wrong size
 *   WEIR_ETIME   now_ns is out of range, or until_ns is not after now_ns
 *   WEIR_ELIMIT  the override is not usable
 *   WEIR_ENOENT  no limit applies to the descriptor, or none of them is named target->limit
 *   WEIR_EMOVED  the table was resized during the call: open it again, and repeat the call
 * `error` may be NULL; otherwise the call writes a sentence about the error to it. */

/* Calls `fn` for each counter of the target. Takes no units. */
WEIR_API int weir_control_get(struct weir_engine *engine, const struct weir_target *target,
			      uint64_t now_ns, weir_counter_fn fn, void *context);

/* Resets the counters to unused: full buckets, empty windows, queues and logs, soft mode available.
 * Bans and grants stay. Requests that already wait for a leaky bucket keep their delay, but new
 * requests do not wait behind the waiting requests. */
WEIR_API int weir_control_reset(struct weir_engine *engine, const struct weir_target *target,
				uint64_t now_ns, struct weir_error *error);

/* Writes a message that resets the target's counters in the central store. The caller sends it like
 * a message of weir_ask_question (weir/host.h). Returns the length of the message, or 0 if the
 * central store has none of the counters. Returns WEIR_EROOM if `cap` is too small, or one of the
 * errors listed above. */
WEIR_API int weir_control_question(struct weir_engine *engine, const struct weir_target *target,
				   void *bytes, size_t cap, uint64_t now_ns,
				   struct weir_error *error);

/* Raises the limit by `extra` until `until_ns` (WEIR_NEVER: for ever). Windows and logs admit limit
 * + extra per window, a token bucket holds burst + extra, and a leaky bucket queues queue_size +
 * extra; rates stay the same. A log is raised to at most WEIR_LOG_MAX. A bucket is raised at most
 * to the size that takes 100 years to fill. A bucket with a limit of 0 still refuses everything.
 * Units taken above the limit still count after the grant has ended. A new grant replaces the
 * earlier grant. If `extra` is 0, the grant ends, and `until_ns` is ignored. */
WEIR_API int weir_control_grant(struct weir_engine *engine, const struct weir_target *target,
				uint32_t extra, uint64_t until_ns, uint64_t now_ns,
				struct weir_error *error);

/* Refuses every request until `until_ns` (WEIR_NEVER: for ever; 0 lifts the ban). Requests refused
 * by a ban are not counted, and their retry_after_ns is the time until the ban ends. Units can
 * still be given back. A rule in shadow mode, or a paused rule, reports the ban and refuses
 * nothing. */
WEIR_API int weir_control_ban(struct weir_engine *engine, const struct weir_target *target,
			      uint64_t until_ns, uint64_t now_ns, struct weir_error *error);

/* Options of weir_control_ban_add. A smaller or larger `size` is handled as in struct
 * weir_engine_opts. */
struct weir_ban_opts {
	uint32_t size;     /* sizeof(struct weir_ban_opts) */
	uint32_t flags;    /* WEIR_BAN_SHIELD, or 0 */
	uint64_t until_ns; /* as in weir_control_ban */
};

/* Does the same as weir_control_ban. With WEIR_BAN_SHIELD, weir shield also drops the packets of the
 * banned address. This is the value of the descriptor that is the client's address by the rules. If
 * the rules do not say which value this is, it is the only value that is an address or a prefix.
 * Returns WEIR_EINVAL, and bans nothing, if there is no such value, or if there are several.
 * A ban of an operator replaces an automatic ban, even if that ban ends later. Lifting a ban also
 * clears the refusals and the level of the key, so that its next automatic ban is a first ban. */
WEIR_API int weir_control_ban_add(struct weir_engine *engine, const struct weir_target *target,
				  const struct weir_ban_opts *opts, uint64_t now_ns,
				  struct weir_error *error);

/* ---- bans and grants in force ---- */

/* A ban or a grant, or both, on one counter. */
struct weir_override {
	uint32_t size; /* sizeof(struct weir_override) in the library's version */
	uint32_t granted;
	uint64_t banned_until_ns;  /* 0: not banned; WEIR_NEVER: banned for ever */
	uint64_t granted_until_ns; /* 0: no grant; WEIR_NEVER: granted for ever */
	uint64_t changed_ns; /* time of the latest change, a multiple of one second; 0: not known */
	uint64_t counter;    /* identifies the counter in this table */
	/* `rule` and `key` are cut at 119 bytes. Both are empty if the table had no space for them:
	 * a table of 64 MiB has space for the texts of a thousand bans and grants. */
	struct weir_str rule; /* the limit's name in statistics */
	struct weir_str key;  /* domain and descriptor: "api|user=7" */
	/* The fields below are 0 and empty if there is no ban, or if the list of bans had no room:
	 * a table of 64 MiB has room for 65,000 bans. */
	uint64_t since_ns;       /* start of the ban, a multiple of one second */
	uint32_t ban_flags;      /* enum weir_ban_flags */
	uint32_t level;          /* 1 for the first automatic ban of a day; of an operator: 0 */
	struct weir_str address; /* the banned address or prefix, if the key contains one */
};

typedef int (*weir_override_fn)(void *context, const struct weir_override *override);

/* Calls `fn` for each ban and grant that is in force, in no particular order, until `fn` returns a
 * value other than 0. Reads the whole table. Returns 0, the value with which `fn` ended the
 * iteration, WEIR_EINVAL or WEIR_ETIME. */
WEIR_API int weir_control_overrides(struct weir_engine *engine, uint64_t now_ns,
				    weir_override_fn fn, void *context);

/* ---- pause ---- */

#define WEIR_PAUSES_MAX 64

/* Pauses rules. A paused rule refuses and delays no request, but its requests are counted as in
 * shadow mode. `rule` is a limit's name in statistics ("api/route=signup/ip/1d"), or the part of
 * such a name before a slash: "api/ip" pauses all limits of the rule "api/ip" and of the rules
 * below it, "api" pauses the domain, and the empty name pauses everything. The rules need not exist
 * yet. Refusals by `missing: deny` are not paused, because they are not limits. Returns 0,
 * WEIR_EINVAL, WEIR_EMOVED, or WEIR_EMANY if WEIR_PAUSES_MAX names are already paused. */
WEIR_API int weir_control_pause(struct weir_engine *engine, struct weir_str rule,
				struct weir_error *error);

/* Ends the pause that weir_control_pause set with the name `rule`. Pauses with other names stay.
 * Returns 0, WEIR_EINVAL, WEIR_EMOVED, or WEIR_ENOENT if there is no pause with this name. */
WEIR_API int weir_control_resume(struct weir_engine *engine, struct weir_str rule,
				 struct weir_error *error);

/* The callback of weir_control_paused, called for each pause. It returns 0 to continue, or another
 * value to end the iteration.
 */
typedef int (*weir_pause_fn)(void *context, struct weir_str rule);

/* Calls `fn` for each paused name, the empty name first. The table stores hashes of names only, so
 * a name that matches no rule in the statistics is passed as "#" followed by its hash;
 * weir_control_resume accepts this form. Returns 0, the value with which `fn` ended the iteration,
 * or WEIR_EINVAL. */
WEIR_API int weir_control_paused(struct weir_engine *engine, weir_pause_fn fn, void *context);

#ifdef __cplusplus
}
#endif
#endif
