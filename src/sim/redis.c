/* The simulated Redis server: parses input, finds the command, and writes replies. net.c and the
 * tests call wr_sim_redis_input(). */
#include "sim/redis.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

struct wr_sim_redis *wr_sim_redis_new(struct wr_sim_lua *lua)
{
	struct wr_sim_redis *redis = wr_sim_alloc(1, sizeof *redis);

	wr_assert(lua);
	redis->lua = lua;
	redis->bucket_count = WR_SIM_REDIS_BUCKETS;
	redis->buckets = wr_sim_alloc(redis->bucket_count, sizeof(void *));
	return redis;
}

void wr_sim_redis_free(struct wr_sim_redis *redis)
{
	if (!redis)
		return;
	wr_sim_redis_flush(redis, true);
	free(redis->buckets);
	free(redis);
}

void wr_sim_redis_unexpected(struct wr_sim_redis *redis, const char *format, ...)
{
	va_list args;

	redis->errors++;
	va_start(args, format);
	vsnprintf(redis->error, sizeof redis->error, format, args);
	va_end(args);
}

void wr_sim_redis_refuse(const struct wr_sim_redis_call *call, const char *text)
{
	wr_sim_redis_unexpected(call->redis, "%.*s: %s", (int)call->argv[0].len, call->argv[0].ptr,
				text);
	wr_sim_reply_error(call->out, text);
}

/* ---- replies ---- */

void wr_sim_reply_status(struct wr_buf *out, const char *text)
{
	wr_buf_printf(out, "+%s\r\n", text);
}

void wr_sim_reply_error(struct wr_buf *out, const char *text)
{
	wr_buf_printf(out, "-%.900s\r\n", text);
}

void wr_sim_reply_int(struct wr_buf *out, int64_t number)
{
	wr_buf_printf(out, ":%lld\r\n", (long long)number);
}

void wr_sim_reply_bulk(struct wr_buf *out, struct weir_str text)
{
	wr_buf_printf(out, "$%zu\r\n", text.len);
	wr_buf_add_str(out, text);
	wr_buf_add(out, "\r\n", 2);
}

void wr_sim_reply_nil(struct wr_buf *out)
{
	wr_buf_add(out, "$-1\r\n", 5);
}

void wr_sim_reply_array(struct wr_buf *out, size_t count)
{
	wr_buf_printf(out, "*%zu\r\n", count);
}

/* ---- one command ---- */

bool wr_sim_redis_word_is(struct weir_str text, const char *word)
{
	return wr_str_equal_nocase(text, wr_str(word));
}

bool wr_sim_redis_parse_int(struct weir_str text, int64_t *number)
{
	char copy[24];
	size_t digits = text.len && text.ptr[0] == '-';
	char *end;

	if (text.len == digits || text.len >= sizeof copy)
		return false;
	if (text.ptr[digits] == '0' ? text.len > 1 : text.ptr[digits] < '1')
		return false;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	*number = strtoll(copy, &end, 10);
	return end == copy + text.len;
}

bool wr_sim_redis_parse_score(struct weir_str text, double *score)
{
	char copy[64];
	char *end;

	if (text.len == 0 || text.len >= sizeof copy)
		return false;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	*score = strtod(copy, &end);
	return *end == '\0' && !isnan(*score);
}

static const struct wr_sim_redis_op *find_op(struct weir_str name)
{
	static const struct wr_sim_redis_op *const lists[4] = {
		wr_sim_redis_string_ops, wr_sim_redis_collection_ops, wr_sim_redis_range_ops,
		wr_sim_redis_server_ops};

	for (size_t i = 0; i < 4; i++)
		for (const struct wr_sim_redis_op *op = lists[i]; op->name; op++)
			if (wr_sim_redis_word_is(name, op->name))
				return op;
	return NULL;
}

/* Returns true if the running script declared the key. Scripts may use only declared keys, as in a
 * cluster. Outside of scripts, always returns true. */
static bool is_declared(const struct wr_sim_redis *redis, struct weir_str key)
{
	for (size_t i = 0; i < redis->key_count; i++)
		if (wr_str_equal(redis->keys[i], key) ||
		    (redis->keys_are_prefixes && wr_str_begins(key, redis->keys[i])))
			return true;
	return !redis->in_script;
}

void wr_sim_redis_command(struct wr_sim_redis *redis, const struct weir_str *argv, size_t argc,
			  struct wr_buf *out)
{
	const struct wr_sim_redis_op *op = find_op(argv[0]);
	struct wr_sim_redis_call call = {redis, argv, argc, out, NULL};
	char text[160];

