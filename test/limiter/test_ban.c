/* Automatic bans: the `ban` of a rule. */
#include "ban_test.h"

#include "limiter/standin.h"
#include "table/ban_order.h"
#include "table/note.h"

static const char ban_rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: k\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1,\n"
	"    ban: {after: 50, within: 1m, for: 10m, grow: 2, max: 24h}}\n"
	"- key: once\n"
	"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
	"    ban: {after: 1, for: 10m, grow: 2, max: 24h}}\n"
	"- key: few\n"
	"  rate_limit: {unit: second, requests_per_unit: 1,\n"
	"    ban: {after: 3, within: 1m, for: 5m}}\n"
	"- key: two\n"
	"  rate_limits:\n"
	"  - {name: first, unit: hour, requests_per_unit: 1, ban: {after: 2, for: 5m}}\n"
	"  - {name: second, unit: day, requests_per_unit: 2, ban: {after: 2, for: 7m}}\n"
	"- key: remote_address\n"
	"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
	"    ban: {after: 2, for: 10m, shield: true}}\n"
	"- key: masked_remote_address\n"
	"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
	"    ban: {after: 1, for: 10m, shield: true}}\n"
	"- key: shadow\n"
	"  shadow_mode: true\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1, ban: {after: 3, for: 10m}}\n"
	"- key: tried\n"
	"  rate_limit:\n"
	"    unit: hour\n"
	"    requests_per_unit: 100\n"
	"    candidates:\n"
	"    - {unit: hour, requests_per_unit: 1, ban: {after: 3, for: 10m}}\n"
	"- key: plain\n"
	"  rate_limit: {unit: hour, requests_per_unit: 1}\n";

static void open_rig(struct rig *rig)
{
	rig_open(rig, ban_rules, "d");
	rig->now_ns = NOW_NS;
}

static void fiftieth_refusal_bans(void **unused)
{
	struct rig rig;
	struct wr_ban ban;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(rig_ask(&rig, "k=1"), WEIR_ADMIT);
	refuse(&rig, "k=1", 49);
	assert_int_equal(counter_at(&rig, "k=1").refusals, 49);
	assert_int_equal(counter_at(&rig, "k=1").ban_after, 50);
	assert_int_equal(counter_at(&rig, "k=1").banned_until_ns, 0);
	assert_int_equal(listed_until(&rig, &ban), 0);
	refuse(&rig, "k=1", 1);
	assert_int_equal(counter_at(&rig, "k=1").shadow_ban_until_ns, 0);
	assert_false(was_banned(&rig));
	assert_int_equal(counter_at(&rig, "k=1").banned_until_ns, NOW_NS + 600 * SECOND_NS);
	assert_int_equal(counter_at(&rig, "k=1").ban_level, 1);
	assert_int_equal(counter_at(&rig, "k=1").ban_flags, WEIR_BAN_AUTOMATIC);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 600 * SECOND_NS);
	assert_int_equal(ban.level, 1);
	refuse(&rig, "k=1", 1);
	assert_true(was_banned(&rig));
	assert_int_equal(rig_result(&rig).retry_after_ns, 600 * SECOND_NS);
	assert_int_equal(rig_result(&rig).banned_until_ns, NOW_NS + 600 * SECOND_NS);
	/* Other keys are not banned. */
	assert_int_equal(rig_ask(&rig, "k=2"), WEIR_ADMIT);
	assert_int_equal(rig_result(&rig).banned_until_ns, 0);
	move(&rig, 600 * SECOND_NS - 1);
	refuse(&rig, "k=1", 1);
	assert_true(was_banned(&rig));
	move(&rig, 1);
	refuse(&rig, "k=1", 1);
	assert_false(was_banned(&rig));
	assert_int_equal(listed_until(&rig, &ban), 0);
	assert_int_equal(bans_of(&rig, "d/k/1h").started, 1);
	assert_int_equal(bans_of(&rig, "d/k/1h").refused, 2);
	rig_close(&rig);
}

/* A refusal counts for a minute. */
static void refusals_leave_the_window(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(rig_ask(&rig, "k=1"), WEIR_ADMIT);
	refuse(&rig, "k=1", 1);
	move(&rig, SECOND_NS);
	refuse(&rig, "k=1", 48);
	move(&rig, 59 * SECOND_NS); /* the first refusal is a minute old */
	refuse(&rig, "k=1", 1);
	assert_int_equal(counter_at(&rig, "k=1").banned_until_ns, 0);
	refuse(&rig, "k=1", 1);
	assert_int_equal(counter_at(&rig, "k=1").banned_until_ns, rig.now_ns + 600 * SECOND_NS);
	rig_close(&rig);
}

