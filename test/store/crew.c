/* Starts the processes and threads of crew.h. */
#include "store/crew.h"

#include <pthread.h>
#include <sched.h>

struct start {
	int ready;
};

static struct start *start;
static void (*task)(int);

static void *thread_main(void *number)
{
	__atomic_fetch_add(&start->ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&start->ready, __ATOMIC_ACQUIRE) < CREW)
		sched_yield();
	task((int)(intptr_t)number);
	return NULL;
}

static int process_main(void *process)
{
	pthread_t threads[CREW_THREADS];
	int first = (int)(intptr_t)process * CREW_THREADS;

	for (int i = 0; i < CREW_THREADS; i++)
		CHILD_CHECK(pthread_create(&threads[i], NULL, thread_main,
					   (void *)(intptr_t)(first + i)) == 0);
	for (int i = 0; i < CREW_THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

void crew_run(void (*work)(int number))
{
	pid_t pids[CREW_PROCESSES];
	int failed = 0;

	start = shared_memory(sizeof *start);
	task = work;
	for (int i = 0; i < CREW_PROCESSES; i++)
		pids[i] = spawn(process_main, (void *)(intptr_t)i);
	for (int i = 0; i < CREW_PROCESSES; i++)
		failed |= reap(pids[i]);
	shared_free(start, sizeof *start);
	assert_int_equal(failed, 0);
}
