/* Calls for hosts: programs such as `weir serve` and the nginx module that carry questions to a
 * central store, settle requests by their responses, hold delayed requests, queue deferred
 * requests, or watch rule files without a thread. Programs that only embed weir need weir/engine.h
 * alone.
 *
 * QUESTIONS TO THE CENTRAL STORE
 *   With WEIR_ENGINE_CENTRAL, weir_ask_decide returns WEIR_WAIT if a limit has to be decided by the
 *   central store.
 *
 *   verdict = weir_ask_decide(ask, now_ns);
 *   if (verdict == WEIR_WAIT) {
 *           len = weir_ask_question(ask, bytes, sizeof bytes);
 *           …                                          // send the bytes, wait for the answer
 *           verdict = weir_ask_answer(ask, answer, answer_len, now_ns);
 *           if (verdict == WEIR_EFORMAT)               // or if no answer has arrived in time
 *                   verdict = weir_ask_store_failed(ask, now_ns);
 *   }
 *   while ((len = weir_ask_question(ask, bytes, sizeof bytes)) > 0)
 *           …                                          // send the bytes; no answer is expected
 *
 *   After the verdict, weir_ask_question returns messages for the central store: units to give
 *   back, and units that this node admitted while the central store was unavailable. Usually there
 *   is no message.
 *
 *   Questions and answers are opaque bytes. `weir serve` accepts them on its Unix sockets: WEIR.ASK
 *   returns an answer, WEIR.TELL does not. The host and the service must have the same version of
 *   weir.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include <weir/engine.h>
#include <weir/reader.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_opts;

/* ---- the central store ---- */

#define WEIR_QUESTION_MAX 20480 /* maximum number of bytes of a question */

/* Looks at the limits that apply to the descriptors added so far. Returns 1 if the central store
 * decides one of them, or if one has `consistency: eventual` and its counter does not take part in
 * the exchange with other nodes yet. Otherwise returns 0. Returns WEIR_EINVAL if `ask` is not an
 * ask. */
WEIR_API int weir_ask_central(const struct weir_ask *ask);

/* Writes the next message for the central store. While the ask waits for the central store, the
 * message is the question, and every call writes the same bytes. After the verdict, each message is
 * written once. Returns the length of the message, 0 if there is no message, WEIR_EINVAL, or
 * WEIR_EROOM if `cap` is too small. */
WEIR_API int weir_ask_question(struct weir_ask *ask, void *bytes, size_t cap);

/* Passes in the answer of the central store. Returns the verdict, WEIR_EINVAL (the ask does not
 * wait), WEIR_ETIME, or WEIR_EFORMAT if the bytes are not an answer to the ask's question. After
 * WEIR_EFORMAT the caller must call weir_ask_store_failed. */
WEIR_API int weir_ask_answer(struct weir_ask *ask, const void *bytes, size_t len, uint64_t now_ns);

/* Tells the ask that the central store will not answer. The ask is then decided by the
 * `on_store_failure` of each rule. Returns the verdict, WEIR_EINVAL or WEIR_ETIME. */
WEIR_API int weir_ask_store_failed(struct weir_ask *ask, uint64_t now_ns);

/* Handles an answer that came after weir_ask_store_failed. The central store has counted the units
 * in this answer, although the request was decided without the answer. `question` is a copy of the
 * ask's question, which the caller must make while the ask waits. The ask itself is not used,
 * because it has perhaps ended. The call overwrites the copy with a message about these units. The
 * caller must send this message to the central store exactly once. The central store then gives
 * back the units that it has counted twice, or that were not admitted. Returns the length of the
 * message, 0 if the central store took nothing, WEIR_EINVAL, or WEIR_EFORMAT if the bytes are not
 * an answer to this question. */
WEIR_API int weir_question_late(void *question, size_t len, const void *answer, size_t answer_len);

/* ---- the fleet ----
 *
 * If the central store fails, a rule with `on_store_failure: local` lets each node admit its share:
 * the limit divided by the number of nodes, and at least 1. Units that the central store granted
 * this node before the failure count against the share. The table holds the number of nodes for all
 * processes that use the table. */

