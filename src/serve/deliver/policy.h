/* Decides how requests are delivered, without sockets or a clock: which responses are final, how
 * long the delay before the next attempt is, and which header fields are stored. Also parses the
 * target URL. */
#ifndef WR_SERVE_DELIVER_POLICY_H
#define WR_SERVE_DELIVER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_DELIVER_BACKOFF_FIRST_US 1000000u
#define WR_DELIVER_BACKOFF_MOST_US 300000000u

/* Returns whether a response with this status ends the delivery. 2xx, 3xx and 4xx end the delivery,
 * except 408, 425 and 429, which ask for a retry. 5xx do not end the delivery. */
bool wr_deliver_is_final(unsigned status);

/* Returns whether the status is 502, 503 or 504, with which a proxy or load balancer reports that
 * the API server is unavailable. */
bool wr_deliver_is_absent(unsigned status);

/* Returns the delay after a failed attempt, if `tries` attempts had failed before it. The full
 * delay is 1 s if `tries` is 0; it doubles with each failed attempt, up to 5 min. `random` selects
 * a delay between half of the full delay and the full delay. */
uint64_t wr_deliver_backoff_us(uint32_t tries, uint64_t random);

/* Parses Retry-After: a number of seconds, or a date. Sets *wait_us to the wait from now_us (wall
 * clock), which is 0 for a date in the past. Returns false if the value is neither a number nor a
 * date. */
bool wr_deliver_retry_after(struct weir_str value, uint64_t now_us, uint64_t *wait_us);

/* Returns the delay until the next attempt: the longer of the back-off and Retry-After, but at most
 * `left_us`, the time until the request expires. The queue makes an expired request a dead
 * letter. */
uint64_t wr_deliver_wait_us(uint64_t backoff_us, uint64_t asked_us, uint64_t left_us);

/* Returns whether a header field of a request is stored with the request. These fields are not
 * stored: hop-by-hop fields (RFC 9110 7.6.1), fields that the Connection fields of the request
 * name, and fields that each delivery sets itself. */
bool wr_deliver_keeps(struct weir_str name, const struct weir_str *connection, size_t connections);

/* The API server that requests are delivered to. */
struct wr_deliver_target {
	char url[512];         /* URL without a path; each request has its own path */
	char unix_socket[108]; /* path of the Unix socket; "": the target uses TCP */
};

/* Parses http://HOST[:PORT], https://HOST[:PORT] or unix:/path. Returns 0, or WEIR_EINVAL with
 * `error` filled in. */
int wr_deliver_target_read(const char *text, struct wr_deliver_target *target,
			   struct weir_error *error);

#endif
