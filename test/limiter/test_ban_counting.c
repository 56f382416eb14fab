/* Automatic bans: which refusals count toward a ban, and with which limits. With the linker's
 * --wrap, a test acts just before a refusal is counted. */
#include "ban_test.h"

#include "limiter/standin.h"
#include "table/ban_order.h"

/* Called before the second call of wr_store_take from now on, if not NULL: before the refusal is
 * counted, and after the request was decided. */
static void (*interruption)(void);
/* Called before the next call of wr_ban_write, if not NULL: after the ban was started, and before its
 * entry in the list and its override were written. */
static void (*before_entry)(void);
static unsigned takes;
static struct rig rig;

// NOLINTBEGIN(bugprone-reserved-identifier)
void __real_wr_store_take(struct weir_table *, const struct weir_limit *, struct wr_key, int64_t,
			  uint64_t, struct weir_decision *);
void __wrap_wr_store_take(struct weir_table *, const struct weir_limit *, struct wr_key, int64_t,
			  uint64_t, struct weir_decision *);

void __wrap_wr_store_take(struct weir_table *table, const struct weir_limit *limit,
			  struct wr_key key, int64_t cost, uint64_t now_ns,
			  struct weir_decision *decision)
{
	void (*act)(void) = interruption;

	if (act && ++takes == 2) {
		interruption = NULL;
		act();
	}
	__real_wr_store_take(table, limit, key, cost, now_ns, decision);
}

bool __real_wr_ban_write(struct weir_table *, const struct wr_ban *, uint32_t);
bool __wrap_wr_ban_write(struct weir_table *, const struct wr_ban *, uint32_t);

bool __wrap_wr_ban_write(struct weir_table *table, const struct wr_ban *ban, uint32_t now_s)
{
	void (*act)(void) = before_entry;

	before_entry = NULL;
	if (act)
		act();
	return __real_wr_ban_write(table, ban, now_s);
}
// NOLINTEND(bugprone-reserved-identifier)

static const char yaml[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: short\n"
	"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
	"    ban: {after: 3, within: 1h, for: 10s}}\n"
	"- key: a\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, ban: {after: 2, for: 10m}}\n"
	"- key: b\n"
	"  rate_limit: {unit: hour, requests_per_unit: 2, ban: {after: 2, for: 20m}}\n"
	"- key: part\n"
	"  rate_limit: {unit: hour, requests_per_unit: 0, enforce: 50%, ban: {after: 2, for: "
	"10m}}\n"
	"- key: log\n"
	"  rate_limit: {unit: hour, requests_per_unit: 5000, algorithm: sliding_window_log,\n"
	"    on_full: refuse, ban: {after: 2, for: 10m}}\n"
	"- key: queued\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, on_limit: defer}\n";

static void interrupt(void (*by)(void))
{
	takes = 0;
	interruption = by;
}

static void open_with(const char *text)
{
	interruption = NULL;
	rig_open(&rig, text, "d");
	rig.now_ns = NOW_NS;
}

/* The first three refusals are still within the hour after the ban, but count no more. */
static void count_begins_at_zero(void **unused)
{
	(void)unused;
	open_with(yaml);
	refuse(&rig, "short=1", 3);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, NOW_NS + 10 * SECOND_NS);
	assert_int_equal(counter_at(&rig, "short=1").refusals, 0);
	refuse(&rig, "short=1", 3); /* refused by the ban */
	move(&rig, 10 * SECOND_NS);
	assert_int_equal(counter_at(&rig, "short=1").refusals, 0);
	refuse(&rig, "short=1", 2);
	assert_int_equal(counter_at(&rig, "short=1").refusals, 2);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, 0);
	refuse(&rig, "short=1", 1);
	assert_int_equal(counter_at(&rig, "short=1").ban_level, 2);
	assert_int_equal(bans_of(&rig, "d/short/1h").started, 2);
	rig_close(&rig);
}

