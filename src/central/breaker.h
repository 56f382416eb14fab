/* The settings of the circuit breaker that each shard has (base/breaker.h).
 *
 * One fatal reply such as LOADING opens the breaker too. After a pause the server is probed with a
 * PING, or by a new connection; when the probe succeeds, the breaker is half open.
 *
 * While the breaker is open, requests are decided by the rule's on_store_failure (limiter/share.c).
 * */
#ifndef WR_CENTRAL_BREAKER_H
#define WR_CENTRAL_BREAKER_H

#include "base/breaker.h"

#define WR_CENTRAL_BREAKER_FAILURES 5u
#define WR_CENTRAL_BREAKER_TRIALS 16u

static const struct wr_breaker_settings wr_central_breaker = {
	.failures = WR_CENTRAL_BREAKER_FAILURES,
	.trials = WR_CENTRAL_BREAKER_TRIALS,
	.pause_ns = 50000000,
	.pause_max_ns = 2000000000,
};

#endif
