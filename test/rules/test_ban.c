/* What the reader makes of `ban`: the limit of refusals, the defaults, and the entry that is the
 * client's address. The fixtures ban_….yaml test which bans are refused. */
#include "helper.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "rules/limit_text.h"
#include "rules/load.h"

#define SECOND_NS 1000000000ull
#define DAY_NS (86400 * SECOND_NS)

/* Loads a rule on the descriptor entry `ip`, which is the address, with this `rate_limit`. */
static struct weir_rules *load_limit(const char *limit)
{
	char yaml[1024];

	snprintf(yaml, sizeof yaml,
		 "domain: d\n"
		 "requests: [{descriptor: [{key: ip, from: remote_address}]}]\n"
		 "descriptors: [{key: ip, rate_limit: {%s}}]\n",
		 limit);
	return test_rules(yaml);
}

static const struct wr_rules_limit *limit_of(const struct weir_rules *rules)
{
	return test_match(rules, "d", "ip=192.0.2.7").limits;
}

static void all_settings_are_read(void **state)
{
	struct weir_rules *rules = load_limit(
		"unit: minute, requests_per_unit: 100, "
		"ban: {after: 50, within: 2m, for: 10m, grow: 3, max: 12h, shield: true}");
	const struct wr_rules_ban *ban = limit_of(rules)->ban;

	assert_int_equal(ban->after, 50);
	assert_int_equal(ban->within_ns, 120 * SECOND_NS);
	assert_int_equal(ban->for_ns, 600 * SECOND_NS);
	assert_int_equal(ban->grow, 3);
	assert_int_equal(ban->max_ns, DAY_NS / 2);
	assert_true(ban->shield);
	assert_int_equal(ban->address_depth, 1);
	assert_int_equal(ban->line, 3);
	weir_rules_free(rules);
	(void)state;
}

static void the_rest_has_defaults(void **state)
{
	struct weir_rules *rules =
		load_limit("unit: day, requests_per_unit: 5, ban: {after: 2, for: 1h}");
	const struct wr_rules_ban *ban = limit_of(rules)->ban;

	assert_int_equal(ban->within_ns, 60 * SECOND_NS);
	assert_int_equal(ban->grow, 2);
	assert_int_equal(ban->max_ns, DAY_NS);
	assert_false(ban->shield);
	weir_rules_free(rules);

	/* A first ban that is longer than the default of `max` raises this default. */
	rules = load_limit("unit: day, requests_per_unit: 5, ban: {after: 2, for: 3d}");
	assert_int_equal(limit_of(rules)->ban->max_ns, 3 * DAY_NS);
	weir_rules_free(rules);

	rules = load_limit("unit: day, requests_per_unit: 5");
	assert_null(limit_of(rules)->ban);
	weir_rules_free(rules);
	(void)state;
}

/* The limit of refusals is checked, admits one refusal less than `after`, and has a counter of its
 * own. */
static void refusals_have_a_limit(void **state)
{
	struct weir_rules *rules = load_limit("unit: day, requests_per_unit: 5, algorithm: "
					      "sliding_window_log, ban: {after: 50, within: 1d, "
					      "for: 1h}");
	const struct wr_rules_limit *limit = limit_of(rules);
	const struct weir_limit *refusals = &limit->ban->refusals;

	assert_int_equal(refusals->algorithm, WEIR_SLIDING_LOG);
	assert_int_equal(refusals->limit, 49);
	assert_int_equal(refusals->capacity, 49);
	assert_int_equal(refusals->period_ns, DAY_NS);
	assert_int_not_equal(refusals->checked, 0);
	assert_int_not_equal(refusals->checked, limit->limit.checked);
	assert_int_equal(rules->log_count, 2);
	weir_rules_free(rules);

	rules = load_limit("unit: day, requests_per_unit: 5, ban: {after: 1, for: 1h}");
	assert_int_equal(limit_of(rules)->ban->refusals.limit, 0);
	assert_int_equal(limit_of(rules)->ban->refusals.checked, 0);
	assert_int_equal(rules->log_count, 0);
	weir_rules_free(rules);
	(void)state;
}

/* Two limits of one descriptor and their candidates have four logs of refusals. */
static void each_limit_has_its_own_refusals(void **state)
{
	struct weir_rules *rules = test_rules(
		"domain: d\n"
		"descriptors:\n"
		"  - key: remote_address\n"
		"    rate_limits:\n"
		"      - {unit: day, requests_per_unit: 5, ban: {after: 9, for: 1h}, candidates: "
		"[{unit: day, requests_per_unit: 3, ban: {after: 9, for: 1h}}]}\n"
		"      - {unit: hour, requests_per_unit: 5, ban: {after: 9, for: 1h}, candidates: "
		"[{unit: hour, requests_per_unit: 3, ban: {after: 9, for: 1h}}]}\n");
	const struct wr_rules_limit *l = test_match(rules, "d", "remote_address=192.0.2.7").limits;
	const struct wr_rules_limit *all[] = {&l[0], &l[1], &l[0].candidates[0],
					      &l[1].candidates[0]};

	for (int i = 0; i < 4; i++) {
		assert_int_equal(all[i]->ban->address_depth, 1);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(all[i]->ban->refusals.checked,
					     all[j]->ban->refusals.checked);
	}
	assert_int_equal(rules->log_count, 4);
	weir_rules_free(rules);
	(void)state;
}

