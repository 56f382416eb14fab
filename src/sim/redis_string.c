/* Runs the commands for strings, and the commands that expire or remove keys. */
#include <string.h>

#include "base/str.h"
#include "sim/redis.h"

#define NOT_AN_INTEGER "ERR value is not an integer or out of range"

static void cmd_get(const struct wr_sim_redis_call *call)
{
	if (call->value)
		wr_sim_reply_bulk(call->out, wr_buf_str(&call->value->string));
	else
		wr_sim_reply_nil(call->out);
}

struct set_options {
	bool nx, xx, keep_ttl;
	int64_t ttl_ms;
};

static bool read_set_options(const struct wr_sim_redis_call *call, struct set_options *options)
{
	for (size_t i = 3; i < call->argc; i++) {
		struct weir_str word = call->argv[i];

		if (wr_sim_redis_word_is(word, "NX")) {
			options->nx = true;
		} else if (wr_sim_redis_word_is(word, "XX")) {
			options->xx = true;
		} else if (wr_sim_redis_word_is(word, "KEEPTTL")) {
			options->keep_ttl = true;
		} else if ((wr_sim_redis_word_is(word, "PX") || wr_sim_redis_word_is(word, "EX")) &&
			   i + 1 < call->argc &&
			   wr_sim_redis_parse_int(call->argv[i + 1], &options->ttl_ms) &&
			   options->ttl_ms > 0) {
			options->ttl_ms *= wr_sim_redis_word_is(word, "EX") ? 1000 : 1;
			i++;
		} else {
			return false;
		}
	}
	return true;
}

static void cmd_set(const struct wr_sim_redis_call *call)
{
	struct set_options options = {0};
	struct wr_sim_redis_value *value = wr_sim_redis_find(call->redis, call->argv[1]);
	uint64_t old_expires_ms;

	if (!read_set_options(call, &options)) {
		wr_sim_redis_refuse(call, "ERR syntax error");
		return;
	}
	if ((options.nx && value) || (options.xx && !value)) {
		wr_sim_reply_nil(call->out);
		return;
	}
	old_expires_ms = value && options.keep_ttl ? value->expires_ms : 0;
	wr_sim_redis_remove(call->redis, call->argv[1]);
	value = wr_sim_redis_find_or_add(call->redis, call->argv[1], WR_SIM_REDIS_STRING);
	wr_sim_buf_set(&value->string, call->argv[2]);
	value->expires_ms = options.ttl_ms ? call->redis->now_us / 1000 + (uint64_t)options.ttl_ms
					   : old_expires_ms;
	wr_sim_reply_status(call->out, "OK");
}

static void cmd_getrange(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *value = call->value;
	int64_t from, to, len = value ? (int64_t)value->string.len : 0;

	if (!wr_sim_redis_parse_int(call->argv[2], &from) ||
	    !wr_sim_redis_parse_int(call->argv[3], &to)) {
		wr_sim_redis_refuse(call, NOT_AN_INTEGER);
		return;
	}
	if (from < 0 && to < 0 &&
	    from > to) /* without this check, the code below would return the first byte */
		len = 0;
	from = from < 0 ? from + len : from;
	to = to < 0 ? to + len : to;
	from = from < 0 ? 0 : from;
	to = to < 0 ? 0 : to;
	to = to >= len ? len - 1 : to;
	if (!value || from > to) {
		wr_sim_reply_bulk(call->out, WR_STR(""));
		return;
	}
	wr_sim_reply_bulk(call->out,
			  (struct weir_str){value->string.ptr + from, (size_t)(to - from + 1)});
}

