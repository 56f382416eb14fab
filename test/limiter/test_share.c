/* This node's share of a limit while the central store is unavailable: its size, the units that
 * count against it, and the reports to the central store. */
#include "standin.h"

#include <string.h>

#include <weir/control.h>

#include "base/str.h"
#include "limiter/share.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: a\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1000}\n"
	"- key: once\n"
	"  rate_limit: {unit: day, requests_per_unit: 1}\n"
	"- key: bucket\n"
	"  rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 30}\n"
	"- key: leaky\n"
	"  rate_limit: {unit: second, requests_per_unit: 6, algorithm: leaky_bucket, queue_size: "
	"9}\n"
	"- key: log\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, algorithm: sliding_window_log}\n"
	"- key: month\n"
	"  rate_limit: {calendar: month, requests_per_unit: 9}\n"
	"- key: soft\n"
	"  rate_limit: {unit: minute, requests_per_unit: 30, mode: soft, soft: {overshoot: 20%, "
	"for: "
	"30s}}\n"
	"- key: open\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, on_store_failure: allow}\n"
	"- key: shut\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9, on_store_failure: deny}\n"
	"- key: shadow\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: minute, requests_per_unit: 9}\n"
	"- key: here\n"
	"  rate_limit: {unit: minute, requests_per_unit: 4, consistency: local}\n";

static void open_rig(struct rig *rig, struct store *store, uint32_t nodes)
{
	memset(store, 0, sizeof *store);
	rig_open_with(rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	assert_int_equal(weir_fleet_note(rig->table, nodes, NOW_NS), 0);
}

static struct weir_limit share_of(struct weir_limit limit, uint32_t nodes)
{
	limit.size = sizeof limit;
	assert_int_equal(weir_limit_check(&limit, NULL), 0);
	return wr_limiter_limit_share(&limit, nodes);
}

static void sizes_of_shares(void **state)
{
	struct weir_limit share;

	share = share_of((struct weir_limit){.algorithm = WEIR_FIXED_WINDOW,
					     .limit = 1000,
					     .period_ns = MINUTE_NS},
			 3);
	assert_int_equal(share.limit, 333);
	assert_int_equal(share.capacity, 333);
	share = share_of((struct weir_limit){.algorithm = WEIR_FIXED_WINDOW,
					     .limit = 1,
					     .period_ns = MINUTE_NS},
			 5);
	assert_int_equal(share.capacity, 1);
	/* A limit of 0 stays 0. */
	share = share_of(
		(struct weir_limit){.algorithm = WEIR_FIXED_WINDOW, .period_ns = MINUTE_NS}, 5);
	assert_int_equal(share.capacity, 0);
	share = share_of((struct weir_limit){.algorithm = WEIR_TOKEN_BUCKET,
					     .limit = 10,
					     .burst = 30,
					     .soft_ceiling = 50,
					     .soft_for_ns = SECOND_NS,
					     .period_ns = SECOND_NS},
			 4);
	assert_int_equal(share.limit, 2);
	assert_int_equal(share.capacity, 7);
	assert_int_equal(share.ceiling, 12);
	/* A queue of two for three nodes: no request waits. */
	share = share_of((struct weir_limit){.algorithm = WEIR_LEAKY_BUCKET,
					     .limit = 10,
					     .queue_size = 2,
					     .period_ns = SECOND_NS},
			 3);
	assert_int_equal(share.limit, 3);
	assert_int_equal(share.capacity, 1);
	/* A soft ceiling is never below the limit. */
	share = share_of((struct weir_limit){.algorithm = WEIR_FIXED_WINDOW,
					     .limit = 3,
					     .soft_ceiling = 4,
					     .soft_for_ns = SECOND_NS,
					     .period_ns = MINUTE_NS},
			 4);
	assert_int_equal(share.capacity, 1);
	assert_int_equal(share.ceiling, 1);
	/* 9 units at 3 per 33 years take 99 years; 4 units at 1 would take 132, more than the
	 * maximum. */
	share = share_of((struct weir_limit){.algorithm = WEIR_TOKEN_BUCKET,
					     .limit = 3,
					     .burst = 9,
					     .period_ns = 33 * 365 * DAY_NS},
			 2);
	assert_int_equal(share.limit, 1);
	assert_int_equal(share.capacity, 1);
	/* The counter is the same. */
	share = share_of((struct weir_limit){.algorithm = WEIR_FIXED_WINDOW,
					     .limit = 8,
					     .identity = 77,
					     .period_ns = MINUTE_NS},
			 2);
	assert_int_equal(share.checked, share_of((struct weir_limit){.algorithm = WEIR_FIXED_WINDOW,
								     .limit = 8,
								     .identity = 77,
								     .period_ns = MINUTE_NS},
						 1)
						.checked);
	(void)state;
}

/* The number of nodes is read from the table, otherwise from the options, otherwise it is 1. */
static void sources_of_the_node_count(void **state)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = {1};
	struct weir_engine_opts opts = {.size = sizeof opts,
					.flags = WEIR_ENGINE_CENTRAL,
					.fleet_secret = secret,
					.fleet_size = 4};
	uint64_t noted_ns;
	struct rig rig;

	rig_open_with(&rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	assert_int_equal(weir_fleet_nodes(rig.table, &noted_ns), 0);
	assert_int_equal(noted_ns, 0);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 1500), 1000);
	weir_ask_done(rig.ask);
	rig.ask = NULL;
	weir_engine_free(rig.engine);
	assert_int_equal(weir_engine_new(rig.table, rig_rules(rules), &opts, &rig.engine), 0);
	assert_int_equal(store_fails_admitted(&rig, "a=2", 500), 250);
	assert_int_equal(weir_fleet_note(rig.table, 0, NOW_NS), WEIR_EINVAL);
	assert_int_equal(weir_fleet_note(rig.table, 3, NOW_NS + 5), 0);
	assert_int_equal(weir_fleet_nodes(rig.table, &noted_ns), 3);
	assert_int_equal(noted_ns, NOW_NS);
	assert_int_equal(store_fails_admitted(&rig, "a=3", 500), 333);
	assert_int_equal(rig_status(&rig, 0).limit, 333);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_FAILED);
	/* With more nodes than units each node has 1. */
	weir_fleet_note(rig.table, 5, NOW_NS);
	assert_int_equal(store_fails_admitted(&rig, "once=1", 9), 1);
	rig_close(&rig);
	(void)state;
}

