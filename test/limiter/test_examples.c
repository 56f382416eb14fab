/* The rule files in examples/rules, decided by the engine, with their numbers. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

static void open_example(struct rig *rig, const char *name, const char *domain)
{
	char path[512];

	snprintf(path, sizeof path, TEST_EXAMPLES "/%s", name);
	rig_open_with(rig, rig_load(path), domain, 0);
}

static void messages_and_logins(void **state)
{
	struct rig rig;

	open_example(&rig, "10-messaging.yaml", "messaging");
	assert_int_equal(rig_admitted(&rig, "message_type=marketing", 8), 5);
	rig.now_ns += DAY_NS - 1;
	assert_int_equal(rig_ask(&rig, "message_type=marketing"), WEIR_REFUSE);
	assert_int_equal(rig_admitted(&rig, "message_type=receipt", 100), 100);
	rig.now_ns += 1;
	assert_int_equal(rig_admitted(&rig, "message_type=marketing", 8), 5);
	rig_close(&rig);

	open_example(&rig, "11-login.yaml", "auth");
	assert_int_equal(rig_admitted(&rig, "auth_type=login", 9), 5);
	rig.now_ns += MINUTE_NS;
	assert_int_equal(rig_admitted(&rig, "auth_type=login", 9), 5);
	rig_close(&rig);
	(void)state;
}

static int crowd(struct rig *rig, const char *line, const char *headers, const char *peer,
		 int count)
{
	int admitted = 0;

	while (count--)
		admitted += rig_http(rig, line, headers, peer) == WEIR_ADMIT;
	return admitted;
}

static void posts_accounts_rewards(void **state)
{
	struct rig rig;

	open_example(&rig, "12-users-addresses-devices.yaml", "social");
	assert_int_equal(crowd(&rig, "POST /v1/posts", "X-User-Id: 7", "192.0.2.1", 5), 2);
	assert_int_equal(crowd(&rig, "POST /v1/posts", "x-user-id: 8", "192.0.2.1", 5), 2);
	/* A user name that looks like an address has its own counter. */
	assert_int_equal(crowd(&rig, "POST /v1/posts", "x-user-id: 192.0.2.9", "192.0.2.1", 5), 2);
	assert_int_equal(crowd(&rig, "POST /v1/posts", NULL, "192.0.2.9", 5), 2);
	rig.now_ns += SECOND_NS / 2;
	assert_int_equal(crowd(&rig, "POST /v1/posts", "X-User-Id: 7", "192.0.2.1", 5), 1);
	/* 600 per minute from one address, for any user name. */
	rig.now_ns += MINUTE_NS * 2;
	int admitted = 0;
	for (int user = 0; user < 700; user++) {
		char header[40];

		snprintf(header, sizeof header, "x-user-id: forged-%d", user);
		admitted += crowd(&rig, "POST /v1/posts", header, "192.0.2.77", 1);
	}
	assert_int_equal(admitted, 600);

	assert_int_equal(crowd(&rig, "POST /v1/accounts", NULL, "192.0.2.1", 15), 10);
	assert_int_equal(crowd(&rig, "POST /v1/accounts", NULL, "::ffff:192.0.2.1", 5), 0);
	assert_int_equal(crowd(&rig, "POST /v1/rewards/a", "X-Device-Id: d", "192.0.2.1", 9), 5);
	rig.now_ns += 6 * DAY_NS;
	assert_int_equal(crowd(&rig, "POST /v1/rewards/b", "X-Device-Id: d", "192.0.2.1", 9), 5);
	assert_int_equal(rig_http(&rig, "POST /v1/rewards/a", NULL, "192.0.2.1"), WEIR_REFUSE);
	assert_int_equal(rig_result(&rig).http_status, 403);
	assert_int_equal(rig_stat(&rig, "missing").refused, 1);
	rig_close(&rig);
	(void)state;
}

static void periods(void **state)
{
	struct rig rig;

	open_example(&rig, "13-periods.yaml", "timeline");
	assert_int_equal(rig_admitted(&rig, "do=post|user=a", 400), 300);
	rig.now_ns += 3 * HOUR_NS - 1;
	assert_int_equal(rig_admitted(&rig, "do=post|user=a", 1), 0);
	rig.now_ns += 1;
	assert_int_equal(rig_admitted(&rig, "do=post|user=a", 400), 300);
	assert_int_equal(rig_admitted(&rig, "do=read|user=a", 400), 300);
	assert_int_equal(rig_admitted(&rig, "do=read|user=b", 400), 300);
	rig_close(&rig);
	(void)state;
}

