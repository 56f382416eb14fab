/* The texts of a simulation: the trace of its events, and the first violated invariant. The
 * simulations of the fleet (sim.h) and of the queue (test/sim/queue) use these functions. */
#ifndef WR_SIM_TRACE_H
#define WR_SIM_TRACE_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define WR_SIM_FAILURE 512 /* size of the text of a violated invariant */

/* Writes a line about an event to `out`, which may be NULL, and adds the line to *hash. The line
 * begins with `time` in millionths and with `who`, for example "node3 " or "". */
__attribute__((format(printf, 5, 0))) void wr_sim_trace_add(FILE *out, uint64_t *hash,
							    uint64_t time, const char *who,
							    const char *format, va_list args);

/* Writes the text of a violated invariant to `out`, which may be NULL. Writes it to `failure` too,
 * if `failure` is empty. */
__attribute__((format(printf, 3, 0))) void
wr_sim_failure_add(FILE *out, char failure[WR_SIM_FAILURE], const char *format, va_list args);

#endif
