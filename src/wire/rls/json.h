/* Reads and writes RLS messages as protojson, for POST /json. The code follows protobuf's
 * descriptors of the messages, so it supports every field that the messages have in gRPC. In input,
 * field names may be snake_case or lowerCamelCase, numbers may be strings, and enum values may be
 * names or numbers. A field that is null counts as absent. An unknown field name is an error. */
#ifndef WR_WIRE_RLS_JSON_H
#define WR_WIRE_RLS_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "wire/json.h"
#include "wire/memory.h"

/* Reads a message of this type into `memory`. On failure returns NULL and sets `problem`. */
ProtobufCMessage *wr_rls_json_read(const ProtobufCMessageDescriptor *type, struct weir_str body,
				   struct wr_rls_memory *memory, struct wr_problem *problem);

/* Writes the message as a JSON object, without the fields that have their default value. */
void wr_rls_json_write(const ProtobufCMessage *message, struct wr_json_out *json);

#define WR_JSON_NAME 64 /* maximum length of a JSON name */

/* Writes the JSON name of a field: limit_remaining → limitRemaining. Returns the length of the
 * name. */
size_t wr_rls_json_name(const char *name, char json[WR_JSON_NAME]);

/* Returns the size of a value of this field in the C struct of its message. */
size_t wr_rls_json_size(const ProtobufCFieldDescriptor *field);

/* Returns whether a field has the protobuf type `bytes`, which is base64 in JSON. field->type does
 * not show this: it is PROTOBUF_C_TYPE_BYTES for fields of type `string` too, because a string may
 * contain a zero byte. */
bool wr_rls_json_is_binary(const ProtobufCFieldDescriptor *field);

#endif
