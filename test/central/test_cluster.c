/* Redis Cluster: slots that are found, moved and being moved, and nodes that are added or fail. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#include "redis/slot.h"

#define URL "redis+cluster://127.0.0.1:7000,127.0.0.1:7001"

/* A slot map with three masters: 0-5460, 5461-10922, 10923-16383. */
static const char three[] =
	"*3\r\n"
	"*3\r\n:0\r\n:5460\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"
	"*3\r\n:5461\r\n:10922\r\n*2\r\n$0\r\n\r\n:7001\r\n"
	"*3\r\n:10923\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7002\r\n$2\r\nid\r\n";

/* A slot map after 7003, the replica of 7001, has been promoted. */
static const char promoted[] = "*3\r\n"
			       "*3\r\n:0\r\n:5460\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"
			       "*3\r\n:5461\r\n:10922\r\n*2\r\n$9\r\n127.0.0.1\r\n:7003\r\n"
			       "*3\r\n:10923\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:7002\r\n";

static struct rig *begin_cluster(void)
{
	struct rig *rig = rig_begin(URL);

	rig->slots = three;
	rig_start(rig, NULL);
	return rig;
}

static uint16_t slot_of(uint64_t key)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned __int128 bits = (unsigned __int128)~key << 64 | key;
	char text[22];

	for (int i = 0; i < 22; i++, bits >>= 6)
		text[i] = letters[(unsigned)bits & 63];
	return wr_redis_slot_of(text, sizeof text);
}

/* Returns a key whose slot is in this range. */
static uint64_t key_in(uint16_t first, uint16_t last)
{
	for (uint64_t key = 1;; key++)
		if (slot_of(key) >= first && slot_of(key) <= last)
			return key;
}

static const struct wr_central_shard_info *shard_info_at(struct rig *rig, uint16_t port)
{
	char at[32];

	info(rig);
	snprintf(at, sizeof at, "127.0.0.1:%u", port);
	for (uint32_t i = 0; i < rig->info_now.shards_shown; i++)
		if (strcmp(rig->info_now.shards[i].at, at) == 0)
			return &rig->info_now.shards[i];
	return NULL;
}

