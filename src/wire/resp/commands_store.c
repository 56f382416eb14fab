/* WEIR.LINK, by which a worker of nginx shows that it is one, and WEIR.ASK, WEIR.TELL and
 * WEIR.FLEET: how it speaks with the central store. Questions and answers are passed on as they are
 * (limiter/question.h). The secret names every counter, and a question may give back what nobody
 * took: other processes that may use the socket have no key, and get none of it. */
#include <stdlib.h>

#include "limiter/question.h"
#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

/* A wrong key ends the connection. */
void wr_command_link(const struct wr_resp_call *call)
{
	struct weir_str given = call->argv[1];

	if (!call->session->unix_socket) {
		wr_reply_error(call->out, "NOPERM '%s' is for processes on a Unix socket",
			       call->entry->name);
	} else if (!call->host->link_key) {
		wr_reply_error(call->out,
			       "NOPERM there is no key: start weir with --link-key FILE");
	} else if (wr_secret_is(call->host->link_key, given.ptr, given.len)) {
		call->session->linked = true;
		wr_reply_simple(call->out, "OK");
	} else {
		wr_reply_error(call->out, "WRONGPASS this is not the key of --link-key");
		call->session->ended = true;
	}
}

/* False: the client has been told why not. */
static bool may_speak(const struct wr_resp_call *call)
{
	if (!call->host->store)
		wr_reply_error(call->out,
			       "NOSTORE there is no central store: start weir with --redis");
	return call->host->store != NULL;
}

/* Whether the bytes say they are of this kind; the store looks closer. */
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
	wr_reply_error(call->out, "ERR '%s' got a message of another version or kind",
		       call->entry->name);
	return false;
}

/* ---- WEIR.ASK ---- */

static void hear(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	(void)now_ns;
	wait->answer.bytes = len <= sizeof wait->answer.few ? wait->answer.few : malloc(len);
	if (!wait->answer.bytes)
		return; /* as if nobody had answered */
	wait->answer.len = len;
	if (len)
		memcpy(wait->answer.bytes, answer, len);
}

static void tell(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	if (wait->answer.len)
		wr_reply_bulk(
			out, (struct weir_str){(const char *)wait->answer.bytes, wait->answer.len});
	else
		wr_reply_null(out);
}

static void end(struct wr_resp_wait *wait, bool told, uint64_t now_ns)
{
	(void)told;
	(void)now_ns;
	if (wait->answer.bytes != wait->answer.few)
		free(wait->answer.bytes);
}

static const struct wr_resp_wait_kind ask_kind = {hear, tell, end};

static bool is_question(uint8_t kind)
{
	return kind == WR_QUESTION_TAKE;
}

void wr_command_ask(const struct wr_resp_call *call)
{
	struct wr_resp_wait *wait;

	if (!may_speak(call) || !is_kind(call, is_question))
		return;
	if (call->session->gone) { /* nothing is taken for nobody */
		wr_reply_null(call->out);
		return;
	}
	wait = wr_resp_wait_begin(call->session, &ask_kind, false);
	if (wait)
		wr_resp_wait_ask(wait, call->argv[1].ptr, call->argv[1].len, call->now_ns);
	else
		wr_reply_null(call->out);
}

/* ---- the others ---- */

static bool is_message(uint8_t kind)
{
	return kind == WR_QUESTION_RETURN || kind == WR_QUESTION_REPORT || kind == WR_QUESTION_LATE;
}

void wr_command_tell(const struct wr_resp_call *call)
{
	if (!may_speak(call) || !is_kind(call, is_message))
		return;
	call->host->store->tell(call->host, call->argv[1].ptr, call->argv[1].len, call->now_ns);
	wr_reply_simple(call->out, "OK");
}

void wr_command_fleet(const struct wr_resp_call *call)
{
	const uint8_t *secret;

	if (!may_speak(call))
		return;
	secret = call->host->store->secret(call->host);
	if (secret)
		wr_reply_bulk(call->out,
			      (struct weir_str){(const char *)secret, WEIR_SECRET_BYTES});
	else
		wr_reply_error(call->out, "NOTYET the store has not told the fleet's secret yet");
}
