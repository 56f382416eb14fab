/* Counters that nodes tell each other about: what goes to Redis and when, what comes back into the
 * table, and what other regions are told. The test is Redis, here and there. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "central/exchange.h"

#define URL "redis://127.0.0.1:6379"
#define FAR "redis://127.0.0.2:6380"
#define OWNER 0xabcdefull
#define SYNC (100 * MS)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define WINDOW (NOW_NS / MINUTE)

static struct weir_table *table;

static int open_table(void **state)
{
	char dir[] = "/tmp/weir-test-exchange-XXXXXX";
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "exchange",
				 .dir = mkdtemp(dir),
				 .memory_bytes = 64 << 20,
				 .now_ns = NOW_NS};
	char path[64];

	(void)state;
	if (weir_open(&opts, &table, NULL) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/exchange", dir);
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

static const struct wr_central_opts *node_opts(const char *region)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	static struct wr_central_opts opts;

	opts = (struct wr_central_opts){.holder = {0xa1b2c3d400000000, 0xb},
					.secret = secret,
					.table = table,
					.owner = OWNER,
					.timeout_ns = 20 * MS,
					.sync_ns = SYNC,
					.region = region,
					.chief = true};
	return &opts;
}

/* ---- deciders ---- */

static const struct weir_limit fixed = {.size = sizeof fixed,
					.algorithm = WEIR_FIXED_WINDOW,
					.limit = 100,
					.period_ns = MINUTE,
					.capacity = 100,
					.ceiling = 100};

static int claim(const struct rig *rig, uint64_t key)
{
	struct wr_exchange_name name = {.fleet_key = {key, 7},
					.algorithm = WEIR_FIXED_WINDOW,
					.limit = 100,
					.period_ns = MINUTE,
					.id_len = 15,
					.id = "fixed_window/1m"};

	return wr_exchange_claim(table, (struct wr_key){key}, &name, rig->mono_ns);
}

static int use(const struct rig *rig, uint64_t key, int64_t cost)
{
	int slot = claim(rig, key);

	if (slot >= 0)
		wr_exchange_count(table, slot, &fixed, cost, rig->now_ns, rig->mono_ns);
	return slot;
}

static uint32_t charged(const struct rig *rig, int slot)
{
	return wr_exchange_charged(table, slot, &fixed, rig->now_ns);
}

/* ---- Redis ---- */

/* The next command, which is a call of the script: what stands behind the id of its key. */
static const char *behind_key(struct peer *peer, const struct wr_script *script)
{
	const char *command = next_command(peer), *at;
	char begin[80];

	assert_non_null(command);
	snprintf(begin, sizeof begin, "EVALSHA %s 1 weir:1:{", script->sha1);
	assert_memory_equal(command, begin, strlen(begin));
	at = strstr(command, "}:e:fixed_window/1m ");
	assert_non_null(at);
	return at + strlen("}:e:fixed_window/1m ");
}

/* What is said of the state: "window plus minus plus minus oldest life region". */
static void assert_said(struct peer *peer, const char *region, const char *state)
{
	const char *said = behind_key(peer, &wr_script_exchange);
	char begin[64];

	snprintf(begin, sizeof begin, "%s/a1b2c3d4.", region);
	assert_memory_equal(said, begin, strlen(begin));
	said = strchr(said, ' ');
	assert_non_null(said);
	assert_string_equal(said + 1, state);
}

static const char *state_text(uint64_t window, int plus, int minus, int before, const char *region)
{
	static char text[160];

	snprintf(text, sizeof text, "%llu %d %d %d 0 %llu 121000 %s", (unsigned long long)window,
		 plus, minus, before, (unsigned long long)window - 2, region);
	return text;
}

static const char *sums(int plus, int minus, int before, int others)
{
	static char bytes[128];

	snprintf(bytes, sizeof bytes, "*5\r\n:%d\r\n:%d\r\n:%d\r\n:0\r\n:%d\r\n", plus, minus,
		 before, others);
	return bytes;
}

