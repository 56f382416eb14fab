/* Capabilities of the machine that a test may need. Without the capability the test is skipped and
 * prints the reason. tools/test counts the skipped tests and prints the reasons. */
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
			test_report_skipped(capability);                                           \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

/* Returns whether the machine lacks a capability: root, mounts, hugepages, ipv6 or shm. If WEIR_LACKS is set,
 * it lists the missing capabilities, separated by spaces. Otherwise the machine is probed. */
bool test_lacks(const char *name);

/* Moves this process to a new mount namespace. A process without root gets a user namespace as
 * well, in which its uid and gid stay the same. Returns 0, or -1 with errno. Call it before any
 * thread starts. */
int test_own_mounts(void);

/* Prints "skipped: REASON" after cmocka's line with the name of the test. */
void test_report_skipped(const char *name);

#endif
