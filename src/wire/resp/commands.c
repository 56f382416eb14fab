/* Defines the table of RESP commands, and checks each command before it runs. Called by
 * session.c. */
#include "wire/resp/commands.h"

#include "base/assert.h"
#include "base/str.h"
#include "wire/resp/commands_defer.h"

#define SHOWN_BYTES_MAX 128 /* maximum length of an argument in an error */
#define CONNECTION (WR_RESP_FAST | WR_RESP_LOADING | WR_RESP_STALE)

static const struct wr_resp_entry client_commands[] = {
	{"client|getname", 2, 2, CONNECTION, 0, wr_resp_command_client_getname, NULL, NULL,
	 "connection", "", "returns the name of the connection"},
	{"client|id", 2, 2, CONNECTION, 0, wr_resp_command_client_id, NULL, NULL, "connection", "",
	 "returns the number of the connection"},
	{"client|info", 2, 2, CONNECTION, 0, wr_resp_command_client_info, NULL, NULL, "connection",
	 "", "returns the properties of the connection"},
	{"client|no-evict", 3, 3, CONNECTION, 0, wr_resp_command_client_switch, NULL, NULL,
	 "connection", "ON|OFF", "no effect: the server never evicts connections"},
	{"client|no-touch", 3, 3, CONNECTION, 0, wr_resp_command_client_switch, NULL, NULL,
	 "connection", "ON|OFF", "no effect: the server records no access times of keys"},
	{"client|setinfo", 4, 4, CONNECTION, 0, wr_resp_command_client_setinfo, NULL, NULL,
	 "connection", "LIB-NAME|LIB-VER text", "sets the name or version of the client library"},
	{"client|setname", 3, 3, CONNECTION, 0, wr_resp_command_client_setname, NULL, NULL,
	 "connection", "name", "sets the name of the connection"},
	{0}};

static const struct wr_resp_entry command_commands[] = {
	{"command|count", 2, 2, CONNECTION, 0, wr_resp_command_command_count, NULL, NULL, "server",
	 "", "returns the number of commands"},
	{"command|docs", -2, 34, CONNECTION, 0, wr_resp_command_command_docs, NULL, NULL, "server",
	 "[name …]", "describes at most 32 commands by name, or all commands"},
	{"command|info", -2, 34, CONNECTION, 0, wr_resp_command_command_info, NULL, NULL, "server",
	 "[name …]", "returns arity and flags of at most 32 commands by name, or of all commands"},
	{"command|list", 2, 2, CONNECTION, 0, wr_resp_command_command_list, NULL, NULL, "server",
	 "", "returns the names of all commands"},
	{0}};

static const struct wr_resp_entry config_commands[] = {
	{"config|get", -3, 0, CONNECTION, 0, wr_resp_command_config_get, NULL, NULL, "server",
	 "name …", "returns the few settings that clients of Redis read"},
	{0}};

