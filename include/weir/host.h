/* Calls for hosts: programs such as `weir serve` and the nginx module that carry questions to a
 * central store, hold delayed requests, queue deferred requests, or watch rule files without a
 * thread. Programs that only embed weir need weir/engine.h alone.
 *
 * QUESTIONS TO THE CENTRAL STORE
 *   With WEIR_ENGINE_CENTRAL, weir_ask_decide returns WEIR_WAIT if a limit has to be decided by the
 *   central store.
 *
 *   verdict = weir_ask_decide(ask, now_ns);
 *   if (verdict == WEIR_WAIT) {
 *           len = weir_ask_question(ask, bytes, sizeof bytes);
 *           …                                          // send them, wait for the answer
 *           verdict = weir_ask_answer(ask, answer, answer_len, now_ns);
 *           if (verdict == WEIR_EFORMAT)               // and on a timeout
 *                   verdict = weir_ask_store_failed(ask, now_ns);
 *   }
 *   while ((len = weir_ask_question(ask, bytes, sizeof bytes)) > 0)
 *           …                                          // send them; no answer is expected
 *
 *   After the verdict, weir_ask_question returns messages for the store: units to give back, and
 *   what this node admitted while the store was unavailable. Usually there are none.
 *
 *   Questions and answers are opaque bytes. `weir serve` accepts them on its Unix sockets: WEIR.ASK
 *   returns an answer, WEIR.TELL does not. Both sides must be of the same version of weir.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include <weir/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_opts;

/* ---- the central store ---- */

#define WEIR_QUESTION_MAX 20480 /* bytes of the longest question */

/* Whether the central store keeps a limit of the descriptors added so far. Returns 1, 0, or
 * WEIR_EINVAL. */
WEIR_API int weir_ask_central(const struct weir_ask *ask);

/* Writes the next message for the store. While the ask waits, it is the question, and every call
 * returns the same bytes. After the verdict, each message is returned once. Returns the length, 0
 * if there is no message, WEIR_EINVAL, or WEIR_EROOM. */
WEIR_API int weir_ask_question(struct weir_ask *ask, void *bytes, size_t cap);

/* Passes in the answer to the question. Returns the verdict, WEIR_EINVAL (the ask does not wait),
 * WEIR_ETIME, or WEIR_EFORMAT: the bytes are not an answer to this question; call
 * weir_ask_store_failed. */
WEIR_API int weir_ask_answer(struct weir_ask *ask, const void *bytes, size_t len, uint64_t now_ns);

/* Reports that there will be no answer: the `on_store_failure` of each rule applies. Returns the
 * verdict, WEIR_EINVAL or WEIR_ETIME. */
WEIR_API int weir_ask_store_failed(struct weir_ask *ask, uint64_t now_ns);

/* Handles an answer that came after weir_ask_store_failed. `question` is a copy of the question,
 * which the caller made while the ask waited; the ask may have ended. The call overwrites the copy
 * with a message for the store. Send the message once, and the units are counted once. Returns its
 * length, 0 if the answer took nothing, or WEIR_EFORMAT: not an answer to this question. */
WEIR_API int weir_question_late(void *question, size_t len, const void *answer, size_t answer_len);

/* ---- the fleet ----
 *
 * If the store fails, a rule with `on_store_failure: local` lets each node admit its share: the
 * limit divided by the number of nodes, and at least 1. Units that the store admitted before count.
 * The table holds the number of nodes for all processes that use it. */

#define WEIR_SECRET_BYTES 192

/* Sets or replaces the fleet's secret, which hashes the names of counters in questions. It is used
 * for descriptors that are added after the call. Until a secret is set, every limit of the central
 * store is decided as if weir_ask_store_failed had been called. Any thread may call it at any time.
 * `secret` has WEIR_SECRET_BYTES bytes and is copied; every secret stays in memory until the engine
 * is freed. Returns 0, WEIR_EINVAL or WEIR_EMEMORY. */
WEIR_API int weir_engine_fleet(struct weir_engine *engine, const uint8_t *secret);

/* Sets the number of live nodes, with this node. Returns 0 or WEIR_EINVAL: 0 nodes. */
WEIR_API int weir_fleet_note(struct weir_table *table, uint32_t nodes, uint64_t now_ns);

