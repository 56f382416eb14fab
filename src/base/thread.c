/* Starts threads that have a name and block all signals. Used by all layers that have threads. */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

#define NAME_BYTES 16u /* the kernel's maximum size of a thread's name, with the zero byte */

/* Blocks all signals while it creates the thread, because the new thread inherits the signal mask
 * of its creator. */
static int create_thread(pthread_t *thread, const pthread_attr_t *attributes, const char *name,
			 void *(*run)(void *), void *context)
{
	char short_name[NAME_BYTES];
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, attributes, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return rc;
	snprintf(short_name, sizeof short_name, "%s", name);
	/* An error is ignored: the name is only for display. */
	pthread_setname_np(*thread, short_name);
	return 0;
}

int wr_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context)
{
	return create_thread(thread, NULL, name, run, context);
}

/* Detaches the thread only after create_thread has set its name. The id of a detached thread
 * becomes invalid when the thread ends, and setting the name needs a valid id. */
int wr_thread_start_detached(const char *name, size_t stack_bytes, void *(*run)(void *),
			     void *context)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int rc = pthread_attr_init(&attributes);

	if (rc)
		return rc;
	if (stack_bytes)
		rc = pthread_attr_setstacksize(&attributes, stack_bytes);
	if (rc == 0)
		rc = create_thread(&thread, &attributes, name, run, context);
	pthread_attr_destroy(&attributes);
	return rc ? rc : pthread_detach(thread);
}
