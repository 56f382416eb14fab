/* The example rule files load without a warning, match the rules that they describe, and admit the
 * stated number of requests (ACCEPTANCE 10–17). */
#include "helper.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/calendar.h"
#include "rules/http.h"
#include "rules/key.h"
#include "rules/requests.h"

#define HOUR_NS 3600000000000ull
#define NOW_NS (1794787200ull * 1000000000) /* 2026-11-16 00:00 UTC, a Monday */

static struct weir_rules *load(const char *name)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;
	char path[512];

	snprintf(path, sizeof path, TEST_EXAMPLES "/%s", name);
	assert_int_equal(weir_rules_load(path, &rules, &errors), 0);
	assert_int_equal(errors.warnings, 0);
	weir_errors_free(&errors);
	return rules;
}

/* Returns how many of `crowd` requests at the same time are admitted. */
static uint32_t admitted(const struct wr_rules_limit *l, uint32_t crowd)
{
	struct weir_limit limit = l->limit;
	struct weir_state state = {0};
	struct weir_decision decision;
	uint64_t *stamps = calloc(limit.ceiling + 1, sizeof *stamps);
	struct weir_log log = {.capacity = limit.ceiling + 1, .stamps = stamps};
	uint32_t count = 0;

	if (l->calendar)
		wr_calendar_window(l->zone, l->calendar, NOW_NS, &limit.window_start_ns,
				   &limit.window_end_ns);
	while (crowd--) {
		int rc = limit.algorithm == WEIR_SLIDING_LOG
				 ? weir_log_step(&limit, &log, NULL, 1, NOW_NS, &decision)
				 : weir_step(&limit, &state, NULL, 1, NOW_NS, &decision);

		assert_int_equal(rc, 0);
		count += decision.admitted;
	}
	free(stamps);
	return count;
}

static const struct {
	const char *file;
	const char *domain;
	const char *descriptor;
	const char *path; /* path of the rule */
	uint64_t period_ns;
	uint32_t admitted; /* number admitted of 20,000 requests at the same time */
} by_descriptor[] = {
	{"10-messaging.yaml", "messaging", "message_type=marketing",
	 "messaging/message_type=marketing", 24 * HOUR_NS, 5},
	{"10-messaging.yaml", "messaging", "message_type=receipt", "none", 0, 0},
	{"11-login.yaml", "auth", "auth_type=login", "auth/auth_type=login", HOUR_NS / 60, 5},
	{"12-users-addresses-devices.yaml", "social", "post=7", "social/post", HOUR_NS / 3600, 2},
	{"12-users-addresses-devices.yaml", "social", "signup=192.0.2.1", "social/signup",
	 24 * HOUR_NS, 10},
	{"12-users-addresses-devices.yaml", "social", "claim=phone", "social/claim", 168 * HOUR_NS,
	 5},
	{"13-periods.yaml", "timeline", "do=post|user=alice", "timeline/do=post/user", 3 * HOUR_NS,
	 300},
	{"13-periods.yaml", "timeline", "do=read|user=alice", "timeline/do=read/user", HOUR_NS / 60,
	 300},
	{"14-three-buckets.yaml", "network", "action=post|user=a", "network/action=post/user",
	 24 * HOUR_NS, 1},
	{"14-three-buckets.yaml", "network", "action=friend|user=a", "network/action=friend/user",
	 24 * HOUR_NS, 150},
	{"14-three-buckets.yaml", "network", "action=like|user=a", "network/action=like/user",
	 24 * HOUR_NS, 5},
	{"15-one-bucket-for-all.yaml", "system", "everyone=together", "system/everyone=together",
	 HOUR_NS / 3600, 10000},
	{"16-firewall.yaml", "firewall", "address=192.0.2.1", "firewall/address", HOUR_NS / 12,
	 1000},
	{"16-firewall.yaml", "firewall", "address_counted=192.0.2.1", "firewall/address_counted",
	 HOUR_NS / 12, 1000},
	{"17-allow-list.yaml", "edge", "address=192.0.2.1", "edge/address", HOUR_NS / 3600, 40},
	{"17-paid-api.yaml", "vendors", "vendor=maps", "vendors/vendor=maps", 720 * HOUR_NS, 10000},
	{"17-reserve.yaml", "shop", "pool=all", "shop/pool=all", HOUR_NS / 3600, 10000},
	{"17-reserve.yaml", "shop", "pool=less_important", "shop/pool=less_important",
	 HOUR_NS / 3600, 8000},
	{"18-failed-logins.yaml", "accounts", "login_from=192.0.2.7", "accounts/login_from",
	 HOUR_NS / 4, 5},
	{"18-reports.yaml", "reports", "reader=alice", "reports/reader", 0, 0},
	{"18-tokens.yaml", "llm", "tenant=acme", "llm/tenant", 0, 0},
	{"24-orders.yaml", "till", "customer=7", "till/customer", HOUR_NS / 3600, 2},
	{"24-orders.yaml", "till", "orders=all", "till/orders=all", HOUR_NS / 3600, 10},
	{"25-ban-offenders.yaml", "public", "address=192.0.2.7", "public/address", HOUR_NS / 60,
	 100},
};

