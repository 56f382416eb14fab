/* Memory of the simulator. If memory is exhausted, the simulator aborts, because it runs only on
 * developers' machines. */
#ifndef WR_SIM_MEMORY_H
#define WR_SIM_MEMORY_H

#include <stddef.h>

#include "base/buffer.h"

/* An empty buffer, which grows up to 64 MB. */
#define WR_SIM_BUF ((struct wr_buf){.max = 64u << 20})

/* Prints a message and aborts the program. */
_Noreturn void wr_sim_no_memory(void);

/* Returns zeroed memory, which the caller frees. Never returns NULL. */
void *wr_sim_alloc(size_t count, size_t size);

/* Makes room in an array for at least count + 1 elements of `size` bytes, and returns the array. If
 * count == *cap, the array is reallocated and *cap is doubled. */
void *wr_sim_grow(void *array, size_t count, size_t *cap, size_t size);

/* Replaces the content of a buffer. */
void wr_sim_buf_set(struct wr_buf *buf, struct weir_str content);

#endif
