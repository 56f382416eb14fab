/* The queue in Redis: jobs go out together and come back together. */
#include "queue/remote.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "queue/record.h"

#define TOGETHER_BYTES ((size_t)8 << 20) /* of one pipeline, or a little more than a body */
#define TIDY_US 1000000u
#define TIDY_MOST 100

static void fail_all(struct wr_queue_job **jobs, size_t count, enum wr_queue_reason reason)
{
	for (size_t i = 0; i < count; i++)
		if (jobs[i]->reason == WR_QUEUE_OK)
			jobs[i]->reason = reason;
}

/* Refuses what can not be stored, before anything is sent. False: the connection is lost. */
static bool check_puts(struct wr_remote *remote, struct wr_queue_job **jobs, size_t count)
{
	enum wr_queue_reason keeps = WR_QUEUE_OK;
	bool asked = false;

	for (size_t i = 0; i < count; i++) {
		if (jobs[i]->verb != WR_QUEUE_PUT || jobs[i]->reason != WR_QUEUE_OK)
			continue;
		if (!asked)
			keeps = wr_remote_keeps(remote, false);
		asked = true;
		if (keeps == WR_QUEUE_AWAY)
			return false;
		jobs[i]->reason = keeps != WR_QUEUE_OK ? keeps
						       : wr_record_check(jobs[i]->put.request,
									 remote->store.seals);
	}
	return true;
}

static bool is_lost(const redisReply *reply)
{
	/* After SCRIPT FLUSH a new connection brings the script along again. */
	return reply->type == REDIS_REPLY_ERROR && wr_remote_fault(reply) == WR_QUEUE_AWAY;
}

/* Sends some of these jobs and reads their answers. Returns how many are done; fewer than `count`
 * with a connection that is gone means that it has to be tried again. */
static size_t exchange(struct wr_remote *remote, struct wr_queue_job **jobs, size_t count)
{
	struct wr_remote_link *link = &remote->link;
	size_t sent = 0, done = 0;

	for (; sent < count && wr_commands_len(&link->out) < TOGETHER_BYTES; sent++) {
		if (jobs[sent]->reason != WR_QUEUE_OK)
			continue;
		jobs[sent]->unsure++;
		if (!wr_remote_call(remote, jobs[sent]))
			jobs[sent]->reason = WR_QUEUE_FAILED;
	}
	if (!wr_remote_send(link))
		return 0;
	for (; done < sent; done++) {
		redisReply *reply;

		if (jobs[done]->reason != WR_QUEUE_OK)
			continue;
		reply = wr_remote_reply(link);
		if (!reply)
			return done;
		if (is_lost(reply)) {
			freeReplyObject(reply);
			wr_remote_disconnect(link);
			return done;
		}
		jobs[done]->unsure--;
		wr_remote_answer(remote, jobs[done], reply);
		freeReplyObject(reply);
	}
	remote->commits++;
	return done;
}

/* An earlier call of this request had no reply, so Redis may have stored it, or may store it later.
 * A refusal of the retry is therefore reported as "away", not as final. */
static void doubt_puts(struct wr_queue_job **jobs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (jobs[i]->verb == WR_QUEUE_PUT && jobs[i]->unsure &&
		    jobs[i]->reason != WR_QUEUE_OK)
			jobs[i]->reason = WR_QUEUE_AWAY;
}

/* A connection that was lost is made again once, and what had no answer is said again. */
static void run(struct wr_store *store, struct wr_queue_job **jobs, size_t count,
		struct wr_moment now)
{
	struct wr_remote *remote = (struct wr_remote *)store;
	struct wr_remote_link *link = &remote->link;
	struct weir_error why = {.text = "Redis closed the connection, or did not answer in time"};
	size_t done = 0;

	remote->now = now;
	for (int attempt = 0; attempt < 2 && done < count; attempt++) {
		if (link->fd < 0 && !wr_remote_connect(link, &remote->target, &why))
			break;
		if (!check_puts(remote, jobs + done, count - done)) {
			wr_remote_disconnect(link);
			continue;
		}
		while (done < count && link->fd >= 0)
			done += exchange(remote, jobs + done, count - done);
	}
	doubt_puts(jobs, count);
	if (done == count)
		return;
	fail_all(jobs + done, count - done, WR_QUEUE_AWAY);
	wr_store_fail(store, WR_QUEUE_AWAY, "%s", why.text);
}

/* One call of the script beside the jobs, with some numbers. NULL: it failed. */
static redisReply *call(struct wr_remote *remote, const char *verb, const int64_t *numbers,
			size_t count)
{
	struct wr_commands *out = &remote->link.out;
	redisReply *reply;

	wr_command_begin(out, 5 + count);
	wr_command_text(out, "EVALSHA");
	wr_command_text(out, wr_script_lines.sha1);
	wr_command_text(out, "1");
	wr_command_text(out, remote->base);
	wr_command_text(out, verb);
	for (size_t i = 0; i < count; i++)
		wr_command_number(out, numbers[i]);
	reply = wr_command_end(out) && wr_remote_send(&remote->link)
			? wr_remote_reply(&remote->link)
			: NULL;
	if (!reply || is_lost(reply)) {
		wr_store_fail(&remote->store, WR_QUEUE_AWAY, "%.*s", reply ? (int)reply->len : 54,
			      reply ? reply->str
				    : "Redis closed the connection, or did not answer in time");
		if (reply)
			freeReplyObject(reply);
		return NULL;
	}
	return reply;
}

