/* Participants that take turns between any two accesses to shared memory, in random orders from a
 * seed; some of them are ended half way as if killed. Orders that threads meet once in a billion
 * runs are met often here, and the same seed repeats them.
 *
 * A participant is a coroutine with longjmp, because swapcontext() makes two system calls. The code
 * under test is compiled with step_points.h before it. */
#ifndef TEST_TURNS_H
#define TEST_TURNS_H

#include "rounds.h"
#include "table/table_test.h"

#define PARTICIPANTS 3
/* An eighth of the runs is enough for every day. */
#define RUNS(n) test_rounds((n) / 8, n)

extern struct rnd dice;
extern unsigned mortality; /* one in so many steps is the last; 0: none */
extern uint64_t run_seed;  /* the value of WEIR_SEED that failures print */

/* Of cmocka: before each test. */
int seed(void **unused);

/* Runs all participants until each has ended or died. */
void race(void (*run)(int number));

/* Runs participant 0 with one interruption: before its access number `at`, from 1 on, participant 1
 * runs to its end. Returns false if participant 0 ended before that. A loop over `at` until then
 * tries every place for one interruption. */
bool interrupt(void (*run)(int number), unsigned long at);

/* Number of accesses in the last race() or interrupt(). */
unsigned long steps_taken(void);

bool is_dead(int number);

/* Fail with the seed of the run. */
void equal(const char *what, uint64_t got, uint64_t expected);
void at_most(const char *what, uint64_t got, uint64_t most);

#endif
