/* The exchange scripts: sums of other holders, merging by maximum, deleted states. States that come
 * late, twice, in any order or from another region lead to the same result. */
#include "algo/algo_test.h"
#include "redis/script_exchange.h"
#include "redis/server.h"

#define LIFE_US 60000000u
#define US "0000000a" /* tag of another region */
#define ASIA "0000000b"
#define RELAY_MS 60000
#define NOW 1000u /* number of the current window in Redis */

struct exchange_test {
	struct redis_server server;
	char exchange[41], push[41];
	uint64_t unit_ns; /* length of a window; the current window of Redis has number 1000 */
};

static void load_script(struct exchange_test *test, const struct wr_script *script, char sha1[41])
{
	redisReply *reply = redis_ask(&test->server, "SCRIPT LOAD %s", script->text);

	assert_string_equal(reply->str, script->sha1);
	snprintf(sha1, 41, "%s", reply->str);
	freeReplyObject(reply);
}

/* Returns the time in ns. A thousandth of the time since the epoch is several weeks, so the number
 * of the window does not change during the test. */
static uint64_t time_of(struct redis_server *server)
{
	redisReply *reply = redis_ask(server, "TIME");
	uint64_t seconds = strtoull(reply->element[0]->str, NULL, 10);

	freeReplyObject(reply);
	return seconds * 1000000000;
}

static int start_server(void **state)
{
	static struct exchange_test test;

	if (redis_server_start(&test.server) < 0)
		return -1;
	load_script(&test, &wr_redis_script_exchange, test.exchange);
	load_script(&test, &wr_redis_script_push, test.push);
	test.unit_ns = time_of(&test.server) / 1000;
	*state = &test;
	return 0;
}

static int stop_server(void **state)
{
	struct exchange_test *test = *state;

	if (test)
		redis_server_stop(&test->server);
	return 0;
}

static redisReply *run_call(struct exchange_test *test, struct wr_commands *out)
{
	void *reply = NULL;

	assert_true(wr_command_end(out));
	redisAppendFormattedCommand(test->server.link, (const char *)out->bytes + out->start,
				    wr_commands_len(out));
	wr_commands_free(out);
	assert_int_equal(redisGetReply(test->server.link, &reply), REDIS_OK);
	return reply;
}

static void begin_call(struct wr_commands *out, const char *sha1, const char *key, size_t args)
{
	wr_commands_init(out, 65536);
	wr_command_begin(out, 4 + args);
	wr_command_text(out, "EVALSHA");
	wr_command_text(out, sha1);
	wr_command_number(out, 1);
	wr_command_text(out, key);
}

static struct weir_str str(const char *text)
{
	return (struct weir_str){text, strlen(text)};
}

/* Calls the script. *raw gets the reply that contains the page, which the caller frees. If raw is
 * NULL, no page is expected. */
static struct wr_exchanged run_exchange(struct exchange_test *test, const char *key,
					const struct wr_redis_exchange_call *ask,
					struct wr_redis_exchange_page *page, redisReply **raw)
{
	struct wr_redis_exchange_call whole = *ask;
	struct wr_redis_exchange_page none;
	struct wr_exchanged got;
	struct wr_commands out;
	redisReply *reply;

	begin_call(&out, test->exchange, key, wr_script_exchange_argc());
	whole.unit_ns = test->unit_ns;
	wr_script_exchange_args(&whole, &out);
	reply = run_call(test, &out);
	if (wr_script_exchange_reply(reply, &got, raw ? page : &none))
		fail_msg("not an answer: %s", reply->str ? reply->str : "not even an error");
	if (raw) {
		*raw = reply;
		return got;
	}
	assert_int_equal(none.region.len, 0);
	freeReplyObject(reply);
	return got;
}

static struct wr_redis_exchange_call call_of(const char *holder,
					     struct wr_redis_exchange_state state)
{
	return (struct wr_redis_exchange_call){.holder = str(holder),
					       .state = state,
					       .life_us = LIFE_US,
					       .lacking = str(""),
					       .reached = str(""),
					       .relayed = str(""),
					       .last = str(""),
					       .relay_ms = RELAY_MS};
}

static struct wr_exchanged publish(struct exchange_test *test, const char *key, const char *holder,
				   struct wr_redis_exchange_state state)
{
	struct wr_redis_exchange_call ask = call_of(holder, state);

	return run_exchange(test, key, &ask, NULL, NULL);
}

