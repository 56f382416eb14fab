/* Reads RLS messages as protojson. Called by serve/http/json.c and weir ask. */
#include "wire/rls/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/assert.h"

#define ITEMS_MAX 256 /* maximum number of items in one list; the engine accepts fewer */

struct json_reader {
	struct wr_rls_memory *memory;
	struct wr_problem *problem;
};

size_t wr_rls_json_size(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_INT64:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(ProtobufCMessage *);
	default:
		return sizeof(uint32_t);
	}
}

static void *allocate(struct json_reader *reader, size_t size)
{
	void *memory = wr_rls_alloc(reader->memory, size);

	if (!memory)
		wr_problem(reader->problem, WR_TOO_LARGE, "the message is too large");
	return memory;
}

size_t wr_rls_json_name(const char *name, char json[WR_JSON_NAME])
{
	size_t len = 0;

	for (; *name && len < WR_JSON_NAME; name++) {
		if (*name == '_' && name[1] >= 'a' && name[1] <= 'z')
			json[len++] = (char)(*++name - ('a' - 'A'));
		else
			json[len++] = *name;
	}
	return len;
}

bool wr_rls_json_is_binary(const ProtobufCFieldDescriptor *field)
{
	return strncmp(field->name, "raw_", 4) == 0;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
						  const char *name)
{
	struct weir_str wanted = wr_str(name);

	for (unsigned i = 0; i < type->n_fields; i++) {
		char json[WR_JSON_NAME];
		size_t len = wr_rls_json_name(type->fields[i].name, json);

		if (wr_str_equal(wanted, (struct weir_str){json, len}) ||
		    strcmp(name, type->fields[i].name) == 0)
			return &type->fields[i];
	}
	return NULL;
}

/* Parses a whole number in a string, such as "12": protojson writes 64-bit numbers as strings.
 * Returns 0, or -1 if the string is not a whole number. */
static int parse_whole(const json_t *value, int64_t *number)
{
	const char *text = json_string_value(value);
	char *end;

	if (json_string_length(value) == 0 || strspn(text, "-0123456789") != strlen(text) ||
	    strlen(text) != json_string_length(value) || strlen(text) > 19)
		return -1;
	*number = strtoll(text, &end, 10);
	return *end ? -1 : 0;
}

/* Reads a whole number: 1, 1.0 or "1". */
static int read_whole(struct json_reader *reader, const json_t *value,
		      const struct wr_wire_json_at *at, int64_t low, uint64_t high, int64_t *number)
{
	bool fine = json_is_integer(value);

	if (fine)
		*number = json_integer_value(value);
	else if (json_is_string(value))
		fine = parse_whole(value, number) == 0;
	else if (json_is_real(value) && fabs(json_real_value(value)) < 9e15)
		fine = (double)(*number = (int64_t)json_real_value(value)) ==
		       json_real_value(value);
	if (!fine)
		return wr_problem_at(reader->problem, WR_BAD_TYPE, at,
				     "a whole number is expected here");
	if (*number < low || (*number > 0 && (uint64_t)*number > high))
		return wr_problem_at(reader->problem, WR_BAD_VALUE, at,
				     "%" PRId64 " is out of range", *number);
	return 0;
}

static int read_enum(struct json_reader *reader, const json_t *value,
		     const struct wr_wire_json_at *at, const ProtobufCEnumDescriptor *type,
		     uint32_t *into)
{
	const ProtobufCEnumValue *named;
	int64_t number;

	if (!json_is_string(value)) {
		if (read_whole(reader, value, at, INT32_MIN, INT32_MAX, &number) != 0)
			return -1;
		*into = (uint32_t)number;
		return 0;
	}
	named = protobuf_c_enum_descriptor_get_value_by_name(type, json_string_value(value));
	if (!named)
		return wr_problem_at(reader->problem, WR_BAD_VALUE, at,
				     "this enum has no such value");
	*into = (uint32_t)named->value;
	return 0;
}

static int read_string_field(struct json_reader *reader, const json_t *value,
			     const struct wr_wire_json_at *at,
			     const ProtobufCFieldDescriptor *field, ProtobufCBinaryData *into)
{
	struct weir_str text;

	if (wr_rls_json_is_binary(field))
		return wr_problem_at(reader->problem, WR_BAD_VALUE, at,
				     "fields of type bytes are not accepted in requests");
	if (wr_wire_json_get_text(value, at, &text, reader->problem) != 0)
		return -1;
	into->len = text.len;
	into->data = allocate(reader, text.len + 1);
	if (!into->data)
		return -1;
	memcpy(into->data, text.ptr, text.len);
	return 0;
}

static ProtobufCMessage *read_message(struct json_reader *reader, json_t *value,
				      const struct wr_wire_json_at *at,
				      const ProtobufCMessageDescriptor *type);

