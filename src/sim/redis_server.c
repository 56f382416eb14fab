/* Runs the commands for the server, the connection, streams and scripts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/redis.h"

static void cmd_ping(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_status(call->out, "PONG");
}

static void cmd_ok(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_status(call->out, "OK");
}

static void cmd_time(const struct wr_sim_redis_call *call)
{
	uint64_t now_us = call->redis->now_us;
	char s[24], us[24];

	snprintf(s, sizeof s, "%llu", (unsigned long long)(now_us / 1000000));
	snprintf(us, sizeof us, "%llu", (unsigned long long)(now_us % 1000000));
	wr_sim_reply_array(call->out, 2);
	wr_sim_reply_bulk(call->out, wr_str(s));
	wr_sim_reply_bulk(call->out, wr_str(us));
}

static void cmd_info(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_bulk(call->out, WR_STR("# Server\r\nredis_version:7.0.15\r\n# Memory\r\n"
					    "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
					    "# Persistence\r\naof_enabled:0\r\n"));
}

/* Parses the id of a stream entry, such as "1700000040000-3": a time in ms and a number. */
static void parse_stream_id(struct weir_str text, uint64_t *ms, uint64_t *seq)
{
	char copy[48] = "", *end;

	memcpy(copy, text.ptr, text.len < sizeof copy ? text.len : sizeof copy - 1);
	*ms = strtoull(copy, &end, 10);
	*seq = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
}

/* Runs `XADD key MAXLEN ~ n * name value …`. The member `name` of the new entry contains its id.
 * The member `text` contains its fields in the form of a reply, which XREAD returns. */
static void cmd_xadd(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *value =
		wr_sim_redis_find_or_add(call->redis, call->argv[1], WR_SIM_REDIS_STREAM);
	uint64_t ms = 0, seq = 0, now_ms = call->redis->now_us / 1000;
	struct wr_sim_redis_entry *entry;
	char id[48];

	if (call->argc < 8 || !wr_sim_redis_word_is(call->argv[2], "MAXLEN") ||
	    !wr_sim_redis_word_is(call->argv[5], "*")) {
		wr_sim_redis_refuse(call, "ERR syntax error");
		return;
	}
	if (value->count)
		parse_stream_id(wr_buf_str(&value->entries[value->count - 1].name), &ms, &seq);
	seq = now_ms > ms ? 0 : seq + 1;
	snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)(now_ms > ms ? now_ms : ms),
		 (unsigned long long)seq);
	entry = wr_sim_redis_entry_add(value, wr_str(id));
	wr_sim_reply_array(&entry->text, call->argc - 6);
	for (size_t i = 6; i < call->argc; i++)
		wr_sim_reply_bulk(&entry->text, call->argv[i]);
	wr_sim_reply_bulk(call->out, wr_str(id));
}

/* Runs XREAD COUNT n STREAMS key id. */
static void cmd_xread(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *value =
		wr_sim_redis_find(call->redis, call->argv[call->argc - 2]);
	uint64_t after_ms, after_seq, ms, seq;
	size_t first = 0, count;
	int64_t most;

	parse_stream_id(call->argv[call->argc - 1], &after_ms, &after_seq);
	for (; value && first < value->count; first++) {
		parse_stream_id(wr_buf_str(&value->entries[first].name), &ms, &seq);
		if (ms > after_ms || (ms == after_ms && seq > after_seq))
			break;
	}
	if (!value || first == value->count || !wr_sim_redis_parse_int(call->argv[2], &most)) {
		wr_buf_add(call->out, "*-1\r\n", 5);
		return;
	}
	count = value->count - first < (size_t)most ? value->count - first : (size_t)most;
	wr_sim_reply_array(call->out, 1);
	wr_sim_reply_array(call->out, 2);
	wr_sim_reply_bulk(call->out, call->argv[call->argc - 2]);
	wr_sim_reply_array(call->out, count);
	for (size_t i = first; i < first + count; i++) {
		wr_sim_reply_array(call->out, 2);
		wr_sim_reply_bulk(call->out, wr_buf_str(&value->entries[i].name));
		wr_buf_add(call->out, value->entries[i].text.ptr, value->entries[i].text.len);
	}
}

