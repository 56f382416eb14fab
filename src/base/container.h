/* Finds the struct that contains a given member. */
#ifndef WR_BASE_CONTAINER_H
#define WR_BASE_CONTAINER_H

#include <stddef.h>

/* Returns a pointer to the `type` whose `member` is at `pointer`. `pointer` must not be NULL. */
#define wr_container_of(pointer, type, member)                                                     \
	((type *)(void *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

#endif
