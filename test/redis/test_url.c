/* Redis URLs. */
// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "base/str.h"
#include "redis/url.h"

static struct wr_redis_target target;
static struct weir_error error;
static char text[WR_REDIS_TEXT];

static void read_url(const char *url)
{
	if (wr_redis_target_parse(wr_str(url), &target, &error) < 0)
		fail_msg("%s: %s", url, error.text);
	wr_redis_target_text(&target, text);
}

static void test_single(void **state)
{
	(void)state;
	read_url("redis://cache.example");
	assert_int_equal(target.kind, WR_REDIS_SINGLE);
	assert_int_equal(target.at.count, 1);
	assert_string_equal(target.at.items[0].host, "cache.example");
	assert_int_equal(target.at.items[0].port, 6379);
	assert_false(target.tls);
	assert_int_equal(target.db, 0);
	assert_string_equal(target.login.password, "");
	assert_string_equal(text, "redis://cache.example:6379");
	read_url("rediss://10.1.2.3:7000/12");
	assert_true(target.tls);
	assert_int_equal(target.at.items[0].port, 7000);
	assert_int_equal(target.db, 12);
	assert_string_equal(text, "rediss://10.1.2.3:7000/12");
	read_url("redis://[::1]");
	assert_int_equal(target.at.items[0].kind, WR_ENDPOINT_V6);
	assert_string_equal(text, "redis://[::1]:6379");
	read_url("redis://[::1]:6390/?db=3");
	assert_int_equal(target.at.items[0].port, 6390);
	assert_int_equal(target.db, 3);
}

static void test_login(void **state)
{
	(void)state;
	read_url("redis://ann:pa%40ss%2Fw%25rd@h");
	assert_string_equal(target.login.user, "ann");
	assert_string_equal(target.login.password, "pa@ss/w%rd");
	assert_string_equal(text, "redis://h:6379");
	read_url("redis://:only@h/2");
	assert_string_equal(target.login.user, "");
	assert_string_equal(target.login.password, "only");
	assert_int_equal(target.db, 2);
	read_url("redis://ann:p@ss/w:rd@h"); /* as users paste them */
	assert_string_equal(target.login.password, "p@ss/w:rd");
	assert_string_equal(target.at.items[0].host, "h");
}

static void test_password(void **state)
{
	char longest[600];

	(void)state;
	read_url("redis://ann:old@h");
	assert_int_equal(wr_redis_target_password(&target, WR_STR("new one\r\n\n"), NULL), 0);
	assert_string_equal(target.login.password, "new one");
	assert_string_equal(target.login.user, "ann");
	assert_int_equal(wr_redis_target_password(&target, WR_STR("\n"), &error), WEIR_EINVAL);
	memset(longest, 'x', sizeof longest);
	assert_int_equal(wr_redis_target_password(&target, (struct weir_str){longest, 512}, NULL),
			 0);
	assert_int_equal(wr_redis_target_password(&target, (struct weir_str){longest, 513}, &error),
			 WEIR_EINVAL);
	assert_int_equal(wr_redis_target_password(&target, WR_STR("a\0b"), &error), WEIR_EINVAL);
}

static void test_unix(void **state)
{
	(void)state;
	read_url("redis+unix:///run/redis/redis.sock");
	assert_int_equal(target.at.items[0].kind, WR_ENDPOINT_UNIX);
	assert_string_equal(target.at.items[0].host, "/run/redis/redis.sock");
	assert_string_equal(text, "redis+unix:///run/redis/redis.sock");
	read_url("redis+unix://ann:pw@/tmp/r.sock?db=4");
	assert_string_equal(target.login.user, "ann");
	assert_string_equal(target.at.items[0].host, "/tmp/r.sock");
	assert_string_equal(text, "redis+unix:///tmp/r.sock?db=4");
}

static void test_sentinel(void **state)
{
	(void)state;
	read_url("redis+sentinel://u:p@s1,s2:26380,[fe80::1]/my%20master/5"
		 "?sentinel_user=su&sentinel_password=s%26p");
	assert_int_equal(target.kind, WR_REDIS_SENTINEL);
	assert_int_equal(target.at.count, 3);
	assert_int_equal(target.at.items[0].port, 26379);
	assert_int_equal(target.at.items[1].port, 26380);
	assert_string_equal(target.at.items[2].host, "fe80::1");
	assert_string_equal(target.master, "my master");
	assert_int_equal(target.db, 5);
	assert_string_equal(target.login.password, "p");
	assert_string_equal(target.sentinel.user, "su");
	assert_string_equal(target.sentinel.password, "s&p");
	assert_string_equal(text, "redis+sentinel://s1:26379,s2:26380,[fe80::1]:26379/my master/5");
	read_url("rediss+sentinel://s1/m");
	assert_true(target.tls);
}

static void test_cluster(void **state)
{
	(void)state;
	read_url("redis+cluster://:pw@a,b:7001");
	assert_int_equal(target.kind, WR_REDIS_CLUSTER);
	assert_int_equal(target.at.count, 2);
	assert_int_equal(target.at.items[0].port, 6379);
	read_url("rediss+cluster://a:7000/0");
	assert_true(target.tls);
	assert_string_equal(text, "rediss+cluster://a:7000");
}

/* Errors are reported without any part that might be a password. */
static void test_invalid_urls(void **state)
{
	static const struct {
		const char *url, *expected;
	} wrong[] = {
		{"", "must begin with"},
		{"h:6379", "must begin with"},
		{"http://h", "must begin with"},
		{"redis:/h", "must begin with"},
		{"redis://", "needs HOST"},
		{"redis://:SECRET@", "needs HOST"},
		{"redis://h:0", "needs HOST"},
		{"redis://h:65536", "needs HOST"},
		{"redis://*:6379", "needs HOST"},
		{"redis://6379", "needs HOST"},
		{"redis://a,b", "several hosts"},
		{"redis://a,", "needs HOST"},
		{"redis://h/x", "database number"},
		{"redis://h/70000", "database number"},
		{"redis://ann:SECRET%4@h", "two hexadecimal digits"},
		{"redis://ann:SECRET%00@h", "two hexadecimal digits"},
		{"redis://:SECRET@h?color=red", "unknown option"},
		{"redis://h?sentinel_password=SECRET", "unknown option"},
		{"redis://h?db=SECRET", "db= that is not a number"},
		{"redis+cluster://h/1", "a cluster has only 0"},
		{"redis+sentinel://h", "name of the master"},
		{"redis+sentinel://h/", "name of the master"},
		{"redis+unix://relative", "absolute path"},
		{"redis+unix://", "absolute path"},
		{"redis+cluster://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16 hosts"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		memset(&error, 0, sizeof error);
		if (wr_redis_target_parse(wr_str(wrong[i].url), &target, &error) == 0)
			fail_msg("'%s' was taken", wrong[i].url);
		if (!strstr(error.text, wrong[i].expected))
			fail_msg("%s: %s", wrong[i].url, error.text);
		assert_null(strstr(error.text, "SECRET"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_single),       cmocka_unit_test(test_login),
		cmocka_unit_test(test_password),     cmocka_unit_test(test_unix),
		cmocka_unit_test(test_sentinel),     cmocka_unit_test(test_cluster),
		cmocka_unit_test(test_invalid_urls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
