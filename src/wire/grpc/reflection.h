/* grpc.reflection: the .proto files of our services, built into the program. v1 and v1alpha have
 * the same messages. */
#ifndef WR_WIRE_GRPC_REFLECTION_H
#define WR_WIRE_GRPC_REFLECTION_H

#include <weir/error.h>
#include <weir/rules.h>

#include "wire/memory.h"

struct wr_reflection;

/* Reads the built-in descriptor set. Returns 0 or WEIR_EMEMORY. */
int wr_reflection_new(struct wr_reflection **out);
void wr_reflection_free(struct wr_reflection *reflection);

/* Reads one ServerReflectionRequest and writes a packed ServerReflectionResponse into `memory`.
 * Returns 0, INVALID_ARGUMENT or RESOURCE_EXHAUSTED. An unknown name is a response, not an
 * error. */
int wr_reflection_answer(const struct wr_reflection *reflection, struct weir_str bytes,
			 struct wr_rls_memory *memory, struct weir_str *out,
			 struct weir_error *error);

/* ---- reflection_index.c: files by name and by symbol ---- */

#define WR_REFLECTION_FILES 64

/* A file is a number, below 0: none. A set of files has one bit for each. */
int wr_reflection_file(const struct wr_reflection *reflection, struct weir_str name);
int wr_reflection_symbol(const struct wr_reflection *reflection, struct weir_str name);
uint64_t wr_reflection_with_imports(const struct wr_reflection *reflection, int file);
struct weir_str wr_reflection_bytes(const struct wr_reflection *reflection, int file);

/* Writes the full names of up to `max` services. Returns how many services there are. */
size_t wr_reflection_services(const struct wr_reflection *reflection, struct weir_str *names,
			      size_t max);

/* Whether a message has this full name. */
bool wr_reflection_is_message(const struct wr_reflection *reflection, struct weir_str name);

#endif