static void bans_grow_within_a_day(void **unused)
{
	static const unsigned minutes[] = {10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440};
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	for (size_t i = 0; i < sizeof minutes / sizeof *minutes; i++) {
		refuse(&rig, "once=1", 1);
		assert_false(was_banned(&rig));
		assert_int_equal(counter_at(&rig, "once=1").banned_until_ns,
				 rig.now_ns + minutes[i] * MINUTE_NS);
		assert_int_equal(counter_at(&rig, "once=1").ban_level, i + 1);
		/* Just before the ban ends is no new ban, just before a day has passed is one. */
		move(&rig, minutes[i] * MINUTE_NS - 1);
		refuse(&rig, "once=1", 1);
		assert_true(was_banned(&rig));
		move(&rig, i % 2 ? 1 : DAY_NS - SECOND_NS + 1);
	}
	move(&rig, DAY_NS);
	refuse(&rig, "once=1", 1);
	assert_int_equal(counter_at(&rig, "once=1").banned_until_ns, rig.now_ns + 10 * MINUTE_NS);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 1);
	rig_close(&rig);
}

static void durations_do_not_overflow(void **unused)
{
	struct wr_rules_ban ban = {.grow = 100, .for_ns = 366 * DAY_NS, .max_ns = 366 * DAY_NS};

	(void)unused;
	assert_int_equal(wr_limiter_ban_duration(&ban, 255), 366 * DAY_NS);
	ban.for_ns = SECOND_NS;
	assert_int_equal(wr_limiter_ban_duration(&ban, 1), SECOND_NS);
	assert_int_equal(wr_limiter_ban_duration(&ban, 2), 100 * SECOND_NS);
	assert_int_equal(wr_limiter_ban_duration(&ban, 255), 366 * DAY_NS);
	ban.grow = 1;
	assert_int_equal(wr_limiter_ban_duration(&ban, 255), SECOND_NS);
}

/* Requests that a ban refuses, looks and requests without a cost do not count. */
static void what_does_not_count(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(rig_ask(&rig, "few=1"), WEIR_ADMIT);
	refuse(&rig, "few=1", 2);
	for (unsigned i = 0; i < 5; i++) {
		rig_begin(&rig);
		assert_int_equal(rig_add(&rig, "few=1", 0), 0);
		rig_decide(&rig);
	}
	assert_int_equal(counter_at(&rig, "few=1").refusals, 2);
	/* The ban of an operator clears the refusals, too. */
	ban_until(&rig, "few=1", NOW_NS + SECOND_NS);
	refuse(&rig, "few=1", 5);
	assert_int_equal(counter_at(&rig, "few=1").refusals, 0);
	rig_close(&rig);
}

static void grants_stay(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_true(weir_control_grant(rig.engine, whom(&rig, "once=1"), 1, NOW_NS + HOUR_NS,
				       NOW_NS, NULL) > 0);
	assert_int_equal(rig_ask(&rig, "once=1"), WEIR_ADMIT);
	refuse(&rig, "once=1", 2);
	assert_true(was_banned(&rig));
	assert_int_equal(counter_at(&rig, "once=1").granted_until_ns, NOW_NS + HOUR_NS);
	assert_int_equal(counter_at(&rig, "once=1").granted, 1);
	rig_close(&rig);
}

static void operators_bans(void **unused)
{
	struct wr_limiter_ban_last last = {(uint32_t)(NOW_NS / SECOND_NS), 0, 1};
	struct rig rig;
	struct wr_ban ban;

	(void)unused;
	open_rig(&rig);
	/* A ban of an operator replaces an automatic ban, even by a shorter one. */
	refuse(&rig, "once=1", 1);
	ban_until(&rig, "once=1", NOW_NS + MINUTE_NS);
	assert_int_equal(counter_at(&rig, "once=1").banned_until_ns, NOW_NS + MINUTE_NS);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + MINUTE_NS);
	assert_int_equal(ban.flags, 0);
	assert_int_equal(ban.level, 0);
	/* An automatic ban of another node does not shorten the ban of an operator. */
	ban_until(&rig, "once=1", NOW_NS + HOUR_NS);
	last.until_s = last.since_s + 60;
	assert_true(wr_limiter_ban_order(rig.engine,
					 &(struct wr_order){.verb = WR_ORDER_BAN,
							    .target = whom(&rig, "once=1"),
							    .until_ns = NOW_NS + MINUTE_NS,
							    .level = 1,
							    .flags = WR_BAN_AUTOMATIC},
					 NOW_NS, NULL) > 0);
	assert_int_equal(counter_at(&rig, "once=1").banned_until_ns, NOW_NS + HOUR_NS);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.flags, 0);
	rig_close(&rig);
}