/* The number of nodes that was set last; 0: never. *noted_ns is when, in whole seconds; it may be
 * NULL. */
WEIR_API uint32_t weir_fleet_nodes(const struct weir_table *table, uint64_t *noted_ns);

/* ---- clocks and latency ---- */

/* Sets the time of CLOCK_BOOTTIME, by which leases end. It must not be older than the now_ns of the
 * decision. Optional: without it the engine reads the clock if a rule has `consistency: lease` or
 * `eventual`. For hosts that read one clock per decision and compute the wall clock from it.
 * Returns 0 or WEIR_EINVAL: already decided. */
WEIR_API int weir_ask_set_boottime(struct weir_ask *ask, uint64_t boottime_ns);

/* Returns 1 if the host should report how long this decision took, as for one decision in 64.
 *
 *   verdict = weir_ask_decide(ask, now_ns);
 *   …                                          // with WEIR_WAIT, weir_ask_answer
 *   if (weir_ask_wants_latency(ask) == 1)
 *           weir_ask_report_latency(ask, clock_ns() - now_ns);
 */
WEIR_API int weir_ask_wants_latency(const struct weir_ask *ask);

/* Adds the latency to the statistics. Returns 0, or WEIR_EINVAL: it was not wanted. */
WEIR_API int weir_ask_report_latency(struct weir_ask *ask, uint64_t ns);

/* ---- watching rule files without a thread ---- */

/* With WEIR_WATCH_BY_HOST: call it several times a second, always from the same thread. It checks
 * the rule files and calls weir_tick. Slow work, such as a load, runs in a thread that ends
 * afterwards. Returns 0, WEIR_EINVAL, or WEIR_ESYS: no thread could be started; the next call tries
 * again. */
WEIR_API int weir_watch_look(struct weir_watch *watch);

/* Whether the table, opened with `opts`, reserves less memory for logs than a table that is made
 * for these rules now. Returns 1 and writes a sentence with the remedy to `text`, or returns 0.
 * There is no advice if opts->log_bytes is set. */
WEIR_API int weir_log_advice(struct weir_table *table, const struct weir_opts *opts,
			     const struct weir_rules *rules, char *text, size_t size);

/* ---- deferred requests ----
 *
 * A host that queues refused requests for later delivery calls weir_ask_record before it adds
 * descriptors, and weir_ask_report_deferral after WEIR_DEFER. The deliverer replays the recorded
 * descriptors:
 *
 *   weir_ask_record(ask, memory, sizeof memory);          // the host
 *   weir_ask_http(ask, &view);
 *   if (weir_ask_decide(ask, now_ns) == WEIR_DEFER) {
 *           weir_ask_deferral(ask, &deferral);
 *           …                                             // queue it, with weir_ask_recorded
 *           weir_ask_report_deferral(ask, queued ? NULL : "full");
 *   }
 *
 *   weir_ask_replay(ask, bytes, len);                     // the deliverer
 *   weir_ask_mark_delivery(ask);
 *   weir_ask_decide(ask, now_ns);                         // ADMIT or DELAY: deliver it
 *
 * The table holds the number of queued requests of each key. While it is above 0, a recorded ask of
 * that key gets WEIR_DEFER and takes nothing, so that it is queued behind the earlier requests. An
 * ask that is not recorded gets WEIR_DEFER only if its limits refuse. */

#define WEIR_RECORD_MAX 16384 /* bytes for a record; requests that need more are not deferred */

/* Records the descriptors that are added after this call in `memory`, which the ask uses until
 * weir_ask_done. An override cannot be recorded. After an override, or if `cap` is too small,
 * weir_ask_deferral returns WEIR_EROOM. Returns 0 or WEIR_EINVAL: a descriptor was added before. */
WEIR_API int weir_ask_record(struct weir_ask *ask, void *memory, size_t cap);

/* The record. Empty if no limit of the request defers. */
WEIR_API struct weir_str weir_ask_recorded(const struct weir_ask *ask);

/* Adds the descriptors of a record with their costs. The record does not contain the domain.
 * Returns 0, the errors of weir_ask_add, or WEIR_EFORMAT: the bytes are not a record; nothing was
 * added. */
