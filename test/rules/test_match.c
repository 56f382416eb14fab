/* Tests the sentences of ENVOY.md §3 about matching. Comments have the number of the sentence. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rules/key.h"

static const char yaml[] = "domain: d\n"
			   "descriptors:\n"
			   "  - key: k\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
			   "  - key: k\n"
			   "    value: exact\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 2}\n"
			   "    descriptors:\n"
			   "      - key: sub\n"
			   "        value: only\n"
			   "        rate_limit: {unit: minute, requests_per_unit: 3}\n"
			   "  - key: k\n"
			   "    value: fo*\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 4}\n"
			   "  - key: k\n"
			   "    value: foo*\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 5}\n"
			   "  - key: k\n"
			   "    value: '*mid*dle*'\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 6}\n"
			   "  - key: k\n"
			   "    value: white\n"
			   "  - key: pass\n"
			   "    descriptors:\n"
			   "      - key: inner\n"
			   "        rate_limit: {unit: minute, requests_per_unit: 7}\n"
			   "  - key: w\n"
			   "    value: 'a*'\n"
			   "    descriptors:\n"
			   "      - key: x\n"
			   "        rate_limit: {unit: minute, requests_per_unit: 8}\n"
			   "  - key: w\n"
			   "    descriptors:\n"
			   "      - key: y\n"
			   "        rate_limit: {unit: minute, requests_per_unit: 9}\n"
			   "  - key: e\n"
			   "    value: '*'\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 10}\n"
			   "  - key: glob*key\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 11}\n"
			   "  - key: other*\n"
			   "    value: seven\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 12}\n"
			   "  - key: free\n"
			   "    rate_limit: {unlimited: true, name: gratis}\n"
			   "  - key: n\n"
			   "    value: 123\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 13}\n"
			   "  - key: n\n"
			   "    value: true\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 14}\n"
			   "  - key: a\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 15}\n"
			   "  - key: a_b\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 16}\n"
			   "  - key: ip\n"
			   "    cidr: [10.0.0.0/8, 192.168.0.0/16, '2001:db8::/32']\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 17}\n"
			   "  - key: ip\n"
			   "    value: 10.*\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 18}\n"
			   "  - key: ip\n"
			   "    value: 10.9.9.9\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 19}\n"
			   "  - key: ip\n"
			   "    rate_limit: {unit: minute, requests_per_unit: 20}\n";

static const struct {
	const char *sentence;
	const char *descriptor;
	const char *path;
	enum wr_outcome outcome;
	uint32_t limit;
} cases[] = {
	{"3 left to right: order matters", "sub=only|k=exact", "none", WR_NO_RULE, 0},
	{"3a exact first", "k=exact", "d/k=exact", WR_LIMITED, 2},
	{"3b wildcards before the key alone", "k=fox", "d/k=fo*", WR_LIMITED, 4},
	{"3b first in file order, not the most specific", "k=fool", "d/k=fo*", WR_LIMITED, 4},
	{"3b * is zero or more", "k=fo", "d/k=fo*", WR_LIMITED, 4},
	{"3b * in any position, many", "k=a/mid/b/dle/c", "d/k=*mid*dle*", WR_LIMITED, 6},
	{"3b pieces in order", "k=dle mid", "d/k", WR_LIMITED, 1},
	{"3c the key alone", "k=zzz", "d/k", WR_LIMITED, 1},
	{"4 no way back to the key alone", "k=exact|sub=other", "none", WR_NO_RULE, 0},
	{"4 no way back to a sibling", "w=abc|y=1", "none", WR_NO_RULE, 0},
	{"4 the wildcard's own child", "w=abc|x=1", "d/w=a*/x", WR_LIMITED, 8},
	{"4 the key's own child", "w=zzz|y=1", "d/w/y", WR_LIMITED, 9},
	{"5 deeper request than rule", "k=zzz|more=1", "none", WR_NO_RULE, 0},
	{"5 limit of an inner level for those who end there", "k=exact", "d/k=exact", WR_LIMITED,
	 2},
	{"5 limit of the last level", "k=exact|sub=only", "d/k=exact/sub=only", WR_LIMITED, 3},
	{"5 shallower request than rule", "pass=1", "d/pass", WR_PASS_NODE, 0},
	{"6 no match", "unknown=1", "none", WR_NO_RULE, 0},
	{"6 no entries", "", "none", WR_NO_RULE, 0},
	{"7 empty value: the wildcard", "e=", "d/e=*", WR_LIMITED, 10},
	{"7 empty value: else the key", "k=", "d/k", WR_LIMITED, 1},
	{"9 whitelist marker shadows the key", "k=white", "d/k=white", WR_WHITELISTED, 0},
	{"9 and has nothing below", "k=white|sub=1", "none", WR_NO_RULE, 0},
	{"* in a key", "glob-my-key=5", "d/glob*key", WR_LIMITED, 11},
	{"* in a key with a value", "other1=seven", "d/other*=seven", WR_LIMITED, 12},
	{"* in a key with another value", "other1=eight", "none", WR_NO_RULE, 0},
	{"unlimited", "free=1", "d/free", WR_UNLIMITED, 0},
	{"numbers are their text", "n=123", "d/n=123", WR_LIMITED, 13},
	{"truth values are their text", "n=true", "d/n=true", WR_LIMITED, 14},
	{"never joined: (a, b) is not key a_b", "a=b", "d/a", WR_LIMITED, 15},
	{"never joined: (a_b, x) is not (a, b_x)", "a_b=x", "d/a_b", WR_LIMITED, 16},
	{"addresses in a list", "ip=10.1.2.3",
	 "d/ip==10.0.0.0-10.255.255.255,192.168.0.0-"
	 "192.168.255.255,2001:db8::-2001:db8:ffff:ffff:ffff:"
	 "ffff:ffff:ffff",
	 WR_LIMITED, 17},
	{"an IPv4 address written as IPv6", "ip=::ffff:192.168.1.1",
	 "d/ip==10.0.0.0-10.255.255.255,192.168.0.0-192.168.255.255,2001:db8::-2001:db8:ffff:ffff:"
	 "ffff:ffff:ffff:ffff",
	 WR_LIMITED, 17},
	{"lists and globs in file order, exact before both", "ip=10.9.9.9", "d/ip=10.9.9.9",
	 WR_LIMITED, 19},
	{"not an address: the glob", "ip=10.x", "d/ip=10.*", WR_LIMITED, 18},
	{"not in the list", "ip=11.0.0.1", "d/ip", WR_LIMITED, 20},
};

