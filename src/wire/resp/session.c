/* Runs a RESP session: splits the input into commands, runs the commands in batches, and stores the
 * input that cannot run yet. Called by serve/resp/resp.c. */
#include "wire/resp/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

#define HELD_REUSE_MAX 4096u /* an empty buffer `held` with a larger capacity is freed */
#define SLICE_BYTES 512u     /* number of bytes that are copied at a time to complete a command */

/* Returns the number of bytes that a buffer of this capacity counts towards WR_RESP_LARGE_ALL_MAX.
 * Small buffers count 0. */
static size_t large_of(size_t cap)
{
	return cap > 2 * (size_t)WR_RESP_HELD_MAX ? cap : 0;
}

/* Resizes the buffer `held`, or frees it if `cap` is 0. Returns false if the large buffers of all
 * sessions together would exceed their maximum, or if there is no memory. `held` is not a struct
 * wr_buf, because small buffers do not count in host->large. */
static bool set_capacity(struct wr_resp_session *session, size_t cap)
{
	struct wr_resp_host *host = session->host;
	size_t large = host->large - large_of(session->held_cap) + large_of(cap);
	uint8_t *moved = NULL;

	wr_assert(session->host->large >= large_of(session->held_cap));
	if (large > host->large && large > WR_RESP_LARGE_ALL_MAX)
		return false;
	if (cap == 0)
		free(session->held);
	else if (!(moved = realloc(session->held, cap)))
		return false;
	session->held = moved;
	session->held_cap = (uint32_t)cap;
	host->large = large;
	return true;
}

void wr_resp_session_reset(struct wr_resp_session *session)
{
	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	session->protocol = 2;
	session->trusted = session->host->users == NULL;
	session->linked = false;
	session->user[0] = '\0';
	session->name[0] = '\0';
	wr_resp_multi_end(session);
}

void wr_resp_session_begin(struct wr_resp_session *session, struct wr_resp_host *host,
			   uint64_t now_ns)
{
	wr_assert(host && host->decider && !session->host);
	session->magic = WR_RESP_SESSION_MAGIC;
	session->host = host;
	session->since_ns = now_ns;
	wr_resp_session_reset(session);
	wr_resp_count(&host->tally.connected);
	wr_resp_count(&host->tally.accepted);
}

void wr_resp_session_end(struct wr_resp_session *session)
{
	wr_assert(session->host);
	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	wr_resp_waits_end(session);
	wr_resp_multi_end(session);
	set_capacity(session, 0);
	session->held_len = 0;
	atomic_fetch_sub_explicit(&session->host->tally.connected, 1, memory_order_relaxed);
	session->magic = 0;
}

/* Appends input to `held`. Returns false if `held` would be too long, or if there is no memory. */
static bool hold_input(struct wr_resp_session *session, const uint8_t *data, size_t len)
{
	size_t most = session->parser.large ? WR_RESP_LARGE_HELD_MAX : WR_RESP_HELD_MAX;
	size_t need = session->held_len + len;
	size_t cap = session->held_cap ? session->held_cap : SLICE_BYTES;

	if (need > most)
		return false;
	while (cap < need)
		cap *= 2;
	if (cap > session->held_cap && !set_capacity(session, cap))
		return false;
	memcpy(session->held + session->held_len, data, len);
	session->held_len = (uint32_t)need;
	return true;
}

static void free_held(struct wr_resp_session *session)
{
	session->held_len = 0;
	if (session->held_cap > HELD_REUSE_MAX)
		set_capacity(session, 0);
}

static enum wr_resp_trust trust_of(const struct wr_resp_session *session)
{
	if (session->linked)
		return WR_RESP_PEER;
	return session->trusted ? WR_RESP_TRUSTED : WR_RESP_STRANGER;
}

static void end_with_error(struct wr_resp_session *session, struct wr_resp_out *out,
			   const char *error)
{
	struct wr_resp_out behind, *to = wr_resp_waits_open(session, out, &behind);

	wr_reply_error(to, "ERR %s", error);
	if (to == &behind)
		wr_resp_waits_close(&behind);
	session->ended = true;
	wr_resp_count(&session->host->tally.bad);
}

