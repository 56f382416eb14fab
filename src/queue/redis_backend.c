/* The queue in Redis: jobs go out together and come back together. */
#include "queue/redis_backend.h"

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
static bool check_puts(struct wr_remote *redis, struct wr_queue_job **jobs, size_t count)
{
	enum wr_queue_reason keeps = WR_QUEUE_OK;
	bool asked = false;

	for (size_t i = 0; i < count; i++) {
		if (jobs[i]->verb != WR_QUEUE_PUT || jobs[i]->reason != WR_QUEUE_OK)
			continue;
		if (!asked)
			keeps = wr_queue_redis_check_durability(redis, false);
		asked = true;
		if (keeps == WR_QUEUE_AWAY)
			return false;
		jobs[i]->reason = keeps != WR_QUEUE_OK ? keeps
						       : wr_record_check(jobs[i]->put.request,
									 redis->backend.seals);
	}
	return true;
}

static bool is_lost(const redisReply *reply)
{
	/* After SCRIPT FLUSH a new connection brings the script along again. */
	return reply->type == REDIS_REPLY_ERROR &&
	       wr_queue_redis_error_reason(reply) == WR_QUEUE_AWAY;
}

/* Sends some of these jobs and reads their answers. Returns how many are done; fewer than `count`
 * with a connection that is gone means that it has to be tried again. */
static size_t exchange(struct wr_remote *redis, struct wr_queue_job **jobs, size_t count)
{
	struct wr_queue_redis_link *link = &redis->link;
	size_t sent = 0, done = 0;

	for (; sent < count && wr_commands_len(&link->out) < TOGETHER_BYTES; sent++) {
		if (jobs[sent]->reason != WR_QUEUE_OK)
			continue;
		jobs[sent]->unsure++;
		if (!wr_queue_redis_write_call(redis, jobs[sent]))
			jobs[sent]->reason = WR_QUEUE_FAILED;
	}
	if (!wr_queue_redis_send(link))
		return 0;
	for (; done < sent; done++) {
		redisReply *reply;

		if (jobs[done]->reason != WR_QUEUE_OK)
			continue;
		reply = wr_queue_redis_read_reply(link);
		if (!reply)
			return done;
		if (is_lost(reply)) {
			freeReplyObject(reply);
			wr_queue_redis_disconnect(link);
			return done;
		}
		jobs[done]->unsure--;
		wr_remote_answer(redis, jobs[done], reply);
		freeReplyObject(reply);
	}
	redis->commits++;
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
static void run(struct wr_queue_backend *backend, struct wr_queue_job **jobs, size_t count,
		struct wr_moment now)
{
	struct wr_remote *redis = (struct wr_remote *)backend;
	struct wr_queue_redis_link *link = &redis->link;
	struct weir_error why = {.text = "Redis closed the connection, or did not answer in time"};
	size_t done = 0;

	redis->now = now;
	for (int attempt = 0; attempt < 2 && done < count; attempt++) {
		if (link->fd < 0 && !wr_queue_redis_connect(link, &redis->target, &why))
			break;
		if (!check_puts(redis, jobs + done, count - done)) {
			wr_queue_redis_disconnect(link);
			continue;
		}
		while (done < count && link->fd >= 0)
			done += exchange(redis, jobs + done, count - done);
	}
	doubt_puts(jobs, count);
	if (done == count)
		return;
	fail_all(jobs + done, count - done, WR_QUEUE_AWAY);
	wr_queue_backend_fail(backend, WR_QUEUE_AWAY, "%s", why.text);
}

/* One call of the script beside the jobs, with some numbers. NULL: it failed. */
static redisReply *call(struct wr_remote *redis, const char *verb, const int64_t *numbers,
			size_t count)
{
	struct wr_commands *out = &redis->link.out;
	redisReply *reply;

	wr_command_begin(out, 5 + count);
	wr_command_text(out, "EVALSHA");
	wr_command_text(out, wr_script_lines.sha1);
	wr_command_text(out, "1");
	wr_command_text(out, redis->base);
	wr_command_text(out, verb);
	for (size_t i = 0; i < count; i++)
		wr_command_number(out, numbers[i]);
	reply = wr_command_end(out) && wr_queue_redis_send(&redis->link)
			? wr_queue_redis_read_reply(&redis->link)
			: NULL;
	if (!reply || is_lost(reply)) {
		wr_queue_backend_fail(
			&redis->backend, WR_QUEUE_AWAY, "%.*s", reply ? (int)reply->len : 54,
			reply ? reply->str
			      : "Redis closed the connection, or did not answer in time");
		if (reply)
			freeReplyObject(reply);
		return NULL;
	}
	return reply;
}

/* One poll from remote->changes on. False: it failed. */
static bool poll_once(struct wr_remote *redis)
{
	redisReply *reply = call(redis, "poll", &redis->changes, 1);

	if (!reply)
		return false;
	if (reply->type == REDIS_REPLY_ARRAY) {
		int64_t last = wr_remote_number(reply, 1);

		wr_queue_redis_report_lines(redis, reply, 2);
		redis->changes = last < redis->changes ? -1 : last;
	}
	freeReplyObject(reply);
	return true;
}

/* Tells of what others changed. If Redis has seen fewer changes than we were told of, it has lost
 * data: then all lines are told. */
static bool poll_changes(struct wr_remote *redis)
{
	bool known = redis->changes >= 0;

	return poll_once(redis) && (!known || redis->changes >= 0 || poll_once(redis));
}

static void tick(struct wr_queue_backend *backend, struct wr_moment now)
{
	struct wr_remote *redis = (struct wr_remote *)backend;
	const struct wr_queue_opts *opts = backend->opts;
	const int64_t bounds[] = {(int64_t)opts->max_tickets, TIDY_MOST, (int64_t)opts->max_dead,
				  (int64_t)opts->max_dead_bytes};
	redisReply *reply;

	redis->now = now;
	if (!poll_changes(redis) || now.mono_us - redis->tidied_us < TIDY_US)
		return;
	redis->tidied_us = now.mono_us;
	if (wr_queue_redis_check_durability(redis, true) == WR_QUEUE_AWAY)
		return; /* the next call finds that out, too */
	reply = call(redis, "tidy", bounds, sizeof bounds / sizeof *bounds);
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_ARRAY && wr_remote_number(reply, 2) > 0)
		wr_queue_backend_count_trimmed(backend, (uint64_t)wr_remote_number(reply, 2),
					       now.mono_us);
	freeReplyObject(reply);
}

