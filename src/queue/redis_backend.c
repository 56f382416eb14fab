/* The Redis backend: sends the jobs of a batch in pipelines and reads their replies. Called by the
 * queue's thread. */
#include "queue/redis_backend.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "queue/record.h"

/* once the commands of a pipeline have this many bytes, no further job is added to the pipeline */
#define PIPELINE_BYTES ((size_t)8 << 20)
#define TIDY_US 1000000u
#define TIDY_MAX 100 /* each step of tidy.lua deletes at most this many requests */
#define NO_REPLY "Redis closed the connection, or did not reply in time"

/* Sets the reason of each put that cannot be stored. Called before the jobs are sent. Returns false
 * if the connection was lost. */
static bool check_puts(struct wr_queue_redis *redis, struct wr_queue_job **jobs, size_t count)
{
	enum wr_queue_reason durability = WR_QUEUE_OK;
	bool checked = false;

	for (size_t i = 0; i < count; i++) {
		if (jobs[i]->verb != WR_QUEUE_PUT || jobs[i]->reason != WR_QUEUE_OK)
			continue;
		if (!checked)
			durability = wr_queue_redis_check_durability(redis, false);
		checked = true;
		if (durability == WR_QUEUE_AWAY)
			return false;
		jobs[i]->reason =
			durability != WR_QUEUE_OK
				? durability
				: wr_queue_record_check(jobs[i]->put.request, redis->backend.seals);
	}
	return true;
}

/* Returns true if the call must be repeated on a new connection after this error reply. For
 * example, the script is missing after SCRIPT FLUSH, and a new connection loads the script
 * again. */
static bool needs_reconnect(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR &&
	       wr_queue_redis_error_reason(reply) == WR_QUEUE_AWAY;
}

/* Sends as many of these jobs as fit into one pipeline and reads their replies. Returns the number
 * of jobs that are done. If the connection was lost, the caller repeats the other jobs. */
static size_t run_pipeline(struct wr_queue_redis *redis, struct wr_queue_job **jobs, size_t count)
{
	struct wr_queue_redis_link *link = &redis->link;
	size_t sent = 0, done = 0;

	for (; sent < count && wr_commands_len(&link->out) < PIPELINE_BYTES; sent++) {
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
		if (needs_reconnect(reply)) {
			freeReplyObject(reply);
			wr_queue_redis_disconnect(link);
			return done;
		}
		jobs[done]->unsure--;
		wr_queue_redis_read_answer(redis, jobs[done], reply);
		freeReplyObject(reply);
	}
	redis->commits++;
	return done;
}

/* Does a batch of jobs. If the connection is lost, reconnects once and repeats the jobs that got no
 * reply. */
static void run_jobs(struct wr_queue_backend *backend, struct wr_queue_job **jobs, size_t count,
		     struct wr_queue_moment now)
{
	struct wr_queue_redis *redis = (struct wr_queue_redis *)backend;
	struct wr_queue_redis_link *link = &redis->link;
	struct weir_error why = {.text = NO_REPLY};
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
			done += run_pipeline(redis, jobs + done, count - done);
	}
	/* If an earlier call of a put got no reply, Redis may have stored the request in that call,
	 * or may store it later. So a later refusal of this put is not final, and the put fails
	 * with WR_QUEUE_AWAY instead of the reason of the refusal. */
	for (size_t i = 0; i < count; i++)
		if (jobs[i]->verb == WR_QUEUE_PUT && jobs[i]->unsure &&
		    jobs[i]->reason != WR_QUEUE_OK)
			jobs[i]->reason = WR_QUEUE_AWAY;
	if (done == count)
		return;
	for (; done < count; done++)
		if (jobs[done]->reason == WR_QUEUE_OK)
			jobs[done]->reason = WR_QUEUE_AWAY;
	wr_queue_backend_fail(backend, WR_QUEUE_AWAY, "%s", why.text);
}

/* Calls the script for work that is not a job, with numbers as arguments. Returns the reply. On
 * failure calls wr_queue_backend_fail() and returns NULL. */
static redisReply *call_script(struct wr_queue_redis *redis, const char *verb,
			       const int64_t *numbers, size_t count)
{
	struct wr_commands *out = &redis->link.out;
	redisReply *reply;

	wr_queue_redis_begin_call(redis, verb, count);
	for (size_t i = 0; i < count; i++)
		wr_command_number(out, numbers[i]);
	reply = wr_command_end(out) && wr_queue_redis_send(&redis->link)
			? wr_queue_redis_read_reply(&redis->link)
			: NULL;
	if (!reply || needs_reconnect(reply)) {
		wr_queue_backend_fail(&redis->backend, WR_QUEUE_AWAY, "%s",
				      reply ? reply->str : NO_REPLY);
		if (reply)
			freeReplyObject(reply);
		return NULL;
	}
	return reply;
}

