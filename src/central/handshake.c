/* Sends the first commands on a connection in one write: login, database, client name, and a check
 * that the server is the master. Other commands are sent only after the server has replied to all
 * of these. Called by conn.c. */
#include <stdio.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

enum { AUTH, SELECT, SETNAME, ROLE, PING };

/* Writes the command of a step. Returns WR_CALL_UNWANTED if the step is not needed. */
static enum wr_call_written write_step(struct wr_central_conn *conn, struct wr_call *call)
{
	const struct wr_redis_target *target = conn->central->target;
	const struct wr_redis_login *login = conn->shard ? &target->login : &target->sentinel;
	char db[16];

	switch (call->step) {
	case AUTH:
		if (!login->password[0])
			return WR_CALL_UNWANTED;
		return login->user[0]
			       ? wr_call_write_words(conn, "AUTH", login->user, login->password,
						     WR_WORDS_END)
			       : wr_call_write_words(conn, "AUTH", login->password, WR_WORDS_END);
	case SELECT:
		if (!conn->shard || !target->db)
			return WR_CALL_UNWANTED;
		snprintf(db, sizeof db, "%u", target->db);
		return wr_call_write_words(conn, "SELECT", db, WR_WORDS_END);
	case SETNAME:
		return wr_call_write_words(conn, "CLIENT", "SETNAME", "weir", WR_WORDS_END);
	case ROLE:
		if (!conn->shard || target->kind != WR_REDIS_SENTINEL)
			return WR_CALL_UNWANTED;
		return wr_call_write_words(conn, "ROLE", WR_WORDS_END);
	default:
		return wr_call_write_words(conn, "PING", WR_WORDS_END);
	}
}

/* Returns whether the error means that the server has no password. A server without a password
 * rejects AUTH, but the connection is usable. */
static bool needs_no_password(struct weir_str text)
{
	static const char *const errors[] = {"without any password configured",
					     "no password is set"};

	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (text.len && memmem(text.ptr, text.len, errors[i], strlen(errors[i])))
			return true;
	return false;
}

/* Returns whether the connection is usable in spite of the error. */
static bool is_tolerable(uint8_t step, enum wr_fault fault, struct weir_str text)
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

static void reject_conn(struct wr_central_conn *conn, enum wr_fault fault, struct weir_str text)
{
	char why[160];

	snprintf(why, sizeof why, "%.*s", (int)(text.len < 150 ? text.len : 150),
		 text.len ? text.ptr : wr_fault_text(fault));
	wr_central_conn_fail(conn, fault, why);
}

static void read_step_reply(struct wr_central_conn *conn, struct wr_call *call,
			    const redisReply *reply)
{
	uint8_t step = call->step;
	struct weir_str text = wr_redis_reply_text(reply);

	wr_call_free(conn->central, call);
	if (reply->type == REDIS_REPLY_ERROR) {
		enum wr_fault fault = wr_fault_of(text.ptr, text.len);

		/* The first word of the error for a wrong login differs between servers; before
		 * version 6 it is only ERR. So an unknown error in reply to AUTH counts as a wrong
		 * login. */
		if (step == AUTH && fault == WR_FAULT_OTHER)
			fault = WR_FAULT_WRONGPASS;
		if (!is_tolerable(step, fault, text)) {
			reject_conn(conn, fault, text);
			return;
		}
		if (step == AUTH)
			wr_central_log(conn->central, WR_CENTRAL_LOG_WARN,
				       "the server requires no password, but one is configured");
	}
	if (step == ROLE && !wr_redis_role_may_be_master(reply)) {
		reject_conn(conn, WR_FAULT_READONLY, WR_STR("the server is not the master"));
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

const struct wr_call_ops wr_call_handshake_ops = {
	.write = write_step, .on_reply = read_step_reply, .reads_errors = true, .script = -1};

void wr_central_handshake(struct wr_central_conn *conn)
{
	wr_assert(conn->state == WR_CONN_HANDSHAKE);
	for (int step = AUTH; step <= PING; step++) {
		struct wr_call *call = wr_call_new(conn->central, WR_CALL_HANDSHAKE);

		/* No memory, or too many calls: the handshake stays incomplete, so the connection
		 * times out. */
		if (!call)
			return;
		call->step = (uint8_t)step;
		wr_central_conn_write(conn, call);
	}
}
