/* Requests that use up a limit after another request has looked at it: the units that the other
 * request has already taken are given back. With the linker's --wrap, the test acts just before
 * units are taken. */
#include "helper.h"

#include "store/store.h"

static int takes;
/* Number of the call of wr_store_take before which the test acts; 0: never. */
static int interrupt_at;
static void (*interruption)(void);
static struct rig rig, other;

// NOLINTBEGIN(bugprone-reserved-identifier)
void __real_wr_store_take(struct weir_table *, const struct weir_limit *, struct wr_key, int64_t,
			  uint64_t, struct weir_decision *);
void __wrap_wr_store_take(struct weir_table *, const struct weir_limit *, struct wr_key, int64_t,
			  uint64_t, struct weir_decision *);

void __wrap_wr_store_take(struct weir_table *table, const struct weir_limit *limit,
			  struct wr_key key, int64_t cost, uint64_t now_ns,
			  struct weir_decision *decision)
{
	if (++takes == interrupt_at)
		interruption();
	__real_wr_store_take(table, limit, key, cost, now_ns, decision);
}
// NOLINTEND(bugprone-reserved-identifier)

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: a\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: b\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: kept\n"
	"  rate_limit: {unit: day, requests_per_unit: 5, count_rejected: true}\n"
	"- key: n\n"
	"  rate_limit: {unit: day, requests_per_unit: 5}\n"
	"- key: t\n"
	"  rate_limit: {unit: second, requests_per_unit: 1, burst: 5, algorithm: token_bucket}\n"
	"- key: q\n"
	"  quota_mode: true\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n";

static void open_both(void)
{
	rig_open(&rig, rules, "d");
	other = (struct rig){
		.table = rig.table, .engine = rig.engine, .domain = "d", .now_ns = NOW_NS};
	takes = interrupt_at = 0;
}

static void close_both(void)
{
	weir_ask_done(other.ask);
	rig_close(&rig);
}

static int ask_interrupted(const char *descriptors, int at, void (*by)(void))
{
	takes = 0;
	interrupt_at = at;
	interruption = by;
	return rig_ask(&rig, descriptors);
}

static uint32_t remaining(const char *descriptor)
{
	rig_begin(&rig);
	rig_add(&rig, descriptor, 0);
	rig_decide(&rig);
	return rig_status(&rig, 0).decision.remaining;
}

static void take_what_is_left(void)
{
	interrupt_at = 0;
	rig_ask(&other, "a=1");
	rig_ask(&other, "b=1");
}

/* The hash determines from which limit units are taken first. The test then uses up the other
 * limit. */
static void late_refusal_of_an_enforced_limit(void **state)
{
	open_both();
	assert_int_equal(ask_interrupted("a=1;b=1", 2, take_what_is_left), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).code + rig_status(&rig, 1).code,
			 WEIR_STATUS_OK + WEIR_STATUS_OVER_LIMIT);
	/* The limit that did not refuse has all its units. */
	assert_int_equal(rig_status(&rig, 0).remaining + rig_status(&rig, 1).remaining, 1);
	assert_int_equal(remaining("a=1") + remaining("b=1"), 1);
	close_both();
	(void)state;
}

static void take_a(void)
{
	interrupt_at = 0;
	rig_ask(&other, "a=1");
}

/* A limit with count_rejected counts the request once, whether it comes before or after the limit
 * that refuses. */
static void late_refusal_with_count_rejected(void **state)
{
	open_both();
	for (int i = 0; i < 8; i++) {
		static const char *const pairs[] = {"a=1;kept=1", "a=1;kept=2", "a=1;kept=3",
						    "a=1;kept=4"};
		char kept[] = "kept=1";

		kept[5] = (char)('1' + i % 4);
		/* The test uses up a=1 before units are taken for the first time; later it is
		 * empty. */
		assert_int_equal(ask_interrupted(pairs[i % 4], i == 0, take_a), WEIR_REFUSE);
		assert_int_equal(remaining(kept), 4 - i / 4);
	}
	close_both();
	(void)state;
}

static void take_q(void)
{
	interrupt_at = 0;
	rig_ask(&other, "q=1");
}

static void late_refusal_of_a_quota(void **state)
{
	open_both();
	assert_int_equal(ask_interrupted("n=1;q=1", 2, take_q), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OK);
	assert_int_equal(rig_status(&rig, 0).remaining, 5);
	assert_int_equal(rig_status(&rig, 1).code, WEIR_STATUS_OVER_LIMIT);
	assert_int_equal(remaining("n=1"), 5);
	/* If all quotas are used up at the start, nothing is taken. */
	takes = 0;
	assert_int_equal(rig_ask(&rig, "n=1;q=1"), WEIR_REFUSE);
	assert_int_equal(takes, 0);
	close_both();
	(void)state;
}

/* --- at the end of a window: half a second before midnight, and midnight --- */

#define MIDNIGHT NOW_NS
#define BEFORE (MIDNIGHT - SECOND_NS / 2)

static void use_up_the_new_day(void)
{
	interrupt_at = 0;
	assert_int_equal(rig_admitted(&other, "n=1", 9), 5);
	assert_int_equal(rig_admitted(&other, "b=1", 9), 1);
}

/* A late refusal after midnight gives units back to the day before. */
static void refused_late_after_the_window(void **state)
{
	open_both();
	rig.now_ns = BEFORE;
	assert_int_equal(ask_interrupted("n=1;b=1", 2, use_up_the_new_day), WEIR_REFUSE);
	assert_int_equal(rig_admitted(&other, "n=1", 9), 0);
	assert_int_equal(rig_admitted(&other, "b=1", 9), 0);
	close_both();
	(void)state;
}

/* The client disconnects half a second after midnight, or its request is cancelled with the old
 * time. */
static void cancelled_after_the_window(void **state)
{
	for (int i = 0; i < 2; i++) {
		open_both();
		rig.now_ns = BEFORE;
		rig_begin(&rig);
		rig_add(&rig, "n=1", 5);
		assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
		assert_int_equal(rig_admitted(&other, "n=1", 9), 5);
		assert_int_equal(weir_ask_cancel(rig.ask, i ? MIDNIGHT + SECOND_NS / 2 : BEFORE),
				 0);
		assert_int_equal(rig_admitted(&other, "n=1", 9), 0);
		close_both();
	}
	(void)state;
}

static void cancelled_after_a_refill(void **state)
{
	open_both();
	rig_begin(&rig);
	rig_add(&rig, "t=1", 5);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	other.now_ns = NOW_NS + 10 * SECOND_NS;
	assert_int_equal(rig_admitted(&other, "t=1", 9), 5);
	assert_int_equal(weir_ask_cancel(rig.ask, other.now_ns), 0);
	assert_int_equal(rig_admitted(&other, "t=1", 9), 0);
	close_both();
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_refusal_of_an_enforced_limit),
		cmocka_unit_test(late_refusal_with_count_rejected),
		cmocka_unit_test(late_refusal_of_a_quota),
		cmocka_unit_test(refused_late_after_the_window),
		cmocka_unit_test(cancelled_after_the_window),
		cmocka_unit_test(cancelled_after_a_refill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
