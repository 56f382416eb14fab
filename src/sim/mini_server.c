/* What is about the server or the connection, and scripts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/mini.h"

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

/* "1700000040000-3" */
static void read_id(struct weir_str text, uint64_t *ms, uint64_t *seq)
{
	char copy[48] = "", *end;

	memcpy(copy, text.ptr, text.len < sizeof copy ? text.len : sizeof copy - 1);
	*ms = strtoull(copy, &end, 10);
	*seq = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
}

/* XADD key MAXLEN ~ n * name value …: an entry is its id, and its fields as they are replied. */
static void xadd(const struct wr_mini_call *call)
{
	struct wr_mini_value *value = wr_mini_make(call->mini, call->argv[1], WR_MINI_STREAM);
	uint64_t ms = 0, seq = 0, now_ms = call->mini->now_us / 1000;
	struct wr_mini_entry *entry;
	char id[48];
	int len;

	if (call->argc < 8 || !wr_mini_is(call->argv[2], "MAXLEN") ||
	    !wr_mini_is(call->argv[5], "*")) {
		wr_mini_fault(call->mini, "XADD with words the simulated Redis does not know");
		wr_mini_error(call->out, "ERR syntax error");
		return;
	}
	if (value->count)
		read_id(wr_bytes_str(&value->entries[value->count - 1].name), &ms, &seq);
	seq = now_ms > ms ? 0 : seq + 1;
	len = snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)(now_ms > ms ? now_ms : ms),
		       (unsigned long long)seq);
	entry = wr_mini_entry_make(value, (struct weir_str){id, (size_t)len});
	wr_mini_array(&entry->text, call->argc - 6);
	for (size_t i = 6; i < call->argc; i++)
		wr_mini_bulk(&entry->text, call->argv[i]);
	wr_mini_bulk(call->out, (struct weir_str){id, (size_t)len});
}

static bool is_behind(const struct wr_mini_entry *entry, uint64_t ms, uint64_t seq)
{
	uint64_t its_ms, its_seq;

	read_id(wr_bytes_str(&entry->name), &its_ms, &its_seq);
	return its_ms > ms || (its_ms == ms && its_seq > seq);
}

/* XREAD COUNT n STREAMS key id */
static void xread(const struct wr_mini_call *call)
{
	const struct wr_mini_value *value = wr_mini_find(call->mini, call->argv[call->argc - 2]);
	uint64_t ms, seq;
	size_t first = 0, count;
	int64_t most;

	read_id(call->argv[call->argc - 1], &ms, &seq);
	while (value && first < value->count && !is_behind(&value->entries[first], ms, seq))
		first++;
	if (!value || first == value->count || !wr_mini_number(call->argv[2], &most)) {
		wr_bytes_add(call->out, "*-1\r\n", 5);
		return;
	}
	count = value->count - first < (size_t)most ? value->count - first : (size_t)most;
	wr_mini_array(call->out, 1);
	wr_mini_array(call->out, 2);
	wr_mini_bulk(call->out, call->argv[call->argc - 2]);
	wr_mini_array(call->out, count);
	for (size_t i = first; i < first + count; i++) {
		wr_mini_array(call->out, 2);
		wr_mini_bulk(call->out, wr_bytes_str(&value->entries[i].name));
		wr_bytes_add(call->out, value->entries[i].text.at, value->entries[i].text.len);
	}
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

const struct wr_mini_op wr_mini_server[] = {{"PING", ping, 1, false, false},
					    {"CLIENT", ok, -2, false, false},
					    {"SELECT", ok, 2, false, false},
					    {"TIME", server_time, 1, false, false},
					    {"INFO", info, -1, false, false},
					    {"XREAD", xread, -4, false, false},
					    {"XADD", xadd, -5, true, true},
					    {"FLUSHALL", flushall, 1, false, true},
					    {"EVAL", eval, -3, false, false},
					    {"EVALSHA", evalsha, -3, false, false},
					    {0}};
