/* Runs MULTI, EXEC and DISCARD. A transaction is a list of commands that run when EXEC comes.
 *
 * Commands between MULTI and EXEC are checked, get the reply QUEUED, and are stored as arrays of
 * bulk strings. EXEC writes the first line of an array, which contains the number of elements.
 * session.c then reads the stored commands like input and runs them, and their replies are the
 * elements of the array. Commands of other connections may run between the commands of a
 * transaction. */
#include "wire/resp/commands.h"

#include "base/assert.h"

static void free_transaction(struct wr_resp_session *session)
{
	wr_buf_free(&session->multi.input);
	session->multi = (struct wr_resp_multi){0};
}

void wr_resp_multi_end(struct wr_resp_session *session)
{
	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	if (session->multi.state != WR_MULTI_NONE)
		free_transaction(session);
}

/* Appends the command as an array of bulk strings. Returns false if the transaction, or all
 * transactions of the host together, would be too large, or if there is no memory. */
static bool append_command(struct wr_resp_multi *multi, const struct wr_resp_call *call)
{
	size_t size = WR_REPLY_NUMBER_BYTES;
	uint8_t *first, *at;

	for (uint32_t i = 0; i < call->argc; i++)
		size += WR_REPLY_NUMBER_BYTES + call->argv[i].len + 2;
	first = (uint8_t *)wr_buf_reserve(&multi->input, size);
	if (!first)
		return false;
	at = wr_reply_put_line(first, '*', call->argc);
	for (uint32_t i = 0; i < call->argc; i++) {
		at = wr_reply_put_line(at, '$', (int64_t)call->argv[i].len);
		memcpy(at, call->argv[i].ptr, call->argv[i].len);
		at += call->argv[i].len;
		*at++ = '\r';
		*at++ = '\n';
	}
	wr_buf_commit(&multi->input, (size_t)(at - first));
	multi->count++;
	return true;
}

void wr_resp_multi_queue(const struct wr_resp_call *call)
{
	struct wr_resp_multi *multi = &call->session->multi;

	wr_assert(multi->state == WR_MULTI_OPEN);
	if (call->entry->flags & WR_RESP_NO_AUTH) {
		wr_reply_error(call->out, "ERR Command not allowed inside a transaction");
		multi->failed = true;
	} else if (multi->failed) {
		/* the command is not stored, because EXEC will refuse the transaction */
		wr_reply_simple(call->out, "QUEUED");
	} else if (append_command(multi, call)) {
		wr_reply_simple(call->out, "QUEUED");
	} else {
		wr_reply_error(call->out, "ERR the transaction is too large");
		multi->failed = true;
	}
}

bool wr_resp_multi_passes(const struct wr_resp_entry *entry)
{
	return entry->run == wr_resp_command_multi || entry->run == wr_resp_command_exec ||
	       entry->run == wr_resp_command_discard || entry->run == wr_resp_command_quit ||
	       entry->run == wr_resp_command_reset;
}

void wr_resp_command_multi(const struct wr_resp_call *call)
{
	struct wr_resp_multi *multi = &call->session->multi;

	wr_assert_magic(call->session, WR_RESP_SESSION_MAGIC);
	if (multi->state == WR_MULTI_OPEN) {
		wr_reply_error(call->out, "ERR MULTI calls can not be nested");
		return;
	}
	multi->state = WR_MULTI_OPEN;
	wr_buf_init(&multi->input, WR_RESP_MULTI_BYTES_MAX);
	multi->input.room = &call->host->multi_room;
	wr_reply_simple(call->out, "OK");
}

void wr_resp_command_discard(const struct wr_resp_call *call)
{
	if (call->session->multi.state != WR_MULTI_OPEN) {
		wr_reply_error(call->out, "ERR DISCARD without MULTI");
		return;
	}
	free_transaction(call->session);
	wr_reply_simple(call->out, "OK");
}

void wr_resp_command_exec(const struct wr_resp_call *call)
{
	struct wr_resp_multi *multi = &call->session->multi;

	wr_assert_magic(call->session, WR_RESP_SESSION_MAGIC);
	if (multi->state != WR_MULTI_OPEN) {
		wr_reply_error(call->out, "ERR EXEC without MULTI");
	} else if (multi->failed) {
		free_transaction(call->session);
		wr_reply_error(call->out,
			       "EXECABORT Transaction discarded because of previous errors.");
	} else {
		wr_reply_array(call->out, multi->count);
		multi->state = WR_MULTI_RUNNING;
		if (multi->count == 0)
			free_transaction(call->session);
	}
}