/* A release clears the ban, its entry, the refusals and the level. */
static void released(void **unused)
{
	struct wr_ban ban;
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(rig_ask(&rig, "few=1"), WEIR_ADMIT);
	refuse(&rig, "few=1", 3);
	assert_int_equal(counter_at(&rig, "few=1").ban_level, 1);
	ban_until(&rig, "few=1", 0);
	assert_int_equal(listed_until(&rig, &ban), 0);
	assert_int_equal(counter_at(&rig, "few=1").banned_until_ns, 0);
	assert_int_equal(counter_at(&rig, "few=1").refusals, 0);
	assert_int_equal(counter_at(&rig, "few=1").ban_level, 0);
	refuse(&rig, "few=1", 2);
	assert_int_equal(counter_at(&rig, "few=1").banned_until_ns, 0);
	refuse(&rig, "few=1", 1);
	assert_int_equal(counter_at(&rig, "few=1").ban_level, 1);
	rig_close(&rig);
}

/* A limit in shadow mode never bans. */
static void shadow_bans(void **unused)
{
	struct wr_ban ban;
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(rig_ask(&rig, "shadow=1"), WEIR_ADMIT);
	assert_int_equal(counter_at(&rig, "shadow=1").banned_until_ns, 0);
	assert_int_equal(counter_at(&rig, "shadow=1").ban_level, 1);
	assert_int_equal(counter_at(&rig, "shadow=1").shadow_ban_until_ns,
			 NOW_NS + 600 * SECOND_NS);
	/* One request is within the limit, three are refusals, and a ban would refuse the rest. */
	assert_int_equal(bans_of(&rig, "d/shadow/1h").would_start, 1);
	assert_int_equal(bans_of(&rig, "d/shadow/1h").would_refuse, 6);
	assert_int_equal(bans_of(&rig, "d/shadow/1h").started, 0);
	assert_int_equal(listed_until(&rig, &ban), 0);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC | WR_BAN_SHADOW);
	rig.now_ns += 600 * SECOND_NS;
	assert_int_equal(counter_at(&rig, "shadow=1").shadow_ban_until_ns, 0);
	rig_close(&rig);
}

/* The end of a ban in shadow mode also frees the text of its key. */
static void released_shadow_ban_has_no_text(void **unused)
{
	struct wr_table_text_note note;
	struct wr_ban ban;
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig_ask(&rig, "shadow=1"), WEIR_ADMIT);
	assert_int_equal(listed_until(&rig, &ban), 0);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC | WR_BAN_SHADOW);
	assert_true(wr_note_read(rig.table, ban.key, &note));
	ban_until(&rig, "shadow=1", 0);
	assert_false(wr_note_read(rig.table, ban.key, &note));
	rig_close(&rig);
}

/* While a rule is paused, its refusals count for a shadow ban, which has no effect afterwards. */
static void paused_rules(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(weir_control_pause(rig.engine, wr_str("d"), NULL), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rig_ask(&rig, "once=1"), WEIR_ADMIT);
	assert_int_equal(bans_of(&rig, "d/once/1h").would_start, 1);
	assert_int_equal(bans_of(&rig, "d/once/1h").would_refuse, 4);
	assert_int_equal(weir_control_resume(rig.engine, wr_str("d"), NULL), 0);
	refuse(&rig, "once=1", 1);
	assert_false(was_banned(&rig));
	/* The refusal starts a ban of its own, because the shadow ban has other cells. */
	assert_int_equal(bans_of(&rig, "d/once/1h").started, 1);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 1);
	refuse(&rig, "once=1", 1);
	assert_true(was_banned(&rig));
	rig_close(&rig);
}

/* A ban that began before its rule was set to shadow mode keeps its level. A ban of the shadow mode
 * has its own. */
