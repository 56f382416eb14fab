/* What a server tells about itself: which version it is, and whether it may forget counters. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "central/inner.h"

#define VERSION_LEAST 5 /* streams */

static enum wr_call_written put(struct wr_central_conn *conn, struct wr_call *call)
{
	(void)call;
	wr_command_begin(&conn->out, 1);
	wr_command_text(&conn->out, "INFO");
	return wr_command_end(&conn->out) ? WR_CALL_WRITTEN : WR_CALL_NO_ROOM;
}

static void keep(char *text, size_t size, struct weir_str value)
{
	snprintf(text, size, "%.*s", (int)(value.len < size ? value.len : size - 1),
		 value.len ? value.ptr : "");
	for (char *at = text; *at; at++)
		if (*at < '!' || *at > '~')
			*at = '?';
}

static void check_version(struct wr_central_shard *shard, const char *at)
{
	if (shard->version[0] && strtol(shard->version, NULL, 10) < VERSION_LEAST)
		wr_central_log(shard->central, WR_SAY_ERROR,
			       "%s: version %s is too old; weir needs Redis 5 or later, or Valkey",
			       at, shard->version);
}

/* Counters expire when they are as good as new, so `noeviction` keeps all that matter; when memory
 * is full, writes fail, which is a store failure with a defined outcome. `volatile-ttl` forgets
 * first what expires soonest, which harms least. Others may forget a client that is being
 * refused, who then begins anew. */
static void check_policy(struct wr_central_shard *shard, const char *at, struct weir_str maxmemory)
{
	struct weir_str policy = wr_str(shard->policy);

	if (policy.len == 0 || wr_str_equal(policy, WR_STR("noeviction")) ||
	    wr_str_equal(policy, WR_STR("volatile-ttl")) || maxmemory.len == 0 ||
	    wr_str_equal(maxmemory, WR_STR("0")))
		return;
	wr_central_log(shard->central, WR_SAY_WARN,
		       "%s: maxmemory-policy %s may forget counters of clients that are being "
		       "refused; set "
		       "noeviction, or volatile-ttl if the server is shared",
		       at, shard->policy);
}

/* Once for each answer that differs: reconnecting is no reason to repeat a warning. */
static void heard(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central_shard *shard = conn->shard;
	struct weir_str info = wr_redis_reply_text(reply);
	struct weir_str aof = wr_redis_info_field(info, "aof_enabled");
	char version[sizeof shard->version], policy[sizeof shard->policy], at[WR_ENDPOINT_TEXT];

	wr_call_free(conn->central, call);
	keep(version, sizeof version, wr_redis_info_field(info, "redis_version"));
	keep(policy, sizeof policy, wr_redis_info_field(info, "maxmemory_policy"));
	shard->aof = aof.len ? aof.ptr[0] == '1' : -1;
	wr_endpoint_text(&shard->at, at);
	if (!wr_str_equal(wr_str(version), wr_str(shard->version))) {
		memcpy(shard->version, version, sizeof version);
		check_version(shard, at);
	}
	if (!wr_str_equal(wr_str(policy), wr_str(shard->policy))) {
		memcpy(shard->policy, policy, sizeof policy);
		check_policy(shard, at, wr_redis_info_field(info, "maxmemory"));
	}
}

/* The user may not be allowed to ask; then nothing is known, and nothing said. */
static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
}

static void heard_any(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	if (wr_redis_reply_is_text(reply))
		heard(conn, call, reply);
	else
		failed(conn->central, call, WR_FAULT_OTHER);
}

const struct wr_call_ops wr_call_info_ops = {.write = put,
					     .on_reply = heard_any,
					     .on_failure = failed,
					     .reads_errors = true,
					     .script = -1};

void wr_central_ask_settings(struct wr_central_conn *conn)
{
	struct wr_call *call = wr_call_new(conn->central, WR_CALL_INFO);

	if (call)
		wr_central_conn_write(conn, call);
}
