/* Header fields that belong to one connection (RFC 9110, 7.6.1). They are not stored with a request
 * that is delivered later. Used by the rules, the deliverer of deferred requests and the nginx
 * module. */
#ifndef WR_BASE_HOP_BY_HOP_H
#define WR_BASE_HOP_BY_HOP_H

#include <stdbool.h>

#include <weir/rules.h>

/* Returns whether fields with this name must not be stored. These are hop-by-hop fields, fields
 * about the body of one message, and the field that the deliverer sets: Connection, TE,
 * Content-Length, X-Weir-Deferred, … Upper and lower case are equal. */
bool wr_hop_by_hop_name(struct weir_str name);

/* Returns whether the value of a Connection field lists this name: "close, X-Trace" lists x-trace.
 */
bool wr_hop_by_hop_listed(struct weir_str connection, struct weir_str name);

#endif
