/* A session is the state of one client of the RESP listener, without the client's socket. It gets
 * bytes and writes replies.
 *
 * Commands are read in place from the input. The session copies input that cannot run yet: an
 * incomplete command, or commands whose replies have no room.
 *
 * A command that needs an answer of the central store gets its reply later (wait.h). Later commands
 * run in the meantime, and replies are sent in the order of the commands.
 */
#ifndef WR_WIRE_RESP_SESSION_H
#define WR_WIRE_RESP_SESSION_H

#include <stdatomic.h>

#include <weir/host.h>

#include "base/buffer.h"
#include "base/secret.h"
#include "wire/resp/resp.h"
#include "wire/resp/reply.h"
#include "wire/resp/users.h"
#include "wire/resp/throttle.h"

#define WR_RESP_NAME_MAX 64u
#define WR_RESP_REPLY_BYTES_MAX (128u << 10) /* maximum length of a single reply */
/* maximum length of a session's held input: input whose commands have not run */
#define WR_RESP_HELD_MAX (WR_RESP_COMMAND_BYTES_MAX + 65536u)
/* maximum length of the held input of a session that is reading a large command */
#define WR_RESP_LARGE_HELD_MAX (WR_RESP_LARGE_BYTES_MAX + 65536u)
/* maximum memory for large commands of all sessions of a host */
#define WR_RESP_LARGE_ALL_MAX (128u << 20)

/* maximum memory for the commands between MULTI and EXEC, of one session and of all sessions */
#define WR_RESP_MULTI_BYTES_MAX (1u << 20)
#define WR_RESP_MULTI_ALL_MAX (16u << 20)
#define WR_RESP_REDIS_VERSION "7.0.0" /* the Redis version that INFO and HELLO report */

struct wr_resp_entry;
struct wr_resp_central;
struct wr_resp_decider;
struct wr_resp_queue;
struct wr_resp_settler;
struct wr_resp_wait;

/* Counters for INFO. Each thread writes its own counters, and INFO shows their sums. */
struct wr_resp_tally {
	_Atomic uint64_t connected, accepted, commands, limited, bad;
};

/* Adds 1 to a counter. Called only by the thread that owns the counter. */
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

/* A command that has been read and has not run, and the result of its `prepare`. */
struct wr_resp_ready {
	struct wr_resp_command command;
	/* the command's element in wr_resp_commands; NULL: unknown command */
	const struct wr_resp_entry *entry;
	bool prepared; /* `throttle` has been filled by the command's `prepare` */
	struct wr_throttle_request throttle;
};

#define WR_RESP_BATCH 16 /* maximum number of commands that are read before the first one runs */

/* The data that all sessions of a thread share. */
struct wr_resp_host {
	struct weir_engine *engine; /* engine and table in use; set before each input */
	struct weir_table *table;
	const struct wr_resp_users *users; /* NULL: no password is required */
	/* the link key, which nginx's workers send with WEIR.LINK; NULL: WEIR.LINK is refused */
	const struct wr_secret *link_key;
	const struct wr_resp_decider *decider;
	const struct wr_resp_settler *settler;
	const struct wr_resp_central *central; /* NULL: there is no central store */
	/* `waits` is the number of commands of all sessions that wait for a decision or for the
	 * central store. With a central store, `waits_max` is the maximum of `waits`. */
	size_t waits, waits_max;
	const struct wr_resp_queue *queue; /* NULL: there is no queue for deferred requests */
	size_t large;                      /* total size of all large buffers `held`, in bytes */
	/* limits the memory of all transactions together; `max` is WR_RESP_MULTI_ALL_MAX */
	struct wr_buf_room multi_room;
	/* True if some sessions wait in a list, because `waits` had reached waits_max. The sessions
	 * of the list run one after the other. */
	bool line;
	bool shadow; /* shadow mode: requests are counted, but all of them pass */
	uint64_t started_ns;
	struct wr_resp_tally tally;
	/* Adds the counters of all threads to *sum. NULL: this thread is the only one. */
	void (*sum)(const struct wr_resp_host *host, struct wr_resp_tally *sum);
	struct wr_throttle_memo throttle;
	struct wr_resp_reader reader;
	struct wr_resp_ready batch[WR_RESP_BATCH];
};

