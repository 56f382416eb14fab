/* weir queue: queue.c asks the service, queue_text.c prints its responses. */
#ifndef WR_CLI_QUEUE_H
#define WR_CLI_QUEUE_H

#include <jansson.h>

/* These functions print the responses of /v1/queue, /v1/queue/requests and /v1/queue/request. Each
 * returns an exit code. */
int wr_cli_queue_print_stats(const json_t *answer);
int wr_cli_queue_print_list(const json_t *answer);
int wr_cli_queue_print_request(const json_t *answer);

#endif
