/* The Redis backend: a queue that several processes share. Private to redis_*.c, the simulation in
 * test/sim/queue and the fuzzer.
 *
 * One Lua script (scripts/) does all jobs; each call is atomic. Before requests are stored, the
 * settings of Redis are checked, because Redis must not lose stored requests. A call whose reply
 * was lost is repeated. The script recognizes a repeated put by its ticket. Takes are numbered, and
 * the number of a take is its fence. The script recognizes a repeated settle by its fence. It also
 * recognizes a take whose reply was lost, because its fence is higher than all fences that this
 * process has received. */
#ifndef WR_QUEUE_REDIS_BACKEND_H
#define WR_QUEUE_REDIS_BACKEND_H

#include <hiredis/hiredis.h>
#include <openssl/ssl.h>

#include "queue/backend.h"
#include "redis/command.h"
#include "redis/script.h"
#include "redis/url.h"

/* maximum number of requests per call, to bound the size of a reply */
#define WR_QUEUE_REDIS_PAGE_MAX 200u

extern const struct wr_script wr_queue_script_lines;

/* ---- redis_link.c: one blocking connection ---- */

/* Functions that replace the socket in a simulation. Each call returns after the timeout at the
 * latest. */
struct wr_queue_redis_wire {
	bool (*connect)(void *context); /* returns false with errno set if there is no connection */
	/* Like send() and recv(); a result of 0 or less means that the connection is lost. */
	ssize_t (*send)(void *context, const void *bytes, size_t len);
	ssize_t (*receive)(void *context, void *bytes, size_t cap);
	void (*close)(void *context);
};

/* A reader of replies. A reply can state any number of elements for an array, and hiredis reserves
 * memory for all of them at once. This reader refuses arrays of more than a million elements. */
struct wr_queue_redis_reader {
	redisReader *state; /* NULL: closed */
	redisReplyObjectFunctions functions;
};

struct wr_queue_redis_link {
	int fd; /* the socket; below 0: not connected */
	/* True until a take is sent on this connection. The first take also frees the lines of
	 * earlier takes whose replies were lost with an earlier connection. */
	bool untaken;
	struct wr_tls_client *tls; /* NULL: a connection without TLS */
	SSL *session;
	struct wr_queue_redis_reader reader;
	bool fresh; /* true until the durability of Redis was checked on this connection */
	size_t fed; /* number of bytes of the current reply that were received */
	struct wr_commands out;
	uint64_t timeout_us;
	const struct wr_queue_redis_wire *wire; /* NULL: a real socket is used */
	void *wire_context;
};

/* Returns false if there is no memory. The caller frees the replies with freeReplyObject(). */
bool wr_queue_redis_reader_open(struct wr_queue_redis_reader *reader);
void wr_queue_redis_reader_close(struct wr_queue_redis_reader *reader);

/* Initializes a connection without connecting. Returns 0, or WEIR_EINVAL if certificates cannot be
 * used. */
int wr_queue_redis_link_init(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			     const struct wr_queue_opts *opts, struct weir_error *error);
void wr_queue_redis_link_free(struct wr_queue_redis_link *link);

/* Connects, logs in and loads the script. On failure returns false with *error filled in. */
bool wr_queue_redis_connect(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			    struct weir_error *error);
void wr_queue_redis_disconnect(struct wr_queue_redis_link *link);

/* Sends the commands in link->out. If the connection is lost, closes it and returns false. */
bool wr_queue_redis_send(struct wr_queue_redis_link *link);

/* Returns the next reply, which the caller frees with freeReplyObject(). If the connection is lost,
 * closes it and returns NULL. */
redisReply *wr_queue_redis_read_reply(struct wr_queue_redis_link *link);

/* ---- redis_owner.c ---- */

#define WR_QUEUE_OWNER_TEXT 17u /* size of an owner name: 16 hexadecimal digits and a zero byte */

struct wr_queue_owner {
	char name[WR_QUEUE_OWNER_TEXT];
	const char *path;
	int fd; /* the locked file with the owner name; below 0: the owner name is in no file */
};

/* Reads the owner name from the file `path`, or makes a random name if `path` is NULL or the file
 * cannot be locked. Returns 0, or WEIR_ESYS if the system provides no random numbers. */
