/* Whether nginx will be able to listen: found out before it is started, and said in words. */
#ifndef WR_GATEWAY_PORTS_H
#define WR_GATEWAY_PORTS_H

#include <sys/types.h>

#include "gateway/plan.h"

/* Tries every address of the plan. `ours` is the session of an nginx that is to be taken over and
 * may hold them already, or 0. Removes Unix sockets that nobody listens on any more. */
int wr_ports_check(const struct wr_gateway_plan *plan, pid_t ours, struct weir_error *error);

#endif