static void free_slots(struct rig *rig)
{
	rig_free(rig);
	close_table(NULL);
	assert_int_equal(open_table(NULL), 0);
}

/* ---- one region ---- */

static void test_used_counters_are_exchanged(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot;

	(void)state;
	pass(rig, 3 * SYNC);
	assert_null(next_command(peer));
	slot = use(rig, 1, 5);
	use(rig, 1, -2);
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW, 5, 2, 0, ""));
	assert_null(next_command(peer));
	reply(peer, sums(30, 1, 8, 2));
	turn(rig);
	assert_int_equal(charged(rig, slot), 29);
	assert_true(wr_exchange_fresh(table, slot, rig->mono_ns));
	/* Nothing happens: nothing is said. */
	pass(rig, 5 * SYNC);
	assert_null(next_command(peer));
	use(rig, 1, 1);
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW, 6, 2, 0, ""));
	reply(peer, sums(33, 1, 8, 2));
	turn(rig);
	assert_int_equal(charged(rig, slot), 32);
	assert_int_equal(info(rig)->counts.exchanges, 2);
	/* 5 were admitted between two turns, by two others as well, in 100 ms and no time. */
	assert_int_equal(info(rig)->overshoot_ppm, 2 * 5 * 10000);
	free_slots(rig);
}

static void test_windows_go_on(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot = use(rig, 1, 5);

	(void)state;
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW, 5, 0, 0, ""));
	reply(peer, sums(10, 0, 0, 1));
	pass(rig, MINUTE);
	use(rig, 1, 1);
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW + 1, 1, 0, 5, ""));
	reply(peer, sums(2, 0, 15, 1));
	turn(rig);
	assert_int_equal(charged(rig, slot), 2);
	free_slots(rig);
}

/* An answer that does not come is asked for again, in the numbers of then. */
static void test_lost_answers(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot = use(rig, 1, 5);

	(void)state;
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW, 5, 0, 0, ""));
	use(rig, 1, 1);
	pass(rig, 2 * SYNC); /* one at a time */
	assert_null(next_command(peer));
	cut(peer, "gone");
	pass(rig, SECOND / 2);
	peer = peer_at(rig, 6379);
	assert_said(peer, "-", state_text(WINDOW, 6, 0, 0, ""));
	assert_false(wr_exchange_fresh(table, slot, rig->mono_ns));
	reply(peer, sums(7, 0, 0, 1));
	turn(rig);
	assert_int_equal(charged(rig, slot), 7);
	assert_true(wr_exchange_fresh(table, slot, rig->mono_ns));
	assert_int_equal(info(rig)->counts.exchanges_failed, 1);
	/* An error is no answer either. */
	use(rig, 1, 1);
	pass(rig, SYNC);
	assert_non_null(next_command(peer));
	reply(peer, "-OOM command not allowed\r\n");
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW, 7, 0, 0, ""));
	reply(peer, "+OK\r\n");
	pass(rig, SYNC);
	assert_said(peer, "-", state_text(WINDOW, 7, 0, 0, ""));
	free_slots(rig);
}

static void test_away(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));

	(void)state;
	use(rig, 1, 5);
	rig_trouble(rig, 6379)->refuses = true;
	cut(peer_at(rig, 6379), "gone");
	pass(rig, SECOND);
	assert_false(wr_exchange_fresh(table, claim(rig, 1), rig->mono_ns));
	rig_trouble(rig, 6379)->refuses = false;
	for (int i = 0; i < 30 && !peer_at(rig, 6379); i++)
		pass(rig, SYNC);
	pass(rig, 2 * SYNC);
	assert_said(peer_at(rig, 6379), "-", state_text(WINDOW, 5, 0, 0, ""));
	free_slots(rig);
}

