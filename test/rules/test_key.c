/* The bytes of keys, which identify counters. */
#include "helper.h"

#include <string.h>

#include "base/str.h"
#include "rules/key.h"

static const char yaml[] =
	"domain: d\n"
	"descriptors:\n"
	"  - key: k\n"
	"    rate_limits:\n"
	"      - {unit: minute, requests_per_unit: 1}\n"
	"      - {unit: minute, requests_per_unit: 1, algorithm: token_bucket}\n"
	"      - {calendar: month, timezone: Asia/Seoul, requests_per_unit: 1}\n"
	"      - {calendar: month, requests_per_unit: 1}\n"
	"      - {unit: hour, requests_per_unit: 1, name: a}\n"
	"      - {period: 60m, requests_per_unit: 2, name: b}\n"
	"  - key: k\n"
	"    value: foo*\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1}\n"
	"  - key: k\n"
	"    value: bar*\n"
	"    share_threshold: true\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1}\n"
	"    descriptors:\n"
	"      - key: in\n"
	"        rate_limit: {unit: minute, requests_per_unit: 1}\n"
	"  - key: ip\n"
	"    cidr: [10.0.0.0/8]\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1}\n"
	"  - key: pool\n"
	"    cidr: [10.0.0.0/9, 10.128.0.0/9]\n"
	"    share_threshold: true\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1, candidates: [{unit: minute, "
	"requests_per_unit: 9}]}\n"
	"  - key: any*\n"
	"    share_threshold: true\n"
	"    rate_limit: {unit: minute, requests_per_unit: 1}\n";

struct key {
	char bytes[512];
	size_t len;
};

static struct key key_of(const struct weir_rules *rules, const char *descriptor, bool override)
{
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	struct weir_entry entries[TEST_ENTRIES_MAX];
	size_t count = test_entries(descriptor, entries);
	struct wr_match match;
	struct key key = {{0}, 0};

	wr_rules_match(rules, domain, entries, count, &match);
	key.len = wr_rules_key_write(domain, override ? NULL : match.node, entries, count,
				     key.bytes, sizeof key.bytes);
	assert_true(key.len <= sizeof key.bytes);
	return key;
}

static bool same(const struct weir_rules *rules, const char *a, const char *b)
{
	struct key x = key_of(rules, a, false), y = key_of(rules, b, false);

	return x.len == y.len && memcmp(x.bytes, y.bytes, x.len) == 0;
}

static void is_length_prefixed(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	struct key key = key_of(rules, "k=v1", false);
	static const char expected[] = "\1\0\0\0d"
				       "\1\0\0\0k"
				       "v"
				       "\2\0\0\0v1";

	assert_int_equal(key.len, sizeof expected - 1);
	assert_memory_equal(key.bytes, expected, key.len);
	weir_rules_free(rules);
	(void)state;
}

/* ENVOY.md §3.8 */
static void counts_per_runtime_value_unless_shared(void **state)
{
	struct weir_rules *rules = test_rules(yaml);

	assert_false(same(rules, "k=1", "k=2"));
	assert_false(same(rules, "k=foo1", "k=foo2"));
	assert_true(same(rules, "k=bar1", "k=bar2"));
	assert_true(same(rules, "k=bar1|in=x", "k=bar2|in=x"));
	assert_false(same(rules, "k=bar1|in=x", "k=bar1|in=y"));
	assert_true(same(rules, "pool=10.1.1.1", "pool=10.200.0.1"));
	assert_true(same(rules, "any1=x", "any2=y"));
	weir_rules_free(rules);
	(void)state;
}

static void never_mixes_clients_up(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	struct key shared = key_of(rules, "k=bar1", false), text = key_of(rules, "k=bar*", true);

	assert_false(same(rules, "k=a|b=c", "k=a_b|c="));
	assert_true(same(rules, "ip=10.0.0.1", "ip=::ffff:10.0.0.1"));
	assert_false(same(rules, "ip=10.0.0.1", "ip=10.0.0.2"));
	/* A client sends the pattern itself as a value. */
	assert_false(shared.len == text.len && memcmp(shared.bytes, text.bytes, text.len) == 0);
	weir_rules_free(rules);
	(void)state;
}

static void source_is_part_of_the_key(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	struct weir_entry user = {WR_STR("k"), WR_STR("10.0.0.1"), WR_STR("header.x-user-id")};
	struct weir_entry address = {WR_STR("k"), WR_STR("10.0.0.1"), WR_STR("remote_address")};
	struct weir_entry plain = {WR_STR("k"), WR_STR("10.0.0.1"), WR_STR("")};
	char a[256], b[256], c[256];
	size_t a_len = wr_rules_key_write(domain, NULL, &user, 1, a, sizeof a);
	size_t b_len = wr_rules_key_write(domain, NULL, &address, 1, b, sizeof b);
	size_t c_len = wr_rules_key_write(domain, NULL, &plain, 1, c, sizeof c);

	assert_false(a_len == b_len && memcmp(a, b, a_len) == 0);
	assert_false(b_len == c_len && memcmp(b, c, b_len) == 0);
	/* If the buffer is too small, the function reports it and writes no byte behind the
	 * buffer. */
	memset(b, 'x', sizeof b);
	assert_int_equal(wr_rules_key_write(domain, NULL, &user, 1, b, 7), a_len);
	assert_memory_equal(a, b, 7);
	assert_int_equal(b[7], 'x');
	weir_rules_free(rules);
	(void)state;
}

