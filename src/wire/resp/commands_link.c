/* The commands of nginx's workers. WEIR.LINK authenticates a worker by the link key. With
 * WEIR.ASK, WEIR.TELL and WEIR.FLEET a worker uses the central store; questions and answers
 * (limiter/question.h) are passed on unchanged. Other processes on the socket may not use these
 * commands: WEIR.FLEET returns the fleet's secret, which reveals the name of every counter, and
 * WEIR.TELL can give back units that were never taken. */
#include <stdlib.h>

#include "limiter/question.h"
#include "base/assert.h"
#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

/* Runs WEIR.LINK. If the client sends a wrong link key, closes the connection. */
void wr_resp_command_link(const struct wr_resp_call *call)
{
	struct weir_str given = call->argv[1];

	wr_assert(call->argc == 2);
	if (!call->session->unix_socket) {
		wr_reply_error(call->out, "NOPERM '%s' is allowed only on a Unix socket",
			       call->entry->name);
	} else if (!call->host->link_key) {
		wr_reply_error(
			call->out,
			"NOPERM there is no link key: start weir serve with --link-key FILE");
	} else if (wr_secret_is(call->host->link_key, given.ptr, given.len)) {
		call->session->linked = true;
		wr_reply_simple(call->out, "OK");
	} else {
		wr_reply_error(call->out,
			       "WRONGPASS this is not the key in the file of --link-key");
		call->session->ended = true;
	}
}

/* Returns true if there is a central store. Otherwise writes an error and returns false. */
static bool has_central(const struct wr_resp_call *call)
{
	if (!call->host->central)
		wr_reply_error(call->out,
			       "NOSTORE the service has no Redis: start weir serve with --redis");
	return call->host->central != NULL;
}

/* Returns true if the command's argument is a message of version WR_QUESTION_VERSION, and wanted()
 * returns true for the kind of the message. Otherwise writes an error and returns false. The layer
 * central checks the rest of the message. */
static bool is_kind(const struct wr_resp_call *call, bool (*wanted)(uint8_t kind))
{
	struct weir_str bytes = call->argv[1];
	struct wr_question_head head;

	if (bytes.len >= sizeof head && bytes.len <= WEIR_QUESTION_MAX) {
		memcpy(&head, bytes.ptr, sizeof head);
		if (head.version == WR_QUESTION_VERSION && head.bytes == bytes.len &&
		    wanted(head.kind))
			return true;
	}
	wr_reply_error(call->out,
		       "ERR the message of '%s' has another version or kind; use the same version "
		       "of weir and of its nginx module",
		       call->entry->name);
	return false;
}

/* ---- WEIR.ASK ---- */

static void copy_answer(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	(void)now_ns;
	wait->answer.bytes = len <= sizeof wait->answer.few ? wait->answer.few : malloc(len);
	if (!wait->answer.bytes)
		/* No memory: the reply is the same as when the central store does not answer. */
		return;
	wait->answer.len = len;
	if (len)
		memcpy(wait->answer.bytes, answer, len);
}

static void write_answer(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	if (wait->answer.len)
		wr_reply_bulk(
			out, (struct weir_str){(const char *)wait->answer.bytes, wait->answer.len});
	else
		wr_reply_null(out);
}

static void free_answer(struct wr_resp_wait *wait)
{
	if (wait->answer.bytes != wait->answer.few)
		free(wait->answer.bytes);
}

static const struct wr_resp_wait_kind ask_kind = {copy_answer, write_answer, free_answer};

static bool is_question(uint8_t kind)
{
	return kind == WR_QUESTION_TAKE;
}

void wr_resp_command_ask(const struct wr_resp_call *call)
{
	struct wr_resp_wait *wait;

	wr_assert(call->argc == 2);
	if (!has_central(call) || !is_kind(call, is_question))
		return;
	if (call->session->gone) { /* the worker has closed its end and would not read the answer */
		wr_reply_null(call->out);
		return;
	}
	wait = call->host->central->begin(call->host);
	if (!wait) {
		wr_reply_null(call->out);
		return;
	}
	wr_resp_wait_init(wait, call->session, WR_RESP_CENTRAL, &ask_kind);
	call->host->central->ask(call->host, wait, call->argv[1].ptr, call->argv[1].len,
				 call->now_ns);
	wr_resp_wait_reply(wait, call->out);
}

/* ---- WEIR.TELL and WEIR.FLEET ---- */

static bool is_message(uint8_t kind)
{
	return kind == WR_QUESTION_RETURN || kind == WR_QUESTION_REPORT ||
	       kind == WR_QUESTION_LATE || kind == WR_QUESTION_OWE;
}

void wr_resp_command_tell(const struct wr_resp_call *call)
{
	wr_assert(call->argc == 2);
	if (!has_central(call) || !is_kind(call, is_message))
		return;
	call->host->central->send(call->host, call->argv[1].ptr, call->argv[1].len, call->now_ns);
	wr_reply_simple(call->out, "OK");
}

void wr_resp_command_fleet(const struct wr_resp_call *call)
{
	const uint8_t *secret;

	if (!has_central(call))
		return;
	secret = call->host->central->secret(call->host);
	if (secret)
		wr_reply_bulk(call->out,
			      (struct weir_str){(const char *)secret, WEIR_SECRET_BYTES});
	else
		wr_reply_error(call->out, "NOTYET the service has not received the fleet's secret "
					  "from Redis yet; try again");
}
