/* The pace of all processes of a machine that use one table (weir_open).
 *
 * To the host, these processes are one client. Each process finds the interval between two requests
 * of this one client (pace.h, `shared`). For that it needs the number of requests of all processes,
 * which the table counts. A leaky bucket of the table gives each request its time to start: each
 * request takes the interval of its process from the bucket. A second leaky bucket keeps the wait
 * that a host has told: it holds back the requests of all processes.
 *
 * Policies of tokens, bytes and other units have no bucket in the table: a process knows the cost of
 * its requests only together with what the other processes use. Each process paces itself by them.
 *
 * The time is CLOCK_REALTIME (weir_now_ns), as for all users of a table. Thread-safe. */
#ifndef WR_CLIENT_SHARED_H
#define WR_CLIENT_SHARED_H

#include <stdint.h>

#include <weir/ratelimit.h>
#include <weir/weir.h>

#include "client/pace.h"

/* Takes a place in the queue of each shared lane of the pace, and returns how long the request has to
 * wait, in ns. If it would have to wait for within_ns or longer, takes no place: the request is not
 * sent. `host` is "host:port". Called in addition to wr_pace_reserve. */
uint64_t wr_pace_shared_delay(struct weir_table *table, struct weir_str host,
			      const struct wr_pace *pace, uint64_t within_ns, uint64_t now_ns);

/* Counts the request of a response, and sets own[i] for wr_pace_learn_shared. `own` has room for
 * WEIR_RATELIMIT_POLICIES_MAX numbers. */
void wr_pace_shared_count(struct weir_table *table, struct weir_str host,
			  const struct weir_ratelimit *told, uint64_t now_ns, double *own);

/* Holds back all processes' requests to the host for wait_ns, at most 115 days. A longer hold
 * stays. */
void wr_pace_shared_hold(struct weir_table *table, struct weir_str host, uint64_t wait_ns,
			 uint64_t now_ns);

/* Returns for how long the host's requests are still held back, in ns; 0: not at all. */
uint64_t wr_pace_shared_held(struct weir_table *table, struct weir_str host, uint64_t now_ns);

#endif
