/* Runs the commands about the connection: PING, AUTH, HELLO, CLIENT … Called through the table of
 * commands.c. */
#include "wire/resp/commands.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/str.h"

#define SECOND_NS 1000000000ull

static void reply_ok(const struct wr_resp_call *call)
{
	wr_reply_raw(call->out, "+OK\r\n", 5);
}

void wr_resp_command_ping(const struct wr_resp_call *call)
{
	if (call->argc == 1)
		wr_reply_raw(call->out, "+PONG\r\n", 7);
	else
		wr_reply_bulk(call->out, call->argv[1]);
}

void wr_resp_command_echo(const struct wr_resp_call *call)
{
	wr_assert(call->argc == 2);
	wr_reply_bulk(call->out, call->argv[1]);
}

void wr_resp_command_select(const struct wr_resp_call *call)
{
	int64_t index;

	wr_assert(call->argc == 2);
	if (!wr_resp_integer(call->argv[1], &index))
		wr_reply_error(call->out, "ERR value is not an integer or out of range");
	else if (index != 0)
		wr_reply_error(call->out, "ERR DB index is out of range");
	else
		reply_ok(call);
}

void wr_resp_command_quit(const struct wr_resp_call *call)
{
	reply_ok(call);
	call->session->ended = true;
}

void wr_resp_command_reset(const struct wr_resp_call *call)
{
	wr_resp_session_reset(call->session);
	call->out->protocol = call->session->protocol;
	wr_reply_simple(call->out, "RESET");
}

/* ---- login ---- */

/* Logs the client in, for AUTH and HELLO. On failure writes an error and returns false. Without a
 * password file, the user `default` can log in with any password, as in Redis. So clients that are
 * configured with a password work too. */
static bool log_in(const struct wr_resp_call *call, struct weir_str name, struct weir_str password)
{
	struct wr_resp_session *session = call->session;
	uint64_t wait_ns = 0;
	enum wr_resp_login login =
		wr_str_equal(name, WR_STR("default")) ? WR_LOGIN_RIGHT : WR_LOGIN_WRONG;

	if (call->host->users)
		login = wr_resp_login(call->host->users, call->host->table,
				      wr_str(session->address), name, password, call->now_ns,
				      &wait_ns);
	switch (login) {
	case WR_LOGIN_RIGHT:
		session->trusted = true;
		snprintf(session->user, sizeof session->user, "%.*s", (int)name.len, name.ptr);
		return true;
	case WR_LOGIN_TOO_OFTEN:
		wr_reply_error(
			call->out,
			"ERR too many failed attempts from this address, try again in %llu s",
			(unsigned long long)(wait_ns / SECOND_NS + 1));
		return false;
	case WR_LOGIN_WRONG:
		break;
	}
	wr_reply_error(call->out, "WRONGPASS invalid username-password pair or user is disabled.");
	return false;
}

void wr_resp_command_auth(const struct wr_resp_call *call)
{
	bool alone = call->argc == 2;

	wr_assert(call->argc == 2 || call->argc == 3);
	if (!call->host->users && alone)
		wr_reply_error(call->out,
			       "ERR AUTH <password> called without any password configured for the "
			       "default user. Are you sure your configuration is correct?");
	else if (log_in(call, alone ? WR_STR("default") : call->argv[1], call->argv[alone ? 1 : 2]))
		reply_ok(call);
}

/* ---- HELLO ---- */

static bool name_fits(struct weir_str name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.ptr[i] < '!' || name.ptr[i] > '~')
			return false;
	return name.len <= WR_RESP_NAME_MAX;
}

static bool set_name(const struct wr_resp_call *call, struct weir_str name)
{
	if (!name_fits(name)) {
		wr_reply_error(call->out,
			       "ERR Client names cannot contain spaces, newlines or special "
			       "characters, and have %u bytes at most.",
			       WR_RESP_NAME_MAX);
		return false;
	}
	memcpy(call->session->name, name.ptr, name.len);
	call->session->name[name.len] = '\0';
	return true;
}

static void write_hello(const struct wr_resp_call *call)
{
	struct wr_resp_out *out = call->out;

	wr_reply_map(out, 7);
	wr_reply_cstr(out, "server");
	wr_reply_cstr(out, "weir");
	wr_reply_cstr(out, "version");
	wr_reply_cstr(out, WR_RESP_REDIS_VERSION);
	wr_reply_cstr(out, "proto");
	wr_reply_integer(out, call->session->protocol);
	wr_reply_cstr(out, "id");
	wr_reply_integer(out, (int64_t)call->session->id);
	wr_reply_cstr(out, "mode");
	wr_reply_cstr(out, "standalone");
	wr_reply_cstr(out, "role");
	wr_reply_cstr(out, "master");
	wr_reply_cstr(out, "modules");
	wr_reply_array(out, 0);
}

struct hello {
	int64_t protocol;
	bool login, named;
	struct weir_str user, password, name;
};

