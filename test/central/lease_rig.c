/* Implements lease_rig.h. */
#include "lease_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#define URL "redis://127.0.0.1:6379"
#define OWNER 0xabcdefull

struct weir_table *table;
static struct rig *in_use; /* Redis uses the clock of this rig. */

/* The file is removed at once. The open table remains usable. */
int open_table(void **state)
{
	char dir[] = "/tmp/weir-test-lease-XXXXXX";
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "lease",
				 .dir = mkdtemp(dir),
				 .memory_bytes = 64 << 20,
				 .now_ns = NOW_NS};
	int rc = weir_open(&opts, &table, NULL);

	(void)state;
	weir_remove("lease", dir, NULL);
	return rmdir(dir) < 0 ? -1 : rc;
}

int close_table(void **state)
{
	(void)state;
	weir_close(table);
	return 0;
}

struct rig *begin_lease_rig(void)
{
	struct wr_central_opts opts = {
		.holder = {0xa, 0xb}, .table = table, .owner = OWNER, .timeout_ns = 20 * MS};

	in_use = rig_new(URL, &opts);
	return in_use;
}

/* ---- processes that spend units ---- */

bool spend_from(const struct rig *rig, uint64_t key, uint32_t limit, int64_t cost)
{
	struct weir_decision decision;
	uint32_t grant;

	return wr_store_lease_spend(table, (struct wr_key){key},
				    wr_store_lease_identity(limit, 0, 0), cost, rig->mono_ns,
				    &decision, &grant) == WR_LEASE_SPENT;
}

int spend(const struct rig *rig, uint64_t key, int times)
{
	int spent = 0;

	for (int i = 0; i < times; i++)
		spent += spend_from(rig, key, LIMIT, 1);
	return spent;
}

/* ---- Redis ---- */

void ask_one(struct rig *rig, struct asker *asker, uint64_t key)
{
	struct item item = {.key = key, .cost = 1, .limit = LIMIT, .leased = true};

	take(rig, asker, &item, 1);
}

const char *lease_args(struct peer *peer)
{
	const char *command = next_command(peer);
	char begin[80];

	assert_non_null(command);
	snprintf(begin, sizeof begin, "EVALSHA %s 2 weir:1:{", wr_redis_script_lease.sha1);
	assert_memory_equal(command, begin, strlen(begin));
	command = strstr(command, ":l:fixed_window/1m ");
	assert_non_null(command);
	return command + strlen(":l:fixed_window/1m ");
}

const char *leased(bool admitted, int remaining, int granted, uint64_t ttl_ms, bool known)
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

void answer_one(struct rig *rig, struct asker *asker, uint64_t key, struct peer *peer,
		const char *bytes)
{
	ask_one(rig, asker, key);
	lease_args(peer);
	reply(peer, bytes);
}

struct peer *borrow(struct rig *rig, uint64_t key, int granted)
{
	struct peer *peer = peer_at(rig, 6379);
	struct asker asker = {.done = 0};

	answer_one(rig, &asker, key, peer, leased(true, 999, 0, 0, true));
	answer_one(rig, &asker, key, peer, leased(true, 900, granted, granted ? 1000 : 0, true));
	assert_admitted(&asker);
	return peer;
}

uint32_t shut_down(struct rig *rig)
{
	uint32_t left = wr_central_shut_down(rig->central, rig->now_ns, rig->mono_ns);

	run_turn(rig);
	return left;
}
