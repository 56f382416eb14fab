/* A conversation in the Redis protocol, without the socket: bytes in, replies out.
 *
 * Commands are read where they lie in the input. What is left of it, half a command or commands
 * whose replies would be too many at once, is kept until it can go on.
 *
 * A command that has to ask the central store is answered later (wait.h). Those behind it are
 * run meanwhile, and replies go out in the order of the commands.
 */
#ifndef WR_WIRE_RESP_SESSION_H
#define WR_WIRE_RESP_SESSION_H

#include <stdatomic.h>

#include <weir/engine.h>

#include "base/secret.h"
#include "wire/resp/resp.h"
#include "wire/resp/reply.h"
#include "wire/resp/users.h"
#include "wire/resp/throttle.h"

#define WR_RESP_NAME_MAX 64u
#define WR_RESP_REPLY_BYTES_MAX (128u << 10) /* no single reply is longer */
#define WR_RESP_HELD_MAX (WR_RESP_COMMAND_BYTES_MAX + 65536u)
#define WR_RESP_LARGE_HELD_MAX (WR_RESP_LARGE_BYTES_MAX + 65536u) /* … of a large command */
#define WR_RESP_LARGE_ALL_MAX                                                                      \
	(128u                                                                                      \
	 << 20) /* memory of large commands, of all sessions of a host                        \
		      */

#define WR_RESP_MULTI_BYTES_MAX (1u << 20) /* commands between MULTI and EXEC, of a session */
#define WR_RESP_MULTI_ALL_MAX (16u << 20)  /* … of all sessions of a host */
#define WR_RESP_REDIS_VERSION "7.0.0"      /* the version that clients may rely on */

struct wr_resp_entry;
struct wr_resp_central;
struct wr_resp_decider;
struct wr_resp_queue;
struct wr_resp_wait;

/* Numbers for INFO that are not of one loop. Each is written by one thread. */
struct wr_resp_tally {
	_Atomic uint64_t connected, accepted, commands, limited, bad;
};

/* By the one thread that writes it. */
static inline void wr_resp_count(_Atomic uint64_t *number)
{
	atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static inline void wr_resp_tally_add(struct wr_resp_tally *sum, const struct wr_resp_tally *part)
{
	sum->connected += part->connected;
	sum->accepted += part->accepted;
	sum->commands += part->commands;
	sum->limited += part->limited;
	sum->bad += part->bad;
}

/* A command that has been read, and what could be done of it before its turn. */
struct wr_resp_ready {
	struct wr_resp_command command;
	const struct wr_resp_entry *entry; /* NULL: there is no such command */
	bool prepared;                     /* the rest is set */
	struct wr_throttle_request throttle;
};

#define WR_RESP_BATCH 16 /* commands that are read before the first of them is run */

/* What the sessions of one thread share. */
struct wr_resp_host {
	struct weir_engine *engine; /* both of now: set before each input */
	struct weir_table *table;
	const struct wr_resp_users *users; /* NULL: no password is asked for */
	const struct wr_secret *link_key;  /* of nginx's workers; NULL: none may link */
	const struct wr_resp_decider *decider;
	const struct wr_resp_central *central; /* NULL: there is no central store */
	size_t waits, waits_max; /* commands of all sessions that wait for it, and their bound */
	const struct wr_resp_queue *queue; /* NULL: there is no queue for deferred requests */
	size_t large;                      /* memory of commands that are large, half read */
	size_t multi_bytes;                /* memory of open transactions */
	bool line;                         /* sessions stand in line for one of these */
	bool shadow;                       /* decide and count, but let everything pass */
	uint64_t started_ns;
	struct wr_resp_tally tally;
	/* Adds up the tallies of all threads; NULL: there is only this one. */
	void (*sum)(const struct wr_resp_host *host, struct wr_resp_tally *sum);
	struct wr_throttle_memo throttle;
	struct wr_resp_reader reader;
	struct wr_resp_ready batch[WR_RESP_BATCH];
};

enum wr_resp_multi_state {
	WR_MULTI_NONE = 0,
	WR_MULTI_OPEN,    /* commands are kept until EXEC or DISCARD */
	WR_MULTI_RUNNING, /* EXEC came: the kept commands run before any further input */
};

/* The commands of a transaction (commands_multi.c), as an input that is read when EXEC comes. */
struct wr_resp_multi {
	uint8_t *bytes;
	uint32_t len, cap;
	uint32_t at; /* bytes that have run */
	uint32_t count;
	uint8_t state; /* enum wr_resp_multi_state */
	bool failed;   /* a command was refused: EXEC refuses all of them */
};

struct wr_resp_session {
	struct wr_resp_host *host;
	uint64_t id;
	uint64_t since_ns;
	const struct wr_resp_entry *last; /* command, for the next will be the same */
	struct wr_resp_parser parser;
	uint8_t *held; /* input to go on with */
	uint32_t held_len, held_cap;
	struct wr_resp_multi multi;
	struct wr_resp_wait *waits, *waits_last; /* in the order of their commands */
	uint32_t wait_count;
	uint32_t turn;       /* in spite of the line, so many more commands may wait */
	uint32_t kept_bytes; /* replies that have to wait for those before them */
	uint16_t port;       /* it came in by; 0: not a TCP port */
	uint8_t protocol;
	bool trusted;     /* no password is asked for, or it was right */
	bool operates;    /* may give hits back and reset counters, without a password */
	bool unix_socket; /* who it is was checked */
	bool linked;      /* an nginx worker: it has shown the key */
	bool gone;        /* … and has ended the connection: nobody reads answers */
	bool stopped;     /* `held` may have commands that can not be run yet */
	bool inside;      /* in wr_resp_session_input, which will say what is answered */
	bool ended;       /* QUIT, or there is no sense in going on */
	char address[48]; /* the client's, without a port: attempts to log in are counted by it */
	char peer[112];   /* … with it, as shown */
	char user[WR_USER_NAME_MAX + 1];
	char name[WR_RESP_NAME_MAX + 1];
	char library[WR_RESP_NAME_MAX + 1], library_version[WR_RESP_NAME_MAX + 1];
};

/* `session` is zeroed but for address, peer, port, id, operates and unix_socket, which the caller
 * sets.
 */
void wr_resp_session_begin(struct wr_resp_session *session, struct wr_resp_host *host,
			   uint64_t now_ns);
void wr_resp_session_end(struct wr_resp_session *session);

/* Says what has been answered, reads and executes. Stops when `budget` bytes of replies are
 * exceeded or enough commands wait for the store: then session->stopped, and a call without data
 * goes on. When wr_resp_session_over says so, send what was written and close. */
void wr_resp_session_input(struct wr_resp_session *session, const uint8_t *data, size_t len,
			   uint64_t now_ns, size_t budget, struct wr_resp_out *out);

/* Whether input is kept, be it half a command. */
static inline bool wr_resp_session_waiting(const struct wr_resp_session *session)
{
	return session->held_len > 0;
}

/* Whether the last reply has been written. */
static inline bool wr_resp_session_over(const struct wr_resp_session *session)
{
	return session->ended && !session->waits;
}

/* As a new connection is: RESP2, nobody, no name. */
void wr_resp_session_reset(struct wr_resp_session *session);

#endif