/* Shadow bans have a count of their own, which begins at 0 in the same way. */
static void count_of_a_paused_rule(void **unused)
{
	(void)unused;
	open_with(yaml);
	assert_int_equal(weir_control_pause(rig.engine, wr_str("d"), NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rig_ask(&rig, "short=1"), WEIR_ADMIT);
	assert_int_equal(bans_of(&rig, "d/short/1h").would_start, 1);
	move(&rig, 10 * SECOND_NS);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rig_ask(&rig, "short=1"), WEIR_ADMIT);
	assert_int_equal(bans_of(&rig, "d/short/1h").would_start, 1);
	assert_int_equal(rig_ask(&rig, "short=1"), WEIR_ADMIT);
	assert_int_equal(bans_of(&rig, "d/short/1h").would_start, 2);
	assert_int_equal(bans_of(&rig, "d/short/1h").would_refuse, 0);
	rig_close(&rig);
}

static void refuse_others(unsigned count)
{
	struct rig other = {
		.table = rig.table, .engine = rig.engine, .domain = "d", .now_ns = rig.now_ns};

	refuse(&other, "short=1", count);
	weir_ask_done(other.ask);
}

static void start_ban(void)
{
	refuse_others(3);
}

static void refuse_two(void)
{
	refuse_others(2);
}

/* Another process starts the ban after this refusal was decided, and before it is counted. The
 * refusal belongs to the time before the ban. */
static void racing_refusals(void **unused)
{
	(void)unused;
	open_with(yaml);
	interrupt(start_ban);
	refuse(&rig, "short=1", 1);
	assert_int_equal(bans_of(&rig, "d/short/1h").started, 1);
	assert_int_equal(wr_ban_order_end(rig.table), 1);
	move(&rig, 10 * SECOND_NS);
	assert_int_equal(counter_at(&rig, "short=1").refusals, 0);
	refuse(&rig, "short=1", 2);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, 0);
	/* The third refusal is counted by two other processes at once: one ban. */
	interrupt(refuse_two);
	refuse(&rig, "short=1", 1);
	assert_int_equal(bans_of(&rig, "d/short/1h").started, 2);
	assert_int_equal(wr_ban_order_end(rig.table), 2);
	assert_int_equal(counter_at(&rig, "short=1").ban_level, 2);
	rig_close(&rig);
}

static void release_key(void)
{
	ban_until(&rig, "short=1", 0);
}

/* A release during the count of a refusal: the next ban needs three further refusals. */
static void racing_release(void **unused)
{
	(void)unused;
	open_with(yaml);
	refuse(&rig, "short=1", 3);
	move(&rig, 10 * SECOND_NS);
	refuse(&rig, "short=1", 2);
	interrupt(release_key);
	refuse(&rig, "short=1", 1);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, 0);
	assert_int_equal(counter_at(&rig, "short=1").ban_level, 0);
	assert_int_equal(counter_at(&rig, "short=1").refusals, 0);
	refuse(&rig, "short=1", 2);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, 0);
	refuse(&rig, "short=1", 1);
	assert_int_equal(counter_at(&rig, "short=1").ban_level, 1);
	rig_close(&rig);
}

/* A release after a ban was started, and before its entry was written: the entry does not stay in the
 * list, where nothing would remove it until its end. */
static void release_before_the_entry(void **unused)
{
	struct wr_ban ban;

	(void)unused;
	open_with(yaml);
	before_entry = release_key;
	refuse(&rig, "short=1", 3);
	assert_null(before_entry);
	assert_int_equal(bans_of(&rig, "d/short/1h").started, 1);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, 0);
	assert_int_equal(listed_until(&rig, &ban), 0);
	/* Without a release the entry stays. */
	refuse(&rig, "short=2", 3);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 10 * SECOND_NS);
	rig_close(&rig);
}

static void check_no_ban(void)
{
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, 0);
}

/* A process that is killed before it has written the entry leaves no ban in force, which nothing
 * would list, count or end. */
static void entry_before_the_override(void **unused)
{
	(void)unused;
	open_with(yaml);
	before_entry = check_no_ban;
	refuse(&rig, "short=1", 3);
	assert_null(before_entry);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, NOW_NS + 10 * SECOND_NS);
	rig_close(&rig);
}

