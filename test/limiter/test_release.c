/* Conditions that select bans, and the end of all selected bans. */
#include "control_test.h"

#include "limiter/ban.h"
#include "limiter/order.h"
#include "limiter/release.h"
#include "table/note.h"

static const char ban_rules[] = "domain: d\n"
				"descriptors:\n"
				"- key: remote_address\n"
				"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
				"    ban: {after: 2, for: 10m, grow: 2, shield: true}}\n"
				"- key: user\n"
				"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
				"    ban: {after: 1, for: 10m}}\n"
				"- key: shadow\n"
				"  shadow_mode: true\n"
				"  rate_limit: {unit: hour, requests_per_unit: 0,\n"
				"    ban: {after: 1, for: 10m}}\n"
				"- key: plain\n"
				"  rate_limit: {unit: hour, requests_per_unit: 9}\n";

#define ADDRESS_RULE "d/remote_address/1h"
#define NOW_S ((uint32_t)(NOW_NS / SECOND_NS))

static void open_rig(struct rig *rig)
{
	rig_open(rig, ban_rules, "d");
	rig->now_ns = NOW_NS;
}

/* ---- conditions ---- */

/* Reads conditions such as "address=192.0.2.7|kind=shadow". The texts are valid until the next
 * call. */
static int read_conditions(struct wr_release *release, const char *conditions,
			   struct weir_error *error)
{
	static const struct rig nowhere = {.domain = ""};

	return wr_release_read(release, whom(&nowhere, conditions), error);
}

static void conditions_are_read(void **unused)
{
	struct wr_release release;

	(void)unused;
	assert_int_equal(read_conditions(&release, "all=", NULL), 0);
	assert_int_equal(release.rule.len + release.has_address + release.flags_on +
				 release.flags_off + release.begun_s,
			 0);
	assert_int_equal(read_conditions(&release, "address=192.0.2.0/24|rule=d/k/1h", NULL), 0);
	assert_true(release.has_address);
	assert_int_equal(release.bits, 24);
	assert_true(wr_str_equal(release.rule, wr_str("d/k/1h")));
	assert_int_equal(read_conditions(&release, "address=2001:db8::7|kind=automatic", NULL), 0);
	assert_int_equal(release.bits, 128);
	assert_int_equal(release.flags_on, WR_BAN_AUTOMATIC);
	assert_int_equal(release.flags_off, WR_BAN_SHADOW);
	assert_int_equal(read_conditions(&release, "kind=operator", NULL), 0);
	assert_int_equal(release.flags_on, 0);
	assert_int_equal(release.flags_off, WR_BAN_AUTOMATIC | WR_BAN_SHADOW);
	assert_int_equal(read_conditions(&release, "kind=shadow", NULL), 0);
	assert_int_equal(release.flags_on, WR_BAN_SHADOW);
	assert_int_equal(release.flags_off, 0);
}

static void bad_conditions_are_refused(void **unused)
{
	static const char *const bad[] = {"address=",
					  "address=192.0.2.0/33",
					  "address=2001:db8::/129",
					  "address=192.0.2.256",
					  "kind=",
					  "kind=bare",
					  "rule=",
					  "colour=red",
					  "all=|kind=Shadow"};
	struct wr_release release;
	struct weir_error error;

	(void)unused;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(read_conditions(&release, bad[i], &error), WEIR_EINVAL);
		assert_true(error.text[0] != '\0');
	}
	read_conditions(&release, "address=nowhere", &error);
	assert_string_equal(error.text,
			    "'nowhere' is neither an address nor a prefix such as 192.0.2.0/24");
}

/* ---- selection ---- */

/* Returns a ban of this address or prefix, which began at second 1000. */
static struct wr_ban ban_of(const char *address)
{
	struct wr_ban ban = {.since_s = 1000, .rule = wr_ban_rule_hash(wr_str("d/k/1h"))};
	struct wr_address_range range;
	unsigned bits;
	bool v4;

