/* The Lua libraries `bit` and `struct`, with only the functions that weir's scripts use. lua.c
 * calls wr_sim_lua_open_libs(). */
#include <lua5.1/lauxlib.h>

#include "sim/redis.h"

/* ---- bit: operations on 32 bits ---- */

static uint32_t read_bits(lua_State *state, int at)
{
	return (uint32_t)(int64_t)luaL_checknumber(state, at);
}

static int push_bits(lua_State *state, uint32_t bits)
{
	lua_pushnumber(state, (lua_Number)(int32_t)bits);
	return 1;
}

static int bit_and(lua_State *state)
{
	uint32_t bits = read_bits(state, 1);

	for (int i = lua_gettop(state); i > 1; i--)
		bits &= read_bits(state, i);
	return push_bits(state, bits);
}

static int bit_or(lua_State *state)
{
	uint32_t bits = read_bits(state, 1);

	for (int i = lua_gettop(state); i > 1; i--)
		bits |= read_bits(state, i);
	return push_bits(state, bits);
}

static int bit_xor(lua_State *state)
{
	uint32_t bits = read_bits(state, 1);

	for (int i = lua_gettop(state); i > 1; i--)
		bits ^= read_bits(state, i);
	return push_bits(state, bits);
}

static int bit_left(lua_State *state)
{
	return push_bits(state, read_bits(state, 1) << (read_bits(state, 2) & 31));
}

static int bit_right(lua_State *state)
{
	return push_bits(state, read_bits(state, 1) >> (read_bits(state, 2) & 31));
}

/* ---- struct: unsigned numbers of 1 to 8 bytes ---- */

/* Returns the length in bytes of the next element of a format such as ">I7I4B", or 0 at the end of
 * the format. Only the letters B, H and I are supported. After '>' *big becomes true, and after '<'
 * false. */
static int next_element_size(lua_State *state, const char **format, bool *big)
{
	int size = 0;

	while (**format == '>' || **format == '<' || **format == ' ') {
		*big = **format == ' ' ? *big : **format == '>';
		++*format;
	}
	switch (*(*format)++) {
	case '\0':
		--*format;
		return 0;
	case 'B':
		return 1;
	case 'H':
		return 2;
	case 'I':
		break;
	default:
		return luaL_error(state, "struct: the simulator supports only B, H and I");
	}
	while (**format >= '0' && **format <= '9')
		size = size * 10 + *(*format)++ - '0';
	if (size > 8)
		return luaL_error(state, "struct: an integer of %d bytes exceeds 8 bytes", size);
	return size ? size : 4;
}

static int struct_pack(lua_State *state)
{
	const char *format = luaL_checkstring(state, 1);
	bool big = false;
	luaL_Buffer out;
	int size, at = 2;

	luaL_buffinit(state, &out);
	while ((size = next_element_size(state, &format, &big)) > 0) {
		uint64_t number = (uint64_t)(int64_t)luaL_checknumber(state, at++);

		for (int i = 0; i < size; i++)
			luaL_addchar(&out, (char)(number >> 8 * (big ? size - 1 - i : i)));
	}
	luaL_pushresult(&out);
	return 1;
}

static int struct_unpack(lua_State *state)
{
	const char *format = luaL_checkstring(state, 1);
	size_t len, at = (size_t)luaL_optinteger(state, 3, 1) - 1;
	const uint8_t *text = (const uint8_t *)luaL_checklstring(state, 2, &len);
	bool big = false;
	int size, count = 0;

	while ((size = next_element_size(state, &format, &big)) > 0) {
		uint64_t number = 0;

		if (at + (size_t)size > len)
			return luaL_error(state, "data string too short");
		for (int i = 0; i < size; i++)
			number |= (uint64_t)text[at + (size_t)i] << 8 * (big ? size - 1 - i : i);
		luaL_checkstack(state, 2, "too many values");
		lua_pushnumber(state, (lua_Number)number);
		at += (size_t)size;
		count++;
	}
	lua_pushnumber(state, (lua_Number)(at + 1));
	return count + 1;
}

static const luaL_Reg bit_functions[] = {
	{"band", bit_and},    {"bor", bit_or},       {"bxor", bit_xor},
	{"lshift", bit_left}, {"rshift", bit_right}, {NULL, NULL},
};

static const luaL_Reg struct_functions[] = {
	{"pack", struct_pack},
	{"unpack", struct_unpack},
	{NULL, NULL},
};

void wr_sim_lua_open_libs(lua_State *state)
{
	luaL_register(state, "bit", bit_functions);
	luaL_register(state, "struct", struct_functions);
	lua_settop(state, 0);
}
