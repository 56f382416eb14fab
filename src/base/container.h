/* From a member of a struct to the struct. */
#ifndef WR_BASE_CONTAINER_H
#define WR_BASE_CONTAINER_H

#include <stddef.h>

/* The `type` whose `member` is at `pointer`, which must not be NULL. */
#define wr_container_of(pointer, type, member)                                                     \
	((type *)(void *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

#endif
