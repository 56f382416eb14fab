/* Runs scripts in Lua 5.1 by the rules of Redis. The commands EVAL and EVALSHA (redis_server.c)
 * call wr_sim_lua_run(). */
#include <lua5.1/lauxlib.h>
#include <lua5.1/lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "sim/redis.h"
#include "redis/script.h"

static const struct wr_script *const scripts[] = {&wr_redis_script_take, &wr_redis_script_nodes,
						  &wr_redis_script_lease, &wr_redis_script_exchange,
						  &wr_redis_script_push};

enum { SCRIPTS = 5 };

_Static_assert(sizeof scripts == SCRIPTS * sizeof(void *), "SCRIPTS is the number of scripts");

_Static_assert(SCRIPTS <= (int)WR_SIM_REDIS_SCRIPTS, "a server can cache all scripts");

#define REPORT_FLAG 512 /* this bit of the first argument of script `take` marks a report */
/* a call of script `lease` with at least this many arguments names the owner of the lease */
#define LEASE_ARGS 12u

struct wr_sim_lua {
	lua_State *state;
	struct wr_sim_redis *redis; /* the server of the running script */
	struct wr_buf reply;        /* reply to the latest command of the script */
	int compiled[WR_SIM_LUA_OTHER +
		     1]; /* Lua references of compiled scripts, by script number; 0: not compiled */
};

int wr_sim_lua_script_by_text(struct weir_str text)
{
	for (int i = 0; i < SCRIPTS; i++)
		if (wr_str_equal(text, (struct weir_str){scripts[i]->text, scripts[i]->len}))
			return i;
	return -1;
}

int wr_sim_lua_script_by_sha1(struct weir_str sha1)
{
	for (int i = 0; i < SCRIPTS; i++)
		if (wr_str_equal_nocase(sha1, wr_str(scripts[i]->sha1)))
			return i;
	return -1;
}

bool wr_sim_lua_is_idempotent(int number, const struct weir_str *args, size_t arg_count)
{
	int64_t flags;

	if (number < 0)
		return false;
	if (scripts[number] == &wr_redis_script_take)
		return arg_count && wr_sim_redis_parse_int(args[0], &flags) && flags & REPORT_FLAG;
	return scripts[number] != &wr_redis_script_lease || arg_count >= LEASE_ARGS;
}

/* ---- conversion between replies and Lua values ---- */

/* Converts the reply at `at` to a Lua value and pushes the value on Lua's stack. Returns the end of
 * the reply. */
static const char *push_reply(lua_State *state, const char *at)
{
	const char *line = at + 1, *end = strstr(line, "\r\n");
	long long number = *at == ':' || *at == '$' || *at == '*' ? strtoll(line, NULL, 10) : 0;

	switch (*at) {
	case ':':
		lua_pushnumber(state, (lua_Number)number);
		return end + 2;
	case '$':
		if (number < 0) {
			lua_pushboolean(state, 0);
			return end + 2;
		}
		lua_pushlstring(state, end + 2, (size_t)number);
		return end + 2 + number + 2;
	case '*':
		if (number < 0) {
			lua_pushboolean(state, 0);
			return end + 2;
		}
		lua_createtable(state, (int)number, 0);
		at = end + 2;
		for (int i = 1; i <= number; i++) {
			at = push_reply(state, at);
			lua_rawseti(state, -2, i);
		}
		return at;
	default:
		lua_createtable(state, 0, 1);
		lua_pushlstring(state, line, (size_t)(end - line));
		lua_setfield(state, -2, *at == '-' ? "err" : "ok");
		return end + 2;
	}
}

/* Reads a text field of the table on top of Lua's stack. Appends the text to `out` as a reply whose
 * first character is `kind`. Returns false if the table has no such field. */
