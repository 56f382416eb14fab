/* Settling: a request reserves units when it arrives, and its actual cost is known later. The rest
 * of the reservation is given back, or the excess is charged as debt. */
#include "table/override.h"
#include "table/slab.h"
#include "settle_test.h"

#define EDGE (T0 + MINUTE)

/* Takes units, which must fit. Returns charged_ns. */
static uint64_t reserve(const char *key, int64_t units, uint64_t now_ns)
{
	struct weir_decision d = take(table, &limit, key, units, now_ns);

	assert_int_equal(d.admitted, 1);
	return d.charged_ns;
}

static void assert_settled(struct settled s, uint64_t returned, uint64_t owed, uint32_t remaining,
			   uint32_t debt)
{
	assert_int_equal(s.returned, returned);
	assert_int_equal(s.owed, owed);
	assert_int_equal(s.d.remaining, remaining);
	assert_int_equal(s.d.debt, debt);
	assert_int_equal(s.d.admitted, 1);
	assert_int_equal(s.d.retry_after_ns, 0);
}

/* Checks that `units` are admitted after the wait that the table reports, and not 1 ns earlier. */
static void assert_wait(const char *key, int64_t units, uint64_t now_ns, uint64_t wait_ns)
{
	struct weir_decision d = take(table, &limit, key, units, now_ns);

	assert_int_equal(d.admitted, 0);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(d.retry_after_ns, wait_ns);
	assert_int_equal(take(table, &limit, key, units, now_ns + wait_ns - 1).admitted, 0);
	assert_int_equal(take(table, &limit, key, units, now_ns + wait_ns).admitted, 1);
}

/* --- every algorithm that settles --- */

/* 1,000 per minute. A request reserves 600. */
static void gives_back_or_owes(void **algorithm)
{
	static const struct {
		int64_t actual;
		uint64_t returned, owed;
		uint32_t remaining, debt;
	} cases[] = {
		{0, 600, 0, 1000, 0},          {1, 599, 0, 999, 0},      {500, 100, 0, 500, 0},
		{600, 0, 0, 400, 0},           {601, 0, 1, 399, 0},      {1000, 0, 400, 0, 0},
		{1001, 0, 401, 0, 1},          {2000, 0, 1400, 0, 1000}, {2001, 0, 1400, 0, 1000},
		{INT64_MAX, 0, 1400, 0, 1000},
	};

	limit = sized((uint32_t)(uintptr_t)*algorithm, 1000, MINUTE);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char key[8];

		snprintf(key, sizeof key, "k%zu", i);
		assert_settled(settle(key, 600, cases[i].actual, reserve(key, 600, T0), T0),
			       cases[i].returned, cases[i].owed, cases[i].remaining, cases[i].debt);
		assert_int_equal(look(key, T0).remaining, cases[i].remaining);
		assert_int_equal(look(key, T0).debt, cases[i].debt);
		assert_int_equal(look(key, T0).admitted, cases[i].remaining > 0);
	}
}

/* The largest debt is max_debt, or nothing with WEIR_NO_DEBT. The third settlement finds the largest
 * debt and charges nothing. */
static void debt_has_a_bound(void **state)
{
	uint32_t algorithm = (uint32_t)(uintptr_t)*state;

	limit = LIMIT(.algorithm = algorithm, .limit = 1000, .period_ns = MINUTE, .max_debt = 50);
	assert_settled(settle("some", 600, 1030, reserve("some", 600, T0), T0), 0, 430, 0, 30);
	assert_settled(settle("some", 0, 100, 0, T0), 0, 20, 0, 50);
	assert_settled(settle("some", 0, 100, 0, T0), 0, 0, 0, 50);
	limit.max_debt = 5000; /* more than the capacity */
	limit = checked(limit);
	assert_settled(settle("many", 600, 9000, reserve("many", 600, T0), T0), 0, 5400, 0, 5000);
	limit = LIMIT(.algorithm = algorithm, .limit = 1000, .period_ns = MINUTE,
		      .flags = WEIR_NO_DEBT);
	assert_settled(settle("none", 600, 900, reserve("none", 600, T0), T0), 0, 300, 100, 0);
	assert_settled(settle("none", 0, 300, 0, T0), 0, 100, 0, 0);
	assert_settled(settle("none", 0, 300, 0, T0), 0, 0, 0, 0);
}

