/* What a queue's URL may be. */
#ifndef WR_QUEUE_URL_H
#define WR_QUEUE_URL_H

#include "queue/backend.h"

/* WEIR_EINVAL, WEIR_EMEMORY */
int wr_queue_backend_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
			 struct wr_queue_backend **made, struct weir_error *error);

#endif
