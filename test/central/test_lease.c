/* Borrowing units from Redis into the table: when units are borrowed, and how many. */
#include "lease_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_a_cold_key_is_strict(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		ask_one(rig, &asker, 7);
		assert_string_equal(lease_args(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 999 - i, 0, 0, true));
		assert_admitted(&asker);
		assert_int_equal(asker.answers[0].remaining, 999 - i);
		pass_time(rig, 1001 * MS);
	}
	assert_int_equal(info(rig)->leases, 0);
	rig_free(rig);
}

/* Only some limits of a descriptor are leased. Each leased limit has a call of its own. */
static void test_leased_beside_strict(void **state)
{
	struct item items[] = {{.key = 1, .cost = 1, .id = "a"},
			       {.key = 1, .cost = 1, .id = "fixed_window/1m", .leased = true},
			       {.key = 1, .cost = 1, .id = "c"}};
	int64_t values[][5] = {{V_ADMITTED | V_TAKEN, 4, 0, 1, 0},
			       {V_ADMITTED | V_TAKEN, 3, 0, 2, 0}};
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take(rig, &asker, items, 3);
	assert_non_null(strstr(next_command(peer), "}:c 3 1 10 60000000 3 1 10 60000000"));
	assert_string_equal(lease_args(peer), "3 1 10 60000000");
	reply(peer, taken_all(2, values));
	reply(peer, leased(true, 9, 0, 0, true));
	assert_admitted(&asker);
	assert_int_equal(asker.answers[0].remaining, 4);
	assert_int_equal(asker.answers[1].remaining, 9);
	assert_int_equal(asker.answers[2].remaining, 3);
	rig_free(rig);
}

/* Leaky buckets, soft limits and limits that count rejected requests are never leased. */
static void test_limits_that_lend_nothing(void **state)
{
	static const struct item kinds[] = {
		{.key = 2, .cost = 1, .leased = true, .algorithm = WEIR_LEAKY_BUCKET},
		{.key = 3, .cost = 1, .leased = true, .soft_ceiling = 12},
		{.key = 4, .cost = 1, .leased = true, .flags = WEIR_COUNT_REJECTED},
	};
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (int j = 0; j < 2; j++) {
			take(rig, &asker, &kinds[i], 1);
			assert_non_null(strstr(next_command(peer), wr_redis_script_take.sha1));
			reply(peer, taken(true, 5, 0, 1));
		}
	rig_free(rig);
}

/* The node borrows as many units as were used within a second, and a quarter more. */
static void test_units_follow_the_demand(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	answer_one(rig, &asker, 7, peer, leased(true, 999, 0, 0, true));
	ask_one(rig, &asker, 7);
	/* The arguments are holder, seq, after, spent, returned, wanted, nodes, ttl. */
	assert_string_equal(lease_args(peer), "3 1 1000 60000000 " HOLDER " 1 0 0 0 3 1 0");
	reply(peer, leased(true, 996, 2, 1000, true));
	assert_int_equal(info(rig)->leases, 1);
	assert_int_equal(info(rig)->leased_units, 2);
	assert_int_equal(spend(rig, 7, 5), 2);

	pass_time(rig, 10 * MS);
	ask_one(rig, &asker, 7); /* 5 units were used in total, of which 1 % has decayed */
	assert_string_equal(lease_args(peer), "3 1 1000 60000000 " HOLDER " 2 1 2 0 6 1 0");
	reply(peer, leased(true, 990, 5, 1000, true));
	assert_int_equal(spend(rig, 7, 9), 5);
	assert_int_equal(info(rig)->counts.leases_granted, 1);
	assert_int_equal(info(rig)->counts.renewals, 1);
	assert_int_equal(info(rig)->counts.units_granted, 7);
	/* The other 5 units are not reported yet. */
	assert_int_equal(info(rig)->counts.units_spent, 2);
	rig_free(rig);
}

/* If two questions are in flight, only one call requests units. Two questions of one batch share a
 * call. */