int wr_queue_owner_open(struct wr_queue_owner *owner, const char *path, struct weir_error *error);
void wr_queue_owner_close(struct wr_queue_owner *owner);

/* ---- redis_backend.c ---- */

struct wr_queue_redis {
	struct wr_queue_backend backend;
	struct wr_redis_target target;
	struct wr_queue_redis_link link;
	char base[WR_REDIS_PREFIX_MAX + 32]; /* prefix of all keys of the queue in Redis */
	struct wr_queue_moment now;          /* time when the current jobs began */
	struct wr_queue_owner owner;         /* the name under which this process takes requests */
	uint64_t received; /* the highest fence (number of a take) that this process has received */
	/* number of the current connection; each connection of an owner has a higher number than
	 * the connections before */
	uint64_t links;
	/* the highest change number that a poll returned; below 0: the next poll reports all
	 * lines */
	int64_t changes;
	uint64_t tidied_us; /* monotonic time of the latest call of tidy.lua */
	/* monotonic time when an error of the script was last logged; 0: never */
	uint64_t logged_us;
	uint64_t commits;
	char run[64]; /* run_id of the Redis process, which changes when Redis restarts */
	/* true: the append-only file of this Redis process is known to contain all data */
	bool whole_file;
	bool volatile_logged; /* true if the log already says that Redis would lose requests */
	bool trusted_logged;  /* true if the log already says that Redis hides its settings */
};

/* ---- redis_job.c: translates jobs into calls, and replies into results of jobs ---- */

/* Begins a call of the script in link.out: EVALSHA with the verb. The caller then appends `args`
 * arguments. */
void wr_queue_redis_begin_call(struct wr_queue_redis *redis, const char *verb, size_t args);

/* Appends the script call of a job to link.out. Makes a ticket for a put that has no ticket.
 * Returns false if memory is exhausted or encryption failed. */
bool wr_queue_redis_write_call(struct wr_queue_redis *redis, struct wr_queue_job *job);

/* Reads the reply into the results of the job and reports changed lines. A malformed reply sets
 * job->reason to WR_QUEUE_FAILED. */
void wr_queue_redis_read_answer(struct wr_queue_redis *redis, struct wr_queue_job *job,
				const redisReply *reply);

/* ---- redis_row.c ---- */

/* Return element `at` of an array reply as a number or a text; 0 or "" if there is no such
 * element. */
int64_t wr_queue_redis_number(const redisReply *reply, size_t at);
struct weir_str wr_queue_redis_text(const redisReply *reply, size_t at);

/* Reads a request from a reply. now_us is the queue's time in the same reply. Secret fields are
 * decrypted if `open` is set. Returns NULL if the reply is malformed or memory is exhausted. */
struct wr_queue_request *wr_queue_redis_read_row(const struct wr_queue_redis *redis,
						 const redisReply *row, uint64_t now_us, bool open);

/* A reply can contain pairs: a line and the number of its waiting requests. The first pair begins
 * at element `at`. Calls opts->waiting for each pair. Returns the index of the first element after
 * the pairs. */
size_t wr_queue_redis_report_lines(const struct wr_queue_redis *redis, const redisReply *reply,
				   size_t at);

/* Returns the reason with this name: WR_QUEUE_OK for "", WR_QUEUE_FAILED for an unknown name. */
enum wr_queue_reason wr_queue_redis_reason_of(struct weir_str name);

/* Returns the reason with which a job fails after this error reply. */
enum wr_queue_reason wr_queue_redis_error_reason(const redisReply *reply);

/* ---- redis_durability.c ---- */

/* Asks Redis for its settings with CONFIG GET. In three cases, also sends INFO: `thoroughly` is
 * set, this is the first check on a connection, or INFO has not yet shown a complete append-only
 * file. Returns WR_QUEUE_OK if Redis does not lose stored requests, WR_QUEUE_NOT_PERSISTENT if
 * Redis could lose them, WR_QUEUE_AWAY if the connection was lost. Logs when the result changes. */
enum wr_queue_reason wr_queue_redis_check_durability(struct wr_queue_redis *redis, bool thoroughly);

#endif
