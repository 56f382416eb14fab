/* Units borrowed from Redis and laid into the table: when, how many, and what becomes of them. The
 * test is Redis, and the processes that spend. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "store/lease.h"

#define URL "redis://127.0.0.1:6379"
#define OWNER 0xabcdefull
#define HOLDER "0000000000abcdef"
#define LIMIT 1000u
#define SECOND (1000 * MS)

static struct weir_table *table;
static struct rig *in_use; /* whose clock Redis has, too */

static int open_table(void **state)
{
	char dir[] = "/tmp/weir-test-lease-XXXXXX";
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "lease",
				 .dir = mkdtemp(dir),
				 .memory_bytes = 64 << 20,
				 .now_ns = NOW_NS};
	char path[64];

	(void)state;
	if (weir_open(&opts, &table, NULL) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/lease", dir);
	unlink(path);
	rmdir(dir);
	return 0;
}

static int close_table(void **state)
{
	(void)state;
	weir_close(table);
	return 0;
}

static struct rig *begin(void)
{
	struct wr_central_opts opts = {
		.holder = {0xa, 0xb}, .table = table, .owner = OWNER, .timeout_ns = 20 * MS};

	in_use = rig_new(URL, &opts);
	return in_use;
}

/* ---- spenders ---- */

static bool spend_from(const struct rig *rig, uint64_t key, uint32_t limit, int64_t cost)
{
	struct weir_decision decision;
	uint32_t grant;

	return wr_lease_spend(table, (struct wr_key){key}, wr_lease_identity(limit, 0, 0), cost,
			      rig->mono_ns, &decision, &grant) == WR_LEASE_SPENT;
}

/* How many of so many requests were paid for. */
static int spend(const struct rig *rig, uint64_t key, int times)
{
	int spent = 0;

	for (int i = 0; i < times; i++)
		spent += spend_from(rig, key, LIMIT, 1);
	return spent;
}

/* ---- Redis ---- */

static void ask(struct rig *rig, struct asker *asker, uint64_t key)
{
	struct item item = {.key = key, .cost = 1, .limit = LIMIT, .leased = true};

	take(rig, asker, &item, 1);
}

/* What stands behind the keys of the next command, which is one of the lease script. */
static const char *said(struct peer *peer)
{
	const char *command = next_command(peer);
	char begin[80];

	assert_non_null(command);
	snprintf(begin, sizeof begin, "EVALSHA %s 2 weir:1:{", wr_script_lease.sha1);
	assert_memory_equal(command, begin, strlen(begin));
	command = strstr(command, ":l:fixed_window/1m ");
	assert_non_null(command);
	return command + strlen(":l:fixed_window/1m ");
}

static const char *leased(bool admitted, int remaining, int granted, uint64_t ttl_ms, bool known)
{
	static char bytes[256];
	int verdict = admitted ? V_ADMITTED | V_TAKEN | V_TIMES : 0;

	snprintf(bytes, sizeof bytes,
		 "*10\r\n:%llu\r\n:%d\r\n:%d\r\n:%d\r\n:30000000\r\n:0\r\n:%d\r\n:%llu\r\n:%d\r\n"
		 ":30000000\r\n",
		 (unsigned long long)in_use->now_ns / 1000, verdict, remaining,
		 admitted ? 0 : 5000000, granted, (unsigned long long)ttl_ms * 1000, known);
	return bytes;
}

/* Two requests within a second: the second one's call brings so many units. */
static struct peer *borrow(struct rig *rig, uint64_t key, int granted)
{
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	ask(rig, &asker, key);
	said(peer);
	reply(peer, leased(true, 999, 0, 0, true));
	ask(rig, &asker, key);
	said(peer);
	reply(peer, leased(true, 900, granted, granted ? 1000 : 0, true));
	assert_admitted(&asker);
	return peer;
}

/* ---- tests ---- */

static void test_a_cold_key_is_strict(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		ask(rig, &asker, 7);
		assert_string_equal(said(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 999 - i, 0, 0, true));
		assert_admitted(&asker);
		assert_int_equal(asker.answers[0].remaining, 999 - i);
		pass(rig, 1001 * MS);
	}
	assert_int_equal(info(rig)->leases, 0);
	rig_free(rig);
}