static void ban_before_shadow_mode(void **unused)
{
	static const char shadow_rules[] = "domain: d\n"
					   "descriptors:\n"
					   "- key: once\n"
					   "  shadow_mode: true\n"
					   "  rate_limit: {unit: hour, requests_per_unit: 0,\n"
					   "    ban: {after: 1, for: 10m, grow: 2, max: 24h}}\n";
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	refuse(&rig, "once=1", 1);
	move(&rig, 10 * MINUTE_NS);
	refuse(&rig, "once=1", 1);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 2);
	assert_int_equal(weir_engine_swap(rig.engine, rig_rules(shadow_rules), rig.now_ns), 0);
	assert_int_equal(counter_at(&rig, "once=1").banned_until_ns, rig.now_ns + 20 * MINUTE_NS);
	assert_int_equal(counter_at(&rig, "once=1").ban_flags, WEIR_BAN_AUTOMATIC);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 2);
	/* After the ban, the level is that of shadow bans. */
	move(&rig, 20 * MINUTE_NS);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 0);
	assert_int_equal(rig_ask(&rig, "once=1"), WEIR_ADMIT);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 1);
	rig_close(&rig);
}

static int keep_candidate(void *context, const struct weir_candidate *candidate)
{
	*(struct weir_candidate *)context = *candidate;
	return 1;
}

static void candidates_count_bans(void **unused)
{
	struct weir_candidate candidate;
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(rig_ask(&rig, "tried=1"), WEIR_ADMIT);
	assert_int_equal(weir_candidates_each(rig.table, keep_candidate, &candidate), 1);
	assert_int_equal(candidate.would_admit, 1);
	assert_int_equal(candidate.would_refuse, 9);
	assert_int_equal(candidate.would_ban, 1);
	assert_int_equal(candidate.would_banned, 6);
	rig_close(&rig);
}

/* Each limit of a descriptor counts its own refusals. A ban of one limit refuses the request. */
static void several_limits(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(rig_ask(&rig, "two=1"), WEIR_ADMIT);
	refuse(&rig, "two=1", 2);
	assert_int_equal(bans_of(&rig, "d/two/1h").started, 1);
	refuse(&rig, "two=1", 1);
	assert_int_equal(rig_result(&rig).banned_until_ns, NOW_NS + 5 * MINUTE_NS);
	rig_close(&rig);
}

static int keep_override(void *context, const struct weir_override *override)
{
	struct weir_override *kept = context;
	static char key[128], address[64];

	*kept = *override;
	memcpy(key, override->key.ptr, override->key.len);
	kept->key.ptr = key;
	memcpy(address, override->address.ptr, override->address.len);
	kept->address.ptr = address;
	return 1;
}

/* The list has the address of the banned client, and the ring the order for other nodes. */
static void addresses_and_orders(void **unused)
{
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	struct wr_order_text text;
	struct weir_override override;
	uint64_t at = 0, lost = 0;
	struct rig rig, other;
	struct wr_ban ban;
	size_t len;

	(void)unused;
	open_rig(&rig);
	refuse(&rig, "remote_address=192.0.2.7", 2);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(ban.family, 4);
	assert_int_equal(ban.prefix_bits, 32);
	assert_memory_equal(ban.address, "\xc0\x00\x02\x07", 4);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC | WR_BAN_SHIELD);
	assert_int_equal(ban.rule, wr_ban_rule_hash(wr_str("d/remote_address/1h")));
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, keep_override, &override), 1);
	assert_true(wr_str_equal(override.address, wr_str("192.0.2.7")));
	assert_true(wr_str_equal(override.key, wr_str("d|remote_address=192.0.2.7")));
	assert_int_equal(override.level, 1);
	assert_int_equal(override.since_ns, NOW_NS);
	assert_int_equal(override.ban_flags, WEIR_BAN_AUTOMATIC | WEIR_BAN_SHIELD);
	/* Another node carries the order out. Its clock is a minute behind. */
	len = wr_ban_order_read(rig.table, &at, &lost, bytes);
	assert_true(wr_order_read(bytes, len, &text));
	assert_true(wr_order_end(&text, 2 * SECOND_NS, NOW_NS - MINUTE_NS));
	open_rig(&other);
	other.now_ns = NOW_NS - MINUTE_NS;
	assert_int_equal(wr_order_apply(other.engine, &text.order, other.now_ns, NULL), 1);
	assert_int_equal(listed_until(&other, &ban), NOW_NS + 9 * MINUTE_NS - 2 * SECOND_NS);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC | WR_BAN_SHIELD);
	assert_memory_equal(ban.address, "\xc0\x00\x02\x07", 4);
	refuse(&other, "remote_address=192.0.2.7", 1);
	assert_true(was_banned(&other));
	assert_int_equal(counter_at(&other, "remote_address=192.0.2.7").ban_level, 1);
	/* The order is for this rule only, and is not sent on. */
	assert_int_equal(rig_ask(&other, "plain=192.0.2.7"), WEIR_ADMIT);
	assert_int_equal(wr_ban_order_end(other.table), 0);
	/* The release of an operator, as an order. */
	ban_until(&other, "remote_address=192.0.2.7", 0);
	assert_int_equal(listed_until(&other, &ban), 0);
	rig_close(&other);
	rig_close(&rig);
}