static void cmd_setrange(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *value = call->value;
	struct weir_str text = call->argv[3];
	int64_t at;

	if (!wr_sim_redis_parse_int(call->argv[2], &at) || at < 0 || at > 1 << 20) {
		wr_sim_redis_refuse(call, NOT_AN_INTEGER);
		return;
	}
	if (text.len) {
		value = wr_sim_redis_find_or_add(call->redis, call->argv[1], WR_SIM_REDIS_STRING);
		if (value->string.len < (size_t)at + text.len) {
			size_t more = (size_t)at + text.len - value->string.len;
			char *room = wr_buf_reserve(&value->string, more);

			if (!room)
				wr_sim_no_memory();
			memset(room, 0, more);
			wr_buf_commit(&value->string, more);
		}
		memcpy(value->string.ptr + at, text.ptr, text.len);
	}
	wr_sim_reply_int(call->out, value ? (int64_t)value->string.len : 0);
}

/* Runs INCR key, or INCRBY key number. */
static void cmd_incr(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *value = call->value;
	int64_t number = 0, by = 1;

	if ((call->argc > 2 && !wr_sim_redis_parse_int(call->argv[2], &by)) ||
	    (value && !wr_sim_redis_parse_int(wr_buf_str(&value->string), &number))) {
		wr_sim_redis_refuse(call, NOT_AN_INTEGER);
		return;
	}
	value = wr_sim_redis_find_or_add(call->redis, call->argv[1], WR_SIM_REDIS_STRING);
	number += by;
	wr_buf_clear(&value->string);
	wr_buf_printf(&value->string, "%lld", (long long)number);
	wr_sim_reply_int(call->out, number);
}

/* ---- expiry and removal ---- */

static void cmd_del(const struct wr_sim_redis_call *call)
{
	int64_t removed = 0;

	for (size_t i = 1; i < call->argc; i++)
		removed += wr_sim_redis_remove(call->redis, call->argv[i]);
	wr_sim_reply_int(call->out, removed);
}

static void cmd_exists(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_int(call->out, wr_sim_redis_find(call->redis, call->argv[1]) != NULL);
}

static void cmd_pttl(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *value = wr_sim_redis_find(call->redis, call->argv[1]);

	if (!value)
		wr_sim_reply_int(call->out, -2);
	else if (!value->expires_ms)
		wr_sim_reply_int(call->out, -1);
	else
		wr_sim_reply_int(call->out,
				 (int64_t)(value->expires_ms - call->redis->now_us / 1000));
}

/* Runs PEXPIRE, whose time counts from now, or PEXPIREAT. */
static void cmd_pexpire(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *value = wr_sim_redis_find(call->redis, call->argv[1]);
	int64_t now_ms = (int64_t)(call->redis->now_us / 1000), ms;

	if (!wr_sim_redis_parse_int(call->argv[2], &ms)) {
		wr_sim_redis_refuse(call, NOT_AN_INTEGER);
		return;
	}
	if (wr_sim_redis_word_is(call->argv[0], "PEXPIRE"))
		ms += now_ms;
	wr_sim_reply_int(call->out, value != NULL);
	if (value && ms <= now_ms)
		wr_sim_redis_remove(call->redis, call->argv[1]);
	else if (value)
		value->expires_ms = (uint64_t)ms;
}

const struct wr_sim_redis_op wr_sim_redis_string_ops[] = {
	{"GET", cmd_get, 2, true, false, WR_SIM_REDIS_STRING},
	{"SET", cmd_set, -3, true, true, WR_SIM_REDIS_ANY},
	{"GETRANGE", cmd_getrange, 4, true, false, WR_SIM_REDIS_STRING},
	{"SETRANGE", cmd_setrange, 4, true, true, WR_SIM_REDIS_STRING},
	{"INCR", cmd_incr, 2, true, true, WR_SIM_REDIS_STRING},
	{"INCRBY", cmd_incr, 3, true, true, WR_SIM_REDIS_STRING},
	{"DEL", cmd_del, -2, true, true, WR_SIM_REDIS_ANY},
	{"EXISTS", cmd_exists, 2, true, false, WR_SIM_REDIS_ANY},
	{"PTTL", cmd_pttl, 2, true, false, WR_SIM_REDIS_ANY},
	{"PEXPIRE", cmd_pexpire, 3, true, true, WR_SIM_REDIS_ANY},
	{"PEXPIREAT", cmd_pexpire, 3, true, true, WR_SIM_REDIS_ANY},
	{0}};
