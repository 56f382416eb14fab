/* Calls a method of a gRPC service once. Called by `weir ask`. */
#include <arpa/inet.h>

#include "base/error.h"
#include "cli/client/client.h"

#define FRAME_HEAD 5 /* bytes before a message: a flag for compression, and the length */

/* Writes the FRAME_HEAD bytes, and then the request message. Returns false if there is no
 * memory. */
static bool pack_request(struct wr_buf *message, const ProtobufCMessage *request)
{
	size_t len = protobuf_c_message_get_packed_size(request);
	uint32_t big_endian = htonl((uint32_t)len);
	char *room;

	wr_buf_add_char(message, 0); /* not compressed */
	wr_buf_add(message, &big_endian, sizeof big_endian);
	room = wr_buf_reserve(message, len);
	if (!room)
		return false;
	protobuf_c_message_pack(request, (uint8_t *)room);
	wr_buf_commit(message, len);
	return true;
}

/* Reads the response message. The first byte must be 0 (not compressed), because the request did
 * not offer compression. */
static ProtobufCMessage *read_answer(const struct wr_buf *answer,
				     const ProtobufCMessageDescriptor *type,
				     struct wr_rls_memory *memory, struct weir_error *error)
{
	ProtobufCMessage *response = NULL;

	if (answer->len >= FRAME_HEAD && answer->ptr[0] == 0)
		response = protobuf_c_message_unpack(type, &memory->allocator,
						     answer->len - FRAME_HEAD,
						     (const uint8_t *)answer->ptr + FRAME_HEAD);
	if (!response)
		wr_error(error, WEIR_EFORMAT, "the answer is not a %s", type->short_name);
	return response;
}

ProtobufCMessage *wr_cli_client_grpc(const char *address, const char *path,
				     const ProtobufCMessage *request,
				     const ProtobufCMessageDescriptor *type,
				     struct wr_rls_memory *memory, struct weir_error *error)
{
	static const char *const fields[] = {"Host: localhost", "Content-Type: application/grpc",
					     "TE: trailers",    "User-Agent: weir-ask",
					     "Expect:",         NULL};
	struct wr_cli_client_exchange exchange = {
		.address = address, .path = path, .grpc = true, .fields = fields};
	ProtobufCMessage *response = NULL;
	struct wr_buf message;

	wr_buf_init(&message, WR_CLIENT_REPLY_MAX);
	if (!pack_request(&message, request)) {
		wr_error(error, WEIR_EMEMORY, "out of memory");
		return NULL;
	}
	exchange.body = wr_buf_str(&message);
	if (wr_cli_client_exchange(&exchange, error) == 0) {
		if (exchange.grpc_status == 0)
			response = read_answer(&exchange.answer, type, memory, error);
		else
			wr_error(error, WEIR_EINVAL, "%s answered with gRPC status %d: %s", address,
				 exchange.grpc_status, exchange.grpc_message);
	}
	wr_buf_free(&message);
	wr_buf_free(&exchange.answer);
	return response;
}