/* Writes the order of a ban as another node would send it, with these values in its head. Applies it
 * here, and returns the result, or 0 if the order has ended. */
static int apply_message(struct rig *rig, const char *descriptor, uint32_t extra, uint64_t left_ns)
{
	struct wr_order order = {.verb = WR_ORDER_BAN, .target = whom(rig, descriptor)};
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	struct wr_order_text text;
	size_t len = wr_order_write(&order, NOW_NS, bytes, sizeof bytes);

	memcpy(bytes + 4, &extra, sizeof extra);
	memcpy(bytes + 8, &left_ns, sizeof left_ns);
	assert_true(wr_order_read(bytes, len, &text));
	return wr_order_end(&text, 0, NOW_NS)
		       ? wr_order_apply(rig->engine, &text.order, NOW_NS, NULL)
		       : 0;
}

/* Values of a message that no node of this version sends. */
static void hostile_messages(void **unused)
{
	const char *const address = "remote_address=192.0.2.7";
	struct wr_ban ban;
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	/* Level 255 and all flags: the ban is neither bare nor in shadow mode. */
	assert_int_equal(apply_message(&rig, address, UINT32_MAX, 100 * SECOND_NS), 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 100 * SECOND_NS);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC | WR_BAN_SHIELD);
	assert_int_equal(ban.level, 255);
	/* The next ban has level 255 too, and lasts the maximum: 24 hours. */
	move(&rig, 100 * SECOND_NS);
	refuse(&rig, address, 2);
	assert_int_equal(counter_at(&rig, address).ban_level, 255);
	assert_int_equal(counter_at(&rig, address).banned_until_ns, rig.now_ns + DAY_NS);
	/* A time that does not fit into 63 bits is no order. */
	ban_until(&rig, address, 0);
	assert_int_equal(apply_message(&rig, address, 0, (uint64_t)INT64_MAX + 1), 0);
	assert_int_equal(listed_until(&rig, &ban), 0);
	/* 292 years: the ban never ends, because the table counts seconds until the year 2106. */
	assert_int_equal(apply_message(&rig, address, WR_BAN_AUTOMATIC, INT64_MAX), 1);
	assert_true(listed_until(&rig, &ban) > 0);
	assert_int_equal(ban.until_s, WR_FOR_GOOD);
	/* Time 0 ends a ban. */
	assert_int_equal(apply_message(&rig, address, UINT32_MAX, 0), 1);
	assert_int_equal(listed_until(&rig, &ban), 0);
	/* The rule here has no `ban`, so a value that looks like an address may be the client's. */
	assert_int_equal(apply_message(&rig, "plain=192.0.2.7", UINT32_MAX, HOUR_NS), 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.family, 0);
	assert_int_equal(ban.flags, WR_BAN_AUTOMATIC);
	assert_int_equal(apply_message(&rig, "plain=192.0.2.7", UINT32_MAX, 0), 1);
	assert_int_equal(apply_message(&rig, "plain=::ffff:9.9.9.9", UINT32_MAX, HOUR_NS), 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.family, 0);
	/* The rule here has whole addresses. */
	assert_int_equal(apply_message(&rig, "plain=::ffff:9.9.9.9", UINT32_MAX, 0), 1);
	assert_int_equal(apply_message(&rig, "remote_address=10.0.0.0/8", UINT32_MAX, HOUR_NS), 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.family, 0);
	rig_close(&rig);
}

