/* Checks before nginx starts whether it can listen on its addresses, to report the cause of a
 * failure in plain words. */
#ifndef WR_GATEWAY_PORTS_H
#define WR_GATEWAY_PORTS_H

#include <sys/types.h>

#include "gateway/plan.h"

/* Tries to listen on every address of the plan. `ours` is the session of a running nginx that is
 * going to be taken over, or 0; its listeners are no error. Removes Unix sockets without a
 * listener. Returns 0, or below 0 with `error` filled in. */
int wr_gateway_ports_check(const struct wr_gateway_plan *plan, pid_t ours,
			   struct weir_error *error);

#endif