/* With 300 used, 33 are left of 333. With 700 used, none until the next minute. */
static void own_use_counts(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	assert_int_equal(store_admitted(&rig, &store, "a=1", 300), 300);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 100), 33);
	assert_int_equal(store_admitted(&rig, &store, "a=2", 700), 700);
	assert_int_equal(store_fails_admitted(&rig, "a=2", 9), 0);
	/* With fewer nodes the share of the same window is larger. */
	weir_fleet_note(rig.table, 1, NOW_NS);
	assert_int_equal(store_fails_admitted(&rig, "a=2", 500), 300);
	weir_fleet_note(rig.table, 3, NOW_NS);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(store_fails_admitted(&rig, "a=2", 500), 333);
	/* Limits in shadow mode are counted too, and negative costs are given back to this node's
	 * own counter. */
	assert_int_equal(store_admitted(&rig, &store, "shadow=1", 3), 3);
	assert_int_equal(store_fails(&rig, "shadow=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).flags & WEIR_STATUS_WOULD_REFUSE,
			 WEIR_STATUS_WOULD_REFUSE);
	assert_int_equal(store_admitted(&rig, &store, "month=1", 3), 3);
	assert_int_equal(store_fails(&rig, "month=1"), WEIR_REFUSE);
	rig_begin(&rig);
	rig_add(&rig, "month=1", -1);
	assert_int_equal(store_finish(&rig, &store, rig_decide(&rig)), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&rig, "month=1", 3), 1);
	rig_close(&rig);
	(void)state;
}