#define WEIR_SECRET_BYTES 192

/* Sets or replaces the fleet's secret. The names of counters in questions are hashed with this
 * secret. A new secret is used for descriptors that are added after the call. Until a secret is
 * set, every limit of the central store is decided as if weir_ask_store_failed had been called. Any
 * thread may call this function at any time. `secret` has WEIR_SECRET_BYTES bytes and is copied;
 * every secret stays in memory until the engine is freed. Returns 0, WEIR_EINVAL or WEIR_EMEMORY.
 */
WEIR_API int weir_engine_fleet(struct weir_engine *engine, const uint8_t *secret);

/* Sets the number of live nodes, including this node. Returns 0, or WEIR_EINVAL, for example if
 * `nodes` is 0. */
WEIR_API int weir_fleet_note(struct weir_table *table, uint32_t nodes, uint64_t now_ns);

/* Returns the number of nodes that weir_fleet_note set last, or 0 if it was never called. Sets
 * *noted_ns to the time of that call in ns, rounded down to a whole second. `noted_ns` may be
 * NULL. */
WEIR_API uint32_t weir_fleet_nodes(const struct weir_table *table, uint64_t *noted_ns);

/* ---- clocks and latency ---- */

/* Passes in the current time of CLOCK_BOOTTIME, by which leases end. The host must read this clock
 * when it reads the now_ns of the decision, or after that. The call is optional: without it the
 * engine reads CLOCK_BOOTTIME if a rule has `consistency: lease` or `eventual`. The call is meant
 * for hosts that read only CLOCK_BOOTTIME and compute the wall clock from it. Returns 0, or
 * WEIR_EINVAL, for example if the ask is already decided. */
WEIR_API int weir_ask_set_boottime(struct weir_ask *ask, uint64_t boottime_ns);

/* Returns 1 if the host should report how long this decision took. That is so for one decision in
 * 64.
 *
 *   verdict = weir_ask_decide(ask, now_ns);
 *   …                                          // with WEIR_WAIT, weir_ask_answer
 *   if (weir_ask_wants_latency(ask) == 1)
 *           weir_ask_report_latency(ask, clock_ns() - now_ns);
 */
WEIR_API int weir_ask_wants_latency(const struct weir_ask *ask);

/* Adds the latency of the decision to the statistics. Returns 0, or WEIR_EINVAL if
 * weir_ask_wants_latency does not return 1 for the ask. */
WEIR_API int weir_ask_report_latency(struct weir_ask *ask, uint64_t ns);

/* ---- watching rule files without a thread ---- */

/* Checks the rule files and calls weir_tick. A host that set WEIR_WATCH_BY_HOST calls it several
 * times a second, always from the same thread. Slow work, such as a load, runs in a new thread that
 * ends when the work is done. Returns 0, WEIR_EINVAL, or WEIR_ESYS if no thread could be started;
 * the next call tries again. */
WEIR_API int weir_watch_look(struct weir_watch *watch);

/* Compares the memory that the table has for logs with the memory that a new table for these rules
 * would have. `opts` are the options with which the table was opened. If the table has less than
 * half of this memory, returns 1 and writes a sentence with the remedy to `text`.
 * Otherwise returns 0. Also returns 0 if the rules have no logs, or if opts->log_bytes is set. */
WEIR_API int weir_log_advice(struct weir_table *table, const struct weir_opts *opts,
			     const struct weir_rules *rules, char *text, size_t size);