/* A reload that changes `ban` keeps the counts of requests, and of refusals unless `within`
 * changes. */
static void settings_do_not_identify_counters(void **state)
{
	static const struct {
		const char *ban;
		bool same_refusals;
	} cases[] = {
		{"after: 50, within: 1m, for: 10m", true},
		{"after: 60, within: 1m, for: 20m, grow: 9, max: 2d, shield: true", true},
		{"after: 50, within: 2m, for: 10m", false},
	};
	uint64_t requests = 0, refusals = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char limit[256];
		struct weir_rules *rules;
		const struct wr_rules_limit *l;

		snprintf(limit, sizeof limit, "unit: day, requests_per_unit: %zu, ban: {%s}", 5 + i,
			 cases[i].ban);
		rules = load_limit(limit);
		l = limit_of(rules);
		if (i == 0) {
			requests = l->limit.checked;
			refusals = l->ban->refusals.checked;
		}
		assert_int_equal(l->limit.checked, requests);
		assert_string_equal(l->id.ptr, "fixed_window/1d");
		assert_int_equal(l->ban->refusals.checked == refusals, cases[i].same_refusals);
		weir_rules_free(rules);
	}
	(void)state;
}

static const struct {
	const char *requests;
	const char *descriptors; /* the place of the limit is written as LIMIT */
	const char *match;
	int depth;
} places[] = {
	/* the whole address is preferred to a prefix */
	{"[{descriptor: [{key: net, from: masked_remote_address}, {key: ip, from: "
	 "remote_address}]}]",
	 "[{key: net, descriptors: [{key: ip, LIMIT}]}]", "net=192.0.2.7/32|ip=192.0.2.7", 2},
	{"[{descriptor: [{key: net, from: masked_remote_address}, {key: user, from: "
	 "header.x-user}]}]",
	 "[{key: net, descriptors: [{key: user, LIMIT}]}]", "net=192.0.2.7|user=7", 1},
	/* an entry that may be an address or an identity is no address */
	{"[{descriptor: [{key: user, from: [identity, remote_address]}]}]", "[{key: user, LIMIT}]",
	 "user=7", 0},
	/* two entries of `requests:` have the address in different places */
	{"[{descriptor: [{key: a, from: remote_address}, {key: b, from: identity}]}, {descriptor: "
	 "[{key: a, from: identity}, {key: b, from: remote_address}]}]",
	 "[{key: a, descriptors: [{key: b, LIMIT}]}]", "a=1|b=2", 0},
	{"[{descriptor: [{key: a, from: remote_address}, {key: b, from: identity}]}, {descriptor: "
	 "[{key: a, from: remote_address}, {key: b, value: x}]}]",
	 "[{key: a, descriptors: [{key: b, LIMIT}]}]", "a=1|b=2", 1},
	/* a fixed value of `requests:` does not reach a rule if another rule has priority */
	{"[{descriptor: [{key: a, value: x1}]}, {descriptor: [{key: a, from: remote_address}]}]",
	 "[{key: a, value: x1, rate_limit: {unit: day, requests_per_unit: 1}}, {key: a, LIMIT}]",
	 "a=1", 1},
	{"[{descriptor: [{key: a, value: x1}]}, {descriptor: [{key: a, from: remote_address}]}]",
	 "[{key: a, value: x*, rate_limit: {unit: day, requests_per_unit: 1}}, {key: a, LIMIT}]",
	 "a=1", 1},
	{"[{descriptor: [{key: a, value: x1}]}, {descriptor: [{key: a, from: remote_address}]}]",
	 "[{key: a, LIMIT}, {key: a, value: x*, rate_limit: {unit: day, requests_per_unit: 1}}]",
	 "a=1", 1},
	/* a longer descriptor does not reach the rule */
	{"[{descriptor: [{key: a, from: remote_address}]}, {descriptor: [{key: a, from: header.x}, "
	 "{key: b, value: c}]}]",
	 "[{key: a, LIMIT}]", "a=1", 1},
	/* descriptors of Envoy */
	{"[]", "[{key: remote_address, cidr: 0.0.0.0/0, LIMIT}]", "remote_address=192.0.2.7", 1},
	{"[]", "[{key: generic_key, descriptors: [{key: masked_remote_address, LIMIT}]}]",
	 "generic_key=x|masked_remote_address=10.0.0.0/8", 2},
	{"[]", "[{key: api_key, LIMIT}]", "api_key=x", 0},
	{"[]", "[{key: masked_remote_address, descriptors: [{key: remote_address, LIMIT}]}]",
	 "masked_remote_address=10.0.0.0/8|remote_address=10.1.2.3", 2},
};