/* No more than 1024 at once; the others as soon as there is room. */
static void test_many(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int calls = 0, used = 0;

	(void)state;
	for (uint64_t key = 1; used < 1500; key++)
		used += use(rig, key * 0x9e3779b97f4a7c15u, 1) >= 0;
	pass(rig, SYNC);
	while (next_command(peer))
		calls++;
	assert_int_equal(calls, WR_EXCHANGES_MAX);
	for (int i = 0; i < calls; i++)
		reply(peer, sums(0, 0, 0, 0));
	turn(rig);
	while (next_command(peer))
		calls++;
	assert_int_equal(calls, 1500);
	for (int i = WR_EXCHANGES_MAX; i < calls; i++)
		reply(peer, sums(0, 0, 0, 0));
	pass(rig, 2 * SYNC);
	assert_null(next_command(peer));
	assert_int_equal(info(rig)->counts.exchanges, 1500);
	free_slots(rig);
}

/* The table becomes another one while a call is under way. */
static void test_another_table(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer = peer_at(rig, 6379);
	int slot = use(rig, 1, 5);

	(void)state;
	pass(rig, SYNC);
	assert_non_null(next_command(peer));
	wr_central_table(rig->central, table, OWNER + 2);
	reply(peer, sums(50, 0, 0, 1));
	turn(rig);
	assert_int_equal(charged(rig, slot), 0);
	free_slots(rig);
}

static void test_other_loops_leave_it_alone(void **state)
{
	struct wr_central_opts opts = *node_opts(NULL);
	struct rig *rig;

	(void)state;
	opts.chief = false;
	rig = rig_new(URL, &opts);
	use(rig, 1, 5);
	pass(rig, 5 * SYNC);
	assert_null(next_command(peer_at(rig, 6379)));
	free_slots(rig);
}

static void test_drained(void **state)
{
	struct rig *rig = rig_new(URL, node_opts(NULL));
	struct peer *peer;

	(void)state;
	pass(rig, SYNC);
	assert_int_equal(wr_central_drain(rig->central, rig->now_ns, rig->mono_ns), 0);
	free_slots(rig);
	rig = rig_new(URL, node_opts(NULL));
	peer = peer_at(rig, 6379);
	pass(rig, SYNC);
	use(rig, 1, 5);
	assert_int_equal(wr_central_drain(rig->central, rig->now_ns, rig->mono_ns), 1);
	turn(rig);
	assert_said(peer, "-", state_text(WINDOW, 5, 0, 0, ""));
	reply(peer, sums(0, 0, 0, 0));
	turn(rig);
	assert_int_equal(wr_central_drain(rig->central, rig->now_ns, rig->mono_ns), 0);
	/* Nobody is waited for for long. */
	use(rig, 1, 5);
	pass(rig, SYNC);
	assert_int_equal(wr_central_drain(rig->central, rig->now_ns, rig->mono_ns), 1);
	rig->mono_ns += SECOND;
	assert_int_equal(wr_central_drain(rig->central, rig->now_ns, rig->mono_ns), 0);
	free_slots(rig);
}

/* ---- several ---- */

static struct rig *region(struct rig *home)
{
	struct rig *far = rig_new(FAR, NULL);

	wr_central_peer(home->central, far->central);
	return far;
}

/* Time passes in both places. */
static void pass_both(struct rig *home, struct rig *far, uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += 10 * MS) {
		pass(home, 10 * MS);
		pass(far, 10 * MS);
	}
}

/* … until the one at home is asked something. */
static void pass_until_asked(struct rig *home, struct rig *far)
{
	for (int i = 0; i < 1000; i++) {
		const struct peer *here = peer_at(home, 6379);

		if (here && here->waiting > here->taken)
			return;
		pass_both(home, far, 10 * MS);
	}
	fail_msg("nothing is asked");
}

static void free_both(struct rig *home, struct rig *far)
{
	rig_free(far);
	free_slots(home);
}

/* "life", then name and state of each that is told. */
static void assert_pushed(struct peer *peer, const char *told)
{
	const char *said = behind_key(peer, &wr_script_push);
	char text[256];

	snprintf(text, sizeof text, "121000 %s", told);
	if (strncmp(said, text, strlen(text)) != 0)
		fail_msg("told %s, not %s", said, text);
}

