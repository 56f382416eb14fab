/* Threads: name, signal mask, stack size. */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"

struct seen {
	sem_t go, done;
	char name[16];
	bool blocked[2]; /* whether SIGTERM and SIGUSR1 were blocked */
	size_t stack_bytes;
};

static void *look_around(void *context)
{
	struct seen *seen = context;
	pthread_attr_t attributes;
	sigset_t mask;

	sem_wait(&seen->go); /* waits until the thread has its name */
	pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	seen->blocked[0] = sigismember(&mask, SIGTERM);
	seen->blocked[1] = sigismember(&mask, SIGUSR1);
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstacksize(&attributes, &seen->stack_bytes);
	pthread_attr_destroy(&attributes);
	sem_post(&seen->done);
	return context;
}

static int make_seen(void **state)
{
	static struct seen seen;

	memset(&seen, 0, sizeof seen);
	sem_init(&seen.go, 0, 0);
	sem_init(&seen.done, 0, 0);
	*state = &seen;
	return 0;
}

static void check_own_mask_is_unchanged(void)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_false(sigismember(&mask, SIGTERM));
	assert_true(sigismember(&mask, SIGUSR2));
}

static void block_usr2(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void a_thread_has_a_name_and_blocks_signals(void **state)
{
	struct seen *seen = *state;
	pthread_t thread;
	void *result;

	block_usr2();
	assert_int_equal(wr_thread_start(&thread, "weir-test", look_around, seen), 0);
	check_own_mask_is_unchanged();
	sem_post(&seen->go);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, seen);
	assert_string_equal(seen->name, "weir-test");
	assert_true(seen->blocked[0]);
	assert_true(seen->blocked[1]);
}

static void a_long_name_is_cut(void **state)
{
	struct seen *seen = *state;
	pthread_t thread;

	assert_int_equal(wr_thread_start(&thread, "0123456789abcdefgh", look_around, seen), 0);
	sem_post(&seen->go);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(seen->name, "0123456789abcde");
}

static void a_detached_thread_has_the_stack_it_asks_for(void **state)
{
	struct seen *seen = *state;

	block_usr2();
	assert_int_equal(wr_thread_start_detached("weir-alone", 262144, look_around, seen), 0);
	check_own_mask_is_unchanged();
	sem_post(&seen->go);
	sem_wait(&seen->done);
	assert_string_equal(seen->name, "weir-alone");
	assert_true(seen->blocked[0]);
	assert_in_range(seen->stack_bytes, 262144, 524288);
}

static void a_stack_that_is_too_small_is_an_error(void **state)
{
	assert_int_equal(wr_thread_start_detached("weir-small", 1, look_around, *state), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_thread_has_a_name_and_blocks_signals, make_seen),
		cmocka_unit_test_setup(a_long_name_is_cut, make_seen),
		cmocka_unit_test_setup(a_detached_thread_has_the_stack_it_asks_for, make_seen),
		cmocka_unit_test_setup(a_stack_that_is_too_small_is_an_error, make_seen),
	};

	return cmocka_run_group_tests_name("base_thread", tests, NULL, NULL);
}
