/* Starts threads that block all signals. Signals are handled by a thread that waits for them, or by
 * the program that embeds the library. */
#ifndef WR_BASE_THREAD_H
#define WR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread that runs run(context). The system shows the first 15 bytes of `name` as the
 * thread's name. The caller joins the thread. Returns 0, or an errno. After an error *thread is
 * undefined. */
int wr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context);

/* Like wr_thread_start, but the thread is detached and has a stack of `stack_bytes`. If
 * `stack_bytes` is 0, the stack has the default size. */
int wr_thread_start_detached(const char *name, size_t stack_bytes, void *(*run)(void *),
			     void *context);

#endif