static void test_one_call_requests_units(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 2);
	struct asker askers[4] = {{.done = 0}};

	(void)state;
	spend(rig, 7, 2);
	ask_one(rig, &askers[0], 7);
	ask_one(rig, &askers[1], 7);
	assert_string_equal(lease_args(peer), "259 1 1000 60000000 2 " HOLDER " 2 1 2 0 8 1 0");
	ask_one(rig, &askers[2], 7);
	assert_string_equal(lease_args(peer), "3 1 1000 60000000");
	reply(peer, "*10\r\n:1700000040000000\r\n:37\r\n:80\r\n:0\r\n:30000000\r\n:0\r\n:6\r\n"
		    ":1000000\r\n:1\r\n:30000000\r\n");
	assert_admitted(&askers[0]);
	assert_admitted(&askers[1]);
	reply(peer, leased(true, 79, 0, 0, true));
	assert_admitted(&askers[2]);
	assert_int_equal(spend(rig, 7, 9), 6);
	rig_free(rig);
}

/* The second question is in the same batch as the first. Their common call is granted units. */
static void test_two_questions_in_one_batch(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[2] = {{.done = 0}};

	(void)state;
	ask_one(rig, &askers[0], 7);
	ask_one(rig, &askers[1], 7);
	assert_string_equal(lease_args(peer), "259 1 1000 60000000 2 " HOLDER " 1 0 0 0 3 1 0");
	assert_null(next_command(peer));
	reply(peer, "*10\r\n:1700000040000000\r\n:37\r\n:80\r\n:0\r\n:30000000\r\n:0\r\n:2\r\n"
		    ":1000000\r\n:1\r\n:30000000\r\n");
	assert_admitted(&askers[0]);
	assert_admitted(&askers[1]);
	assert_int_equal(spend(rig, 7, 9), 2);
	rig_free(rig);
}

/* Redis has no units to lend. For a sixteenth of a second, further questions request no units. */
static void test_no_units_to_lend(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 0);
	struct asker asker = {.done = 0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		ask_one(rig, &asker, 7);
		assert_string_equal(lease_args(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 3, 0, 0, true));
	}
	pass_time(rig, 63 * MS);
	ask_one(rig, &asker, 7);
	assert_non_null(strstr(lease_args(peer), HOLDER " 2 0 0 0 "));
	rig_free(rig);
}

/* At 100 requests per second, spent units are reported and replaced when an eighth of the second is
 * left. */
static void test_renewal(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 100);
	const char *command;
	uint64_t sent_ns = rig->mono_ns;
	char want[96];
	int spent = 0, calls = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		pass_time(rig, 10 * MS);
		spent += spend(rig, 7, 1);
		command = next_command(peer);
		if (!command)
			continue;
		assert_in_range(rig->mono_ns - sent_ns, 700 * MS, 900 * MS);
		sent_ns = rig->mono_ns;
		snprintf(want, sizeof want, "3 0 1000 60000000 " HOLDER " %d %d ", 2 + calls,
			 1 + calls);
		assert_non_null(strstr(command, want));
		calls++;
		reply(peer, leased(true, 900, 90, 1000, true));
	}
	assert_int_equal(spent, 300);
	assert_in_range(calls, 3, 4);
	assert_int_equal(info(rig)->counts.renewals, calls);
	rig_free(rig);
}

/* Unused units are returned before the lease ends. */
static void test_unused_units_are_returned(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 50);

	(void)state;
	pass_time(rig, 999 * MS);
	assert_string_equal(lease_args(peer), "3 0 1000 60000000 " HOLDER " 2 1 0 50 0 1 0");
	assert_int_equal(spend(rig, 7, 1), 0);
	reply(peer, leased(true, 998, 0, 0, true));
	assert_int_equal(info(rig)->counts.units_returned, 50);
	assert_int_equal(info(rig)->counts.units_burnt, 0);
	assert_int_equal(info(rig)->leases, 0);
	pass_time(rig, 5 * SECOND);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* A request uses 500 units more than it reserved, while a call for more units is in flight. Redis
 * may have granted units before it gets the debt. These units are not spent, and go back with the
 * next call. */
