/* Makes the dynamic_metadata of a response in the form of Envoy's ratelimit: the request, and the
 * `metadata` of the rules that admitted the request. Called by answer.c.
 *
 *   {domain, descriptors: [{entries: ["k=v"], limit: "…", hitsAddend}], hitsAddend, metadata: {…}}
 *
 * The metadata is built as JSON, because the metadata of rules is JSON. It is then converted to a
 * protobuf Struct. Building the JSON allocates memory, unlike all other parts of a response. The
 * option dynamic_metadata is off by default. */
#include "wire/rls/rls.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define LIMIT_TEXT 64

/* ---- JSON to Struct ---- */

static bool write_value(const json_t *from, struct wr_rls_memory *memory, Pb__Value *value);

static Pb__Value *new_value(const json_t *from, struct wr_rls_memory *memory)
{
	Pb__Value *value = wr_rls_alloc(memory, sizeof *value);

	if (!value)
		return NULL;
	pb__value__init(value);
	return write_value(from, memory, value) ? value : NULL;
}

static Pb__ListValue *new_list(const json_t *from, struct wr_rls_memory *memory)
{
	size_t count = json_array_size(from);
	Pb__ListValue *list = wr_rls_alloc(memory, sizeof *list);

	if (!list)
		return NULL;
	pb__list_value__init(list);
	list->values = wr_rls_alloc_many(memory, count, sizeof(void *));
	for (size_t i = 0; list->values && i < count; i++) {
		list->values[i] = new_value(json_array_get(from, i), memory);
		if (!list->values[i])
			return NULL;
		list->n_values++;
	}
	return list->values ? list : NULL;
}

static Pb__Struct__FieldsEntry *new_field(const char *key, const json_t *from,
					  struct wr_rls_memory *memory)
{
	Pb__Struct__FieldsEntry *field = wr_rls_alloc(memory, sizeof *field);
	size_t len = strlen(key) + 1;

	if (!field)
		return NULL;
	pb__struct__fields_entry__init(field);
	field->key = wr_rls_alloc(memory, len);
	field->value = new_value(from, memory);
	if (!field->key || !field->value)
		return NULL;
	memcpy(field->key, key, len);
	return field;
}

static Pb__Struct *new_struct(json_t *from, struct wr_rls_memory *memory)
{
	Pb__Struct *made = wr_rls_alloc(memory, sizeof *made);
	const char *key;
	json_t *value;

	if (!made)
		return NULL;
	pb__struct__init(made);
	made->fields = wr_rls_alloc_many(memory, json_object_size(from), sizeof(void *));
	if (!made->fields)
		return NULL;
	json_object_foreach(from, key, value) {
		Pb__Struct__FieldsEntry *field = new_field(key, value, memory);

		if (!field)
			return NULL;
		made->fields[made->n_fields++] = field;
	}
	return made;
}

static bool write_value(const json_t *from, struct wr_rls_memory *memory, Pb__Value *value)
{
	switch (json_typeof(from)) {
	case JSON_OBJECT:
		value->kind_case = PB__VALUE__KIND_STRUCT_VALUE;
		value->struct_value = new_struct((json_t *)from, memory);
		return value->struct_value != NULL;
	case JSON_ARRAY:
		value->kind_case = PB__VALUE__KIND_LIST_VALUE;
		value->list_value = new_list(from, memory);
		return value->list_value != NULL;
	case JSON_STRING:
		value->kind_case = PB__VALUE__KIND_STRING_VALUE;
		value->string_value.len = json_string_length(from);
		value->string_value.data = wr_rls_alloc(memory, value->string_value.len);
		if (!value->string_value.data)
			return false;
		memcpy(value->string_value.data, json_string_value(from), value->string_value.len);
		return true;
	case JSON_INTEGER:
	case JSON_REAL:
		value->kind_case = PB__VALUE__KIND_NUMBER_VALUE;
		value->number_value = json_number_value(from);
		return true;
	case JSON_TRUE:
	case JSON_FALSE:
		value->kind_case = PB__VALUE__KIND_BOOL_VALUE;
		value->bool_value = json_is_true(from);
		return true;
	default:
		value->kind_case = PB__VALUE__KIND_NULL_VALUE;
		return true;
	}
}

