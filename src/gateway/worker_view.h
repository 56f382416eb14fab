/* Checks whether nginx's workers, which do not run as root, can read the files they need. */
#ifndef WR_GATEWAY_WORKER_VIEW_H
#define WR_GATEWAY_WORKER_VIEW_H

#include "gateway/plan.h"

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
