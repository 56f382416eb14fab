/* What nginx's workers will be able to see, which are not root even if the gateway is. */
#ifndef WR_GATEWAY_WORKER_VIEW_H
#define WR_GATEWAY_WORKER_VIEW_H

#include "gateway/plan.h"

enum wr_worker_view {
	WR_WORKER_SEES_ALL,
	WR_WORKER_NO_RULES = 1,  /* cannot read the rules: it would not notice changes */
	WR_WORKER_NO_BODIES = 2, /* cannot enter the folder for request bodies */
};

/* Forks, becomes the worker's user and looks. Before there are threads. */
int wr_worker_view(const struct wr_gateway_plan *plan);

#endif
