/* Participants that take turns between any two accesses to shared memory, in orders drawn at random
 * from a seed, some of them ended half way as if killed. What threads meet once in a billion, this
 * meets often, and again from the same seed.
 *
 * A participant is a coroutine; jumps, because swapcontext() makes two system calls. The code under
 * test is compiled with step_points.h before it. */
#ifndef TEST_TURNS_H
#define TEST_TURNS_H

#include "rounds.h"
#include "table/table_test.h"

#define PARTICIPANTS 3
/* An eighth of the runs is enough for every day. */
#define RUNS(n) test_rounds((n) / 8, n)

extern struct rnd dice;
extern unsigned mortality; /* one in so many steps is the last; 0: none */
extern uint64_t run_seed;  /* what failures tell to set WEIR_SEED to */

/* Of cmocka: before each test. */
int seed(void **unused);

/* All of them at once, until each is done or dead. */
void race(void (*run)(int number));

/* Participant 0 alone, but for one interruption: before its access number `at`, from 1 on,
 * participant 1 runs to its end. Returns false when participant 0 had done before that: with every
 * `at` until then, each place where one interruption may fall has been tried. */
bool interrupt(void (*run)(int number), unsigned long at);

/* Accesses in the last race, or in what was run with interrupt(). */
unsigned long steps_taken(void);

bool is_dead(int number);

/* Fail with the seed of the run. */
void equal(const char *what, uint64_t got, uint64_t expected);
void at_most(const char *what, uint64_t got, uint64_t most);

#endif
