/* Finds files and symbols in the built-in .proto files. There are only a dozen files, so the
 * functions compare one name after the other. Called by reflection.c. */
#include "wire/grpc/reflection.h"

#include <stdlib.h>
#include <string.h>

#include <weir/index.pb-c.h>

#include "base/assert.h"
#include "base/str.h"

#define NAME_BYTES 4096

extern const uint8_t wr_descriptors[];
extern const size_t wr_descriptors_len;

struct wr_reflection {
	Weir__Index__Set *set;
	size_t count;
	Weir__Index__File *files[WR_REFLECTION_FILES];
	size_t service_count;
	struct weir_str services[WR_REFLECTION_SERVICES]; /* full names, which point into `names` */
	char names[NAME_BYTES];
	size_t names_used;
};

static void add_service(struct wr_reflection *reflection, struct weir_str package,
			struct weir_str name)
{
	char *at = reflection->names + reflection->names_used;
	size_t len = package.len + 1 + name.len;

	wr_assert(reflection->service_count < WR_REFLECTION_SERVICES &&
		  len <= sizeof reflection->names - reflection->names_used);
	memcpy(at, package.ptr, package.len);
	at[package.len] = '.';
	memcpy(at + package.len + 1, name.ptr, name.len);
	reflection->services[reflection->service_count++] = (struct weir_str){at, len};
	reflection->names_used += len;
}

static bool add_descriptor_file(struct wr_reflection *reflection, ProtobufCBinaryData bytes)
{
	Weir__Index__File *file = weir__index__file__unpack(NULL, bytes.len, bytes.data);

	if (!file)
		return false;
	reflection->files[reflection->count++] = file;
	for (size_t i = 0; i < file->n_service; i++)
		add_service(reflection, wr_reflection_text(file->package),
			    wr_reflection_text(file->service[i]->name));
	return true;
}

int wr_reflection_new(struct wr_reflection **out)
{
	struct wr_reflection *reflection = calloc(1, sizeof *reflection);

	if (!reflection)
		return WEIR_EMEMORY;
	reflection->set = weir__index__set__unpack(NULL, wr_descriptors_len, wr_descriptors);
	for (size_t i = 0;
	     reflection->set && i < reflection->set->n_file && i < WR_REFLECTION_FILES; i++)
		if (!add_descriptor_file(reflection, reflection->set->file[i]))
			break;
	if (!reflection->set || reflection->count < reflection->set->n_file) {
		wr_reflection_free(reflection);
		return WEIR_EMEMORY;
	}
	*out = reflection;
	return 0;
}

void wr_reflection_free(struct wr_reflection *reflection)
{
	if (!reflection)
		return;
	for (size_t i = 0; i < reflection->count; i++)
		weir__index__file__free_unpacked(reflection->files[i], NULL);
	weir__index__set__free_unpacked(reflection->set, NULL);
	free(reflection);
}

struct weir_str wr_reflection_bytes(const struct wr_reflection *reflection, int file)
{
	wr_assert(file >= 0 && (size_t)file < reflection->count);
	return wr_reflection_text(reflection->set->file[file]);
}

const struct weir_str *wr_reflection_services(const struct wr_reflection *reflection, size_t *count)
{
	*count = reflection->service_count;
	return reflection->services;
}

int wr_reflection_file(const struct wr_reflection *reflection, struct weir_str name)
{
	for (size_t i = 0; i < reflection->count; i++)
		if (wr_str_equal(wr_reflection_text(reflection->files[i]->name), name))
			return (int)i;
	return -1;
}

/* Returns the set that has only this file, or the empty set if `file` is negative. */
static uint64_t only(int file)
{
	return file < 0 ? 0 : UINT64_C(1) << file;
}

uint64_t wr_reflection_with_imports(const struct wr_reflection *reflection, int file)
{
	uint64_t found = only(file), before;

	wr_assert(file >= 0 && (size_t)file < reflection->count);
	do {
		before = found;
		for (size_t i = 0; i < reflection->count; i++)
			for (size_t k = 0; found >> i & 1 && k < reflection->files[i]->n_dependency;
			     k++)
				found |= only(wr_reflection_file(
					reflection,
					wr_reflection_text(reflection->files[i]->dependency[k])));
	} while (found != before);
	return found;
}

/* ---- symbols ---- */

/* Removes the name `first` and a dot from the front of *rest. Returns false and changes nothing if
 * *rest does not begin with the name and a dot. */
static bool strip_name(struct weir_str *rest, struct weir_str first)
{
	if (!wr_str_begins(*rest, first) || rest->len == first.len || rest->ptr[first.len] != '.')
		return false;
	*rest = wr_str_from(*rest, first.len + 1);
	return true;
}

static bool has_name(Weir__Index__Named *const *list, size_t count, struct weir_str name)
{
	for (size_t i = 0; i < count; i++)
		if (wr_str_equal(wr_reflection_text(list[i]->name), name))
			return true;
	return false;
}

/* Returns whether `rest` is the name of a message type of the list, or of a type that is nested in
 * one of these types. If `messages_only` is false, `rest` may also be the name of an enum or a
 * field inside one of these types. The recursion is as deep as the types are nested. */
static bool has_type(Weir__Index__Type *const *list, size_t count, struct weir_str rest,
		     bool messages_only)
{
	for (size_t i = 0; i < count; i++) {
		const Weir__Index__Type *type = list[i];
		struct weir_str inner = rest;

		if (wr_str_equal(wr_reflection_text(type->name), rest))
			return true;
		if (!strip_name(&inner, wr_reflection_text(type->name)))
			continue;
		return has_type(type->nested_type, type->n_nested_type, inner, messages_only) ||
		       (!messages_only && (has_name(type->enum_type, type->n_enum_type, inner) ||
					   has_name(type->field, type->n_field, inner)));
	}
	return false;
}

static bool has_service(const Weir__Index__File *file, struct weir_str rest)
{
	for (size_t i = 0; i < file->n_service; i++) {
		struct weir_str inner = rest, name = wr_reflection_text(file->service[i]->name);

		if (wr_str_equal(name, rest) ||
		    (strip_name(&inner, name) &&
		     has_name(file->service[i]->method, file->service[i]->n_method, inner)))
			return true;
	}
	return false;
}

int wr_reflection_symbol(const struct wr_reflection *reflection, struct weir_str name)
{
	for (size_t i = 0; i < reflection->count; i++) {
		const Weir__Index__File *file = reflection->files[i];
		struct weir_str rest = name;

		if (strip_name(&rest, wr_reflection_text(file->package)) &&
		    (has_service(file, rest) ||
		     has_name(file->enum_type, file->n_enum_type, rest) ||
		     has_type(file->message_type, file->n_message_type, rest, false)))
			return (int)i;
	}
	return -1;
}

bool wr_reflection_is_message(const struct wr_reflection *reflection, struct weir_str name)
{
	for (size_t i = 0; i < reflection->count; i++) {
		struct weir_str rest = name;

		if (strip_name(&rest, wr_reflection_text(reflection->files[i]->package)) &&
		    has_type(reflection->files[i]->message_type,
			     reflection->files[i]->n_message_type, rest, true))
			return true;
	}
	return false;
}
