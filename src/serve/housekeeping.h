/* The housekeeping thread checks the table, Redis and the certificates once a second. It also
 * performs reloads and the stages of a shutdown. */
#ifndef WR_SERVE_HOUSEKEEPING_H
#define WR_SERVE_HOUSEKEEPING_H

#include "serve/service.h"

int wr_housekeeping_start(struct wr_service *service);
void wr_housekeeping_stop(struct wr_service *service);

#endif