const struct wr_resp_entry wr_resp_commands[] = {
	{"cl.throttle", -5, 6, WR_RESP_WRITES | WR_RESP_FAST, 1, wr_resp_command_cl_throttle,
	 wr_prepare_cl_throttle, NULL, "weir", "key max_burst count period [quantity]",
	 "takes units from a bucket of max_burst + 1 units, as redis-cell does"},
	{"throttle", -5, 6, WR_RESP_WRITES | WR_RESP_FAST, 1, wr_resp_command_throttle,
	 wr_prepare_throttle, NULL, "weir", "key max_burst count period [quantity]",
	 "takes units from a bucket of max_burst units, as throttlecrab does"},
	{"weir.check", -4, 0, WR_RESP_WRITES | WR_RESP_FAST, 0, wr_resp_command_check, NULL, NULL,
	 "weir", "domain [TAKENAT ms] [HITS n] [FROM source] key value … [| …]",
	 "decides a request by the rules"},
	{"weir.peek", -4, 0, WR_RESP_READS | WR_RESP_FAST, 0, wr_resp_command_peek, NULL, NULL,
	 "weir", "domain [FROM source] key value … [| …]",
	 "replies like WEIR.CHECK, but counts nothing"},
	{"weir.reset", -4, 0, WR_RESP_WRITES | WR_RESP_ADMIN, 0, wr_resp_command_reset_counters,
	 NULL, NULL, "weir", "domain [FROM source] key value … [| …]",
	 "resets the counters of descriptors"},
	{"weir.reserve", -4, 0, WR_RESP_WRITES | WR_RESP_FAST, 0, wr_resp_command_reserve, NULL,
	 NULL, "weir", "domain [TTL seconds] [HITS n] [FROM source] key value … [| …]",
	 "charges a request that is settled later, and returns a token"},
	{"weir.commit", -3, 0, WR_RESP_WRITES | WR_RESP_FAST, 0, wr_resp_command_commit, NULL, NULL,
	 "weir", "reservation actual [domain [FROM source] key value … [| …]]",
	 "settles a reservation by its actual cost"},
	{"weir.cancel", 2, 2, WR_RESP_WRITES | WR_RESP_FAST, 0, wr_resp_command_cancel, NULL, NULL,
	 "weir", "reservation", "gives a reservation back"},
	{"weir.acquire", -4, 0, WR_RESP_WRITES | WR_RESP_FAST, 0, wr_resp_command_reserve, NULL,
	 NULL, "weir", "domain [TTL seconds] [HITS n] [FROM source] key value … [| …]",
	 "takes slots; the same as WEIR.RESERVE"},
	{"weir.release", 2, 2, WR_RESP_WRITES | WR_RESP_FAST, 0, wr_resp_command_release, NULL,
	 NULL, "weir", "reservation", "gives the slots of a reservation back"},
	{"weir.link", 2, 2, CONNECTION | WR_RESP_NO_AUTH, 0, wr_resp_command_link, NULL, NULL,
	 "weir", "key", "sends the key of --link-key; for the nginx module, on Unix sockets"},
	{"weir.ask", 2, 2, WR_RESP_WRITES | WR_RESP_NO_AUTH | WR_RESP_LINKED, 0,
	 wr_resp_command_ask, NULL, NULL, "weir", "question",
	 "asks Redis for a decision; for the nginx module, after WEIR.LINK"},
	{"weir.tell", 2, 2, WR_RESP_WRITES | WR_RESP_NO_AUTH | WR_RESP_LINKED, 0,
	 wr_resp_command_tell, NULL, NULL, "weir", "message",
	 "sends a message to Redis; for the nginx module, after WEIR.LINK"},
	{"weir.fleet", 1, 1, WR_RESP_READS | WR_RESP_NO_AUTH | WR_RESP_LINKED, 0,
	 wr_resp_command_fleet, NULL, NULL, "weir", "",
	 "returns the fleet's secret; for the nginx module, after WEIR.LINK"},
	{"weir.defer", -WR_DEFER_ARGS, 0, WR_RESP_WRITES | WR_RESP_NO_AUTH | WR_RESP_LINKED, 0,
	 wr_resp_command_defer, NULL, NULL, "weir",
	 "1 domain rule key method uri descriptors max_waiting max_age_s max_tries wait_ns "
	 "interval_ns body [name value …]",
	 "stores a request to be delivered later; for the nginx module, after WEIR.LINK"},
	{"weir.ticket", 2, 2, WR_RESP_READS | WR_RESP_NO_AUTH | WR_RESP_LINKED, 0,
	 wr_resp_command_ticket, NULL, NULL, "weir", "ticket",
	 "returns the state of a deferred request; for the nginx module, after WEIR.LINK"},
	{"ping", -1, 2, CONNECTION, 0, wr_resp_command_ping, NULL, NULL, "connection", "[text]",
	 "returns PONG, or the text"},
	{"echo", 2, 2, CONNECTION, 0, wr_resp_command_echo, NULL, NULL, "connection", "text",
	 "returns the text"},
	{"auth", -2, 3, CONNECTION | WR_RESP_NO_AUTH, 0, wr_resp_command_auth, NULL, NULL,
	 "connection", "[user] password", "authenticates the client"},
	{"hello", -1, 0, CONNECTION | WR_RESP_NO_AUTH, 0, wr_resp_command_hello, NULL, NULL,
	 "connection", "[2|3 [AUTH user password] [SETNAME name]]", "chooses RESP2 or RESP3"},
	{"quit", -1, 0, CONNECTION | WR_RESP_NO_AUTH, 0, wr_resp_command_quit, NULL, NULL,
	 "connection", "", "closes the connection"},
	{"reset", 1, 1, CONNECTION | WR_RESP_NO_AUTH, 0, wr_resp_command_reset, NULL, NULL,
	 "connection", "", "resets the connection"},
	{"multi", 1, 1, CONNECTION, 0, wr_resp_command_multi, NULL, NULL, "transactions", "",
	 "queues the following commands until EXEC"},
	{"exec", 1, 1, CONNECTION, 0, wr_resp_command_exec, NULL, NULL, "transactions", "",
	 "runs the commands that were queued since MULTI"},
	{"discard", 1, 1, CONNECTION, 0, wr_resp_command_discard, NULL, NULL, "transactions", "",
	 "discards the commands that were queued since MULTI"},
	{"select", 2, 2, CONNECTION, 0, wr_resp_command_select, NULL, NULL, "connection", "index",
	 "selects the database; the only database is 0"},
	{"client", -2, 0, CONNECTION, 0, NULL, NULL, client_commands, "connection", "subcommand",
	 "commands about the connection"},
	{"command", -1, 0, CONNECTION, 0, wr_resp_command_command, NULL, command_commands, "server",
	 "[subcommand]", "describes the commands of the server"},
	{"config", -2, 0, CONNECTION, 0, NULL, NULL, config_commands, "server", "subcommand",
	 "commands about settings"},
	{"info", -1, 0, CONNECTION, 0, wr_resp_command_info, NULL, NULL, "server", "[section …]",
	 "returns the state and the counters of the server"},
	{0}};

