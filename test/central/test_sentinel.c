/* Redis Sentinel: the master is found, and failovers are followed. */
#include "rig.h"

#include <string.h>

#define URL "redis+sentinel://127.0.0.1:26379,127.0.0.1:26380/mymaster"

static const char replica[] =
	"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:7\r\n";

static struct rig *begin_sentinels(void)
{
	struct rig *rig = rig_begin(URL);

	rig->master = 6379;
	rig_start(rig, NULL);
	return rig;
}

static void take_at(struct rig *rig, uint16_t port)
{
	struct asker asker = {.done = 0};

	take_one(rig, &asker, 1, 1);
	assert_pending(&asker);
	assert_non_null(peer_at(rig, port));
	assert_non_null(next_command(peer_at(rig, port)));
	reply(peer_at(rig, port), taken(true, 9, 0, 1));
	assert_admitted(&asker);
}

static void test_master_found(void **state)
{
	struct rig *rig = begin_sentinels();

	(void)state;
	assert_int_equal(peer_at(rig, 26379)->link->purpose, WR_CENTRAL_LINK_SENTINEL);
	assert_int_equal(peer_at(rig, 6379)->link->purpose, WR_CENTRAL_LINK_DATA);
	assert_string_equal(info(rig)->shards[0].at, "127.0.0.1:6379");
	take_at(rig, 6379);
	assert_string_equal(rig->logged, "");
	rig_free(rig);
}

/* Questions wait until the master is known. */
static void test_questions_wait_for_master(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->master = 6379;
	rig_trouble(rig, 26379)->silent = true;
	rig_start(rig, NULL);
	take_one(rig, &asker, 1, 1);
	assert_pending(&asker);
	rig_trouble(rig, 26379)->silent = false;
	run_turn(rig);
	assert_non_null(next_command(peer_at(rig, 6379)));
	reply(peer_at(rig, 6379), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	rig_free(rig);
}

/* The first Sentinel does not answer, and the next one does. Sentinels that it names are asked as
 * well. */
static void test_next_sentinel(void **state)
{
	struct rig *rig = begin_sentinels();

	(void)state;
	rig_trouble(rig, 26379)->refuses = rig_trouble(rig, 26380)->refuses = true;
	cut_peer(peer_at(rig, 26379), "reset");
	pass_time(rig, 1 * MS);
	assert_non_null(peer_at(rig, 26388)); /* another Sentinel has named this one */
	take_at(rig, 6379);
	rig->master = 6380;
	pass_time(rig, 1000 * MS);
	take_at(rig, 6380);
	rig_free(rig);
}

static void test_slow_sentinel(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig->master = 6379;
	rig_trouble(rig, 26379)->mute = true;
	rig_start(rig, NULL);
	pass_time(rig, 249 * MS);
	assert_null(peer_at(rig, 26380));
	pass_time(rig, 2 * MS);
	assert_null(peer_at(rig, 26379));
	assert_non_null(peer_at(rig, 26380));
	pass_time(rig, 500 * MS);
	take_at(rig, 6379);
	rig_free(rig);
}

/* A failover is noticed within a second, even if the old master still answers. */
static void test_failover(void **state)
{
	struct rig *rig = begin_sentinels();

	(void)state;
	take_at(rig, 6379);
	rig->master = 6380;
	pass_time(rig, 1001 * MS);
	assert_null(peer_at(rig, 6379));
	take_at(rig, 6380);
	assert_non_null(strstr(rig->logged, "the master 'mymaster' is now 127.0.0.1:6380"));
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_UP);
	rig_free(rig);
}

/* The master fails. Questions fail at once until the Sentinels name another master. */
static void test_master_dies(void **state)
{
	struct rig *rig = begin_sentinels();
	struct asker asker = {.done = 0};

	(void)state;
	take_at(rig, 6379);
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer_at(rig, 6379), "reset");
	take_one(rig, &asker, 1, 1);
	assert_failed(&asker);
	pass_time(rig, 3000 * MS);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_DOWN);
	rig->master = 6380;
	pass_time(rig, 201 * MS); /* Sentinels are polled five times a second meanwhile */
	take_at(rig, 6380);
	rig_free(rig);
}

/* READONLY means that the master has become a replica. */
static void test_readonly(void **state)
{
	struct rig *rig = begin_sentinels();
	struct asker asker = {.done = 0};

	(void)state;
	pass_time(rig, 300 * MS);
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	rig->master = 6380;
	reply(peer_at(rig, 6379), "-READONLY You can't write against a read only replica.\r\n");
	assert_failed(&asker);
	pass_time(rig, 60 * MS); /* a Sentinel is polled at once, not at the next regular poll */
	take_at(rig, 6380);
	assert_int_equal(faults(rig, WR_FAULT_READONLY), 1);
	rig_free(rig);
}

