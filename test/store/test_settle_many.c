/* Settling of many requests: random ones, which are compared with a model, and those of 50 clients
 * at the same time. */
#include "rounds.h"
#include "store/crew.h"

#include <pthread.h>
#include <sched.h>

#include "settle_test.h"

/* --- random requests, compared with a list of all of them --- */

#define RECORDS 400

struct record {
	uint64_t units, charged_ns;
};

struct model {
	struct record of[RECORDS];
	int count;
	uint64_t now_ns;
};

static __int128 backlog(const struct model *m)
{
	__int128 missing = 0;
	uint64_t at_ns = 0;

	for (int i = 0; i <= m->count; i++) {
		uint64_t next_ns = i < m->count ? m->of[i].charged_ns : m->now_ns;

		missing -= (__int128)(next_ns - at_ns) * limit.limit;
		missing = missing < 0 ? 0 : missing;
		if (i < m->count)
			missing += (__int128)m->of[i].units * limit.period_ns;
		at_ns = next_ns;
	}
	return missing;
}

/* Returns the number of units in use. */
static uint64_t used(const struct model *m)
{
	uint64_t period_ns = limit.period_ns, window = m->now_ns / period_ns;
	uint64_t here = 0, before = 0, live = 0;

	for (int i = 0; i < m->count; i++) {
		const struct record *r = &m->of[i];

		here += r->charged_ns / period_ns == window ? r->units : 0;
		before += r->charged_ns / period_ns + 1 == window ? r->units : 0;
		live += m->now_ns - r->charged_ns < period_ns ? r->units : 0;
	}
	switch (limit.algorithm) {
	case WEIR_TOKEN_BUCKET:
		return (uint64_t)((backlog(m) + period_ns - 1) / period_ns);
	case WEIR_FIXED_WINDOW:
		return here;
	case WEIR_SLIDING_COUNTER:
		return here + (uint64_t)((__int128)before * (period_ns - m->now_ns % period_ns) /
					 period_ns);
	default:
		return live;
	}
}

/* The table has exactly the units in use that the model has. A bucket may have more: it does not get
 * back the tokens that flowed in meanwhile. */
static void check(const struct model *m, uint64_t seed, int step)
{
	struct weir_decision d = look("k", m->now_ns);
	uint64_t mine = used(m), its = (uint64_t)d.limit - d.remaining + d.debt;
	uint64_t most = limit.capacity + (uint64_t)limit.max_debt;

	if (its > most || its < mine || (its > mine && limit.algorithm != WEIR_TOKEN_BUCKET))
		fail_msg("%llu units in use, the model has %llu; WEIR_SEED=%llu step %d: %s %u per "
			 "%llu",
			 (unsigned long long)its, (unsigned long long)mine,
			 (unsigned long long)seed, step, weir_algorithm_name((int)limit.algorithm),
			 limit.limit, (unsigned long long)limit.period_ns);
}

static uint64_t settle_one(struct rnd *r, struct model *m)
{
	struct record *old = &m->of[rnd_below(r, (uint64_t)m->count)];
	uint64_t actual = rnd_below(r, 2 * old->units + 2);
	struct settled s =
		settle("k", (int64_t)old->units, (int64_t)actual, old->charged_ns, m->now_ns);

	if (actual < old->units) {
		old->units = actual;
		assert_true(s.owed == 0);
		return s.returned;
	}
	m->of[m->count++] = (struct record){s.owed, m->now_ns};
	assert_true(s.returned == 0 && s.owed <= actual - old->units);
	return 0;
}

static void at_random(void **state)
{
	static const uint64_t periods[] = {SECOND, MINUTE, 7 * SECOND, HOUR};
	struct rnd r = {rnd_seed()};
	uint64_t returned = 0, owed = 0, refused = 0, runs = (uint64_t)test_rounds(300, 3000);

	for (uint64_t run = 0; run < runs; run++) {
		static struct model m;
		uint64_t seed = r.x;

		table_clear(table);
		m = (struct model){.now_ns = T0 + rnd_below(&r, DAY)};
		limit = LIMIT(.algorithm = (uint32_t)(uintptr_t)*state,
			      .limit = 5 + (uint32_t)rnd_below(&r, 60),
			      .period_ns = rnd_pick(&r, periods, 4),
			      .max_debt = 1 + (uint32_t)rnd_below(&r, 40));
		for (int step = 0; m.count < RECORDS - 1 && step < 300; step++) {
			if (rnd_below(&r, 3))
				m.now_ns +=
					rnd_below(&r, limit.period_ns / (1 + rnd_below(&r, 30)));
			if (m.count && rnd_below(&r, 2)) {
				returned += settle_one(&r, &m);
			} else {
				uint64_t n = 1 + rnd_below(&r, limit.limit / 3);
				struct weir_decision d =
					take(table, &limit, "k", (int64_t)n, m.now_ns);

				refused += !d.admitted;
				if (d.admitted)
					m.of[m.count++] = (struct record){n, d.charged_ns};
			}
			owed += look("k", m.now_ns).debt > 0;
			check(&m, seed, step);
		}
	}
	/* A bucket gives back little, because tokens flow in meanwhile. */
	assert_true(returned > (limit.algorithm == WEIR_TOKEN_BUCKET ? runs : 20 * runs));
	assert_true(owed > runs && refused > runs);
}

