/* WEIR.DEFER and WEIR.TICKET: with WEIR.DEFER the nginx module stores a request for later delivery,
 * and with WEIR.TICKET it asks for the state of the request. The commands are allowed only on a
 * Unix socket, after WEIR.LINK; no password is needed. Without --queue both commands reply with
 * -DEFER off, so a client can find out whether there is a queue.
 *
 * A client should send these commands on a separate connection: replies come in the order of the
 * commands, so a WEIR.ASK after a WEIR.DEFER would wait for the disk. A client should not wait for
 * a reply before it sends the next command, because requests that arrive while the disk is busy
 * become durable together. Up to WR_RESP_WAITS_MAX (256) commands of a connection may wait. If so
 * many wait, the service does not read from the connection until it has written a reply. Replies
 * are in RESP2.
 *
 *   WEIR.DEFER 1 domain rule key method uri descriptors
 *              max_waiting max_age_s max_tries wait_ns interval_ns body [name value]…
 *
 *      1            the version of this command
 *      domain       domain of the ask, 1 to 255 bytes
 *      rule         name of the rule that deferred the request, as in statistics, up to 255 bytes
 *      key          the 16 bytes of the key in weir_deferral, in binary. Requests of one key are
 *                   delivered in the order in which they were stored
 *      method       token of up to 16 bytes: POST
 *      uri          path and query as the client sent them, 1 to 8192 bytes, begins with '/'
 *      descriptors  output of weir_ask_record, up to 16384 bytes; empty: no limit delays the
 *                   delivery
 *      max_waiting  decimal, from 1: how many requests of this key may wait
 *      max_age_s    decimal, from 1: seconds until the request becomes a dead letter
 *      max_tries    decimal, from 1 to 1000000: tries until the request becomes a dead letter
 *      wait_ns      decimal: time until the limits would admit the request if no other request
 *                   waited (from weir_deferral; WEIR_NEVER is allowed)
 *      interval_ns  decimal: average time between requests of this key that the limit admits
 *                   (period ÷ requests); 0: not known
 *      body         up to WR_DEFER_BODY_MAX bytes; the client enforces the rule's max_body
 *      name value   header fields that the rule stores, unchanged and in order; up to
 *                   WR_DEFER_FIELDS_MAX fields with WR_DEFER_FIELD_BYTES_MAX bytes together. `host`
 *                   is required. Idempotency-Key is included if the client sent it. The service
 *                   drops hop-by-hop fields and Content-Length. Fields with credentials
 *                   (wr_wire_defer_is_secret) are stored encrypted; without --queue-key a request with
 *                   such fields is refused (no_key)
 *
 *   → an array: $32 ticket, :position, :expected_ns       the request is durable
 *        ticket       32 hexadecimal digits in lower case, for Location and X-Weir-Ticket
 *        position     position in the line of its key; 1 is the next request to be delivered
 *        expected_ns  estimated time until delivery: wait_ns + (position − 1) × interval_ns
 *   → -DEFER reason sentence                              the request is not stored: respond 429
 *        reason       a name of WR_QUEUE_REASONS (queue/reason.h); `off`: there is no queue;
 *                     `bad`: the arguments are invalid
 *        sentence     a text for people: the cause and, where there is one, the remedy
 *   → -ERR … / -NOPERM …   not a valid command, or not allowed; respond 429 as for an error
 *
 *   If the connection breaks before the reply arrives, the request may have been stored. A stored
 *   request is delivered, although its client gets 429 and never 202.
 *
 *   WEIR.TICKET ticket
 *
 *   → $n JSON      the state of the request (wire/check/ticket_json.h), to be passed on unchanged
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
#define WR_DEFER_ARGS 14 /* number of arguments before the header fields, with the command's name */
#define WR_DEFER_BODY_MAX WR_RESP_LARGE_ARG_BYTES_MAX /* 16 MiB */
#define WR_DEFER_FIELDS_MAX 100u
#define WR_DEFER_FIELD_BYTES_MAX (32u << 10)
#define WR_DEFER_DESCRIPTORS_MAX 16384u
#define WR_DEFER_URI_MAX 8192u
#define WR_DEFER_NAME_MAX 255u /* maximum length of `domain` and of `rule` */
#define WR_DEFER_METHOD_MAX 16u
#define WR_DEFER_KEY_BYTES 16u
#define WR_DEFER_TICKET_CHARS 32u
#define WR_DEFER_TRIES_MAX 1000000u
#define WR_DEFER_AGE_MAX_S (366ull * 86400)

/* A request to be stored. Its texts point into the command. */
struct wr_wire_defer_request {
	struct weir_str domain, rule, key, method, uri, descriptors, body;
	uint64_t max_waiting, max_age_s, max_tries, wait_ns, interval_ns;
	const struct weir_str *fields; /* alternating names and values */
	uint32_t field_count;          /* number of fields, each a name and a value */
};

/* Returns whether a field with this name contains credentials, such as Authorization and Cookie. */
bool wr_wire_defer_is_secret(struct weir_str name);

#endif
