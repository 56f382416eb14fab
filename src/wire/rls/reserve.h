/* Reservations over gRPC: the messages of Kuadrant's rate limit service and of weir.v1. Functions
 * return errors like those of wire/rls/rls.h. */
#ifndef WR_WIRE_RLS_RESERVE_H
#define WR_WIRE_RLS_RESERVE_H

#include <kuadrant/service/ratelimit/v1/kuadrantrls.pb-c.h>
#include <weir/v1/reservations.pb-c.h>

#include "wire/rls/rls.h"

/* Unpacks a message of this type. Its texts point into `bytes`. `name` is the name of the type, for
 * the error. Returns NULL on failure. */
ProtobufCMessage *wr_rls_unpack(const ProtobufCMessageDescriptor *type, const char *name,
				struct weir_str bytes, struct wr_rls_memory *memory,
				struct weir_error *error);

/* A domain and its descriptors, as a request without costs. */
Pb__RateLimitRequest wr_rls_described(ProtobufCBinaryData domain,
				      Pb__RateLimitDescriptor **descriptors, size_t count);

/* Like wr_rls_ask, but each descriptor costs `amount`. */
int wr_rls_ask_amount(const Pb__RateLimitRequest *request, uint64_t amount, struct weir_ask *ask,
		      struct wr_rls_memory *memory, struct weir_error *error);

/* Sets *ttl_ns to the time to live of a reservation, which is 0 for the default. Returns 0 or
 * INVALID_ARGUMENT. */
int wr_rls_ttl(const Pb__Duration *ttl, uint64_t *ttl_ns, struct weir_error *error);

#endif
