/* The thread beside the loops: once a second it looks after table and certificates, and it leads
 * through reloads and draining. */
#ifndef WR_SERVE_HOUSEKEEPING_H
#define WR_SERVE_HOUSEKEEPING_H

#include "serve/service.h"

int wr_housekeeping_start(struct wr_service *service);
void wr_housekeeping_stop(struct wr_service *service);

#endif