static void run_push(struct exchange_test *test, const char *key,
		     const struct wr_redis_exchange_entry *entries, size_t count)
{
	struct wr_commands out;
	redisReply *reply;

	begin_call(&out, test->push, key, wr_script_push_argc(count));
	wr_script_push_args(entries, count, LIFE_US, &out);
	reply = run_call(test, &out);
	assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
	freeReplyObject(reply);
}

static struct wr_redis_exchange_state state_of(uint64_t window, uint64_t plus, uint64_t minus,
					       uint64_t before_plus, uint64_t before_minus)
{
	return (struct wr_redis_exchange_state){window, {plus, minus}, {before_plus, before_minus}};
}

static void assert_sums(struct wr_exchanged got, uint64_t plus, uint64_t minus,
			uint64_t before_plus, uint64_t before_minus, uint32_t others)
{
	assert_int_equal(got.now.plus, plus);
	assert_int_equal(got.now.minus, minus);
	assert_int_equal(got.before.plus, before_plus);
	assert_int_equal(got.before.minus, before_minus);
	assert_int_equal(got.others, others);
}

static void test_sums(void **state)
{
	assert_sums(publish(*state, "sum", "eu/a", state_of(7, 10, 1, 20, 2)), 0, 0, 0, 0, 0);
	assert_sums(publish(*state, "sum", "eu/b", state_of(7, 100, 0, 0, 0)), 10, 1, 20, 2, 1);
	assert_sums(publish(*state, "sum", "eu/a", state_of(7, 11, 1, 20, 2)), 100, 0, 0, 0, 1);
	/* One holder is a window ahead. Its previous window is the current window of this
	 * holder. */
	assert_sums(publish(*state, "sum", "us/c", state_of(8, 1000, 0, 300, 3)), 0, 0, 111, 1, 2);
	assert_sums(publish(*state, "sum", "eu/a", state_of(7, 11, 1, 20, 2)), 400, 3, 0, 0, 2);
	assert_sums(publish(*state, "sum", "eu/a", state_of(8, 1, 0, 11, 1)), 1000, 0, 400, 3, 2);
	/* A holder that is two windows ahead does not count in the sums. */
	assert_sums(publish(*state, "sum", "ap/d", state_of(9, 5, 0, 6, 0)), 0, 0, 1001, 0, 3);
	assert_sums(publish(*state, "sum", "eu/b", state_of(7, 100, 0, 0, 0)), 311, 4, 0, 0, 3);
}

/* Merging keeps the larger of two numbers, so no number becomes smaller. */
static void test_merging(void **state)
{
	publish(*state, "merge", "eu/a", state_of(7, 10, 5, 20, 2));
	publish(*state, "merge", "eu/a", state_of(7, 8, 6, 1, 1));
	assert_sums(publish(*state, "merge", "eu/b", state_of(7, 0, 0, 0, 0)), 10, 6, 20, 2, 1);
	/* A late state of the window before counts in that window. */
	publish(*state, "merge", "eu/a", state_of(6, 30, 1, 999, 9));
	assert_sums(publish(*state, "merge", "eu/b", state_of(7, 0, 0, 0, 0)), 10, 6, 30, 2, 1);
	publish(*state, "merge", "eu/a", state_of(3, 77, 7, 77, 7));
	assert_sums(publish(*state, "merge", "eu/b", state_of(7, 0, 0, 0, 0)), 10, 6, 30, 2, 1);
}

static void test_old_states_dropped(void **state)
{
	struct exchange_test *test = *state;
	struct wr_redis_exchange_call late = call_of("eu/a", state_of(NOW, 1, 0, 0, 0));

	publish(test, "drop", "eu/old", state_of(NOW - 5, 10, 0, 0, 0));
	publish(test, "drop", "eu/new", state_of(NOW - 4, 10, 0, 0, 0));
	redis_run(&test->server, "HSET drop eu/odd nonsense");
	late.oldest = NOW - 2;
	run_exchange(test, "drop", &late, NULL, NULL);
	assert_int_equal(redis_number(&test->server, "HEXISTS drop eu/old"), 0);
	assert_int_equal(redis_number(&test->server, "HEXISTS drop eu/odd"), 0);
	assert_int_equal(redis_number(&test->server, "HLEN drop"), 2);
	assert_in_range(redis_number(&test->server, "PTTL drop"), LIFE_US / 1000 - 30000,
			LIFE_US / 1000 + 1000);
}