/* An operator's reset between the reservation and its settlement: nothing is given back to the new
 * counter, and an excess is charged to it. */
static void after_a_reset(void **algorithm)
{
	uint64_t first, second;

	limit = sized((uint32_t)(uintptr_t)*algorithm, 1000, MINUTE);
	first = reserve("k", 600, T0);
	second = reserve("k", 100, T0);
	wr_store_reset(table, &limit, hash_of("k"), T0 + 1);
	reserve("k", 50, T0 + 2);
	assert_settled(settle("k", 600, 500, first, T0 + 2), 0, 0, 950, 0);
	assert_settled(settle("k", 100, 150, second, T0 + 2), 0, 50, 900, 0);
	/* The new counter counts units of the same nanosecond. */
	first = reserve("still", 600, T0);
	wr_store_reset(table, &limit, hash_of("still"), T0);
	reserve("still", 50, T0);
	reserve("still", 10, T0 + 1);
	assert_settled(settle("still", 600, 500, first, T0 + 1), 0, 0, 940, 0);
}

/* A grant raises the limit and the room for debt. A ban does not keep a request from settling. */
static void under_grants_and_bans(void **algorithm)
{
	uint32_t now_s = wr_seconds(T0);
	struct wr_override_change grant = {.grant = true,
					   .to = {.granted = 500, .granted_until_s = now_s + 100}};
	struct wr_override_change ban = {.ban = true, .to = {.banned_until_s = now_s + 100}};
	uint64_t charged_ns;
	struct settled s;

	limit = sized((uint32_t)(uintptr_t)*algorithm, 1000, MINUTE);
	wr_override_change(table, hash_of("k"), limit.algorithm, &grant, now_s);
	charged_ns = reserve("k", 1400, T0);
	assert_settled(settle("k", 1400, 1600, charged_ns, T0), 0, 200, 0, 100);
	assert_int_equal(look("k", T0).limit, 1500);
	wr_override_change(table, hash_of("k"), limit.algorithm, &ban, now_s);
	s = settle("k", 1400, 1500, charged_ns, T0);
	assert_int_equal(s.owed, 100);
	assert_int_equal(s.d.debt, 200);
	s = settle("k", 1400, 700, charged_ns, T0);
	assert_int_equal(s.returned, 700);
	assert_int_equal(s.d.remaining, 500);
	assert_int_equal(take(table, &limit, "k", 1, T0).banned, 1);
}

/* 10 per minute, 15 in soft mode. Debt begins above the soft ceiling. */
static void in_soft_mode(void **algorithm)
{
	struct weir_decision d;
	uint64_t charged_ns;

	limit = LIMIT(.algorithm = (uint32_t)(uintptr_t)*algorithm, .limit = 10,
		      .period_ns = MINUTE, .soft_ceiling = 15, .soft_for_ns = 30 * SECOND,
		      .max_debt = 4);
	reserve("k", 10, T0);
	d = take(table, &limit, "k", 3, T0);
	charged_ns = d.charged_ns;
	assert_int_equal(d.soft, 1);
	assert_int_equal(d.debt, 3);
	assert_settled(settle("k", 3, 1, charged_ns, T0), 2, 0, 0, 1);
	/* 11 units are in use, at most 19 can be. */
	assert_settled(settle("k", 1, 20, charged_ns, T0), 0, 8, 0, 9);
	assert_int_equal(take(table, &limit, "k", 1, T0).admitted, 0);
	/* An excess within the limit is no debt. */
	assert_settled(settle("new", 2, 5, reserve("new", 2, T0), T0), 0, 3, 5, 0);
}

/* --- into the window of the reservation, or not at all --- */

static void a_fixed_window_that_ended(void **unused)
{
	uint64_t charged_ns;

	(void)unused;
	limit = sized(WEIR_FIXED_WINDOW, 1000, MINUTE);
	charged_ns = reserve("k", 600, EDGE - 1);
	reserve("k", 700, EDGE);
	assert_settled(settle("k", 600, 500, charged_ns, EDGE), 0, 0, 300, 0);
	/* The excess is charged now, in the new window. */
	assert_settled(settle("k", 600, 800, charged_ns, EDGE), 0, 200, 100, 0);
}