static void examples_admit_as_many_as_they_say(void **state)
{
	for (size_t i = 0; i < sizeof by_descriptor / sizeof *by_descriptor; i++) {
		struct weir_rules *rules = load(by_descriptor[i].file);
		struct wr_match match =
			test_match(rules, by_descriptor[i].domain, by_descriptor[i].descriptor);

		assert_string_equal(test_path(&match), by_descriptor[i].path);
		if (by_descriptor[i].period_ns) {
			assert_int_equal(match.limit_count, 1);
			assert_int_equal(match.limits[0].limit.period_ns,
					 by_descriptor[i].period_ns);
			assert_int_equal(admitted(&match.limits[0], 20000),
					 by_descriptor[i].admitted);
		}
		weir_rules_free(rules);
	}
	(void)state;
}

static const struct {
	const char *file;
	const char *method, *target, *header, *from;
	const char *made; /* descriptors of the request, as "key=value|…; …" */
} by_request[] = {
	{"12-users-addresses-devices.yaml", "POST", "/v1/posts", "7", "192.0.2.1",
	 "post=7; post_address=192.0.2.1"},
	{"12-users-addresses-devices.yaml", "POST", "/v1/posts", "", "192.0.2.1",
	 "post=192.0.2.1; post_address=192.0.2.1"},
	{"12-users-addresses-devices.yaml", "POST", "/v1/accounts", "", "2001:db8::1:2",
	 "signup=2001:db8::/64"},
	{"12-users-addresses-devices.yaml", "POST", "/v1/rewards/9", "", "192.0.2.1", "deny"},
	{"12-users-addresses-devices.yaml", "GET", "/v1/posts", "7", "192.0.2.1", ""},
	{"13-periods.yaml", "POST", "/v1/posts", "", "192.0.2.1", "do=post|user=alice"},
	{"13-periods.yaml", "HEAD", "/v1/posts/5", "", "192.0.2.1", "do=read|user=alice"},
	{"15-one-bucket-for-all.yaml", "DELETE", "/any/thing", "", "192.0.2.1",
	 "everyone=together"},
	{"16-firewall.yaml", "GET", "/", "", "192.0.2.1",
	 "address=192.0.2.1; address_counted=192.0.2.1"},
	{"17-allow-list.yaml", "GET", "/", "", "10.255.0.1", "allow"},
	{"17-allow-list.yaml", "GET", "/", "", "11.0.0.1", "address=11.0.0.1"},
	{"17-reserve.yaml", "GET", "/v1/search", "", "192.0.2.1", "pool=all; pool=less_important"},
	{"17-reserve.yaml", "GET", "/v1/orders", "", "192.0.2.1", "pool=all"},
	{"18-failed-logins.yaml", "POST", "/login", "", "2001:db8::1:2",
	 "login_from=2001:db8::/64"},
	{"18-reports.yaml", "GET", "/reports/42", "", "192.0.2.1", "reader=alice"},
	{"18-tokens.yaml", "POST", "/v1/chat/completions", "", "192.0.2.1", "tenant=alice"},
	{"24-orders.yaml", "POST", "/orders", "", "192.0.2.1", "customer=192.0.2.1; orders=all"},
	{"24-orders.yaml", "GET", "/orders", "", "192.0.2.1", ""},
	{"25-ban-offenders.yaml", "GET", "/v1/search", "", "2001:db8::1:2",
	 "address=2001:db8::/64"},
};