/* ---- settling ----
 *
 * The cost of some requests depends on their response: tokens, bytes, or nothing if the response
 * is an error. The limiter charges these requests when they are decided. The host settles the ask
 * when the response is known. Settling also gives back the slots that the request holds.
 *
 *   struct weir_reader *reader = NULL;
 *   struct weir_outcome outcome = {.size = sizeof outcome};
 *
 *   verdict = weir_ask_decide(ask, now_ns);
 *   flags = weir_ask_settles(ask);
 *   …                                                     // pass the request on
 *   if (flags > 0 && flags & WEIR_SETTLE_BODY)            // when the Content-Type is known
 *           weir_ask_reader(ask, memory, sizeof memory, content_type, &reader);
 *   while (…)                                             // each part of the body, as it passes
 *           if (reader)
 *                   weir_reader_feed(reader, bytes, len);
 *   if (flags > 0) {                                      // the response has been sent
 *           if (reader)
 *                   weir_reader_end(reader);
 *           outcome.status = 200;                         // and the other fields
 *           outcome.reader = reader;
 *           weir_ask_settle_outcome(ask, &outcome, now_ns);
 *   }
 *   weir_ask_done(ask);
 *
 * If weir_ask_settles returns more than 0, the host keeps the ask until the response has been sent.
 * If the host calls weir_ask_done without settling the ask, the request stays charged, and its
 * slots are free after their max_hold. After settling, weir_ask_question can return messages for
 * the central store, as after weir_ask_cancel.
 *
 * The ask is settled by the process that decided it. A program that cannot keep the ask, for
 * example because another process learns the cost, uses the reservations of `weir serve`
 * (docs/http-api.md): POST /v1/reserve returns a text with which any client can commit. */

enum weir_settle_flags {
	WEIR_SETTLE_NEEDED = 1, /* the ask must be settled; set whenever another flag is set */
	WEIR_SETTLE_BODY = 2,   /* a cost is in the body: weir_ask_reader makes a reader for it */
	WEIR_SETTLE_SLOT = 4,   /* the ask holds a slot of a limit on concurrent requests */
};

/* Returns a combination of enum weir_settle_flags for a decided ask. WEIR_SETTLE_NEEDED is set
 * whenever the result is above 0. Returns 0 if there is nothing to settle, for example because the
 * request was refused or is already settled. Returns WEIR_EINVAL, which is below 0, if the ask is
 * not decided. */
WEIR_API int weir_ask_settles(const struct weir_ask *ask);

/* Creates a reader for the body of the response in `memory` of WEIR_READER_BYTES bytes. The reader
 * uses texts of the rules, so it must not be used after weir_ask_done. Returns 0. On failure leaves
 * *reader unchanged and returns WEIR_ENOENT if the ask needs no reader or the type of the body
 * cannot be read, WEIR_EINVAL, or an error of weir_reader_init. */
WEIR_API int weir_ask_reader(struct weir_ask *ask, void *memory, size_t size,
			     struct weir_str content_type, struct weir_reader **reader);

/* The facts of a response that costs depend on. A smaller or larger `size` is handled as in struct
 * weir_engine_opts (weir/engine.h). */
struct weir_outcome {
	uint32_t size; /* sizeof(struct weir_outcome) */
	/* HTTP status. 0: the client got no response, for example because it left. The reserved
	 * units then stay charged, and slots are given back. */
	uint32_t status;
	uint64_t bytes;   /* bytes of the body that were sent */
	uint64_t time_ns; /* time from the arrival of the request to the end of the response */
	/* The header fields of the response, as in struct weir_http_view (weir/rules.h). */
	const struct weir_header *headers;
	size_t header_count;
	size_t (*header)(void *context, struct weir_str name, struct weir_str *values, size_t max);
	void *context;
	/* 1: the client left before the whole response was sent. Without a value in the part that
	 * was sent, the reservation stays charged, whatever `default` of the entry is. */
	uint32_t incomplete;
	/* 1: request_bytes is the length of the request's body, of which the host has received all.
	 * Only needed if the length was not known at arrival (WEIR_LENGTH_LATER in weir/rules.h).
	 * If it is still not known, the units that were charged at arrival stay charged. */
	uint32_t request_known;
	struct weir_reader *reader; /* from weir_ask_reader, after weir_reader_end; NULL: none */
	uint64_t request_bytes;
};

