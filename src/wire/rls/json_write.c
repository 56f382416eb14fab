/* Writes RLS messages as protojson. Called by serve/http/json.c and weir ask. */
#include "wire/rls/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/assert.h"

static void write_message(const ProtobufCMessage *message, struct wr_json_out *json);

static void write_base64(struct wr_json_out *json, const ProtobufCBinaryData *bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	wr_json_raw(json, WR_STR("\""));
	for (size_t i = 0; i < bytes->len; i += 3) {
		size_t left = bytes->len - i;
		uint32_t three = (uint32_t)bytes->data[i] << 16 |
				 (left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0) |
				 (left > 2 ? bytes->data[i + 2] : 0);
		const char four[] = {digits[three >> 18], digits[three >> 12 & 63],
				     left > 1 ? digits[three >> 6 & 63] : '=',
				     left > 2 ? digits[three & 63] : '='};

		wr_buf_add(json->buf, four, sizeof four);
	}
	wr_buf_add_char(json->buf, '"');
}

static void write_double(struct wr_json_out *json, double number)
{
	char text[40];

	if (fabs(number) < 9e15 && number == floor(number))
		snprintf(text, sizeof text, "%" PRId64, (int64_t)number);
	else
		snprintf(text, sizeof text, "%.17g", isfinite(number) ? number : 0.0);
	wr_json_raw(json, wr_str(text));
}

static void write_enum(struct wr_json_out *json, const ProtobufCEnumDescriptor *type, int number)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);

	if (value)
		wr_json_string(json, wr_str(value->name));
	else
		wr_json_int(json, number);
}

static void write_item(struct wr_json_out *json, const ProtobufCFieldDescriptor *field,
		       const void *at)
{
	char digits[24];

	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
		wr_json_uint(json, *(const uint32_t *)at);
		break;
	case PROTOBUF_C_TYPE_INT32:
		wr_json_int(json, *(const int32_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT64: /* is written as a string: JavaScript numbers have 53 bits */
		snprintf(digits, sizeof digits, "%" PRIu64, *(const uint64_t *)at);
		wr_json_string(json, wr_str(digits));
		break;
	case PROTOBUF_C_TYPE_BOOL:
		wr_json_bool(json, *(const protobuf_c_boolean *)at);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		write_double(json, *(const double *)at);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		write_enum(json, field->descriptor, *(const int *)at);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		if (wr_rls_json_is_binary(field))
			write_base64(json, at);
		else
			wr_json_string(
				json, (struct weir_str){
					      (const char *)((const ProtobufCBinaryData *)at)->data,
					      ((const ProtobufCBinaryData *)at)->len});
		break;
	case PROTOBUF_C_TYPE_STRING: /* the key of a map; all other strings are BYTES */
		wr_json_string(json, wr_str(*(const char *const *)at));
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		write_message(*(const ProtobufCMessage *const *)at, json);
		break;
	default:
		wr_json_null(json);
	}
}

static bool is_default(const ProtobufCFieldDescriptor *field, const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return *(const uint64_t *)at == 0;
	case PROTOBUF_C_TYPE_BYTES:
		return ((const ProtobufCBinaryData *)at)->len == 0;
	case PROTOBUF_C_TYPE_MESSAGE:
		return *(void *const *)at == NULL;
	default:
		return *(const uint32_t *)at == 0;
	}
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(base + field->quantifier_offset) != 0;
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)(base + field->quantifier_offset) == field->id;
	return !is_default(field, base + field->offset);
}

static void write_value(struct wr_json_out *json, const ProtobufCMessage *message,
			const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;
	const char *items;
	size_t count;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		write_item(json, field, base + field->offset);
		return;
	}
	count = *(const size_t *)(base + field->quantifier_offset);
	items = *(const char *const *)(base + field->offset);
	wr_json_array(json);
	for (size_t i = 0; i < count; i++)
		write_item(json, field, items + i * wr_rls_json_size(field));
	wr_json_end_array(json);
}

static void write_object(const ProtobufCMessage *message, struct wr_json_out *json)
{
	wr_json_object(json);
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		char name[WR_JSON_NAME + 1];

		if (!is_set(message, field))
			continue;
		name[wr_rls_json_name(field->name, name)] = '\0';
		wr_json_key(json, name);
		write_value(json, message, field);
	}
	wr_json_end_object(json);
}

/* ---- types with a special form in protojson ---- */

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name)
{
	return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

/* Writes a duration as "58s" or "1.500000000s". */
static void write_duration(const ProtobufCMessage *message, struct wr_json_out *json)
{
	const char *base = (const char *)message;
	int64_t seconds = *(const int64_t *)(base + field_of(message, "seconds")->offset);
	int32_t nanos = *(const int32_t *)(base + field_of(message, "nanos")->offset);
	char text[48];

	if (nanos)
		snprintf(text, sizeof text, "%" PRId64 ".%09ds", seconds, nanos);
	else
		snprintf(text, sizeof text, "%" PRId64 "s", seconds);
	wr_json_string(json, wr_str(text));
}

/* Writes the value of a message that stands for a single value: a UInt32Value, a UInt64Value, a
 * Value or a ListValue. */
static void write_only(const ProtobufCMessage *message, struct wr_json_out *json)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];

		if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || is_set(message, field)) {
			if (strcmp(field->name, "null_value") == 0)
				break;
			write_value(json, message, field);
			return;
		}
	}
	wr_json_null(json);
}

/* Writes a Struct as an object. A Struct is a list of entries, each with a key and a value. */
static void write_struct(const ProtobufCMessage *message, struct wr_json_out *json)
{
	const ProtobufCFieldDescriptor *fields = field_of(message, "fields");
	const char *base = (const char *)message;
	size_t count = *(const size_t *)(base + fields->quantifier_offset);
	const ProtobufCMessage *const *entries =
		*(const ProtobufCMessage *const *const *)(base + fields->offset);

	wr_json_object(json);
	for (size_t i = 0; i < count; i++) {
		const ProtobufCFieldDescriptor *key = field_of(entries[i], "key");

		wr_json_key(json, *(const char *const *)((const char *)entries[i] + key->offset));
		write_value(json, entries[i], field_of(entries[i], "value"));
	}
	wr_json_end_object(json);
}

static const struct {
	const char *type;
	void (*write)(const ProtobufCMessage *message, struct wr_json_out *json);
} special[] = {
	{"Duration", write_duration}, {"Struct", write_struct},    {"Value", write_only},
	{"ListValue", write_only},    {"UInt64Value", write_only}, {"UInt32Value", write_only},
};

static void write_message(const ProtobufCMessage *message, struct wr_json_out *json)
{
	for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
		if (strcmp(message->descriptor->short_name, special[i].type) == 0) {
			special[i].write(message, json);
			return;
		}
	}
	write_object(message, json);
}

void wr_rls_json_write(const ProtobufCMessage *message, struct wr_json_out *json)
{
	wr_assert(message && json);
	write_message(message, json);
}