/* A table of 1 MiB that is full of other keys: the level of a key is evicted after these keys, until
 * a day after the end of its ban. */
static void level_outlives_the_ban(void **unused)
{
	char descriptor[24];

	(void)unused;
	open_with(yaml);
	refuse(&rig, "short=1", 3);
	move(&rig, 10 * SECOND_NS + DAY_NS - HOUR_NS);
	for (unsigned i = 0; i < 50000; i++) {
		snprintf(descriptor, sizeof descriptor, "a=%u", i);
		assert_int_equal(rig_ask(&rig, descriptor), WEIR_ADMIT);
	}
	refuse(&rig, "short=1", 3);
	assert_int_equal(counter_at(&rig, "short=1").banned_until_ns, rig.now_ns + 20 * SECOND_NS);
	assert_int_equal(counter_at(&rig, "short=1").ban_level, 2);
	rig_close(&rig);
}

/* A deferred request is asked again for all of its limits until it is delivered. */
static void deliveries_do_not_count(void **unused)
{
	(void)unused;
	open_with(yaml);
	assert_int_equal(rig_ask(&rig, "queued=1;a=1"), WEIR_ADMIT);
	for (unsigned i = 0; i < 5; i++) {
		rig_begin(&rig);
		assert_int_equal(weir_ask_mark_delivery(rig.ask), 0);
		assert_int_equal(rig_add(&rig, "queued=1", 1), 0);
		assert_int_equal(rig_add(&rig, "a=1", 1), 0);
		assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	}
	assert_int_equal(counter_at(&rig, "a=1").refusals, 0);
	refuse(&rig, "queued=1;a=1", 1);
	assert_int_equal(counter_at(&rig, "a=1").refusals, 1);
	rig_close(&rig);
}

/* A request without a cost takes nothing, so neither a ban nor the count notices it. */
static void looks_do_not_count(void **unused)
{
	(void)unused;
	open_with(yaml);
	refuse(&rig, "short=1", 3);
	for (unsigned i = 0; i < 4; i++) {
		rig_begin(&rig);
		assert_int_equal(rig_add(&rig, "short=1", 0), 0);
		assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
		assert_true(was_banned(&rig));
	}
	assert_int_equal(bans_of(&rig, "d/short/1h").refused, 0);
	refuse(&rig, "short=1", 1);
	assert_int_equal(bans_of(&rig, "d/short/1h").refused, 1);
	rig_close(&rig);
}

static const char readings[] =
	"domain: d\n"
	"requests:\n"
	"- {when: {path: '/v1/*'}, descriptor: [{key: ip, from: remote_address},\n"
	"  {key: path, from: path}]}\n"
	"descriptors:\n"
	"- key: ip\n"
	"  descriptors:\n"
	"  - {key: path, value: '/v1/*', share_threshold: true, shadow_mode: true,\n"
	"     rate_limit: {unit: day, requests_per_unit: 1, ban: {after: 2, for: 10m}}}\n";

/* A path with two readings makes two descriptors of one counter, but is one request. */
static void repeated_readings_count_once(void **unused)
{
	static const char target[] = "GET /v1/x%2f..%2fy";

	(void)unused;
	open_with(readings);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rig_http(&rig, target, NULL, "192.0.2.1"), WEIR_ADMIT);
	assert_int_equal(rig_result(&rig).descriptors, 3);
	assert_int_equal(bans_of(&rig, "d/ip/path=%2Fv1%2F*/1d").would_start, 0);
	assert_int_equal(rig_http(&rig, target, NULL, "192.0.2.1"), WEIR_ADMIT);
	assert_int_equal(bans_of(&rig, "d/ip/path=%2Fv1%2F*/1d").would_start, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rig_http(&rig, target, NULL, "192.0.2.1"), WEIR_ADMIT);
	assert_int_equal(bans_of(&rig, "d/ip/path=%2Fv1%2F*/1d").would_refuse, 3);
	rig_close(&rig);
}