	assert_int_equal(wr_address_prefix_parse(wr_str(address), &range, &bits),
			 WR_ADDRESS_PREFIX_OK);
	v4 = wr_address_is_v4(&range.low);
	ban.family = v4 ? 4 : 6;
	ban.prefix_bits = (uint8_t)bits;
	memcpy(ban.address, range.low.bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
	return ban;
}

static bool selects(const char *conditions, const struct wr_ban *ban)
{
	struct wr_release release;

	assert_int_equal(read_conditions(&release, conditions, NULL), 0);
	return wr_release_means(&release, ban);
}

static void networks_that_overlap(void **unused)
{
	static const struct {
		const char *condition, *ban;
		bool selected;
	} cases[] = {
		{"address=192.0.2.7", "192.0.2.7", true},
		{"address=192.0.2.7", "192.0.2.6", false},
		{"address=192.0.2.0/24", "192.0.2.255", true},
		{"address=192.0.2.0/24", "192.0.3.0", false},
		{"address=192.0.2.0/23", "192.0.3.255", true},
		{"address=192.0.2.77/23", "192.0.3.255", true}, /* bits behind the prefix */
		{"address=192.0.2.0/23", "192.0.4.0", false},
		{"address=192.0.2.7", "192.0.0.0/16", true}, /* the ban is the wider network */
		{"address=192.0.2.7", "192.1.0.0/16", false},
		{"address=0.0.0.0/0", "203.0.113.1", true},
		{"address=0.0.0.0/0", "2001:db8::1", false},
		{"address=::/0", "2001:db8::1", true},
		{"address=::/0", "203.0.113.1", false},
		{"address=2001:db8::1", "2001:db8::/64", true},
		{"address=2001:db8:0:1::1", "2001:db8::/64", false},
		{"address=2001:db8:8000::/33", "2001:db8:ffff::1", true},
		{"address=2001:db8:8000::/33", "2001:db8:7fff::1", false},
		{"address=::ffff:192.0.2.7", "192.0.2.7", true}, /* an IPv4 address in IPv6 */
	};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_ban ban = ban_of(cases[i].ban);

		if (selects(cases[i].condition, &ban) != cases[i].selected)
			fail_msg("%s and a ban of %s", cases[i].condition, cases[i].ban);
	}
}

/* Fields of a ban that no writer of this version writes. They are compared within the address. */
static void damaged_bans(void **unused)
{
	struct wr_ban ban = ban_of("192.0.2.7");

	(void)unused;
	ban.prefix_bits = 255;
	assert_true(selects("address=192.0.2.7", &ban));
	assert_false(selects("address=192.0.2.6", &ban));
	ban.prefix_bits = 0;
	assert_true(selects("address=203.0.113.1", &ban));
	ban.family = 0;
	assert_false(selects("address=192.0.2.7", &ban));
	ban.family = 7;
	assert_false(selects("address=192.0.2.7", &ban));
	assert_true(selects("all=", &ban));
	ban = ban_of("2001:db8::1");
	ban.prefix_bits = 255;
	assert_true(selects("address=2001:db8::/32", &ban));
	ban.flags = 0xff;
	assert_false(selects("kind=automatic", &ban));
	assert_true(selects("kind=shadow", &ban));
}

static void newer_bans_stay(void **unused)
{
	struct wr_release release = {.begun_s = 1000};
	struct wr_ban ban = ban_of("192.0.2.7");

	(void)unused;
	assert_true(wr_release_means(&release, &ban));
	ban.since_s = 1001;
	assert_false(wr_release_means(&release, &ban));
	release.begun_s = 0;
	assert_true(wr_release_means(&release, &ban));
	assert_true(selects("rule=d/k/1h", &ban));
	assert_false(selects("rule=d/k/1m", &ban));
}

/* ---- the end of bans ---- */

static int count_all(void *context, const struct wr_ban *ban)
{
	(void)ban;
	++*(unsigned *)context;
	return 0;
}

static unsigned listed(struct rig *rig)
{
	unsigned count = 0;

	wr_bans_each(rig->table, NOW_S, count_all, &count);
	return count;
}

static int release_by(struct rig *rig, const char *conditions)
{
	struct wr_release release;

	assert_int_equal(read_conditions(&release, conditions, NULL), 0);
	return wr_release_bans(rig->engine, &release, rig->now_ns);
}

static void ban_by_rule(struct rig *rig, const char *address)
{
	char descriptor[80];

	snprintf(descriptor, sizeof descriptor, "remote_address=%s", address);
	assert_int_equal(rig_ask(rig, descriptor), WEIR_REFUSE);
	assert_int_equal(rig_ask(rig, descriptor), WEIR_REFUSE);
	assert_int_equal(get(rig, descriptor).banned_until_ns, NOW_NS + 600 * SECOND_NS);
}