static void three_buckets(void **state)
{
	struct rig rig;

	open_example(&rig, "14-three-buckets.yaml", "network");
	assert_int_equal(rig_admitted(&rig, "action=post|user=a", 3), 1);
	assert_int_equal(rig_admitted(&rig, "action=friend|user=a", 200), 150);
	assert_int_equal(rig_admitted(&rig, "action=like|user=a", 9), 5);
	assert_int_equal(rig_admitted(&rig, "action=post|user=b", 3), 1);
	rig_close(&rig);
	(void)state;
}

static void one_for_all(void **state)
{
	struct rig rig;
	int admitted = 0;

	open_example(&rig, "15-one-bucket-for-all.yaml", "system");
	for (int i = 0; i < 10500; i++) {
		char peer[32];

		snprintf(peer, sizeof peer, "198.51.%d.%d", i / 250, i % 250);
		admitted += crowd(&rig, "GET /anything", NULL, peer, 1);
	}
	assert_int_equal(admitted, 10000);
	rig_close(&rig);
	(void)state;
}

static void firewall(void **state)
{
	struct rig rig;
	struct weir_str type;
	char body[256];
	int len;

	open_example(&rig, "16-firewall.yaml", "firewall");
	assert_int_equal(crowd(&rig, "GET /", NULL, "192.0.2.1", 1100), 1000);
	assert_int_equal(rig_result(&rig).http_status, 403);
	len = weir_ask_body(rig.ask, WEIR_BODY_PROBLEM, body, sizeof body, &type);
	assert_int_equal(len, strlen("Blocked for a while.\n"));
	assert_memory_equal(body, "Blocked for a while.\n", (size_t)len);
	assert_int_equal(type.len, strlen("text/plain"));
	assert_int_equal(crowd(&rig, "GET /", NULL, "192.0.2.2", 3), 3);
	/* The rule in shadow mode counted each admitted request and refused none. */
	assert_int_equal(rig_stat(&rig, "firewall/address/5m").admitted, 1003);
	assert_int_equal(rig_stat(&rig, "firewall/address/5m").refused, 100);
	assert_int_equal(rig_stat(&rig, "firewall/address_counted/5m").admitted, 1003);
	assert_int_equal(rig_stat(&rig, "firewall/address_counted/5m").shadowed, 0);
	/* Without the other limit, it reports the requests that it would have refused. */
	rig.now_ns += HOUR_NS;
	assert_int_equal(rig_admitted(&rig, "address_counted=192.0.2.3", 1100), 1100);
	assert_int_equal(rig_stat(&rig, "firewall/address_counted/5m").shadowed, 100);
	rig_close(&rig);
	(void)state;
}

static void allow_list(void **state)
{
	struct rig rig;

	open_example(&rig, "17-allow-list.yaml", "edge");
	assert_int_equal(crowd(&rig, "GET /", NULL, "10.1.2.3", 500), 500);
	assert_int_equal(crowd(&rig, "GET /", NULL, "fd00::1", 500), 500);
	assert_int_equal(crowd(&rig, "GET /", NULL, "11.0.0.1", 500), 40);
	assert_int_equal(rig_stat(&rig, "allowed").admitted, 1000);
	rig_close(&rig);
	(void)state;
}

/* November 2026 ends in Seoul nine hours before UTC. */
static void calendar_month(void **state)
{
	const uint64_t december_in_seoul = 1796050800ull * SECOND_NS; /* 2026-11-30 15:00 UTC */
	struct rig rig;

	open_example(&rig, "17-paid-api.yaml", "vendors");
	assert_int_equal(rig_admitted(&rig, "vendor=maps", 10100), 10000);
	assert_int_equal(rig_status(&rig, 0).reset_s, (december_in_seoul - NOW_NS) / SECOND_NS);
	assert_int_equal(rig_result(&rig).retry_after_ns, december_in_seoul - NOW_NS);
	rig.now_ns = december_in_seoul - 1;
	assert_int_equal(rig_ask(&rig, "vendor=maps"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).reset_s, 1);
	rig.now_ns = december_in_seoul;
	assert_int_equal(rig_admitted(&rig, "vendor=maps", 10100), 10000);
	rig_close(&rig);
	(void)state;
}

static void reserve(void **state)
{
	struct rig rig;

	open_example(&rig, "17-reserve.yaml", "shop");
	assert_int_equal(crowd(&rig, "GET /v1/search", NULL, "192.0.2.1", 9000), 8000);
	/* The thousand refused requests took nothing from the shared limit. */
	assert_int_equal(crowd(&rig, "GET /v1/orders", NULL, "192.0.2.1", 3000), 2000);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_and_logins),
		cmocka_unit_test(posts_accounts_rewards),
		cmocka_unit_test(periods),
		cmocka_unit_test(three_buckets),
		cmocka_unit_test(one_for_all),
		cmocka_unit_test(firewall),
		cmocka_unit_test(allow_list),
		cmocka_unit_test(calendar_month),
		cmocka_unit_test(reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