/* Requests that are refused by the central store or by another limit, or cancelled, do not count as
 * use. */
static void refused_requests_are_not_own_use(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	assert_int_equal(store_admitted(&rig, &store, "once=1", 1), 1);
	assert_int_equal(store_ask(&rig, &store, "a=1;once=1"), WEIR_REFUSE);
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_true(store_fetch(&rig, &store) > 0);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 500), 333);
	rig_close(&rig);
	(void)state;
}

/* 10 per second and 30 at once, for three: 3 per second and 10 at once. */
static void shares_of_buckets(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	assert_int_equal(store_fails_admitted(&rig, "bucket=1", 99), 10);
	/* A node that used much more than its share has none left, and waits until the bucket has
	 * filled. */
	assert_int_equal(store_admitted(&rig, &store, "bucket=2", 28), 28);
	assert_int_equal(store_fails_admitted(&rig, "bucket=2", 9), 0);
	rig.now_ns += SECOND_NS;
	assert_int_equal(store_fails_admitted(&rig, "bucket=2", 9), 3);
	/* 4 used of 10, with a cancelled fifth. */
	assert_int_equal(store_admitted(&rig, &store, "bucket=3", 5), 5);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(store_fails_admitted(&rig, "bucket=3", 99), 6);
	/* One request at once and a queue of 3, at 2 per second. */
	assert_int_equal(store_fails(&rig, "leaky=1"), WEIR_ADMIT);
	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(store_fails(&rig, "leaky=1"), WEIR_DELAY);
		assert_int_equal(rig_result(&rig).delay_ns, i * SECOND_NS / 2);
	}
	assert_int_equal(store_fails(&rig, "leaky=1"), WEIR_REFUSE);
	rig_close(&rig);
	(void)state;
}

/* The central store's answers include the units of other nodes: the nodes divide the units that
 * remained in the central store. */
static void share_is_capped_by_the_last_answer(void **state)
{
	static struct store store;
	struct rig one, other;

	open_rig(&one, &store, 3);
	open_rig(&other, &store, 3);
	assert_int_equal(store_admitted(&one, &store, "a=1", 970), 970);
	assert_int_equal(store_admitted(&other, &store, "a=1", 1), 1);
	assert_int_equal(store_fails_admitted(&other, "a=1", 500), 9); /* a third of 29 */
	assert_int_equal(store_fails_admitted(&one, "a=1", 500), 0);
	/* A refusal counts as an answer too. A node without any answer has its whole share. */
	assert_int_equal(store_admitted(&one, &store, "a=2", 1100), 1000);
	assert_int_equal(store_ask(&other, &store, "a=2"), WEIR_REFUSE);
	assert_int_equal(store_fails_admitted(&other, "a=2", 500), 0);
	assert_int_equal(store_fails_admitted(&other, "a=3", 500), 333);
	/* The cap applies to one window only. */
	other.now_ns += MINUTE_NS;
	assert_int_equal(store_fails_admitted(&other, "a=2", 500), 333);
	/* Of 30 units 27 are used: three nodes have one each, and then 3 per second. */
	assert_int_equal(store_admitted(&one, &store, "bucket=1", 26), 26);
	other.now_ns = one.now_ns;
	assert_int_equal(store_ask(&other, &store, "bucket=1"), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&other, "bucket=1", 99), 1);
	other.now_ns += SECOND_NS;
	assert_int_equal(store_fails_admitted(&other, "bucket=1", 99), 3);
	rig_close(&other);
	rig_close(&one);
	(void)state;
}

