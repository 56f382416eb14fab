/* The first commands on a connection, and the settings that are read from INFO. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Makes a connected rig that sends only the replies that the test writes. */
static struct rig *begin_handshake(const char *url, bool chief)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	struct wr_central_opts opts = {.chief = chief, .secret = secret};
	struct rig *rig = rig_begin(url);

	rig_trouble(rig, 6379)->mute = true;
	rig_start(rig, &opts);
	return rig;
}

static void expect_command(struct peer *peer, const char *command)
{
	assert_string_equal(next_command(peer), command);
}

static void test_no_login(void **state)
{
	struct rig *rig = begin_handshake("redis://127.0.0.1", false);
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 1, 1);
	expect_command(peer, "CLIENT SETNAME weir");
	expect_command(peer, "PING");
	assert_null(next_command(peer)); /* no other command is sent before the reply */
	reply(peer, "-NOPERM no CLIENT for you\r\n");
	reply(peer, "+PONG\r\n");
	expect_command(peer, "TIME");
	assert_non_null(strstr(next_command(peer), "EVALSHA"));
	assert_string_equal(rig->logged, "");
	rig_free(rig);
}

static void test_login(void **state)
{
	struct rig *rig = begin_handshake("redis://ann:s3cret@127.0.0.1/7", false);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	expect_command(peer, "AUTH ann s3cret");
	expect_command(peer, "SELECT 7");
	expect_command(peer, "CLIENT SETNAME weir");
	expect_command(peer, "PING");
	for (int i = 0; i < 4; i++)
		reply(peer, "+OK\r\n");
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

static void test_no_user(void **state)
{
	struct rig *rig = begin_handshake("redis://:s3cret@127.0.0.1", false);

	(void)state;
	expect_command(peer_at(rig, 6379), "AUTH s3cret");
	rig_free(rig);
}

/* The server rejects the login, with the errors of versions 6 and 5. A new password is used at the
 * next attempt. */
static void test_wrong_password(void **state)
{
	static const char *const words[] = {
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
		"-ERR invalid password\r\n"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = begin_handshake("redis://:old@127.0.0.1", false);
		struct peer *peer = peer_at(rig, 6379);

		expect_command(peer, "AUTH old");
		reply(peer, words[i]);
		assert_null(peer->link);
		assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_DOWN);
		assert_int_equal(faults(rig, WR_FAULT_WRONGPASS), 1);
		assert_non_null(strstr(rig->logged, "check the user and password"));
		assert_null(strstr(rig->logged, "old"));
		assert_int_equal(wr_redis_target_password(&rig->target, WR_STR("new\n"), NULL), 0);
		pass_time(rig, 60 * MS);
		expect_command(peer_at(rig, 6379), "AUTH new");
		rig_free(rig);
	}
}

static void test_password_required(void **state)
{
	struct rig *rig = begin_handshake("redis://127.0.0.1", false);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	run_turn(rig);
	reply(peer, "-NOAUTH Authentication required.\r\n"); /* the reply to CLIENT SETNAME */
	assert_null(peer->link);
	assert_int_equal(faults(rig, WR_FAULT_NOAUTH), 1);
	assert_non_null(strstr(rig->logged, "--redis-password-file"));
	rig_free(rig);
}

static void test_unneeded_password(void **state)
{
	struct rig *rig = begin_handshake("redis://:x@127.0.0.1", false);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	run_turn(rig);
	reply(peer, "-ERR AUTH <password> called without any password configured for the default "
		    "user. Are you sure your configuration is correct?\r\n");
	reply(peer, "+OK\r\n");
	reply(peer, "+PONG\r\n");
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	assert_non_null(strstr(rig->logged, "requires no password"));
	rig_free(rig);
}

/* The server is loading its data. The handshake is retried until the server is ready. */
static void test_loading(void **state)
{
	struct rig *rig = rig_begin("redis://127.0.0.1");

	(void)state;
	rig_trouble(rig, 6379)->ping = "-LOADING Redis is loading the dataset in memory\r\n";
	rig_start(rig, NULL);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_DOWN);
	assert_int_equal(faults(rig, WR_FAULT_LOADING), 1);
	pass_time(rig, 1000 * MS);
	assert_in_range(faults(rig, WR_FAULT_LOADING), 4, 8);
	rig_trouble(rig, 6379)->ping = NULL;
	pass_time(rig, 2000 * MS);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_HALF_OPEN);
	rig_free(rig);
}

/* The server sends an error before any command, as Redis does when it has too many clients. */
static void test_too_many_clients(void **state)
{
	struct rig *rig = begin_handshake("redis://127.0.0.1", false);
	struct peer *peer = peer_at(rig, 6379);
	static const char bytes[] = "-ERR max number of clients reached\r\n";

	(void)state;
	wr_central_link_input(peer->link, (const uint8_t *)bytes, strlen(bytes), rig->now_ns,
			      rig->mono_ns);
	assert_null(peer->link);
	assert_int_equal(faults(rig, WR_FAULT_MAXCLIENTS), 1);
	rig_free(rig);
}

static void test_no_such_database(void **state)
{
	struct rig *rig = begin_handshake("redis://127.0.0.1/99", false);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	run_turn(rig);
	reply(peer, "-ERR DB index is out of range\r\n");
	assert_null(peer->link);
	assert_non_null(strstr(rig->logged, "DB index is out of range"));
	rig_free(rig);
}