/* Limits of one descriptor where only some are leased: each of those goes alone. */
static void test_beside_strict_ones(void **state)
{
	struct item items[] = {{.key = 1, .cost = 1, .id = "a"},
			       {.key = 1, .cost = 1, .id = "fixed_window/1m", .leased = true},
			       {.key = 1, .cost = 1, .id = "c"}};
	int64_t values[][5] = {{V_ADMITTED | V_TAKEN, 4, 0, 1, 0},
			       {V_ADMITTED | V_TAKEN, 3, 0, 2, 0}};
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	take(rig, &asker, items, 3);
	assert_non_null(strstr(next_command(peer), "}:c 3 1 10 60000000 3 1 10 60000000"));
	assert_string_equal(said(peer), "3 1 10 60000000");
	reply(peer, taken_all(2, values));
	reply(peer, leased(true, 9, 0, 0, true));
	assert_admitted(&asker);
	assert_int_equal(asker.answers[0].remaining, 4);
	assert_int_equal(asker.answers[1].remaining, 9);
	assert_int_equal(asker.answers[2].remaining, 3);
	rig_free(rig);
}

/* A leaky bucket, soft limits and those that count rejected requests are never leased. */
static void test_what_cannot_be_lent(void **state)
{
	static const struct item kinds[] = {
		{.key = 2, .cost = 1, .leased = true, .algorithm = WEIR_LEAKY_BUCKET},
		{.key = 3, .cost = 1, .leased = true, .soft_ceiling = 12},
		{.key = 4, .cost = 1, .leased = true, .flags = WEIR_COUNT_REJECTED},
	};
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (int j = 0; j < 2; j++) {
			take(rig, &asker, &kinds[i], 1);
			assert_non_null(strstr(next_command(peer), wr_script_take.sha1));
			reply(peer, taken(true, 5, 0, 1));
		}
	rig_free(rig);
}

/* As many as were used up within a second, and a quarter more. */
static void test_units_follow_the_demand(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(true, 999, 0, 0, true));
	ask(rig, &asker, 7);
	/* holder, seq, after, spent, returned, wanted, nodes, ttl */
	assert_string_equal(said(peer), "3 1 1000 60000000 " HOLDER " 1 0 0 0 3 1 0");
	reply(peer, leased(true, 996, 2, 1000, true));
	assert_int_equal(info(rig)->leases, 1);
	assert_int_equal(info(rig)->leased_units, 2);
	assert_int_equal(spend(rig, 7, 5), 2);

	pass(rig, 10 * MS);
	ask(rig, &asker, 7); /* 5 in all, of which 1 % has leaked away */
	assert_string_equal(said(peer), "3 1 1000 60000000 " HOLDER " 2 1 2 0 6 1 0");
	reply(peer, leased(true, 990, 5, 1000, true));
	assert_int_equal(spend(rig, 7, 9), 5);
	assert_int_equal(info(rig)->counts.leases_granted, 1);
	assert_int_equal(info(rig)->counts.renewals, 1);
	assert_int_equal(info(rig)->counts.units_granted, 7);
	assert_int_equal(info(rig)->counts.units_spent, 2); /* the other 5 are not reported yet */
	rig_free(rig);
}

/* Of two questions at once one speaks for the lease; of two in a turn both go in its call. */
static void test_one_call_at_a_time_speaks(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 2);
	struct asker askers[4] = {{.done = 0}};

	(void)state;
	spend(rig, 7, 2);
	ask(rig, &askers[0], 7);
	ask(rig, &askers[1], 7);
	assert_string_equal(said(peer), "259 1 1000 60000000 2 " HOLDER " 2 1 2 0 8 1 0");
	ask(rig, &askers[2], 7);
	assert_string_equal(said(peer), "3 1 1000 60000000");
	reply(peer, "*10\r\n:1700000040000000\r\n:37\r\n:80\r\n:0\r\n:30000000\r\n:0\r\n:6\r\n"
		    ":1000000\r\n:1\r\n:30000000\r\n");
	assert_admitted(&askers[0]);
	assert_admitted(&askers[1]);
	reply(peer, leased(true, 79, 0, 0, true));
	assert_admitted(&askers[2]);
	assert_int_equal(spend(rig, 7, 9), 6);
	rig_free(rig);
}