/* Keys that `enforce` excludes get shadow bans only. */
static void enforced_share(void **unused)
{
	unsigned banned = 0;
	struct wr_ban ban;
	char key[16];

	(void)unused;
	open_with(yaml);
	for (unsigned n = 0; n < 100; n++) {
		unsigned refused = 0;

		snprintf(key, sizeof key, "part=%u", n);
		for (unsigned i = 0; i < 3; i++)
			refused += rig_ask(&rig, key) == WEIR_REFUSE;
		assert_true(refused == 0 || refused == 3);
		assert_int_equal(was_banned(&rig), refused == 3);
		banned += refused == 3;
	}
	assert_int_equal(banned, 58);
	assert_int_equal(bans_of(&rig, "d/part/1h").started, 58);
	assert_int_equal(bans_of(&rig, "d/part/1h").refused, 58);
	assert_int_equal(bans_of(&rig, "d/part/1h").would_start, 42);
	assert_int_equal(bans_of(&rig, "d/part/1h").would_refuse, 42);
	assert_int_equal(wr_ban_order_end(rig.table), 58);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 10 * MINUTE_NS);
	rig_close(&rig);
}

/* Decides a request of a host that serves it in any case. */
static int ask_dry(const char *descriptor)
{
	struct weir_ask *ask = rig_begin(&rig);

	assert_int_equal(rig_add(&rig, descriptor, 1), 0);
	assert_int_equal(weir_ask_dry_run(ask), 0);
	return rig_decide(&rig);
}

static void dry_runs_ban_nobody(void **unused)
{
	struct wr_ban ban;

	(void)unused;
	open_with(yaml);
	assert_int_equal(ask_dry("a=1"), WEIR_ADMIT);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(ask_dry("a=1"), WEIR_REFUSE);
	assert_int_equal(weir_ask_dry_run(rig.ask), WEIR_EINVAL);
	/* Two refusals, and three requests that the ban would refuse. */
	assert_int_equal(bans_of(&rig, "d/a/1h").would_start, 1);
	assert_int_equal(bans_of(&rig, "d/a/1h").would_refuse, 3);
	assert_int_equal(bans_of(&rig, "d/a/1h").started, 0);
	assert_int_equal(bans_of(&rig, "d/a/1h").refused, 0);
	assert_int_equal(rig_result(&rig).banned_until_ns, 0);
	assert_int_equal(counter_at(&rig, "a=1").banned_until_ns, 0);
	assert_int_equal(counter_at(&rig, "a=1").shadow_ban_until_ns, NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(wr_ban_order_end(rig.table), 0);
	assert_int_equal(listed_until(&rig, &ban), 0);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC | WR_BAN_SHADOW);
	/* Afterwards the refusals of the dry run do not count. */
	refuse(&rig, "a=1", 1);
	assert_int_equal(counter_at(&rig, "a=1").refusals, 1);
	rig_close(&rig);
}

/* A request with several descriptors: each refusing limit counts a refusal, other limits count
 * none. A request that a ban of one key refuses counts for no other key. */