/* The previous window counts for three quarters 15 s after its end. */
static void the_previous_window_of_a_counter(void **unused)
{
	uint64_t charged_ns, now_ns = EDGE + 15 * SECOND;

	(void)unused;
	limit = sized(WEIR_SLIDING_COUNTER, 1000, MINUTE);
	charged_ns = reserve("k", 600, EDGE - 1);
	reserve("k", 100, now_ns);
	assert_int_equal(look("k", now_ns).remaining, 450);
	assert_settled(settle("k", 600, 400, charged_ns, now_ns), 200, 0, 600, 0);
	reserve("k", 100, now_ns + MINUTE);
	assert_settled(settle("k", 600, 0, charged_ns, now_ns + MINUTE), 0, 0, 825, 0);
}

/* 1,000 per minute: in 6 s, 100 tokens flow in. They are not given back a second time. */
static void a_bucket_that_has_refilled(void **unused)
{
	uint64_t charged_ns;

	(void)unused;
	limit = sized(WEIR_TOKEN_BUCKET, 1000, MINUTE);
	charged_ns = reserve("k", 600, T0);
	reserve("k", 400, T0);
	assert_settled(settle("k", 600, 350, charged_ns, T0 + 6 * SECOND), 150, 0, 250, 0);
	assert_settled(settle("k", 350, 300, charged_ns, T0 + 6 * SECOND), 0, 0, 250, 0);
}

static void a_log_whose_entries_are_too_old(void **unused)
{
	uint64_t charged_ns;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, 1000, MINUTE);
	charged_ns = reserve("k", 600, T0);
	reserve("k", 100, T0 + SECOND);
	assert_settled(settle("k", 600, 590, charged_ns, EDGE - 1), 10, 0, 310, 0);
	assert_settled(settle("k", 590, 0, charged_ns, EDGE), 0, 0, 900, 0);
}

/* --- debt is paid before the next request is admitted --- */

/* One token per second. The bucket lacks 90 tokens of 60: a token is there after 31 s. */
static void a_bucket_repays_its_debt_first(void **unused)
{
	(void)unused;
	limit = sized(WEIR_TOKEN_BUCKET, 60, MINUTE);
	assert_settled(settle("k", 60, 90, reserve("k", 60, T0), T0), 0, 30, 0, 30);
	assert_int_equal(look("k", T0).reset_after_ns, 90 * SECOND);
	assert_int_equal(look("k", T0 + 29 * SECOND).debt, 1);
	assert_int_equal(look("k", T0 + 29 * SECOND + 1).debt, 1);
	assert_int_equal(look("k", T0 + 30 * SECOND).debt, 0);
	assert_wait("k", 1, T0, 31 * SECOND);
	/* The token of 31 s was taken: 60 tokens are lacking again. */
	assert_wait("k", 10, T0 + 31 * SECOND, 10 * SECOND);
}

/* A bucket of 5 tokens that refills 60 per minute can lack 10. */
static void a_burst_owes_as_much_as_it_holds(void **unused)
{
	(void)unused;
	limit = LIMIT(.algorithm = WEIR_TOKEN_BUCKET, .limit = 60, .burst = 5, .period_ns = MINUTE);
	assert_settled(settle("k", 5, 100, reserve("k", 5, T0), T0), 0, 5, 0, 5);
	assert_wait("k", 1, T0, 6 * SECOND);
}

static void a_fixed_window_stays_over_until_it_ends(void **unused)
{
	(void)unused;
	limit = sized(WEIR_FIXED_WINDOW, 100, MINUTE);
	assert_settled(settle("k", 60, 190, reserve("k", 60, T0 + SECOND), T0 + 2 * SECOND), 0, 130,
		       0, 90);
	assert_wait("k", 100, T0 + 2 * SECOND, 58 * SECOND);
}

/* 150 of 100 in the current window. In the next window they count 150 · (the rest of the window).
 * The estimate is below 100 when less than 40 s of that window remain. */
