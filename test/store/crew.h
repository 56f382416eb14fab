/* Processes with threads that all start at the same moment, for tests of concurrent use of a table.
 */
#ifndef TEST_CREW_H
#define TEST_CREW_H

#include "table/table_test.h"

#define CREW_PROCESSES 4
#define CREW_THREADS 2
#define CREW (CREW_PROCESSES * CREW_THREADS)

/* Calls `work` with the numbers 0 … CREW - 1, each in its own thread, in several processes. Fails
 * the test if one of the processes does not end with exit code 0. */
void crew_run(void (*work)(int number));

#endif
