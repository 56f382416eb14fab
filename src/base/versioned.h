/* Reads and writes the structs of the public headers that begin with `uint32_t size`. The caller
 * sets `size` to the size of the struct in the header that the caller was compiled against. A
 * newer header has new fields only at the end of a struct.
 *
 * Option structs (wr_versioned_read): A caller compiled against an older header passes a smaller
 * struct. The options that the older header does not have get their default, which is all bytes
 * zero. A caller compiled against a newer header passes a larger struct. The larger struct is
 * accepted if the bytes that this library does not know are zero. Otherwise the struct is refused,
 * because the library would ignore an option silently.
 *
 * Output structs (wr_versioned_target, wr_versioned_write): A smaller struct gets the fields that
 * it has, and the library writes nothing behind it. In a larger struct the library sets the bytes
 * that it does not know to zero. `size` stays as the caller set it:
 *
 *   struct weir_result known, *out;
 *
 *   out = result ? wr_versioned_target(result, &known, sizeof known, least) : NULL;
 *   if (!out)
 *           return WEIR_EINVAL;
 *   *out = (struct weir_result){.size = sizeof *out, …};
 *   wr_versioned_write(result, out, sizeof known);
 */
#ifndef WR_BASE_VERSIONED_H
#define WR_BASE_VERSIONED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WR_VERSIONED_MAX 4096u /* a larger `size` is an error: the caller probably did not set it */

/* Returns whether the caller's size is at least `least_size`, at most WR_VERSIONED_MAX, and a
 * multiple of 8. `least_size` is the end of the last field without which the call is useless. */
static inline bool wr_versioned_size_ok(const void *given, size_t least_size)
{
	uint32_t size;

	memcpy(&size, given, sizeof size);
	return size >= least_size && size <= WR_VERSIONED_MAX && size % sizeof(uint64_t) == 0;
}

/* Copies the caller's struct to `known`, a struct of `known_size` bytes. Returns false, and leaves
 * `known` as it is, if the caller's size is invalid (wr_versioned_size_ok), or if bytes beyond
 * `known_size` are not zero. */
static inline bool wr_versioned_read(const void *given, void *known, size_t known_size,
				     size_t least_size)
{
	const uint8_t *bytes = given;
	uint32_t size;

	if (!wr_versioned_size_ok(given, least_size))
		return false;
	memcpy(&size, given, sizeof size);
	for (size_t i = known_size; i < size; i++)
		if (bytes[i])
			return false;
	memset(known, 0, known_size);
	memcpy(known, given, size < known_size ? size : known_size);
	size = (uint32_t)known_size;
	memcpy(known, &size, sizeof size);
	return true;
}

/* Returns the struct of `known_size` bytes that the library fills in. This is the caller's struct
 * if it has `known_size` bytes, so that the usual caller needs no copy. Otherwise it is `known`.
 * Returns NULL if the caller's size is invalid (wr_versioned_size_ok). */
static inline void *wr_versioned_target(void *given, void *known, size_t known_size,
					size_t least_size)
{
	uint32_t size;

	memcpy(&size, given, sizeof size);
	if (__builtin_expect(size == known_size, 1))
		return given;
	return wr_versioned_size_ok(given, least_size) ? known : NULL;
}

/* Copies the struct that wr_versioned_target returned, now filled in, to the caller's struct. */
static inline void wr_versioned_write(void *given, const void *filled, size_t known_size)
{
	uint8_t *bytes = given;
	uint32_t size;

	if (__builtin_expect(given == filled, 1))
		return;
	memcpy(&size, given, sizeof size);
	memcpy(bytes, filled, size < known_size ? size : known_size);
	memcpy(bytes, &size, sizeof size);
	if (size > known_size)
		memset(bytes + known_size, 0, size - known_size);
}

#endif