static void a_counter_with_debt(void **unused)
{
	(void)unused;
	limit = sized(WEIR_SLIDING_COUNTER, 100, MINUTE);
	assert_settled(settle("k", 60, 150, reserve("k", 60, T0), T0), 0, 90, 0, 50);
	assert_int_equal(look("k", EDGE).debt, 50);
	assert_int_equal(look("k", EDGE + 10 * SECOND).debt, 25);
	assert_wait("k", 1, T0, 80 * SECOND + 1);
}

/* A window counts at most 2^32 - 1 units. Units that it cannot count are not charged. */
static void a_window_that_counts_no_more(uint32_t algorithm)
{
	limit = LIMIT(.algorithm = algorithm, .limit = UINT32_MAX, .period_ns = MINUTE,
		      .max_debt = UINT32_MAX);
	reserve("k", 1, T0);
	reserve("k", 1, T0);
	assert_settled(settle("k", 1, UINT32_MAX - 5, T0, T0), 0, UINT32_MAX - 6, 4, 0);
	assert_settled(settle("k", 1, UINT32_MAX, T0, T0), 0, 4, 0, 0);
	assert_settled(settle("k", 1, UINT32_MAX, T0, T0), 0, 0, 0, 0);
	limit = LIMIT(.algorithm = algorithm, .limit = 100, .period_ns = MINUTE,
		      .max_debt = UINT32_MAX);
	assert_settled(settle("small", 0, UINT32_MAX, 0, T0), 0, UINT32_MAX, 0, UINT32_MAX - 100);
	assert_settled(settle("small", 0, 7, 0, T0), 0, 0, 0, UINT32_MAX - 100);
}

static void a_fixed_window_that_counts_no_more(void **unused)
{
	(void)unused;
	a_window_that_counts_no_more(WEIR_FIXED_WINDOW);
}

static void a_counter_that_counts_no_more(void **unused)
{
	(void)unused;
	a_window_that_counts_no_more(WEIR_SLIDING_COUNTER);
}

/* 60 units at T0 and 90 more 10 s later. When the first 60 leave, 10 of 100 can be taken. */
static void a_log_with_debt(void **unused)
{
	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, 100, MINUTE);
	assert_settled(settle("k", 60, 150, reserve("k", 60, T0), T0 + 10 * SECOND), 0, 90, 0, 50);
	assert_int_equal(look("k", EDGE).debt, 0);
	assert_int_equal(look("k", EDGE).remaining, 10);
	assert_wait("k", 10, T0 + 10 * SECOND, 50 * SECOND);
	assert_wait("k", 11, EDGE, 10 * SECOND);
}

/* --- logs --- */

/* The middle request gives back. The entries of the others keep their times. */
static void from_the_middle_of_a_log(void **unused)
{
	uint64_t middle;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, 10, MINUTE);
	reserve("k", 3, T0);
	middle = reserve("k", 3, T0 + SECOND);
	reserve("k", 3, T0 + 2 * SECOND);
	assert_settled(settle("k", 3, 1, middle, T0 + 3 * SECOND), 2, 0, 3, 0);
	assert_int_equal(look("k", EDGE - 1).remaining, 3);
	assert_int_equal(look("k", EDGE).remaining, 6);
	assert_int_equal(look("k", EDGE + SECOND - 1).remaining, 6);
	assert_int_equal(look("k", EDGE + SECOND).remaining, 7);
	assert_int_equal(look("k", EDGE + 2 * SECOND).remaining, 10);
	/* The unit that is left, and nothing more. */
	assert_settled(settle("k", 3, 0, middle, T0 + 3 * SECOND), 1, 0, 4, 0);
	assert_settled(settle("k", 3, 0, middle, T0 + 3 * SECOND), 0, 0, 4, 0);
	/* The log admits its limit. */
	reserve("k", 4, T0 + 4 * SECOND);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 4 * SECOND).admitted, 0);
	/* Each old ring was freed: 12 entries fit into 128 bytes. */
	assert_true(info_of(table, T0).log_bytes_used <= 128);
}

