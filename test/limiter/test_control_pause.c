/* Pauses of weir/control.h, the list of bans and grants, and changes that other engines see. */
#include "control_test.h"

/* --- pause --- */

static int pause_rule(struct rig *rig, const char *rule)
{
	return weir_control_pause(rig->engine, wr_str(rule), NULL);
}

static int resume_rule(struct rig *rig, const char *rule)
{
	return weir_control_resume(rig->engine, wr_str(rule), NULL);
}

static void a_paused_rule_counts_and_refuses_nothing(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	for (size_t i = 0; i < FOURS; i++) {
		char rule[32];

		snprintf(rule, sizeof rule, "d/%.*s", (int)(strlen(fours[i]) - 2), fours[i]);
		assert_int_equal(pause_rule(&rig, rule), 0);
		assert_int_equal(rig_admitted(&rig, fours[i], 6), 6);
		assert_int_equal(rig_result(&rig).verdict, WEIR_ADMIT);
		assert_int_equal(rig_status(&rig, 0).flags,
				 WEIR_STATUS_LIMITED | WEIR_STATUS_SHADOW |
					 WEIR_STATUS_WOULD_REFUSE | WEIR_STATUS_PAUSED);
		assert_int_equal(rig_status(&rig, 0).code, WEIR_STATUS_OK);
		assert_int_equal(get(&rig, fours[i]).flags, WEIR_COUNTER_PAUSED);
		assert_int_equal(get(&rig, fours[i]).remaining, 0);
		assert_int_equal(resume_rule(&rig, rule), 0);
		assert_int_equal(get(&rig, fours[i]).flags, 0);
		assert_int_equal(rig_ask(&rig, fours[i]), WEIR_REFUSE);
	}
	assert_int_equal(rig_stat(&rig, "d/fixed/1d").shadowed, 2);
	assert_int_equal(rig_stat(&rig, "d/fixed/1d").admitted, 4);
	assert_int_equal(rig_stat(&rig, "d/fixed/1d").refused, 1);
	rig_close(&rig);
	(void)state;
}

static void a_pause_applies_to_name_prefixes(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(rig_admitted(&rig, "nested=1|ip=1", 1), 1);
	assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_REFUSE);
	for (int i = 0; i < 5; i++) {
		static const char *const names[] = {"", "d", "d/nested", "d/nested/ip",
						    "d/nested/ip/1d"};

		assert_int_equal(pause_rule(&rig, names[i]), 0);
		assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_ADMIT);
		assert_int_equal(resume_rule(&rig, names[i]), 0);
		assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_REFUSE);
		assert_int_equal(resume_rule(&rig, names[i]), WEIR_ENOENT);
	}
	for (int i = 0; i < 4; i++) {
		static const char *const others[] = {"d/nest", "d/nested/i", "d/nested/", "e"};

		assert_int_equal(pause_rule(&rig, others[i]), 0);
		assert_int_equal(rig_ask(&rig, "nested=1|ip=1"), WEIR_REFUSE);
	}
	rig_close(&rig);
	(void)state;
}

static void other_rules_are_not_paused(void **state)
{
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(pause_rule(&rig, "d/two/1m"), 0);
	assert_int_equal(rig_admitted(&rig, "two=1", 9), 5);
	assert_int_equal(pause_rule(&rig, ""), 0);
	assert_int_equal(rig_ask(&rig, "two=1;log=1"), WEIR_ADMIT);
	ban(&rig, "log=1", WEIR_NEVER);
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_ADMIT);
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "fixed=1", 0, 4, 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(resume_rule(&rig, ""), 0);
	assert_int_equal(rig_ask(&rig, "log=1"), WEIR_REFUSE);
	assert_int_equal(rig_ask(&rig, "two=1"), WEIR_REFUSE);
	assert_int_equal(pause_rule(&rig, "d/override"), 0);
	rig_begin(&rig);
	assert_int_equal(rig_add_override(&rig, "fixed=1", 0, 4, 1), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	rig_close(&rig);
	(void)state;
}

static int join(void *context, struct weir_str rule)
{
	char *text = context;

	sprintf(text + strlen(text), "[%.*s]", (int)rule.len, rule.ptr);
	return 0;
}

static void paused_names_are_listed(void **state)
{
	char text[256] = "", unknown[64];
	struct rig rig;

	rig_open(&rig, rules, "d");
	assert_int_equal(pause_rule(&rig, "d/two"), 0);
	assert_int_equal(pause_rule(&rig, "d/two"), 0);
	assert_int_equal(pause_rule(&rig, "d/log/1d"), 0);
	assert_int_equal(pause_rule(&rig, ""), 0);
	assert_int_equal(weir_control_paused(rig.engine, join, text), 0);
	assert_string_equal(text, "[][d/two][d/log/1d]");
	assert_int_equal(resume_rule(&rig, ""), 0);
	assert_int_equal(resume_rule(&rig, "d/two"), 0);
	assert_int_equal(resume_rule(&rig, "d/log/1d"), 0);
	assert_int_equal(pause_rule(&rig, "not/yet"), 0);
	text[0] = '\0';
	assert_int_equal(weir_control_paused(rig.engine, join, text), 0);
	assert_int_equal(sscanf(text, "[%60[^]]", unknown), 1);
	assert_int_equal(unknown[0], '#');
	assert_int_equal(resume_rule(&rig, unknown), 0);
	text[0] = '\0';
	assert_int_equal(weir_control_paused(rig.engine, join, text), 0);
	assert_string_equal(text, "");
	rig_close(&rig);
	(void)state;
}

