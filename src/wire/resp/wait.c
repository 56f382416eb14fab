/* Keeps the list of a session's waiting commands, and the replies that must be sent after the
 * replies to these commands. Called by the commands that can wait, by session.c, and by the parts
 * of serve that give the answers. */
#include "wire/resp/wait.h"

#include "base/assert.h"

void wr_resp_wait_init(struct wr_resp_wait *wait, struct wr_resp_session *session,
		       enum wr_resp_source source, const struct wr_resp_wait_kind *kind)
{
	wr_assert(wait && session && kind && kind->reply);
	wr_assert(!wait->answered && !wait->next && wait->behind.len == 0);
	wait->kind = kind;
	wait->session = session;
	wait->source = (uint8_t)source;
	wait->protocol = session->protocol;
	wr_buf_init(&wait->behind, UINT32_MAX); /* the caller's budget for replies is the limit */
}

static void end_wait(struct wr_resp_wait *wait)
{
	struct wr_resp_host *host = wait->session->host;

	wr_buf_free(&wait->behind);
	if (wait->kind->end)
		wait->kind->end(wait);
	if (wait->source == WR_RESP_DECIDER)
		host->decider->end(host, wait);
	else if (wait->source == WR_RESP_CENTRAL)
		host->central->end(host, wait);
	else if (wait->source == WR_RESP_SETTLER)
		host->settler->end(host, wait);
	else
		host->queue->end(host, wait);
}

void wr_resp_wait_reply(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	struct wr_resp_session *session = wait->session;

	wr_assert(session->wait_count < WR_RESP_WAITS_MAX);
	if (wait->answered) {
		wait->kind->reply(wait, out);
		end_wait(wait);
		return;
	}
	if (session->waits)
		session->waits_last->next = wait;
	else
		session->waits = wait;
	session->waits_last = wait;
	session->wait_count++;
	if (wait->source == WR_RESP_QUEUE)
		return;
	session->host->waits++;
	session->turn -= session->turn > 0;
}

static bool mark_answered(struct wr_resp_wait *wait)
{
	wr_assert(!wait->answered);
	wait->answered = true;
	return wait == wait->session->waits && !wait->session->inside;
}

bool wr_resp_answered(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	wr_assert(wait->session && wait->kind->receive);
	wait->kind->receive(wait, answer, len, now_ns);
	return mark_answered(wait);
}

bool wr_resp_decided(struct wr_resp_wait *wait, int verdict)
{
	wr_assert(wait->session && wait->ask);
	wait->verdict = verdict;
	return mark_answered(wait);
}

bool wr_resp_settled(struct wr_resp_wait *wait)
{
	wr_assert(wait->session);
	return mark_answered(wait);
}

/* ---- in the session ---- */

bool wr_resp_waits_full(const struct wr_resp_session *session)
{
	const struct wr_resp_host *host = session->host;

	wr_assert(session->wait_count <= WR_RESP_WAITS_MAX);
	return session->wait_count >= WR_RESP_WAITS_MAX ||
	       (host->central &&
		(host->waits >= host->waits_max || (host->line && session->turn == 0)));
}

static void end_first(struct wr_resp_session *session)
{
	struct wr_resp_wait *wait = session->waits;

	wr_assert(session->wait_count > 0 && session->behind_bytes >= wait->behind.len);
	session->waits = wait->next;
	session->wait_count--;
	session->host->waits -= wait->source != WR_RESP_QUEUE;
	session->behind_bytes -= (uint32_t)wait->behind.len;
	end_wait(wait);
}

void wr_resp_waits_flush(struct wr_resp_session *session, struct wr_resp_out *out)
{
	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	while (session->waits && session->waits->answered) {
		struct wr_resp_wait *wait = session->waits;

		out->protocol = wait->protocol;
		wait->kind->reply(wait, out);
		if (wait->behind.len)
			wr_reply_raw(out, wait->behind.ptr, wait->behind.len);
		session->ended |= out->failed;
		end_first(session);
	}
}

void wr_resp_waits_close(struct wr_resp_out *behind)
{
	struct wr_resp_wait *wait = behind->context;
	size_t len = (size_t)(behind->at - behind->begin);

	wr_assert(behind->at >= behind->begin && wait->session);
	if (len)
		wr_buf_commit(&wait->behind, len);
	wait->session->behind_bytes += (uint32_t)len;
	behind->taken += len;
	behind->begin = behind->at;
}

static bool more_behind(struct wr_resp_out *behind, size_t need)
{
	struct wr_buf *kept = &((struct wr_resp_wait *)behind->context)->behind;
	char *room;

	wr_resp_waits_close(behind);
	room = wr_buf_reserve(kept, need);
	if (!room)
		return false;
	behind->begin = behind->at = (uint8_t *)room;
	behind->end = (uint8_t *)kept->ptr + kept->cap - 1; /* the last byte is for the zero */
	return true;
}

struct wr_resp_out *wr_resp_waits_open(struct wr_resp_session *session, struct wr_resp_out *out,
				       struct wr_resp_out *behind)
{
	wr_assert((session->waits == NULL) == (session->wait_count == 0));
	if (__builtin_expect(!session->waits, 1))
		return out;
	*behind = (struct wr_resp_out){.more = more_behind, .context = session->waits_last};
	return behind;
}

void wr_resp_waits_end(struct wr_resp_session *session)
{
	struct wr_resp_host *host = session->host;

	wr_assert(!session->inside);
	while (session->waits) {
		struct wr_resp_wait *wait = session->waits;

		if (wait->source == WR_RESP_DECIDER)
			host->decider->cancel(host, wait);
		else if (!wait->answered && wait->source == WR_RESP_CENTRAL)
			host->central->leave(host, wait);
		else if (!wait->answered && wait->source == WR_RESP_SETTLER)
			host->settler->leave(host, wait);
		else if (!wait->answered)
			host->queue->leave(host, wait);
		end_first(session);
	}
}
