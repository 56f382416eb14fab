/* Reads and writes the messages of grpc.health.v1. Called by serve/grpc/health.c. */
#include "wire/grpc/health.h"

#include "base/error.h"
#include "base/str.h"
#include "wire/grpc/grpc.h"

static const char *const names[] = {"", WR_GRPC_HEALTH_NAME};
#define NAMES (sizeof names / sizeof *names)

int wr_grpc_health_read(struct weir_str bytes, struct wr_rls_memory *memory,
			struct weir_error *error)
{
	const Pb__HealthCheckRequest *request = pb__health_check_request__unpack(
		&memory->allocator, bytes.len, (const uint8_t *)bytes.ptr);
	struct weir_str name;

	if (!request)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"the message is not a HealthCheckRequest");
	name = (struct weir_str){(const char *)request->service.data, request->service.len};
	for (size_t i = 0; i < NAMES; i++)
		if (wr_str_equal(name, wr_str(names[i])))
			return 0;
	return wr_error(error, WR_GRPC_NOT_FOUND,
			"unknown service; there are '" WR_GRPC_HEALTH_NAME "' and the empty name");
}

int wr_grpc_health_read_list(struct weir_str bytes, struct wr_rls_memory *memory,
			     struct weir_error *error)
{
	if (pb__health_list_request__unpack(&memory->allocator, bytes.len,
					    (const uint8_t *)bytes.ptr))
		return 0;
	return wr_error(error, WR_GRPC_INVALID_ARGUMENT, "the message is not a HealthListRequest");
}

static struct weir_str pack(const ProtobufCMessage *message, struct wr_rls_memory *memory)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = wr_rls_alloc(memory, len);

	if (!bytes)
		return (struct weir_str){"", 0};
	protobuf_c_message_pack(message, bytes);
	return (struct weir_str){(const char *)bytes, len};
}

struct weir_str wr_grpc_health_pack(int status, struct wr_rls_memory *memory)
{
	Pb__HealthCheckResponse response = PB__HEALTH_CHECK_RESPONSE__INIT;

	response.status = (Pb__HealthCheckResponse__ServingStatus)status;
	return pack(&response.base, memory);
}

struct weir_str wr_grpc_health_pack_list(int status, struct wr_rls_memory *memory)
{
	Pb__HealthCheckResponse one = PB__HEALTH_CHECK_RESPONSE__INIT;
	Pb__HealthListResponse__StatusesEntry entries[NAMES], *list[NAMES];
	Pb__HealthListResponse response = PB__HEALTH_LIST_RESPONSE__INIT;

	one.status = (Pb__HealthCheckResponse__ServingStatus)status;
	for (size_t i = 0; i < NAMES; i++) {
		pb__health_list_response__statuses_entry__init(&entries[i]);
		entries[i].key = (char *)names[i];
		entries[i].value = &one;
		list[i] = &entries[i];
	}
	response.statuses = list;
	response.n_statuses = NAMES;
	return pack(&response.base, memory);
}