/* One poll from remote->changes on. False: it failed. */
static bool poll_once(struct wr_remote *remote)
{
	redisReply *reply = call(remote, "poll", &remote->changes, 1);

	if (!reply)
		return false;
	if (reply->type == REDIS_REPLY_ARRAY) {
		int64_t last = wr_remote_number(reply, 1);

		wr_remote_tell(remote, reply, 2);
		remote->changes = last < remote->changes ? -1 : last;
	}
	freeReplyObject(reply);
	return true;
}

/* Tells of what others changed. If Redis has seen fewer changes than we were told of, it has lost
 * data: then all lines are told. */
static bool poll_changes(struct wr_remote *remote)
{
	bool known = remote->changes >= 0;

	return poll_once(remote) && (!known || remote->changes >= 0 || poll_once(remote));
}

static void tick(struct wr_store *store, struct wr_moment now)
{
	struct wr_remote *remote = (struct wr_remote *)store;
	const struct wr_queue_opts *opts = store->opts;
	const int64_t bounds[] = {(int64_t)opts->max_tickets, TIDY_MOST, (int64_t)opts->max_dead,
				  (int64_t)opts->max_dead_bytes};
	redisReply *reply;

	remote->now = now;
	if (!poll_changes(remote) || now.mono_us - remote->tidied_us < TIDY_US)
		return;
	remote->tidied_us = now.mono_us;
	if (wr_remote_keeps(remote, true) == WR_QUEUE_AWAY)
		return; /* the next call finds that out, too */
	reply = call(remote, "tidy", bounds, sizeof bounds / sizeof *bounds);
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_ARRAY && wr_remote_number(reply, 2) > 0)
		wr_store_trimmed(store, (uint64_t)wr_remote_number(reply, 2), now.mono_us);
	freeReplyObject(reply);
}

static enum wr_queue_reason open_store(struct wr_store *store, struct wr_moment now,
				       struct weir_error *error)
{
	struct wr_remote *remote = (struct wr_remote *)store;

	remote->now = now;
	if (!wr_remote_connect(&remote->link, &remote->target, error))
		return WR_QUEUE_AWAY;
	/* Opened again, it goes on behind the last change that it knows of: lines that have become
	 * empty since are told as well. */
	remote->whole_file = false;
	if (!poll_changes(remote)) {
		*error = store->why;
		store->failed = WR_QUEUE_OK;
		wr_remote_disconnect(&remote->link);
		return WR_QUEUE_AWAY;
	}
	wr_remote_keeps(remote, true); /* to be said at the start, not at the first refusal */
	return WR_QUEUE_OK;
}

static void close_store(struct wr_store *store)
{
	wr_remote_disconnect(&((struct wr_remote *)store)->link);
}

static void free_store(struct wr_store *store)
{
	struct wr_remote *remote = (struct wr_remote *)store;

	wr_remote_link_free(&remote->link);
	wr_owner_end(&remote->owner);
	OPENSSL_cleanse(&remote->target, sizeof remote->target);
	free(remote);
}

static const struct wr_store_ops ops = {open_store, run, tick, close_store, free_store};

static int read_password(struct wr_redis_target *target, const char *path, struct weir_error *error)
{
	char text[WR_REDIS_PASSWORD_MAX + 8];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
	int rc;

	if (len < 0)
		rc = wr_error_errno(error, WEIR_EINVAL, "the password file %s can not be read",
				    path);
	else
		rc = wr_redis_target_password(target, (struct weir_str){text, (size_t)len}, error);
	if (fd >= 0)
		close(fd);
	OPENSSL_cleanse(text, sizeof text);
	return rc;
}

int wr_remote_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		  struct wr_store **made, struct weir_error *error)
{
	struct wr_remote *remote = calloc(1, sizeof *remote);
	int rc;

	if (!remote)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	remote->link.fd = -1;
	remote->changes = -1;
	remote->store = (struct wr_store){
		.ops = &ops, .opts = opts, .seals = seals, .tick_us = opts->poll_us};
	snprintf(remote->base, sizeof remote->base, "%s:1:{queue}", opts->prefix);
	rc = wr_owner_begin(&remote->owner, opts->owner_file, error);
	if (rc == 0)
		rc = wr_redis_prefix_check(opts->prefix, error);
	if (rc == 0)
		rc = wr_redis_target_parse(wr_str(opts->url), &remote->target, error);
	if (rc == 0 && opts->password_file)
		rc = read_password(&remote->target, opts->password_file, error);
	if (rc == 0)
		rc = wr_remote_link_init(&remote->link, &remote->target, opts, error);
	if (rc < 0)
		free_store(&remote->store);
	else
		*made = &remote->store;
	return rc;
}
