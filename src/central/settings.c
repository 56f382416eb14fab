/* Reads INFO of a server: warns about old versions and about settings that can lose counters.
 * Called by shard.c when a connection is ready. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "central/inner.h"

#define VERSION_MIN 5 /* the first version of Redis with streams */

static void copy_printable(char *text, size_t size, struct weir_str value)
{
	snprintf(text, size, "%.*s", (int)(value.len < size ? value.len : size - 1),
		 value.len ? value.ptr : "");
	for (char *at = text; *at; at++)
		if (*at < '!' || *at > '~')
			*at = '?';
}

/* Warns about the eviction policy. With `noeviction` no counter is lost, because a counter expires
 * only when it is back at its initial value. If the memory is full, writes fail, and
 * on_store_failure applies. `volatile-ttl` evicts the counters that expire soonest, which does the
 * least harm. Other policies may evict the counter of a client that is being refused, so that the
 * client can use its whole limit again. */
static void check_policy(struct wr_central_shard *shard, const char *at, struct weir_str maxmemory)
{
	struct weir_str policy = wr_str(shard->policy);

	if (policy.len == 0 || wr_str_equal(policy, WR_STR("noeviction")) ||
	    wr_str_equal(policy, WR_STR("volatile-ttl")) || maxmemory.len == 0 ||
	    wr_str_equal(maxmemory, WR_STR("0")))
		return;
	wr_central_log(shard->central, WR_CENTRAL_LOG_WARN,
		       "%s: maxmemory-policy %s may evict the counters of clients that are "
		       "being refused; set noeviction, or volatile-ttl if the server is shared",
		       at, shard->policy);
}

/* Reads the reply to INFO. Warns only when a value has changed, not at every reconnect. */
static void read_info(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central_shard *shard = conn->shard;
	struct weir_str info = wr_redis_reply_text(reply);
	struct weir_str aof = wr_redis_info_field(info, "aof_enabled");
	char version[sizeof shard->version], policy[sizeof shard->policy], at[WR_ENDPOINT_TEXT];

	wr_call_free(conn->central, call);
	if (!wr_redis_reply_is_text(reply)) /* the ACL of the user may forbid INFO */
		return;
	copy_printable(version, sizeof version, wr_redis_info_field(info, "redis_version"));
	copy_printable(policy, sizeof policy, wr_redis_info_field(info, "maxmemory_policy"));
	shard->aof = aof.len ? aof.ptr[0] == '1' : -1;
	wr_endpoint_text(&shard->at, at);
	if (!wr_str_equal(wr_str(version), wr_str(shard->version))) {
		memcpy(shard->version, version, sizeof version);
		if (version[0] && strtol(version, NULL, 10) < VERSION_MIN)
			wr_central_log(
				shard->central, WR_CENTRAL_LOG_ERROR,
				"%s: version %s is too old; weir needs Redis 5 or later, or Valkey",
				at, version);
	}
	if (!wr_str_equal(wr_str(policy), wr_str(shard->policy))) {
		memcpy(shard->policy, policy, sizeof policy);
		check_policy(shard, at, wr_redis_info_field(info, "maxmemory"));
	}
}

const struct wr_call_ops wr_call_info_ops = {
	.words = {"INFO"}, .on_reply = read_info, .reads_errors = true, .script = -1};