/* Refuses the key until it is banned, and returns the ban in the list. */
static struct wr_ban banned_as(const char *descriptor)
{
	struct wr_ban ban = {0};
	struct rig rig;

	open_rig(&rig);
	refuse(&rig, descriptor, 2);
	assert_true(counter_at(&rig, descriptor).banned_until_ns > 0);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 10 * MINUTE_NS);
	rig_close(&rig);
	return ban;
}

/* Which addresses of automatic bans are in the list, and so in the shield. A client that can choose
 * the value must not have other clients' addresses listed. */
static void addresses_in_the_list(void **unused)
{
	static const struct {
		const char *descriptor;
		unsigned family, bits;
	} cases[] = {
		{"remote_address=10.1.2.3", 4, 32},
		{"remote_address=::ffff:10.1.2.3", 4, 32}, /* of a socket for IPv4 and IPv6 */
		{"remote_address=::ffff:10.1.2.3/128", 4, 32},
		{"remote_address=10.77.0.5/8", 0, 0},
		{"remote_address=10.0.0.0/8", 0, 0},
		{"remote_address=10.1.2.0/24", 0, 0},
		{"remote_address=2001:db8::/64", 0, 0},
		{"remote_address=::ffff:0:0/96", 0, 0},
		{"remote_address=0.0.0.0/0", 0, 0},
		{"masked_remote_address=10.1.2.3", 4, 32},
		{"masked_remote_address=10.1.2.0/24", 4, 24},
		{"masked_remote_address=::ffff:10.1.2.0/120", 4, 24},
		{"masked_remote_address=::ffff:10.1.2.0/119", 0, 0}, /* host bits, and too short */
		{"masked_remote_address=10.1.2.0/23", 0, 0},
		{"masked_remote_address=10.1.2.3/24", 0, 0},
		{"masked_remote_address=2001:db8::/48", 6, 48},
		{"masked_remote_address=2001:db8::/47", 0, 0},
		{"masked_remote_address=::/48", 6, 48},
		{"masked_remote_address=::/0", 0, 0},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_ban ban = banned_as(cases[i].descriptor);
		unsigned flags = WR_BAN_AUTOMATIC | (cases[i].family ? WR_BAN_SHIELD : 0);

		if (ban.family != cases[i].family || ban.prefix_bits != cases[i].bits)
			fail_msg("%s: family %u, %u bits", cases[i].descriptor, ban.family,
				 ban.prefix_bits);
		assert_int_equal(ban.flags, flags);
		if (ban.family == 4)
			assert_memory_equal(ban.address, "\x0a\x01\x02", 3);
	}
}

static void operators_use_the_shield(void **unused)
{
	struct weir_ban_opts opts = {
		.size = sizeof opts, .flags = WEIR_BAN_SHIELD, .until_ns = NOW_NS + HOUR_NS};
	struct wr_ban ban;
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	assert_int_equal(weir_control_ban_add(rig.engine,
					      whom(&rig, "remote_address=2001:db8::/64"), &opts,
					      NOW_NS, NULL),
			 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.flags, WR_BAN_SHIELD);
	assert_int_equal(ban.family, 6);
	assert_int_equal(ban.prefix_bits, 64);
	ban_until(&rig, "remote_address=2001:db8::/64", 0);
	assert_int_equal(weir_control_ban_add(rig.engine, whom(&rig, "plain=::ffff:10.0.0.9"),
					      &opts, NOW_NS, NULL),
			 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.family, 4);
	assert_int_equal(ban.prefix_bits, 32);
	opts.flags = WEIR_BAN_AUTOMATIC;
	assert_int_equal(
		weir_control_ban_add(rig.engine, whom(&rig, "plain=7"), &opts, NOW_NS, NULL),
		WEIR_EINVAL);
	rig_close(&rig);
}

static const char user_and_ip[] =
	"domain: d\n"
	"requests:\n"
	"- descriptor: [{key: user, from: header.x-user}, {key: ip, from: remote_address}]\n"
	"- descriptor: [{key: a, from: remote_address}, {key: b, from: header.x}]\n"
	"- descriptor: [{key: a, from: header.x}, {key: b, from: remote_address}]\n"
	"descriptors:\n"
	"- key: user\n"
	"  descriptors:\n"
	"  - key: ip\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1}\n"
	"- key: a\n"
	"  descriptors:\n"
	"  - key: b\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1}\n"
	"- key: plain\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1}\n";