static void test_regions_are_told(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region(home);
	struct peer *here = peer_at(home, 6379), *there = peer_at(far, 6380);

	(void)state;
	use(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, ""));
	assert_null(next_command(there)); /* not before the own Redis has it */
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, "eu/a1b2c3d4.");
	/* More of it while that is under way: told when it is done, at once. */
	use(home, 1, 1);
	pass_both(home, far, SYNC);
	assert_said(here, "eu", state_text(WINDOW, 6, 0, 0, ""));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_null(next_command(there));
	reply(there, ":1\r\n");
	pass_both(home, far, SYNC);
	/* It is owed something: all that its region knows of it is asked for. */
	assert_said(here, "eu", state_text(WINDOW, 6, 0, 0, "eu/"));
	reply(here, "*9\r\n:0\r\n:0\r\n:0\r\n:0\r\n:1\r\n$4\r\neu/x\r\n$9\r\n1 2 3 4 5\r\n"
		    "$4\r\neu/y\r\n$9\r\n6 7 8 9 0\r\n");
	pass_both(home, far, 10 * MS);
	assert_pushed(there, "eu/x 1 2 3 4 5 eu/y 6 7 8 9 0");
	reply(there, ":1\r\n");
	pass_both(home, far, 3 * SYNC);
	assert_null(next_command(here));
	assert_null(next_command(there));
	assert_int_equal(info(home)->counts.pushes, 2);
	assert_int_equal(info(home)->regions, 1);
	assert_int_equal(info(home)->regions_up, 1);
	free_both(home, far);
}

/* A region that is away is told when it is back, though nothing was used since. */
static void test_a_region_comes_back(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region(home);
	struct peer *here = peer_at(home, 6379);

	(void)state;
	rig_trouble(far, 6380)->refuses = true;
	cut(peer_at(far, 6380), "gone");
	use(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, ""));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, SECOND);
	assert_null(next_command(here));
	assert_int_equal(info(home)->regions_up, 0);
	rig_trouble(far, 6380)->refuses = false;
	pass_until_asked(home, far);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, "eu/"));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(peer_at(far, 6380), "eu/a1b2c3d4.");
	/* It goes again before it has answered: still owed. */
	cut(peer_at(far, 6380), "gone again");
	pass_until_asked(home, far);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, "eu/"));
	assert_int_equal(info(home)->counts.pushes_failed, 1);
	free_both(home, far);
}

/* The other way round, with calls under way in both. */
static void test_the_home_goes_first(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region(home);

	(void)state;
	use(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_non_null(next_command(peer_at(home, 6379)));
	reply(peer_at(home, 6379), sums(0, 0, 0, 0));
	use(home, 2, 5);
	pass_both(home, far, SYNC);
	free_slots(home);
	rig_free(far);
}

static void test_bound(void **state)
{
	(void)state;
	/* Alone there is no overshoot; with two others at 10 of 100 a turn it is a fifth. */
	assert_int_equal(wr_overshoot_ppm(10, 0, 100, SYNC, 0), 0);
	assert_int_equal(wr_overshoot_ppm(10, 2, 100, SYNC, 0), 200000);
	/* The way takes as long as a turn: twice as much. */
	assert_int_equal(wr_overshoot_ppm(10, 2, 100, SYNC, SYNC), 400000);
	/* Nobody admits more than his limit. */
	assert_int_equal(wr_overshoot_ppm(1000, 2, 100, SYNC, SYNC), 2000000);
	assert_int_equal(wr_overshoot_ppm(UINT64_MAX, UINT32_MAX, 1, 1, UINT64_MAX - 1),
			 UINT32_MAX);
	assert_int_equal(wr_overshoot_ppm(10, 2, 0, SYNC, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_used_counters_are_exchanged),
		cmocka_unit_test(test_windows_go_on),
		cmocka_unit_test(test_lost_answers),
		cmocka_unit_test(test_away),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_another_table),
		cmocka_unit_test(test_other_loops_leave_it_alone),
		cmocka_unit_test(test_drained),
		cmocka_unit_test(test_regions_are_told),
		cmocka_unit_test(test_a_region_comes_back),
		cmocka_unit_test(test_the_home_goes_first),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, open_table, close_table);
}
