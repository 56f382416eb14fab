/* grpc.reflection: sends clients the .proto files of our services, which are built into the
 * program. The versions v1 and v1alpha have identical messages. */
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
 * Returns 0, INVALID_ARGUMENT or RESOURCE_EXHAUSTED. If the client asks for an unknown name, the
 * function returns 0, and the response reports the error. */
int wr_reflection_answer(const struct wr_reflection *reflection, struct weir_str bytes,
			 struct wr_rls_memory *memory, struct weir_str *out,
			 struct weir_error *error);

/* ---- reflection_index.c: files by name and by symbol ---- */

#define WR_REFLECTION_FILES 64

/* The functions below identify a file by its index. A negative index means that there is no such
 * file. A set of files is a uint64_t with one bit per file. */
int wr_reflection_file(const struct wr_reflection *reflection, struct weir_str name);
int wr_reflection_symbol(const struct wr_reflection *reflection, struct weir_str name);
uint64_t wr_reflection_with_imports(const struct wr_reflection *reflection, int file);
struct weir_str wr_reflection_bytes(const struct wr_reflection *reflection, int file);

/* Writes the full names of up to `max` services. Returns the number of services, which may be more
 * than `max`. */
size_t wr_reflection_services(const struct wr_reflection *reflection, struct weir_str *names,
			      size_t max);

/* Returns whether `name` is the full name of a message. */
bool wr_reflection_is_message(const struct wr_reflection *reflection, struct weir_str name);

#endif