static void matches_as_envoyproxy_ratelimit_does(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	int wrong = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_match match = test_match(rules, "d", cases[i].descriptor);
		uint32_t limit = match.limit_count ? match.limits[0].limit.limit : 0;

		if (strcmp(test_path(&match), cases[i].path) == 0 &&
		    match.outcome == cases[i].outcome && limit == cases[i].limit)
			continue;
		print_message("%s: %s met %s, outcome %d, limit %u\n", cases[i].sentence,
			      cases[i].descriptor, test_path(&match), match.outcome, limit);
		wrong++;
	}
	assert_int_equal(wrong, 0);
	weir_rules_free(rules);
	(void)state;
}

/* 1: if the domain does not exist, no limit applies, not even a limit that is sent with the
 * request. */
static void unknown_domain_has_no_rules(void **state)
{
	struct weir_rules *rules = test_rules(yaml);

	assert_null(wr_rules_domain(rules, WR_STR("nobody")));
	assert_null(wr_rules_domain(rules, WR_STR("")));
	assert_null(wr_rules_domain(rules, WR_STR("k")));
	assert_non_null(wr_rules_domain(rules, WR_STR("d")));
	weir_rules_free(rules);
	(void)state;
}

/* 2, and unit 0, with which envoyproxy/ratelimit crashes. */
static void overrides_are_checked(void **state)
{
	struct weir_error error;
	struct weir_limit limit;

	assert_int_equal(wr_rules_request_limit(5, WR_HOUR, &limit, &error), 0);
	assert_int_equal(limit.algorithm, WEIR_FIXED_WINDOW);
	assert_int_equal(limit.limit, 5);
	assert_int_equal(limit.period_ns, 3600000000000);
	assert_int_equal(wr_rules_request_limit(0, WR_SECOND, &limit, &error), 0);
	assert_int_equal(limit.limit, 0);
	assert_int_equal(wr_rules_request_limit(5, WR_WEEK, &limit, &error), 0);
	assert_int_equal(wr_rules_request_limit(5, 0, &limit, &error), WEIR_ELIMIT);
	assert_int_equal(wr_rules_request_limit(5, 8, &limit, &error), WEIR_ELIMIT);
	assert_int_equal(wr_rules_request_limit(5, -1, &limit, NULL), WEIR_ELIMIT);
	(void)state;
}

/* 5: a descriptor with more entries than any rule can have. */
static void too_many_entries_match_nothing(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	struct weir_entry entries[TEST_ENTRIES_MAX];
	struct wr_match match;

	for (int i = 0; i < TEST_ENTRIES_MAX; i++)
		entries[i] = (struct weir_entry){WR_STR("k"), WR_STR("v"), WR_STR("")};
	wr_rules_match(rules, wr_rules_domain(rules, WR_STR("d")), entries, TEST_ENTRIES_MAX,
		       &match);
	assert_int_equal(match.outcome, WR_NO_RULE);
	weir_rules_free(rules);
	(void)state;
}