static void test_slots(void **state)
{
	struct rig *rig = begin_cluster();
	struct item items[3] = {{.key = key_in(0, 5460), .cost = 1},
				{.key = key_in(5461, 10922), .cost = 1},
				{.key = key_in(10923, 16383), .cost = 1}};
	struct asker asker = {.done = 0};

	(void)state;
	assert_int_equal(info(rig)->shard_count, 3);
	assert_true(info(rig)->all_up);
	assert_int_equal(shard_info_at(rig, 7000)->slots, 5461);
	assert_int_equal(shard_info_at(rig, 7001)->slots, 5462);
	take(rig, &asker, items, 3);
	for (uint16_t port = 7000; port < 7003; port++)
		assert_non_null(next_command(peer_at(rig, port)));
	for (uint16_t port = 7002; port >= 7000; port--) {
		assert_pending(&asker);
		reply(peer_at(rig, port), taken(true, port - 6999, 0, 1));
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(asker.answers[i].remaining, 1 + i);
	assert_int_equal(shard_info_at(rig, 7002)->counts.admitted, 1);
	rig_free(rig);
}

/* Questions that are asked before the first slot map is read wait for it. */
static void test_questions_wait_for_slot_map(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->slots = three;
	rig_trouble(rig, 7000)->silent = true;
	rig_start(rig, NULL);
	take_one(rig, &asker, key_in(10923, 16383), 1);
	assert_pending(&asker);
	pass_time(rig, 10 * MS);
	rig_trouble(rig, 7000)->silent = false;
	run_turn(rig);
	assert_non_null(next_command(peer_at(rig, 7002)));
	reply(peer_at(rig, 7002), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	rig_free(rig);
}

/* The first host is down, and the second host returns the slot map. */
static void test_second_host(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->slots = three;
	rig_trouble(rig, 7000)->refuses = true;
	rig_start(rig, NULL);
	take_one(rig, &asker, key_in(10923, 16383), 1);
	assert_non_null(next_command(peer_at(rig, 7002)));
	reply(peer_at(rig, 7002), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	take_one(rig, &asker, key_in(0, 5460), 1);
	assert_failed(&asker); /* the shard of this key is down */
	assert_false(info(rig)->all_up);
	assert_true(info(rig)->any_up);
	rig_free(rig);
}

static void test_no_node_reachable(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->slots = three;
	rig_trouble(rig, 7000)->refuses = rig_trouble(rig, 7001)->refuses = true;
	rig_start(rig, NULL);
	pass_time(rig, 5 * MS);
	take_one(rig, &asker, 1, 1);
	assert_failed(&asker);
	assert_int_equal(faults(rig, WR_FAULT_NO_OWNER), 1);
	pass_time(rig, 10000 * MS);
	assert_in_range(rig->peer_count, 10, 130);
	rig_trouble(rig, 7000)->refuses = rig_trouble(rig, 7001)->refuses = false;
	pass_time(rig, 2500 * MS);
	assert_int_equal(info(rig)->shard_count, 3);
	rig_free(rig);
}

static void test_no_cluster(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->slots = "-ERR This instance has cluster support disabled\r\n";
	rig_start(rig, NULL);
	assert_non_null(strstr(rig->logged, "cluster support disabled; use redis://"));
	take_one(rig, &asker, 1, 1);
	pass_time(rig, 20 * MS);
	assert_failed(&asker);
	rig_free(rig);
}

/* ---- redirections ---- */

/* After MOVED the question is repeated at the new owner, which is remembered. The slot map is read
 * again. */
static void test_moved(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(0, 5460);
	char moved[64];

	(void)state;
	pass_time(rig, 1000 * MS);
	snprintf(moved, sizeof moved, "-MOVED %u 127.0.0.1:7002\r\n", slot_of(key));
	take_one(rig, &asker, key, 1);
	assert_non_null(next_command(peer_at(rig, 7000)));
	rig->slots = NULL; /* CLUSTER SLOTS gets no reply from now on */
	reply(peer_at(rig, 7000), moved);
	assert_memory_equal(next_command(peer_at(rig, 7002)), "EVALSHA", 7);
	reply(peer_at(rig, 7002), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	assert_int_equal(faults(rig, WR_FAULT_MOVED), 1);
	assert_int_equal(info(rig)->counts.again, 1);
	take_one(rig, &asker, key, 1); /* this question goes directly to the new owner */
	run_turn(rig);
	assert_non_null(next_command(peer_at(rig, 7002)));
	rig_free(rig);
}

/* MOVED names a node that is not in the slot map. */
static void test_moved_to_new_node(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(0, 5460);
	char moved[64];

	(void)state;
	snprintf(moved, sizeof moved, "-MOVED %u 127.0.0.1:7009\r\n", slot_of(key));
	take_one(rig, &asker, key, 1);
	assert_non_null(next_command(peer_at(rig, 7000)));
	reply(peer_at(rig, 7000), moved);
	run_turn(rig);
	assert_non_null(next_command(peer_at(rig, 7009)));
	reply(peer_at(rig, 7009), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	rig_free(rig);
}

static void test_redirection_loop(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(0, 5460);
	char moved[2][64];
	int times = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		snprintf(moved[i], sizeof moved[i], "-MOVED %u 127.0.0.1:%d\r\n", slot_of(key),
			 7001 - i);
	take_one(rig, &asker, key, 1);
	while (!asker.done && times < 100) {
		struct peer *peer = peer_at(rig, (uint16_t)(7000 + times % 2));

		assert_non_null(next_command(peer));
		reply(peer, moved[times++ % 2]);
	}
	assert_failed(&asker);
	assert_int_equal(times, 9);
	rig_free(rig);
}

/* After ASK only this question goes to the other node, preceded by ASKING. */
static void test_ask_redirection(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(0, 5460);
	char text[64];

	(void)state;
	rig_trouble(rig, 7002)->mute = true;
	snprintf(text, sizeof text, "-ASK %u 127.0.0.1:7002\r\n", slot_of(key));
	take_one(rig, &asker, key, 1);
	assert_non_null(next_command(peer_at(rig, 7000)));
	reply(peer_at(rig, 7000), text);
	assert_string_equal(next_command(peer_at(rig, 7002)), "ASKING");
	assert_memory_equal(next_command(peer_at(rig, 7002)), "EVALSHA", 7);
	reply(peer_at(rig, 7002), "+OK\r\n");
	reply(peer_at(rig, 7002), "-NOSCRIPT\r\n"); /* ASKING must be sent again as well */
	pass_time(rig, 0);
	/* Without another ASKING the call would be redirected back, and the script would never be
	 * loaded. */
	assert_string_equal(next_command(peer_at(rig, 7002)), "ASKING");
	assert_memory_equal(next_command(peer_at(rig, 7002)), "EVAL -", 6);
	reply(peer_at(rig, 7002), "+OK\r\n");
	reply(peer_at(rig, 7002), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	take_one(rig, &asker, key, 1); /* the next question is sent to the old node again */
	assert_non_null(next_command(peer_at(rig, 7000)));
	rig_free(rig);
}

/* After TRYAGAIN the call is retried: its keys are on two nodes for a moment. */
static void test_tryagain(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(0, 5460);

	(void)state;
	take_one(rig, &asker, key, 1);
	for (int i = 0; i < 3; i++) {
		assert_non_null(next_command(peer_at(rig, 7000)));
		reply(peer_at(rig, 7000), "-TRYAGAIN Multiple keys request during rehashing\r\n");
		pass_time(rig, 1 * MS);
		assert_null(next_command(peer_at(rig, 7000)));
		pass_time(rig, 1 * MS);
	}
	assert_non_null(next_command(peer_at(rig, 7000)));
	reply(peer_at(rig, 7000), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	assert_int_equal(faults(rig, WR_FAULT_TRYAGAIN), 3);
	take_one(rig, &asker, key, 1); /* retries end at the timeout */
	assert_non_null(next_command(peer_at(rig, 7000)));
	pass_time(rig, 19 * MS);
	reply(peer_at(rig, 7000), "-TRYAGAIN\r\n");
	pass_time(rig, 1 * MS);
	assert_failed(&asker);
	pass_time(rig, 10 * MS);
	assert_null(next_command(peer_at(rig, 7000)));
	rig_free(rig);
}

/* ---- nodes that fail and are replaced ---- */

/* A master fails. The other nodes are asked for the slot map until its replica is promoted. */
static void test_promotion(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(5461, 10922);

	(void)state;
	pass_time(rig, 1000 * MS);
	rig_trouble(rig, 7001)->refuses = true;
	cut_peer(peer_at(rig, 7001), "reset");
	pass_time(rig, 10 * MS);
	take_one(rig, &asker, key, 1);
	assert_failed(&asker);
	take_one(rig, &asker, key_in(0, 5460), 1); /* the other shards still answer */
	assert_pending(&asker);
	assert_non_null(next_command(peer_at(rig, 7000)));
	reply(peer_at(rig, 7000), taken(true, 9, 0, 1));
	rig->slots = promoted;
	pass_time(rig, 700 * MS);
	assert_non_null(shard_info_at(rig, 7003));
	assert_null(shard_info_at(rig, 7001));
	take_one(rig, &asker, key, 1);
	assert_non_null(next_command(peer_at(rig, 7003)));
	reply(peer_at(rig, 7003), taken(true, 9, 0, 1));
	assert_admitted(&asker);
	assert_true(info(rig)->all_up);
	pass_time(rig, 5000 * MS);
	assert_null(peer_at(rig, 7001)); /* the connection to the old master is closed */
	rig_free(rig);
}

/* CLUSTERDOWN counts as a failure, and the slot map is read again. */
static void test_clusterdown(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(5461, 10922);

	(void)state;
	pass_time(rig, 1000 * MS);
	take_one(rig, &asker, key, 1);
	assert_non_null(next_command(peer_at(rig, 7001)));
	rig->slots = promoted;
	reply(peer_at(rig, 7001), "-CLUSTERDOWN Hash slot not served\r\n");
	assert_failed(&asker);
	assert_int_equal(faults(rig, WR_FAULT_CLUSTERDOWN), 1);
	pass_time(rig, 1 * MS);
	assert_non_null(peer_at(rig, 7003));
	rig_free(rig);
}

/* Questions on slots without an owner fail. */
static void test_slots_without_owner(void **state)
{
	struct rig *rig = rig_begin(URL);
	struct asker asker = {.done = 0};

	(void)state;
	rig->slots = "*1\r\n*3\r\n:0\r\n:5460\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n";
	rig_start(rig, NULL);
	take_one(rig, &asker, key_in(5461, 16383), 1);
	assert_failed(&asker);
	assert_int_equal(faults(rig, WR_FAULT_NO_OWNER), 1);
	rig->slots = three;
	pass_time(rig, 600 * MS);
	take_one(rig, &asker, key_in(5461, 16383), 1);
	assert_pending(&asker);
	rig_free(rig);
}

/* Two limits of one descriptor are in a slot that is being moved, and their keys are on different
 * nodes. */
static void test_tryagain_splits_call(void **state)
{
	struct rig *rig = begin_cluster();
	struct asker asker = {.done = 0};
	uint64_t key = key_in(0, 5460);
	struct item items[] = {{.key = key, .cost = 1, .id = "a"},
			       {.key = key, .cost = 1, .id = "b"}};
	struct item back[] = {{.key = key, .cost = -1, .decided_us = 5, .id = "a"},
			      {.key = key, .cost = -1, .decided_us = 5, .id = "b"}};
	struct peer *from = peer_at(rig, 7000), *to = peer_at(rig, 7002);
	char text[64];

	(void)state;
	rig_trouble(rig, 7002)->mute = true;
	snprintf(text, sizeof text, "-ASK %u 127.0.0.1:7002\r\n", slot_of(key));
	take(rig, &asker, items, 2);
	assert_non_null(strstr(next_command(from), "}:b 3 1 10"));
	reply(from, "-TRYAGAIN Multiple keys request during rehashing\r\n");
	pass_time(rig, 2 * MS);
	assert_non_null(strstr(next_command(from), "}:b 3 1 10"));
	assert_non_null(strstr(next_command(from), "}:a 3 1 10"));
	assert_null(next_command(from));
	reply(from, text);
	reply(from, taken(true, 9, 0, 1));
	assert_pending(&asker);
	assert_string_equal(next_command(to), "ASKING");
	assert_non_null(strstr(next_command(to), "}:b 3 1 10"));
	reply(to, "+OK\r\n");
	reply(to, taken(false, 0, 1000000, 0));
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED);
	assert_int_equal(flags_of(&asker, 1), 0);
	/* Give-backs are split in the same way. */
	send_question(rig, WR_QUESTION_RETURN, back, 2);
	assert_non_null(strstr(next_command(from), "}:b:r 131 -1"));
	reply(from, "-TRYAGAIN\r\n");
	pass_time(rig, 2 * MS);
	assert_non_null(next_command(from));
	assert_non_null(next_command(from));
	reply(from, taken(true, 9, 0, 1));
	reply(from, taken(true, 9, 0, 1));
	assert_int_equal(info(rig)->counts.returned, 2);
	assert_int_equal(info(rig)->counts.returns_lost, 0);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_questions_wait_for_slot_map),
		cmocka_unit_test(test_second_host),
		cmocka_unit_test(test_no_node_reachable),
		cmocka_unit_test(test_no_cluster),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_moved_to_new_node),
		cmocka_unit_test(test_redirection_loop),
		cmocka_unit_test(test_ask_redirection),
		cmocka_unit_test(test_tryagain),
		cmocka_unit_test(test_tryagain_splits_call),
		cmocka_unit_test(test_promotion),
		cmocka_unit_test(test_clusterdown),
		cmocka_unit_test(test_slots_without_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
