/* Creates the backend that a queue's URL selects: SQLite or Redis. */
#ifndef WR_QUEUE_URL_H
#define WR_QUEUE_URL_H

#include "queue/backend.h"

/* Returns 0 with *made set, or WEIR_EINVAL, WEIR_ESYS or WEIR_EMEMORY. The caller frees *made with
 * (*made)->ops->free. */
int wr_queue_backend_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
			 struct wr_queue_backend **made, struct weir_error *error);

#endif
