/* What an operator does to counters: look, reset, grant more, ban; and the pause of rules.
 *
 *   struct weir_entry who = {.key = {"user", 4}, .value = {"7", 1}};
 *   struct weir_target target = {.size = sizeof target, .domain = {"api", 3},
 *                                .entries = &who, .count = 1};
 *
 *   weir_control_ban(engine, &target, now_ns + 3600 * 1000000000ull, now_ns, NULL);
 *   weir_control_get(engine, &target, now_ns, show, NULL);
 *   weir_control_ban(engine, &target, 0, now_ns, NULL);             // lifted
 *   weir_control_pause(engine, (struct weir_str){"api", 3}, NULL);  // nothing of it refuses
 *
 * WHAT IT PROMISES
 *   Reach    Everything stands in the table: it holds in every process that has it open, for every
 *            request that is decided after the call has returned.
 *   Life     It outlives restarts, checkpoints, resizes and a process killed at any instruction. A
 *            call that was killed half way has happened for a limit or has not.
 *   Room     A ban or grant takes two cells of the table until it ends, for each limit. They are
 *            given to other keys last of all, when all candidates are bans and grants, and that is
 *            counted (weir_info: override_evicted).
 *   Cost     Decisions on keys without a ban or grant do not notice.
 *   Times    A ban or grant ends at a whole second: its end is rounded up.
 *   Threads  Any number of threads and processes may call at once. Of two that change the same ban
 *            or the same grant one is the last. None of these calls waits for another; all of them
 *            may take a while by an event loop's measure, weir_control_overrides milliseconds.
 *   Store    It is the table that is acted on. Limits that a central store decides heed the bans
 *            and grants of the table of whoever asks; their counters in the store are reset by what
 *            weir_control_question says.
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

/* Whose counters: those of a descriptor, as requests bring it, under the rules in force. */
struct weir_target {
	uint32_t size; /* sizeof(struct weir_target) */
	uint32_t reserved;
	struct weir_str domain;
	const struct weir_entry *entries;
	size_t count;
	/* Of the limits that apply, the one of this name, or of this name in statistics; empty: all
	 * of them. */
	struct weir_str limit;
	/* The limit that requests bring along instead of a rule's, or NULL: see weir_ask_add. */
	const struct weir_limit *override;
};

enum weir_counter_flags {
	WEIR_COUNTER_SHADOW = 1, /* counted, not enforced: shadow mode, or by `enforce` */
	WEIR_COUNTER_QUOTA = 2,  /* quota mode */
	WEIR_COUNTER_PAUSED = 4, /* paused, hence counted and not enforced */
	WEIR_COUNTER_CENTRAL =
		8, /* the central store decides: this is what the table knows of it */
	WEIR_COUNTER_OVERRIDE = 16, /* the limit is the target's `override` */
	WEIR_COUNTER_STORE = 32, /* CENTRAL, and these are the store's figures: of `weir serve` */
	WEIR_COUNTER_EVENTUAL = 64, /* counted in the table, and told to other nodes now and then */
	WEIR_COUNTER_EXCHANGED = 128, /* EVENTUAL, and what others told is in it */
};

/* One limit's counter. */
struct weir_counter {
	uint32_t size;      /* sizeof(struct weir_counter) as the library knows it */
	uint32_t flags;     /* enum weir_counter_flags */
	uint32_t algorithm; /* enum weir_algorithm */
	uint32_t requests;  /* the rule's: so many in each period */
	uint32_t limit;     /* what `remaining` counts down from: burst, queue …, and the grant */
	uint32_t remaining; /* what could be taken now, were it not banned */
	uint64_t period_ns;
	uint64_t retry_after_ns;   /* until one could be taken, were it not banned; or WEIR_NEVER */
	uint64_t reset_after_ns;   /* until it is as good as new */
	uint64_t banned_until_ns;  /* 0: it is not; WEIR_NEVER: for good */
	uint64_t granted_until_ns; /* 0: nothing is granted; WEIR_NEVER: for good */
	uint32_t granted;          /* part of `limit` */
	uint32_t reserved;
	struct weir_str name; /* the limit's, or empty */
	struct weir_str rule; /* its name in statistics; empty for an override */
};

/* Returns 0 to go on, anything else to end. Texts last until it returns. */
typedef int (*weir_counter_fn)(void *context, const struct weir_counter *counter);

/* Every call that has a target returns how many counters it was about, what `fn` ended with, or
 *   WEIR_EINVAL  an argument is missing or has another size
 *   WEIR_ETIME   now_ns is out of range, or an end is not behind it
 *   WEIR_ELIMIT  the override
 *   WEIR_ENOENT  no limit applies to the descriptor, or none of that name
 *   WEIR_EMOVED  the table was resized meanwhile: open it again, and call again
 * `error` may be NULL and otherwise gets a sentence. */

