/* Reads the messages of reservations. Called by serve/grpc/reserve.c. */
#include "wire/rls/reserve.h"

#include "base/error.h"
#include "limiter/reservation.h"
#include "wire/grpc/grpc.h"

#define SECOND_NS 1000000000ull

ProtobufCMessage *wr_rls_unpack(const ProtobufCMessageDescriptor *type, const char *name,
				struct weir_str bytes, struct wr_rls_memory *memory,
				struct weir_error *error)
{
	ProtobufCMessage *message = protobuf_c_message_unpack(type, &memory->allocator, bytes.len,
							      (const uint8_t *)bytes.ptr);

	if (!message && memory->full)
		wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED,
			 "the request has too many descriptors or entries");
	else if (!message)
		wr_error(error, WR_GRPC_INVALID_ARGUMENT, "the message is not a %s", name);
	return message;
}

Pb__RateLimitRequest wr_rls_described(ProtobufCBinaryData domain,
				      Pb__RateLimitDescriptor **descriptors, size_t count)
{
	Pb__RateLimitRequest request = PB__RATE_LIMIT_REQUEST__INIT;

	request.domain = domain;
	request.descriptors = descriptors;
	request.n_descriptors = count;
	return request;
}

int wr_rls_ttl(const Pb__Duration *ttl, uint64_t *ttl_ns, struct weir_error *error)
{
	*ttl_ns = 0;
	if (!ttl)
		return 0;
	if (ttl->seconds < 0 || ttl->nanos < 0 || ttl->nanos >= (int32_t)SECOND_NS)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"the ttl is negative, or its nanos are not below a second");
	if ((uint64_t)ttl->seconds >= WR_RESERVATION_TTL_MAX_NS / SECOND_NS)
		*ttl_ns = WR_RESERVATION_TTL_MAX_NS;
	else
		*ttl_ns = (uint64_t)ttl->seconds * SECOND_NS + (uint64_t)ttl->nanos;
	return 0;
}
