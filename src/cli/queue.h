/* weir queue, in parts: what is asked (queue.c), and how answers read (queue_text.c). */
#ifndef WR_CLI_QUEUE_H
#define WR_CLI_QUEUE_H

#include <jansson.h>

/* Of what /v1/queue, /v1/queue/requests and /v1/queue/request answer. Each returns an exit code. */
int queue_tell_stats(const json_t *answer);
int queue_tell_list(const json_t *answer);
int queue_tell_request(const json_t *answer);

#endif