static void test_link(void **state)
{
	struct rig *rig = rig_new("rediss://localhost:6380", NULL);

	(void)state;
	assert_true(peer_at(rig, 6380)->link->tls);
	assert_string_equal(peer_at(rig, 6380)->link->at.host, "localhost");
	rig_free(rig);
	rig = rig_new("redis+unix:///run/redis.sock", NULL);
	assert_int_equal(rig->peers[0].link->at.kind, WR_ENDPOINT_UNIX);
	assert_string_equal(rig->peers[0].link->at.host, "/run/redis.sock");
	assert_false(rig->peers[0].link->tls);
	rig_free(rig);
}

/* ---- INFO ---- */

static const char *log_for_info(const char *text)
{
	static char logged[32768];
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	struct wr_central_opts opts = {.chief = true, .secret = secret};
	struct rig *rig = rig_begin("redis://127.0.0.1");

	rig->info = text;
	rig_start(rig, &opts);
	snprintf(logged, sizeof logged, "%s", rig->logged);
	rig_free(rig);
	return logged;
}

static void test_policies(void **state)
{
	(void)state;
	assert_string_equal(log_for_info("maxmemory:1000\r\nmaxmemory_policy:noeviction\r\n"), "");
	assert_string_equal(log_for_info("maxmemory:1000\r\nmaxmemory_policy:volatile-ttl\r\n"),
			    "");
	assert_string_equal(log_for_info("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"), "");
	assert_non_null(strstr(log_for_info("maxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n"),
			       "1 127.0.0.1:6379: maxmemory-policy allkeys-lru may evict"));
	assert_non_null(strstr(log_for_info("maxmemory:9\r\nmaxmemory_policy:volatile-lru\r\n"),
			       "set noeviction"));
	assert_non_null(
		strstr(log_for_info("redis_version:4.0.1\r\n"), "version 4.0.1 is too old"));
}

static void test_info(void **state)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	struct wr_central_opts opts = {.chief = true, .secret = secret};
	struct rig *rig = rig_begin("redis://127.0.0.1");

	(void)state;
	rig->info = "redis_version:7.2.4\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lfu\r\n"
		    "aof_enabled:1\r\n";
	rig_start(rig, &opts);
	assert_string_equal(info(rig)->shards[0].version, "7.2.4");
	assert_string_equal(info(rig)->shards[0].policy, "allkeys-lfu");
	assert_int_equal(info(rig)->shards[0].aof, 1);
	assert_string_equal(info(rig)->shards[0].at, "127.0.0.1:6379");
	rig_free(rig);
}

/* The ACL of the user forbids INFO. Nothing is logged then. */
static void test_info_forbidden(void **state)
{
	struct rig *rig = begin_handshake("redis://127.0.0.1", true);
	struct peer *peer = peer_at(rig, 6379);

	(void)state;
	run_turn(rig);
	reply(peer, "+OK\r\n");
	reply(peer, "+PONG\r\n");
	run_turn(rig);
	for (int i = 0; i < 2; i++)
		reply(peer, "-NOPERM this user has no permissions to run this command\r\n");
	assert_string_equal(info(rig)->shards[0].version, "");
	assert_int_equal(info(rig)->shards[0].aof, -1);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* ---- options ---- */

static void test_options(void **state)
{
	struct wr_redis_target target;
	struct wr_central_opts opts = {.target = &target};
	static const struct wr_central_host host;
	struct wr_central *central;
	struct weir_error error;

	(void)state;
	assert_int_equal(wr_redis_target_parse(WR_STR("redis://h"), &target, NULL), 0);
	opts.prefix = "a b";
	assert_int_equal(wr_central_new(&opts, &host, NULL, 0, 0, &central, &error), WEIR_EINVAL);
	opts.prefix = "a{b";
	assert_int_equal(wr_central_new(&opts, &host, NULL, 0, 0, &central, &error), WEIR_EINVAL);
	opts.prefix = "";
	assert_int_equal(wr_central_new(&opts, &host, NULL, 0, 0, &central, &error), WEIR_EINVAL);
	opts.prefix = NULL;
	opts.timeout_ns = 5;
	assert_int_equal(wr_central_new(&opts, &host, NULL, 0, 0, &central, &error), WEIR_EINVAL);
	assert_string_equal(error.text, "the timeout for Redis must be 1ms to 1m");
}

static void test_prefix(void **state)
{
	struct wr_central_opts opts = {.prefix = "shop.eu", .timeout_ns = 50 * MS};
	struct rig *rig = rig_new("redis://127.0.0.1", &opts);
	struct asker asker = {.done = 0};

	(void)state;
	take_one(rig, &asker, 1, 1);
	assert_non_null(strstr(next_command(peer_at(rig, 6379)), " shop.eu:1:{BAAAAAAAAA"));
	pass_time(rig, 49 * MS);
	assert_pending(&asker);
	pass_time(rig, 1 * MS);
	assert_failed(&asker);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_login),
		cmocka_unit_test(test_login),
		cmocka_unit_test(test_no_user),
		cmocka_unit_test(test_wrong_password),
		cmocka_unit_test(test_password_required),
		cmocka_unit_test(test_unneeded_password),
		cmocka_unit_test(test_loading),
		cmocka_unit_test(test_too_many_clients),
		cmocka_unit_test(test_no_such_database),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_info_forbidden),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_prefix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