/* Calls the script for a holder whose clock is in this window. */
static struct wr_exchanged publish_in(struct exchange_test *test, const char *key,
				      const char *holder, struct wr_redis_exchange_state state)
{
	struct wr_redis_exchange_call ask = call_of(holder, state);

	ask.oldest = state.window - 2;
	return run_exchange(test, key, &ask, NULL, NULL);
}

/* A holder with a fast or slow clock deletes no state of other holders. Neither does a Redis with a
 * fast clock. */
static void test_skewed_clocks_drop_nothing(void **state)
{
	struct exchange_test *test = *state;
	uint64_t year = 5000, past = 10;

	publish(test, "skew", "eu/a", state_of(NOW, 60, 0, 7, 0));
	publish(test, "skew", "eu/b", state_of(NOW, 40, 0, 3, 0));
	assert_sums(publish_in(test, "skew", "eu/ahead", state_of(year, 1, 0, 0, 0)), 0, 0, 0, 0,
		    2);
	publish_in(test, "skew", "eu/behind", state_of(past, 1, 0, 0, 0));
	assert_sums(publish_in(test, "skew", "eu/a", state_of(NOW, 60, 0, 7, 0)), 40, 0, 3, 0, 2);

	publish(test, "ahead", "eu/a", state_of(past, 60, 0, 7, 0));
	assert_sums(publish_in(test, "ahead", "eu/b", state_of(past, 0, 0, 0, 0)), 60, 0, 7, 0, 1);
}

/* Numbers that weir never writes cause no error. */
static void test_huge_numbers(void **state)
{
	const char *text = "7 99999999999999999999999999999999999999 9007199254740993 1 1";
	struct exchange_test *test = *state;

	for (int i = 0; i < 5; i++)
		redis_run(&test->server, "HSET huge eu/%d %s", i, text);
	assert_sums(publish(test, "huge", "eu/a", state_of(7, 1, 0, 0, 0)), WR_EXCHANGE_NUMBER_MAX,
		    WR_EXCHANGE_NUMBER_MAX, 5, 5, 5);
}

static void test_pushing(void **state)
{
	struct wr_redis_exchange_entry entries[2] = {{str("eu/a"), str("7 10 1 20 2")},
						     {str("eu/b"), str("7 3 0 4 0")}};
	struct exchange_test *test = *state;
	char value[WR_EXCHANGE_VALUE];
	struct wr_redis_exchange_state high = state_of(UINT64_MAX, UINT64_MAX, UINT64_MAX, 1, 0);
	size_t len;

	run_push(test, "there", entries, 2);
	assert_sums(publish(test, "there", "us/a", state_of(7, 0, 0, 0, 0)), 13, 1, 24, 2, 2);
	/* A repeated state and an older state change nothing. */
	entries[0].value.ptr = value;
	entries[0].value.len = wr_redis_exchange_value(
		&(struct wr_redis_exchange_state){7, {9, 9}, {1, 1}}, value);
	run_push(test, "there", entries, 1);
	assert_sums(publish(test, "there", "us/a", state_of(7, 0, 0, 0, 0)), 13, 9, 24, 2, 2);
	/* Malformed states are ignored. */
	entries[0].value = str("7 1 2 3");
	run_push(test, "there", entries, 1);
	assert_sums(publish(test, "there", "us/a", state_of(7, 0, 0, 0, 0)), 13, 9, 24, 2, 2);
	len = wr_redis_exchange_value(&high, value);
	assert_int_equal(len, strlen(value));
	assert_string_equal(value, "4503599627370496 4503599627370496 4503599627370496 1 0");
}

/* ---- relaying ---- */

static struct wr_redis_exchange_call seven_units(const char *holder)
{
	return call_of(holder, state_of(7, 1, 0, 0, 0));
}

/* Checks that the holder must relay these entries. Returns the time since which it relays. */
static uint64_t assert_relays(struct exchange_test *test, const char *key,
			      const struct wr_redis_exchange_call *ask, const char *region,
			      const char *names, bool more)
{
	struct wr_redis_exchange_page page;
	char text[WR_EXCHANGE_PAGE * 16] = "";
	redisReply *reply;

	run_exchange(test, key, ask, &page, &reply);
	if (page.region.len == 0)
		fail_msg("%s: nothing to relay", ask->holder.ptr);
	assert_memory_equal(page.region.ptr, region, WR_EXCHANGE_TAG);
	for (size_t i = 0; i < page.count; i++) {
		struct weir_str holder = page.entries[i].holder;

		snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s ", (int)holder.len,
			 holder.ptr);
		assert_memory_equal(page.entries[i].value.ptr, "7 1 0 0 0", 9);
	}
	assert_string_equal(text, names);
	assert_int_equal(page.more, more);
	freeReplyObject(reply);
	return page.since_us;
}