/* 11 */
static void replaced_by_name(void **state)
{
	struct weir_rules *rules = test_rules(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: small}}\n"
		"  - {key: b, rate_limit: {unit: day, requests_per_unit: 9, name: large, replaces: "
		"[{name: small}]}}\n"
		"  - {key: c, rate_limit: {unlimited: true, replaces: [{name: large}, {name: "
		"small}]}}\n"
		"  - {key: e, rate_limit: {unit: day, requests_per_unit: 9, name: x, replaces: "
		"[{name: y}]}}\n"
		"  - {key: f, rate_limit: {unit: day, requests_per_unit: 9, name: y, replaces: "
		"[{name: x}]}}\n");
	struct wr_match m[] = {test_match(rules, "d", "a=1"), test_match(rules, "d", "b=1"),
			       test_match(rules, "d", "c=1"), test_match(rules, "d", "e=1"),
			       test_match(rules, "d", "f=1")};

	assert_false(wr_rules_replaced(m, 1, m[0].limits[0].name));
	assert_true(wr_rules_replaced(m, 2, m[0].limits[0].name));
	assert_false(wr_rules_replaced(m, 2, m[1].limits[0].name));
	assert_true(wr_rules_replaced(m, 3, m[1].limits[0].name));
	assert_false(wr_rules_replaced(
		m, 5, m[2].limits[0].name)); /* a limit without a name cannot be replaced */
	assert_true(wr_rules_replaced(m + 3, 2, WR_STR("x"))); /* two limits replace each other */
	assert_true(wr_rules_replaced(m + 3, 2, WR_STR("y")));
	weir_rules_free(rules);
	(void)state;
}

/* 10: the flags that the limiter needs are in the match. */
static void flags_reach_the_match(void **state)
{
	struct weir_rules *rules = test_rules(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"
		"  - {key: q, quota_mode: yes, rate_limit: {unit: WEEK, requests_per_unit: "
		"1_000}}\n"
		"  - {key: m, detailed_metric: true, metadata: {a: 1, b: [x, null], c: \"1\"},\n"
		"     rate_limit: {unit: Month, requests_per_unit: 0x10}}\n");
	struct wr_match s = test_match(rules, "d", "s=1");
	struct wr_match q = test_match(rules, "d", "q=1");
	struct wr_match m = test_match(rules, "d", "m=1");

	assert_true(s.node->flags & WR_SHADOW);
	assert_true(q.node->flags & WR_QUOTA);
	assert_int_equal(q.limits[0].limit.limit, 1000);
	assert_int_equal(q.limits[0].unit, WR_WEEK);
	assert_true(m.node->flags & WR_DETAILED_METRIC);
	assert_int_equal(m.limits[0].limit.limit, 16);
	assert_int_equal(m.limits[0].limit.period_ns, 30ull * 86400 * 1000000000);
	assert_string_equal(m.node->more->metadata.ptr, "{\"a\":1,\"b\":[\"x\",null],\"c\":\"1\"}");
	weir_rules_free(rules);
	(void)state;
}

struct trail {
	char text[1024];
};

static void note(void *context, const struct wr_rules_step *step)
{
	static const char *const names[] = {"exact", "wild", "any", "passed", "empty"};
	struct trail *trail = context;
	size_t len = strlen(trail->text);

	snprintf(trail->text + len, sizeof trail->text - len, "%zu:%s%s%s%.*s ", step->level,
		 names[step->kind], step->matched ? "+" : "-", step->node ? ":" : "",
		 step->node ? (int)step->node->value.len : 0,
		 step->node ? step->node->value.ptr : "");
}

static void explains_the_same_walk(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_entry entries[TEST_ENTRIES_MAX];
		size_t count = test_entries(cases[i].descriptor, entries);
		struct wr_match plain, traced;
		struct trail trail = {""};
		struct wr_tracer tracer = {note, &trail};

		wr_rules_match(rules, domain, entries, count, &plain);
		wr_rules_explain(rules, domain, entries, count, &traced, &tracer);
		assert_ptr_equal(plain.node, traced.node);
		assert_int_equal(plain.outcome, traced.outcome);
		if (strcmp(cases[i].descriptor, "k=fool") == 0)
			assert_string_equal(trail.text,
					    "0:exact- 0:wild+:fo* 0:passed+:foo* 0:passed+: ");
		if (strcmp(cases[i].descriptor, "k=exact|sub=other") == 0)
			assert_string_equal(trail.text,
					    "0:exact+:exact 0:passed+: 1:exact- 1:any- ");
		if (strcmp(cases[i].descriptor, "k=white|sub=1") == 0)
			assert_string_equal(trail.text,
					    "0:exact+:white 0:passed+: 1:empty-:white ");
	}
	weir_rules_free(rules);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_as_envoyproxy_ratelimit_does),
		cmocka_unit_test(unknown_domain_has_no_rules),
		cmocka_unit_test(overrides_are_checked),
		cmocka_unit_test(too_many_entries_match_nothing),
		cmocka_unit_test(replaced_by_name),
		cmocka_unit_test(flags_reach_the_match),
		cmocka_unit_test(explains_the_same_walk),
	};

	return cmocka_run_group_tests_name("rules_match", tests, NULL, NULL);
}
