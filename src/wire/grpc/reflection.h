/* grpc.reflection: the .proto files of our services, as they were when this was built. v1 and
 * v1alpha are the same bytes. */
#ifndef WR_WIRE_GRPC_REFLECTION_H
#define WR_WIRE_GRPC_REFLECTION_H

#include <weir/error.h>
#include <weir/rules.h>

#include "wire/memory.h"

struct wr_reflection;

/* Reads the built-in descriptor set. WEIR_EMEMORY. */
int wr_reflection_new(struct wr_reflection **out);
void wr_reflection_free(struct wr_reflection *reflection);

/* Answers the bytes of one ServerReflectionRequest with a packed ServerReflectionResponse. 0, or
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED; a name that is not known is answered, not an error. */
int wr_reflection_answer(const struct wr_reflection *reflection, struct weir_str bytes,
			 struct wr_rls_memory *memory, struct weir_str *out,
			 struct weir_error *error);

/* ---- reflection_index.c: which file has what ---- */

#define WR_REFLECTION_FILES 64

/* Numbers of files; a set holds one bit for each. */
int wr_reflection_file(const struct wr_reflection *reflection, struct weir_str name);
int wr_reflection_symbol(const struct wr_reflection *reflection, struct weir_str name);
uint64_t wr_reflection_with_imports(const struct wr_reflection *reflection, int file);
struct weir_str wr_reflection_bytes(const struct wr_reflection *reflection, int file);

/* Full names of all services; returns how many there are, of which `max` are written. */
size_t wr_reflection_services(const struct wr_reflection *reflection, struct weir_str *names,
			      size_t max);

/* Whether a full name is that of a message. */
bool wr_reflection_is_message(const struct wr_reflection *reflection, struct weir_str name);

#endif