#define NO_ADDRESS                                                                                 \
	"the key has no address whose packets weir shield can drop: leave out --shield "           \
	"(\"shield\" in JSON)"
#define SEVERAL(x, y)                                                                              \
	"the rules do not say whether " x " or " y " is the client's address: leave out "          \
	"--shield (\"shield\" in JSON), and ban the right address with weir shield add"

/* The rule says which value is the address, even without `ban`. A client can choose the other
 * values. */
static void address_for_the_shield(void **unused)
{
	static const struct {
		const char *descriptor, *address, *error;
	} cases[] = {
		{"user=203.0.113.9|ip=192.0.2.7", "192.0.2.7", NULL},
		{"user=203.0.113.9|ip=2001:db8::/64", "2001:db8::/64", NULL},
		{"user=203.0.113.9|ip=hello", NULL, NO_ADDRESS},
		{"user=203.0.113.9|ip=fe80::1%eth0", NULL, NO_ADDRESS},
		{"user=203.0.113.9|ip=0.0.0.0/0", NULL, NO_ADDRESS},
		{"user=203.0.113.9|ip=10.1.2.3/8", NULL, NO_ADDRESS},
		/* The address is in `a` or in `b`. */
		{"a=192.0.2.7|b=7", "192.0.2.7", NULL},
		{"a=7|b=::ffff:192.0.2.7", "192.0.2.7", NULL},
		{"a=192.0.2.7|b=192.0.2.7/32", "192.0.2.7", NULL},
		{"a=192.0.2.7|b=203.0.113.9", NULL, SEVERAL("192.0.2.7", "203.0.113.9")},
		{"a=10.0.0.0/8|b=10.1.2.3", NULL, SEVERAL("10.0.0.0/8", "10.1.2.3")},
		{"a=7|b=8", NULL, NO_ADDRESS},
		{"plain=192.0.2.7", "192.0.2.7", NULL},
		{"plain=7", NULL, NO_ADDRESS},
	};
	struct weir_ban_opts opts = {
		.size = sizeof opts, .flags = WEIR_BAN_SHIELD, .until_ns = NOW_NS + HOUR_NS};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_error error = {.text = ""};
		char address[WR_ADDRESS_TEXT];
		struct weir_override override;
		struct wr_ban ban;
		struct rig rig;
		int rc;

		rig_open(&rig, user_and_ip, "d");
		rig.now_ns = NOW_NS;
		rc = weir_control_ban_add(rig.engine, whom(&rig, cases[i].descriptor), &opts,
					  NOW_NS, &error);
		if (cases[i].error) {
			assert_int_equal(rc, WEIR_EINVAL);
			assert_string_equal(error.text, cases[i].error);
			assert_int_equal(listed_until(&rig, &ban), 0);
		} else {
			assert_int_equal(rc, 1);
			assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
			assert_int_equal(ban.flags, WR_BAN_SHIELD);
			weir_control_overrides(rig.engine, NOW_NS, keep_override, &override);
			assert_true(wr_str_equal(override.address, wr_str(cases[i].address)));
			assert_int_equal(wr_limiter_ban_shield_address(
						 rig.engine, whom(&rig, cases[i].descriptor),
						 NOW_NS, address, NULL),
					 0);
			assert_string_equal(address, cases[i].address);
		}
		rig_close(&rig);
	}
}

/* An order of another node, whose rules may differ, bans the key, but the shield gets no address
 * that may be a client's choice. */
static void unclear_address_of_another_node(void **unused)
{
	struct wr_order order = {
		.verb = WR_ORDER_BAN, .until_ns = NOW_NS + HOUR_NS, .flags = WR_BAN_SHIELD};
	struct wr_ban ban;
	struct rig rig;

	(void)unused;
	rig_open(&rig, user_and_ip, "d");
	rig.now_ns = NOW_NS;
	order.target = whom(&rig, "a=192.0.2.7|b=203.0.113.9");
	assert_int_equal(wr_order_apply(rig.engine, &order, NOW_NS, NULL), 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + HOUR_NS);
	assert_int_equal(ban.family, 0);
	assert_int_equal(ban.flags, 0);
	rig_close(&rig);
}

/* A descriptor that does not fit into the ask: the key is banned, and the address is in the list,
 * but other nodes get no order. */
