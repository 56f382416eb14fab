/* The libraries that Redis adds to Lua and that weir's scripts use: bit, struct. */
#ifndef WR_SIM_LUA_LIBS_H
#define WR_SIM_LUA_LIBS_H

#include <lua5.1/lua.h>

/* Sets the globals. */
void wr_lua_libs(lua_State *state);

#endif