static void run_command(struct wr_resp_session *session, const struct wr_resp_ready *ready,
			uint64_t now_ns, struct wr_resp_out *out)
{
	struct wr_resp_out behind, *to;

	if (ready->command.argc == 0)
		return;
	wr_resp_count(&session->host->tally.commands);
	to = wr_resp_waits_open(session, out, &behind);
	to->protocol = session->protocol;
	wr_resp_execute(session, ready, now_ns, to);
	session->ended |= to->failed;
	if (__builtin_expect(to == &behind, 0))
		wr_resp_waits_close(&behind);
	if (__builtin_expect(session->waits != NULL, 0))
		wr_resp_waits_flush(session, out);
}

/* Returns whether another command may run, that is, whether there is room for its reply and not too
 * many commands wait. */
static bool may_go_on(const struct wr_resp_session *session, size_t budget,
		      const struct wr_resp_out *out)
{
	return wr_reply_written(out) + session->behind_bytes <= budget &&
	       !wr_resp_waits_full(session);
}

/* Returns whether this command must run before the next command is read. EXEC must, because the
 * commands of its transaction run before the next command. AUTH, HELLO, RESET and WEIR.LINK must,
 * because they can change how long the client's commands are allowed to be. */
static bool ends_batch(const struct wr_resp_host *host, const struct wr_resp_entry *entry)
{
	if (entry && entry->run == wr_resp_command_exec)
		return true;
	if (!host->users && !host->link_key)
		return false;
	return entry &&
	       (entry->run == wr_resp_command_auth || entry->run == wr_resp_command_hello ||
		entry->run == wr_resp_command_reset || entry->run == wr_resp_command_link);
}

/* Reads a batch of commands, so that the memory that a command needs is prefetched while other
 * commands are read. Returns the number of commands. Sets *rc to the result of the latest call of
 * wr_resp_read. Commands of a client that has not logged in are read one at a time, because a login
 * changes how long the client's commands may be. */
static size_t read_batch(struct wr_resp_session *session, const uint8_t *data, size_t len, int *rc)
{
	struct wr_resp_host *host = session->host;
	size_t most = session->trusted ? WR_RESP_BATCH : 1;
	size_t count = 0, at = 0;

	wr_resp_forget(&host->reader);
	for (*rc = WR_RESP_COMMAND; count < most;) {
		struct wr_resp_ready *ready = &host->batch[count];

		*rc = wr_resp_read(&session->parser, trust_of(session), data + at, len - at,
				   &host->reader, &ready->command);
		if (*rc != WR_RESP_COMMAND)
			break;
		at += ready->command.bytes;
		count++;
		if (ready->command.argc == 0)
			continue;
		wr_resp_prepare(session, ready);
		if (ends_batch(host, ready->entry))
			break;
	}
	return count;
}

/* Runs the commands of the batch until the session has to stop. Returns the number of commands that
 * have run. The rest of the batch is read again later. */
static size_t run_batch(struct wr_resp_session *session, size_t count, uint64_t now_ns,
			size_t budget, struct wr_resp_out *out)
{
	size_t i = 0;

	for (; i < count && !session->ended && may_go_on(session, budget, out); i++)
		run_command(session, &session->host->batch[i], now_ns, out);
	if (i < count)
		session->parser = (struct wr_resp_parser){0};
	return i;
}

/* Runs the commands of a transaction after EXEC. Returns true if all commands of the transaction
 * have run. */
static bool run_transaction(struct wr_resp_session *session, uint64_t now_ns, size_t budget,
			    struct wr_resp_out *out)
{
	struct wr_resp_multi *multi = &session->multi;

	while (__builtin_expect(multi->state == WR_MULTI_RUNNING, 0)) {
		int rc;
		size_t count = read_batch(session, (uint8_t *)multi->input.ptr + multi->at,
					  multi->input.len - multi->at, &rc);
		size_t ran = run_batch(session, count, now_ns, budget, out);

		for (size_t i = 0; i < ran; i++)
			multi->at += (uint32_t)session->host->batch[i].command.bytes;
		if (multi->at == multi->input.len)
			wr_resp_multi_end(session);
		else if (session->ended || !may_go_on(session, budget, out))
			return false;
	}
	return true;
}