/* --- many requests in flight, compared with an ideal bucket --- */

/* An ideal bucket knows the actual cost of each request at its arrival. Requests that reserve at
 * least their actual cost must fit into it. */

#define IN_FLIGHT 40

struct flight {
	struct weir_decision taken;
	int64_t reserved, actual;
};

struct flights {
	struct flight of[IN_FLIGHT];
	size_t count;
	unsigned __int128 missing; /* tokens that the ideal bucket lacks, in 1/period of a token */
	uint64_t at_ns;            /* time of the latest arrival */
	uint64_t reserved, used, returned;
};

static void arrive(struct rnd *r, struct flights *f, uint64_t now_ns)
{
	struct flight flight = {.reserved = 1 + (int64_t)rnd_below(r, limit.limit / 3)};
	unsigned __int128 inflow = (unsigned __int128)(now_ns - f->at_ns) * limit.limit;

	assert_int_equal(
		weir_reserve(table, &limit, "k", 1, flight.reserved, now_ns, &flight.taken), 0);
	if (!flight.taken.admitted)
		return;
	flight.actual = rnd_below(r, 3) == 0
				? flight.reserved
				: (int64_t)rnd_below(r, (uint64_t)flight.reserved + 1) *
					  (rnd_below(r, 3) == 0);
	f->missing = f->missing > inflow ? f->missing - inflow : 0;
	f->missing += (unsigned __int128)flight.actual * limit.period_ns;
	f->at_ns = now_ns;
	assert_true(f->missing <= (unsigned __int128)limit.capacity * limit.period_ns);
	f->of[f->count++] = flight;
	f->reserved += (uint64_t)flight.reserved;
	f->used += (uint64_t)flight.actual;
}

static void land(struct rnd *r, struct flights *f, uint64_t now_ns)
{
	/* Often the newest, so that some requests stay in flight while others come and go. */
	size_t i = rnd_below(r, 4) ? f->count - 1 : rnd_below(r, f->count);
	struct flight flight = f->of[i];
	struct weir_decision before, after;

	f->of[i] = f->of[--f->count];
	assert_int_equal(weir_take(table, &limit, "k", 1, 0, now_ns, &before), 0);
	assert_int_equal(weir_settle(table, &limit, "k", 1, &flight.taken, flight.reserved,
				     flight.actual, now_ns, &after),
			 0);
	f->returned += after.remaining - before.remaining;
}

static void never_more_than_an_ideal_bucket(void **unused)
{
	struct rnd r = {rnd_seed()};
	struct flights sum = {0};

	(void)unused;
	for (int run = test_rounds(300, 10000); run > 0; run--) {
		struct flights f = {0};
		uint64_t now_ns = T0;

		table_clear(table);
		limit = LIMIT(.algorithm = WEIR_TOKEN_BUCKET,
			      .limit = 10 + (uint32_t)rnd_below(&r, 1000), .period_ns = SECOND,
			      .burst = 10 + (uint32_t)rnd_below(&r, 5000));
		for (int step = 0; step < 400; step++) {
			/* Sometimes long enough for the bucket to become full. */
			if (rnd_below(&r, 40) == 0)
				now_ns += rnd_below(&r, limit.burst * SECOND / limit.limit);
			if (f.count == IN_FLIGHT || (f.count && rnd_below(&r, 2) == 0))
				land(&r, &f, now_ns);
			else
				arrive(&r, &f, now_ns);
		}
		sum.reserved += f.reserved;
		sum.used += f.used;
		sum.returned += f.returned;
	}
	/* The test means something only if most unused tokens are given back. */
	assert_true(sum.returned > (sum.reserved - sum.used) / 2);
}

/* --- 50 clients at the same time --- */

#define CLIENTS 50
#define LIMIT_UNITS 10000u

static struct {
	uint64_t used;     /* units that were used */
	uint64_t admitted; /* requests */
	uint64_t flying;   /* requests in flight */
	uint64_t ready;
} * tally;

static int64_t reservation;

/* Sends requests until one is refused while no other request is in flight. Each request uses 500
 * units. */
static void be_a_client(void)
{
	for (;;) {
		uint64_t flying = __atomic_load_n(&tally->flying, __ATOMIC_SEQ_CST);
		struct weir_decision d = take(table, &limit, "k", reservation, T0);

		if (!d.admitted && flying == 0)
			return;
		if (!d.admitted) {
			sched_yield();
			continue;
		}
		__atomic_add_fetch(&tally->flying, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&tally->used, 500, __ATOMIC_RELAXED);
		__atomic_fetch_add(&tally->admitted, 1, __ATOMIC_RELAXED);
		sched_yield();
		if (settle_with(&d, reservation, 500, T0, &d) < 0)
			abort();
		__atomic_sub_fetch(&tally->flying, 1, __ATOMIC_SEQ_CST);
	}
}

