/* How the lab reads a record of a log as an HTTP request. Shared by replay and tune, so that both
 * see the same requests. */
#ifndef WR_LAB_RECORD_H
#define WR_LAB_RECORD_H

#include <stdbool.h>

#include "lab/log.h"

/* Returns false if the line has no request: the server closed the connection, or answered with an
 * error, before it had read a request line. */
bool wr_lab_record_has_request(const struct wr_lab_record *record);

/* Makes the HTTP request of a record, with pointers into the record. A log without targets, such as
 * a CSV of keys and costs, stands for requests for "/". */
struct weir_http_view wr_lab_record_view(const struct wr_lab_record *record);

#endif
