/* Three nodes on one real Redis. Each node has a table, an engine and a struct wr_central. 50 clients
 * send requests at once, and settle them when they know what they used. The period of the limits is a
 * year, so that no window ends during the test. */
#include "live.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "limiter/ask.h"
#include "table/table.h"

#define NODES 3
#define CLIENTS 50

static const uint8_t secret[WR_CENTRAL_SECRET] = "the fleet's";

struct node {
	struct live live;
	struct weir_table *table;
	struct weir_engine *engine;
};

struct client {
	_Alignas(64) char memory[WEIR_ASK_BYTES];
	struct wr_central_ask question;
	struct node *node;
	struct weir_ask *ask;
	bool asking;
	bool serving; /* the request was admitted and is not settled */
	int verdict;
};

static struct redis_server server;
static struct node nodes[NODES];
static struct client clients[CLIENTS];

/* ---- nodes ---- */

static struct weir_rules *load_rules(const char *limits)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;
	char path[64], text[2048];
	int fd = memfd_create("rules", 0);

	snprintf(text, sizeof text, "domain: d\ndescriptors:\n- key: tenant\n  rate_limits:\n%s",
		 limits);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (weir_rules_load(path, &rules, &errors) != 0) {
		weir_diagnostic_text(&errors.items[0], text, sizeof text);
		fail_msg("%s", text);
	}
	weir_errors_free(&errors);
	close(fd);
	return rules;
}

static void open_node(struct node *node, const char *limits)
{
	static uint64_t number;
	struct weir_opts opts = {.size = sizeof opts, .dir = "/dev/shm", .memory_bytes = 1 << 20};
	struct weir_engine_opts engine = {.size = sizeof engine,
					  .flags = WEIR_ENGINE_CENTRAL | WEIR_ENGINE_NO_STATS,
					  .fleet_secret = secret,
					  .fleet_size = NODES,
					  .now_ns = clock_ns(CLOCK_REALTIME)};
	struct wr_central_opts central = {.secret = secret, .fleet_size = NODES};
	struct weir_error error = {0};
	char name[64];

	*node = (struct node){0};
	snprintf(name, sizeof name, "test-fleet-%d-%llu", (int)getpid(),
		 (unsigned long long)number++);
	opts.name = name;
	if (weir_open(&opts, &node->table, &error) != 0)
		fail_msg("%s", error.text);
	weir_remove(name, opts.dir, NULL);
	assert_int_equal(weir_engine_new(node->table, load_rules(limits), &engine, &node->engine),
			 0);
	central.table = node->table;
	central.owner = 100 + number;
	open_live(&node->live, &server, 10 + number, &central);
}

/* Ends the node as SIGKILL does: it gives nothing back. */
static void kill_node(struct node *node)
{
	for (int i = 0; i < CLIENTS; i++) {
		struct client *client = &clients[i];

		if (client->node != node || !client->ask)
			continue;
		assert_false(client->asking);
		weir_ask_done(client->ask);
		client->ask = NULL;
		client->serving = false;
	}
	wr_central_free(node->live.rig.central);
	weir_engine_free(node->engine);
	weir_close(node->table);
	node->live.rig.central = NULL;
}

static void open_fleet(const char *limits)
{
	redis_run(&server, "FLUSHALL");
	for (int i = 0; i < NODES; i++)
		open_node(&nodes[i], limits);
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = (struct client){.node = &nodes[i % NODES]};
}

static void close_fleet(void)
{
	for (int i = 0; i < NODES; i++)
		if (nodes[i].live.rig.central)
			kill_node(&nodes[i]);
}

static void run_fleet(void)
{
	for (int i = 0; i < NODES; i++)
		if (nodes[i].live.rig.central)
			run_step(&nodes[i].live);
}

#define until_fleet(condition) until_stepped(run_fleet(), condition)

static uint64_t settled(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < NODES; i++)
		if (nodes[i].live.rig.central) {
			const struct wr_central_info *now = info(&nodes[i].live.rig);

			sum += now->counts.returned + now->counts.owed;
			assert_int_equal(now->counts.returns_lost + now->counts.owed_lost, 0);
		}
	return sum;
}

/* ---- clients ---- */

static void end_request(struct client *client)
{
	weir_ask_done(client->ask);
	client->ask = NULL;
	client->serving = false;
}

static void send_messages(struct client *client)
{
	uint8_t message[WEIR_QUESTION_MAX];
	int len;

	while ((len = weir_ask_question(client->ask, message, sizeof message)) > 0)
		wr_central_send(client->node->live.rig.central, message, (size_t)len,
				clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC));
}