/* A grant is divided like the limit: 333 and 100 for each of three nodes. */
static void a_grant_is_shared(void **state)
{
	static struct store store;
	struct rig rig;
	struct weir_entry entry = {.key = WR_STR("a"), .value = WR_STR("1")};
	struct weir_target target = {
		.size = sizeof target, .domain = WR_STR("d"), .entries = &entry, .count = 1};

	open_rig(&rig, &store, 3);
	assert_int_equal(weir_control_grant(rig.engine, &target, 300, WEIR_NEVER, NOW_NS, NULL), 1);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 1000), 433);
	/* 1299 are left, 433 for each node, of which this node has used one; then 60. */
	rig.now_ns += MINUTE_NS;
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 1000), 432);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(store_admitted(&rig, &store, "a=1", 1240), 1240);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 1000), 0);
	rig_close(&rig);
	(void)state;
}

/* The window of the answer has ended when the answer arrives. */
static void answers_of_the_previous_window_are_ignored(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	rig.now_ns += MINUTE_NS - SECOND_NS / 100;
	assert_int_equal(store_admitted(&rig, &store, "a=1", 999), 999);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	store_fetch(&rig, &store);
	store_serve(&store, rig.now_ns);
	rig.now_ns += SECOND_NS / 50;
	assert_int_equal(weir_ask_answer(rig.ask, store.answer, store.answer_len, rig.now_ns),
			 WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&rig, "a=1", 500), 332);
	rig_close(&rig);
	(void)state;
}

/* The stand-in has no logs and no soft mode: it admits everything. */
static int yes(struct rig *rig, struct store *store, const char *descriptors)
{
	struct wr_question_head head = {WR_QUESTION_VERSION, WR_QUESTION_ANSWER, 1, 8 + 56};
	struct wr_answer answer = {.flags = WR_ANSWER_ADMITTED, .limit = 9, .remaining = 9};

	assert_int_equal(rig_ask(rig, descriptors), WEIR_WAIT);
	memcpy(store->answer, &head, sizeof head);
	memcpy(store->answer + sizeof head, &answer, sizeof answer);
	return weir_ask_answer(rig->ask, store->answer, 8 + 56, rig->now_ns);
}

static void logs_and_soft_mode(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	assert_int_equal(yes(&rig, &store, "log=1"), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&rig, "log=1", 9), 2);
	for (int i = 0; i < 20; i++) /* more than the limit */
		assert_int_equal(yes(&rig, &store, "log=2"), WEIR_ADMIT);
	assert_int_equal(store_fails(&rig, "log=2"), WEIR_REFUSE);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(store_fails_admitted(&rig, "log=2", 9), 3);
	/* 30, and 36 in soft mode: shares of 10 and 12. */
	assert_int_equal(store_fails_admitted(&rig, "soft=1", 99), 12);
	for (int i = 0; i < 11; i++)
		assert_int_equal(yes(&rig, &store, "soft=2"), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&rig, "soft=2", 99), 1);
	for (int i = 0; i < 50; i++)
		assert_int_equal(yes(&rig, &store, "soft=3"), WEIR_ADMIT);
	assert_int_equal(store_fails_admitted(&rig, "soft=3", 99), 0);
	rig_close(&rig);
	(void)state;
}

static struct wr_question_head head_of(const struct store *store)
{
	struct wr_question_head head;

	memcpy(&head, store->bytes, sizeof head);
	return head;
}

/* Requests that this node admitted without the central store are reported once, with the numbers of
 * the whole limit. */
