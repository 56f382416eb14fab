/* The rules of delivery, without sockets or a clock: which responses are final, the delay before the
 * next attempt, which header fields are stored, and the target URL. */
#ifndef WR_SERVE_DELIVER_POLICY_H
#define WR_SERVE_DELIVER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_DELIVER_BACKOFF_FIRST_US 1000000u
#define WR_DELIVER_BACKOFF_MOST_US 300000000u

/* Whether a response with this status ends the delivery. 2xx, 3xx and 4xx do, except 408, 425 and 429,
 * which ask for a retry. 5xx do not. */
bool wr_deliver_is_final(unsigned status);

/* 502, 503, 504: a proxy or load balancer reports that the API server is unavailable. */
bool wr_deliver_is_absent(unsigned status);

/* The delay after a failed attempt, `tries` attempts having failed before: 1 s, 2 s, 4 s … 5 min, with
 * 50–100 % jitter from `random`. */
uint64_t wr_deliver_backoff_us(uint32_t tries, uint64_t random);

/* Parses Retry-After: seconds, or a date, which is compared with the wall clock now_us. *wait_us is 0
 * for a date in the past. Returns false if the value is neither. */
bool wr_deliver_retry_after(struct weir_str value, uint64_t now_us, uint64_t *wait_us);

/* The delay until the next attempt: the longer of the back-off and Retry-After, but not beyond the
 * request's expiry, when the queue makes it a dead letter. */
uint64_t wr_deliver_wait_us(uint64_t backoff_us, uint64_t asked_us, uint64_t left_us);

/* Whether a field of a request is stored: not those between two hops (RFC 9110 7.6.1), nor those
 * named by its Connection fields, nor those that are made anew for each delivery. */
bool wr_deliver_keeps(struct weir_str name, const struct weir_str *connection, size_t connections);

/* The API server that requests are delivered to. */
struct wr_deliver_target {
	char url[512];         /* without a path; each request has its own */
	char unix_socket[108]; /* "": TCP */
};

/* Parses http://HOST[:PORT], https://HOST[:PORT] or unix:/path. Returns 0, or WEIR_EINVAL with `error`
 * filled in. */
int wr_deliver_target_read(const char *text, struct wr_deliver_target *target,
			   struct weir_error *error);

#endif
