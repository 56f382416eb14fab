/* The queue in Redis, shared by several gateways. Private to remote*.c.
 *
 * All is done by one script (scripts/), each call at once or not at all. Before requests are stored
 * it is checked that Redis would keep them. A call whose answer was lost is made again: the script
 * knows what was put by its ticket, what was settled by its fence, and of what was taken the fences
 * that we have heard of. */
#ifndef WR_QUEUE_REDIS_BACKEND_H
#define WR_QUEUE_REDIS_BACKEND_H

#include <hiredis/hiredis.h>
#include <openssl/ssl.h>

#include "queue/backend.h"
#include "redis/command.h"
#include "redis/script.h"
#include "redis/url.h"

#define WR_QUEUE_REDIS_PAGE_MAX 200u /* looked at in one call, so that an answer has a bound */

extern const struct wr_script wr_script_lines;

/* ---- remote_link.c: one connection, on which one waits ---- */

/* Carries bytes in place of a socket: a simulation. Each call ends after the timeout at the latest.
 */
struct wr_remote_wire {
	bool (*connect)(void *context); /* false, with errno: there is no connection */
	/* As send() and recv(): the connection is lost where they return 0 or below. */
	ssize_t (*send)(void *context, const void *bytes, size_t len);
	ssize_t (*receive)(void *context, void *bytes, size_t cap);
	void (*close)(void *context);
};

struct wr_queue_redis_link {
	int fd;       /* below 0: there is none */
	bool untaken; /* nothing was taken on it yet: answers to takes before it may have been lost
		       */
	SSL_CTX *tls;
	SSL *session;
	redisReader *reader;
	bool fresh; /* nothing was asked on it yet */
	size_t fed; /* bytes of the reply that is coming */
	struct wr_commands out;
	uint64_t timeout_us;
	const struct wr_remote_wire *wire; /* NULL: sockets */
	void *wire_context;
};

/* WEIR_EINVAL: certificates are of no use. */
int wr_queue_redis_link_init(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			     const struct wr_queue_opts *opts, struct weir_error *error);
void wr_queue_redis_link_free(struct wr_queue_redis_link *link);

/* Connects and logs in. False, with a sentence, and there is no connection. */
bool wr_queue_redis_connect(struct wr_queue_redis_link *link, const struct wr_redis_target *target,
			    struct weir_error *error);
void wr_queue_redis_disconnect(struct wr_queue_redis_link *link);

/* Sends what is in `out`. False: the connection is lost, and closed. */
bool wr_queue_redis_send(struct wr_queue_redis_link *link);

/* The next reply, to be freed with freeReplyObject(). NULL: the connection is lost, and closed. */
redisReply *wr_queue_redis_read_reply(struct wr_queue_redis_link *link);

/* ---- remote_tls.c ---- */

SSL_CTX *wr_queue_redis_tls_new(const struct wr_queue_tls *files, struct weir_error *error);

/* A session on this socket, which blocks with timeouts. NULL, with a sentence. */
SSL *wr_queue_redis_handshake(SSL_CTX *tls, int fd, const struct wr_endpoint *at,
			      struct weir_error *error);

/* ---- remote_owner.c ---- */

#define WR_OWNER_TEXT 17u /* hexadecimal digits, and the end */

struct wr_queue_owner {
	char name[WR_OWNER_TEXT];
	const char *path;
	int fd; /* the file, locked; below 0: the name was made for this once */
};

/* path: NULL for none. WEIR_ESYS: there are no random numbers. */
int wr_queue_owner_open(struct wr_queue_owner *owner, const char *path, struct weir_error *error);
void wr_queue_owner_close(struct wr_queue_owner *owner);

/* ---- remote.c ---- */

struct wr_remote {
	struct wr_queue_backend backend;
	struct wr_redis_target target;
	struct wr_queue_redis_link link;
	char base[WR_REDIS_PREFIX_MAX + 32]; /* what keys begin with */
	struct wr_moment now;                /* of the jobs under way */
	struct wr_queue_owner owner;         /* of what is taken */
	uint64_t heard;                      /* the highest fence we were told */
	uint64_t links;     /* connections on which something was taken, counted on by Redis */
	int64_t changes;    /* the last that was seen; below 0: all lines are to be told */
	uint64_t tidied_us; /* by the clock that only goes on */
	uint64_t said_us;   /* when an error of the script was said */
	uint64_t commits;
	char run[64];       /* which process of Redis that was */
	bool whole_file;    /* the append-only file of this server has all */
	bool volatile_said; /* that it does not keep what is stored */
	bool trusted_said;  /* that nobody knows whether it does */
};

/* ---- remote_job.c: a job as a call, and an answer as its result ---- */

/* Puts the call of the script into `out`. False: no memory. For a put that has no ticket yet, one
 * is made. */
bool wr_queue_redis_write_call(struct wr_remote *redis, struct wr_queue_job *job);

/* Reads the answer, and tells of lines. An answer that makes no sense is WR_QUEUE_FAILED. */
void wr_remote_answer(struct wr_remote *redis, struct wr_queue_job *job, const redisReply *reply);

/* ---- remote_row.c ---- */

/* Numbers and texts of an answer; 0 and "" where they are not. */
int64_t wr_remote_number(const redisReply *reply, size_t at);
struct weir_str wr_remote_text(const redisReply *reply, size_t at);

/* A request out of an answer. NULL: it is none, or no memory. */
struct wr_deferred *wr_queue_redis_read_row(const struct wr_remote *redis, const redisReply *row,
					    uint64_t now_us, bool open);

/* Tells of (line, waiting) pairs from element `at` on, until a text that is no line. Returns where
 * that is. */
size_t wr_queue_redis_report_lines(const struct wr_remote *redis, const redisReply *reply,
				   size_t at);

/* The reason with this name; WR_QUEUE_FAILED if there is none. */
enum wr_queue_reason wr_queue_redis_reason_of(struct weir_str name);

/* What an error reply means to who submitted the job. */
enum wr_queue_reason wr_queue_redis_error_reason(const redisReply *reply);

/* ---- remote_keeps.c ---- */

/* Whether what is stored now is kept: asks Redis. Says so when it becomes otherwise. Thoroughly:
 * every second, and by itself on a new connection. */
enum wr_queue_reason wr_queue_redis_check_durability(struct wr_remote *redis, bool thoroughly);

#endif