static int read_item(struct json_reader *reader, json_t *value, const struct wr_wire_json_at *at,
		     const ProtobufCFieldDescriptor *field, void *into)
{
	bool flag = false;
	int64_t number = 0;
	int rc;

	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
		rc = read_whole(reader, value, at, 0, UINT32_MAX, &number);
		*(uint32_t *)into = (uint32_t)number;
		return rc;
	case PROTOBUF_C_TYPE_INT32:
		rc = read_whole(reader, value, at, INT32_MIN, INT32_MAX, &number);
		*(int32_t *)into = (int32_t)number;
		return rc;
	case PROTOBUF_C_TYPE_UINT64:
		rc = read_whole(reader, value, at, 0, INT64_MAX, &number);
		*(uint64_t *)into = (uint64_t)number;
		return rc;
	case PROTOBUF_C_TYPE_INT64:
		return read_whole(reader, value, at, INT64_MIN, INT64_MAX, into);
	case PROTOBUF_C_TYPE_BOOL:
		rc = wr_wire_json_get_bool(value, at, &flag, reader->problem);
		*(protobuf_c_boolean *)into = flag;
		return rc;
	case PROTOBUF_C_TYPE_ENUM:
		return read_enum(reader, value, at, field->descriptor, into);
	case PROTOBUF_C_TYPE_BYTES:
		return read_string_field(reader, value, at, field, into);
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)into = read_message(reader, value, at, field->descriptor);
		return *(ProtobufCMessage **)into ? 0 : -1;
	default:
		return wr_problem_at(reader->problem, WR_BAD_VALUE, at,
				     "this field is not accepted in JSON");
	}
}

static int read_list(struct json_reader *reader, const json_t *list,
		     const struct wr_wire_json_at *at, const ProtobufCFieldDescriptor *field,
		     char *message)
{
	size_t count = json_array_size(list), size = wr_rls_json_size(field);
	char *items;

	if (!json_is_array(list))
		return wr_problem_at(reader->problem, WR_BAD_TYPE, at, "a list is expected here");
	if (count > ITEMS_MAX)
		return wr_problem_at(reader->problem, WR_TOO_MANY, at,
				     "the list has %zu items; at most %d are allowed", count,
				     ITEMS_MAX);
	items = allocate(reader, count * size + 1);
	if (!items)
		return -1;
	for (size_t i = 0; i < count; i++) {
		struct wr_wire_json_at here = {at, NULL, i};

		if (read_item(reader, json_array_get(list, i), &here, field, items + i * size) != 0)
			return -1;
	}
	*(size_t *)(message + field->quantifier_offset) = count;
	*(char **)(message + field->offset) = items;
	return 0;
}

static int read_member(struct json_reader *reader, const char *name, json_t *value,
		       const struct wr_wire_json_at *at, ProtobufCMessage *message)
{
	const ProtobufCFieldDescriptor *field = find_field(message->descriptor, name);

	if (!field)
		return wr_problem_at(reader->problem, WR_UNKNOWN_MEMBER, at, "%s has no such field",
				     message->descriptor->short_name);
	if (json_is_null(value))
		return 0;
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return read_list(reader, value, at, field, (char *)message);
	return read_item(reader, value, at, field, (char *)message + field->offset);
}

static ProtobufCMessage *read_message(struct json_reader *reader, json_t *value,
				      const struct wr_wire_json_at *at,
				      const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message = allocate(reader, type->sizeof_message);
	const char *name;
	json_t *member;

	if (!message)
		return NULL;
	protobuf_c_message_init(type, message);
	/* In protojson, a wrapper message such as UInt32Value is only the value that it contains,
	 * without braces. */
	if (strcmp(type->short_name, "UInt64Value") == 0 ||
	    strcmp(type->short_name, "UInt32Value") == 0)
		return read_member(reader, "value", value, at, message) == 0 ? message : NULL;
	if (wr_wire_json_need_object(value, at, reader->problem) != 0)
		return NULL;
	json_object_foreach(value, name, member) {
		struct wr_wire_json_at here = {at, name, 0};

		if (read_member(reader, name, member, &here, message) != 0)
			return NULL;
	}
	return message;
}

ProtobufCMessage *wr_rls_json_read(const ProtobufCMessageDescriptor *type, struct weir_str body,
				   struct wr_rls_memory *memory, struct wr_problem *problem)
{
	struct json_reader reader = {memory, problem};
	json_t *document = wr_wire_json_read(body, problem);
	ProtobufCMessage *message;

	wr_assert(type && memory && problem);
	if (!document)
		return NULL;
	message = read_message(&reader, document, NULL, type);
	json_decref(document);
	return message;
}