/* Returns the part of an argument that is shown in errors. */
static struct weir_str cut_argument(struct weir_str text)
{
	return wr_str_first(text, SHOWN_BYTES_MAX);
}

const struct wr_resp_entry *wr_resp_find(const struct wr_resp_entry *entries, struct weir_str name)
{
	for (; entries->name; entries++)
		if (wr_str_equal_nocase(wr_str(entries->name), name))
			return entries;
	return NULL;
}

const struct wr_resp_entry *wr_resp_find_child(const struct wr_resp_entry *parent,
					       struct weir_str name)
{
	size_t skip = strlen(parent->name) + 1;

	wr_assert(parent->children);
	for (const struct wr_resp_entry *child = parent->children; child->name; child++)
		if (wr_str_equal_nocase(wr_str(child->name + skip), name))
			return child;
	return NULL;
}

static void reply_unknown(const struct wr_resp_call *call)
{
	struct weir_str name = cut_argument(call->argv[0]);
	char args[SHOWN_BYTES_MAX + 8];
	size_t len = 0;

	/* A web page can make a browser send an HTTP request to this port, and the lines of the
	 * request would run as commands. Before the first line that the page controls, such a
	 * request has the word POST or `Host:`. So the session ends at these words, as in Redis. */
	if (wr_str_equal_nocase(call->argv[0], WR_STR("post")) ||
	    wr_str_equal_nocase(call->argv[0], WR_STR("host:"))) {
		call->session->ended = true;
		return;
	}
	for (size_t i = 1; i < call->argc && len < SHOWN_BYTES_MAX; i++) {
		struct weir_str arg = wr_str_first(call->argv[i], SHOWN_BYTES_MAX - len);

		args[len++] = '\'';
		memcpy(args + len, arg.ptr, arg.len);
		len += arg.len;
		args[len++] = '\'';
		args[len++] = ' ';
	}
	wr_reply_error(call->out, "ERR unknown command '%.*s', with args beginning with: %.*s",
		       (int)name.len, name.ptr, (int)len, args);
}

void wr_resp_arity_error(const struct wr_resp_call *call)
{
	wr_reply_error(call->out, "ERR wrong number of arguments for '%s' command",
		       call->entry->name);
}

