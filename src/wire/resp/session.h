/* One client of the RESP listener, without its socket: bytes in, replies out.
 *
 * Commands are read in place from the input. The session copies the rest of the input, half a
 * command or commands whose replies have no room, until it can go on.
 *
 * A command that asks the central store gets its reply later (wait.h). Commands behind it run
 * meanwhile, and replies go out in the order of the commands.
 */
#ifndef WR_WIRE_RESP_SESSION_H
#define WR_WIRE_RESP_SESSION_H

#include <stdatomic.h>

#include <weir/host.h>

#include "base/secret.h"
#include "wire/resp/resp.h"
#include "wire/resp/reply.h"
#include "wire/resp/users.h"
#include "wire/resp/throttle.h"

#define WR_RESP_NAME_MAX 64u
#define WR_RESP_REPLY_BYTES_MAX (128u << 10) /* no single reply is longer */
#define WR_RESP_HELD_MAX (WR_RESP_COMMAND_BYTES_MAX + 65536u)
#define WR_RESP_LARGE_HELD_MAX (WR_RESP_LARGE_BYTES_MAX + 65536u) /* … of a large command */
#define WR_RESP_LARGE_ALL_MAX (128u << 20) /* memory of large commands, of all sessions of a host */

#define WR_RESP_MULTI_BYTES_MAX (1u << 20) /* commands between MULTI and EXEC, of a session */
#define WR_RESP_MULTI_ALL_MAX (16u << 20)  /* … of all sessions of a host */
#define WR_RESP_REDIS_VERSION "7.0.0"      /* reported to clients */

struct wr_resp_entry;
struct wr_resp_central;
struct wr_resp_decider;
struct wr_resp_queue;
struct wr_resp_wait;

/* Counters for INFO. Each thread writes its own; INFO adds them up. */
struct wr_resp_tally {
	_Atomic uint64_t connected, accepted, commands, limited, bad;
};

/* Adds 1. Called by the only thread that writes this counter. */
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

/* A command that has been read, and the work on it that was done ahead of its turn. */
struct wr_resp_ready {
	struct wr_resp_command command;
	const struct wr_resp_entry *entry; /* NULL: there is no such command */
	bool prepared;                     /* `throttle` is set */
	struct wr_throttle_request throttle;
};

#define WR_RESP_BATCH 16 /* commands that are read before the first of them is run */

/* Shared by all sessions of a thread. */
struct wr_resp_host {
	struct weir_engine *engine; /* current engine and table: set before each input */
	struct weir_table *table;
	const struct wr_resp_users *users; /* NULL: no password is asked for */
	const struct wr_secret *link_key;  /* of nginx's workers; NULL: none may link */
	const struct wr_resp_decider *decider;
	const struct wr_resp_central *central; /* NULL: there is no central store */
	size_t waits, waits_max; /* commands of all sessions that wait for it, and their bound */
	const struct wr_resp_queue *queue; /* NULL: there is no queue for deferred requests */
	size_t large;                      /* memory of large commands that are half read */
	size_t multi_bytes;                /* memory of open transactions */
	bool line;   /* sessions stand in line, because waits reached waits_max */
	bool shadow; /* decide and count, but let everything pass */
	uint64_t started_ns;
	struct wr_resp_tally tally;
	/* Adds up the counters of all threads; NULL: there is only this one. */
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
	const struct wr_resp_entry *last; /* command; the next one is often the same */
	struct wr_resp_parser parser;
	uint8_t *held; /* input that has not been run */
	uint32_t held_len, held_cap;
	struct wr_resp_multi multi;
	struct wr_resp_wait *waits, *waits_last; /* in the order of their commands */
	uint32_t wait_count;
	uint32_t turn;       /* so many more commands may wait although others stand in line */
	uint32_t kept_bytes; /* replies kept behind waits */
	uint16_t port;       /* of the listener; 0: a Unix socket */
	uint8_t protocol;
	bool trusted;     /* no password is needed, or it was right */
	bool operates;    /* may give hits back and reset counters, without a password */
	bool unix_socket; /* the kernel has identified the peer */
	bool linked;      /* an nginx worker that has shown the link key */
	bool gone;        /* … and has closed its end: it reads no replies */
	bool stopped;     /* `held` may have commands that cannot run yet */
	bool inside;      /* in wr_resp_session_input, which writes replies itself */
	bool ended;       /* after QUIT or a protocol error: no more commands */
	char address[48]; /* of the client, without a port; failed logins are counted by it */
	char peer[112];   /* … with the port, for people */
	char user[WR_USER_NAME_MAX + 1];
	char name[WR_RESP_NAME_MAX + 1];
	char library[WR_RESP_NAME_MAX + 1], library_version[WR_RESP_NAME_MAX + 1];
};

/* The caller zeroes the session and sets address, peer, port, id, operates and unix_socket. */
void wr_resp_session_begin(struct wr_resp_session *session, struct wr_resp_host *host,
			   uint64_t now_ns);
void wr_resp_session_end(struct wr_resp_session *session);

/* Writes replies whose answers have come, then reads and runs commands. Stops when more than
 * `budget` bytes of replies are written or too many commands wait; then session->stopped is set,
 * and a later call without data goes on. After each call the caller sends the replies, and closes
 * the connection if wr_resp_session_over is true. */
void wr_resp_session_input(struct wr_resp_session *session, const uint8_t *data, size_t len,
			   uint64_t now_ns, size_t budget, struct wr_resp_out *out);

/* Whether the session holds input, if only half a command. */
static inline bool wr_resp_session_waiting(const struct wr_resp_session *session)
{
	return session->held_len > 0;
}

/* Whether the session has ended and its last reply is written. */
static inline bool wr_resp_session_over(const struct wr_resp_session *session)
{
	return session->ended && !session->waits;
}

/* The state of a new connection: RESP2, not logged in, no name. */
void wr_resp_session_reset(struct wr_resp_session *session);

#endif
