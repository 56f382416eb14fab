/* The first words on a connection, all in one write: who we are, which database, and whether it is
 * whom we look for. Nothing else is said before all of it is answered. */
#include <stdio.h>

#include "base/str.h"
#include "central/inner.h"
#include "redis/sentinel.h"

enum greeting { AUTH, SELECT, SETNAME, ROLE, PING };

static const struct wr_redis_login *login_of(const struct wr_line *line)
{
	const struct wr_redis_target *target = line->central->target;

	return line->shard ? &target->login : &target->sentinel;
}

static void put_auth(struct wr_line *line)
{
	const struct wr_redis_login *login = login_of(line);

	wr_command_begin(&line->out, login->user[0] ? 3 : 2);
	wr_command_text(&line->out, "AUTH");
	if (login->user[0])
		wr_command_text(&line->out, login->user);
	wr_command_text(&line->out, login->password);
}

static enum wr_put put(struct wr_line *line, struct wr_call *call)
{
	struct wr_commands *out = &line->out;

	switch (call->step) {
	case AUTH:
		put_auth(line);
		break;
	case SELECT:
		wr_command_begin(out, 2);
		wr_command_text(out, "SELECT");
		wr_command_number(out, line->central->target->db);
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
	return wr_command_end(out) ? WR_PUT : WR_PUT_NO_ROOM;
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

static void refuse(struct wr_line *line, enum wr_fault fault, struct weir_str text)
{
	char why[160];

	snprintf(why, sizeof why, "%.*s", (int)(text.len < 150 ? text.len : 150),
		 text.len ? text.ptr : wr_fault_text(fault));
	wr_line_lost(line, fault, why);
}

static void heard(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	uint8_t step = call->step;
	struct weir_str text = wr_reply_text(reply);

	wr_call_free(line->central, call);
	if (reply->type == REDIS_REPLY_ERROR) {
		enum wr_fault fault = fault_of(step, text);

		if (!may_go_on(step, fault, text)) {
			refuse(line, fault, text);
			return;
		}
		if (step == AUTH)
			wr_central_say(line->central, WR_SAY_WARN,
				       "a password is given, but the server asks for none");
	}
	if (step == ROLE && !wr_role_may_be_master(reply)) {
		refuse(line, WR_FAULT_READONLY, WR_STR("not the master (any more)"));
		return;
	}
	if (step != PING)
		return;
	line->state = WR_LINK_READY;
	if (line->shard)
		wr_shard_ready(line->shard);
	else
		wr_watchers_ready(line->central);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_greeting_ops = {
	.put = put, .heard = heard, .failed = failed, .errors = true, .script = -1};

static bool is_due(const struct wr_line *line, enum greeting step)
{
	const struct wr_redis_target *target = line->central->target;

	switch (step) {
	case AUTH:
		return login_of(line)->password[0];
	case SELECT:
		return line->shard && target->db;
	case ROLE:
		return line->shard && target->kind == WR_REDIS_SENTINEL;
	default:
		return true;
	}
}

void wr_greet(struct wr_line *line)
{
	for (int step = AUTH; step <= PING; step++) {
		struct wr_call *call;

		if (!is_due(line, (enum greeting)step))
			continue;
		call = wr_call_new(line->central, WR_CALL_GREETING);
		if (!call) { /* without a PING it never gets ready, and is given up */
			return;
		}
		call->step = (uint8_t)step;
		wr_line_push(line, call);
	}
}
