/* Several nodes, each with its own table, use one Redis, which is the model of the lease script.
 * All have the same clock. Under a steady load above the limit, no node gets more than its share,
 * and all nodes together get no more than the limit. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "redis/lease_model.h"
#include "store/lease.h"

#define URL "redis://127.0.0.1:6379"
#define NODES 4
#define LIMIT (100u * NODES)
#define PERIOD_MS 10000u
#define WINDOWS 10u
#define KEY 7u

struct node {
	struct rig *rig;
	struct weir_table *table;
	uint32_t admitted; /* number of admitted requests */
	uint32_t paid;     /* number of admitted requests that a lease paid for */
};

struct fleet {
	struct node nodes[NODES];
	struct model model;
	uint64_t now_us; /* the time by the clock of Redis */
	uint8_t algorithm;
	uint32_t admitted; /* number of requests admitted in this window */
	uint64_t seed;
};

/* The file is removed at once. The open table remains usable. */
static struct weir_table *open_table(void)
{
	char dir[] = "/tmp/weir-test-fleet-XXXXXX";
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "lease",
				 .dir = mkdtemp(dir),
				 .memory_bytes = 4 << 20,
				 .now_ns = NOW_NS};
	struct weir_table *table;

	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	assert_int_equal(weir_remove("lease", dir, NULL), 0);
	assert_int_equal(rmdir(dir), 0);
	return table;
}

static struct fleet *begin_fleet(uint8_t algorithm)
{
	struct fleet *fleet = calloc(1, sizeof *fleet);

	fleet->algorithm = algorithm;
	for (int i = 0; i < NODES; i++) {
		struct node *node = &fleet->nodes[i];
		struct wr_central_opts opts = {.holder = {1, (uint64_t)i},
					       .table = node->table = open_table(),
					       .owner = 100u + (uint64_t)i,
					       .fleet_size = NODES};

		node->rig = rig_new(URL, &opts);
	}
	return fleet;
}

static void end_fleet(struct fleet *fleet)
{
	for (int i = 0; i < NODES; i++) {
		rig_free(fleet->nodes[i].rig);
		weir_close(fleet->nodes[i].table);
	}
	free(fleet);
}

/* ---- Redis ---- */

static uint64_t next_number(char **at)
{
	return strtoull(*at, at, 10);
}

static struct wr_redis_lease_call read_call(const char *command)
{
	char *at = strstr(command, ":l:") + 3;
	struct wr_redis_lease_call call = {0};
	uint64_t flags;

	at = strchr(at, ' ');
	flags = next_number(&at);
	call.take.algorithm = flags & 7;
	call.take.cost = (int64_t)next_number(&at);
	call.take.limit = call.take.burst = (uint32_t)next_number(&at);
	call.take.period_us = next_number(&at);
	if (call.take.algorithm == WEIR_TOKEN_BUCKET)
		call.take.limit = (uint32_t)next_number(&at);
	if (flags & 256)
		call.take.times = (uint32_t)next_number(&at);
	if (*at == '\0')
		return call;
	call.holder = strtoull(at, &at, 16);
	call.seq = next_number(&at);
	call.after = next_number(&at);
	call.spent = (uint32_t)next_number(&at);
	call.returned = (uint32_t)next_number(&at);
	call.wanted = (uint32_t)next_number(&at);
	call.nodes = (uint32_t)next_number(&at);
	return call;
}

static const char *write_reply(const struct wr_leased *leased)
{
	static char bytes[512];
	const struct wr_taken *taken = &leased->taken;
	uint32_t verdict = (taken->admitted ? V_ADMITTED : 0) + (taken->taken ? V_TAKEN : 0) +
			   V_TIMES * taken->admitted_times;

	snprintf(bytes, sizeof bytes,
		 "*10\r\n:%llu\r\n:%u\r\n:%u\r\n:%lld\r\n:%llu\r\n:0\r\n:%u\r\n:%llu\r\n:%d\r\n:"
		 "0\r\n",
		 (unsigned long long)taken->now_us, verdict, taken->remaining,
		 (long long)taken->retry_after_us, (unsigned long long)taken->reset_after_us,
		 leased->granted, (unsigned long long)leased->ttl_us, leased->known);
	return bytes;
}

static void serve_all(struct fleet *fleet, struct node *node)
{
	struct peer *peer = peer_at(node->rig, 6379);
	const char *command;

	while ((command = next_command(peer))) {
		struct wr_redis_lease_call call = read_call(command);
		struct wr_leased leased;

		if (node->rig->now_ns / 1000 >
		    fleet->now_us) /* nodes advance one after the other */
			fleet->now_us = node->rig->now_ns / 1000;
		leased = model_call(&fleet->model, &call, fleet->now_us);
		leased.taken.now_us = fleet->now_us;
		reply(peer, write_reply(&leased));
	}
}

