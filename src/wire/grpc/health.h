/* grpc.health.v1: requests and responses, for the name of the service and for the whole server. */
#ifndef WR_WIRE_GRPC_HEALTH_H
#define WR_WIRE_GRPC_HEALTH_H

#include <grpc/health/v1/health.pb-c.h>

#include <weir/rules.h>

#include "wire/memory.h"

#define WR_HEALTH_NAME "ratelimit" /* as in Envoy's ratelimit; the empty name is the server */

/* Reads a HealthCheckRequest. Returns 0 if its service exists, or INVALID_ARGUMENT, NOT_FOUND. */
int wr_health_read(struct weir_str bytes, struct wr_rls_memory *memory, struct weir_error *error);

/* A packed HealthCheckResponse. */
struct weir_str wr_health_answer(int status, struct wr_rls_memory *memory);

/* A packed HealthListResponse: all names with their status. Empty if it does not fit. */
struct weir_str wr_health_list(int status, struct wr_rls_memory *memory);

/* Checks that the bytes are a message; HealthListRequest has no fields. Returns 0 or
 * INVALID_ARGUMENT. */
int wr_health_read_list(struct weir_str bytes, struct wr_rls_memory *memory,
			struct weir_error *error);

#endif
