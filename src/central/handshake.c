/* The first words on a connection, all in one write: who we are, which database, and whether it is
 * whom we look for. Nothing else is said before all of it is answered. */
#include <stdio.h>

#include "base/str.h"
#include "central/inner.h"

enum greeting { AUTH, SELECT, SETNAME, ROLE, PING };

static const struct wr_redis_login *login_of(const struct wr_central_conn *conn)
{
	const struct wr_redis_target *target = conn->central->target;

	return conn->shard ? &target->login : &target->sentinel;
}

static void put_auth(struct wr_central_conn *conn)
{
	const struct wr_redis_login *login = login_of(conn);

	wr_command_begin(&conn->out, login->user[0] ? 3 : 2);
	wr_command_text(&conn->out, "AUTH");
	if (login->user[0])
		wr_command_text(&conn->out, login->user);
	wr_command_text(&conn->out, login->password);
}

static enum wr_call_written put(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_commands *out = &conn->out;

	switch (call->step) {
	case AUTH:
		put_auth(conn);
		break;
	case SELECT:
		wr_command_begin(out, 2);
		wr_command_text(out, "SELECT");
		wr_command_number(out, conn->central->target->db);
		break;
	case SETNAME:
		wr_command_begin(out, 3);
		wr_command_text(out, "CLIENT");
		wr_command_text(out, "SETNAME");
		wr_command_text(out, "weir");
		break;
	case ROLE:
		wr_command_begin(out, 1);
		wr_command_text(out, "ROLE");
		break;
	default:
		wr_command_begin(out, 1);
		wr_command_text(out, "PING");
		break;
	}
	return wr_command_end(out) ? WR_CALL_WRITTEN : WR_CALL_NO_ROOM;
}

/* Servers that ask for no password refuse one; they are used all the same. */
static bool needs_no_password(struct weir_str text)
{
	static const char *const says[] = {"without any password configured", "no password is set"};

	for (size_t i = 0; i < sizeof says / sizeof *says; i++)
		if (text.len && memmem(text.ptr, text.len, says[i], strlen(says[i])))
			return true;
	return false;
}

/* A refusal of the login is told by several words; before version 6 it is just an error. */
static enum wr_fault fault_of(uint8_t step, struct weir_str text)
{
	enum wr_fault fault = wr_fault_of(text.ptr, text.len);

	return step == AUTH && fault == WR_FAULT_OTHER ? WR_FAULT_WRONGPASS : fault;
}

/* Whether the connection is of use in spite of the error. */
static bool may_go_on(uint8_t step, enum wr_fault fault, struct weir_str text)
{
	switch (step) {
	case AUTH:
		return needs_no_password(text);
	case SELECT:
		return false;
	case PING:
		return fault == WR_FAULT_NOPERM;
	default:
		return fault == WR_FAULT_NOPERM || fault == WR_FAULT_OTHER;
	}
}

static void refuse(struct wr_central_conn *conn, enum wr_fault fault, struct weir_str text)
{
	char why[160];

	snprintf(why, sizeof why, "%.*s", (int)(text.len < 150 ? text.len : 150),
		 text.len ? text.ptr : wr_fault_text(fault));
	wr_central_conn_fail(conn, fault, why);
}

static void heard(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	uint8_t step = call->step;
	struct weir_str text = wr_redis_reply_text(reply);

	wr_call_free(conn->central, call);
	if (reply->type == REDIS_REPLY_ERROR) {
		enum wr_fault fault = fault_of(step, text);

		if (!may_go_on(step, fault, text)) {
			refuse(conn, fault, text);
			return;
		}
		if (step == AUTH)
			wr_central_log(conn->central, WR_SAY_WARN,
				       "a password is given, but the server asks for none");
	}
	if (step == ROLE && !wr_redis_role_may_be_master(reply)) {
		refuse(conn, WR_FAULT_READONLY, WR_STR("not the master (any more)"));
		return;
	}
	if (step != PING)
		return;
	conn->state = WR_CONN_READY;
	if (conn->shard)
		wr_central_shard_on_ready(conn->shard);
	else
		wr_central_sentinels_poll(conn->central);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_handshake_ops = {
	.write = put, .on_reply = heard, .on_failure = failed, .reads_errors = true, .script = -1};

static bool is_due(const struct wr_central_conn *conn, enum greeting step)
{
	const struct wr_redis_target *target = conn->central->target;

	switch (step) {
	case AUTH:
		return login_of(conn)->password[0];
	case SELECT:
		return conn->shard && target->db;
	case ROLE:
		return conn->shard && target->kind == WR_REDIS_SENTINEL;
	default:
		return true;
	}
}

void wr_central_handshake(struct wr_central_conn *conn)
{
	for (int step = AUTH; step <= PING; step++) {
		struct wr_call *call;

		if (!is_due(conn, (enum greeting)step))
			continue;
		call = wr_call_new(conn->central, WR_CALL_HANDSHAKE);
		if (!call) { /* without a PING it never gets ready, and is given up */
			return;
		}
		call->step = (uint8_t)step;
		wr_central_conn_write(conn, call);
	}
}
