/* Checks of the gateway before nginx starts or reloads. They report in plain words why nginx could
 * not listen on its addresses, and which files its workers, which do not run as root, cannot read.
 * */
#ifndef WR_GATEWAY_PREFLIGHT_H
#define WR_GATEWAY_PREFLIGHT_H

#include <sys/types.h>

#include "gateway/plan.h"

/* Tries to listen on every address of the plan. If the gateway's nginx runs already, `ours` is its
 * process session (setsid), and it is no error if this nginx listens on an address. Otherwise
 * `ours` is 0, and Unix sockets on which no process listens are removed. Returns 0, or a number
 * below 0 with `error` filled in. */
int wr_gateway_ports_check(const struct wr_gateway_plan *plan, pid_t ours,
			   struct weir_error *error);

enum wr_worker_view {
	WR_WORKER_SEES_ALL,
	/* set if workers cannot read the rules; then they would not see changes of the rules */
	WR_WORKER_NO_RULES = 1,
	WR_WORKER_NO_BODIES = 2, /* workers cannot enter the folder for request bodies */
};

/* Returns bits of enum wr_worker_view. Forks a child that changes to the workers' user. The caller
 * must not have started a thread yet. */
int wr_worker_view(const struct wr_gateway_plan *plan);

#endif