/* The second question comes in the turn of the first: the call that both are in brings units. */
static void test_two_in_one_turn(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker askers[2] = {{.done = 0}};

	(void)state;
	ask(rig, &askers[0], 7);
	ask(rig, &askers[1], 7);
	assert_string_equal(said(peer), "259 1 1000 60000000 2 " HOLDER " 1 0 0 0 3 1 0");
	assert_null(next_command(peer));
	reply(peer, "*10\r\n:1700000040000000\r\n:37\r\n:80\r\n:0\r\n:30000000\r\n:0\r\n:2\r\n"
		    ":1000000\r\n:1\r\n:30000000\r\n");
	assert_admitted(&askers[0]);
	assert_admitted(&askers[1]);
	assert_int_equal(spend(rig, 7, 9), 2);
	rig_free(rig);
}

/* There is nothing to spare: questions go on alone for a sixteenth of a second. */
static void test_nothing_to_spare(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 0);
	struct asker asker = {.done = 0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		ask(rig, &asker, 7);
		assert_string_equal(said(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 3, 0, 0, true));
	}
	pass(rig, 63 * MS);
	ask(rig, &asker, 7);
	assert_non_null(strstr(said(peer), HOLDER " 2 0 0 0 "));
	rig_free(rig);
}

/* 100 a second: when an eighth of it is left, what was spent is reported and made good. */
static void test_renewal(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 100);
	const char *command;
	uint64_t sent_ns = rig->mono_ns;
	char want[96];
	int spent = 0, calls = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		pass(rig, 10 * MS);
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

/* What nobody spends goes back before its time is over. */
static void test_unused_units_are_returned(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 50);

	(void)state;
	pass(rig, 999 * MS);
	assert_string_equal(said(peer), "3 0 1000 60000000 " HOLDER " 2 1 0 50 0 1 0");
	assert_int_equal(spend(rig, 7, 1), 0);
	reply(peer, leased(true, 998, 0, 0, true));
	assert_int_equal(info(rig)->counts.units_returned, 50);
	assert_int_equal(info(rig)->counts.units_burnt, 0);
	assert_int_equal(info(rig)->leases, 0);
	pass(rig, 5 * SECOND);
	assert_null(next_command(peer));
	rig_free(rig);
}

/* A slot is the table's: another loop may have it when this one is through. */
static void test_a_slot_is_left_to_others(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 50);

	(void)state;
	assert_true(wr_lease_claim(table, (struct wr_key){7}, 99, rig->mono_ns) < 0);
	pass(rig, 999 * MS);
	said(peer);
	reply(peer, leased(true, 998, 0, 0, true));
	assert_true(wr_lease_claim(table, (struct wr_key){7}, 99, rig->mono_ns) >= 0);
	/* … and then this one asks strictly. */
	for (int i = 0; i < 3; i++) {
		struct asker asker = {.done = 0};

		ask(rig, &asker, 7);
		assert_string_equal(said(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 900, 0, 0, true));
	}
	rig_free(rig);
}

/* The connection is lost: on the next one the call comes again under its number, and nobody goes
 * along with it. */
static void test_a_lost_answer_is_asked_for_again(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	spend(rig, 7, 10);
	ask(rig, &asker, 7);
	assert_string_equal(said(peer), "3 1 1000 60000000 " HOLDER " 2 1 10 0 16 1 0");
	cut(peer, "reset");
	assert_failed(&asker);
	ask(rig, &asker, 7);
	pass(rig, 1 * MS);
	peer = peer_at(rig, 6379);
	assert_string_equal(said(peer), "3 1 1000 60000000");
	reply(peer, leased(true, 80, 0, 0, true));
	pass(rig, 100 * MS);
	assert_string_equal(said(peer), "3 0 1000 60000000 " HOLDER " 2 1 10 0 16 1 0");
	reply(peer, leased(true, 70, 13, 400, true));
	assert_int_equal(spend(rig, 7, 20), 13);
	rig_free(rig);
}

