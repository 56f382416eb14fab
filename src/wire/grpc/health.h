/* Reads and writes the messages of grpc.health.v1. A client can ask for the health of the service
 * WR_GRPC_HEALTH_NAME, or of the whole server with an empty name. */
#ifndef WR_WIRE_GRPC_HEALTH_H
#define WR_WIRE_GRPC_HEALTH_H

#include <grpc/health/v1/health.pb-c.h>

#include <weir/rules.h>

#include "wire/memory.h"

#define WR_GRPC_HEALTH_NAME "ratelimit" /* the name that Envoy's ratelimit uses */

/* Reads a HealthCheckRequest. Returns 0 if the service that the message names exists, and NOT_FOUND
 * if there is no such service. Returns INVALID_ARGUMENT if the bytes are not a
 * HealthCheckRequest. */
int wr_grpc_health_read(struct weir_str bytes, struct wr_rls_memory *memory,
			struct weir_error *error);

/* Returns a packed HealthCheckResponse, or an empty text if `memory` is too small. */
struct weir_str wr_grpc_health_pack(int status, struct wr_rls_memory *memory);

/* Returns a packed HealthListResponse, in which WR_GRPC_HEALTH_NAME and the empty name have this
 * status. Returns an empty text if `memory` is too small. */
struct weir_str wr_grpc_health_pack_list(int status, struct wr_rls_memory *memory);

/* Checks that the bytes are a HealthListRequest, which has no fields. Returns 0 or
 * INVALID_ARGUMENT. */
int wr_grpc_health_read_list(struct weir_str bytes, struct wr_rls_memory *memory,
			     struct weir_error *error);

#endif
