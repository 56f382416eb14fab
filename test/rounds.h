/* The number of rounds of a random test. Seeds are fixed, so each tier always runs the same
 * cases. */
#ifndef TEST_ROUNDS_H
#define TEST_ROUNDS_H

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
	__has_feature(memory_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#define TEST_SANITIZED_SHARE 8 /* with a sanitizer a round takes about this many times as long */

/* Returns `quick`, or `full` when WEIR_TIER is "full" (make test-full). With a sanitizer it returns
 * an eighth of that, but at least 1. */
static inline int test_rounds(int quick, int full)
{
	const char *tier = getenv("WEIR_TIER");
	int rounds = tier && strcmp(tier, "full") == 0 ? full : quick;

	if (TEST_SANITIZED)
		rounds /= TEST_SANITIZED_SHARE;
	return rounds > 0 ? rounds : 1;
}

#endif