/* Writes a ban of weir shield add, which has no counter. */
static void ban_bare(struct rig *rig, const char *address)
{
	struct wr_ban ban = ban_of(address);

	ban.flags = WR_BAN_BARE | WR_BAN_SHIELD;
	ban.rule = 0;
	ban.until_s = NOW_S + 100;
	ban.key = wr_ban_bare_key(rig->table, ban.address, ban.family, ban.prefix_bits);
	assert_true(wr_ban_write(rig->table, &ban, NOW_S));
}

/* Seven bans: three addresses by a rule, one user by a rule, one by an operator, one in shadow mode
 * and one of weir shield add. */
static void make_seven(struct rig *rig)
{
	open_rig(rig);
	ban_by_rule(rig, "192.0.2.1");
	ban_by_rule(rig, "192.0.2.2");
	ban_by_rule(rig, "2001:db8::1");
	assert_int_equal(rig_ask(rig, "user=7"), WEIR_REFUSE);
	ban(rig, "plain=1", WEIR_NEVER);
	assert_int_equal(rig_ask(rig, "shadow=1"), WEIR_ADMIT);
	ban_bare(rig, "192.0.2.9");
	assert_int_equal(listed(rig), 7);
}

static void released_by_each_condition(void **unused)
{
	static const struct {
		const char *conditions;
		int ended;
	} cases[] = {
		{"all=", 7},
		{"kind=automatic", 4},
		{"kind=operator", 2},
		{"kind=shadow", 1},
		{"rule=" ADDRESS_RULE, 3},
		{"rule=d/nosuch/1h", 0},
		{"address=192.0.2.0/24", 3},
		{"address=192.0.2.0/24|kind=automatic", 2},
		{"address=192.0.2.2", 1},
		{"address=2001:db8::/32|rule=" ADDRESS_RULE, 1},
		{"address=203.0.113.0/24", 0},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rig rig;

		make_seven(&rig);
		assert_int_equal(release_by(&rig, cases[i].conditions), cases[i].ended);
		assert_int_equal(listed(&rig), 7 - cases[i].ended);
		assert_int_equal(release_by(&rig, cases[i].conditions), 0);
		rig_close(&rig);
	}
}

static int keep_shadow(void *context, const struct wr_ban *ban)
{
	if (ban->flags & WR_BAN_SHADOW)
		*(struct wr_ban *)context = *ban;
	return 0;
}

/* The end of a ban in shadow mode also frees the text of its key. */
static void released_shadow_ban_has_no_text(void **unused)
{
	struct wr_ban shadow = {.flags = 0};
	struct wr_table_text_note note;
	struct rig rig;

	(void)unused;
	make_seven(&rig);
	wr_bans_each(rig.table, NOW_S, keep_shadow, &shadow);
	assert_int_equal(shadow.flags, WR_BAN_AUTOMATIC | WR_BAN_SHADOW);
	assert_true(wr_note_read(rig.table, shadow.key, &note));
	assert_int_equal(release_by(&rig, "kind=shadow"), 1);
	assert_false(wr_note_read(rig.table, shadow.key, &note));
	rig_close(&rig);
}

/* A release clears the refusals and the level: two refusals start a first ban again. Other keys stay
 * banned. */
static void released_key_begins_anew(void **unused)
{
	struct weir_counter counter;
	struct rig rig;

	(void)unused;
	make_seven(&rig);
	assert_int_equal(release_by(&rig, "address=192.0.2.1"), 1);
	counter = get(&rig, "remote_address=192.0.2.1");
	assert_int_equal(counter.banned_until_ns, 0);
	assert_int_equal(counter.refusals, 0);
	assert_int_equal(counter.ban_level, 0);
	assert_int_equal(rig_ask(&rig, "remote_address=192.0.2.1"), WEIR_REFUSE);
	assert_false(rig_status(&rig, 0).decision.banned);
	assert_int_equal(get(&rig, "remote_address=192.0.2.1").refusals, 1);
	assert_int_equal(rig_ask(&rig, "remote_address=192.0.2.1"), WEIR_REFUSE);
	assert_int_equal(get(&rig, "remote_address=192.0.2.1").ban_level, 1);
	assert_int_equal(rig_ask(&rig, "remote_address=192.0.2.2"), WEIR_REFUSE);
	assert_true(rig_status(&rig, 0).decision.banned);
	assert_int_equal(release_by(&rig, "kind=operator"), 2);
	assert_int_equal(rig_ask(&rig, "plain=1"), WEIR_ADMIT);
	rig_close(&rig);
}

