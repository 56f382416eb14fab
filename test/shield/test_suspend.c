/* Bans that the shield skips because of their rule. */
#include "shield_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rules/rules.h"
#include "shield/suspend.h"
#include "stats/stats.h"
#include "table/note.h"
#include "table/pause.h"

#define TEN "kkkkkkkkkk"
#define LONG_KEY TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static const char rules_text[] =
	"requests:\n"
	"  - descriptor: [{key: ip, from: remote_address}]\n"
	"descriptors:\n"
	"  - {key: ip, rate_limit: {unit: hour, requests_per_unit: 9, BAN}}\n"
	"  - {key: trial, value: a, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: "
	"9}}\n"
	"  - {key: share, value: a, rate_limit: {unit: hour, requests_per_unit: 9, enforce: 0%}}\n"
	"  - {key: plain, value: a, rate_limit: {unit: hour, requests_per_unit: 9}}\n"
	"  - {key: " LONG_KEY ", value: a, rate_limit: {unit: hour, requests_per_unit: 9}}\n";

static char folder[] = "/tmp/weir-suspend-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static struct weir_rules *rules_of(const char *domain, const char *ban)
{
	struct weir_errors errors = {.size = sizeof errors};
	const char *at = strstr(rules_text, "BAN");
	struct weir_rules *rules = NULL;
	char path[64];
	FILE *file;

	snprintf(path, sizeof path, "%s/rules.yaml", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "domain: %s\n%.*s%s%s", domain, (int)(at - rules_text), rules_text, ban,
		at + 3);
	fclose(file);
	assert_int_equal(weir_rules_load(path, &rules, &errors), 0);
	weir_errors_free(&errors);
	unlink(path);
	return rules;
}

static struct weir_rules *rules_with(const char *ban)
{
	return rules_of("api", ban);
}

static struct weir_table *open_table(void)
{
	struct weir_opts opts = {.size = sizeof opts, .name = "suspend", .dir = folder};
	struct weir_error error;
	struct weir_table *table;

	assert_int_equal(weir_open(&opts, &table, &error), 0);
	return table;
}

static void drop_table(struct weir_table *table)
{
	weir_close(table);
	assert_int_equal(weir_remove("suspend", folder, NULL), 0);
}

static void check_ban(const struct weir_table *table, const struct weir_rules *rules,
		      const struct wr_ban *ban, enum wr_suspend_kind wanted)
{
	struct wr_suspend suspend;

	assert_true(wr_suspend_read(&suspend, table, rules));
	assert_string_equal(wr_suspend_reason(wr_suspend_find(&suspend, ban)),
			    wr_suspend_reason(wanted));
	wr_suspend_free(&suspend);
}

static void check(const struct weir_table *table, const struct weir_rules *rules, const char *rule,
		  unsigned flags, enum wr_suspend_kind wanted)
{
	struct wr_ban ban = make_ban("198.51.100.7", UINT32_MAX);

	ban.key.tag = 7;
	ban.rule = wr_ban_rule_hash(wr_str(rule));
	ban.flags = (uint8_t)(WR_BAN_SHIELD | flags);
	check_ban(table, rules, &ban, wanted);
}

/* Checks an automatic ban of a counter of this limit. 0: the limit is not known. */
static void check_limit(const struct weir_table *table, const struct weir_rules *rules,
			uint64_t limit, enum wr_suspend_kind wanted)
{
	struct wr_ban ban = make_ban("198.51.100.7", UINT32_MAX);

	ban.key.tag = 7;
	ban.rule = wr_ban_rule_hash(WR_STR("api/ip/1h"));
	ban.flags = WR_BAN_SHIELD | WR_BAN_AUTOMATIC;
	ban.limit = limit;
	check_ban(table, rules, &ban, wanted);
}

/* Puts the name of a rule into the statistics of the table, as a service does. */
static void know(const struct weir_table *table, const char *rule)
{
	struct wr_stats stats;

	wr_stats_open(&stats, table);
	assert_true(wr_stats_slot(&stats, wr_str(rule)) >= WEIR_STAT_RULES);
	wr_stats_close(&stats);
}

static uint64_t hash_of(const char *name)
{
	return wr_pause_hash(name, strlen(name));
}

