/* Starts threads in which all signals are blocked. Signals are handled by the thread that waits for
 * them, or by the program that embeds the library. */
#ifndef WR_BASE_THREAD_H
#define WR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread that runs run(context). The first 15 bytes of `name` are the thread's name in the
 * system. The caller joins the thread. Returns 0, or an errno; on an error *thread is undefined. */
int wr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context);

/* Like wr_thread_start, but the thread is detached and has a stack of `stack_bytes`. 0 means the
 * default size. */
int wr_thread_start_detached(const char *name, size_t stack_bytes, void *(*run)(void *),
			     void *context);

#endif
