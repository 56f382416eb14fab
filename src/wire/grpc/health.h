/* grpc.health.v1: whether the service is in order, for its name and for the server as a whole. */
#ifndef WR_WIRE_GRPC_HEALTH_H
#define WR_WIRE_GRPC_HEALTH_H

#include <grpc/health/v1/health.pb-c.h>

#include <weir/rules.h>

#include "wire/memory.h"

#define WR_HEALTH_NAME "ratelimit" /* the reference's; the empty name means the server */

/* Which service a HealthCheckRequest is about: 0 if we have it, or INVALID_ARGUMENT,
 * NOT_FOUND. */
int wr_health_read(struct weir_str bytes, struct wr_rls_memory *memory, struct weir_error *error);

/* A packed HealthCheckResponse. */
struct weir_str wr_health_answer(int status, struct wr_rls_memory *memory);

/* A packed HealthListResponse: all names with their status. Empty when it does not fit. */
struct weir_str wr_health_list(int status, struct wr_rls_memory *memory);

/* HealthListRequest has nothing in it that we know of; it must be a message still. 0, or
 * INVALID_ARGUMENT. */
int wr_health_read_list(struct weir_str bytes, struct wr_rls_memory *memory,
			struct weir_error *error);

#endif
