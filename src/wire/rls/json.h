/* RLS messages as protojson, for POST /json. The code walks the messages' descriptors, so it knows
 * every field that gRPC knows. Names may be snake_case or lowerCamelCase, numbers may be strings,
 * enums names or numbers, null counts as absent; an unknown name is an error. */
#ifndef WR_WIRE_RLS_JSON_H
#define WR_WIRE_RLS_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "wire/json.h"
#include "wire/memory.h"

/* Reads a message of this type into `memory`. Returns NULL and a problem. */
ProtobufCMessage *wr_rls_json_read(const ProtobufCMessageDescriptor *type, struct weir_str body,
				   struct wr_rls_memory *memory, struct wr_problem *problem);

/* Writes the message as an object. Fields that have their default are left out. */
void wr_rls_json_write(const ProtobufCMessage *message, struct wr_json_out *json);

/* The JSON name of a field: limit_remaining → limitRemaining. Returns its length. */
#define WR_JSON_NAME 64
size_t wr_rls_json_name(const char *name, char json[WR_JSON_NAME]);

/* Whether a field is of type `bytes` and base64 in JSON. The C code has texts as bytes, too,
 * because a text may have a zero byte. */
bool wr_rls_json_is_binary(const ProtobufCFieldDescriptor *field);

#endif
