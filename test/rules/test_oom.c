/* Loads rules while the n-th allocation fails, for every n. The result is WEIR_EMEMORY or, if only
 * a diagnostic was lost, the usual result. No memory is leaked. */
#include "helper.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* These functions replace malloc and others of the C library, for libyaml too. */
void *real_malloc(size_t size) __asm__("__libc_malloc");
void *real_calloc(size_t nmemb, size_t size) __asm__("__libc_calloc");
void *real_realloc(void *ptr, size_t size) __asm__("__libc_realloc");
void real_free(void *ptr) __asm__("__libc_free");

/* Number of allocations before the first that fails; -1: no allocation fails. */
static long left = -1;
static long live;

static int denied(void)
{
	if (left < 0 || left-- > 0)
		return 0;
	left = 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	void *memory = denied() ? NULL : real_malloc(size);

	live += memory != NULL;
	return memory;
}

void *calloc(size_t nmemb, size_t size)
{
	void *memory = denied() ? NULL : real_calloc(nmemb, size);

	live += memory != NULL;
	return memory;
}

void *realloc(void *ptr, size_t size)
{
	void *larger = denied() ? NULL : real_realloc(ptr, size);

	live += !ptr && larger;
	return larger;
}

void free(void *ptr)
{
	live -= ptr != NULL;
	real_free(ptr);
}

static void fail_each(const char *path, int expected)
{
	long failures = 0;

	for (long n = 0;; n++) {
		struct weir_errors errors = {.size = sizeof errors};
		struct weir_rules *rules = NULL;
		long before = live;
		int rc;

		left = n;
		rc = weir_rules_load(path, &rules, &errors);
		if (left > 0) {
			left = -1;
			assert_int_equal(rc, expected);
			weir_rules_free(rules);
			weir_errors_free(&errors);
			break;
		}
		left = -1;
		failures++;
		if (rc != WEIR_EMEMORY)
			assert_int_equal(rc, expected);
		assert_true((rc == 0) == (rules != NULL));
		weir_rules_free(rules);
		weir_errors_free(&errors);
		assert_int_equal(live, before);
	}
	assert_true(failures > 20);
}

static void every_allocation_may_fail(void **state)
{
	fail_each(TEST_FIXTURES "/fine_all_keys.yaml", 0);
	fail_each(TEST_FIXTURES "/fine_ban.yaml", 0);
	fail_each(TEST_FIXTURES "/fine_deep_merge", 0);
	fail_each(TEST_FIXTURES "/fine_kubernetes", 0);
	fail_each(TEST_FIXTURES "/unreachable_rule.yaml", 0);
	fail_each(TEST_FIXTURES "/bad_path.yaml", WEIR_ERULES);
	fail_each(TEST_FIXTURES "/yaml_syntax.yaml", WEIR_ERULES);
	fail_each(TEST_FIXTURES "/cannot_read", WEIR_ERULES);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};

	return cmocka_run_group_tests_name("rules_oom", tests, NULL, NULL);
}
