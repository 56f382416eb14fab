/* Starting threads. All signals are blocked in them: the thread that waits for signals, or the
 * program that embeds the library, gets them. */
#ifndef WR_BASE_THREAD_H
#define WR_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread that runs run(context). The system shows the first 15 bytes of `name` for it. The
 * caller joins the thread. Returns 0 or an errno, and then *thread is undefined. */
int wr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context);

/* The same for a thread that nothing joins, with a stack of `stack_bytes`; 0: the usual size. */
int wr_thread_start_detached(const char *name, size_t stack_bytes, void *(*run)(void *),
			     void *context);

#endif
