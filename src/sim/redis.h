/* A Redis server in memory and in virtual time, without sockets. It supports only the commands that
 * central, the queue and their scripts use.
 *
 *   redis = wr_sim_redis_new(lua);
 *   wr_sim_redis_input(redis, &in, now_us, &out);     // runs all complete commands in `in`
 *
 * Scripts run in Lua 5.1, as in Redis, from the text that central sends. The rules of Redis apply:
 * a script sets no globals, uses only the keys that it declares, and numbers in its reply lose
 * their fraction. A command or option that this server does not know gets an error reply and is
 * counted in `errors`. A simulation with such an error fails.
 *
 * test/sim/test_redis.c compares this server with a real redis-server, reply by reply. */
#ifndef WR_SIM_REDIS_H
#define WR_SIM_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/memory.h"

#define WR_SIM_REDIS_ARGS 512u
#define WR_SIM_REDIS_BUCKETS 64u /* number of buckets of a new server */
#define WR_SIM_REDIS_SCRIPTS 16u
#define WR_SIM_REDIS_READONLY "READONLY You can't write against a read only replica."

struct wr_sim_lua;
struct wr_sim_redis_value;

struct wr_sim_redis {
	struct wr_sim_redis_value **buckets; /* a hash table of all keys */
	size_t bucket_count; /* a power of two; doubled when the server has many keys */
	size_t key_total;    /* number of keys, including expired keys that were not used since */
	struct wr_sim_lua *lua;
	uint64_t now_us; /* the server's clock, set by each call of wr_sim_redis_input() */
	/* cached[i]: the server has cached the script with the number i */
	bool cached[WR_SIM_REDIS_SCRIPTS];
	const struct weir_str *keys; /* the keys that the running script declared */
	size_t key_count;
	bool keys_are_prefixes; /* true: a script can use all keys that begin with a declared key */
	bool in_script;
	bool repeats_calls; /* each idempotent call runs twice, and the two replies are compared */
	/* If not NULL, writes of clients are not run and get this error reply. */
	const char *error_reply;
	bool error_for_reads;  /* true: all commands of clients, not only writes, get error_reply */
	bool replica;          /* the server is a replica and refuses writes */
	uint64_t error_number; /* number of the event that will clear error_reply */
	/* Called with each command of a client before the command runs. Returns true if it has
	 * appended a reply to `out`, in which case the command does not run. May be NULL. */
	bool (*intercept)(void *context, const struct weir_str *argv, size_t argc,
			  struct wr_buf *out);
	void *intercept_context;
	bool asking; /* the client's previous command was ASKING */
	/* number of commands of clients, and number of script calls among them */
	uint64_t commands, calls;
	uint64_t errors; /* number of failed scripts and unsupported commands */
	char error[256]; /* text of the latest error */
};

struct wr_sim_redis *wr_sim_redis_new(struct wr_sim_lua *lua);
void wr_sim_redis_free(struct wr_sim_redis *redis);

/* Runs the complete commands in `in`, removes them from `in` and appends their replies to `out`. An
 * incomplete command stays in `in`. */
void wr_sim_redis_input(struct wr_sim_redis *redis, struct wr_buf *in, uint64_t now_us,
			struct wr_buf *out);

/* Runs one command and appends its reply. */
void wr_sim_redis_command(struct wr_sim_redis *redis, const struct weir_str *argv, size_t argc,
			  struct wr_buf *out);

/* Removes all keys, and the cached scripts too if `scripts` is set. */
void wr_sim_redis_flush(struct wr_sim_redis *redis, bool scripts);

/* Replaces the data of `to` by a copy of the data of `from`. Afterwards `to`
 * has no cached scripts, like a promoted replica. */
void wr_sim_redis_copy(struct wr_sim_redis *to, const struct wr_sim_redis *from);

/* Moves a key and its value from the server `from` to the server `to`. */
void wr_sim_redis_move_value(struct wr_sim_redis *to, struct wr_sim_redis *from,
			     const struct wr_sim_redis_value *value);
/* Deletes a key and its value from the server. */
void wr_sim_redis_drop_value(struct wr_sim_redis *redis, const struct wr_sim_redis_value *value);

/* Counts an error and stores its text. A simulation with such an error fails. */
__attribute__((format(printf, 2, 3))) void wr_sim_redis_unexpected(struct wr_sim_redis *redis,
								   const char *format, ...);

/* ---- values: redis_value.c ---- */

enum wr_sim_redis_type {
	WR_SIM_REDIS_ANY, /* of a command: it accepts values of all types */
	WR_SIM_REDIS_STRING,
	WR_SIM_REDIS_HASH,
	WR_SIM_REDIS_ZSET,
	WR_SIM_REDIS_STREAM
};

/* A field of a hash, a member of a sorted set, or an entry of a stream. */
struct wr_sim_redis_entry {
	struct wr_buf name;
	struct wr_buf text;
	double score;
};