static void describe(const struct wr_rules_http *http, char text[512])
{
	size_t len = 0;

	snprintf(text, 512, "%s", http->allowed ? "allow" : http->denied ? "deny" : "");
	for (uint32_t i = 0; i < http->count && !http->denied; i++)
		for (uint32_t j = 0; j < http->descriptors[i].count; j++) {
			const struct weir_entry *e = &http->descriptors[i].entries[j];

			len += (size_t)snprintf(text + len, 512 - len, "%s%.*s=%.*s",
						j   ? "|"
						: i ? "; "
						    : "",
						(int)e->key.len, e->key.ptr, (int)e->value.len,
						e->value.ptr);
		}
}

static void requests_make_descriptors(void **state)
{
	for (size_t i = 0; i < sizeof by_request / sizeof *by_request; i++) {
		struct weir_rules *rules = load(by_request[i].file);
		struct weir_header header = {WR_STR("X-User-Id"), wr_str(by_request[i].header)};
		struct weir_http_view view = {.size = sizeof view,
					      .method = wr_str(by_request[i].method),
					      .target = wr_str(by_request[i].target),
					      .host = WR_STR("api.example.com"),
					      .identity = WR_STR("alice"),
					      .headers = &header,
					      .header_count = 1};
		char memory[WR_HTTP_MEMORY], made[512];
		struct wr_rules_http http;

		view.peer_len = inet_pton(AF_INET, by_request[i].from, view.peer) == 1 ? 4 : 16;
		if (view.peer_len == 16)
			assert_int_equal(inet_pton(AF_INET6, by_request[i].from, view.peer), 1);
		assert_int_equal(wr_rules_http_read(rules->first_domain, &view, memory,
						    sizeof memory, &http),
				 0);
		describe(&http, made);
		assert_string_equal(made, by_request[i].made);
		weir_rules_free(rules);
	}
	(void)state;
}

/* 14: three counters for one user; another user has other counters. */
static void spending_one_leaves_the_others_alone(void **state)
{
	static const char *const descriptors[] = {"action=post|user=a", "action=friend|user=a",
						  "action=like|user=a", "action=post|user=b"};
	struct weir_rules *rules = load("14-three-buckets.yaml");
	char keys[4][128] = {{0}};

	for (int i = 0; i < 4; i++) {
		struct weir_entry entries[TEST_ENTRIES_MAX];
		struct wr_match match = test_match(rules, "network", descriptors[i]);

		wr_rules_key_write(rules->first_domain, match.node, entries,
				   test_entries(descriptors[i], entries), keys[i], sizeof keys[i]);
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(keys[i], keys[j], sizeof keys[i]);
	}
	weir_rules_free(rules);
	(void)state;
}

/* 16: the same numbers, but never a refusal. */
static void shadow_rules_never_refuse(void **state)
{
	struct weir_rules *rules = load("16-firewall.yaml");
	struct wr_match blocks = test_match(rules, "firewall", "address=1");
	struct wr_match counts = test_match(rules, "firewall", "address_counted=1");

	assert_false(blocks.node->flags & WR_SHADOW);
	assert_true(counts.node->flags & WR_SHADOW);
	assert_int_equal(blocks.limits[0].response->status, 403);
	weir_rules_free(rules);
	(void)state;
}

