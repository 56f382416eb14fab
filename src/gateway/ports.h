/* Checks before nginx starts or reloads whether nginx can listen on its addresses, so that the
 * cause of a failure is reported in plain words. */
#ifndef WR_GATEWAY_PORTS_H
#define WR_GATEWAY_PORTS_H

#include <sys/types.h>

#include "gateway/plan.h"

/* Tries to listen on every address of the plan. If the gateway's nginx runs already, `ours` is its
 * process session (setsid), and it is no error if this nginx listens on an address. Otherwise
 * `ours` is 0, and Unix sockets on which no process listens are removed. Returns 0, or a number
 * below 0 with `error` filled in. */
int wr_gateway_ports_check(const struct wr_gateway_plan *plan, pid_t ours,
			   struct weir_error *error);

#endif
