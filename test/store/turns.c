/* Coroutines and the scheduler of turns.h. */
#include "turns.h"

#include <setjmp.h>
#include <ucontext.h>

#define SPANS 4u
#define STACK (64 * 1024)
#define STEPS_MAX 1000000 /* a run with more steps is an endless loop */

/* AddressSanitizer needs to know when the stack changes. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
// NOLINTBEGIN(bugprone-reserved-identifier): stand-ins for the sanitizer's calls
static inline void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size)
{
	(void)fake;
	(void)bottom;
	(void)size;
}

static inline void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size)
{
	(void)fake;
	(void)bottom;
	(void)size;
}
// NOLINTEND(bugprone-reserved-identifier)
#endif

enum condition { READY, DONE, DEAD };

struct participant {
	ucontext_t start;
	jmp_buf context;
	bool started;
	void *fake;
	enum condition condition;
	void (*run)(int);
};

static struct participant crew[PARTICIPANTS];
static char stacks[PARTICIPANTS][STACK];
static jmp_buf home;
static void *home_fake;
static const void *home_stack;
static size_t home_bytes;
/* Number of the simulated thread that runs; -1: none runs, and step points do nothing. */
static int running = -1;
struct weir_table *table;
struct rnd dice;
static unsigned patience; /* average number of steps before another simulated thread runs */
unsigned mortality;
static unsigned long steps;
/* Number of the access before which thread 0 is interrupted; 0: turns are random. */
static unsigned long interrupt_at;

uint64_t run_seed;

static void back_home(void)
{
	struct participant *self = &crew[running];

	__sanitizer_start_switch_fiber(self->condition == READY ? &self->fake : NULL, home_stack,
				       home_bytes);
	if (_setjmp(self->context) == 0)
		_longjmp(home, 1);
	__sanitizer_finish_switch_fiber(self->fake, NULL, NULL);
}

void step_point(void)
{
	if (running < 0)
		return;
	steps++;
	if (interrupt_at) {
		if (running == 0 && steps == interrupt_at)
			back_home();
		return;
	}
	if (mortality && rnd_below(&dice, mortality) == 0)
		crew[running].condition = DEAD;
	else if (rnd_below(&dice, patience))
		return;
	back_home();
}

static void begin(int number)
{
	__sanitizer_finish_switch_fiber(NULL, &home_stack, &home_bytes);
	crew[number].run(number);
	crew[number].condition = DONE;
	back_home();
}

static void enlist(int number, void (*run)(int))
{
	struct participant *p = &crew[number];

	*p = (struct participant){.run = run};
	getcontext(&p->start);
	p->start.uc_stack.ss_sp = stacks[number];
	p->start.uc_stack.ss_size = STACK;
	makecontext(&p->start, (void (*)(void))begin, 1, number);
}

static void let_run(int number)
{
	running = number;
	__sanitizer_start_switch_fiber(&home_fake, stacks[running], STACK);
	if (_setjmp(home) == 0) {
		if (crew[running].started)
			_longjmp(crew[running].context, 1);
		crew[running].started = true;
		setcontext(&crew[running].start);
	}
	__sanitizer_finish_switch_fiber(home_fake, NULL, NULL);
	running = -1;
}

static bool give_turn(void)
{
	int ready[PARTICIPANTS], n = 0;

	for (int i = 0; i < PARTICIPANTS; i++)
		if (crew[i].condition == READY)
			ready[n++] = i;
	if (n == 0)
		return false;
	let_run(ready[rnd_below(&dice, (uint64_t)n)]);
	return true;
}

void race(void (*run)(int))
{
	patience = 1u << rnd_below(&dice, 10);
	steps = 0;
	for (int i = 0; i < PARTICIPANTS; i++)
		enlist(i, run);
	while (give_turn())
		if (steps > STEPS_MAX)
			fail_msg("hangs; WEIR_SEED=%llu", (unsigned long long)run_seed);
}

bool interrupt(void (*run)(int), unsigned long at)
{
	bool interrupted;

	steps = 0;
	interrupt_at = at;
	enlist(0, run);
	enlist(1, run);
	let_run(0);
	interrupted = crew[0].condition == READY;
	if (interrupted) {
		let_run(1);
		let_run(0);
	}
	interrupt_at = 0;
	return interrupted;
}

unsigned long steps_taken(void)
{
	return steps;
}

bool is_dead(int number)
{
	return crew[number].condition == DEAD;
}

void equal(const char *what, uint64_t got, uint64_t expected)
{
	if (got != expected)
		fail_msg("%s: %llu instead of %llu; WEIR_SEED=%llu", what, (unsigned long long)got,
			 (unsigned long long)expected, (unsigned long long)run_seed);
}

void at_most(const char *what, uint64_t got, uint64_t most)
{
	if (got > most)
		fail_msg("%s: %llu, more than %llu; WEIR_SEED=%llu", what, (unsigned long long)got,
			 (unsigned long long)most, (unsigned long long)run_seed);
}

int turns_open(void **unused)
{
	static uint8_t secret[WR_SECRET_BYTES];

	if (folder_make(unused) < 0)
		return -1;
	table = table_narrow("interleave", 2, SPANS);
	for (size_t i = 0; i < sizeof secret; i++)
		secret[i] = (uint8_t)rnd(&dice);
	table->secret = secret;
	return 0;
}

int turns_close(void **unused)
{
	table_drop(table);
	return folder_drop(unused);
}

void turns_start(uint32_t spans)
{
	run_seed = dice.x;
	table->span_count = SPANS;
	table_clear(table);
	table->span_count = spans;
}

int seed(void **unused)
{
	(void)unused;
	dice.x = rnd_seed();
	mortality = 0;
	return 0;
}