static void *client_main(void *unused)
{
	__atomic_fetch_add(&tally->ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&tally->ready, __ATOMIC_ACQUIRE) < CLIENTS)
		sched_yield();
	be_a_client();
	return unused;
}

static void clients_in_one_process(void)
{
	pthread_t threads[CLIENTS];

	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, client_main, NULL), 0);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
}

/* A thread of a process is several clients: it reserves for all of them, then settles. */
static void be_many_clients(int number)
{
	struct rnd r = {(uint64_t)number};
	struct weir_decision taken[CLIENTS / CREW + 1];
	int count;

	for (;;) {
		uint64_t flying = __atomic_load_n(&tally->flying, __ATOMIC_SEQ_CST);
		struct weir_decision d;

		for (count = 0; count < CLIENTS / CREW + 1; count++) {
			d = take(table, &limit, "k", reservation, T0);
			if (!d.admitted)
				break;
			__atomic_add_fetch(&tally->flying, 1, __ATOMIC_SEQ_CST);
			taken[count] = d;
			__atomic_fetch_add(&tally->used, 500, __ATOMIC_RELAXED);
			__atomic_fetch_add(&tally->admitted, 1, __ATOMIC_RELAXED);
		}
		if (count == 0 && flying == 0)
			return;
		for (int i = 0; i < count; i++) {
			if (rnd_below(&r, 2))
				sched_yield();
			if (settle_with(&taken[i], reservation, 500, T0, &d) < 0)
				abort();
			__atomic_sub_fetch(&tally->flying, 1, __ATOMIC_SEQ_CST);
		}
		if (count == 0)
			sched_yield();
	}
}

static void run_clients(uint32_t algorithm, bool processes, int64_t units)
{
	limit = LIMIT(.algorithm = algorithm, .limit = LIMIT_UNITS, .period_ns = MINUTE,
		      .max_debt = (CLIENTS + CREW) * 400);
	reservation = units;
	tally = shared_memory(sizeof *tally);
	if (processes)
		crew_run(be_many_clients);
	else
		clients_in_one_process();
	assert_int_equal(info_of(table, T0).log_approximate, 0);
	assert_int_equal(info_of(table, T0).log_lost, 0);
}

/* 600 are reserved for 500: when nothing is in flight, 19 requests have used 9,500 of 10,000. */
static void never_more_than_the_limit(void **state)
{
	uintptr_t number = (uintptr_t)*state;

	run_clients((uint32_t)(number & 7), number & 8, 600);
	/* A log gives nothing back if other threads are faster four times in a row to take a block
	 * of the slab. */
	if (limit.algorithm == WEIR_SLIDING_LOG) {
		assert_in_range(tally->admitted, 16, 19);
	} else {
		assert_int_equal(tally->admitted, 19);
		assert_int_equal(look("k", T0).remaining, 500);
	}
	assert_int_equal(look("k", T0).debt, 0);
	shared_free(tally, sizeof *tally);
}

/* 100 are reserved for 500. The limit is exceeded by at most 400 for each request in flight, and
 * nothing is admitted until the debt is paid. */
static void debt_of_what_was_in_flight(void **state)
{
	uintptr_t number = (uintptr_t)*state;
	uint32_t debt;
	uint64_t wait_ns;

	run_clients((uint32_t)(number & 7), number & 8, 100);
	assert_true(tally->used >= LIMIT_UNITS - 99);
	assert_true(tally->used <= LIMIT_UNITS + (CLIENTS + CREW) * 400);
	debt = look("k", T0).debt;
	assert_int_equal(debt, tally->used > LIMIT_UNITS ? tally->used - LIMIT_UNITS : 0);
	wait_ns = take(table, &limit, "k", 100, T0).retry_after_ns;
	/* 6 ms per token, for the debt and for the 100 of the next request. */
	if (limit.algorithm == WEIR_TOKEN_BUCKET)
		assert_int_equal(wait_ns, (tally->used + 100 - LIMIT_UNITS) * 6 * MS);
	assert_int_equal(take(table, &limit, "k", 100, T0 + wait_ns - 1).admitted, 0);
	assert_int_equal(take(table, &limit, "k", 100, T0 + wait_ns).admitted, 1);
	shared_free(tally, sizeof *tally);
}

#define PROCESSES(name)                                                                            \
	EACH(name, 8 | WEIR_TOKEN_BUCKET, "token_bucket, four processes"),                         \
		EACH(name, 8 | WEIR_FIXED_WINDOW, "fixed_window, four processes"),                 \
		EACH(name, 8 | WEIR_SLIDING_COUNTER, "sliding_window_counter, four processes"),    \
		EACH(name, 8 | WEIR_SLIDING_LOG, "sliding_window_log, four processes")

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTLES(at_random),
		TEST(never_more_than_an_ideal_bucket),
		SETTLES(never_more_than_the_limit),
		PROCESSES(never_more_than_the_limit),
		SETTLES(debt_of_what_was_in_flight),
		PROCESSES(debt_of_what_was_in_flight),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