/* Five requests of one nanosecond, before and after a later request. */
static void many_requests_of_one_nanosecond(void **unused)
{
	uint64_t charged_ns = 0;

	(void)unused;
	limit = sized(WEIR_SLIDING_LOG, 20, MINUTE);
	for (int i = 0; i < 5; i++)
		charged_ns = reserve("k", 2, T0);
	assert_settled(settle("k", 2, 1, charged_ns, T0), 1, 0, 11, 0);
	reserve("k", 1, T0 + 1);
	for (uint32_t i = 0; i < 4; i++)
		assert_settled(settle("k", 2, 1, charged_ns, T0 + 2), 1, 0, 11 + i, 0);
	assert_int_equal(look("k", EDGE).remaining, 19);
	for (uint32_t i = 0; i < 5; i++)
		settle("k", 1, 0, charged_ns, T0 + 2);
	assert_int_equal(look("k", T0 + 2).remaining, 19);
	assert_int_equal(look("k", EDGE).remaining, 19);
}

static void use_all_blocks(uint32_t stamps)
{
	struct wr_table_log_block block;
	struct wr_slab_wish wish = {.cell = &table->rows[0].cell[0], .stamps = stamps};

	while (wr_slab_take(table, &wish, T0, &block))
		;
}

/* The rings of other keys use the whole slab, so nothing can be removed from the middle, and no other
 * log becomes brief for that. The newest entries can be removed. */
static void a_log_in_a_full_slab(void **unused)
{
	struct weir_limit other = sized(WEIR_SLIDING_LOG, 3, HOUR);
	struct weir_table *before = table;
	uint64_t first, last, brief;

	(void)unused;
	table = table_narrow("narrow", 64, 1);
	limit = sized(WEIR_SLIDING_LOG, 10, MINUTE);
	first = reserve("k", 2, T0);
	last = reserve("k", 2, T0 + 1);
	for (uint64_t key = 0; key < 300; key++)
		for (uint64_t i = 0; i < 2; i++)
			take_nth(table, &other, key, 1, T0 + i);
	brief = info_of(table, T0).log_evicted;
	assert_int_equal(info_of(table, T0).log_bytes_used, table->span_bytes);
	assert_settled(settle("k", 2, 1, first, T0 + 2), 0, 0, 6, 0);
	assert_settled(settle("k", 2, 1, last, T0 + 2), 1, 0, 7, 0);
	assert_int_equal(info_of(table, T0).log_evicted, brief);
	assert_int_equal(info_of(table, T0).log_lost, 0);
	table_drop(table);
	table = before;
}

/* The log is brief: it counts by thirds of the period, and gives back to the third in which the
 * units were taken. */
static void a_brief_log(void **unused)
{
	struct weir_table *before = table;
	uint64_t third_ns = wr_brief_slot_ns(wr_brief_code(MINUTE));
	uint64_t start_ns = (T0 / third_ns + 1) * third_ns, later_ns = start_ns + third_ns, first;

	(void)unused;
	table = table_narrow("narrow", 4, 1);
	limit = sized(WEIR_SLIDING_LOG, 10, MINUTE);
	use_all_blocks(12);
	use_all_blocks(4);
	first = reserve("k", 3, start_ns);
	reserve("k", 3, start_ns + SECOND);
	reserve("k", 1, later_ns);
	assert_true(info_of(table, T0).log_approximate > 0);
	assert_settled(settle("k", 3, 1, first, later_ns), 2, 0, 5, 0);
	assert_settled(settle("k", 1, 3, first, later_ns), 0, 2, 3, 0);
	assert_settled(settle("k", 0, 90, first, later_ns), 0, 13, 0, 10);
	assert_int_equal(take(table, &limit, "k", 1, later_ns).admitted, 0);
	/* The four units of the first third leave after four thirds. */
	assert_int_equal(look("k", start_ns + 4 * third_ns - 1).debt, 10);
	assert_int_equal(look("k", start_ns + 4 * third_ns).debt, 6);
	assert_int_equal(look("k", later_ns + 4 * third_ns - 1).debt, 6);
	assert_int_equal(look("k", later_ns + 4 * third_ns).remaining, 10);
	table_drop(table);
	table = before;
}

/* A log that must stay exact gets no ring for its debt. The debt is not charged, and the failure is
 * counted. */
