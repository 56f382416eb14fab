/* Answers requests of grpc.reflection: sends clients the .proto files of weir's services, in
 * packed form (FileDescriptorProto). These files are built into the program. The versions v1 and
 * v1alpha of grpc.reflection have identical messages. */
#ifndef WR_WIRE_GRPC_REFLECTION_H
#define WR_WIRE_GRPC_REFLECTION_H

#include <weir/error.h>
#include <weir/rules.h>

#include "wire/memory.h"

struct wr_reflection;

/* Unpacks the built-in .proto files. Returns 0 or WEIR_EMEMORY. */
int wr_reflection_new(struct wr_reflection **out);
void wr_reflection_free(struct wr_reflection *reflection);

/* Reads one ServerReflectionRequest and writes a packed ServerReflectionResponse into `memory`.
 * Returns 0, INVALID_ARGUMENT or RESOURCE_EXHAUSTED. If the client asks for an unknown name, the
 * function returns 0, and the response reports the error. */
int wr_reflection_answer(const struct wr_reflection *reflection, struct weir_str bytes,
			 struct wr_rls_memory *memory, struct weir_str *out,
			 struct weir_error *error);

/* ---- reflection_index.c: files by name and by symbol ---- */

#define WR_REFLECTION_FILES 64    /* maximum number of files */
#define WR_REFLECTION_SERVICES 16 /* maximum number of services */

static inline struct weir_str wr_reflection_text(ProtobufCBinaryData bytes)
{
	return (struct weir_str){(const char *)bytes.data, bytes.len};
}

/* wr_reflection_file returns the index of the file with this name, and wr_reflection_symbol the
 * index of the file that defines the symbol with this name. Both return a negative number if there
 * is no such file. */
int wr_reflection_file(const struct wr_reflection *reflection, struct weir_str name);
int wr_reflection_symbol(const struct wr_reflection *reflection, struct weir_str name);

/* Returns a set with the file and all files that it imports, directly or indirectly. Bit number i
 * of a set stands for the file with index i. */
uint64_t wr_reflection_with_imports(const struct wr_reflection *reflection, int file);

/* Returns the packed FileDescriptorProto of a file. */
struct weir_str wr_reflection_bytes(const struct wr_reflection *reflection, int file);

/* Returns the full names of the services and sets *count to their number. */
const struct weir_str *wr_reflection_services(const struct wr_reflection *reflection,
					      size_t *count);

/* Returns whether `name` is the full name of a message. */
bool wr_reflection_is_message(const struct wr_reflection *reflection, struct weir_str name);

#endif