static void decided(struct client *client, int verdict)
{
	client->asking = false;
	client->verdict = verdict;
	client->serving = verdict == WEIR_ADMIT;
	send_messages(client);
}

static void on_answer(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct client *client = wr_container_of(question, struct client, question);

	assert_true(len > 0);
	decided(client, weir_ask_answer(client->ask, answer, len, clock_ns(CLOCK_REALTIME)));
}

/* Begins a request that reserves `cost` units. */
static void depart(struct client *client, int64_t cost)
{
	struct weir_entry entry = {.key = WR_STR("tenant"), .value = WR_STR("t")};
	uint8_t question[WEIR_QUESTION_MAX];
	int verdict, len;

	assert_null(client->ask);
	assert_int_equal(weir_ask_init(client->memory, sizeof client->memory, client->node->engine,
				       WR_STR("d"), &client->ask),
			 0);
	assert_int_equal(weir_ask_add(client->ask, &entry, 1, NULL, cost), 0);
	verdict = weir_ask_decide(client->ask, clock_ns(CLOCK_REALTIME));
	if (verdict != WEIR_WAIT) {
		decided(client, verdict);
		return;
	}
	client->asking = true;
	len = weir_ask_question(client->ask, question, sizeof question);
	assert_true(len > 0);
	client->question = (struct wr_central_ask){.done = on_answer};
	wr_central_take(client->node->live.rig.central, &client->question, question, (size_t)len,
			clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC));
}

/* Begins a request that is decided without Redis, as if Redis did not answer. */
static void depart_alone(struct client *client, int64_t cost)
{
	struct weir_entry entry = {.key = WR_STR("tenant"), .value = WR_STR("t")};
	uint64_t now_ns = clock_ns(CLOCK_REALTIME);

	assert_null(client->ask);
	assert_int_equal(weir_ask_init(client->memory, sizeof client->memory, client->node->engine,
				       WR_STR("d"), &client->ask),
			 0);
	assert_int_equal(weir_ask_add(client->ask, &entry, 1, NULL, cost), 0);
	assert_int_equal(weir_ask_decide(client->ask, now_ns), WEIR_WAIT);
	decided(client, weir_ask_store_failed(client->ask, now_ns));
}

static void settle(struct client *client, int64_t actual)
{
	assert_int_equal(weir_ask_settle(client->ask, actual, clock_ns(CLOCK_REALTIME)), 0);
	send_messages(client);
	end_request(client);
}

static int count_clients(bool serving)
{
	int count = 0;

	for (int i = 0; i < CLIENTS; i++)
		count += serving ? clients[i].serving : clients[i].asking;
	return count;
}

/* Drops what the nodes remember of refusals. They remember a refusal for up to a second. */
static void forget_refusals(void)
{
	for (int i = 0; i < NODES; i++)
		wr_central_forget(nodes[i].live.rig.central, NULL);
}

/* ---- tests ---- */

/* Each of 50 clients sends 10 requests. A request stays in flight for up to 4 turns of the loop.
 * Returns the sum of the units that were used. */
static int64_t send_crowd(int64_t reserve, int64_t actual)
{
	int64_t sum = 0;
	int sent[CLIENTS] = {0}, open = CLIENTS, turn = 0;

	while (open > 0) {
		open = 0;
		for (int i = 0; i < CLIENTS; i++) {
			struct client *client = &clients[i];

			if (client->serving && (turn + i) % 4 == 0) {
				settle(client, actual);
				sum += actual;
			} else if (client->ask && !client->asking && !client->serving) {
				end_request(client);
			}
			if (!client->ask && sent[i] < 10) {
				depart(client, reserve);
				sent[i]++;
			}
			open += client->ask != NULL;
		}
		run_fleet();
		turn++;
		assert_true(turn < 100000);
	}
	return sum;
}

/* Each client reserves 600 of 10,000 units and uses 500. Whatever the order of the messages is, no
 * more than 10,000 units are used. When all refunds have arrived, requests are admitted one by one,
 * until 19 were admitted: then 500 units are left, and 600 do not fit. */
static void reserve_600_use_500(const char *algorithm, const char *consistency, bool exact)
{
	char limits[256];
	int64_t sum;

	snprintf(limits, sizeof limits,
		 "  - {period: 8760h, requests_per_unit: 10000, algorithm: %s, consistency: %s, "
		 "on_store_failure: deny}\n",
		 algorithm, consistency);
	open_fleet(limits);
	sum = send_crowd(600, 500);
	assert_true(sum > 0 && sum <= 10000);
	for (int i = 0; exact && i < CLIENTS; i++) {
		until_fleet(settled() == (uint64_t)sum / 500);
		forget_refusals();
		depart(&clients[i], 600);
		until_fleet(!clients[i].asking);
		if (!clients[i].serving) {
			end_request(&clients[i]);
			break;
		}
		settle(&clients[i], 500);
		sum += 500;
	}
	if (exact)
		assert_int_equal(sum, 9500);
	assert_true(sum <= 10000);
	close_fleet();
}