/* Settles the ask by the response. The entry of `requests:` that made a descriptor tells the actual
 * cost of this descriptor. If fewer units were used than charged, the difference is given back as
 * by weir_settle. If more units were used, the difference is charged, even beyond the limit. The
 * slots of the request are given back. A descriptor that no entry made keeps its charge. An ask is
 * settled at most once: a later call returns WEIR_EINVAL, and so does a call for an ask that was
 * cancelled. Returns 0, WEIR_EINVAL or WEIR_ETIME. */
WEIR_API int weir_ask_settle_outcome(struct weir_ask *ask, const struct weir_outcome *outcome,
				     uint64_t now_ns);

/* Settles the ask: the actual cost of each descriptor is `actual`, 0 or more. The slots of the
 * request are given back. Use this call for descriptors of weir_ask_add. Returns the same values as
 * weir_ask_settle_outcome. */
WEIR_API int weir_ask_settle(struct weir_ask *ask, int64_t actual, uint64_t now_ns);

/* Reads the cost of a decided ask: *charged is the cost at arrival, *actual the cost after
 * settling, or -1 if the ask was not settled. If the descriptors have different costs, both are the
 * largest cost. Slots are no cost. `actual` may be NULL. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_ask_cost(const struct weir_ask *ask, int64_t *charged, int64_t *actual);

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
 *           …                                             // queue request and weir_ask_recorded
 *           weir_ask_report_deferral(ask, queued ? NULL : "full");
 *   }
 *
 *   weir_ask_replay(ask, bytes, len);                     // the deliverer
 *   weir_ask_mark_delivery(ask);
 *   weir_ask_decide(ask, now_ns);                         // if ADMIT or DELAY, deliver the request
 *
 * The table holds the number of queued requests of each key. While this number is above 0, a
 * recorded ask of the key gets WEIR_DEFER and takes nothing, so that its request is queued behind
 * the earlier requests. An ask that is not recorded gets WEIR_DEFER only if its limits refuse. */

/* A record contains the descriptors of an ask as bytes. The host stores the record with a deferred
 * request. A record has at most this many bytes; a request that needs more is not deferred. */
#define WEIR_RECORD_MAX 16384

/* Makes the ask record the descriptors that are added after this call. The record is written to
 * `memory`, which the ask uses until weir_ask_done. An override cannot be recorded: if one is
 * added, or if `cap` is too small, weir_ask_deferral returns WEIR_EROOM. Returns 0, or WEIR_EINVAL,
 * for example if a descriptor was already added. */
WEIR_API int weir_ask_record(struct weir_ask *ask, void *memory, size_t cap);

/* Returns the record of the ask, which the host stores with the deferred request. The record is
 * empty if no limit of the request defers, or if the request could not be recorded completely. */
WEIR_API struct weir_str weir_ask_recorded(const struct weir_ask *ask);

/* Adds the descriptors of a record with their costs. The record does not contain the domain.
 * Returns 0 or an error of weir_ask_add. If the bytes are not a record, adds no descriptor and
 * returns WEIR_EFORMAT. */
WEIR_API int weir_ask_replay(struct weir_ask *ask, const void *bytes, size_t len);

/* Marks the ask as the delivery of a deferred request. The ask then does not wait behind the queued
 * requests of its key, and if it is refused again, the refusal is not counted. Call it before
 * weir_ask_decide. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_ask_mark_delivery(struct weir_ask *ask);

/* Reports that the host cannot queue this request, for example because it is a GET. Limits with
 * `on_limit: defer` then refuse the request instead of deferring it. Call it before
 * weir_ask_decide. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_ask_no_defer(struct weir_ask *ask);

/* Reports that the host serves the request even if it is refused, because the host only tries its
 * rules. Refusals then lead to bans in shadow mode only. Call it before weir_ask_decide. Returns 0
 * or WEIR_EINVAL. */
WEIR_API int weir_ask_dry_run(struct weir_ask *ask);

/* Describes how the host queues a request. Texts belong to the rules and are valid until
 * weir_ask_done. A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size`
 * must include the fields up to `max_age_ns`, because the host must obey them. */