static void test_state_of_a_rule(void **state)
{
	struct weir_table *table = open_table();
	struct weir_rules *with = rules_with("ban: {after: 3, within: 1h, for: 1h, shield: true}");
	struct weir_rules *without = rules_with("ban: {after: 3, within: 1h, for: 1h}");

	(void)state;
	check(table, NULL, "api/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	check(table, with, "api/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	check(table, without, "api/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_UNSHIELDED);
	check(table, with, "api/trial=a/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_SHADOW);
	check(table, with, "api/share=a/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_SHADOW);
	check(table, with, "api/plain=a/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_UNSHIELDED);
	check_limit(table, with, 0, WR_SUSPEND_NONE);
	check_limit(table, with, 1, WR_SUSPEND_CHANGED);
	check_limit(table, with, with->first_domain->more->first_child->limits[0].limit.checked,
		    WR_SUSPEND_NONE);
	check_limit(table, NULL, 1, WR_SUSPEND_NONE);
	/* Bans and statistics have a cut name of a long one. */
	check(table, with,
	      wr_stats_name_of(WR_STR("api/" LONG_KEY "=a/1h"), (char[WR_STAT_NAME_MAX + 1]){0})
		      .ptr,
	      WR_BAN_AUTOMATIC, WR_SUSPEND_UNSHIELDED);
	/* The bans of operators need no `ban` in the rule. */
	check(table, without, "api/ip/1h", 0, WR_SUSPEND_NONE);
	check(table, with, "api/plain=a/1h", 0, WR_SUSPEND_NONE);
	check(table, with, "api/trial=a/1h", 0, WR_SUSPEND_SHADOW);
	check(table, with, "api/trial=a/1h", WR_BAN_BARE, WR_SUSPEND_NONE);
	weir_rules_free(with);
	weir_rules_free(without);
	drop_table(table);
}

/* A rule that is not in the rules has been removed if its domain is in the rules. Another service on
 * the table may have other domains. */
static void test_removed_rule(void **state)
{
	struct weir_table *table = open_table();
	struct weir_rules *rules = rules_with("name: a");

	(void)state;
	check(table, rules, "api/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE); /* unknown name */
	know(table, "api/user/1h");
	know(table, "api2/user/1h");
	check(table, rules, "api/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_REMOVED);
	check(table, rules, "api/user/1h", 0, WR_SUSPEND_NONE);
	check(table, rules, "api2/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	check(table, NULL, "api/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	weir_rules_free(rules);
	drop_table(table);
}

/* In statistics, the name of a domain has escapes. */
static void test_removed_rule_of_a_domain_with_a_slash(void **state)
{
	struct weir_table *table = open_table();
	struct weir_rules *rules = rules_of("api/v2", "name: a");

	(void)state;
	know(table, "api%2Fv2/user/1h");
	know(table, "api/v2/1h");
	check(table, rules, "api%2Fv2/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_REMOVED);
	check(table, rules, "api/v2/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	weir_rules_free(rules);
	drop_table(table);
}

/* A resize does not copy the statistics. The rule's name then comes from the text of the key. */
static void test_removed_rule_of_a_text(void **state)
{
	struct weir_table *table = open_table();
	struct weir_rules *rules = rules_with("ban: {after: 3, within: 1h, for: 1h, shield: true}");
	struct wr_table_text_note note;

	(void)state;
	check(table, rules, "api/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE); /* no text */
	wr_note_text(&note, "api/user/1h", 11, "key", 3, NOW_S);
	wr_note_write(table, (struct wr_key){7}, &note, NOW_S);
	check(table, rules, "api/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_REMOVED);
	check(table, rules, "api/user/1h", 0, WR_SUSPEND_NONE);
	check(table, NULL, "api/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	wr_note_text(&note, "api2/user/1h", 12, "key", 3, NOW_S);
	wr_note_write(table, (struct wr_key){7}, &note, NOW_S);
	check(table, rules, "api2/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	/* A rule in the rules is found by its hash, whatever the text says. */
	check(table, rules, "api/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	weir_rules_free(rules);
	drop_table(table);
}

static void test_pauses(void **state)
{
	struct weir_table *table = open_table();
	struct weir_rules *rules = rules_with("ban: {after: 3, within: 1h, for: 1h, shield: true}");
	struct wr_table_text_note note;
	uint64_t before = wr_pause_stamp(table), one;

	(void)state;
	know(table, "web/ip/1h");
	assert_true(wr_pause_add(table, hash_of("api/ip")));
	one = wr_pause_stamp(table);
	assert_true(one != before);
	check(table, rules, "api/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_PAUSED);
	check(table, rules, "api/ip/1h", 0, WR_SUSPEND_PAUSED);
	check(table, rules, "web/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	/* The names come from the statistics, or from the text of the key. */
	assert_true(wr_pause_add(table, hash_of("web")));
	check(table, NULL, "web/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_PAUSED);
	check(table, NULL, "web/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	wr_note_text(&note, "web/user/1h", 11, "key", 3, NOW_S);
	wr_note_write(table, (struct wr_key){7}, &note, NOW_S);
	check(table, NULL, "web/user/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_PAUSED);
	/* The stamp sees also that one of two pauses has ended. */
	assert_true(wr_pause_stamp(table) != one);
	assert_true(wr_pause_drop(table, hash_of("web")));
	check(table, NULL, "web/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_NONE);
	/* A plan may have read the rules between a pause and its end. */
	one = wr_pause_stamp(table);
	assert_true(wr_pause_all(table, true));
	assert_true(wr_pause_all(table, false));
	assert_true(wr_pause_stamp(table) != one);
	one = wr_pause_stamp(table);
	assert_true(wr_pause_add(table, hash_of("web")));
	assert_true(wr_pause_drop(table, hash_of("web")));
	assert_true(wr_pause_stamp(table) != one);
	assert_true(wr_pause_all(table, true));
	check(table, NULL, "web/ip/1h", WR_BAN_AUTOMATIC, WR_SUSPEND_PAUSED);
	check(table, NULL, "unknown", 0, WR_SUSPEND_PAUSED);
	check(table, NULL, "unknown", WR_BAN_BARE, WR_SUSPEND_NONE);
	weir_rules_free(rules);
	drop_table(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state_of_a_rule),
		cmocka_unit_test(test_removed_rule),
		cmocka_unit_test(test_removed_rule_of_a_domain_with_a_slash),
		cmocka_unit_test(test_removed_rule_of_a_text),
		cmocka_unit_test(test_pauses),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