static void add(void *context, const void *bytes, size_t len)
{
	struct key *key = context;

	memcpy(key->bytes + key->len, bytes, len);
	key->len += len;
}

/* wr_rules_key_write() and wr_rules_key_feed() give the same bytes, with a buffer of any size. */
static void written_as_fed(void **state)
{
	static const char *const descriptors[] = {"k=v1", "k=bar1", "k=bar2;in=x", "ip=10.0.0.1",
						  "pool=10.200.0.1"};
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));

	for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
		struct weir_entry entries[TEST_ENTRIES_MAX];
		size_t count = test_entries(descriptors[i], entries);
		struct key fed = {{0}, 0};
		struct wr_match match;

		wr_rules_match(rules, domain, entries, count, &match);
		assert_non_null(match.node);
		entries[0].source = WR_STR("header.x");
		wr_rules_key_feed(domain, match.node, entries, count, add, &fed);
		for (size_t cap = 0; cap <= fed.len + 4; cap++) {
			char written[512];

			memset(written, 'x', sizeof written);
			assert_int_equal(wr_rules_key_write(domain, match.node, entries, count,
							    written, cap),
					 fed.len);
			assert_memory_equal(written, fed.bytes, cap < fed.len ? cap : fed.len);
			assert_int_equal(written[cap], 'x');
		}
	}
	weir_rules_free(rules);
	(void)state;
}

static void limits_have_ids_without_size(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	struct wr_match m = test_match(rules, "d", "k=1");
	static const char *const ids[] = {
		"fixed_window/1m",        "token_bucket/1m",   "fixed_window/month@Asia/Seoul",
		"fixed_window/month@UTC", "fixed_window/1h#a", "fixed_window/1h#b"};
	static const char *const stats[] = {"d/k/fixed_window/1m",   "d/k/token_bucket/1m",
					    "d/k/month@Asia/Seoul",  "d/k/month@UTC",
					    "d/k/fixed_window/1h#a", "d/k/fixed_window/1h#b"};

	assert_int_equal(m.limit_count, 6);
	for (int i = 0; i < 6; i++) {
		assert_string_equal(m.limits[i].id.ptr, ids[i]);
		assert_string_equal(m.limits[i].stat.ptr, stats[i]);
		for (int j = 0; j < i; j++)
			assert_true(m.limits[i].limit.checked != m.limits[j].limit.checked);
	}
	m = test_match(rules, "d", "pool=10.0.0.1");
	assert_string_equal(m.limits[0].stat.ptr, "d/pool==10.0.0.0-10.255.255.255/1m");
	assert_string_equal(m.limits[0].candidates[0].id.ptr, "?fixed_window/1m");
	assert_true(m.limits[0].limit.checked != m.limits[0].candidates[0].limit.checked);
	weir_rules_free(rules);
	(void)state;
}

/* The counter stays the same if a limit is raised, moved in the file or given a name. */
static void edits_keep_counters(void **state)
{
	struct weir_rules *before =
		test_rules("domain: d\ndescriptors:\n"
			   "  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n");
	struct weir_rules *after =
		test_rules("domain: d\ndescriptors:\n"
			   "  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n"
			   "  - {key: k, rate_limits: [{unit: day, requests_per_unit: 70},\n"
			   "     {period: 60s, requests_per_unit: 9, name: new}]}\n");
	struct wr_match x = test_match(before, "d", "k=1"), y = test_match(after, "d", "k=1");
	struct weir_limit override;

	assert_int_equal(x.limits[0].limit.checked, y.limits[1].limit.checked);
	assert_string_equal(x.limits[0].id.ptr, y.limits[1].id.ptr);
	assert_int_equal(wr_rules_request_limit(500, WR_MINUTE, &override, NULL), 0);
	assert_int_equal(override.checked, x.limits[0].limit.checked);
	weir_rules_free(before);
	weir_rules_free(after);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_length_prefixed),
		cmocka_unit_test(counts_per_runtime_value_unless_shared),
		cmocka_unit_test(never_mixes_clients_up),
		cmocka_unit_test(source_is_part_of_the_key),
		cmocka_unit_test(written_as_fed),
		cmocka_unit_test(limits_have_ids_without_size),
		cmocka_unit_test(edits_keep_counters),
	};

	return cmocka_run_group_tests_name("rules_key", tests, NULL, NULL);
}