static void at_most_64_pauses(void **state)
{
	struct weir_error error;
	struct rig rig;
	char name[16];

	rig_open(&rig, rules, "d");
	for (int i = 0; i < WEIR_PAUSES_MAX; i++) {
		snprintf(name, sizeof name, "x/%d", i);
		assert_int_equal(pause_rule(&rig, name), 0);
	}
	assert_int_equal(weir_control_pause(rig.engine, WR_STR("d"), &error), WEIR_EMANY);
	assert_string_equal(error.text,
			    "64 names are paused already: resume one, or pause everything");
	assert_int_equal(pause_rule(&rig, "x/7"), 0);
	assert_int_equal(resume_rule(&rig, "x/9"), 0);
	assert_int_equal(pause_rule(&rig, "d"), 0);
	assert_int_equal(rig_admitted(&rig, "fixed=1", 9), 9);
	rig_close(&rig);
	(void)state;
}

/* --- bans and grants in force --- */

struct seen {
	char text[512];
	int count, stop_at;
};

static int list_one(void *context, const struct weir_override *override)
{
	struct seen *seen = context;

	sprintf(seen->text + strlen(seen->text), "[%.*s %.*s %llu +%u %llu]",
		(int) override->rule.len, override->rule.ptr, (int) override->key.len,
		override->key.ptr,
		(unsigned long long)(override->banned_until_ns
					     ? (override->banned_until_ns - NOW_NS) / SECOND_NS
					     : 0),
		override->granted,
		(unsigned long long)(override->granted_until_ns
					     ? (override->granted_until_ns - NOW_NS) / SECOND_NS
					     : 0));
	assert_int_equal(override->changed_ns, NOW_NS);
	return ++seen->count == seen->stop_at;
}

static void bans_and_grants_are_listed(void **state)
{
	struct seen seen = {.count = 0};
	struct rig rig;

	rig_open(&rig, rules, "d");
	ban(&rig, "nested=1|ip=10.0.0.1", NOW_NS + HOUR_NS);
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, list_one, &seen), 0);
	assert_string_equal(seen.text, "[d/nested/ip/1d d|nested=1|ip=10.0.0.1 3600 +0 0]");
	grant(&rig, "nested=1|ip=10.0.0.1", 5, NOW_NS + MINUTE_NS);
	seen = (struct seen){.count = 0};
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, list_one, &seen), 0);
	assert_string_equal(seen.text, "[d/nested/ip/1d d|nested=1|ip=10.0.0.1 3600 +5 60]");
	ban(&rig, "log=1", WEIR_NEVER);
	seen = (struct seen){.stop_at = 1};
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS, list_one, &seen), 1);
	ban(&rig, "log=1", 0);
	seen = (struct seen){.count = 0};
	assert_int_equal(weir_control_overrides(rig.engine, NOW_NS + HOUR_NS, list_one, &seen), 0);
	assert_int_equal(seen.count, 0);
	rig_close(&rig);
	(void)state;
}

/* --- the central store --- */

static void a_banned_key_asks_no_question(void **state)
{
	struct rig rig;
	char question[WEIR_QUESTION_MAX];

	rig_open_with(&rig, rig_rules(rules), "d", WEIR_ENGINE_CENTRAL);
	assert_int_equal(rig_ask(&rig, "fixed=1"), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, NOW_NS), WEIR_ADMIT);
	ban(&rig, "fixed=1", NOW_NS + MINUTE_NS);
	assert_int_equal(get(&rig, "fixed=1").flags, WEIR_COUNTER_CENTRAL);
	assert_int_equal(rig_ask(&rig, "fixed=1;log=1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).retry_after_ns, MINUTE_NS);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_BANNED);
	assert_int_equal(weir_ask_question(rig.ask, question, sizeof question), 0);
	ban(&rig, "shadow=1", NOW_NS + MINUTE_NS);
	assert_int_equal(rig_ask(&rig, "shadow=1"), WEIR_ADMIT);
	assert_int_equal(rig_ask(&rig, "shadow=1;log=1"), WEIR_WAIT);
	assert_int_equal(weir_ask_store_failed(rig.ask, NOW_NS), WEIR_ADMIT);
	rig_close(&rig);
	(void)state;
}

/* Changes apply to a second engine on the same table, which has its own rules. */
static void changes_apply_to_all_engines(void **state)
{
	struct rig one, other;

	rig_open(&one, rules, "d");
	other = (struct rig){.table = one.table, .domain = "d", .now_ns = NOW_NS};
	assert_int_equal(weir_engine_new(one.table, rig_rules(rules), NULL, &other.engine), 0);
	ban(&one, "fixed=1", WEIR_NEVER);
	assert_int_equal(rig_ask(&other, "fixed=1"), WEIR_REFUSE);
	assert_int_equal(pause_rule(&other, "d"), 0);
	assert_int_equal(rig_ask(&one, "fixed=1"), WEIR_ADMIT);
	weir_ask_done(other.ask);
	weir_engine_free(other.engine);
	rig_close(&one);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_paused_rule_counts_and_refuses_nothing),
		cmocka_unit_test(a_pause_applies_to_name_prefixes),
		cmocka_unit_test(other_rules_are_not_paused),
		cmocka_unit_test(paused_names_are_listed),
		cmocka_unit_test(at_most_64_pauses),
		cmocka_unit_test(bans_and_grants_are_listed),
		cmocka_unit_test(a_banned_key_asks_no_question),
		cmocka_unit_test(changes_apply_to_all_engines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