/* ---- requests ---- */

static bool is_paid(const struct fleet *fleet, const struct node *node, bool *refused)
{
	uint32_t burst = fleet->algorithm == WEIR_TOKEN_BUCKET ? LIMIT : 0;
	struct weir_decision decision;
	uint32_t grant;
	enum wr_store_lease_answer answer = wr_store_lease_spend(
		node->table, (struct wr_key){KEY}, wr_store_lease_identity(LIMIT, burst, 0), 1,
		node->rig->mono_ns, &decision, &grant);

	*refused = answer == WR_LEASE_REFUSED;
	return answer == WR_LEASE_SPENT;
}

static void send_request(struct fleet *fleet, struct node *node)
{
	struct item item = {.key = KEY,
			    .cost = 1,
			    .id = "x",
			    .limit = LIMIT,
			    .burst = fleet->algorithm == WEIR_TOKEN_BUCKET ? LIMIT : 0,
			    .period_ns = PERIOD_MS * MS,
			    .leased = true,
			    .algorithm = fleet->algorithm};
	struct asker asker = {.done = 0};
	bool refused;

	if (is_paid(fleet, node, &refused)) {
		node->paid++;
	} else {
		if (refused)
			return;
		take(node->rig, &asker, &item, 1);
		serve_all(fleet, node);
		if (flags_of(&asker, 0) != WR_ANSWER_ADMITTED)
			return;
	}
	node->admitted++;
	fleet->admitted++;
}

static uint32_t random_below(struct fleet *fleet, uint32_t below)
{
	fleet->seed = fleet->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(fleet->seed >> 33) % below;
}

/* Runs a window in which each node gets requests for twice its share, at random times. In a fixed
 * order, the nodes that come right after a refill would get all tokens. */
static void run_window(struct fleet *fleet)
{
	const uint32_t every_ms = PERIOD_MS * NODES / (2 * LIMIT);

	fleet->admitted = 0;
	for (uint32_t ms = 0; ms < PERIOD_MS; ms++)
		for (int i = 0; i < NODES; i++) {
			struct node *node = &fleet->nodes[i];

			if (random_below(fleet, every_ms) == 0)
				send_request(fleet, node);
			pass_time(node->rig, MS);
			serve_all(fleet, node);
		}
}

static void check_shares(const struct fleet *fleet, uint32_t all)
{
	for (int i = 0; i < NODES; i++) {
		assert_in_range(fleet->nodes[i].admitted, all / NODES * 9 / 10,
				all / NODES * 11 / 10);
		assert_in_range(fleet->nodes[i].paid, fleet->nodes[i].admitted / 2,
				fleet->nodes[i].admitted);
	}
}

/* ---- tests ---- */

static void test_fixed_window(void **state)
{
	struct fleet *fleet = begin_fleet(WEIR_FIXED_WINDOW);

	(void)state;
	for (uint32_t i = 0; i < WINDOWS; i++) {
		run_window(fleet);
		assert_in_range(fleet->admitted, LIMIT * 97 / 100, LIMIT);
	}
	check_shares(fleet, WINDOWS * LIMIT);
	end_fleet(fleet);
}

/* The nodes get a full bucket first, and then as many units as are refilled. */
static void test_token_bucket(void **state)
{
	struct fleet *fleet = begin_fleet(WEIR_TOKEN_BUCKET);
	uint32_t all = 0;

	(void)state;
	for (uint32_t i = 0; i < WINDOWS; i++) {
		run_window(fleet);
		all += fleet->admitted;
		assert_in_range(all, (i + 1) * LIMIT * 97 / 100, (i + 2) * LIMIT);
	}
	for (int i = 0; i < NODES; i++)
		assert_in_range(fleet->nodes[i].admitted, all / NODES * 9 / 10,
				all / NODES * 11 / 10);
	end_fleet(fleet);
}

/* No more than the limit is admitted in any span as long as a window. At the ends of the test's
 * windows, this is the number admitted in the window. */
static void test_sliding_log(void **state)
{
	struct fleet *fleet = begin_fleet(WEIR_SLIDING_LOG);

	(void)state;
	for (uint32_t i = 0; i < WINDOWS; i++) {
		run_window(fleet);
		assert_in_range(fleet->admitted, LIMIT * 80 / 100, LIMIT);
	}
	for (int i = 0; i < NODES; i++)
		assert_in_range(fleet->nodes[i].admitted, WINDOWS * LIMIT / NODES * 80 / 100,
				WINDOWS * LIMIT / NODES * 11 / 10);
	end_fleet(fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixed_window),
		cmocka_unit_test(test_token_bucket),
		cmocka_unit_test(test_sliding_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