/* Tells about each counter; takes nothing. */
WEIR_API int weir_control_get(struct weir_engine *engine, const struct weir_target *target,
			      uint64_t now_ns, weir_counter_fn fn, void *context);

/* As good as new: nothing taken, nobody queued, no log, soft mode armed. Bans and grants stay.
 * Requests that wait in a leaky bucket's queue keep their time; new ones no longer wait for them.
 */
WEIR_API int weir_control_reset(struct weir_engine *engine, const struct weir_target *target,
				uint64_t now_ns, struct weir_error *error);

/* The counters of a target that the central store keeps, as a message to it that resets them: bytes
 * in the format of limiter/question.h, as weir_ask_question gives them. Returns how many bytes, 0:
 * the store keeps none of them, or the errors above, or WEIR_EROOM. */
WEIR_API int weir_control_question(struct weir_engine *engine, const struct weir_target *target,
				   void *bytes, size_t cap, uint64_t now_ns,
				   struct weir_error *error);

/* Until `until_ns` (WEIR_NEVER: for good) the limit is larger by `extra`: windows and logs count up
 * to limit + extra in each window, a token bucket holds burst + extra and a leaky bucket's queue
 * queue_size + extra, at the same rate. The sum is cut at what an algorithm can count: a log holds
 * WEIR_LOG_MAX, a bucket 100 years. A bucket with a limit of 0 stays shut. What was taken above the
 * limit still counts when the grant has ended. It replaces an earlier grant; 0 ends it, whatever
 * `until_ns` is. */
WEIR_API int weir_control_grant(struct weir_engine *engine, const struct weir_target *target,
				uint32_t extra, uint64_t until_ns, uint64_t now_ns,
				struct weir_error *error);

/* Until `until_ns` (WEIR_NEVER: for good; 0 lifts the ban) every request is refused, to come again
 * when the ban ends, and counts nowhere; what is given back is taken back. A rule that is in shadow
 * mode, or paused, says so and refuses nobody. */
WEIR_API int weir_control_ban(struct weir_engine *engine, const struct weir_target *target,
			      uint64_t until_ns, uint64_t now_ns, struct weir_error *error);

/* ---- what is in force ---- */

/* A ban or a grant, or both, on one counter. */
struct weir_override {
	uint32_t size; /* sizeof(struct weir_override) as the library knows it */
	uint32_t granted;
	uint64_t banned_until_ns;  /* 0: it is not; WEIR_NEVER: for good */
	uint64_t granted_until_ns; /* the same */
	uint64_t changed_ns;       /* in whole seconds; 0: not known */
	uint64_t counter;          /* a number that names the counter in this table */
	/* Texts are cut at 119 bytes, and empty when there was no room to note them: a table of
	 * 64 MiB notes a thousand. */
	struct weir_str rule; /* the limit's name in statistics */
	struct weir_str key;  /* domain and descriptor: "api|user=7" */
};

typedef int (*weir_override_fn)(void *context, const struct weir_override *override);

/* Tells about each, in no order. Reads the whole table. Returns 0, what `fn` ended with,
 * WEIR_EINVAL, WEIR_ETIME. */
WEIR_API int weir_control_overrides(struct weir_engine *engine, uint64_t now_ns,
				    weir_override_fn fn, void *context);

/* ---- pause ---- */

#define WEIR_PAUSES_MAX 64

/* What is paused refuses and delays nobody, and counts as in shadow mode. `rule` is a rule's name
 * in statistics ("api/route=signup/ip/1d"), or one that others begin with, up to a slash: "api/ip"
 * is all limits of that rule and of those below it, "api" the domain, empty everything. Rules need
 * not exist yet. What `missing: deny` refuses stays refused: that is no limit. WEIR_EINVAL,
 * WEIR_EMOVED, or WEIR_EMANY: WEIR_PAUSES_MAX are paused already */
WEIR_API int weir_control_pause(struct weir_engine *engine, struct weir_str rule,
				struct weir_error *error);

/* Takes back the pause of the same name: what is paused under another one stays so. WEIR_ENOENT:
 * nothing was paused under this name. */
WEIR_API int weir_control_resume(struct weir_engine *engine, struct weir_str rule,
				 struct weir_error *error);

/* Returns 0 to go on, anything else to end. */
typedef int (*weir_pause_fn)(void *context, struct weir_str rule);

/* Tells each name that is paused; the empty one first. The table keeps hashes of names: a name that
 * no rule has in its statistics, nor begins with, is told as "#" and its hash, and
 * weir_control_resume takes it in that form too. Returns 0, what `fn` ended with, or WEIR_EINVAL.
 */
WEIR_API int weir_control_paused(struct weir_engine *engine, weir_pause_fn fn, void *context);

#ifdef __cplusplus
}
#endif
#endif