static void assert_relays_nothing(struct exchange_test *test, const char *key,
				  const struct wr_redis_exchange_call *ask)
{
	run_exchange(test, key, ask, NULL, NULL);
}

/* Only one holder relays at a time. No holder relays when all data has arrived. */
static void test_one_holder_relays(void **state)
{
	struct exchange_test *test = *state;
	struct wr_redis_exchange_call a = seven_units("eu/a"), b = seven_units("eu/b"),
				      c = seven_units("eu/c");

	publish(test, "relay", "eu-west/z", seven_units("").state);
	a.reached = b.reached = c.reached = str(ASIA US);
	assert_relays_nothing(test, "relay", &a);
	a.reached = str("");
	a.lacking = str(US);
	assert_relays_nothing(test, "relay", &a);
	b.relayed_us = assert_relays(test, "relay", &b, US, "eu/a ", false);
	assert_relays_nothing(test, "relay", &c);
	b.relayed = str(US); /* all data has arrived */
	assert_relays_nothing(test, "relay", &b);
	assert_relays_nothing(test, "relay", &c);
	assert_int_equal(redis_number(&test->server, "HLEN relay"), 4);
}

/* Data that is found to be lacking while a holder relays is relayed again, by any holder. */
static void test_lacking_while_relaying(void **state)
{
	struct exchange_test *test = *state;
	struct wr_redis_exchange_call a = seven_units("eu/a"), b = seven_units("eu/b"),
				      c = seven_units("eu/c");

	a.lacking = str(US);
	b.reached = c.reached = str(US);
	assert_relays_nothing(test, "again", &a);
	b.relayed_us = assert_relays(test, "again", &b, US, "eu/a ", false);
	assert_relays_nothing(test, "again", &a);
	b.relayed = str(US);
	b.reached = str("");
	assert_relays_nothing(test, "again", &b);
	c.relayed_us = assert_relays(test, "again", &c, US, "eu/a eu/b ", false);
	c.relayed = str(US);
	assert_relays_nothing(test, "again", &c);
	assert_int_equal(redis_number(&test->server, "HLEN again"), 3);
}

/* The relaying holder does not call any more, or starts again. */
static void test_another_holder_relays(void **state)
{
	struct exchange_test *test = *state;
	struct wr_redis_exchange_call a = seven_units("eu/a"), b = seven_units("eu/b"),
				      c = seven_units("eu/c");

	a.lacking = str(US);
	b.reached = c.reached = str(US);
	b.relay_ms = 0;
	assert_relays_nothing(test, "gone", &a);
	assert_relays(test, "gone", &b, US, "eu/a ", false);
	b.relayed_us = assert_relays(test, "gone", &b, US, "eu/a ", false);
	assert_relays(test, "gone", &c, US, "eu/a eu/b ", false);
	/* B has relayed all data, but c relays now. */
	b.relayed = str(US);
	b.reached = str("");
	assert_relays_nothing(test, "gone", &b);
	assert_relays(test, "gone", &c, US, "eu/a eu/b ", false);
}

#define MANY 130

/* If there is more than one page, the pages are in order, contain no entry twice, and contain only
 * entries of this region. */
static void test_pages(void **state)
{
	struct exchange_test *test = *state;
	struct wr_redis_exchange_call own = seven_units("eu/064");
	char names[3][WR_EXCHANGE_PAGE * 16] = {"", "", ""}, name[16];
	int at = 0;

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "eu/%03d", i);
		publish(test, "pages", name, own.state);
		if (i != 64) {
			char *list = names[at++ / WR_EXCHANGE_PAGE];

			snprintf(list + strlen(list), sizeof *names - strlen(list), "%s ", name);
		}
	}
	publish(test, "pages", "us/000", own.state);
	redis_run(&test->server, "HSET pages eu/%0100d %s", 5, "7 1 0 0 0");
	own.lacking = own.reached = str(US);
	own.relayed_us = assert_relays(test, "pages", &own, US, names[0], true);
	own.lacking = own.reached = str("");
	own.relayed = str(US);
	own.last = str("eu/063");
	assert_int_equal(assert_relays(test, "pages", &own, US, names[1], true), own.relayed_us);
	own.last = str("eu/128");
	assert_int_equal(assert_relays(test, "pages", &own, US, names[2], false), own.relayed_us);
	own.last = str("");
	assert_relays_nothing(test, "pages", &own);
	assert_int_equal(redis_number(&test->server, "HEXISTS pages @" US), 0);
}