/* … but not for ever: what it may have brought has ended, and the holder says it has nothing. */
static void test_a_lost_answer_is_given_up(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	spend(rig, 7, 10);
	ask(rig, &asker, 7);
	said(peer);
	rig_trouble(rig, 6379)->refuses = true;
	cut(peer, "reset");
	pass(rig, 1500 * MS);
	rig_trouble(rig, 6379)->refuses = false;
	pass(rig, 1500 * MS);
	peer = peer_at(rig, 6379);
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(true, 80, 0, 0, true));
	ask(rig, &asker, 7);
	assert_non_null(strstr(said(peer), HOLDER " 3 0 0 0 "));
	rig_free(rig);
}

/* An answer that comes after what it brings has ended brings nothing. */
static void test_a_late_answer_is_void(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(true, 999, 0, 0, true));
	ask(rig, &asker, 7);
	said(peer);
	rig->mono_ns += 200 * MS; /* a pause of the whole process */
	reply(peer, leased(true, 900, 20, 150, true));
	assert_admitted(&asker);
	assert_int_equal(spend(rig, 7, 1), 0);
	assert_int_equal(info(rig)->leases, 0);
	assert_int_equal(info(rig)->counts.units_burnt, 20);
	rig_free(rig);
}

/* Time is counted from sending. */
static void test_units_end_in_time(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(true, 999, 0, 0, true));
	ask(rig, &asker, 7);
	said(peer);
	rig->mono_ns += 10 * MS;
	reply(peer, leased(true, 900, 20, 100, true));
	rig->mono_ns += 90 * MS - 1;
	assert_int_equal(spend(rig, 7, 1), 1);
	rig->mono_ns += 1;
	assert_int_equal(spend(rig, 7, 1), 0);
	rig_free(rig);
}

/* FLUSHALL, or a failover: all that Redis has forgotten is void, and what it grants now is not. */
static void test_forgotten_by_redis(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	assert_int_equal(spend(rig, 7, 4), 4);
	pass(rig, 900 * MS);
	said(peer);
	reply(peer, leased(true, 998, 3, 1000, false));
	assert_int_equal(info(rig)->counts.leases_voided, 1);
	assert_int_equal(spend(rig, 7, 10), 3);
	ask(rig, &asker, 7);
	assert_non_null(strstr(said(peer), HOLDER " 3 2 3 0 ")); /* from then on as ever */
	rig_free(rig);
}

/* The limit is another one: what was borrowed under the old one is not spent any more and goes
 * back with the next call. */
static void test_a_changed_limit(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct item item = {.key = 7, .cost = 1, .limit = 500, .leased = true};
	struct asker asker = {.done = 0};

	(void)state;
	assert_int_equal(spend(rig, 7, 4), 4);
	assert_false(spend_from(rig, 7, 500, 1));
	take(rig, &asker, &item, 1);
	assert_string_equal(said(peer), "3 1 500 60000000 " HOLDER " 2 1 4 6 9 1 0");
	reply(peer, leased(true, 400, 7, 1000, true));
	assert_int_equal(info(rig)->counts.units_returned, 6);
	assert_true(spend_from(rig, 7, 500, 1));
	assert_false(spend_from(rig, 7, LIMIT, 1));
	rig_free(rig);
}

/* An operator's reset: the counter and what is lent of it are deleted, and the units void. */
static void test_reset(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct item item = {.key = 7, .limit = LIMIT, .leased = true};

	(void)state;
	tell(rig, WR_QUESTION_RESET, &item, 1);
	assert_int_equal(spend(rig, 7, 1), 0);
	assert_string_equal(next_command(peer),
			    "DEL weir:1:{HAAAAAAAAAA-_________D}:fixed_window/1m "
			    "weir:1:{HAAAAAAAAAA-_________D}:l:fixed_window/1m");
	reply(peer, ":2\r\n");
	assert_int_equal(info(rig)->counts.leases_voided, 1);
	rig_free(rig);
}

/* Give-backs and reports of such a counter are the lease script's too. */
static void test_returns_and_reports(void **state)
{
	struct item back = {.key = 7, .cost = -2, .limit = LIMIT, .leased = true, .decided_us = 5};
	struct item more = {
		.key = 7, .cost = 3, .limit = LIMIT, .leased = true, .decided_us = NOW_US};
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	const char *command;

	(void)state;
	tell(rig, WR_QUESTION_RETURN, &back, 1);
	assert_string_equal(said(peer), "131 -2 1000 60000000 5");
	reply(peer, leased(true, 900, 0, 0, true));
	tell(rig, WR_QUESTION_REPORT, &more, 1);
	tell(rig, WR_QUESTION_REPORT, &more, 1);
	pass(rig, 300 * MS);
	command = next_command(peer);
	assert_non_null(command);
	assert_non_null(strstr(command, wr_script_lease.sha1));
	assert_non_null(strstr(command, " 3 weir:1:{"));
	assert_non_null(strstr(command, ":r:"));
	assert_non_null(strstr(command, " 643 6 1000 60000000 "));
	reply(peer, leased(true, 900, 0, 0, true));
	assert_int_equal(info(rig)->counts.reported, 1);
	rig_free(rig);
}

