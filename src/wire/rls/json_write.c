#include "wire/rls/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

static void put_message(const ProtobufCMessage *message, struct wr_text *out);

static struct weir_str text_of(const ProtobufCBinaryData *bytes)
{
	return (struct weir_str){(const char *)bytes->data, bytes->len};
}

static void put_base64(struct wr_text *out, const ProtobufCBinaryData *bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	wr_text_char(out, '"');
	for (size_t i = 0; i < bytes->len; i += 3) {
		size_t left = bytes->len - i;
		uint32_t three = (uint32_t)bytes->data[i] << 16 |
				 (left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0) |
				 (left > 2 ? bytes->data[i + 2] : 0);

		wr_text_char(out, digits[three >> 18]);
		wr_text_char(out, digits[three >> 12 & 63]);
		wr_text_char(out, left > 1 ? digits[three >> 6 & 63] : '=');
		wr_text_char(out, left > 2 ? digits[three & 63] : '=');
	}
	wr_text_char(out, '"');
}

static void put_signed(struct wr_text *out, int64_t number)
{
	if (number < 0)
		wr_text_char(out, '-');
	wr_text_number(out, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

static void put_double(struct wr_text *out, double number)
{
	char text[40];
	int len;

	if (fabs(number) < 9e15 && number == floor(number))
		len = snprintf(text, sizeof text, "%" PRId64, (int64_t)number);
	else
		len = snprintf(text, sizeof text, "%.17g", isfinite(number) ? number : 0.0);
	wr_text_put(out, (struct weir_str){text, (size_t)len});
}

static void put_enum(struct wr_text *out, const ProtobufCEnumDescriptor *type, int number)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);

	if (value)
		wr_json_put_text(out, wr_str(value->name));
	else
		put_signed(out, number);
}

static void put_item(struct wr_text *out, const ProtobufCFieldDescriptor *field, const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32:
		wr_text_number(out, *(const uint32_t *)at);
		break;
	case PROTOBUF_C_TYPE_INT32:
		put_signed(out, *(const int32_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT64: /* 64 bits are strings: JavaScript has 53 */
		wr_text_char(out, '"');
		wr_text_number(out, *(const uint64_t *)at);
		wr_text_char(out, '"');
		break;
	case PROTOBUF_C_TYPE_BOOL:
		wr_text_put(out,
			    *(const protobuf_c_boolean *)at ? WR_STR("true") : WR_STR("false"));
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		put_double(out, *(const double *)at);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		put_enum(out, field->descriptor, *(const int *)at);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		if (wr_rls_json_is_binary(field))
			put_base64(out, at);
		else
			wr_json_put_text(out, text_of(at));
		break;
	case PROTOBUF_C_TYPE_STRING: /* keys of a map alone */
		wr_json_put_text(out, wr_str(*(const char *const *)at));
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		put_message(*(const ProtobufCMessage *const *)at, out);
		break;
	default:
		PUT(out, "null");
	}
}

static size_t stride(const ProtobufCFieldDescriptor *field)
{
	return field->type == PROTOBUF_C_TYPE_BYTES     ? sizeof(ProtobufCBinaryData)
	       : field->type == PROTOBUF_C_TYPE_MESSAGE ? sizeof(void *)
	       : field->type == PROTOBUF_C_TYPE_UINT64  ? sizeof(uint64_t)
							: sizeof(uint32_t);
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

static void put_value(struct wr_text *out, const ProtobufCMessage *message,
		      const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;
	const char *items;
	size_t count;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		put_item(out, field, base + field->offset);
		return;
	}
	count = *(const size_t *)(base + field->quantifier_offset);
	items = *(const char *const *)(base + field->offset);
	wr_text_char(out, '[');
	for (size_t i = 0; i < count; i++) {
		if (i)
			wr_text_char(out, ',');
		put_item(out, field, items + i * stride(field));
	}
	wr_text_char(out, ']');
}

static void put_object(const ProtobufCMessage *message, struct wr_text *out)
{
	bool first = true;

	wr_text_char(out, '{');
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		char name[WR_JSON_NAME];

		if (!is_set(message, field))
			continue;
		if (!first)
			wr_text_char(out, ',');
		first = false;
		wr_json_put_text(out, (struct weir_str){name, wr_rls_json_name(field->name, name)});
		wr_text_char(out, ':');
		put_value(out, message, field);
	}
	wr_text_char(out, '}');
}

/* ---- types that protojson writes in a way of their own ---- */

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name)
{
	return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

/* "58s", "1.500s". */
static void put_duration(const ProtobufCMessage *message, struct wr_text *out)
{
	const char *base = (const char *)message;
	int64_t seconds = *(const int64_t *)(base + field_of(message, "seconds")->offset);
	int32_t nanos = *(const int32_t *)(base + field_of(message, "nanos")->offset);
	char text[48];
	int len = nanos ? snprintf(text, sizeof text, "\"%" PRId64 ".%09ds\"", seconds, nanos)
			: snprintf(text, sizeof text, "\"%" PRId64 "s\"", seconds);

	wr_text_put(out, (struct weir_str){text, (size_t)len});
}

/* The one field that is there: of a wrapper, of a Value, of a ListValue. */
static void put_only(const ProtobufCMessage *message, struct wr_text *out)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];

		if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || is_set(message, field)) {
			if (strcmp(field->name, "null_value") == 0)
				break;
			put_value(out, message, field);
			return;
		}
	}
	PUT(out, "null");
}

/* A Struct is a list of entries with key and value. */
static void put_struct(const ProtobufCMessage *message, struct wr_text *out)
{
	const ProtobufCFieldDescriptor *fields = field_of(message, "fields");
	const char *base = (const char *)message;
	size_t count = *(const size_t *)(base + fields->quantifier_offset);
	const ProtobufCMessage *const *entries =
		*(const ProtobufCMessage *const *const *)(base + fields->offset);

	wr_text_char(out, '{');
	for (size_t i = 0; i < count; i++) {
		if (i)
			wr_text_char(out, ',');
		put_value(out, entries[i], field_of(entries[i], "key"));
		wr_text_char(out, ':');
		put_value(out, entries[i], field_of(entries[i], "value"));
	}
	wr_text_char(out, '}');
}

static const struct {
	const char *type;
	void (*put)(const ProtobufCMessage *message, struct wr_text *out);
} special[] = {
	{"Duration", put_duration}, {"Struct", put_struct},    {"Value", put_only},
	{"ListValue", put_only},    {"UInt64Value", put_only}, {"UInt32Value", put_only},
};

static void put_message(const ProtobufCMessage *message, struct wr_text *out)
{
	for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
		if (strcmp(message->descriptor->short_name, special[i].type) == 0) {
			special[i].put(message, out);
			return;
		}
	}
	put_object(message, out);
}

void wr_rls_json_write(const ProtobufCMessage *message, struct wr_text *out)
{
	put_message(message, out);
}
