/* Capabilities of the machine that a test may need. A test that lacks one is skipped and says so;
 * tools/test counts the skipped tests and prints the reasons. */
#ifndef TEST_NEEDS_H
#define TEST_NEEDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Skips the running test if the machine lacks the capability: needs("root"). The name is one of
 * tools/machine.py, which searches the sources for this call. Call it in the test's own process,
 * not in a child. */
#define needs(capability)                                                                          \
	do {                                                                                       \
		if (test_lacks(capability)) {                                                      \
			test_say_skipped(capability);                                              \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

/* Returns whether the machine lacks it. WEIR_LACKS, when set, lists the missing ones, separated by
 * spaces; otherwise the machine is probed. Knows root, mounts, ipv6 and shm. */
bool test_lacks(const char *name);

/* Puts this process into mounts of its own; an ordinary user gets a user namespace as well, in
 * which his number stays what it is. Returns 0, or -1 with errno. Call it before any thread starts.
 */
int test_own_mounts(void);

/* Prints "skipped: REASON". cmocka has printed the name of the test in a line before. */
void test_say_skipped(const char *name);

#endif
