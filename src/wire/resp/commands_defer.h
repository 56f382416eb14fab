/* WEIR.DEFER and WEIR.TICKET: the nginx module stores a request for later delivery, and asks for
 * its state. Only on a Unix socket, after WEIR.LINK; no password is needed. Without --queue both
 * commands reply as below, so a client needs no other probe.
 *
 * Send them on a connection of their own: replies come in the order of the commands, and a WEIR.ASK
 * behind a WEIR.DEFER would wait for the disk. Send commands without waiting for replies: requests
 * that arrive while the disk is busy become durable together. Up to WR_RESP_WAITS_MAX (256)
 * commands of a connection may wait; then the connection is not read until a reply is written.
 * Replies are those of RESP2.
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
 *      descriptors  output of weir_ask_record, up to 16384 bytes; empty: no limit delays the
 *                   delivery
 *      max_waiting  decimal, from 1: how many requests of this key may wait
 *      max_age_s    decimal, from 1: seconds until the request becomes a dead letter
 *      max_tries    decimal, from 1 to 1000000: attempts until it becomes a dead letter
 *      wait_ns      decimal: when the limits would admit it if it were alone (weir_deferral's;
 *                   WEIR_NEVER is allowed)
 *      interval_ns  decimal: average time between requests of this key that the limit admits
 *                   (period ÷ requests); 0: not known
 *      body         up to WR_DEFER_BODY_MAX bytes; the client enforces the rule's max_body
 *      name value   header fields that the rule stores, unchanged and in order; up to
 *                   WR_DEFER_FIELDS_MAX of them and WR_DEFER_FIELD_BYTES_MAX bytes together. `host`
 *                   is required. Idempotency-Key if the client sent one. Hop-by-hop fields and
 *                   Content-Length are dropped here. Fields with credentials
 *                   (wr_defer_is_secret) are stored sealed; without --queue-key a request with
 *                   them is refused (no_key)
 *
 *   → *3 · $32 ticket · :position · :expected_ns          the request is durable
 *        ticket       32 hexadecimal digits in lower case, for Location and X-Weir-Ticket
 *        position     in the queue of its key, from 1: the next to be delivered
 *        expected_ns  estimated time until delivery: wait_ns + (position − 1) × interval_ns
 *   → -DEFER reason sentence                              the request is not stored: respond 429
 *        reason is one word of WR_DEFER_REASONS, the sentence is the remedy
 *   → -ERR … / -NOPERM …   not a valid command, or not allowed; respond 429 as for an error
 *
 *   When the connection breaks before the reply, the request may be stored, and is delivered then.
 *   The client gets 429, never 202.
 *
 *   WEIR.TICKET ticket
 *
 *   → $n JSON, passed on unchanged (wire/check/ticket_json.h)
 *        {"ticket":"…","status":"waiting","position":3,"expected_delay":4.5,"accepted":"…",…}
 *   → $-1          unknown, expired, or not a ticket: respond 404
 *   → -DEFER away …, -DEFER off …   the queue is unavailable: respond 503
 * */
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

/* X(reason, sentence): reasons why a request is not stored. */
#define WR_DEFER_REASONS(X)                                                                        \
	X(off, "there is no queue: start weir with --queue")                                       \
	X(full, "the queue is full: raise --queue-max")                                            \
	X(key_full, "the queue of this key is full: max_waiting of the rule")                      \
	X(key_bytes_full, "the queue of this key has too many bytes: raise --queue-line-bytes")    \
	X(bytes_full, "the queue has too many bytes: raise --queue-bytes")                         \
	X(too_large, "the request is larger than can be stored")                                   \
	X(no_space, "the disk of the queue is full")                                               \
	X(away, "the queue's Redis does not answer")                                               \
	X(not_persistent,                                                                          \
	  "the queue's Redis would lose the request: appendonly is off, or keys are evicted")      \
	X(corrupt, "the file of the queue is damaged")                                             \
	X(read_only, "the queue cannot be written to")                                             \
	X(busy, "too many requests are in flight to the queue")                                    \
	X(no_key, "a field has credentials, and there is no key to seal it: --queue-key")          \
	X(ending, "weir is shutting down")                                                         \
	X(bad, "the arguments of WEIR.DEFER are invalid")                                          \
	X(error, "the queue failed: see its log")

/* A request to be stored; points into the command. */
struct wr_defer_request {
	struct weir_str domain, rule, key, method, uri, descriptors, body;
	uint64_t max_waiting, max_age_s, max_tries, wait_ns, interval_ns;
	const struct weir_str *fields; /* name, value, name, value … */
	uint32_t field_count;          /* pairs */
};

/* The sentence of a word of WR_DEFER_REASONS. */
const char *wr_defer_sentence(const char *reason);

/* Whether a field has credentials: Authorization, Cookie … */
bool wr_defer_is_secret(struct weir_str name);

#endif