static void an_exact_log_without_room(void **unused)
{
	struct weir_table *before = table;
	struct settled s;

	(void)unused;
	table = table_narrow("narrow", 4, 1);
	limit = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 4, .period_ns = MINUTE,
		      .flags = WEIR_FULL_REFUSES);
	reserve("k", 2, T0);
	reserve("k", 2, T0 + 1);
	use_all_blocks(12);
	use_all_blocks(4);
	s = settle("k", 2, 9, T0, T0 + 2);
	assert_int_equal(s.owed, 0);
	assert_int_equal(s.d.full, 1);
	assert_int_equal(info_of(table, T0).log_full, 1);
	assert_int_equal(look("k", T0 + 2).remaining, 0);
	table_drop(table);
	table = before;
}

/* A full log that counts refusals may have dropped older entries, so nothing is removed. */
static void a_log_that_counts_refusals(void **unused)
{
	uint64_t first;

	(void)unused;
	limit = LIMIT(.algorithm = WEIR_SLIDING_LOG, .limit = 4, .period_ns = MINUTE,
		      .flags = WEIR_COUNT_REJECTED);
	first = reserve("k", 1, T0);
	reserve("k", 1, T0 + 1);
	assert_settled(settle("k", 1, 0, first, T0 + 2), 1, 0, 3, 0);
	first = reserve("k", 1, T0 + 2);
	reserve("k", 2, T0 + 3);
	assert_int_equal(take(table, &limit, "k", 1, T0 + 3).admitted, 0);
	assert_settled(settle("k", 1, 0, first, T0 + 4), 0, 0, 0, 0);
}

/* --- the decision of the take --- */

/* 1,000 tokens, 100 per second. The last 200 tokens are taken. After one second, 100 tokens have
 * flowed in, and the request has used 50. */
static void the_decision_of_the_take(void **unused)
{
	static const char *const keys[] = {"whole", "same", "stored", "back"};
	struct weir_decision taken, stored, after;
	uint64_t now_ns = T0 + SECOND;

	(void)unused;
	limit = sized(WEIR_TOKEN_BUCKET, 1000, 10 * SECOND);
	for (int i = 0; i < 4; i++) {
		reserve(keys[i], 800, T0);
		assert_int_equal(
			weir_reserve(table, &limit, keys[i], strlen(keys[i]), 200, T0, &taken), 0);
		assert_int_equal(taken.remaining, 0);
	}
	/* The four decisions are equal. The bucket lacked 900 tokens, so it gets back all 150. */
	assert_int_equal(weir_settle(table, &limit, "whole", 5, &taken, 200, 50, now_ns, &after),
			 0);
	assert_int_equal(after.remaining, 250);
	stored = (struct weir_decision){.charged_ns = taken.charged_ns};
	assert_int_equal(weir_settle(table, &limit, "same", 4, &taken, 200, 50, now_ns, &taken), 0);
	assert_memory_equal(&taken, &after, sizeof taken);
	/* Without the decision the bucket gets back the tokens that have not flowed in, as by
	 * weir_return. */
	assert_int_equal(weir_settle(table, &limit, "stored", 6, &stored, 200, 50, now_ns, &after),
			 0);
	assert_int_equal(after.remaining, 150);
	assert_int_equal(give_back(table, &limit, "back", 150, stored.charged_ns, now_ns).remaining,
			 150);
}

/* Settles a request of the key "k" that reserved 100 tokens and used none. */
static void settle_unused(const struct weir_decision *taken, uint64_t now_ns)
{
	struct weir_decision after;

	assert_int_equal(weir_settle(table, &limit, "k", 1, taken, 100, 0, now_ns, &after), 0);
}

/* Uses as many tokens as possible, 100 at a time. Returns their number. */
static uint64_t use_all(uint64_t now_ns)
{
	uint64_t used = 0;

	while (take(table, &limit, "k", 100, now_ns).admitted)
		used += 100;
	return used;
}

/* 10,000 tokens, 100 per second. 100 requests reserve 100 tokens each and use none. 90 of them are
 * settled at once. Ten seconds later, the bucket is full again without the other 10. */
static void tokens_that_others_gave_back(void **unused)
{
	struct weir_decision taken[100];
	uint64_t now_ns = T0 + 10 * SECOND;

	(void)unused;
	limit = sized(WEIR_TOKEN_BUCKET, 10000, 100 * SECOND);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(weir_reserve(table, &limit, "k", 1, 100, T0, &taken[i]), 0);
		assert_int_equal(taken[i].admitted, 1);
	}
	for (int i = 0; i < 90; i++)
		settle_unused(&taken[i], T0);
	assert_int_equal(use_all(now_ns), 10000);
	for (int i = 90; i < 100; i++)
		settle_unused(&taken[i], now_ns);
	assert_int_equal(use_all(now_ns), 0);
}