struct weir_deferral {
	uint32_t size; /* sizeof(struct weir_deferral), set by the caller */
	uint32_t max_tries;
	/* Requests with equal keys are delivered in order. The key identifies the counter of the
	 * most specific limit that defers. Equal counters have equal keys in all processes, on all
	 * nodes and at all times. */
	uint8_t key[16];
	struct weir_str rule;           /* name in statistics of the limit that `key` belongs to */
	const struct weir_str *headers; /* names of the header fields to queue, in lower case */
	uint32_t header_count;
	uint32_t max_waiting; /* maximum number of requests that may be queued for the key */
	uint64_t max_body;
	uint64_t max_age_ns;
	/* Time until the limits would admit the request if the queue were empty. WEIR_NEVER: they
	 * would never admit it. */
	uint64_t wait_ns;
	uint64_t interval_ns; /* average time between two requests that the limit `rule` admits */
	/* Number of queued requests of the key that the limit `rule` can admit within
	 * max_age_ns. If that many requests are queued, another request would expire before its
	 * delivery. 0: the request would expire even in an empty queue. UINT64_MAX: the number is
	 * not known. */
	uint64_t in_time;
};

/* Fills in *deferral. Called after a recorded ask got the verdict WEIR_DEFER. Returns 0,
 * WEIR_EINVAL (another verdict, or the ask is not recorded), or WEIR_EROOM if the record is not
 * complete, so that the request cannot be queued. */
WEIR_API int weir_ask_deferral(const struct weir_ask *ask, struct weir_deferral *deferral);

/* Reports whether the host queued the request. If `why_not` is NULL, the host queued it, and the
 * request counts as deferred. Otherwise the request counts as refused, and `why_not` is the reason
 * in one word for the body of the refusal; the text must stay valid until weir_ask_done. Before
 * this call the request is not counted. Returns the final verdict, WEIR_DEFER or WEIR_REFUSE.
 * Returns WEIR_EINVAL if the verdict was not WEIR_DEFER, if the ask was not recorded, or if this
 * function was already called for the ask. */
WEIR_API int weir_ask_report_deferral(struct weir_ask *ask, const char *why_not);

/* ---- positions in a queue ----
 *
 * If a client disconnects, a host that holds delayed requests can move the later requests of the
 * queue up. The host swaps the position of the leaving request with each later request of the same
 * queue. The leaving request then has the last position, and the host cancels it:
 *
 *   weir_ask_swap_positions(leaving, next); weir_ask_swap_positions(leaving, the one after); …
 *   weir_ask_cancel(leaving, now_ns);
 *
 * Several processes may hold positions of one queue. If requests of another process are behind a
 * position, the position is not given back and stays empty, so that departures never come closer
 * together. */

/* A larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include all fields
 * up to `due_ns`. */
struct weir_queue_position {
	uint32_t size; /* sizeof(struct weir_queue_position), set by the caller */
	uint32_t reserved;
	/* Identifies the leaky bucket that delays the request longest. A leaky bucket has the same
	 * value in all processes. */
	uint64_t queue;
	uint64_t due_ns; /* the request must not be passed on before this time */
};

/* Reads the position of a request with the verdict WEIR_DELAY. Returns 0, or WEIR_EINVAL if the ask
 * has another verdict or was cancelled. */
WEIR_API int weir_ask_queue_position(const struct weir_ask *ask,
				     struct weir_queue_position *position);

/* Swaps the positions of two requests in the same queue, so that `staying` moves forward. `leaving`
 * is a request whose client has disconnected. Its position must be before the position of
 * `staying`. Afterwards weir_ask_queue_position returns the new positions. If `staying` is in
 * several queues, another queue can now delay it longest; weir_ask_queue_position then returns its
 * position in that queue. Returns 0, or WEIR_EINVAL if the requests are not in the same queue, are
 * in the wrong order, or have different costs. */
WEIR_API int weir_ask_swap_positions(struct weir_ask *leaving, struct weir_ask *staying);

#ifdef __cplusplus
}
#endif
#endif
