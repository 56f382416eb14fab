/* What is about the server or the connection, and scripts. */
#include <stdio.h>

#include "base/str.h"
#include "lab/mini.h"

static void ping(const struct wr_mini_call *call)
{
	wr_mini_status(call->out, "PONG");
}

static void ok(const struct wr_mini_call *call)
{
	wr_mini_status(call->out, "OK");
}

static void server_time(const struct wr_mini_call *call)
{
	uint64_t now_us = call->mini->now_us;
	char s[24], us[24];
	int s_len = snprintf(s, sizeof s, "%llu", (unsigned long long)(now_us / 1000000));
	int us_len = snprintf(us, sizeof us, "%llu", (unsigned long long)(now_us % 1000000));

	wr_mini_array(call->out, 2);
	wr_mini_bulk(call->out, (struct weir_str){s, (size_t)s_len});
	wr_mini_bulk(call->out, (struct weir_str){us, (size_t)us_len});
}

static void info(const struct wr_mini_call *call)
{
	wr_mini_bulk(call->out, WR_STR("# Server\r\nredis_version:7.0.15\r\n# Memory\r\n"
				       "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
				       "# Persistence\r\naof_enabled:0\r\n"));
}

/* Nobody sends control messages here. */
static void xread(const struct wr_mini_call *call)
{
	wr_bytes_add(call->out, "*-1\r\n", 5);
}

static void flushall(const struct wr_mini_call *call)
{
	wr_mini_flush(call->mini, false);
	wr_mini_status(call->out, "OK");
}

/* Once more, which has to be answered as it was the first time. */
static void run_again(const struct wr_mini_call *call, int number, const struct weir_str *keys,
		      size_t count, size_t from)
{
	struct weir_str first = {(const char *)call->out->at + from, call->out->len - from};
	struct wr_bytes out = {0};

	wr_lua_run(call->mini->lua, call->mini, number, call->argv[1], keys, count, keys + count,
		   call->argc - 3 - count, &out);
	if (!wr_str_equal(first, wr_bytes_str(&out)))
		wr_mini_fault(call->mini, "a call that came twice was answered %.*s and %.*s",
			      (int)first.len, first.ptr, (int)out.len, (const char *)out.at);
	wr_bytes_free(&out);
}

static void run(const struct wr_mini_call *call, int number)
{
	struct wr_mini *mini = call->mini;
	const struct weir_str *keys = call->argv + 3;
	int64_t count;
	size_t from;

	if (!wr_mini_number(call->argv[2], &count) || count < 0 || (size_t)count > call->argc - 3) {
		wr_mini_fault(mini, "a script with a wrong number of keys");
		wr_mini_error(call->out, "ERR Number of keys can't be greater than number of args");
		return;
	}
	mini->calls++;
	mini->keys = keys;
	mini->key_count = (size_t)count;
	mini->scripting = true;
	from = call->out->len;
	wr_lua_run(mini->lua, mini, number, call->argv[1], keys, (size_t)count, keys + count,
		   call->argc - 3 - (size_t)count, call->out);
	if (mini->twice && wr_lua_repeats(number, keys + count, call->argc - 3 - (size_t)count))
		run_again(call, number, keys, (size_t)count, from);
	mini->scripting = false;
	mini->key_count = 0;
}

static void eval(const struct wr_mini_call *call)
{
	int number = wr_lua_by_text(call->argv[1]);

	if (number >= 0)
		call->mini->knows[number] = true;
	run(call, number);
}

static void evalsha(const struct wr_mini_call *call)
{
	int number = wr_lua_by_sha1(call->argv[1]);

	if (number < 0 || !call->mini->knows[number])
		wr_mini_error(call->out, "NOSCRIPT No matching script. Please use EVAL.");
	else
		run(call, number);
}

const struct wr_mini_op wr_mini_server[] = {
	{"PING", ping, 1, false},         {"CLIENT", ok, -2, false},
	{"SELECT", ok, 2, false},         {"TIME", server_time, 1, false},
	{"INFO", info, -1, false},        {"XREAD", xread, -4, false},
	{"FLUSHALL", flushall, 1, false}, {"EVAL", eval, -3, false},
	{"EVALSHA", evalsha, -3, false},  {0}};