/* A Sentinel names an old master. A server whose ROLE is not master is not used. */
static void test_role_is_checked(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->master = 6379;
	rig_trouble(rig, 6379)->role = replica;
	rig_start(rig, NULL);
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_DOWN);
	assert_int_equal(faults(rig, WR_FAULT_READONLY), 1);
	take_one(rig, &asker, 1, 1);
	assert_failed(&asker);
	rig->master = 6380;
	pass_time(rig, 210 * MS);
	take_at(rig, 6380);
	rig_free(rig);
}

/* The Sentinel does not know of the failover. The master that it names is down, so the next
 * Sentinel is asked within two polls of 200 ms. */
static void test_stale_sentinel(void **state)
{
	struct rig *rig = begin_sentinels();
	struct asker asker = {.done = 0};

	(void)state;
	pass_time(rig, 300 * MS);
	rig_trouble(rig, 26379)->names = 6379;
	rig->master = 6380;
	rig_trouble(rig, 6379)->role = replica;
	take_one(rig, &asker, 1, 1);
	run_turn(rig);
	reply(peer_at(rig, 6379), "-READONLY You can't write against a read only replica.\r\n");
	assert_failed(&asker);
	pass_time(rig, 401 * MS);
	assert_null(peer_at(rig, 26379));
	take_at(rig, 6380);
	rig_free(rig);
}

/* All Sentinels name a master that is down. The Sentinels are asked in turn, five to seven times a
 * second. */
static void test_sentinels_in_turn(void **state)
{
	struct rig *rig = begin_sentinels();
	int before;

	(void)state;
	pass_time(rig, 300 * MS);
	rig_trouble(rig, 6379)->refuses = true;
	cut_peer(peer_at(rig, 6379), "reset");
	before = rig->peer_count;
	pass_time(rig, 2000 * MS);
	assert_in_range(rig->peer_count - before, 10, 24);
	rig_trouble(rig, 6379)->refuses = false;
	pass_time(rig, 2000 * MS);
	take_at(rig, 6379);
	rig_free(rig);
}

static void test_unknown_name(void **state)
{
	struct rig *rig = rig_begin(URL);

	(void)state;
	rig_start(rig, NULL);
	pass_time(rig, 10000 * MS);
	assert_string_equal(
		rig->logged,
		"1 no Sentinel names the master 'mymaster': they know no master of that name\n"
		"1 the master: not connected within the timeout; until it is back, "
		"on_store_failure of each limit decides\n");
	assert_int_equal(info(rig)->shards[0].state, WR_CENTRAL_SHARD_DOWN);
	assert_string_equal(info(rig)->shards[0].at, "");
	rig->master = 6379;
	pass_time(rig, 1100 * MS);
	take_at(rig, 6379);
	rig_free(rig);
}

/* All Sentinels are down. The master that is already known is used. */
static void test_no_sentinels(void **state)
{
	struct rig *rig = begin_sentinels();

	(void)state;
	rig_trouble(rig, 26379)->refuses = rig_trouble(rig, 26380)->refuses =
		rig_trouble(rig, 26388)->refuses = true;
	cut_peer(peer_at(rig, 26379), "reset");
	pass_time(rig, 5000 * MS);
	take_at(rig, 6379);
	assert_in_range(rig->peer_count, 10, 40);
	rig_free(rig);
}

/* The Sentinels have a password of their own. */
static void test_passwords(void **state)
{
	struct rig *rig =
		rig_begin("redis+sentinel://ann:data@127.0.0.1:26379/m?sentinel_password=s");

	(void)state;
	rig->master = 6379;
	rig_trouble(rig, 26379)->mute = true;
	rig_trouble(rig, 6379)->mute = true;
	rig_start(rig, NULL);
	assert_string_equal(next_command(peer_at(rig, 26379)), "AUTH s");
	reply(peer_at(rig, 26379), "+OK\r\n");
	reply(peer_at(rig, 26379), "+OK\r\n");
	reply(peer_at(rig, 26379), "+PONG\r\n");
	run_turn(rig);
	assert_string_equal(peer_at(rig, 26379)->commands[0], "SENTINEL get-master-addr-by-name m");
	reply(peer_at(rig, 26379), "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
	assert_string_equal(next_command(peer_at(rig, 6379)), "AUTH ann data");
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_master_found),
		cmocka_unit_test(test_questions_wait_for_master),
		cmocka_unit_test(test_next_sentinel),
		cmocka_unit_test(test_slow_sentinel),
		cmocka_unit_test(test_failover),
		cmocka_unit_test(test_master_dies),
		cmocka_unit_test(test_readonly),
		cmocka_unit_test(test_role_is_checked),
		cmocka_unit_test(test_unknown_name),
		cmocka_unit_test(test_no_sentinels),
		cmocka_unit_test(test_passwords),
		cmocka_unit_test(test_stale_sentinel),
		cmocka_unit_test(test_sentinels_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
