/* Checks before nginx starts whether nginx can listen on its addresses, so that the cause of a
 * failure is reported in plain words. */
#ifndef WR_GATEWAY_PORTS_H
#define WR_GATEWAY_PORTS_H

#include <sys/types.h>

#include "gateway/plan.h"

/* Tries to listen on every address of the plan. `ours` is the session of a running nginx that the
 * gateway is going to take over, or 0; addresses on which this nginx listens are no error. Removes
 * Unix sockets on which no process listens. Returns 0, or a number below 0 with `error` filled
 * in. */
int wr_gateway_ports_check(const struct wr_gateway_plan *plan, pid_t ours,
			   struct weir_error *error);

#endif