/* ---- the request as JSON ---- */

/* Returns a JSON string with the text. If the text is not UTF-8, each byte above ASCII becomes '?',
 * because the response must be UTF-8. */
static json_t *text_json(struct weir_str text)
{
	json_t *made = json_stringn(text.len ? text.ptr : "", text.len);
	char *copy;

	if (made)
		return made;
	copy = malloc(text.len + 1);
	for (size_t i = 0; copy && i < text.len; i++)
		copy[i] = (char)(text.ptr[i] & 0x80 ? '?' : text.ptr[i]);
	made = copy ? json_stringn(copy, text.len) : NULL;
	free(copy);
	return made;
}

static json_t *entry_json(const Pb__RateLimitDescriptor__Entry *entry)
{
	size_t key = entry->key.len, value = entry->value.len;
	char *text = malloc(key + 1 + value);
	json_t *made;

	if (!text)
		return NULL;
	if (key)
		memcpy(text, entry->key.data, key);
	text[key] = '=';
	if (value)
		memcpy(text + key + 1, entry->value.data, value);
	made = text_json((struct weir_str){text, key + 1 + value});
	free(text);
	return made;
}

static json_t *limit_json(const Pb__RateLimitDescriptor__RateLimitOverride *limit)
{
	const ProtobufCEnumValue *unit =
		protobuf_c_enum_descriptor_get_value(&pb__rate_limit_unit__descriptor, limit->unit);
	char text[LIMIT_TEXT];

	snprintf(text, sizeof text, "requests_per_unit:%u unit:%s", limit->requests_per_unit,
		 unit ? unit->name : "UNKNOWN");
	return json_string(text);
}

static json_t *descriptor_json(const Pb__RateLimitDescriptor *descriptor)
{
	json_t *made = json_object(), *entries = json_array();

	for (size_t i = 0; i < descriptor->n_entries; i++)
		json_array_append_new(entries, entry_json(descriptor->entries[i]));
	json_object_set_new(made, "entries", entries);
	if (descriptor->limit)
		json_object_set_new(made, "limit", limit_json(descriptor->limit));
	if (descriptor->hits_addend)
		json_object_set_new(made, "hitsAddend",
				    json_real((double)descriptor->hits_addend->value));
	return made;
}

/* Merges the metadata of the rules that admitted the request. If two rules set the same member, the
 * rule of the first descriptor wins, so the descriptors are merged from the last to the first. */
static json_t *rules_json(const struct weir_ask *ask, size_t count)
{
	json_t *merged = json_object();

	for (size_t i = count; i-- > 0;) {
		struct weir_status status = {.size = sizeof status};
		json_t *one;

		if (weir_ask_status(ask, i, &status) != 0 || status.code != WEIR_STATUS_OK ||
		    !status.metadata.len)
			continue;
		one = json_loadb(status.metadata.ptr, status.metadata.len, 0, NULL);
		json_object_update_recursive(merged, one);
		json_decref(one);
	}
	return merged;
}

static json_t *request_json(const struct weir_ask *ask, const Pb__RateLimitRequest *request)
{
	json_t *made = json_object(), *descriptors = json_array();
	json_t *rules = rules_json(ask, request->n_descriptors);

	for (size_t i = 0; i < request->n_descriptors; i++)
		json_array_append_new(descriptors, descriptor_json(request->descriptors[i]));
	json_object_set_new(made, "domain", text_json(wr_rls_domain(request)));
	json_object_set_new(made, "descriptors", descriptors);
	if (request->hits_addend)
		json_object_set_new(made, "hitsAddend", json_integer(request->hits_addend));
	if (json_object_size(rules))
		json_object_set(made, "metadata", rules);
	json_decref(rules);
	return made;
}

Pb__Struct *wr_rls_metadata(const struct weir_ask *ask, const Pb__RateLimitRequest *request,
			    struct wr_rls_memory *memory)
{
	json_t *all = request_json(ask, request);
	Pb__Struct *made = all ? new_struct(all, memory) : NULL;

	json_decref(all);
	return made;
}