static void long_descriptors(void **unused)
{
	struct wr_ban ban;
	struct rig rig;
	char long_value[2500];

	(void)unused;
	open_rig(&rig);
	snprintf(long_value, sizeof long_value, "once=%02300d", 7);
	refuse(&rig, long_value, 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(wr_ban_order_end(rig.table), 0);
	refuse(&rig, long_value, 1);
	assert_true(was_banned(&rig));
	rig_close(&rig);
}

/* A clock that steps back neither ends a ban nor starts another one. */
static void clock_steps_back(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	refuse(&rig, "once=1", 1);
	rig.now_ns -= HOUR_NS;
	refuse(&rig, "once=1", 1);
	assert_true(was_banned(&rig));
	assert_int_equal(counter_at(&rig, "once=1").banned_until_ns, NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(bans_of(&rig, "d/once/1h").started, 1);
	rig_close(&rig);
}

/* The process that started the ban was killed before it wrote the override. The next refusal writes
 * the same ban. */
static void half_written_ban(void **unused)
{
	struct wr_override_change none = {.ban = true};
	struct rig rig;
	struct wr_ban ban;

	(void)unused;
	open_rig(&rig);
	refuse(&rig, "once=1", 1);
	assert_int_equal(listed_until(&rig, &ban), NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(wr_ban_order_end(rig.table), 1);
	wr_override_change(rig.table, ban.key, WEIR_FIXED_WINDOW, &none,
			   (uint32_t)(NOW_NS / SECOND_NS));
	move(&rig, MINUTE_NS);
	refuse(&rig, "once=1", 1);
	assert_int_equal(wr_ban_order_end(rig.table), 2);
	assert_int_equal(counter_at(&rig, "once=1").banned_until_ns, NOW_NS + 10 * MINUTE_NS);
	assert_int_equal(counter_at(&rig, "once=1").ban_level, 1);
	assert_int_equal(bans_of(&rig, "d/once/1h").started, 1);
	rig_close(&rig);
}

/* Refusals by the central store count, on the node that got the request. A ban then refuses without
 * a question. Refusals because the central store is unavailable do not count. */
static void central_refusals(void **unused)
{
	static const char central[] =
		"domain: d\n"
		"descriptors:\n"
		"- key: k\n"
		"  rate_limit: {unit: hour, requests_per_unit: 1, on_store_failure: deny,\n"
		"    ban: {after: 3, for: 10m}}\n";
	static struct store store;
	struct rig rig;

	(void)unused;
	rig_open_with(&rig, rig_rules(central), "d", WEIR_ENGINE_CENTRAL);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(store_fails(&rig, "k=1"), WEIR_REFUSE);
	assert_int_equal(counter_at(&rig, "k=1").refusals, 0);
	assert_int_equal(store_ask(&rig, &store, "k=1"), WEIR_ADMIT);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(store_ask(&rig, &store, "k=1"), WEIR_REFUSE);
	assert_int_equal(counter_at(&rig, "k=1").banned_until_ns, NOW_NS + 10 * MINUTE_NS);
	store.questions = 0;
	assert_int_equal(store_ask(&rig, &store, "k=1"), WEIR_REFUSE);
	assert_true(was_banned(&rig));
	assert_int_equal(store.questions, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fiftieth_refusal_bans),
		cmocka_unit_test(refusals_leave_the_window),
		cmocka_unit_test(bans_grow_within_a_day),
		cmocka_unit_test(durations_do_not_overflow),
		cmocka_unit_test(what_does_not_count),
		cmocka_unit_test(grants_stay),
		cmocka_unit_test(operators_bans),
		cmocka_unit_test(released),
		cmocka_unit_test(shadow_bans),
		cmocka_unit_test(released_shadow_ban_has_no_text),
		cmocka_unit_test(paused_rules),
		cmocka_unit_test(ban_before_shadow_mode),
		cmocka_unit_test(candidates_count_bans),
		cmocka_unit_test(several_limits),
		cmocka_unit_test(addresses_and_orders),
		cmocka_unit_test(hostile_messages),
		cmocka_unit_test(addresses_in_the_list),
		cmocka_unit_test(operators_use_the_shield),
		cmocka_unit_test(address_for_the_shield),
		cmocka_unit_test(unclear_address_of_another_node),
		cmocka_unit_test(long_descriptors),
		cmocka_unit_test(clock_steps_back),
		cmocka_unit_test(half_written_ban),
		cmocka_unit_test(central_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
