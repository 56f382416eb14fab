/* A buffer that grows. The simulator runs on a developer's machine: without memory it stops. */
#ifndef WR_SIM_BYTES_H
#define WR_SIM_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

struct wr_bytes {
	uint8_t *at;
	size_t len, cap;
};

/* Memory of zeros, or the end of the program. */
void *wr_lab_alloc(size_t count, size_t size);

/* So many more bytes, to be written by the caller. */
uint8_t *wr_bytes_more(struct wr_bytes *bytes, size_t len);
void wr_bytes_add(struct wr_bytes *bytes, const void *from, size_t len);
void wr_bytes_set(struct wr_bytes *bytes, const void *from, size_t len);
__attribute__((format(printf, 2, 3))) void wr_bytes_print(struct wr_bytes *bytes,
							  const char *format, ...);
/* Without so many at the front. */
void wr_bytes_drop(struct wr_bytes *bytes, size_t len);
void wr_bytes_free(struct wr_bytes *bytes);

static inline struct weir_str wr_bytes_str(const struct wr_bytes *bytes)
{
	return (struct weir_str){bytes->len ? (const char *)bytes->at : "", bytes->len};
}

#endif
