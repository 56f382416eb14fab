/* Reads a reflection request and writes its response. Called by serve/grpc/run.c. */
#include "wire/grpc/reflection.h"

#include <grpc/reflection/v1/reflection.pb-c.h>

#include "base/error.h"
#include "base/str.h"
#include "wire/grpc/grpc.h"

/* A response, with memory for every kind of content that it can have. A response uses only one of
 * these kinds. */
struct reflection_answer {
	const struct wr_reflection *reflection;
	Pb__ServerReflectionResponse response;
	Pb__FileDescriptorResponse files;
	Pb__ExtensionNumberResponse extensions;
	Pb__ListServiceResponse services;
	Pb__ErrorResponse error;
	ProtobufCBinaryData file_bytes[WR_REFLECTION_FILES];
	Pb__ServiceResponse service[WR_REFLECTION_SERVICES];
	Pb__ServiceResponse *service_list[WR_REFLECTION_SERVICES];
};

static ProtobufCBinaryData bytes_of(struct weir_str text)
{
	return (ProtobufCBinaryData){text.len, (uint8_t *)text.ptr};
}

static void set_error(struct reflection_answer *answer, int code, struct weir_str text)
{
	pb__error_response__init(&answer->error);
	answer->error.error_code = code;
	answer->error.error_message = bytes_of(text);
	answer->response.message_response_case =
		PB__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	answer->response.error_response = &answer->error;
}

/* Adds the file and the files that it imports to the response. Sets an error if `file` is
 * negative. */
static void add_file(struct reflection_answer *answer, int file)
{
	uint64_t wanted;

	if (file < 0) {
		set_error(answer, WR_GRPC_NOT_FOUND, WR_STR("no such file or symbol"));
		return;
	}
	pb__file_descriptor_response__init(&answer->files);
	answer->files.file_descriptor_proto = answer->file_bytes;
	answer->file_bytes[answer->files.n_file_descriptor_proto++] =
		bytes_of(wr_reflection_bytes(answer->reflection, file));
	wanted = wr_reflection_with_imports(answer->reflection, file) & ~(UINT64_C(1) << file);
	for (int i = 0; i < WR_REFLECTION_FILES; i++)
		if (wanted >> i & 1)
			answer->file_bytes[answer->files.n_file_descriptor_proto++] =
				bytes_of(wr_reflection_bytes(answer->reflection, i));
	answer->response.message_response_case =
		PB__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	answer->response.file_descriptor_response = &answer->files;
}

static void write_services(struct reflection_answer *answer)
{
	const struct weir_str *names;

	pb__list_service_response__init(&answer->services);
	names = wr_reflection_services(answer->reflection, &answer->services.n_service);
	for (size_t i = 0; i < answer->services.n_service; i++) {
		pb__service_response__init(&answer->service[i]);
		answer->service[i].name = bytes_of(names[i]);
		answer->service_list[i] = &answer->service[i];
	}
	answer->services.service = answer->service_list;
	answer->response.message_response_case =
		PB__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
	answer->response.list_services_response = &answer->services;
}

/* Adds an empty list of extensions, because our messages have no extensions. */
static void add_extensions(struct reflection_answer *answer, ProtobufCBinaryData type)
{
	if (!wr_reflection_is_message(answer->reflection, wr_reflection_text(type))) {
		set_error(answer, WR_GRPC_NOT_FOUND, WR_STR("no such message"));
		return;
	}
	pb__extension_number_response__init(&answer->extensions);
	answer->extensions.base_type_name = type;
	answer->response.message_response_case =
		PB__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
	answer->response.all_extension_numbers_response = &answer->extensions;
}

static void write_response(struct reflection_answer *answer,
			   const Pb__ServerReflectionRequest *request)
{
	const struct wr_reflection *reflection = answer->reflection;

	switch (request->message_request_case) {
	case PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		add_file(answer, wr_reflection_file(reflection,
						    wr_reflection_text(request->file_by_filename)));
		break;
	case PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		add_file(answer,
			 wr_reflection_symbol(reflection,
					      wr_reflection_text(request->file_containing_symbol)));
		break;
	case PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
		set_error(answer, WR_GRPC_NOT_FOUND, WR_STR("no such extension"));
		break;
	case PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
		add_extensions(answer, request->all_extension_numbers_of_type);
		break;
	case PB__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		write_services(answer);
		break;
	default:
		set_error(answer, WR_GRPC_INVALID_ARGUMENT,
			  WR_STR("the request has no message_request"));
	}
}

int wr_reflection_answer(const struct wr_reflection *reflection, struct weir_str bytes,
			 struct wr_rls_memory *memory, struct weir_str *out,
			 struct weir_error *error)
{
	Pb__ServerReflectionRequest *request = pb__server_reflection_request__unpack(
		&memory->allocator, bytes.len, (const uint8_t *)bytes.ptr);
	struct reflection_answer answer = {.reflection = reflection};
	uint8_t *packed;
	size_t len;

	if (!request)
		return wr_error(error, WR_GRPC_INVALID_ARGUMENT,
				"the message is not a ServerReflectionRequest");
	pb__server_reflection_response__init(&answer.response);
	answer.response.valid_host = request->host;
	answer.response.original_request = request;
	write_response(&answer, request);
	len = pb__server_reflection_response__get_packed_size(&answer.response);
	packed = wr_rls_alloc(memory, len);
	if (!packed)
		return wr_error(error, WR_GRPC_RESOURCE_EXHAUSTED, "the response is too large");
	pb__server_reflection_response__pack(&answer.response, packed);
	*out = (struct weir_str){(const char *)packed, len};
	return 0;
}