static void test_reserve_600_use_500(void **state)
{
	(void)state;
	reserve_600_use_500("fixed_window", "strict", true);
	reserve_600_use_500("token_bucket", "strict", true);
	reserve_600_use_500("sliding_window_counter", "strict", true);
	reserve_600_use_500("sliding_window_log", "strict", true);
}

static void test_reserve_600_use_500_of_leases(void **state)
{
	(void)state;
	reserve_600_use_500("fixed_window", "lease", false);
	reserve_600_use_500("token_bucket", "lease", false);
}

/* 50 requests are in flight, each reserves 100 and uses 500. The overshoot is at most what was in
 * flight. Then no request is admitted, because the debt has to be paid first. */
static void test_reserve_100_use_500(void **state)
{
	struct client *late = &clients[0];
	const struct weir_decision *decision;

	(void)state;
	open_fleet("  - {period: 8760h, requests_per_unit: 10000, max_debt: 20000, "
		   "algorithm: token_bucket, on_store_failure: deny}\n");
	for (int i = 0; i < CLIENTS; i++)
		depart(&clients[i], 100);
	until_fleet(count_clients(false) == 0);
	assert_int_equal(count_clients(true), CLIENTS);
	for (int i = 0; i < CLIENTS; i++)
		settle(&clients[i], 500);
	until_fleet(settled() == CLIENTS);
	for (int i = 0; i < CLIENTS; i++)
		depart(&clients[i], 1);
	until_fleet(count_clients(false) == 0);
	assert_int_equal(count_clients(true), 0);
	decision = &late->ask->needs[0].need.decision;
	assert_int_equal(decision->remaining, 0);
	assert_int_equal(decision->debt, CLIENTS * 500 - 10000);
	assert_true(decision->retry_after_ns > YEAR_NS);
	for (int i = 0; i < CLIENTS; i++)
		end_request(&clients[i]);
	close_fleet();
}

/* 20 slots, 50 clients on three nodes: 20 requests are in flight. Each slot that is given back is
 * free for a request of another node. */
static void test_slots(void **state)
{
	int served = 0;

	(void)state;
	open_fleet("  - {concurrent: 20, max_hold: 1h, on_store_failure: deny}\n");
	while (served < 5 * CLIENTS) {
		for (int i = 0; i < CLIENTS; i++)
			if (!clients[i].ask)
				depart(&clients[i], 1 + i);
		until_fleet(count_clients(false) == 0);
		assert_int_equal(count_clients(true), 20);
		for (int i = 0; i < CLIENTS; i++)
			if (clients[i].serving && (served + i) % 3 != 0) {
				settle(&clients[i], 7);
				served++;
			} else if (!clients[i].serving) {
				end_request(&clients[i]);
			}
		until_fleet(settled() == (uint64_t)served);
	}
	close_fleet();
}

/* A node is killed with all 20 slots taken. They are free after max_hold by the clock of Redis, and
 * not before. */
static void test_killed_node(void **state)
{
	const uint64_t max_hold_us = 2000000;
	uint64_t first_us = UINT64_MAX, token_us;
	int taken = 0;

	(void)state;
	open_fleet("  - {concurrent: 20, max_hold: 2s, on_store_failure: deny}\n");
	for (int i = 0; i < CLIENTS; i++)
		clients[i].node = &nodes[i >= 20];
	for (int i = 0; i < 20; i++) {
		depart(&clients[i], 1);
		until_fleet(!clients[i].asking);
		assert_true(clients[i].serving);
		token_us = clients[i].ask->needs[0].decided_us;
		first_us = token_us < first_us ? token_us : first_us;
	}
	kill_node(&nodes[0]);
	while (taken < 20) {
		struct client *client = &clients[20 + taken];

		depart(client, 1);
		until_fleet(!client->asking);
		if (!client->serving) {
			end_request(client);
			continue;
		}
		token_us = client->ask->needs[0].decided_us;
		assert_true(token_us >= first_us + max_hold_us);
		taken++;
	}
	/* All 20 are taken again, each of them once. They are young, so there is no other one. */
	depart(&clients[45], 1);
	until_fleet(!clients[45].asking);
	if (clients[45].serving)
		assert_true(clients[45].ask->needs[0].decided_us >=
			    clients[20].ask->needs[0].decided_us + max_hold_us);
	close_fleet();
}

