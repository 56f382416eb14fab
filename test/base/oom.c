/* Wrappers of the C library's allocation functions that fail on demand; see oom.h. */
#include "base/oom.h"

static long left = -1;

void oom_after(long allowed)
{
	left = allowed;
}

static bool is_denied(void)
{
	if (left < 0)
		return false;
	if (left == 0)
		return true;
	left--;
	return false;
}

// NOLINTBEGIN(bugprone-reserved-identifier): the names that --wrap needs
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
	return is_denied() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return is_denied() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return is_denied() ? NULL : __real_realloc(memory, size);
}
// NOLINTEND(bugprone-reserved-identifier)