static void admissions_are_reported_once(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	rig.now_ns += 1234567;
	assert_int_equal(store_fails(&rig, "a=1;bucket=1;soft=1"), WEIR_ADMIT);
	assert_true(store_fetch(&rig, &store) > 0);
	assert_int_equal(head_of(&store).kind, WR_QUESTION_REPORT);
	assert_int_equal(head_of(&store).count, 3);
	store_serve(&store, rig.now_ns);
	assert_int_equal(store.items[0].cost, 1);
	assert_int_equal(store.items[0].limit, 1000);
	assert_int_equal(store.items[0].decided_us, (NOW_NS + 1234567) / 1000);
	assert_int_equal(store.items[1].limit, 10);
	assert_int_equal(store.items[1].burst, 30);
	assert_int_equal(store.items[2].soft_ceiling, 36);
	assert_int_equal(store.items[2].soft_for_ns, 30 * SECOND_NS);
	assert_int_equal(store_fetch(&rig, &store), 0);
	/* The central store counts the report: 999 are left. */
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 998);
	/* Only admitted requests that took units are reported. */
	assert_int_equal(store_fails(&rig, "open=1"), WEIR_ADMIT);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(store_fails(&rig, "a=1;shut=1"), WEIR_REFUSE);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(store_fails(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_int_equal(store_fetch(&rig, &store), 0);
	/* A cost of 0 is not reported. */
	rig_begin(&rig);
	rig_add(&rig, "a=1", 0);
	assert_int_equal(rig_decide(&rig), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, rig.now_ns), WEIR_ADMIT);
	assert_int_equal(store_fetch(&rig, &store), 0);
	rig_close(&rig);
	(void)state;
}

/* An item that failed is decided by this node, together with items that the central store took and
 * local limits. */
static void failed_items_are_decided_here(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, 3);
	for (int i = 0; i < 4; i++) {
		store.fail_mask = 2;
		assert_int_equal(store_ask(&rig, &store, "a=1;month=1;here=1"),
				 i < 3 ? WEIR_ADMIT : WEIR_REFUSE);
	}
	assert_int_equal(store.reports, 3);
	assert_int_equal(store.returns, 1); /* the unit of a=1 of the last request */
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 996);
	/* Both at once: two messages. */
	rig_begin(&rig);
	rig_add(&rig, "a=1", -4);
	rig_add(&rig, "a=2", 1);
	assert_int_equal(rig_decide(&rig), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, rig.now_ns), WEIR_ADMIT);
	assert_true(store_fetch(&rig, &store) > 0);
	assert_int_equal(head_of(&store).kind, WR_QUESTION_RETURN);
	assert_true(store_fetch(&rig, &store) > 0);
	assert_int_equal(head_of(&store).kind, WR_QUESTION_REPORT);
	assert_int_equal(store_fetch(&rig, &store), 0);
	rig_close(&rig);
	(void)state;
}

/* An override is divided too, and a counter that is named by a rule and an override is one. */
static void shares_of_overrides(void **state)
{
	static struct store store;
	struct rig rig;
	int count = 0;

	open_rig(&rig, &store, 3);
	for (int i = 0; i < 20; i++) {
		rig_begin(&rig);
		rig_add_override(&rig, "o=1", 30, 2, 1);
		rig_add_override(&rig, "o=1", 15, 2, 1);
		assert_int_equal(rig_decide(&rig), WEIR_WAIT);
		count += weir_ask_store_failed(rig.ask, rig.now_ns) == WEIR_ADMIT;
		if (i == 0) {
			assert_true(store_fetch(&rig, &store) > 0);
			store_serve(&store, rig.now_ns);
			assert_int_equal(store.items[0].cost, 2);
			assert_int_equal(store.items[0].limit, 15);
		}
	}
	assert_int_equal(count, 2); /* the share is 5 units, and each request takes 2 */
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_of_shares),
		cmocka_unit_test(sources_of_the_node_count),
		cmocka_unit_test(own_use_counts),
		cmocka_unit_test(refused_requests_are_not_own_use),
		cmocka_unit_test(shares_of_buckets),
		cmocka_unit_test(logs_and_soft_mode),
		cmocka_unit_test(admissions_are_reported_once),
		cmocka_unit_test(failed_items_are_decided_here),
		cmocka_unit_test(shares_of_overrides),
		cmocka_unit_test(share_is_capped_by_the_last_answer),
		cmocka_unit_test(answers_of_the_previous_window_are_ignored),
		cmocka_unit_test(a_grant_is_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
