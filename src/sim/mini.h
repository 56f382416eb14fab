/* Redis in memory and in virtual time: as much of it as central and its scripts use, no sockets.
 *
 *   mini = wr_mini_new(lua);
 *   wr_mini_talk(mini, &in, now_us, &out);     // whole commands of `in` are carried out
 *
 * Scripts run in Lua 5.1, as in Redis, from the very text that central sends, with Redis' rules:
 * no globals, keys only as declared, numbers cut to integers in replies. What Redis has and this
 * does not know is answered with an error and counted, so that a simulation that meets it fails.
 *
 * test/sim/test_mini.c compares it with a real redis-server, reply by reply. */
#ifndef WR_SIM_MINI_H
#define WR_SIM_MINI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/bytes.h"

#define WR_MINI_ARGS 512u
#define WR_MINI_ROWS 64u
#define WR_MINI_SCRIPTS 16u
#define WR_MINI_READONLY "READONLY You can't write against a read only replica."

struct wr_lua;
struct wr_mini_value;

struct wr_mini {
	struct wr_mini_value *rows[WR_MINI_ROWS];
	struct wr_lua *lua;
	uint64_t now_us;             /* the server's clock, set with each call */
	bool knows[WR_MINI_SCRIPTS]; /* its script cache, by number in struct wr_lua */
	const struct weir_str *keys; /* that the script running now declared */
	size_t key_count;
	bool prefixes; /* … which are the beginnings of keys it may use: the queue's script */
	bool scripting;
	bool twice;          /* calls that may come twice do */
	const char *trouble; /* what clients' writes are answered with, or NULL */
	bool trouble_of_all; /* … and all else */
	bool replica;        /* takes no writes, and reads as a master does */
	uint64_t trouble_number;
	/* A cluster: what clients send is shown to it before it is carried out; true: it is
	 * answered.
	 */
	bool (*gate)(void *context, const struct weir_str *argv, size_t argc, struct wr_bytes *out);
	void *gate_context;
	bool asking;              /* the client's last command was ASKING */
	uint64_t commands, calls; /* of clients; of which scripts */
	uint64_t errors;          /* of scripts, and commands it does not have */
	char error[256];          /* the last one */
};

struct wr_mini *wr_mini_new(struct wr_lua *lua);
void wr_mini_free(struct wr_mini *mini);

/* Carries out the whole commands at the front of `in`, and drops them; a part of one stays. */
void wr_mini_talk(struct wr_mini *mini, struct wr_bytes *in, uint64_t now_us, struct wr_bytes *out);

/* One command; its reply is appended. */
void wr_mini_command(struct wr_mini *mini, const struct weir_str *argv, size_t argc,
		     struct wr_bytes *out);

/* Data and scripts are gone, as after FLUSHALL (data), or a restart (both). */
void wr_mini_flush(struct wr_mini *mini, bool scripts);

/* `to` has what `from` has, and no scripts: what a replica knows when it takes over. */
void wr_mini_copy(struct wr_mini *to, const struct wr_mini *from);

/* One value goes from a server to another, or away. */
void wr_mini_move(struct wr_mini *to, struct wr_mini *from, const struct wr_mini_value *value);
void wr_mini_drop(struct wr_mini *mini, const struct wr_mini_value *value);

/* Notes what should not happen. */
__attribute__((format(printf, 2, 3))) void wr_mini_fault(struct wr_mini *mini, const char *format,
							 ...);

/* ---- values: mini_value.c ---- */

enum wr_mini_type { WR_MINI_STRING, WR_MINI_HASH, WR_MINI_ZSET, WR_MINI_STREAM };

/* A field of a hash, or a member of a sorted set. */
struct wr_mini_entry {
	struct wr_bytes name;
	struct wr_bytes text;
	double score;
};

struct wr_mini_value {
	struct wr_mini_value *next;
	uint64_t hash;
	struct wr_bytes key;
	enum wr_mini_type type;
	uint64_t expires_ms; /* 0: never */
	struct wr_bytes string;
	struct wr_mini_entry *entries;
	size_t count, cap;
};

/* What is there and has not expired, or NULL. */
struct wr_mini_value *wr_mini_find(struct wr_mini *mini, struct weir_str key);
/* … or a new one. */
struct wr_mini_value *wr_mini_make(struct wr_mini *mini, struct weir_str key,
				   enum wr_mini_type type);
bool wr_mini_remove(struct wr_mini *mini, struct weir_str key);

struct wr_mini_entry *wr_mini_entry(const struct wr_mini_value *value, struct weir_str name);
struct wr_mini_entry *wr_mini_entry_make(struct wr_mini_value *value, struct weir_str name);
void wr_mini_entry_drop(struct wr_mini_value *value, struct wr_mini_entry *entry);

/* ---- replies ---- */

void wr_mini_status(struct wr_bytes *out, const char *text);
void wr_mini_error(struct wr_bytes *out, const char *text);
void wr_mini_int(struct wr_bytes *out, int64_t number);
void wr_mini_bulk(struct wr_bytes *out, struct weir_str text);
void wr_mini_nil(struct wr_bytes *out);
void wr_mini_array(struct wr_bytes *out, size_t count);

/* ---- commands ---- */

struct wr_mini_call {
	struct wr_mini *mini;
	const struct weir_str *argv;
	size_t argc;
	struct wr_bytes *out;
};

struct wr_mini_op {
	const char *name;
	void (*run)(const struct wr_mini_call *call);
	int argc;   /* below 0: at least as many */
	bool keyed; /* argv[1] is a key */
	bool writes;
};

/* Returns the collection under argv[1], a new one if there is none and `make` is set, else NULL.
 * For a key of another type it answers WRONGTYPE, sets *wrong and returns NULL. */
struct wr_mini_value *wr_mini_collection(const struct wr_mini_call *call, enum wr_mini_type type,
					 bool make, bool *wrong);

/* mini_string.c, mini_set.c, mini_range.c, mini_server.c: each ends with an op without a name. */
extern const struct wr_mini_op wr_mini_strings[], wr_mini_sets[], wr_mini_ranges[],
	wr_mini_server[];

/* Whether it is a whole number as Redis takes it. */
bool wr_mini_number(struct weir_str text, int64_t *number);
bool wr_mini_is(struct weir_str text, const char *word); /* in any case */

/* ---- scripts: lua.c ---- */

/* An interpreter for any number of servers, one after the other. */
struct wr_lua *wr_lua_new(void);
void wr_lua_free(struct wr_lua *lua);

/* Number of one of weir's scripts by its text or its SHA1; below 0: none of them. */
int wr_lua_by_text(struct weir_str text);
int wr_lua_by_sha1(struct weir_str sha1);

/* Whether it promises that a call which comes twice does nothing more. */
bool wr_lua_repeats(int number, const struct weir_str *args, size_t arg_count);

/* Number of a script that is no one of central's: its text comes with the first call. */
#define WR_LUA_OTHER ((int)WR_MINI_SCRIPTS)

/* Runs one of weir's scripts, or the text if number is below 0. */
void wr_lua_run(struct wr_lua *lua, struct wr_mini *mini, int number, struct weir_str text,
		const struct weir_str *keys, size_t key_count, const struct weir_str *args,
		size_t arg_count, struct wr_bytes *out);

#endif
