/* Simulated threads that take turns between any two accesses to shared memory, in random orders
 * from a seed. Some of them are ended at a random step, as if they were killed. Orders of steps
 * that real threads have once in a billion runs are frequent here, and the same seed repeats them.
 *
 * A simulated thread is a coroutine that changes turns with longjmp, because swapcontext() makes
 * two system calls. The files under test are compiled with step_points.h.
 *
 * A suite includes this header last, so that no parameter of an inline function shadows `table`. */
#ifndef TEST_TURNS_H
#define TEST_TURNS_H

#include "rounds.h"
#include "table/table_test.h"

#define PARTICIPANTS 3
/* Returns n runs for `make test-full`, and an eighth of them otherwise. */
#define RUNS(n) test_rounds((n) / 8, n)

/* Group fixtures: turns_open() makes the folder of the test and a table with two rows and four
 * spans. The table has a fixed secret, so that the same seed repeats the same run. */
extern struct weir_table *table;
int turns_open(void **unused);
int turns_close(void **unused);
/* Begins a run: clears the table, of which the run uses `spans` spans. */
void turns_start(uint32_t spans);

extern struct rnd dice;
/* A simulated thread is killed with probability 1 / mortality at each step; 0: never. */
extern unsigned mortality;
extern uint64_t run_seed; /* the value of WEIR_SEED that failures print */

/* Setup function for cmocka: seeds the random generator before each test. */
int seed(void **unused);

/* Runs all simulated threads until each has ended or was killed. */
void race(void (*run)(int number));

/* Runs simulated thread 0 with one interruption: before its access number `at`, counted from 1,
 * thread 1 runs to its end. Returns false if thread 0 ended before that access. A loop over `at`
 * until the result is false tries every point for one interruption. */
bool interrupt(void (*run)(int number), unsigned long at);

/* Returns the number of accesses in the last race() or interrupt(). */
unsigned long steps_taken(void);

bool is_dead(int number);

/* Compare two numbers. If they differ, the test fails and prints the seed of the run. */
void equal(const char *what, uint64_t got, uint64_t expected);
void at_most(const char *what, uint64_t got, uint64_t most);

#endif