static enum wr_queue_reason open_backend(struct wr_queue_backend *backend, struct wr_moment now,
					 struct weir_error *error)
{
	struct wr_remote *redis = (struct wr_remote *)backend;

	redis->now = now;
	if (!wr_queue_redis_connect(&redis->link, &redis->target, error))
		return WR_QUEUE_AWAY;
	/* Opened again, it goes on behind the last change that it knows of: lines that have become
	 * empty since are told as well. */
	redis->whole_file = false;
	if (!poll_changes(redis)) {
		*error = backend->why;
		backend->failed = WR_QUEUE_OK;
		wr_queue_redis_disconnect(&redis->link);
		return WR_QUEUE_AWAY;
	}
	wr_queue_redis_check_durability(
		redis, true); /* to be said at the start, not at the first refusal */
	return WR_QUEUE_OK;
}

static void close_backend(struct wr_queue_backend *backend)
{
	wr_queue_redis_disconnect(&((struct wr_remote *)backend)->link);
}

static void free_backend(struct wr_queue_backend *backend)
{
	struct wr_remote *redis = (struct wr_remote *)backend;

	wr_queue_redis_link_free(&redis->link);
	wr_queue_owner_close(&redis->owner);
	OPENSSL_cleanse(&redis->target, sizeof redis->target);
	free(redis);
}

static const struct wr_queue_backend_ops ops = {open_backend, run, tick, close_backend,
						free_backend};

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
		  struct wr_queue_backend **made, struct weir_error *error)
{
	struct wr_remote *redis = calloc(1, sizeof *redis);
	int rc;

	if (!redis)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	redis->link.fd = -1;
	redis->changes = -1;
	redis->backend = (struct wr_queue_backend){
		.ops = &ops, .opts = opts, .seals = seals, .tick_us = opts->poll_us};
	snprintf(redis->base, sizeof redis->base, "%s:1:{queue}", opts->prefix);
	rc = wr_queue_owner_open(&redis->owner, opts->owner_file, error);
	if (rc == 0)
		rc = wr_redis_prefix_check(opts->prefix, error);
	if (rc == 0)
		rc = wr_redis_target_parse(wr_str(opts->url), &redis->target, error);
	if (rc == 0 && opts->password_file)
		rc = read_password(&redis->target, opts->password_file, error);
	if (rc == 0)
		rc = wr_queue_redis_link_init(&redis->link, &redis->target, opts, error);
	if (rc < 0)
		free_backend(&redis->backend);
	else
		*made = &redis->backend;
	return rc;
}
