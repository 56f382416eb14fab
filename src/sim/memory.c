/* Allocates the memory of the simulator. All files of src/sim call these functions. */
#include "sim/memory.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_ELEMENTS 8u

void wr_sim_no_memory(void)
{
	fputs("sim: no memory\n", stderr);
	abort();
}

void *wr_sim_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		wr_sim_no_memory();
	return memory;
}

void *wr_sim_grow(void *array, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? 2 * *cap : FIRST_ELEMENTS;
	array = realloc(array, *cap * size);
	if (!array)
		wr_sim_no_memory();
	return array;
}

void wr_sim_buf_set(struct wr_buf *buf, struct weir_str content)
{
	wr_buf_clear(buf);
	if (!wr_buf_add_str(buf, content))
		wr_sim_no_memory();
}