/* Reads and runs commands, without copying the input. Returns the number of bytes consumed. */
static size_t run_input(struct wr_resp_session *session, const uint8_t *data, size_t len,
			uint64_t now_ns, size_t budget, struct wr_resp_out *out)
{
	const struct wr_resp_host *host = session->host;
	size_t done = 0;
	int rc = WR_RESP_COMMAND;

	while (run_transaction(session, now_ns, budget, out) && rc > WR_RESP_PARTIAL &&
	       done < len && !session->ended && may_go_on(session, budget, out)) {
		size_t count = read_batch(session, data + done, len - done, &rc);
		size_t ran = run_batch(session, count, now_ns, budget, out);

		for (size_t i = 0; i < ran; i++)
			done += host->batch[i].command.bytes;
		if (rc == WR_RESP_BAD && ran == count && !session->ended)
			end_with_error(session, out, host->reader.error.text);
	}
	return done;
}

/* Returns whether the next command has to wait: for room for its reply, for answers to other
 * commands, or for the end of a transaction. */
static bool has_to_wait(const struct wr_resp_session *session, size_t budget,
			const struct wr_resp_out *out)
{
	return session->multi.state == WR_MULTI_RUNNING || !may_go_on(session, budget, out);
}

/* Completes the command in `held` with bytes of `data`, and runs the command. Returns the number of
 * bytes of `data` that were used. */
static size_t complete_held(struct wr_resp_session *session, const uint8_t *data, size_t len,
			    uint64_t now_ns, struct wr_resp_out *out)
{
	struct wr_resp_reader *reader = &session->host->reader;
	struct wr_resp_ready *ready = session->host->batch;
	size_t done = 0;

	wr_resp_forget(reader);
	reader->wanted = 1;
	while (done < len) {
		size_t before = session->held_len;
		size_t slice = reader->wanted > SLICE_BYTES ? reader->wanted : SLICE_BYTES;
		int rc;

		slice = slice < len - done ? slice : len - done;
		if (!hold_input(session, data + done, slice)) {
			end_with_error(session, out, "out of memory");
			return len;
		}
		rc = wr_resp_read(&session->parser, trust_of(session), session->held,
				  session->held_len, reader, &ready->command);
		if (rc == WR_RESP_BAD) {
			end_with_error(session, out, reader->error.text);
			return len;
		}
		if (rc == WR_RESP_COMMAND) {
			if (ready->command.argc)
				wr_resp_prepare(session, ready);
			run_command(session, ready, now_ns, out);
			free_held(session);
			return done + ready->command.bytes - before;
		}
		done += slice;
	}
	return done;
}

/* Runs the commands in `held` that had to wait. */
static void run_held(struct wr_resp_session *session, uint64_t now_ns, size_t budget,
		     struct wr_resp_out *out)
{
	size_t done = run_input(session, session->held, session->held_len, now_ns, budget, out);

	session->held_len -= (uint32_t)done;
	if (done == 0)
		return;
	if (session->held_len)
		memmove(session->held, session->held + done, session->held_len);
	else
		free_held(session);
}

static void take_input(struct wr_resp_session *session, const uint8_t *data, size_t len,
		       uint64_t now_ns, size_t budget, struct wr_resp_out *out)
{
	size_t done = 0;

	if (session->held_len && session->stopped)
		run_held(session, now_ns, budget, out);
	if (session->ended)
		return;
	session->stopped = has_to_wait(session, budget, out);
	if (session->held_len && !session->stopped)
		done = complete_held(session, data, len, now_ns, out);
	if (!session->held_len && !session->ended)
		done += run_input(session, done ? data + done : data, len - done, now_ns, budget,
				  out);
	if (session->ended)
		return;
	session->stopped = has_to_wait(session, budget, out);
	if (done < len && !hold_input(session, data + done, len - done))
		end_with_error(session, out,
			       "too many commands were sent while the replies were not read");
}

void wr_resp_session_input(struct wr_resp_session *session, const uint8_t *data, size_t len,
			   uint64_t now_ns, size_t budget, struct wr_resp_out *out)
{
	wr_assert(session->host && !session->inside && (data || len == 0));
	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	session->inside = true;
	wr_resp_waits_flush(session, out);
	if (!session->ended)
		take_input(session, data, len, now_ns, budget, out);
	session->inside = false;
}
