/* Memory of the simulator, which runs on a developer's machine: without memory it aborts. */
#ifndef WR_SIM_MEMORY_H
#define WR_SIM_MEMORY_H

#include <stddef.h>

#include "base/buffer.h"

/* An empty growing buffer. */
#define WR_SIM_BUF ((struct wr_buf){.max = 64u << 20})

/* Ends the program with a message. */
_Noreturn void wr_sim_no_memory(void);

/* Returns zeroed memory, which the caller frees. Never returns NULL. */
void *wr_sim_alloc(size_t count, size_t size);

/* Returns the array with room for one element behind the first `count`. Reallocates it and doubles
 * *cap if it is full. */
void *wr_sim_grow(void *array, size_t count, size_t *cap, size_t size);

/* Replaces the content of a buffer. */
void wr_sim_buf_set(struct wr_buf *buf, struct weir_str content);

#endif
