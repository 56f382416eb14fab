/* Makes allocations of a test program fail. The suite is linked with --wrap for the three functions
 * of oom.c; the objects of the layers under test call them through the wrappers. */
#ifndef TEST_BASE_OOM_H
#define TEST_BASE_OOM_H

#include <stdbool.h>
#include <stddef.h>

/* The next `allowed` allocations succeed, all later ones fail. A negative number: none fails. */
void oom_after(long allowed);

#endif