static bool reply_text_field(lua_State *state, const char *field, char kind, struct wr_buf *out)
{
	bool is = false;

	lua_getfield(state, -1, field);
	if (lua_type(state, -1) == LUA_TSTRING) {
		wr_buf_printf(out, "%c%.900s\r\n", kind, lua_tostring(state, -1));
		is = true;
	}
	lua_pop(state, 1);
	return is;
}

/* Appends the value on top of Lua's stack to `out` as a reply. The value stays on the stack. As in
 * Redis, numbers lose their fraction and a list ends at its first nil. */
static void reply_value(lua_State *state, struct wr_buf *out)
{
	struct weir_str text;
	size_t count = 0;

	switch (lua_type(state, -1)) {
	case LUA_TNUMBER:
		wr_sim_reply_int(out, (int64_t)lua_tonumber(state, -1));
		return;
	case LUA_TSTRING:
		text.ptr = lua_tolstring(state, -1, &text.len);
		wr_sim_reply_bulk(out, text);
		return;
	case LUA_TBOOLEAN:
		if (lua_toboolean(state, -1))
			wr_sim_reply_int(out, 1);
		else
			wr_sim_reply_nil(out);
		return;
	case LUA_TTABLE:
		break;
	default:
		wr_sim_reply_nil(out);
		return;
	}
	if (reply_text_field(state, "err", '-', out) || reply_text_field(state, "ok", '+', out))
		return;
	for (;; count++) {
		bool last;

		lua_rawgeti(state, -1, (int)count + 1);
		last = lua_isnil(state, -1);
		lua_pop(state, 1);
		if (last)
			break;
	}
	wr_sim_reply_array(out, count);
	for (size_t i = 1; i <= count; i++) {
		lua_rawgeti(state, -1, (int)i);
		reply_value(state, out);
		lua_pop(state, 1);
	}
}

/* ---- redis.call ---- */

/* Reads the arguments of redis.call as text and returns their number. Numbers are written with 17
 * digits, as Redis does. */
static int read_args(lua_State *state, struct weir_str *argv)
{
	int argc = lua_gettop(state);

	if (argc == 0 || argc > (int)WR_SIM_REDIS_ARGS)
		return luaL_error(state, "redis.call with %d arguments", argc);
	for (int i = 1; i <= argc; i++) {
		if (lua_type(state, i) == LUA_TNUMBER) {
			char text[40];

			snprintf(text, sizeof text, "%.17g", lua_tonumber(state, i));
			lua_pushstring(state, text);
			lua_replace(state, i);
		} else if (lua_type(state, i) != LUA_TSTRING) {
			return luaL_error(
				state, "redis.call: argument %d is neither a string nor a number",
				i);
		}
		argv[i - 1].ptr = lua_tolstring(state, i, &argv[i - 1].len);
	}
	return argc;
}

static int redis_call(lua_State *state)
{
	struct wr_sim_lua *lua = lua_touserdata(state, lua_upvalueindex(1));
	struct weir_str argv[WR_SIM_REDIS_ARGS];
	int argc = read_args(state, argv);

	wr_buf_clear(&lua->reply);
	wr_sim_redis_command(lua->redis, argv, (size_t)argc, &lua->reply);
	push_reply(state, lua->reply.ptr);
	if (lua->reply.ptr[0] != '-')
		return 1;
	lua_getfield(state, -1, "err");
	return lua_error(state);
}

/* ---- the interpreter ---- */

static int refuse_global(lua_State *state)
{
	return luaL_error(state, "the script accesses the undefined global variable '%s'",
			  lua_tostring(state, 2));
}

/* After this call a script fails if it reads an undefined global or sets any global, as in
 * Redis. */
static void close_globals(lua_State *state)
{
	lua_createtable(state, 0, 2);
	lua_pushcfunction(state, refuse_global);
	lua_setfield(state, -2, "__newindex");
	lua_pushcfunction(state, refuse_global);
	lua_setfield(state, -2, "__index");
	lua_setmetatable(state, LUA_GLOBALSINDEX);
}