static bool read_hello(const struct wr_resp_call *call, struct hello *hello)
{
	if (call->argc > 1 && !wr_resp_integer(call->argv[1], &hello->protocol)) {
		wr_reply_error(call->out, "ERR Protocol version is not an integer or out of range");
		return false;
	}
	if (hello->protocol != 2 && hello->protocol != 3) {
		wr_reply_error(call->out, "NOPROTO unsupported protocol version");
		return false;
	}
	for (uint32_t at = 2; at < call->argc;) {
		struct weir_str word = call->argv[at];

		if (wr_str_equal_nocase(word, WR_STR("auth")) && call->argc - at > 2) {
			hello->login = true;
			hello->user = call->argv[at + 1];
			hello->password = call->argv[at + 2];
			at += 3;
		} else if (wr_str_equal_nocase(word, WR_STR("setname")) && call->argc - at > 1) {
			hello->named = true;
			hello->name = call->argv[at + 1];
			at += 2;
		} else {
			word = wr_str_first(word, WR_RESP_NAME_MAX);
			wr_reply_error(call->out, "ERR Syntax error in HELLO option '%.*s'",
				       (int)word.len, word.ptr);
			return false;
		}
	}
	return true;
}

void wr_resp_command_hello(const struct wr_resp_call *call)
{
	struct hello hello = {.protocol = call->session->protocol};

	if (!read_hello(call, &hello))
		return;
	if (hello.login && !log_in(call, hello.user, hello.password))
		return;
	if (!call->session->trusted) {
		wr_reply_error(call->out,
			       "NOAUTH HELLO must be called with the client already authenticated, "
			       "otherwise the HELLO <proto> AUTH <user> <pass> option can be used "
			       "to authenticate the client and select the RESP protocol version at "
			       "the same time");
		return;
	}
	if (hello.named && !set_name(call, hello.name))
		return;
	call->session->protocol = (uint8_t)hello.protocol;
	call->out->protocol = (uint8_t)hello.protocol;
	write_hello(call);
}

/* ---- CLIENT ---- */

void wr_resp_command_client_getname(const struct wr_resp_call *call)
{
	if (call->session->name[0])
		wr_reply_cstr(call->out, call->session->name);
	else
		wr_reply_null(call->out);
}

void wr_resp_command_client_id(const struct wr_resp_call *call)
{
	wr_reply_integer(call->out, (int64_t)call->session->id);
}

/* Writes the fields of the reply that Redis sends to CLIENT INFO. Fields that have no meaning in
 * weir are 0, because clients parse them as numbers. */
void wr_resp_command_client_info(const struct wr_resp_call *call)
{
	const struct wr_resp_session *session = call->session;
	uint64_t age_ns = call->now_ns > session->since_ns ? call->now_ns - session->since_ns : 0;
	char text[768];
	int len = snprintf(text, sizeof text,
			   "id=%llu addr=%s laddr= fd=0 name=%s age=%llu idle=0 flags=N db=0 sub=0 "
			   "psub=0 ssub=0 multi=%d qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 "
			   "rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|info user=%s "
			   "redir=-1 resp=%u lib-name=%s lib-ver=%s\n",
			   (unsigned long long)session->id, session->peer, session->name,
			   (unsigned long long)(age_ns / SECOND_NS),
			   session->multi.state == WR_MULTI_NONE ? -1 : (int)session->multi.count,
			   session->user[0] ? session->user : "default", session->protocol,
			   session->library, session->library_version);

	wr_reply_verbatim(call->out,
			  wr_str_first((struct weir_str){text, (size_t)len}, sizeof text - 1));
}

void wr_resp_command_client_setname(const struct wr_resp_call *call)
{
	wr_assert(call->argc == 3);
	if (set_name(call, call->argv[2]))
		reply_ok(call);
}

void wr_resp_command_client_setinfo(const struct wr_resp_call *call)
{
	struct weir_str what = call->argv[2], text = call->argv[3];
	bool version = wr_str_equal_nocase(what, WR_STR("lib-ver"));
	char *field = version ? call->session->library_version : call->session->library;

	wr_assert(call->argc == 4);
	what = wr_str_first(what, WR_RESP_NAME_MAX);
	if (!version && !wr_str_equal_nocase(what, WR_STR("lib-name"))) {
		wr_reply_error(call->out, "ERR Unrecognized option '%.*s'", (int)what.len,
			       what.ptr);
	} else if (!name_fits(text)) {
		wr_reply_error(call->out,
			       "ERR %.*s cannot contain spaces, newlines or special characters, "
			       "and has %u bytes at most.",
			       (int)what.len, what.ptr, WR_RESP_NAME_MAX);
	} else {
		memcpy(field, text.ptr, text.len);
		field[text.len] = '\0';
		reply_ok(call);
	}
}

/* Runs CLIENT NO-EVICT and CLIENT NO-TOUCH, which have no effect in weir: writes OK. */
void wr_resp_command_client_switch(const struct wr_resp_call *call)
{
	wr_assert(call->argc == 3);
	if (wr_str_equal_nocase(call->argv[2], WR_STR("on")) ||
	    wr_str_equal_nocase(call->argv[2], WR_STR("off")))
		reply_ok(call);
	else
		wr_reply_error(call->out, "ERR syntax error");
}