/* Polls: calls opts->waiting for each line that changed since the previous poll. Redis numbers all
 * changes of lines, and redis->changes is the highest number that the previous poll returned. If
 * redis->changes is below 0, the poll returns all lines that have waiting requests. Afterwards
 * redis->changes is the number that this poll returned. If this number is lower than before, Redis
 * has lost data, and redis->changes becomes -1. Returns false if the call of the script failed. */
static bool poll_once(struct wr_queue_redis *redis)
{
	redisReply *reply = call_script(redis, "poll", &redis->changes, 1);

	if (!reply)
		return false;
	if (reply->type == REDIS_REPLY_ARRAY) {
		int64_t last = wr_queue_redis_number(reply, 1);

		wr_queue_redis_report_lines(redis, reply, 2);
		redis->changes = last < redis->changes ? -1 : last;
	}
	freeReplyObject(reply);
	return true;
}

/* Like poll_once(). But if the poll shows that Redis has lost data, polls a second time, which
 * reports all lines. */
static bool poll_changes(struct wr_queue_redis *redis)
{
	bool known = redis->changes >= 0;

	return poll_once(redis) && (!known || redis->changes >= 0 || poll_once(redis));
}

static void run_tick(struct wr_queue_backend *backend, struct wr_queue_moment now)
{
	struct wr_queue_redis *redis = (struct wr_queue_redis *)backend;
	const struct wr_queue_opts *opts = backend->opts;
	const int64_t bounds[] = {(int64_t)opts->max_tickets, TIDY_MAX, (int64_t)opts->max_dead,
				  (int64_t)opts->max_dead_bytes};
	redisReply *reply;

	redis->now = now;
	if (!poll_changes(redis) || now.mono_us - redis->tidied_us < TIDY_US)
		return;
	redis->tidied_us = now.mono_us;
	if (wr_queue_redis_check_durability(redis, true) == WR_QUEUE_AWAY)
		return; /* the next call of the script handles the lost connection */
	reply = call_script(redis, "tidy", bounds, sizeof bounds / sizeof *bounds);
	if (!reply)
		return;
	if (reply->type == REDIS_REPLY_ARRAY && wr_queue_redis_number(reply, 2) > 0)
		wr_queue_backend_count_trimmed(backend, (uint64_t)wr_queue_redis_number(reply, 2),
					       now.mono_us);
	freeReplyObject(reply);
}

static enum wr_queue_reason open_backend(struct wr_queue_backend *backend,
					 struct wr_queue_moment now, struct weir_error *error)
{
	struct wr_queue_redis *redis = (struct wr_queue_redis *)backend;

	redis->now = now;
	if (!wr_queue_redis_connect(&redis->link, &redis->target, error))
		return WR_QUEUE_AWAY;
	/* redis->changes keeps its value when the backend is reopened. So the poll below also
	 * reports lines that became empty while the backend was closed. */
	redis->whole_file = false;
	if (!poll_changes(redis)) {
		*error = backend->why;
		backend->failed = WR_QUEUE_OK;
		wr_queue_redis_disconnect(&redis->link);
		return WR_QUEUE_AWAY;
	}
	/* Wrong settings are logged when the queue is opened, not only at the first put. */
	wr_queue_redis_check_durability(redis, true);
	return WR_QUEUE_OK;
}

static void close_backend(struct wr_queue_backend *backend)
{
	wr_queue_redis_disconnect(&((struct wr_queue_redis *)backend)->link);
}

static void free_backend(struct wr_queue_backend *backend)
{
	struct wr_queue_redis *redis = (struct wr_queue_redis *)backend;

	wr_queue_redis_link_free(&redis->link);
	wr_queue_owner_close(&redis->owner);
	OPENSSL_cleanse(&redis->target, sizeof redis->target);
	free(redis);
}

static const struct wr_queue_backend_ops ops = {open_backend, run_jobs, run_tick, close_backend,
						free_backend};

static int read_password(struct wr_redis_target *target, const char *path, struct weir_error *error)
{
	char text[WR_REDIS_PASSWORD_MAX + 8];
	struct weir_error why;
	size_t len;
	int rc = wr_secret_file_read(path, WR_SECRET_SHARED, text, sizeof text, &len, &why);

	if (rc < 0)
		return wr_error(error, WEIR_EINVAL, "--queue-password-file %s", why.text);
	rc = wr_redis_target_password(target, (struct weir_str){text, len}, error);
	OPENSSL_cleanse(text, sizeof text);
	return rc;
}

int wr_queue_redis_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		       struct wr_queue_backend **made, struct weir_error *error)
{
	struct wr_queue_redis *redis = calloc(1, sizeof *redis);
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
