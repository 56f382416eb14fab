/* WEIR.DEFER and WEIR.TICKET: how the nginx module hands over a request that is to be delivered
 * later, and asks what became of one. Only on a Unix socket, whose peer has been checked; no
 * password is asked for. Without --queue both answer as below, so a client needs no other probe.
 *
 * Speak them on a connection of their own: replies come in the order of the commands, and a
 * WEIR.ASK behind a WEIR.DEFER would wait for the disk. Commands may be sent one after the other
 * without waiting, and should be: what comes while the disk is busy is made durable together. Up to
 * WR_RESP_WAITS_MAX (256) are taken at once from a connection, then it is not read until one is
 * answered. Replies are those of RESP2.
 *
 *   WEIR.DEFER 1 domain rule key method uri descriptors
 *              max_waiting max_age_s max_tries wait_ns interval_ns body [name value]…
 *
 *      1            the version of this command
 *      domain       of the ask, 1 to 255 bytes
 *      rule         name of the rule that deferred it, as in statistics, up to 255 bytes
 *      key          16 bytes as they are: weir_deferral's. Requests of one key are delivered in the
 *                   order they came in
 *      method       token of up to 16 bytes: POST
 *      uri          path and query as the client sent them, 1 to 8192 bytes, begins with '/'
 *      descriptors  what weir_ask_record wrote, up to 16384 bytes; may be empty: then no limit
 *                   holds its delivery back
 *      max_waiting  decimal, from 1: how many of this key may wait
 *      max_age_s    decimal, from 1: after so many seconds it is given up
 *      max_tries    decimal, from 1 to 1000000: after so many deliveries without an answer too
 *      wait_ns      decimal: when the limits would admit it, were it alone (weir_deferral's;
 *                   WEIR_NEVER is fine)
 *      interval_ns  decimal: how far apart the limit admits requests of this key in the long run
 *                   (period ÷ requests); 0: not known
 *      body         up to WR_DEFER_BODY_MAX bytes; the rule's max_body is for the client to keep
 *      name value   header fields that the rule lets be stored, as they came, several of a name in
 *                   their order; up to WR_DEFER_FIELDS_MAX of them and WR_DEFER_FIELD_BYTES_MAX
 *                   bytes together. `host` is to be among them. Idempotency-Key if the client sent
 *                   one. Hop-by-hop fields and Content-Length are dropped here, if they come.
 *                   Fields that hold credentials (wr_defer_is_secret) are stored sealed, and
 *                   without --queue-key the request is refused for them (no_key)
 *
 *   → *3 · $32 ticket · :position · :expected_ns          it is durable
 *        ticket       32 hexadecimal digits in lower case, for Location and X-Weir-Ticket
 *        position     among those of its key, from 1: the next to go
 *        expected_ns  until it is delivered, by a guess: wait_ns + (position − 1) × interval_ns
 *   → -DEFER reason sentence                              it is not stored: answer 429
 *        reason is one word of WR_DEFER_REASONS, the sentence says what to do about it
 *   → -ERR … / -NOPERM …   a command that is no such command; answer 429 as for an error
 *
 *   A connection that breaks before the reply came says nothing about whether it is stored. It may
 *   be, and will be delivered then; the client is told 429 all the same, never 202.
 *
 *   WEIR.TICKET ticket
 *
 *   → $n JSON, to be passed on as it is (wire/check/ticket_json.h)
 *        {"ticket":"…","status":"waiting","position":3,"expected_delay":4.5,"accepted":"…",…}
 *   → $-1          unknown, expired, or not a ticket at all: answer 404
 *   → -DEFER away …, -DEFER off …   it can not be told now: answer 503
 */
#ifndef WR_WIRE_RESP_COMMANDS_DEFER_H
#define WR_WIRE_RESP_COMMANDS_DEFER_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#include "wire/resp/resp.h"

#define WR_DEFER_VERSION 1
#define WR_DEFER_ARGS 14                              /* with the command, before header fields */
#define WR_DEFER_BODY_MAX WR_RESP_LARGE_ARG_BYTES_MAX /* 16 MiB */
#define WR_DEFER_FIELDS_MAX 100u
#define WR_DEFER_FIELD_BYTES_MAX (32u << 10)
#define WR_DEFER_DESCRIPTORS_MAX 16384u
#define WR_DEFER_URI_MAX 8192u
#define WR_DEFER_NAME_MAX 255u /* domain, rule */
#define WR_DEFER_METHOD_MAX 16u
#define WR_DEFER_KEY_BYTES 16u
#define WR_DEFER_TICKET_CHARS 32u
#define WR_DEFER_TRIES_MAX 1000000u
#define WR_DEFER_AGE_MAX_S (366ull * 86400)

/* X(reason, sentence): why a request is not stored. */
#define WR_DEFER_REASONS(X)                                                                        \
	X(off, "there is no queue: start weir with --queue")                                       \
	X(full, "as many requests wait as may (--queue-max)")                                      \
	X(key_full, "as many requests of this key wait as may (max_waiting of the rule)")          \
	X(key_bytes_full, "as many bytes of this key wait as may (--queue-line-bytes)")            \
	X(bytes_full, "as many bytes wait as may (--queue-bytes)")                                 \
	X(too_large, "the request is larger than can be stored")                                   \
	X(no_space, "the disk of the queue is full")                                               \
	X(away, "the queue's Redis does not answer")                                               \
	X(not_persistent,                                                                          \
	  "the queue's Redis would lose it: appendonly is off, or keys are evicted")               \
	X(corrupt, "the file of the queue is damaged")                                             \
	X(read_only, "the queue can not be written to")                                            \
	X(busy, "too many requests are on their way to the queue")                                 \
	X(no_key, "it has a field with credentials and there is no key to seal it: --queue-key")   \
	X(ending, "weir is shutting down")                                                         \
	X(bad, "it does not say what WEIR.DEFER is to be told")                                    \
	X(error, "the queue failed; its log tells more")

/* A request to be stored; points into the command. */
struct wr_defer_request {
	struct weir_str domain, rule, key, method, uri, descriptors, body;
	uint64_t max_waiting, max_age_s, max_tries, wait_ns, interval_ns;
	const struct weir_str *fields; /* name, value, name, value … */
	uint32_t field_count;          /* pairs */
};

/* The sentence of a word of WR_DEFER_REASONS. */
const char *wr_defer_sentence(const char *reason);

/* Whether a field holds credentials: Authorization, Cookie … */
bool wr_defer_is_secret(struct weir_str name);

#endif
