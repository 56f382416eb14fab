/* The Lua libraries `bit` and `struct`. Redis offers them to scripts, and weir's scripts use
 * them. */
#ifndef WR_SIM_LUA_LIBS_H
#define WR_SIM_LUA_LIBS_H

#include <lua5.1/lua.h>

/* Sets the globals `bit` and `struct`. */
void wr_sim_lua_open_libs(lua_State *state);

#endif
