/* Spenders and owners of leases are killed at random moments, hundreds of times, and others replace
 * them. No unit is spent twice or after its end, and slots stay usable.
 *
 * The clock is a number that every process advances. Each process records in shared memory the
 * action that it begins, and its end. An action that a dead process has begun and not ended is in
 * doubt: it may have been done or not. */
#include "rounds.h"
#include "table/table_test.h"

#include <signal.h>
#include <time.h>

#include "store/lease.h"

#define KEEPERS 2
#define SPENDERS 3
#define PROCESSES (KEEPERS + SPENDERS)
#define KILLS test_rounds(40, 150)
#define KEYS 3
#define SPENT 1000     /* minimum number of units that are spent */
#define LASTS 3000000u /* duration of a lease; every step of a process is 1000 */
#define STEP 1000u

struct notes {
	uint64_t deposited, spent, late_spent, steps;
	uint64_t begun, ended; /* units of a deposit */
};

static struct weir_table *table;
static struct notes *notes;
static uint64_t *clock_mono; /* the clock, followed by the latest end of the deposits of each key */
static uint64_t rounds;

static uint64_t now(void)
{
	return __atomic_add_fetch(clock_mono, STEP, __ATOMIC_SEQ_CST);
}

static struct wr_key key_of(uint64_t number)
{
	return (struct wr_key){0x9e3779b97f4a7c15u * (number + 1)};
}

static void note(uint64_t *at, uint64_t units)
{
	__atomic_store_n(at, *at + units, __ATOMIC_RELEASE);
}

