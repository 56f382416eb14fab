/* Makes allocations of a test program fail. The suite is linked with --wrap, so that the code under
 * test calls the functions of oom.c instead of malloc(), calloc() and realloc(). */
#ifndef TEST_BASE_OOM_H
#define TEST_BASE_OOM_H

#include <stdbool.h>
#include <stddef.h>

/* Lets the next `allowed` allocations succeed and all later allocations fail. If `allowed` is
 * negative, all allocations succeed. */
void oom_after(long allowed);

#endif