	if (!op) {
		wr_sim_redis_unexpected(redis, "the simulated Redis does not know the command %.*s",
					(int)argv[0].len, argv[0].ptr);
		snprintf(text, sizeof text, "ERR unknown command '%.*s'", (int)argv[0].len,
			 argv[0].ptr);
		wr_sim_reply_error(out, text);
		return;
	}
	if (op->argc >= 0 ? argc != (size_t)op->argc : argc < (size_t)-op->argc) {
		wr_sim_redis_unexpected(redis, "%s with %zu arguments", op->name, argc);
		snprintf(text, sizeof text, "ERR wrong number of arguments for '%s' command",
			 op->name);
		wr_sim_reply_error(out, text);
		return;
	}
	if (op->writes && redis->replica) {
		wr_sim_reply_error(out, WR_SIM_REDIS_READONLY);
		return;
	}
	if (op->keyed && !is_declared(redis, argv[1])) {
		wr_sim_redis_unexpected(redis, "%s uses a key that is not in KEYS: %.*s", op->name,
					(int)argv[1].len, argv[1].ptr);
		wr_sim_reply_error(out, "ERR Script attempted to access a non local key");
		return;
	}
	if (op->type != WR_SIM_REDIS_ANY)
		call.value = wr_sim_redis_find(redis, argv[1]);
	if (call.value && call.value->type != op->type)
		wr_sim_redis_refuse(
			&call, "WRONGTYPE Operation against a key holding the wrong kind of value");
	else
		op->run(&call);
}

/* ---- input ---- */

/* Reads a line such as "*3\r\n" or "$5\r\n" at *at and moves *at behind it. Returns false if the
 * line is incomplete. */
static bool read_header(const struct wr_buf *in, size_t *at, char kind, size_t *number)
{
	const char *end;

	if (*at >= in->len)
		return false;
	end = memchr(in->ptr + *at, '\n', in->len - *at);
	if (!end)
		return false;
	if (in->ptr[*at] != kind) {
		fprintf(stderr, "sim: a client sent bytes that are not a command\n");
		abort();
	}
	*number = 0;
	for (const char *digit = in->ptr + *at + 1; *digit >= '0' && *digit <= '9'; digit++)
		*number = *number * 10 + (size_t)(*digit - '0');
	*at = (size_t)(end - in->ptr) + 1;
	return true;
}

/* Parses the command at the front of `in`. Returns the length of the command, or 0 if the command
 * is incomplete. */
static size_t parse_command(const struct wr_buf *in, struct weir_str *argv, size_t *argc)
{
	size_t at = 0, len;

	if (!read_header(in, &at, '*', argc))
		return 0;
	if (*argc == 0 || *argc > WR_SIM_REDIS_ARGS) {
		fprintf(stderr, "sim: a command has %zu arguments; the maximum is 512\n", *argc);
		abort();
	}
	for (size_t i = 0; i < *argc; i++) {
		if (!read_header(in, &at, '$', &len) || at + len + 2 > in->len)
			return 0;
		argv[i] = (struct weir_str){in->ptr + at, len};
		at += len + 2;
	}
	return at;
}

static bool is_write(struct weir_str name)
{
	return wr_sim_redis_word_is(name, "EVAL") || wr_sim_redis_word_is(name, "EVALSHA") ||
	       wr_sim_redis_word_is(name, "SET") || wr_sim_redis_word_is(name, "XADD") ||
	       wr_sim_redis_word_is(name, "DEL");
}

void wr_sim_redis_input(struct wr_sim_redis *redis, struct wr_buf *in, uint64_t now_us,
			struct wr_buf *out)
{
	struct weir_str argv[WR_SIM_REDIS_ARGS] = {{0}};
	size_t argc = 0, len;

	wr_assert(redis && in != out);
	redis->now_us = now_us;
	while ((len = parse_command(in, argv, &argc)) > 0) {
		redis->commands++;
		if (redis->error_reply && (redis->error_for_reads || is_write(argv[0])))
			wr_sim_reply_error(out, redis->error_reply);
		else if (!redis->intercept ||
			 !redis->intercept(redis->intercept_context, argv, argc, out))
			wr_sim_redis_command(redis, argv, argc, out);
		wr_buf_drop(in, len);
	}
	if (wr_buf_failed(in) || wr_buf_failed(out))
		wr_sim_no_memory();
}
