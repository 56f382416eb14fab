/* What a queue's URL may be. */
#ifndef WR_QUEUE_URL_H
#define WR_QUEUE_URL_H

#include "queue/store.h"

/* WEIR_EINVAL, WEIR_EMEMORY */
int wr_queue_store_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		       struct wr_store **made, struct weir_error *error);

#endif
