/* Reads the option structs of the public headers. Each struct begins with `uint32_t size`, which
 * the caller sets.
 *
 * A caller compiled against an older header passes a smaller struct. The options that the older
 * header does not have get their default, which is all bytes zero. A caller compiled against a
 * newer header passes a larger struct. The larger struct is accepted if the bytes that this library
 * does not know are zero. Otherwise the struct is refused, because the library would ignore an
 * option silently. */
#ifndef WR_BASE_VERSIONED_H
#define WR_BASE_VERSIONED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WR_VERSIONED_MAX 4096u /* a larger `size` is an error: the caller probably did not set it */

/* Copies the caller's struct to `known`, a struct of `known_size` bytes. Returns false, and leaves
 * `known` as it is, if the caller's size is below `least_size`, above WR_VERSIONED_MAX or not a
 * multiple of 8, or if bytes beyond `known_size` are not zero. */
static inline bool wr_versioned_read(const void *given, void *known, size_t known_size,
				     size_t least_size)
{
	const uint8_t *bytes = given;
	uint32_t size;

	memcpy(&size, given, sizeof size);
	if (size < least_size || size > WR_VERSIONED_MAX || size % sizeof(uint64_t))
		return false;
	for (size_t i = known_size; i < size; i++)
		if (bytes[i])
			return false;
	memset(known, 0, known_size);
	memcpy(known, given, size < known_size ? size : known_size);
	size = (uint32_t)known_size;
	memcpy(known, &size, sizeof size);
	return true;
}

#endif