/* Three holders of two regions publish their states from time to time. Some calls are repeated,
 * late and out of order, and the states of one Redis are pushed to the other. After a last call of
 * each holder, both servers have the same sums. */
#define HOLDERS 3

struct fleet {
	struct wr_redis_exchange_state now[HOLDERS], old_states[64];
	uint8_t whose[64];
	size_t old_count;
};

static const char *const names[HOLDERS] = {"eu/a", "eu/b", "us/c"};

static void admit_some(struct rnd *r, struct wr_redis_exchange_state *s)
{
	if (rnd_below(r, 6) == 0) {
		s->before = s->now;
		s->now = (struct wr_redis_exchange_tally){0};
		s->window++;
	}
	s->now.plus += rnd_below(r, 10);
	s->now.minus += rnd_below(r, 3) == 0;
}

static void push_one(struct exchange_test *test, const char *key, size_t holder,
		     const struct wr_redis_exchange_state *s)
{
	char value[WR_EXCHANGE_VALUE];
	struct wr_redis_exchange_entry entry = {str(names[holder]),
						{value, wr_redis_exchange_value(s, value)}};

	run_push(test, key, &entry, 1);
}

static void send_random_call(struct exchange_test *test, struct rnd *r, struct fleet *fleet)
{
	size_t i = rnd_below(r, HOLDERS), old;
	const char *home = i < 2 ? "eu" : "us";

	admit_some(r, &fleet->now[i]);
	if (rnd_below(r, 3) == 0)
		return; /* the call is lost */
	publish(test, home, names[i], fleet->now[i]);
	if (rnd_below(r, 2))
		push_one(test, i < 2 ? "us" : "eu", i, &fleet->now[i]);
	old = rnd_below(r, 64);
	if (old < fleet->old_count)
		push_one(test, rnd_below(r, 2) ? "us" : "eu", fleet->whose[old],
			 &fleet->old_states[old]);
	if (fleet->old_count < 64) {
		fleet->whose[fleet->old_count] = (uint8_t)i;
		fleet->old_states[fleet->old_count++] = fleet->now[i];
	}
}

static void test_convergence(void **state)
{
	struct exchange_test *test = *state;
	struct rnd r = {rnd_seed()};

	for (int run = 0; run < 40; run++) {
		struct fleet fleet = {.old_count = 0};
		struct wr_exchanged eu, us;
		uint64_t window = 100;

		redis_run(&test->server, "DEL eu us");
		for (size_t i = 0; i < HOLDERS; i++)
			fleet.now[i].window = 100;
		for (int step = 0; step < 60; step++)
			send_random_call(test, &r, &fleet);
		for (size_t i = 0; i < HOLDERS; i++) {
			publish(test, i < 2 ? "eu" : "us", names[i], fleet.now[i]);
			push_one(test, i < 2 ? "us" : "eu", i, &fleet.now[i]);
			if (fleet.now[i].window > window)
				window = fleet.now[i].window;
		}
		eu = publish(test, "eu", "xx/x", state_of(window, 0, 0, 0, 0));
		us = publish(test, "us", "xx/x", state_of(window, 0, 0, 0, 0));
		assert_memory_equal(&eu, &us, sizeof eu);
		for (size_t i = 0; i < HOLDERS; i++) {
			const struct wr_redis_exchange_state *s = &fleet.now[i];

			if (s->window == window)
				eu.now.plus -= s->now.plus, eu.before.plus -= s->before.plus;
			else if (s->window == window - 1)
				eu.before.plus -= s->now.plus;
		}
		assert_int_equal(eu.now.plus, 0);
		assert_int_equal(eu.before.plus, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_merging),
		cmocka_unit_test(test_old_states_dropped),
		cmocka_unit_test(test_huge_numbers),
		cmocka_unit_test(test_skewed_clocks_drop_nothing),
		cmocka_unit_test(test_pushing),
		cmocka_unit_test(test_one_holder_relays),
		cmocka_unit_test(test_lacking_while_relaying),
		cmocka_unit_test(test_another_holder_relays),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_convergence),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
