/* The pace of all processes of a machine that use one table (weir_open).
 *
 * A leaky bucket of the table gives each request its time to start: the requests of all processes
 * to a host leave at the rate of the host's policy. A second leaky bucket keeps the wait that a
 * host has told: it holds back the requests of all processes. Both are called in addition to
 * wr_pace_reserve and wr_pace_confirm.
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

/* Takes a place in the queue of each policy of `told` that counts requests, and returns how long the
 * request has to wait, in ns. `told` is the latest response of the host, and `host` is "host:port". */
uint64_t wr_pace_shared_delay(struct weir_table *table, struct weir_str host,
			      const struct weir_ratelimit *told, uint64_t now_ns);

/* Holds back all processes' requests to the host for wait_ns. A longer hold stays. */
void wr_pace_shared_hold(struct weir_table *table, struct weir_str host, uint64_t wait_ns,
			 uint64_t now_ns);

/* Returns for how long the host's requests are still held back, in ns; 0: not at all. */
uint64_t wr_pace_shared_held(struct weir_table *table, struct weir_str host, uint64_t now_ns);

#endif