/* 17: November in Seoul, which begins at 15:00 UTC the day before. */
static void months_of_seoul(void **state)
{
	struct weir_rules *rules = load("17-paid-api.yaml");
	struct wr_match match = test_match(rules, "vendors", "vendor=maps");
	uint64_t start, end;

	wr_calendar_window(match.limits[0].zone, match.limits[0].calendar, NOW_NS, &start, &end);
	assert_int_equal(start, 1793458800ull * 1000000000); /* 2026-10-31 15:00 UTC */
	assert_int_equal(end, 1796050800ull * 1000000000);   /* 2026-11-30 15:00 UTC */
	assert_int_equal(match.limits[0].on_store_failure, WR_FAIL_DENY);
	weir_rules_free(rules);
	(void)state;
}

/* 18: tokens are reserved and settled, only failures count, and two reports are made at a time. */
static void costs_and_slots(void **state)
{
	struct weir_rules *rules = load("18-tokens.yaml");
	const struct wr_rules_request *request = rules->first_domain->more->requests->first;
	const struct wr_rules_limit *limits = test_match(rules, "llm", "tenant=acme").limits;

	assert_int_equal(request->cost->arrival.otherwise, 2000);
	assert_true(request->cost->settles && request->cost->actual.defaults_to_reserved);
	assert_string_equal(request->cost->actual.name.ptr, "/usage/total_tokens");
	assert_int_equal(limits[0].limit.max_debt, 20000);
	assert_int_equal(limits[1].limit.algorithm, WEIR_CONCURRENT);
	assert_int_equal(limits[1].limit.limit, 20);
	weir_rules_free(rules);

	rules = load("18-failed-logins.yaml");
	request = rules->first_domain->more->requests->first;
	assert_true(wr_rules_counts_status(request->count, 401));
	assert_true(wr_rules_counts_status(request->count, 403));
	assert_false(wr_rules_counts_status(request->count, 200));
	weir_rules_free(rules);

	rules = load("18-reports.yaml");
	limits = test_match(rules, "reports", "reader=alice").limits;
	assert_int_equal(limits[0].limit.limit, 2);
	assert_int_equal(limits[0].limit.period_ns, HOUR_NS / 6);
	weir_rules_free(rules);
	(void)state;
}

/* 25: the 50th refusal within a minute is the first that the log of refusals does not admit. */
static void offenders_are_banned(void **state)
{
	struct weir_rules *rules = load("25-ban-offenders.yaml");
	const struct wr_rules_limit *limit =
		test_match(rules, "public", "address=192.0.2.7").limits;
	struct wr_rules_limit refusals = {.limit = limit->ban->refusals};

	assert_int_equal(admitted(&refusals, 1000), 49);
	assert_int_equal(limit->ban->for_ns, HOUR_NS / 6);
	assert_int_equal(limit->ban->max_ns, 24 * HOUR_NS);
	assert_true(limit->ban->shield);
	assert_int_equal(limit->ban->address_depth, 1);
	assert_int_equal(limit->candidates[0].ban->after, 20);
	weir_rules_free(rules);
	(void)state;
}

/* Every file is loaded by a test above, and all files together form one valid set of rules. */
static void all_are_used(void **state)
{
	struct dirent **entries;
	int count = scandir(TEST_EXAMPLES, &entries, NULL, alphasort);
	struct weir_rules *rules = load("");

	assert_int_equal(rules->file_count, count - 2);
	assert_int_equal(rules->domain_count, count - 2);
	for (int i = 0; i < count; i++) {
		bool used = entries[i]->d_name[0] == '.';

		for (size_t j = 0; j < sizeof by_descriptor / sizeof *by_descriptor; j++)
			used |= strcmp(by_descriptor[j].file, entries[i]->d_name) == 0;
		if (!used)
			fail_msg("%s is not used", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	weir_rules_free(rules);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_admit_as_many_as_they_say),
		cmocka_unit_test(requests_make_descriptors),
		cmocka_unit_test(spending_one_leaves_the_others_alone),
		cmocka_unit_test(shadow_rules_never_refuse),
		cmocka_unit_test(months_of_seoul),
		cmocka_unit_test(costs_and_slots),
		cmocka_unit_test(offenders_are_banned),
		cmocka_unit_test(all_are_used),
	};

	return cmocka_run_group_tests_name("rules_examples", tests, NULL, NULL);
}
