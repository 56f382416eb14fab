/* The Redis backend: a queue shared by several gateways. Private to redis_*.c, the simulation in
 * test/sim/queue and the fuzzer.
 *
 * One Lua script (scripts/) does all jobs; each call is atomic. Before requests are stored, the
 * settings of Redis are checked: it must not lose them. A call whose reply was lost is repeated.
 * The script recognizes a repeated put by its ticket, a repeated settle by its fence, and lost
 * takes by the highest fence that this process has received. */
#ifndef WR_QUEUE_REDIS_BACKEND_H
#define WR_QUEUE_REDIS_BACKEND_H

#include <hiredis/hiredis.h>
#include <openssl/ssl.h>

#include "queue/backend.h"
#include "redis/command.h"
#include "redis/script.h"
#include "redis/url.h"

#define WR_QUEUE_REDIS_PAGE_MAX 200u /* requests per call, to bound the size of a reply */

extern const struct wr_script wr_script_lines;

/* ---- redis_link.c: one blocking connection ---- */

/* Replaces the socket in a simulation. Each call returns after the timeout at the latest. */
struct wr_queue_redis_wire {
	bool (*connect)(void *context); /* false, with errno set: no connection */
	/* As send() and recv(); the connection is lost if they return 0 or less. */
	ssize_t (*send)(void *context, const void *bytes, size_t len);
	ssize_t (*receive)(void *context, void *bytes, size_t cap);
	void (*close)(void *context);
};

struct wr_queue_redis_link {
	int fd;       /* below 0: not connected */
	bool untaken; /* no take was sent on this connection yet; replies to takes on an earlier
			 connection may have been lost */
	SSL_CTX *tls;
	SSL *session;
	redisReader *reader;
	bool fresh; /* durability was not checked on this connection yet */
	size_t fed; /* bytes received of the current reply */
	struct wr_commands out;
	uint64_t timeout_us;
	const struct wr_queue_redis_wire *wire; /* NULL: a socket */
	void *wire_context;
};

/* Returns 0, or WEIR_EINVAL if certificates cannot be used. */
int wr_queue_redis_link_init(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			     const struct wr_queue_opts *opts, struct weir_error *error);
void wr_queue_redis_link_free(struct wr_queue_redis_link *link);

/* Connects, logs in and loads the script. False, with *error filled in: there is no connection. */
bool wr_queue_redis_connect(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			    struct weir_error *error);
void wr_queue_redis_disconnect(struct wr_queue_redis_link *link);

/* Sends the commands in link->out. False: the connection was lost and is closed. */
bool wr_queue_redis_send(struct wr_queue_redis_link *link);

/* Returns the next reply, to be freed with freeReplyObject(). NULL: the connection was lost and is
 * closed. */
redisReply *wr_queue_redis_read_reply(struct wr_queue_redis_link *link);

/* ---- redis_tls.c: both return NULL with *error filled in if they fail ---- */

SSL_CTX *wr_queue_redis_tls_new(const struct wr_queue_tls *files, struct weir_error *error);

/* Makes a TLS session on a connected blocking socket and checks the server's certificate. */
SSL *wr_queue_redis_handshake(SSL_CTX *tls, int fd, const struct wr_endpoint *at,
			      struct weir_error *error);

/* ---- redis_owner.c ---- */

#define WR_QUEUE_OWNER_TEXT 17u /* 16 hexadecimal digits and a zero byte */

struct wr_queue_owner {
	char name[WR_QUEUE_OWNER_TEXT];
	const char *path;
	int fd; /* the locked file; below 0: none, and the name is used by this process only */
};

/* Reads or makes the owner name. `path` may be NULL. Returns 0, or WEIR_ESYS if there are no random
 * numbers. A file that cannot be locked is no error: the name is then random. */
int wr_queue_owner_open(struct wr_queue_owner *owner, const char *path, struct weir_error *error);
void wr_queue_owner_close(struct wr_queue_owner *owner);

/* ---- redis_backend.c ---- */

struct wr_queue_redis {
	struct wr_queue_backend backend;
	struct wr_redis_target target;
	struct wr_queue_redis_link link;
	char base[WR_REDIS_PREFIX_MAX + 32]; /* prefix of all keys */
	struct wr_queue_moment now;          /* of the current jobs */
	struct wr_queue_owner owner;         /* name under which this process takes requests */
	uint64_t heard;                      /* the highest fence received */
	uint64_t links;     /* number of the connection, counted per owner; see take.lua */
	int64_t changes;    /* number of the last change seen; below 0: report all lines */
	uint64_t tidied_us; /* monotonic time of the last tidy */
	uint64_t logged_us; /* monotonic time of the last logged error of the script; 0: never */
	uint64_t commits;
	char run[64];         /* run_id of the Redis process */
	bool whole_file;      /* the append-only file of this Redis process is complete */
	bool volatile_logged; /* it was logged that Redis would lose requests */
	bool trusted_logged;  /* it was logged that the settings of Redis are unknown */
};

/* ---- redis_job.c: translates a job into a call and a reply into its results ---- */

/* Begins a script call in link.out: EVALSHA with the verb. `args` arguments must follow. */
void wr_queue_redis_begin_call(struct wr_queue_redis *redis, const char *verb, size_t args);

/* Appends the script call of a job to link.out. Makes a ticket for a put that has none. False:
 * memory is exhausted or encryption failed. */
bool wr_queue_redis_write_call(struct wr_queue_redis *redis, struct wr_queue_job *job);

/* Reads the reply into the job and reports changed lines. A malformed reply is WR_QUEUE_FAILED. */
void wr_queue_redis_read_answer(struct wr_queue_redis *redis, struct wr_queue_job *job,
				const redisReply *reply);

/* ---- redis_row.c ---- */

/* Element `at` of an array reply as a number or a text; 0 or "" if there is none. */
int64_t wr_queue_redis_number(const redisReply *reply, size_t at);
struct weir_str wr_queue_redis_text(const redisReply *reply, size_t at);

/* Reads a request from a reply; now_us is the queue's time at the reply. `open`: decrypt secret
 * fields. Returns NULL if the reply is malformed or memory is exhausted. */
struct wr_deferred *wr_queue_redis_read_row(const struct wr_queue_redis *redis,
					    const redisReply *row, uint64_t now_us, bool open);

/* Reports the (line, waiting) pairs from element `at` on, up to a text that is not a line. Returns
 * the index of that text. */
size_t wr_queue_redis_report_lines(const struct wr_queue_redis *redis, const redisReply *reply,
				   size_t at);

/* The reason with this name. "" is WR_QUEUE_OK, an unknown name WR_QUEUE_FAILED. */
enum wr_queue_reason wr_queue_redis_reason_of(struct weir_str name);

/* Translates an error reply into the reason for a job. */
enum wr_queue_reason wr_queue_redis_error_reason(const redisReply *reply);

/* ---- redis_durability.c ---- */

/* Asks Redis for its settings. Returns WR_QUEUE_OK if it does not lose stored requests,
 * WR_QUEUE_NOT_PERSISTENT if it could, WR_QUEUE_AWAY if the connection was lost. Logs changes.
 * `thoroughly` also asks for INFO, as the first call on a connection always does. */
enum wr_queue_reason wr_queue_redis_check_durability(struct wr_queue_redis *redis, bool thoroughly);

#endif