enum wr_resp_multi_state {
	WR_MULTI_NONE = 0,
	WR_MULTI_OPEN,    /* commands are stored until EXEC or DISCARD */
	WR_MULTI_RUNNING, /* EXEC was received: the stored commands run before other input */
};

/* The commands of a transaction (commands_multi.c), stored in the form of input. They are read
 * again when EXEC runs them. */
struct wr_resp_multi {
	struct wr_buf input;
	uint32_t at; /* offset in `input` of the first command that has not run */
	uint32_t count;
	uint8_t state; /* enum wr_resp_multi_state */
	bool failed;   /* a command was refused, so EXEC refuses the transaction */
};

#define WR_RESP_SESSION_MAGIC 0x72657370u

struct wr_resp_session {
	uint32_t magic; /* WR_RESP_SESSION_MAGIC between _begin and _end */
	struct wr_resp_host *host;
	uint64_t id;
	uint64_t since_ns;
	/* the session's previous command; its name is compared first, because clients repeat
	 * commands */
	const struct wr_resp_entry *last;
	struct wr_resp_parser parser;
	uint8_t *held; /* input whose commands have not run */
	uint32_t held_len, held_cap;
	struct wr_resp_multi multi;
	struct wr_resp_wait *waits, *waits_last; /* list of the commands that wait, in order */
	uint32_t wait_count;
	/* Used while host->line is true, when sessions run one after the other. `turn` is the
	 * number of commands of this session that can still begin to wait for a decision or for the
	 * central store. If it is 0, no command of this session runs. serve/resp/waits.c sets
	 * `turn` for the session that it runs. */
	uint32_t turn;
	/* Total length of the replies that are stored in wait->behind of all waits. */
	uint32_t behind_bytes;
	uint16_t port; /* port of the listener; 0: a Unix socket */
	uint8_t protocol;
	bool trusted;     /* no password is required, or the client has sent the right one */
	bool operates;    /* the client may give units back and reset counters without a password */
	bool unix_socket; /* the client uses a Unix socket, which WEIR.LINK requires */
	bool linked;      /* the client is an nginx worker that has sent the link key */
	bool gone;        /* the linked nginx worker has closed its end and reads no replies */
	bool stopped;     /* `held` may have complete commands that cannot run at present */
	bool inside;      /* wr_resp_session_input is running, and will write the replies */
	bool ended;       /* after QUIT or an error: no more commands are run */
	char address[48]; /* client address without port, by which failed logins are counted */
	char peer[112];   /* client address with port, for CLIENT INFO */
	char user[WR_USER_NAME_MAX + 1];
	char name[WR_RESP_NAME_MAX + 1];
	char library[WR_RESP_NAME_MAX + 1], library_version[WR_RESP_NAME_MAX + 1];
};

/* Begins a session. The caller has zeroed the session and set address, peer, port, id, operates and
 * unix_socket. */
void wr_resp_session_begin(struct wr_resp_session *session, struct wr_resp_host *host,
			   uint64_t now_ns);
void wr_resp_session_end(struct wr_resp_session *session);

/* Writes the replies of waiting commands whose answers have arrived, then reads and runs commands.
 * If more than `budget` bytes of replies are written or too many commands wait, sets
 * session->stopped and returns; a later call without data continues. After each call the caller
 * sends the replies, and closes the connection if wr_resp_session_over returns true. */
void wr_resp_session_input(struct wr_resp_session *session, const uint8_t *data, size_t len,
			   uint64_t now_ns, size_t budget, struct wr_resp_out *out);

/* Returns whether the session holds input that has not run, such as an incomplete command. */
static inline bool wr_resp_session_waiting(const struct wr_resp_session *session)
{
	return session->held_len > 0;
}

/* Returns whether the session has ended and its last reply has been written. */
static inline bool wr_resp_session_over(const struct wr_resp_session *session)
{
	return session->ended && !session->waits;
}

/* Resets the session to the state of a new connection: RESP2, not logged in, no name. */
void wr_resp_session_reset(struct wr_resp_session *session);

#endif
