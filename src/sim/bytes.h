/* A buffer that grows without a maximum; a zeroed struct is an empty buffer. Unlike base/buffer.h
 * it needs no check of failures: the simulator runs on a developer's machine and aborts without
 * memory. */
#ifndef WR_SIM_BYTES_H
#define WR_SIM_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

struct wr_bytes {
	uint8_t *at;
	size_t len, cap;
};

/* Ends the program with a message. */
_Noreturn void wr_sim_no_memory(void);

/* Returns zeroed memory, which the caller frees. Never returns NULL. */
void *wr_sim_alloc(size_t count, size_t size);

/* Returns the array with room for one element behind the first `count`. Reallocates it and doubles
 * *cap if it is full. */
void *wr_sim_grow(void *array, size_t count, size_t *cap, size_t size);

/* Appends `len` bytes and returns them. The caller writes their content. */
uint8_t *wr_bytes_more(struct wr_bytes *bytes, size_t len);
void wr_bytes_add(struct wr_bytes *bytes, const void *from, size_t len);
/* Replaces the content. */
void wr_bytes_set(struct wr_bytes *bytes, const void *from, size_t len);
/* Appends formatted text of less than 1024 bytes. */
__attribute__((format(printf, 2, 3))) void wr_bytes_print(struct wr_bytes *bytes,
							  const char *format, ...);
/* Removes `len` bytes from the front. */
void wr_bytes_drop(struct wr_bytes *bytes, size_t len);
void wr_bytes_free(struct wr_bytes *bytes);

static inline struct weir_str wr_bytes_str(const struct wr_bytes *bytes)
{
	return (struct weir_str){bytes->len ? (const char *)bytes->at : "", bytes->len};
}

#endif