static void several_descriptors(void **unused)
{
	(void)unused;
	open_with(yaml);
	assert_int_equal(rig_ask(&rig, "a=1;b=1"), WEIR_ADMIT);
	refuse(&rig, "a=1;b=1", 1);
	assert_int_equal(counter_at(&rig, "a=1").refusals, 1);
	assert_int_equal(counter_at(&rig, "b=1").refusals, 0);
	assert_int_equal(rig_ask(&rig, "b=1"), WEIR_ADMIT);
	/* Both limits refuse. The ban of the first one starts. */
	refuse(&rig, "a=1;b=1", 1);
	assert_int_equal(counter_at(&rig, "a=1").banned_until_ns, NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(counter_at(&rig, "b=1").refusals, 1);
	assert_int_equal(counter_at(&rig, "b=1").banned_until_ns, 0);
	refuse(&rig, "a=1;b=2", 3);
	assert_int_equal(rig_result(&rig).banned_until_ns, NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(counter_at(&rig, "b=2").refusals, 0);
	assert_int_equal(rig_ask(&rig, "b=2"), WEIR_ADMIT);
	/* The longest ban is the one that the answer names. */
	refuse(&rig, "b=1", 1);
	refuse(&rig, "a=1;b=1", 1);
	assert_int_equal(rig_result(&rig).banned_until_ns, NOW_NS + 20 * MINUTE_NS);
	/* The same descriptor twice is one counter and one refusal. */
	assert_int_equal(rig_ask(&rig, "a=3"), WEIR_ADMIT);
	refuse(&rig, "a=3;a=3", 1);
	assert_int_equal(counter_at(&rig, "a=3").refusals, 1);
	assert_int_equal(bans_of(&rig, "d/a/1h").started, 1);
	assert_int_equal(bans_of(&rig, "d/b/1h").started, 1);
	rig_close(&rig);
}

/* A refusal because the table has no memory for a log is not the fault of the client. */
static void full_logs_do_not_count(void **unused)
{
	char key[16];
	unsigned full = 0;

	(void)unused;
	open_with(yaml);
	for (unsigned n = 0; n < 40 && !full; n++) {
		snprintf(key, sizeof key, "log=%u", n);
		rig_begin(&rig);
		assert_int_equal(rig_add(&rig, key, 4000), 0);
		rig_decide(&rig);
		move(&rig, 1); /* a log with two times needs memory of its own */
		rig_ask(&rig, key);
		full = rig_status(&rig, 0).decision.full;
	}
	assert_true(full);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(rig_ask(&rig, key), WEIR_REFUSE);
		assert_true(rig_status(&rig, 0).decision.full);
	}
	assert_int_equal(counter_at(&rig, key).refusals, 0);
	assert_int_equal(bans_of(&rig, "d/log/1h").started, 0);
	rig_close(&rig);
}

static const char fleet_rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: e\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, consistency: eventual,\n"
	"    ban: {after: 2, for: 10m}}\n"
	"- key: l\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, consistency: lease,\n"
	"    ban: {after: 2, for: 10m}}\n";

/* Limits with `eventual` refuse in the table, limits with `lease` in the central store. A ban
 * refuses both without a question. */
static void eventual_and_leased_limits(void **unused)
{
	static struct store store;

	(void)unused;
	rig_open_with(&rig, rig_rules(fleet_rules), "d", WEIR_ENGINE_CENTRAL);
	memset(&store, 0, sizeof store);
	for (size_t k = 0; k < 2; k++) {
		const char *key = k ? "l=1" : "e=1";

		assert_int_equal(store_ask(&rig, &store, key), WEIR_ADMIT);
		assert_int_equal(store_ask(&rig, &store, key), WEIR_REFUSE);
		assert_int_equal(counter_at(&rig, key).refusals, 1);
		assert_int_equal(store_ask(&rig, &store, key), WEIR_REFUSE);
		assert_int_equal(counter_at(&rig, key).banned_until_ns, NOW_NS + 10 * MINUTE_NS);
		store.questions = 0;
		assert_int_equal(store_ask(&rig, &store, key), WEIR_REFUSE);
		assert_true(was_banned(&rig));
		assert_int_equal(store.questions, 0);
		assert_int_equal(wr_ban_order_end(rig.table), k + 1);
	}
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(count_begins_at_zero),
		cmocka_unit_test(count_of_a_paused_rule),
		cmocka_unit_test(racing_refusals),
		cmocka_unit_test(racing_release),
		cmocka_unit_test(release_before_the_entry),
		cmocka_unit_test(entry_before_the_override),
		cmocka_unit_test(level_outlives_the_ban),
		cmocka_unit_test(deliveries_do_not_count),
		cmocka_unit_test(looks_do_not_count),
		cmocka_unit_test(repeated_readings_count_once),
		cmocka_unit_test(enforced_share),
		cmocka_unit_test(dry_runs_ban_nobody),
		cmocka_unit_test(several_descriptors),
		cmocka_unit_test(full_logs_do_not_count),
		cmocka_unit_test(eventual_and_leased_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