/* A slot beside a window: both are taken, settled and given back together. */
static void test_slot_and_tokens(void **state)
{
	(void)state;
	open_fleet("  - {period: 8760h, requests_per_unit: 1000, on_store_failure: deny}\n"
		   "  - {concurrent: 2, max_hold: 1h, on_store_failure: deny}\n");
	for (int i = 0; i < 3; i++) {
		depart(&clients[i], 300);
		until_fleet(!clients[i].asking);
	}
	assert_int_equal(count_clients(true), 2);
	end_request(&clients[2]);
	settle(&clients[0], 100);
	until_fleet(settled() == 2); /* 200 units and a slot */
	depart(&clients[2], 600);    /* 100 and 300 units are in use */
	until_fleet(!clients[2].asking);
	assert_true(clients[2].serving);
	assert_int_equal(clients[2].ask->needs[0].need.decision.remaining, 0);
	assert_int_equal(clients[2].ask->needs[1].need.decision.remaining, 0);
	close_fleet();
}

/* Each of three nodes has a share of two of the 6 slots while Redis does not answer. Slots that the
 * node took from Redis before count. Slots that are given back are free again. */
static void test_share_of_slots(void **state)
{
	uint64_t before;

	(void)state;
	open_fleet("  - {concurrent: 6, max_hold: 1h}\n");
	for (int i = 0; i < CLIENTS; i++)
		clients[i].node = &nodes[i >= 10];
	/* The other node holds 5 slots, this node holds the last one and is refused 3 times. */
	for (int i = 10; i < 15; i++)
		depart(&clients[i], 1);
	until_fleet(count_clients(false) == 0);
	for (int i = 0; i < 4; i++) {
		depart(&clients[i], 1);
		until_fleet(!clients[i].asking);
		assert_int_equal(clients[i].serving, i == 0);
	}
	for (int i = 4; i < 7; i++) {
		depart_alone(&clients[i], 1);
		assert_int_equal(clients[i].serving, i == 4);
	}
	before = settled();
	settle(&clients[0], 1); /* the slot of Redis */
	until_fleet(settled() == before + 1);
	for (int i = 7; i < 9; i++) {
		depart_alone(&clients[i], 1);
		assert_int_equal(clients[i].serving, i == 7);
	}
	/* Slots of the share are neither reported to Redis nor given back to it. */
	settle(&clients[4], 1);
	settle(&clients[7], 1);
	run_fleet();
	assert_int_equal(settled(), before + 1);
	assert_int_equal(info(&nodes[0].live.rig)->reports_waiting, 0);
	for (int i = 0; i < 10; i++)
		if (clients[i].ask)
			end_request(&clients[i]);
	for (int i = 0; i < 3; i++) {
		depart_alone(&clients[i], 1);
		assert_int_equal(clients[i].serving, i < 2);
	}
	close_fleet();
}

/* A request is admitted without Redis and uses more than it reserved. The reservation is reported,
 * and the rest is charged as a debt. */
static void test_debt_without_redis(void **state)
{
	(void)state;
	open_fleet("  - {period: 8760h, requests_per_unit: 3000}\n");
	until_fleet(info(&nodes[0].live.rig)->any_up);
	depart_alone(&clients[0], 100);
	assert_true(clients[0].serving);
	settle(&clients[0], 250);
	until_fleet(settled() == 1 && info(&nodes[0].live.rig)->counts.reported == 1);
	depart(&clients[1], 50);
	until_fleet(!clients[1].asking);
	assert_int_equal(clients[1].ask->needs[0].need.decision.remaining, 3000 - 250 - 50);
	/* A request that used less stays reported as it was: Redis counts too many units, never too
	 * few. */
	depart_alone(&clients[3], 100);
	settle(&clients[3], 10);
	until_fleet(info(&nodes[0].live.rig)->counts.reported == 2);
	end_request(&clients[1]);
	depart(&clients[1], 50);
	until_fleet(!clients[1].asking);
	assert_int_equal(clients[1].ask->needs[0].need.decision.remaining, 3000 - 250 - 100 - 100);
	close_fleet();
}

static int start_server(void **state)
{
	(void)state;
	return redis_server_start(&server);
}

static int stop_server(void **state)
{
	(void)state;
	redis_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve_600_use_500),
		cmocka_unit_test(test_reserve_600_use_500_of_leases),
		cmocka_unit_test(test_reserve_100_use_500),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_killed_node),
		cmocka_unit_test(test_slot_and_tokens),
		cmocka_unit_test(test_share_of_slots),
		cmocka_unit_test(test_debt_without_redis),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
