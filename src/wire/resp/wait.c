#include "wire/resp/wait.h"

#include <assert.h>
#include <stdlib.h>

#include "limiter/question.h"

#define BEHIND_BYTES 512u /* what replies behind a wait begin with */

struct wr_resp_wait *wr_resp_wait_begin(struct wr_resp_session *session,
					const struct wr_resp_wait_kind *kind, bool with_ask)
{
	struct wr_resp_host *host = session->host;
	struct wr_resp_wait *wait = host->store->begin(host, with_ask);

	if (!wait)
		return NULL;
	wait->kind = kind;
	wait->session = session;
	wait->protocol = session->protocol;
	return wait;
}

void wr_resp_wait_drop(struct wr_resp_session *session, struct wr_resp_wait *wait)
{
	session->host->store->end(session->host, wait);
}

static void put_behind(struct wr_resp_wait *wait)
{
	struct wr_resp_session *session = wait->session;

	if (session->waits)
		session->waits_last->next = wait;
	else
		session->waits = wait;
	session->waits_last = wait;
	session->wait_count++;
}

void wr_resp_wait_queue(struct wr_resp_wait *wait)
{
	put_behind(wait);
}

void wr_resp_wait_ask(struct wr_resp_wait *wait, const void *question, size_t len, uint64_t now_ns)
{
	struct wr_resp_session *session = wait->session;
	struct wr_resp_host *host = session->host;

	put_behind(wait);
	session->turn -= session->turn > 0;
	host->waits++;
	host->store->take(host, wait, question, len, now_ns);
}

void wr_resp_tell_store(struct wr_resp_host *host, struct weir_ask *ask, uint64_t now_ns)
{
	int len;

	while ((len = weir_ask_question(ask, host->question, sizeof host->question)) > 0) {
		assert(host->question[offsetof(struct wr_question_head, kind)] != WR_QUESTION_TAKE);
		host->store->tell(host, host->question, (size_t)len, now_ns);
	}
}

bool wr_resp_heard(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	wait->heard = true;
	wait->kind->heard(wait, answer, len, now_ns);
	return wait == wait->session->waits && !wait->session->inside;
}

/* ---- in the session ---- */

bool wr_resp_waits_full(const struct wr_resp_session *session)
{
	const struct wr_resp_host *host = session->host;

	return session->wait_count >= WR_RESP_WAITS_MAX ||
	       (host->store &&
		(host->waits >= host->waits_max || (host->line && session->turn == 0)));
}

/* Takes the first one away. */
static void end_first(struct wr_resp_session *session, bool told, uint64_t now_ns)
{
	struct wr_resp_wait *wait = session->waits;

	session->waits = wait->next;
	session->wait_count--;
	session->host->waits -= !wait->queued;
	session->kept_bytes -= wait->behind_len;
	free(wait->behind);
	if (wait->kind->end)
		wait->kind->end(wait, told, now_ns);
	if (wait->queued)
		session->host->queue->end(session->host, wait);
	else
		session->host->store->end(session->host, wait);
}

void wr_resp_waits_tell(struct wr_resp_session *session, uint64_t now_ns, struct wr_resp_out *out)
{
	while (session->waits && session->waits->heard) {
		struct wr_resp_wait *wait = session->waits;

		out->protocol = wait->protocol;
		wait->kind->tell(wait, out);
		if (wait->behind_len)
			wr_reply_raw(out, (const char *)wait->behind, wait->behind_len);
		session->ended |= out->failed;
		end_first(session, true, now_ns);
	}
}

/* Notes what was written. */
void wr_resp_waits_close(struct wr_resp_out *kept)
{
	struct wr_resp_wait *wait = kept->context;
	size_t len = (size_t)(kept->at - kept->begin);

	wait->behind_len += (uint32_t)len;
	wait->session->kept_bytes += (uint32_t)len;
	kept->taken += len;
	kept->begin = kept->at;
}

static bool more_behind(struct wr_resp_out *kept, size_t need)
{
	struct wr_resp_wait *wait = kept->context;
	size_t cap = wait->behind_cap ? wait->behind_cap : BEHIND_BYTES;
	uint8_t *larger = wait->behind;

	wr_resp_waits_close(kept);
	while (cap < wait->behind_len + need)
		cap *= 2;
	if (cap > wait->behind_cap)
		larger = realloc(wait->behind, cap);
	if (!larger)
		return false;
	wait->behind = larger;
	wait->behind_cap = (uint32_t)cap;
	kept->begin = kept->at = larger + wait->behind_len;
	kept->end = larger + cap;
	return true;
}

struct wr_resp_out *wr_resp_waits_open(struct wr_resp_session *session, struct wr_resp_out *out,
				       struct wr_resp_out *kept)
{
	if (__builtin_expect(!session->waits, 1))
		return out;
	*kept = (struct wr_resp_out){.more = more_behind, .context = session->waits_last};
	return kept;
}

void wr_resp_waits_end(struct wr_resp_session *session, uint64_t now_ns)
{
	while (session->waits) {
		struct wr_resp_wait *wait = session->waits;

		if (!wait->heard && wait->queued)
			session->host->queue->leave(session->host, wait);
		else if (!wait->heard)
			session->host->store->leave(session->host, wait, now_ns);
		end_first(session, false, now_ns);
	}
}