WEIR_API int weir_ask_replay(struct weir_ask *ask, const void *bytes, size_t len);

/* Marks the ask as the delivery of a deferred request: it does not wait behind the queued requests
 * of its key, and another refusal is not counted. Call it before weir_ask_decide. Returns 0 or
 * WEIR_EINVAL. */
WEIR_API int weir_ask_mark_delivery(struct weir_ask *ask);

/* Reports that the host cannot queue this request, for example because it is a GET: limits with
 * `on_limit: defer` refuse it. Call it before weir_ask_decide. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_ask_no_defer(struct weir_ask *ask);

/* How to queue a request. Texts belong to the rules and are valid until weir_ask_done. */
struct weir_deferral {
	uint32_t size; /* sizeof(struct weir_deferral), set by the caller */
	uint32_t max_tries;
	/* Requests with equal keys are delivered in order. The key names the counter of the most
	 * specific limit that defers. It is the same in all processes and on all nodes, and never
	 * changes. */
	uint8_t key[16];
	struct weir_str rule;           /* that limit's name in statistics */
	const struct weir_str *headers; /* header fields to queue, in lower case */
	uint32_t header_count;
	uint32_t max_waiting; /* requests that may be queued for the key */
	uint64_t max_body;
	uint64_t max_age_ns;
	uint64_t wait_ns;     /* until the limits would admit it if the queue were empty; or
				 WEIR_NEVER */
	uint64_t interval_ns; /* average time between two requests that the limit admits */
	/* How many queued requests of the key the limit can admit within max_age_ns. With that many
	 * queued, another request would expire before its delivery. 0: the request would expire
	 * even in an empty queue. UINT64_MAX: not known. */
	uint64_t in_time;
};

/* After WEIR_DEFER of a recorded ask. Returns 0, WEIR_EINVAL (no such verdict, or not recorded), or
 * WEIR_EROOM: the record did not fit, and the request cannot be queued. */
WEIR_API int weir_ask_deferral(const struct weir_ask *ask, struct weir_deferral *deferral);

/* Reports whether the host queued the request. NULL: it did, and the request counts as deferred.
 * Otherwise it counts as refused, and `why_not` is a word for the body of the refusal, which must
 * stay valid until weir_ask_done. Before this call the request is not counted. Returns the final
 * verdict, WEIR_DEFER or WEIR_REFUSE; or WEIR_EINVAL: the verdict was not WEIR_DEFER, the ask was
 * not recorded, or it was reported before. */
WEIR_API int weir_ask_report_deferral(struct weir_ask *ask, const char *why_not);

/* ---- positions in a queue ----
 *
 * A host that holds delayed requests moves the others up when a client leaves. It swaps the
 * position of the leaving request with each later request of the same queue. The leaving request
 * then has the last position, and the host cancels it:
 *
 *   weir_ask_swap_positions(leaving, next); weir_ask_swap_positions(leaving, the one after); …
 *   weir_ask_cancel(leaving, now_ns);
 *
 * Several processes may hold positions of one queue. A position with requests of another process
 * behind it is not given back and stays empty, so that departures never come closer together. */

struct weir_queue_position {
	uint32_t size; /* sizeof(struct weir_queue_position), set by the caller */
	uint32_t reserved;
	uint64_t queue;  /* names the leaky bucket with the longest delay; equal in all processes */
	uint64_t due_ns; /* when the request may go on */
};

/* The position of a request with the verdict WEIR_DELAY. Returns 0, or WEIR_EINVAL: another
 * verdict, or cancelled. */
WEIR_API int weir_ask_queue_position(const struct weir_ask *ask,
				     struct weir_queue_position *position);

/* Swaps the positions of two requests of one queue; `leaving` must be before `staying`. Afterwards
 * weir_ask_queue_position returns the new positions; if `staying` is in several queues, its queue
 * may be another. Returns 0, or WEIR_EINVAL: not in one queue, wrong order, or different costs. */
WEIR_API int weir_ask_swap_positions(struct weir_ask *leaving, struct weir_ask *staying);

#ifdef __cplusplus
}
#endif
#endif