/* Loads the rules of places[i] with this limit, and returns the limit. */
static const struct wr_rules_limit *load_place(size_t i, const char *limit,
					       struct weir_rules **rules)
{
	const char *at = strstr(places[i].descriptors, "LIMIT");
	struct wr_match match;
	char yaml[2048];

	snprintf(yaml, sizeof yaml, "domain: d\nrequests: %s\ndescriptors: %.*s%s%s\n",
		 places[i].requests, (int)(at - places[i].descriptors), places[i].descriptors,
		 limit, at + strlen("LIMIT"));
	*rules = test_rules(yaml);
	match = test_match(*rules, "d", places[i].match);
	assert_int_equal(match.limit_count, 1);
	return match.limits;
}

static void the_address_is_found(void **state)
{
	static const char with_ban[] = "rate_limit: {unit: minute, requests_per_unit: 5, ban: "
				       "{after: 5, for: 1m}}";
	static const char without_ban[] = "rate_limit: {unit: minute, requests_per_unit: 5}";

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		const struct wr_rules_limit *limit;
		struct weir_rules *rules;

		limit = load_place(i, with_ban, &rules);
		assert_int_equal(limit->ban->address_depth, places[i].depth);
		assert_int_equal(limit->node->more->address_depth, places[i].depth);
		weir_rules_free(rules);
		limit = load_place(i, without_ban, &rules);
		assert_int_equal(limit->node->more->address_depth, places[i].depth);
		weir_rules_free(rules);
	}
	(void)state;
}

/* With a bound of 8 steps, which becomes 256, three entries of `requests:` and 100 limits are too many.
 * The address of the last limit is then not known, which is no error. */
static void the_search_is_bounded(void **state)
{
	static const char start[] =
		"domain: d\n"
		"requests:\n"
		"- descriptor: [{key: a, value: x}, {key: b, value: y}]\n"
		"- descriptor: [{key: first, from: remote_address}]\n"
		"- descriptor: [{key: last, from: remote_address}]\n"
		"descriptors:\n"
		"- {key: first, rate_limit: {unit: day, requests_per_unit: 1}}\n";
	static const char end[] = "- {key: last, rate_limit: {unit: day, requests_per_unit: 1}}\n";
	struct wr_bounds bounds = wr_default_bounds;
	struct weir_rules *rules;
	char path[64];
	int fd = memfd_create("rules", 0);

	assert_true(fd >= 0);
	dprintf(fd, "%s", start);
	for (unsigned i = 0; i < 100; i++)
		dprintf(fd, "- {key: k%u, rate_limit: {unit: day, requests_per_unit: 1}}\n", i);
	dprintf(fd, "%s", end);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (unsigned known = 0; known < 2; known++) {
		bounds.lint_steps = known ? 1000 : 8;
		assert_int_equal(wr_rules_load_within(path, &bounds, NULL, &rules, NULL), 0);
		assert_int_equal(
			test_match(rules, "d", "first=192.0.2.7").node->more->address_depth, 1);
		assert_int_equal(test_match(rules, "d", "last=192.0.2.7").node->more->address_depth,
				 known);
		weir_rules_free(rules);
	}
	close(fd);
	(void)state;
}

static void texts(void **state)
{
	static const struct {
		const char *ban, *text;
	} cases[] = {
		{"after: 50, for: 10m, shield: true",
		 "for 10m after 50 refusals within 1m, each further ban 2 times as long, up to 1d, "
		 "also by weir shield"},
		{"after: 1, for: 1m, grow: 1", "for 1m after the first refusal"},
		{"after: 2, within: 90s, for: 1h, max: 1h", "for 1h after 2 refusals within 90s"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char limit[256], text[160];
		struct weir_rules *rules;

		snprintf(limit, sizeof limit, "unit: day, requests_per_unit: 5, ban: {%s}",
			 cases[i].ban);
		rules = load_limit(limit);
		assert_int_equal(wr_rules_ban_text(limit_of(rules)->ban, text, sizeof text),
				 strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
		weir_rules_free(rules);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_settings_are_read),
		cmocka_unit_test(the_rest_has_defaults),
		cmocka_unit_test(refusals_have_a_limit),
		cmocka_unit_test(each_limit_has_its_own_refusals),
		cmocka_unit_test(settings_do_not_identify_counters),
		cmocka_unit_test(the_address_is_found),
		cmocka_unit_test(the_search_is_bounded),
		cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests_name("rules_ban", tests, NULL, NULL);
}