/* A table of an older version does not count the tokens that are given back. */
static void a_table_without_counts(void **unused)
{
	struct weir_decision taken, after;

	(void)unused;
	table->header.sections[WR_SECTION_RETURNED].bytes = 0;
	limit = sized(WEIR_TOKEN_BUCKET, 1000, 10 * SECOND);
	reserve("k", 800, T0);
	assert_int_equal(weir_reserve(table, &limit, "k", 1, 200, T0, &taken), 0);
	assert_int_equal(taken.given, 0);
	assert_int_equal(settle_with(&taken, 200, 50, T0 + SECOND, &after), 0);
	assert_int_equal(after.remaining, 150); /* with the counts: 250 */
}

/* --- arguments --- */

static void arguments(void **unused)
{
	struct weir_limit leaky = sized(WEIR_LEAKY_BUCKET, 10, MINUTE);
	struct weir_decision taken = {.charged_ns = T0}, zero = {0}, d;

	(void)unused;
	limit = sized(WEIR_FIXED_WINDOW, 10, MINUTE);
	memset(&d, 1, sizeof d);
	assert_int_equal(weir_settle(table, &leaky, "k", 1, &taken, 1, 1, T0, &d), WEIR_ELIMIT);
	assert_memory_equal(&d, &zero, sizeof d);
	memset(&d, 1, sizeof d);
	assert_int_equal(settle_with(&taken, -1, 1, T0, &d), WEIR_EINVAL);
	assert_memory_equal(&d, &zero, sizeof d);
	memset(&d, 1, sizeof d);
	assert_int_equal(settle_with(NULL, 1, 1, T0, &d), WEIR_EINVAL);
	assert_memory_equal(&d, &zero, sizeof d);
	assert_int_equal(settle_with(&taken, 1, -1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_reserve(NULL, &limit, "k", 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_reserve(table, &limit, "k", 1, -1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_settle(NULL, &limit, "k", 1, &taken, 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_settle(table, NULL, "k", 1, &taken, 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_settle(table, &limit, NULL, 1, &taken, 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(settle_with(&taken, 1, 1, T0, NULL), WEIR_EINVAL);
	assert_int_equal(settle_with(&taken, 1, 1, TIME_MAX + 1, &d), WEIR_ETIME);
	/* A key that does not exist gets no cell if nothing is charged. */
	assert_int_equal(settle_with(&taken, 5, 2, T0, &d), 0);
	assert_int_equal(d.remaining, 10);
	assert_int_equal(info_of(table, T0).keys, 0);
	assert_int_equal(settle_with(&zero, 0, 2, T0, &d), 0);
	assert_int_equal(d.remaining, 8);
	taken.charged_ns = TIME_MAX + 1;
	assert_int_equal(settle_with(&taken, 1, 1, T0, &d), WEIR_ETIME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTLES(gives_back_or_owes),
		SETTLES(debt_has_a_bound),
		SETTLES(after_a_reset),
		SETTLES(under_grants_and_bans),
		SETTLES(in_soft_mode),
		TEST(a_fixed_window_that_ended),
		TEST(the_previous_window_of_a_counter),
		TEST(a_bucket_that_has_refilled),
		TEST(a_log_whose_entries_are_too_old),
		TEST(a_bucket_repays_its_debt_first),
		TEST(a_burst_owes_as_much_as_it_holds),
		TEST(a_fixed_window_stays_over_until_it_ends),
		TEST(a_counter_with_debt),
		TEST(a_fixed_window_that_counts_no_more),
		TEST(a_counter_that_counts_no_more),
		TEST(a_log_with_debt),
		TEST(from_the_middle_of_a_log),
		TEST(many_requests_of_one_nanosecond),
		TEST(a_log_in_a_full_slab),
		TEST(a_brief_log),
		TEST(an_exact_log_without_room),
		TEST(a_log_that_counts_refusals),
		TEST(the_decision_of_the_take),
		TEST(tokens_that_others_gave_back),
		TEST(a_table_without_counts),
		TEST(arguments),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