struct wr_sim_redis_value {
	struct wr_sim_redis_value *next;
	uint64_t hash;
	struct wr_buf key;
	enum wr_sim_redis_type type;
	uint64_t expires_ms; /* time when the key expires; 0: never */
	struct wr_buf string;
	struct wr_sim_redis_entry *entries; /* sorted by the order of insertion */
	size_t count, cap;
};

/* Returns the value of a key, or NULL if the key does not exist or has expired. */
struct wr_sim_redis_value *wr_sim_redis_find(struct wr_sim_redis *redis, struct weir_str key);
/* Returns the value of a key. If the key does not exist, adds an empty value of this type. */
struct wr_sim_redis_value *wr_sim_redis_find_or_add(struct wr_sim_redis *redis, struct weir_str key,
						    enum wr_sim_redis_type type);
/* Removes a key. Returns true if the key existed. */
bool wr_sim_redis_remove(struct wr_sim_redis *redis, struct weir_str key);

/* Returns the entry with this name, or NULL if there is no such entry. `value` may be NULL. */
struct wr_sim_redis_entry *wr_sim_redis_entry_find(const struct wr_sim_redis_value *value,
						   struct weir_str name);
/* Returns the entry with this name. If there is no such entry, adds an empty entry. */
struct wr_sim_redis_entry *wr_sim_redis_entry_add(struct wr_sim_redis_value *value,
						  struct weir_str name);
void wr_sim_redis_entry_remove(struct wr_sim_redis_value *value, struct wr_sim_redis_entry *entry);

/* ---- replies: each function appends one reply ---- */

void wr_sim_reply_status(struct wr_buf *out, const char *text);
void wr_sim_reply_error(struct wr_buf *out, const char *text);
void wr_sim_reply_int(struct wr_buf *out, int64_t number);
void wr_sim_reply_bulk(struct wr_buf *out, struct weir_str text);
void wr_sim_reply_nil(struct wr_buf *out);
void wr_sim_reply_array(struct wr_buf *out, size_t count); /* the caller adds the elements */

/* ---- commands ---- */

struct wr_sim_redis_call {
	struct wr_sim_redis *redis;
	const struct weir_str *argv;
	size_t argc;
	struct wr_buf *out;
	/* The value of the key argv[1]. NULL if there is no such key, or if the type of the command
	 * is WR_SIM_REDIS_ANY: such a command looks up the value itself if necessary. */
	struct wr_sim_redis_value *value;
};

struct wr_sim_redis_op {
	const char *name;
	void (*run)(const struct wr_sim_redis_call *call);
	int argc;   /* number of words, including the name; -n: at least n */
	bool keyed; /* argv[1] is a key */
	bool writes;
	/* The type that the value of argv[1] must have. If the value has another type, the reply is
	 * WRONGTYPE and the command does not run. */
	enum wr_sim_redis_type type;
};

/* Replies with this error and counts it in `errors`, so the simulation fails. */
void wr_sim_redis_refuse(const struct wr_sim_redis_call *call, const char *text);

/* The commands, defined in redis_string.c, redis_collection.c, redis_range.c and redis_server.c.
 * Each list ends with an element without a name. */
extern const struct wr_sim_redis_op wr_sim_redis_string_ops[], wr_sim_redis_collection_ops[],
	wr_sim_redis_range_ops[], wr_sim_redis_server_ops[];

/* Parses an integer in the form that Redis accepts. Returns false for any other text. */
bool wr_sim_redis_parse_int(struct weir_str text, int64_t *number);
/* Parses a score of a sorted set. Returns false if the text is not a number. */
bool wr_sim_redis_parse_score(struct weir_str text, double *score);
/* Returns true if the texts are equal without regard to case. */
bool wr_sim_redis_word_is(struct weir_str text, const char *word);

/* ---- scripts: lua.c ---- */

/* Returns a new Lua interpreter. Several servers may share an interpreter, because only one script
 * runs at a time. */
struct wr_sim_lua *wr_sim_lua_new(void);
void wr_sim_lua_free(struct wr_sim_lua *lua);

/* Adds the libraries `bit` and `struct` of lua_libs.c to an interpreter. */
struct lua_State;
void wr_sim_lua_open_libs(struct lua_State *state);

/* Return the number of the script of central that has this text or this SHA1. Return -1 if central
 * has no such script. */
int wr_sim_lua_script_by_text(struct weir_str text);
int wr_sim_lua_script_by_sha1(struct weir_str sha1);

/* Returns true if a second call of the script with these arguments has no effect. */
bool wr_sim_lua_is_idempotent(int number, const struct weir_str *args, size_t arg_count);

/* The script number for a script that does not belong to central, such as the script of the queue.
 * The first run with this number compiles the text, and later runs use the compiled text. */
#define WR_SIM_LUA_OTHER ((int)WR_SIM_REDIS_SCRIPTS)

/* Runs the script with this number and appends its reply. If the number is negative, `text` is
 * compiled and run. */
void wr_sim_lua_run(struct wr_sim_lua *lua, struct wr_sim_redis *redis, int number,
		    struct weir_str text, const struct weir_str *keys, size_t key_count,
		    const struct weir_str *args, size_t arg_count, struct wr_buf *out);

#endif