static void cmd_flushall(const struct wr_sim_redis_call *call)
{
	wr_sim_redis_flush(call->redis, false);
	wr_sim_reply_status(call->out, "OK");
}

/* Runs the script a second time and compares the two replies, which must be equal. The first reply
 * begins at offset `from` of the output. */
static void repeat_script(const struct wr_sim_redis_call *call, int number,
			  const struct weir_str *keys, size_t count, size_t from)
{
	struct weir_str first = {call->out->ptr + from, call->out->len - from};
	struct wr_buf out = WR_SIM_BUF;

	wr_sim_lua_run(call->redis->lua, call->redis, number, call->argv[1], keys, count,
		       keys + count, call->argc - 3 - count, &out);
	if (!wr_str_equal(first, wr_buf_str(&out)))
		wr_sim_redis_unexpected(call->redis,
					"a repeated call got the replies %.*s and %.*s",
					(int)first.len, first.ptr, (int)out.len, out.ptr);
	wr_buf_free(&out);
}

static void run_script(const struct wr_sim_redis_call *call, int number)
{
	struct wr_sim_redis *redis = call->redis;
	const struct weir_str *keys = call->argv + 3;
	int64_t count;
	size_t from;

	if (!wr_sim_redis_parse_int(call->argv[2], &count) || count < 0 ||
	    (size_t)count > call->argc - 3) {
		wr_sim_redis_refuse(call,
				    "ERR Number of keys can't be greater than number of args");
		return;
	}
	redis->calls++;
	redis->keys = keys;
	redis->key_count = (size_t)count;
	redis->in_script = true;
	from = call->out->len;
	wr_sim_lua_run(redis->lua, redis, number, call->argv[1], keys, (size_t)count, keys + count,
		       call->argc - 3 - (size_t)count, call->out);
	if (redis->repeats_calls &&
	    wr_sim_lua_is_idempotent(number, keys + count, call->argc - 3 - (size_t)count))
		repeat_script(call, number, keys, (size_t)count, from);
	redis->in_script = false;
	redis->key_count = 0;
}

static void cmd_eval(const struct wr_sim_redis_call *call)
{
	int number = wr_sim_lua_script_by_text(call->argv[1]);

	if (number >= 0)
		call->redis->cached[number] = true;
	run_script(call, number);
}

static void cmd_evalsha(const struct wr_sim_redis_call *call)
{
	int number = wr_sim_lua_script_by_sha1(call->argv[1]);

	if (number < 0 || !call->redis->cached[number])
		wr_sim_reply_error(call->out, "NOSCRIPT No matching script. Please use EVAL.");
	else
		run_script(call, number);
}

const struct wr_sim_redis_op wr_sim_redis_server_ops[] = {
	{"PING", cmd_ping, 1, false, false, WR_SIM_REDIS_ANY},
	{"CLIENT", cmd_ok, -2, false, false, WR_SIM_REDIS_ANY},
	{"SELECT", cmd_ok, 2, false, false, WR_SIM_REDIS_ANY},
	{"TIME", cmd_time, 1, false, false, WR_SIM_REDIS_ANY},
	{"INFO", cmd_info, -1, false, false, WR_SIM_REDIS_ANY},
	{"XREAD", cmd_xread, -4, false, false, WR_SIM_REDIS_ANY},
	{"XADD", cmd_xadd, -5, true, true, WR_SIM_REDIS_ANY},
	{"FLUSHALL", cmd_flushall, 1, false, true, WR_SIM_REDIS_ANY},
	{"EVAL", cmd_eval, -3, false, false, WR_SIM_REDIS_ANY},
	{"EVALSHA", cmd_evalsha, -3, false, false, WR_SIM_REDIS_ANY},
	{0}};