static void open_library(lua_State *state, lua_CFunction open, const char *name)
{
	lua_pushcfunction(state, open);
	lua_pushstring(state, name);
	lua_call(state, 1, 0);
}

struct wr_sim_lua *wr_sim_lua_new(void)
{
	struct wr_sim_lua *lua = wr_sim_alloc(1, sizeof *lua);

	lua->reply = WR_SIM_BUF;
	lua->state = luaL_newstate();
	if (!lua->state)
		wr_sim_no_memory();
	open_library(lua->state, luaopen_base, "");
	open_library(lua->state, luaopen_string, LUA_STRLIBNAME);
	open_library(lua->state, luaopen_table, LUA_TABLIBNAME);
	open_library(lua->state, luaopen_math, LUA_MATHLIBNAME);
	wr_sim_lua_open_libs(lua->state);
	lua_createtable(lua->state, 0, 1);
	lua_pushlightuserdata(lua->state, lua);
	lua_pushcclosure(lua->state, redis_call, 1);
	lua_setfield(lua->state, -2, "call");
	lua_setglobal(lua->state, "redis");
	close_globals(lua->state);
	return lua;
}

void wr_sim_lua_free(struct wr_sim_lua *lua)
{
	if (!lua)
		return;
	lua_close(lua->state);
	wr_buf_free(&lua->reply);
	free(lua);
}

/* Pushes the compiled script on Lua's stack. On failure pushes the error text and returns false. */
static bool push_script(struct wr_sim_lua *lua, int number, struct weir_str text)
{
	if (number >= 0 && lua->compiled[number]) {
		lua_rawgeti(lua->state, LUA_REGISTRYINDEX, lua->compiled[number]);
		return true;
	}
	if (number >= 0 && number < SCRIPTS)
		text = (struct weir_str){scripts[number]->text, scripts[number]->len};
	if (luaL_loadbuffer(lua->state, text.ptr, text.len, "@user_script") != 0)
		return false;
	if (number >= 0) {
		lua_pushvalue(lua->state, -1);
		lua->compiled[number] = luaL_ref(lua->state, LUA_REGISTRYINDEX);
	}
	return true;
}

static void set_global_list(lua_State *state, const char *name, const struct weir_str *texts,
			    size_t count)
{
	lua_pushstring(state, name);
	lua_createtable(state, (int)count, 0);
	for (size_t i = 0; i < count; i++) {
		lua_pushlstring(state, texts[i].ptr, texts[i].len);
		lua_rawseti(state, -2, (int)i + 1);
	}
	lua_rawset(state, LUA_GLOBALSINDEX);
}

/* Writes the reply to the call of a script that failed. On a replica a script fails at its first
 * write, and the reply is the same as that of Redis 7. Any other failure is counted as an error,
 * and the simulation fails. */
static void reply_failure(struct wr_sim_redis *redis, const char *why, struct wr_buf *out)
{
	if (why && redis->replica && strcmp(why, WR_SIM_REDIS_READONLY) == 0) {
		wr_sim_reply_error(out, WR_SIM_REDIS_READONLY " script: weir, on @user_script:1.");
		return;
	}
	wr_sim_redis_unexpected(redis, "script: %s", why ? why : "error");
	wr_sim_reply_error(out, "ERR Error running script");
}

void wr_sim_lua_run(struct wr_sim_lua *lua, struct wr_sim_redis *redis, int number,
		    struct weir_str text, const struct weir_str *keys, size_t key_count,
		    const struct weir_str *args, size_t arg_count, struct wr_buf *out)
{
	lua_State *state = lua->state;

	wr_assert(number <= WR_SIM_LUA_OTHER);
	lua->redis = redis;
	set_global_list(state, "KEYS", keys, key_count);
	set_global_list(state, "ARGV", args, arg_count);
	if (push_script(lua, number, text) && lua_pcall(state, 0, 1, 0) == 0) {
		reply_value(state, out);
	} else {
		reply_failure(redis, lua_tostring(state, -1), out);
	}
	lua_settop(state, 0);
}
