/* Checks whether nginx's workers, which do not run as root, can read the files they need. */
#ifndef WR_GATEWAY_WORKER_VIEW_H
#define WR_GATEWAY_WORKER_VIEW_H

#include "gateway/plan.h"

enum wr_worker_view {
	WR_WORKER_SEES_ALL,
	WR_WORKER_NO_RULES = 1,  /* cannot read the rules, so it would not see changes */
	WR_WORKER_NO_BODIES = 2, /* cannot enter the folder for request bodies */
};

/* Returns bits of enum wr_worker_view. Forks a child that becomes the workers' user, so call it
 * before any thread is started. */
int wr_worker_view(const struct wr_gateway_plan *plan);

#endif
