/* What the deliverer goes by, without a socket or a clock: which answers are final, how long to
 * wait before the next try, which header fields go along, and where deliveries go to. */
#ifndef WR_SERVE_DELIVER_POLICY_H
#define WR_SERVE_DELIVER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_DELIVER_BACKOFF_FIRST_US 1000000u
#define WR_DELIVER_BACKOFF_MOST_US 300000000u

/* Whether an answer of this status ends it. All of 2xx, 3xx and 4xx do but those that ask to come
 * again: 408, 425, 429; 5xx do not. */
bool wr_deliver_is_final(unsigned status);

/* 502, 503, 504: the API server is not there, says somebody in front of it. */
bool wr_deliver_is_absent(unsigned status);

/* How long to wait after a try that failed, `tries` having failed before it: 1 s, 2 s, 4 s … 5 min,
 * of which the half to the whole by `random`, so that many do not come back together. */
uint64_t wr_deliver_backoff_us(uint32_t tries, uint64_t random);

/* Retry-After: seconds, or a date, which is compared with the wall clock. *wait_us is 0 for a date
 * that has passed. False: it is neither. */
bool wr_deliver_retry_after(struct weir_str value, uint64_t now_us, uint64_t *wait_us);

/* How long until the next try: what the API server wishes, if that is longer than our own; but not
 * beyond the request's end, where it is looked at once more and given up. */
uint64_t wr_deliver_wait_us(uint64_t backoff_us, uint64_t asked_us, uint64_t left_us);

/* Whether a field of a request is stored: not those between two hops (RFC 9110 7.6.1), nor those
 * named by its Connection fields, nor those that are made anew for each delivery. */
bool wr_deliver_keeps(struct weir_str name, const struct weir_str *connection, size_t connections);

/* Where deliveries go to. */
struct wr_deliver_target {
	char url[512];         /* without a path: curl is given the request's own */
	char unix_socket[108]; /* "": by TCP */
};

/* http://HOST[:PORT], https://HOST[:PORT], unix:/path. WEIR_EINVAL: `error` says what there is. */
int wr_deliver_target_read(const char *text, struct wr_deliver_target *target,
			   struct weir_error *error);

#endif
