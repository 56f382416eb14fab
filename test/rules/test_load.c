/* Loads files and directories, detects changes, and checks the summary of a rule set. */
#include "helper.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "rules/load.h"

static char root[64];

static int make_root(void **state)
{
	snprintf(root, sizeof root, "/tmp/weir-rules-XXXXXX");
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int remove_root(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *at(const char *name)
{
	static char paths[4][256];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", root, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(at(name), "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct weir_rules *load(const char *path)
{
	struct weir_rules *rules;

	assert_int_equal(weir_rules_load(path, &rules, NULL), 0);
	return rules;
}

static uint32_t limit_of(const struct weir_rules *rules, const char *descriptor)
{
	struct wr_match match = test_match(rules, "d", descriptor);

	return match.limit_count ? match.limits[0].limit.limit : 0;
}

#define LIMIT(n) "rate_limit: {unit: minute, requests_per_unit: " #n "}"

/* Wildcards in two files are matched in the order of the file names, not in the order in which the
 * files were written. */
static void files_in_name_order(void **state)
{
	struct weir_rules *rules;

	put("b.yaml", "domain: d\ndescriptors: [{key: k, value: ab*, " LIMIT(2) "}]\n");
	put("a.yml", "domain: d\ndescriptors: [{key: k, value: a*, " LIMIT(1) "}]\n");
	put("c.json", "{\"domain\": \"d\", \"descriptors\": [{\"key\": \"j\"}]}\n");
	put("z.yaml", "domain: other\ndescriptors: [{key: k, " LIMIT(9) "}]\n");
	put(".b.yaml.swp", "not: [rules\n");
	rules = load(root);
	assert_int_equal(limit_of(rules, "k=abc"), 1);
	assert_int_equal(test_match(rules, "d", "j=1").outcome, WR_WHITELISTED);
	assert_int_equal(rules->file_count, 4);
	assert_int_equal(rules->domain_count, 2);
	assert_int_equal(test_match(rules, "other", "k=1").limits[0].limit.limit, 9);
	weir_rules_free(rules);
	(void)state;
}

static void deep_merge(void **state)
{
	struct weir_rules *rules = load(TEST_FIXTURES "/fine_deep_merge");

	assert_int_equal(limit_of(rules, "k=v"), 7);
	assert_int_equal(limit_of(rules, "k=v|a=1"), 5);
	assert_int_equal(limit_of(rules, "k=v|b=1"), 6);
	assert_int_equal(limit_of(rules, "k=v|c=1"), 8);
	weir_rules_free(rules);
	(void)state;
}

static void merge_keys_of_yaml(void **state)
{
	struct weir_rules *rules = load(TEST_FIXTURES "/fine_merge_key.yaml");

	assert_int_equal(limit_of(rules, "a=1"), 5);
	assert_int_equal(limit_of(rules, "b=1"), 6);
	weir_rules_free(rules);
	rules = load(TEST_FIXTURES "/fine_nulls.yaml");
	assert_int_equal(test_match(rules, "d", "a=1").outcome, WR_WHITELISTED);
	assert_int_equal(limit_of(rules, "b=1"), 8); /* 010 is octal, as in envoyproxy/ratelimit */
	weir_rules_free(rules);
	(void)state;
}

/* Each kind of change is detected. Reading a file is not a change. */
static void notices_changes(void **state)
{
	const char *yaml = "domain: d\ndescriptors: [{key: k, " LIMIT(1) "}]\n";
	struct weir_rules *rules;
	uint64_t fingerprint;

	mkdir(at("..1"), 0755);
	mkdir(at("..2"), 0755);
	put("..1/a.yaml", yaml);
	put("..2/a.yaml", "domain: d\ndescriptors: [{key: k, " LIMIT(2) "}]\n");
	assert_int_equal(symlink("..1", at("..data")), 0);
	assert_int_equal(symlink("..data/a.yaml", at("a.yaml")), 0);
	rules = load(root);
	assert_int_equal(rules->file_count, 1);
	assert_int_equal(limit_of(rules, "k=1"), 1);
	assert_false(weir_rules_changed(rules));
	assert_int_equal(weir_rules_fingerprint(root), rules->fingerprint);

	/* Like Kubernetes, makes a new link and renames it over the old link. */
	assert_int_equal(symlink("..2", at("..tmp")), 0);
	assert_int_equal(rename(at("..tmp"), at("..data")), 0);
	assert_true(weir_rules_changed(rules));
	weir_rules_free(rules);
	rules = load(root);
	assert_int_equal(limit_of(rules, "k=1"), 2);
	assert_false(weir_rules_changed(rules));

	put("b.yaml", "domain: e\ndescriptors: [{key: k, " LIMIT(1) "}]\n");
	assert_true(weir_rules_changed(rules));
	weir_rules_free(rules);
	rules = load(at("b.yaml"));
	assert_false(weir_rules_changed(rules));
	put("b.yaml", "domain: e\ndescriptors: [{key: k, " LIMIT(10) "}]\n");
	assert_true(weir_rules_changed(rules));
	fingerprint = rules->fingerprint;
	unlink(at("b.yaml"));
	assert_true(weir_rules_changed(rules));
	assert_int_equal(weir_rules_fingerprint(at("b.yaml")), 0);
	assert_true(fingerprint != 0);
	weir_rules_free(rules);
	(void)state;
}

/* Links that form loops, and directory entries that are not regular files. */
static void odd_directories(void **state)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;

	put("a.yaml", "domain: d\ndescriptors: [{key: k, " LIMIT(1) "}]\n");
	assert_int_equal(symlink(".", at("loop")), 0);
	assert_int_equal(symlink("..", at("up")), 0);
	unlink(at("up"));
	assert_int_equal(mkfifo(at("pipe.yaml"), 0600), 0);
	assert_int_equal(weir_rules_load(root, &rules, &errors), WEIR_ERULES);
	assert_int_equal(errors.errors, 1);
	weir_errors_free(&errors);
	unlink(at("pipe.yaml"));
	rules = load(root);
	assert_int_equal(rules->file_count, 1);
	weir_rules_free(rules);
	(void)state;
}

static void info_describes_the_rules(void **state)
{
	struct weir_rules_info info = {.size = sizeof info};
	struct weir_domain_info domain = {.size = sizeof domain};
	struct weir_rules *rules = load(TEST_FIXTURES "/fine_all_keys.yaml");
	uint64_t hash;

	weir_rules_stamp(rules, 3, 1700000000000000000);
	assert_int_equal(weir_rules_info(rules, &info), 0);
	assert_int_equal(info.files, 1);
	assert_int_equal(info.domains, 1);
	assert_int_equal(info.descriptors, 6);
	assert_int_equal(info.limits, 7);
	assert_int_equal(info.logs, 1);
	assert_int_equal(info.requests, 3);
	assert_int_equal(info.generation, 3);
	assert_int_equal(info.loaded_ns, 1700000000000000000);
	assert_true(info.bytes > 1000 && info.bytes < 100000);
	hash = info.hash;
	assert_int_equal(weir_rules_domain(rules, 0, &domain), 0);
	assert_int_equal(domain.requests, 3);
	assert_memory_equal(domain.name.ptr, "d", domain.name.len);
	assert_int_equal(weir_rules_domain(rules, 1, &domain), WEIR_ENOENT);
	weir_rules_free(rules);
	rules = load(TEST_FIXTURES "/fine_all_keys.yaml");
	weir_rules_info(rules, &info);
	assert_int_equal(info.hash, hash);
	weir_rules_free(rules);
	info.size = 1;
	assert_int_equal(weir_rules_info(NULL, &info), WEIR_EINVAL);
	assert_int_equal(weir_rules_load(NULL, &rules, NULL), WEIR_EINVAL);
	(void)state;
}

/* Each setting has its effect on the compiled rules. */
static void every_key_has_its_effect(void **state)
{
	struct weir_rules *rules = load(TEST_FIXTURES "/fine_all_keys.yaml");
	struct wr_match m = test_match(rules, "d", "k=x|fixed=1");
	const struct wr_rules_limit *l = m.limits;

	assert_int_equal(m.limit_count, 5);
	assert_int_equal(l[4].limit.flags, WEIR_FULL_REFUSES);
	assert_int_equal(m.node->flags & (WR_SHADOW | WR_QUOTA | WR_VALUE_TO_METRIC),
			 WR_QUOTA | WR_VALUE_TO_METRIC);
	assert_string_equal(m.node->more->metadata.ptr, "{\"team\":\"a\"}");
	assert_int_equal(l[0].limit.algorithm, WEIR_TOKEN_BUCKET);
	assert_int_equal(l[0].limit.burst, 20);
	assert_int_equal(l[0].limit.capacity, 20);
	assert_int_equal(l[0].consistency, WR_LEASE);
	assert_int_equal(l[0].on_store_failure, WR_FAIL_DENY);
	assert_int_equal(l[0].on_limit, WR_DEFER);
	assert_int_equal(l[0].enforce_ppm, 100000);
	assert_int_equal(l[0].response->status, 503);
	assert_string_equal(l[0].response->content_type.ptr, "application/json");
	assert_string_equal(l[0].response->body.ptr, "{}");
	assert_int_equal(l[0].candidate_count, 1);
	assert_int_equal(l[0].candidates[0].limit.period_ns, 10000000000);
	assert_int_equal(l[0].candidates[0].consistency, WR_LOCAL);
	assert_int_equal(l[1].limit.period_ns, 3 * 3600 * 1000000000ull);
	assert_int_equal(l[1].limit.queue_size, 5);
	assert_int_equal(l[1].limit.max_wait_ns, 250000000);
	assert_int_equal(l[1].unit, 0);
	assert_int_equal(l[2].calendar, WR_CALENDAR_MONTH);
	assert_string_equal(l[2].zone->name.ptr, "Asia/Seoul");
	assert_int_equal(l[3].limit.soft_ceiling, 120);
	assert_int_equal(l[3].limit.soft_for_ns, 30000000000);
	assert_int_equal(l[3].limit.flags, WEIR_COUNT_REJECTED);
	assert_int_equal(l[3].mode, WR_SOFT);
	assert_int_equal(l[3].enforce_ppm, 1000000);
	weir_rules_free(rules);
	(void)state;
}

/* Nested aliases are counted, but not expanded: this file would have ten to the ninth values. */
static void a_yaml_bomb_is_refused_quickly(void **state)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;

	assert_int_equal(weir_rules_load(TEST_FIXTURES "/yaml_too_large.yaml", &rules, &errors),
			 WEIR_ERULES);
	assert_null(rules);
	assert_string_equal(errors.items[0].id, "yaml_too_large");
	weir_errors_free(&errors);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_in_name_order, make_root, remove_root),
		cmocka_unit_test(deep_merge),
		cmocka_unit_test(merge_keys_of_yaml),
		cmocka_unit_test_setup_teardown(notices_changes, make_root, remove_root),
		cmocka_unit_test_setup_teardown(odd_directories, make_root, remove_root),
		cmocka_unit_test(info_describes_the_rules),
		cmocka_unit_test(every_key_has_its_effect),
		cmocka_unit_test(a_yaml_bomb_is_refused_quickly),
	};

	return cmocka_run_group_tests_name("rules_load", tests, NULL, NULL);
}
