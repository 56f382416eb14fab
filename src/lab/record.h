/* How the lab reads a record of a log as an HTTP request. Shared by replay and tune, so that both
 * see the same requests. */
#ifndef WR_LAB_RECORD_H
#define WR_LAB_RECORD_H

#include <stdbool.h>

#include "lab/log/log.h"

/* Returns whether a server responds with this status before it has read a whole request. weir never
 * sees such a request. */
bool wr_lab_status_is_from_server(uint32_t status);

/* Returns whether the line of the log has a request. Servers also log connections on which they got
 * no complete request; weir never sees these. A CSV without targets has requests nevertheless. */
bool wr_lab_record_has_request(const struct wr_lab_record *record);

/* Sets client, method, target, host and user of the HTTP request, with pointers into the record. A
 * log without targets, such as a CSV of keys and costs, stands for requests to /. */
void wr_lab_record_view(const struct wr_lab_record *record, struct weir_http_view *view);

#endif