static void test_units_granted_before_a_debt(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 100);
	uint64_t identity = wr_store_lease_identity(LIMIT, 0, 0);

	(void)state;
	assert_int_equal(spend(rig, 7, 90), 90);
	pass_time(rig, 300 * MS);
	lease_args(peer);
	assert_int_equal(
		wr_store_lease_spend_rest(table, (struct wr_key){7}, identity, 500, rig->mono_ns),
		10);
	reply(peer, leased(true, 900, 90, 1000, true));
	assert_int_equal(spend(rig, 7, 1), 0);
	pass_time(rig, 300 * MS);
	assert_non_null(strstr(lease_args(peer), HOLDER " 3 2 10 90 "));
	reply(peer, leased(true, 0, 0, 0, true));
	assert_int_equal(info(rig)->counts.units_granted, 190);
	assert_int_equal(info(rig)->counts.units_spent, 100);
	assert_int_equal(info(rig)->counts.units_returned, 90);
	/* Redis gets the next call after the debt, so the units that it grants now are spent. */
	answer_one(rig, &(struct asker){.done = 0}, 7, peer, leased(true, 900, 20, 1000, true));
	assert_int_equal(spend(rig, 7, 30), 20);
	rig_free(rig);
}

/* When this loop gives up a slot of the table, another loop can claim it. */
static void test_slot_released_to_others(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 50);

	(void)state;
	assert_true(wr_store_lease_claim(table, (struct wr_key){7}, 99, rig->mono_ns) < 0);
	pass_time(rig, 999 * MS);
	lease_args(peer);
	reply(peer, leased(true, 998, 0, 0, true));
	assert_true(wr_store_lease_claim(table, (struct wr_key){7}, 99, rig->mono_ns) >= 0);
	/* Afterwards this loop asks Redis for every request. */
	for (int i = 0; i < 3; i++) {
		struct asker asker = {.done = 0};

		ask_one(rig, &asker, 7);
		assert_string_equal(lease_args(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 900, 0, 0, true));
	}
	rig_free(rig);
}

/* Returns another key that uses the same table slot. */
static uint64_t rival_of(uint64_t key)
{
	int slot = wr_store_lease_claim(table, (struct wr_key){key}, 1, 0), other;

	wr_store_lease_release(table, slot, 1, 0);
	do {
		other = wr_store_lease_claim(table, (struct wr_key){++key}, 1, 0);
		wr_store_lease_release(table, other, 1, 0);
	} while (other != slot);
	return key;
}

/* A key without units keeps its slot for a second. Another key of this loop claims the slot before
 * the hold of the first key is dropped. The units of the second key must not be lost. */
static void test_slot_claimed_by_another_key(void **state)
{
	uint64_t rival = rival_of(7);
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 0);

	(void)state;
	pass_time(rig, 1950 * MS);
	borrow(rig, rival, 50);
	pass_time(rig, 200 * MS);
	assert_null(next_command(peer));
	assert_int_equal(spend(rig, rival, 50), 50);
	assert_int_equal(info(rig)->counts.units_burnt, 0);
	rig_free(rig);
}

/* A lease ends while its renewal is in flight, and another key of this loop claims the slot before
 * the reply. The remaining units of the first lease count as expired (units_burnt), not as
 * spent. */
static void test_units_of_a_reclaimed_slot_are_burnt(void **state)
{
	uint64_t rival = rival_of(7);
	struct rig *rig = begin_lease_rig();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	assert_int_equal(spend(rig, 7, 4), 4);
	ask_one(rig, &asker, 7);
	assert_non_null(strstr(lease_args(peer), HOLDER " 2 1 4 0 "));
	rig->mono_ns += 1000 * MS; /* the whole process stands still */
	assert_true(wr_store_lease_claim(table, (struct wr_key){rival}, 99, rig->mono_ns) >= 0);
	reply(peer, leased(true, 900, 3, 1000, true));
	assert_int_equal(info(rig)->counts.units_granted, 13);
	assert_int_equal(info(rig)->counts.units_spent, 4);
	assert_int_equal(info(rig)->counts.units_burnt, 9);
	assert_int_equal(info(rig)->leases, 0);
	rig_free(rig);
}

/* ---- many requests ---- */

/* A Redis that has units for all requests and counts units as the script does. */
struct model {
	uint64_t seq;
	uint32_t out;
};

#define MODELS 1000

struct lent {
	struct model models[MODELS];
	uint64_t calls, granted, spent, returned;
};