/* A refusal of Redis is known to every process of the node for a second. */
static void test_refusals_are_laid_into_the_table(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 0);
	struct weir_decision decision;
	struct asker asker = {.done = 0};
	uint32_t grant;

	(void)state;
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(false, 0, 0, 0, true));
	assert_refused(&asker);
	rig->mono_ns += 999 * MS;
	assert_int_equal(wr_lease_spend(table, (struct wr_key){7}, wr_lease_identity(LIMIT, 0, 0),
					1, rig->mono_ns, &decision, &grant),
			 WR_LEASE_REFUSED);
	assert_int_equal(decision.retry_after_ns, 4001 * MS);
	rig->mono_ns += 2 * MS;
	assert_int_equal(wr_lease_spend(table, (struct wr_key){7}, wr_lease_identity(LIMIT, 0, 0),
					1, rig->mono_ns, &decision, &grant),
			 WR_LEASE_NOTHING);
	rig_free(rig);
}

/* A lease of a window ends with it: near its end nothing is renewed for that. */
static void test_windows_end(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	(void)state;
	pass(rig, 59600 * MS); /* of a minute */
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(true, 999, 0, 0, true));
	for (int i = 0; i < 10; i++) {
		ask(rig, &asker, 7);
		said(peer);
		reply(peer, leased(true, 999, 0, 0, true));
	}
	pass(rig, 100 * MS);
	ask(rig, &asker, 7); /* 11 of them, less a tenth, this one, and a quarter; for 0.3 s */
	assert_non_null(strstr(said(peer), " 0 0 4 1 0"));
	reply(peer, leased(true, 900, 4, 300, true));
	assert_int_equal(spend(rig, 7, 1), 1);
	pass(rig, 299 * MS);
	assert_null(next_command(peer));
	assert_int_equal(spend(rig, 7, 1), 1);
	pass(rig, 2 * MS);
	assert_int_equal(spend(rig, 7, 1), 0);
	pass(rig, 100 * MS);
	assert_int_equal(info(rig)->counts.units_burnt, 2);
	ask(rig, &asker, 7); /* the next window: it begins anew, with the demand that is known */
	assert_non_null(strstr(said(peer), " 0 0 0 "));
	rig_free(rig);
}

/* Redis is away: what was borrowed is spent until its end, then nothing is. */
static void test_redis_is_away(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	cut(peer, "reset");
	pass(rig, 900 * MS);
	assert_int_equal(spend(rig, 7, 4), 4);
	pass(rig, 200 * MS);
	assert_int_equal(spend(rig, 7, 1), 0);
	pass(rig, 1000 * MS);
	assert_int_equal(info(rig)->counts.units_spent, 4);
	assert_int_equal(info(rig)->counts.units_burnt, 6);
	assert_int_equal(info(rig)->leases, 0);
	rig_free(rig);
}

static uint32_t drain(struct rig *rig)
{
	uint32_t left = wr_central_drain(rig->central, rig->now_ns, rig->mono_ns);

	turn(rig);
	return left;
}

/* The node shuts down: everything goes back, also what comes only now, and no more is borrowed. */
static void test_drain(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	borrow(rig, 8, 20);
	spend(rig, 8, 20);
	ask(rig, &asker, 8);
	said(peer); /* under way */
	assert_int_equal(drain(rig), 2);
	assert_string_equal(said(peer), "3 0 1000 60000000 " HOLDER " 4 1 0 10 0 1 0");
	assert_int_equal(spend(rig, 7, 1), 0);
	reply(peer, leased(true, 900, 30, 1000, true));
	pass(rig, 1 * MS);
	assert_string_equal(said(peer), "3 0 1000 60000000 " HOLDER " 5 3 0 30 0 1 0");
	reply(peer, leased(true, 900, 0, 0, true));
	assert_int_equal(drain(rig), 1);
	reply(peer, leased(true, 900, 0, 0, true));
	assert_int_equal(drain(rig), 0);
	assert_int_equal(info(rig)->counts.units_returned, 40);
	for (int i = 0; i < 3; i++) {
		ask(rig, &asker, 7);
		assert_string_equal(said(peer), "3 1 1000 60000000");
		reply(peer, leased(true, 900, 0, 0, true));
	}
	rig_free(rig);
}

