/* The commands of the RESP listener, in one table: names, arguments, permissions and handlers. */
#ifndef WR_WIRE_RESP_COMMANDS_H
#define WR_WIRE_RESP_COMMANDS_H

#include "wire/resp/session.h"

/* A command while it runs, passed to its handler. */
struct wr_resp_call {
	struct wr_resp_session *session;
	struct wr_resp_host *host;
	const struct wr_resp_entry *entry;
	const struct weir_str *argv;
	uint32_t argc;
	const struct wr_resp_ready *ready;
	uint64_t now_ns;
	struct wr_resp_out *out;
};

/* X(flag, number, name in the reply to COMMAND): the properties of a command. */
#define WR_RESP_FLAGS(X)                                                                           \
	X(WR_RESP_WRITES, 1, "write")                                                              \
	X(WR_RESP_READS, 2, "readonly")                                                            \
	X(WR_RESP_FAST, 4, "fast")                                                                 \
	X(WR_RESP_NO_AUTH, 8, "no_auth")                                                           \
	X(WR_RESP_ADMIN, 16, "admin")                                                              \
	X(WR_RESP_LOADING, 32, "loading")                                                          \
	X(WR_RESP_STALE, 64, "stale")                                                              \
	X(WR_RESP_LINKED, 128, "linked") /* allowed only for nginx's workers, after WEIR.LINK */

enum wr_resp_flags {
#define WR_RESP_FLAG_ENUM(name, number, text) name = (number),
	WR_RESP_FLAGS(WR_RESP_FLAG_ENUM)
#undef WR_RESP_FLAG_ENUM
};

struct wr_resp_entry {
	const char *name;  /* in lower case; a subcommand has the form "client|id" */
	int16_t arity;     /* number of arguments, including the name; -n means n or more */
	uint16_t args_max; /* maximum number of arguments; 0: WR_RESP_ARGS_MAX */
	uint16_t flags;    /* a combination of enum wr_resp_flags */
	uint16_t key;      /* index of the argument that is a key; 0: no argument is a key */
	void (*run)(const struct wr_resp_call *call);
	/* Reads the arguments and prefetches memory, before earlier commands of the batch have run.
	 * Changes no state and writes no reply. May be NULL. */
	void (*prepare)(struct wr_resp_host *host, struct wr_resp_ready *ready);
	const struct wr_resp_entry *children; /* subcommands; the last element has no name */
	const char *group, *arguments, *summary;
};

extern const struct wr_resp_entry wr_resp_commands[]; /* the last element has no name */

/* Looks the command up in wr_resp_commands and calls its `prepare`. */
void wr_resp_prepare(struct wr_resp_session *session, struct wr_resp_ready *ready);

/* Runs the command. Writes an error instead if the command is unknown, is not allowed, or has the
 * wrong number of arguments. */
void wr_resp_execute(struct wr_resp_session *session, const struct wr_resp_ready *ready,
		     uint64_t now_ns, struct wr_resp_out *out);

/* Returns the command with this name, or NULL if there is no such command. Ignores case. */
const struct wr_resp_entry *wr_resp_find(const struct wr_resp_entry *entries, struct weir_str name);

/* Returns the subcommand of `parent` with this name, such as "id" for "client|id", or NULL if there
 * is no such subcommand. Ignores case. */
const struct wr_resp_entry *wr_resp_find_child(const struct wr_resp_entry *parent,
					       struct weir_str name);

/* Returns whether the client may give units back and reset counters, that is, whether it has logged
 * in with a password or session->operates is set. */
bool wr_resp_operates(const struct wr_resp_call *call);

/* The error for a client that gives units back without permission. */
#define WR_RESP_NO_REFUNDS                                                                         \
	"NOPERM a negative number gives counted units back, and this client is not allowed to do " \
	"that; add its address to --refunds, or use a password (--resp-password-file)"

void wr_resp_arity_error(const struct wr_resp_call *call);

/* Stores a command that was received between MULTI and EXEC. EXEC will run the command. Writes
 * QUEUED, or an error if the command is not allowed in a transaction or the transaction is too
 * large. */
void wr_resp_multi_queue(const struct wr_resp_call *call);

/* Returns whether the command runs immediately even if a transaction is open. */
bool wr_resp_multi_passes(const struct wr_resp_entry *entry);

/* Discards the session's transaction, if there is one. */
void wr_resp_multi_end(struct wr_resp_session *session);

/* ---- handlers ---- */

void wr_resp_command_cl_throttle(const struct wr_resp_call *call);
void wr_resp_command_throttle(const struct wr_resp_call *call);
void wr_prepare_cl_throttle(struct wr_resp_host *host, struct wr_resp_ready *ready);
void wr_prepare_throttle(struct wr_resp_host *host, struct wr_resp_ready *ready);
void wr_resp_command_check(const struct wr_resp_call *call);
void wr_resp_command_peek(const struct wr_resp_call *call);
void wr_resp_command_reset_counters(const struct wr_resp_call *call);
void wr_resp_command_reserve(const struct wr_resp_call *call);
void wr_resp_command_commit(const struct wr_resp_call *call);
void wr_resp_command_cancel(const struct wr_resp_call *call);
void wr_resp_command_release(const struct wr_resp_call *call);

void wr_resp_command_link(const struct wr_resp_call *call);
void wr_resp_command_ask(const struct wr_resp_call *call);
void wr_resp_command_tell(const struct wr_resp_call *call);
void wr_resp_command_fleet(const struct wr_resp_call *call);
void wr_resp_command_defer(const struct wr_resp_call *call);
void wr_resp_command_ticket(const struct wr_resp_call *call);

void wr_resp_command_ping(const struct wr_resp_call *call);
void wr_resp_command_echo(const struct wr_resp_call *call);
void wr_resp_command_select(const struct wr_resp_call *call);
void wr_resp_command_quit(const struct wr_resp_call *call);
void wr_resp_command_reset(const struct wr_resp_call *call);
void wr_resp_command_auth(const struct wr_resp_call *call);
void wr_resp_command_hello(const struct wr_resp_call *call);

void wr_resp_command_multi(const struct wr_resp_call *call);
void wr_resp_command_exec(const struct wr_resp_call *call);
void wr_resp_command_discard(const struct wr_resp_call *call);

void wr_resp_command_client_getname(const struct wr_resp_call *call);
void wr_resp_command_client_id(const struct wr_resp_call *call);
void wr_resp_command_client_info(const struct wr_resp_call *call);
void wr_resp_command_client_setinfo(const struct wr_resp_call *call);
void wr_resp_command_client_setname(const struct wr_resp_call *call);
void wr_resp_command_client_switch(const struct wr_resp_call *call);

void wr_resp_command_command(const struct wr_resp_call *call);
void wr_resp_command_command_count(const struct wr_resp_call *call);
void wr_resp_command_command_docs(const struct wr_resp_call *call);
void wr_resp_command_command_info(const struct wr_resp_call *call);
void wr_resp_command_command_list(const struct wr_resp_call *call);
void wr_resp_command_config_get(const struct wr_resp_call *call);
void wr_resp_command_info(const struct wr_resp_call *call);

#endif
