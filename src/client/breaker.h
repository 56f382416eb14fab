/* The circuit breaker of a host: base/breaker.h with the settings of a client.
 *
 *   closed     all attempts start. Five failures in a row open the breaker.
 *   open       no attempt starts, for a pause that doubles from 1 s to 60 s, shortened by up to
 *              50 % at random.
 *   half open  one attempt starts. Its success closes the breaker. Its failure opens it again.
 *
 * Failures are failures of the connection, timeouts, and the statuses 500, 502, 503 and 504 without
 * a wait that the server told. A 429 is a success: the host works. Each attempt that the breaker
 * has passed is reported by exactly one call of wr_polite_breaker_report. */
#ifndef WR_CLIENT_BREAKER_H
#define WR_CLIENT_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/breaker.h"

enum wr_polite_outcome {
	WR_POLITE_WORKS,
	WR_POLITE_FAILED,
	WR_POLITE_UNKNOWN, /* the caller gave up before there was a result */
};

/* Returns whether an attempt may start now. If not, *again_ns is the time to ask again; in state
 * half open it is a guess, because the result of the probe can come earlier. */
bool wr_polite_breaker_pass(struct wr_breaker *breaker, uint64_t now_ns, uint64_t *again_ns);

/* Reports the result of an attempt that the breaker has passed. */
void wr_polite_breaker_report(struct wr_breaker *breaker, enum wr_polite_outcome outcome,
			      uint64_t now_ns, uint64_t random);

/* Returns the outcome of an attempt. `failed`: there was no response. `wait_ns`: the wait that the
 * server told, 0 if none. */
enum wr_polite_outcome wr_polite_outcome(bool failed, int status, uint64_t wait_ns);

#endif