static void answer_as_redis(struct peer *peer, struct lent *lent, const char *command)
{
	unsigned long key, spent, returned, wanted;
	unsigned long long seq, after;
	char *at;
	const char *holder = strstr(command, " " HOLDER " ");
	struct model *model;

	lent->calls++;
	if (!holder) {
		reply(peer, leased(true, 900, 0, 0, true));
		return;
	}
	key = strtoul(strstr(command, ":l:k") + 4, NULL, 10);
	seq = strtoull(holder + 18, &at, 10);
	after = strtoull(at, &at, 10);
	spent = strtoul(at, &at, 10);
	returned = strtoul(at, &at, 10);
	wanted = strtoul(at, &at, 10);
	model = &lent->models[key];
	/* Redis knows the lease that the node reports */
	assert_int_equal(after, model->out ? model->seq : after);
	assert_true(spent + returned <= model->out);
	model->out += (uint32_t)((wanted >= 2 ? wanted : 0) - spent - returned);
	model->seq = seq;
	lent->granted += wanted >= 2 ? wanted : 0;
	lent->spent += spent;
	lent->returned += returned;
	reply(peer, leased(true, 900, wanted >= 2 ? (int)wanted : 0, model->out ? 1000 : 0, true));
}

static void serve_all(struct rig *rig, struct lent *lent)
{
	struct peer *peer = peer_at(rig, 6379);
	const char *command;

	while ((command = next_command(peer)))
		answer_as_redis(peer, lent, command);
}

/* 1,000 keys get about 100 requests per second each for ten seconds. At most 20 calls are sent per
 * 1,000 decisions, and every unit is accounted for. */
static void test_calls_per_decision(void **state)
{
	struct rig *rig = begin_lease_rig();
	struct lent *lent = calloc(1, sizeof *lent);
	uint64_t decisions = 0, strict = 0, random = 12345, calls_before = 0;
	const struct wr_central_counts *counts;

	(void)state;
	for (int ms = 0; ms < 11000; ms++) {
		if (ms == 1000) { /* the demand is known from here on */
			calls_before = lent->calls;
			decisions = 0;
		}
		for (int i = 0; i < 100; i++) {
			char id[16];
			struct item item = {.cost = 1, .limit = LIMIT, .leased = true, .id = id};
			struct asker asker = {.done = 0};

			random = random * 6364136223846793005u + 1442695040888963407u;
			item.key = 1000 + (random >> 33) % MODELS;
			snprintf(id, sizeof id, "k%u", (unsigned)(item.key - 1000));
			decisions++;
			if (spend_from(rig, item.key, LIMIT, 1))
				continue;
			take(rig, &asker, &item, 1);
			serve_all(rig, lent);
			assert_admitted(&asker);
			strict++;
		}
		pass_time(rig, MS);
		serve_all(rig, lent);
	}
	assert_in_range((lent->calls - calls_before) * 1000 / decisions, 5, 20);
	while (shut_down(rig))
		serve_all(rig, lent);
	counts = &info(rig)->counts;
	assert_int_equal(counts->units_granted, lent->granted);
	assert_int_equal(counts->units_burnt, 0);
	assert_int_equal(counts->units_spent + counts->units_returned, lent->granted);
	assert_int_equal(counts->units_spent, lent->spent);
	assert_int_equal(lent->spent + strict, 1100000);
	free(lent);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEASE_TEST(test_a_cold_key_is_strict),
		LEASE_TEST(test_leased_beside_strict),
		LEASE_TEST(test_limits_that_lend_nothing),
		LEASE_TEST(test_units_follow_the_demand),
		LEASE_TEST(test_one_call_requests_units),
		LEASE_TEST(test_two_questions_in_one_batch),
		LEASE_TEST(test_no_units_to_lend),
		LEASE_TEST(test_renewal),
		LEASE_TEST(test_unused_units_are_returned),
		LEASE_TEST(test_units_granted_before_a_debt),
		LEASE_TEST(test_slot_released_to_others),
		LEASE_TEST(test_slot_claimed_by_another_key),
		LEASE_TEST(test_units_of_a_reclaimed_slot_are_burnt),
		LEASE_TEST(test_calls_per_decision),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