static bool arity_fits(const struct wr_resp_entry *entry, uint32_t argc)
{
	if (entry->arity >= 0)
		return argc == (uint32_t)entry->arity;
	return argc >= (uint32_t)-entry->arity && (!entry->args_max || argc <= entry->args_max);
}

bool wr_resp_operates(const struct wr_resp_call *call)
{
	return call->session->operates || (call->host->users && call->session->trusted);
}

static bool is_allowed(const struct wr_resp_call *call)
{
	const struct wr_resp_session *session = call->session;

	if (!session->trusted && !(call->entry->flags & WR_RESP_NO_AUTH)) {
		wr_reply_error(call->out, "NOAUTH Authentication required.");
		return false;
	}
	if (call->entry->flags & WR_RESP_ADMIN && !wr_resp_operates(call)) {
		wr_reply_error(call->out,
			       "NOPERM '%s' is allowed only for root and the service's user on a "
			       "Unix socket, clients with an address of --refunds, and clients "
			       "with a password (--resp-password-file)",
			       call->entry->name);
		return false;
	}
	if (call->entry->flags & WR_RESP_LINKED && !session->linked) {
		wr_reply_error(call->out,
			       "NOPERM '%s' is allowed only for nginx's workers, after WEIR.LINK "
			       "with the key of --link-key",
			       call->entry->name);
		return false;
	}
	return true;
}

/* Sets call->entry to the subcommand. If there is no such subcommand, writes an error and returns
 * false. */
static bool find_child(struct wr_resp_call *call)
{
	const struct wr_resp_entry *parent = call->entry;
	struct weir_str name = cut_argument(call->argv[1]);

	call->entry = wr_resp_find_child(parent, call->argv[1]);
	if (call->entry)
		return true;
	call->entry = parent;
	if (is_allowed(call))
		wr_reply_error(call->out,
			       "ERR unknown subcommand '%.*s'. COMMAND DOCS lists the subcommands "
			       "of '%s'.",
			       (int)name.len, name.ptr, parent->name);
	return false;
}

/* Returns true if the command exists, has the right number of arguments, and is allowed for this
 * client. Otherwise writes an error and returns false. */
static bool is_valid(struct wr_resp_call *call)
{
	if (__builtin_expect(!call->entry, 0)) {
		reply_unknown(call);
		return false;
	}
	if (call->entry->children && call->argc > 1 && !find_child(call))
		return false;
	if (__builtin_expect(!call->entry->run || !arity_fits(call->entry, call->argc), 0)) {
		wr_resp_arity_error(call);
		return false;
	}
	return is_allowed(call);
}

void wr_resp_prepare(struct wr_resp_session *session, struct wr_resp_ready *ready)
{
	struct weir_str name = ready->command.argv[0];
	const struct wr_resp_entry *entry = session->last;

	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	wr_assert(ready->command.argc > 0);
	ready->prepared = false;
	if (!entry || !wr_str_equal_nocase(wr_str(entry->name), name))
		entry = wr_resp_find(wr_resp_commands, name);
	ready->entry = entry;
	if (!entry)
		return;
	session->last = entry;
	if (entry->prepare && arity_fits(entry, ready->command.argc))
		entry->prepare(session->host, ready);
}

void wr_resp_execute(struct wr_resp_session *session, const struct wr_resp_ready *ready,
		     uint64_t now_ns, struct wr_resp_out *out)
{
	struct wr_resp_call call = {.session = session,
				    .host = session->host,
				    .entry = ready->entry,
				    .argv = ready->command.argv,
				    .argc = ready->command.argc,
				    .ready = ready,
				    .now_ns = now_ns,
				    .out = out};
	bool valid = is_valid(&call);

	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	wr_assert(ready->command.argc > 0);
	if (__builtin_expect(session->multi.state == WR_MULTI_OPEN, 0)) {
		if (!valid)
			session->multi.failed = true;
		else if (wr_resp_multi_passes(call.entry))
			call.entry->run(&call);
		else
			wr_resp_multi_queue(&call);
	} else if (__builtin_expect(valid, 1)) {
		call.entry->run(&call);
	}
}
