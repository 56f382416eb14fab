/* RLS messages as protojson, for POST /json: over the messages' own descriptors, so that what gRPC
 * knows, this knows. Names may be snake_case or lowerCamelCase, numbers may be strings, enums names
 * or numbers, null is the same as nothing; a name nobody knows is an error. */
#ifndef WR_WIRE_RLS_JSON_H
#define WR_WIRE_RLS_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "wire/json.h"
#include "wire/memory.h"

/* A message of this type in `memory`, or NULL and what is wrong. */
ProtobufCMessage *wr_rls_json_read(const ProtobufCMessageDescriptor *type, struct weir_str body,
				   struct wr_rls_memory *memory, struct wr_problem *problem);

/* Writes the message as an object. Fields that have their default are left out. */
void wr_rls_json_write(const ProtobufCMessage *message, struct wr_json_out *json);

/* The JSON name of a field: limit_remaining → limitRemaining. Returns its length. */
#define WR_JSON_NAME 64
size_t wr_rls_json_name(const char *name, char json[WR_JSON_NAME]);

/* The C code takes texts for bytes, since a text may hold a zero: which fields are bytes indeed and
 * stand in JSON as base64. */
bool wr_rls_json_is_binary(const ProtobufCFieldDescriptor *field);

#endif
