/* Implements exchange_rig.h. */
#include "exchange_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct weir_table *table;

int open_table(void **state)
{
	char dir[] = "/tmp/weir-test-exchange-XXXXXX";
	struct weir_opts opts = {.size = sizeof opts,
				 .name = "exchange",
				 .dir = mkdtemp(dir),
				 .memory_bytes = 64 << 20,
				 .now_ns = NOW_NS};

	(void)state;
	if (weir_open(&opts, &table, NULL) < 0)
		return -1;
	/* The file of the open table remains usable after it was removed. */
	weir_remove("exchange", dir, NULL);
	return rmdir(dir);
}

int close_table(void **state)
{
	(void)state;
	weir_close(table);
	return 0;
}

const struct wr_central_opts *node_opts(const char *region)
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

/* ---- processes that use counters ---- */

static const struct weir_limit fixed = {.size = sizeof fixed,
					.algorithm = WEIR_FIXED_WINDOW,
					.limit = 100,
					.period_ns = MINUTE,
					.capacity = 100,
					.ceiling = 100};

int claim(const struct rig *rig, uint64_t key)
{
	struct wr_store_exchange_name name = {.fleet_key = {key, 7},
					      .algorithm = WEIR_FIXED_WINDOW,
					      .limit = 100,
					      .period_ns = MINUTE,
					      .id_len = 15,
					      .id = "fixed_window/1m"};

	return wr_store_exchange_claim(table, (struct wr_key){key}, &name, rig->mono_ns);
}

int use_counter(const struct rig *rig, uint64_t key, int64_t cost)
{
	int slot = claim(rig, key);

	if (slot >= 0)
		wr_store_exchange_count(table, slot, &fixed, cost, rig->now_ns, rig->mono_ns);
	return slot;
}

uint32_t charged_units(const struct rig *rig, int slot)
{
	return wr_store_exchange_charged(table, slot, &fixed, rig->now_ns);
}

/* ---- Redis ---- */

const char *args_after_key(struct peer *peer, const struct wr_script *script)
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

void assert_exchange_args(struct peer *peer, const char *region, const char *state)
{
	const char *args = args_after_key(peer, &wr_redis_script_exchange);
	char begin[64];

	snprintf(begin, sizeof begin, "%s/a1b2c3d4.", region);
	assert_memory_equal(args, begin, strlen(begin));
	args = strchr(args, ' ');
	assert_non_null(args);
	assert_string_equal(args + 1, state);
}

const char *state_text(uint64_t window, int plus, int minus, int before, const char *regions)
{
	static char text[256];

	snprintf(text, sizeof text, "%llu %d %d %d 0 %llu 121000 60000000000 %s 2300",
		 (unsigned long long)window, plus, minus, before, (unsigned long long)window - 2,
		 *regions ? regions : "   0 ");
	return text;
}

const char *sums(int plus, int minus, int before, int others)
{
	static char bytes[128];

	snprintf(bytes, sizeof bytes, "*5\r\n:%d\r\n:%d\r\n:%d\r\n:0\r\n:%d\r\n", plus, minus,
		 before, others);
	return bytes;
}

void free_slots(struct rig *rig)
{
	rig_free(rig);
	close_table(NULL);
	assert_int_equal(open_table(NULL), 0);
}