/* A grant of the key stays. */
static void grants_stay(void **unused)
{
	struct rig rig;

	(void)unused;
	open_rig(&rig);
	grant(&rig, "plain=1", 5, NOW_NS + HOUR_NS);
	ban(&rig, "plain=1", NOW_NS + HOUR_NS);
	assert_int_equal(release_by(&rig, "all="), 1);
	assert_int_equal(get(&rig, "plain=1").granted, 5);
	assert_int_equal(get(&rig, "plain=1").banned_until_ns, 0);
	rig_close(&rig);
}

/* As make_seven(), but the list has no room for a ban. */
static void make_unlisted(struct rig *rig)
{
	open_rig(rig);
	rig->table->header.sections[WR_SECTION_BANS].bytes = 256;
	ban_by_rule(rig, "192.0.2.1");
	ban_by_rule(rig, "192.0.2.2");
	assert_int_equal(rig_ask(rig, "user=7"), WEIR_REFUSE);
	grant(rig, "plain=1", 5, NOW_NS + HOUR_NS);
	ban(rig, "plain=1", WEIR_NEVER);
	assert_int_equal(listed(rig), 0);
	assert_int_equal(wr_release_unlisted(rig->table, NOW_S), 4);
}

/* Bans that are not in the list end too. Their addresses are not known. */
static void unlisted_bans_are_released(void **unused)
{
	static const struct {
		const char *conditions;
		int ended;
	} cases[] = {
		{"all=", 4},
		{"kind=automatic", 3},
		{"kind=operator", 1},
		{"kind=shadow", 0},
		{"rule=" ADDRESS_RULE, 2}, /* the keys have notes */
		{"rule=" ADDRESS_RULE "|kind=operator", 0},
		{"address=192.0.2.0/24", 0},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rig rig;

		make_unlisted(&rig);
		assert_int_equal(release_by(&rig, cases[i].conditions), cases[i].ended);
		assert_int_equal(wr_release_unlisted(rig.table, NOW_S), 4 - cases[i].ended);
		assert_int_equal(release_by(&rig, cases[i].conditions), 0);
		assert_int_equal(get(&rig, "plain=1").granted, 5);
		rig_close(&rig);
	}
}

/* A release of another node does not end a ban that may have begun later. */
static void unlisted_bans_that_are_newer(void **unused)
{
	struct wr_release release = {.begun_s = NOW_S - 1};
	struct rig rig;

	(void)unused;
	make_unlisted(&rig);
	assert_int_equal(wr_release_bans(rig.engine, &release, rig.now_ns), 0);
	release.begun_s = NOW_S;
	assert_int_equal(wr_release_bans(rig.engine, &release, rig.now_ns), 3);
	assert_true(get(&rig, "plain=1").banned_until_ns > 0);
	rig_close(&rig);
}

static void time_out_of_range(void **unused)
{
	struct wr_release release = {0};
	struct rig rig;

	(void)unused;
	make_seven(&rig);
	assert_int_equal(wr_release_bans(rig.engine, &release, (uint64_t)INT64_MAX + 1),
			 WEIR_ETIME);
	assert_int_equal(listed(&rig), 7);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_are_read),
		cmocka_unit_test(bad_conditions_are_refused),
		cmocka_unit_test(networks_that_overlap),
		cmocka_unit_test(damaged_bans),
		cmocka_unit_test(newer_bans_stay),
		cmocka_unit_test(released_by_each_condition),
		cmocka_unit_test(released_shadow_ban_has_no_text),
		cmocka_unit_test(released_key_begins_anew),
		cmocka_unit_test(grants_stay),
		cmocka_unit_test(unlisted_bans_are_released),
		cmocka_unit_test(unlisted_bans_that_are_newer),
		cmocka_unit_test(time_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