static void test_drain_without_redis(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);

	(void)state;
	rig_trouble(rig, 6379)->refuses = true;
	cut(peer, "reset");
	assert_int_equal(drain(rig), 0);
	rig_free(rig);
}

/* The table is another one: what lies in the old one is not touched, and the holder is new. */
static void test_another_table(void **state)
{
	struct rig *rig = begin();
	struct peer *peer = borrow(rig, 7, 10);
	struct asker asker = {.done = 0};

	(void)state;
	wr_central_table(rig->central, table, 0x77);
	assert_int_equal(info(rig)->leases, 0);
	assert_int_equal(spend(rig, 7, 10), 10);
	pass(rig, 1100 * MS);
	ask(rig, &asker, 7);
	said(peer);
	reply(peer, leased(true, 900, 0, 0, true));
	ask(rig, &asker, 7);
	assert_non_null(strstr(said(peer), " 0000000000000077 2 0 0 0 "));
	rig_free(rig);
}

/* ---- a fleet of requests ---- */

/* Redis with room for all, which keeps books as the script does. */
struct model {
	uint64_t seq;
	uint32_t out;
};

#define MODELS 1000

struct lent {
	struct model models[MODELS];
	uint64_t calls, granted, spent, returned;
};

static void answer(struct peer *peer, struct lent *lent, const char *command)
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
	assert_int_equal(after, model->out ? model->seq : after); /* it is as we know it */
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
		answer(peer, lent, command);
}

/* 1,000 keys at about 100 a second each for ten seconds: at most 20 calls for 1,000 decisions, and
 * every unit is accounted for. */
static void test_calls_for_decisions(void **state)
{
	struct rig *rig = begin();
	struct lent *lent = calloc(1, sizeof *lent);
	uint64_t decisions = 0, strict = 0, random = 12345, calls_before = 0;
	const struct wr_central_counts *counts;

	(void)state;
	for (int ms = 0; ms < 11000; ms++) {
		if (ms == 1000) { /* the demand is known by then */
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
		pass(rig, MS);
		serve_all(rig, lent);
	}
	assert_in_range((lent->calls - calls_before) * 1000 / decisions, 5, 20);
	while (drain(rig))
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
#define LEASE_TEST(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)
	const struct CMUnitTest tests[] = {
		LEASE_TEST(test_a_cold_key_is_strict),
		LEASE_TEST(test_beside_strict_ones),
		LEASE_TEST(test_what_cannot_be_lent),
		LEASE_TEST(test_units_follow_the_demand),
		LEASE_TEST(test_one_call_at_a_time_speaks),
		LEASE_TEST(test_two_in_one_turn),
		LEASE_TEST(test_nothing_to_spare),
		LEASE_TEST(test_renewal),
		LEASE_TEST(test_unused_units_are_returned),
		LEASE_TEST(test_a_slot_is_left_to_others),
		LEASE_TEST(test_a_lost_answer_is_asked_for_again),
		LEASE_TEST(test_a_lost_answer_is_given_up),
		LEASE_TEST(test_a_late_answer_is_void),
		LEASE_TEST(test_units_end_in_time),
		LEASE_TEST(test_forgotten_by_redis),
		LEASE_TEST(test_a_changed_limit),
		LEASE_TEST(test_reset),
		LEASE_TEST(test_returns_and_reports),
		LEASE_TEST(test_refusals_are_laid_into_the_table),
		LEASE_TEST(test_windows_end),
		LEASE_TEST(test_redis_is_away),
		LEASE_TEST(test_drain),
		LEASE_TEST(test_drain_without_redis),
		LEASE_TEST(test_another_table),
		LEASE_TEST(test_calls_for_decisions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