static void raise_to(uint64_t *at, uint64_t value)
{
	uint64_t seen = __atomic_load_n(at, __ATOMIC_SEQ_CST);

	while (seen < value && !__atomic_compare_exchange_n(at, &seen, value, false,
							    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

/* Reports units, returns some, and deposits new ones. Sometimes frees the slot. */
static void keep_one(struct notes *mine, struct rnd *r, uint64_t owner)
{
	uint64_t key = rnd_below(r, KEYS), mono_ns = now();
	struct wr_store_lease_terms terms = {.units = 1 + (uint32_t)rnd_below(r, 50),
					     .limit = 100,
					     .ends_mono_ns = mono_ns + LASTS,
					     .identity = wr_store_lease_identity(100, 0, 0)};
	int slot = wr_store_lease_claim(table, key_of(key), owner, mono_ns);

	if (slot < 0)
		return;
	raise_to(&clock_mono[1 + key], terms.ends_mono_ns);
	note(&mine->begun, terms.units);
	if (wr_store_lease_deposit(table, slot, owner, &terms, mono_ns, NULL))
		note(&mine->deposited, terms.units);
	note(&mine->ended, terms.units);
	if (rnd_below(r, 8) == 0)
		wr_store_lease_report(table, slot, owner, mono_ns, NULL);
	if (rnd_below(r, 16) == 0)
		wr_store_lease_void(table, slot, owner, mono_ns);
	if (rnd_below(r, 16) == 0)
		wr_store_lease_release(table, slot, owner, mono_ns);
}

static int keep_for_ever(void *arg)
{
	int number = (int)(intptr_t)arg;
	struct rnd r = {rounds * PROCESSES + (uint64_t)number};
	uint64_t owner = 1 + rounds * PROCESSES + (uint64_t)number;

	for (;;) {
		keep_one(&notes[number], &r, owner);
		note(&notes[number].steps, 1);
	}
	return 0;
}

static void spend_one(struct notes *mine, struct rnd *r)
{
	uint64_t key = rnd_below(r, KEYS), mono_ns = now();
	uint64_t latest_ns;
	struct weir_decision decision;
	uint32_t grant;

	if (wr_store_lease_spend(table, key_of(key), wr_store_lease_identity(100, 0, 0), 1, mono_ns,
				 &decision, &grant) != WR_LEASE_SPENT)
		return;
	latest_ns = __atomic_load_n(&clock_mono[1 + key], __ATOMIC_SEQ_CST);
	note(&mine->late_spent, mono_ns >= latest_ns);
	note(&mine->spent, 1);
}

static int spend_for_ever(void *arg)
{
	int number = (int)(intptr_t)arg;
	struct rnd r = {rounds * PROCESSES + (uint64_t)number};

	for (;;) {
		spend_one(&notes[number], &r);
		note(&notes[number].steps, 1);
	}
	return 0;
}

static pid_t start(int number)
{
	rounds++;
	return spawn(number < KEEPERS ? keep_for_ever : spend_for_ever, (void *)(intptr_t)number);
}

static void let_run(struct rnd *r, const struct notes *of)
{
	uint64_t until = __atomic_load_n(&of->steps, __ATOMIC_RELAXED) + rnd_magnitude(r, 400);

	while (__atomic_load_n(&of->steps, __ATOMIC_RELAXED) < until)
		nanosleep(&(struct timespec){0, 1000}, NULL);
	for (uint64_t spin = rnd_below(r, 2000); spin; spin--)
		__asm__ volatile("pause");
}

/* Waits until this many units were spent. */
static void let_spend(uint64_t units)
{
	uint64_t spent;

	do {
		spent = 0;
		for (int i = 0; i < PROCESSES; i++)
			spent += __atomic_load_n(&notes[i].spent, __ATOMIC_RELAXED);
		nanosleep(&(struct timespec){0, 1000}, NULL);
	} while (spent < units);
}

/* Returns the units of deposits that were in doubt. */
static uint64_t end_one(pid_t pid, int number)
{
	struct notes *of = &notes[number];
	uint64_t doubt;

	kill(pid, SIGKILL);
	assert_int_equal(reap(pid), 256 + SIGKILL);
	doubt = of->begun - of->ended;
	of->ended = of->begun;
	return doubt;
}

static uint64_t chaos(void)
{
	struct rnd r = {rnd_seed()};
	pid_t pids[PROCESSES];
	uint64_t doubt = 0;

	for (int i = 0; i < PROCESSES; i++)
		pids[i] = start(i);
	for (int i = 0; i < KILLS; i++) {
		int victim = (int)rnd_below(&r, PROCESSES);

		let_run(&r, &notes[victim]);
		doubt += end_one(pids[victim], victim);
		pids[victim] = start(victim);
	}
	let_spend(SPENT);
	for (int i = 0; i < PROCESSES; i++)
		doubt += end_one(pids[i], i);
	return doubt;
}

static void nothing_is_spent_twice(void **unused)
{
	uint64_t doubt, deposited = 0, spent = 0, late = 0, burnt;
	struct wr_store_lease_burnt of;

	(void)unused;
	table = table_open("killed", MIB, 0);
	notes = shared_memory(PROCESSES * sizeof *notes);
	clock_mono = shared_memory((1 + KEYS) * sizeof *clock_mono);
	*clock_mono = 1000000;
	doubt = chaos();
	for (int i = 0; i < PROCESSES; i++) {
		deposited += notes[i].deposited;
		spent += notes[i].spent;
		late += notes[i].late_spent;
	}
	of = wr_store_lease_burnt(table);
	burnt = of.expired + of.late + of.voided;
	assert_int_equal(late, 0);
	assert_true(spent >= SPENT);
	assert_true(spent + burnt <= deposited + doubt);
	/* Every slot can be claimed once its end has passed. */
	for (uint64_t k = 0; k < KEYS; k++) {
		uint64_t mono_ns = now() + 10ull * 1000000000;
		struct wr_store_lease_terms terms = {.units = 4,
						     .limit = 100,
						     .ends_mono_ns = mono_ns + LASTS,
						     .identity =
							     wr_store_lease_identity(100, 0, 0)};
		struct weir_decision decision;
		uint32_t grant;
		int slot = wr_store_lease_claim(table, key_of(k), UINT64_MAX, mono_ns), got = 0;

		if (slot < 0) /* the key had two slots, and both were given up */
			slot = wr_store_lease_claim(table, key_of(k), UINT64_MAX, mono_ns);
		assert_true(wr_store_lease_deposit(table, slot, UINT64_MAX, &terms, mono_ns, NULL));
		while (wr_store_lease_spend(table, key_of(k), terms.identity, 1, mono_ns, &decision,
					    &grant) == WR_LEASE_SPENT)
			got++;
		assert_int_equal(got, 4);
	}
	shared_free(clock_mono, (1 + KEYS) * sizeof *clock_mono);
	shared_free(notes, PROCESSES * sizeof *notes);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_spent_twice)};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
