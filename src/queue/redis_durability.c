/* Whether Redis keeps what it is told, also when it is killed: asked before every store, as it can
 * be set otherwise at any time. */
#include <string.h>

#include "base/str.h"
#include "queue/redis_backend.h"

struct rule {
	const char *setting, *value;
	bool prefix; /* the value is what it must not begin with */
	const char *remedy;
};

/* With `everysec` Redis answers before it has written while a sync is under way (for up to 2 s), so
 * that kill -9 could lose what was promised. Evicted are keys of ours only by allkeys-…: they do
 * not expire. */
static const struct rule rules[] = {
	{"appendonly", "yes", false, "CONFIG SET appendonly yes, and the same in its file"},
	{"appendfsync", "always", false, "CONFIG SET appendfsync always"},
	{"no-appendfsync-on-rewrite", "no", false, "CONFIG SET no-appendfsync-on-rewrite no"},
	{"maxmemory-policy", "allkeys-", true, "CONFIG SET maxmemory-policy noeviction"},
};

#define RULES (sizeof rules / sizeof *rules)

static bool holds(const struct rule *rule, struct weir_str value)
{
	if (rule->prefix)
		return !wr_str_begins(value, wr_str(rule->value));
	return wr_str_equal(value, wr_str(rule->value));
}

/* Notes which settings of an answer are as they have to be. */
static void read_settings(const redisReply *reply, bool good[RULES])
{
	if (reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		for (size_t r = 0; r < RULES; r++)
			if (wr_str_equal(wr_remote_text(reply, i), wr_str(rules[r].setting)))
				good[r] = holds(&rules[r], wr_remote_text(reply, i + 1));
}

static void say(struct wr_remote *redis, const char *what, const char *remedy)
{
	if (!redis->volatile_said)
		wr_queue_backend_log(
			&redis->backend, WR_QUEUE_ERROR,
			"the queue's Redis would not keep deferred requests, so none is "
			"accepted: %s; %s",
			what, remedy);
	redis->volatile_said = true;
}

static bool has_line(struct weir_str info, const char *line)
{
	return info.len && memmem(info.ptr, info.len, line, strlen(line)) != NULL;
}

static struct weir_str run_id(struct weir_str info)
{
	static const char name[] = "\r\nrun_id:";
	const char *at = info.len ? memmem(info.ptr, info.len, name, sizeof name - 1) : NULL;
	struct weir_str rest;

	if (!at)
		return WR_STR("");
	at += sizeof name - 1;
	rest = (struct weir_str){at, info.len - (size_t)(at - info.ptr)};
	return wr_str_first(rest, wr_str_find(rest, '\r'));
}

/* When appendonly is switched on while Redis runs, nothing is kept until a first rewrite is done;
 * no field tells that from any later rewrite, during which all is well. So no rewrite must be under
 * way once, and from then on only appendonly itself can end it. It is looked at every second. */
static bool has_whole_file(struct wr_remote *redis, struct weir_str info)
{
	struct weir_str run = run_id(info);

	if (run.len == 0 || run.len >= sizeof redis->run)
		return false;
	if (!wr_str_equal(run, wr_str(redis->run))) {
		redis->whole_file = false; /* another process */
		memcpy(redis->run, run.ptr, run.len);
		redis->run[run.len] = 0;
	}
	if (has_line(info, "aof_enabled:1\r\n") &&
	    has_line(info, "aof_rewrite_in_progress:0\r\n") &&
	    has_line(info, "aof_rewrite_scheduled:0\r\n") &&
	    has_line(info, "aof_last_bgrewrite_status:ok\r\n"))
		redis->whole_file = true;
	return redis->whole_file;
}

static bool judge_settings(struct wr_remote *redis, const bool good[RULES])
{
	for (size_t r = 0; r < RULES; r++)
		if (!good[r]) {
			say(redis, rules[r].setting, rules[r].remedy);
			redis->whole_file = false;
			return false;
		}
	return true;
}

static enum wr_queue_reason approve(struct wr_remote *redis)
{
	if (redis->volatile_said)
		wr_queue_backend_log(&redis->backend, WR_QUEUE_NOTICE,
				     "the queue's Redis keeps deferred requests again");
	redis->volatile_said = false;
	return WR_QUEUE_OK;
}

static enum wr_queue_reason judge(struct wr_remote *redis, const bool good[RULES],
				  const redisReply *info)
{
	if (!judge_settings(redis, good))
		return WR_QUEUE_NOT_PERSISTENT;
	if (info && !has_whole_file(redis, (struct weir_str){info->str, info->len})) {
		say(redis, "its append-only file is not whole yet, or could not be rewritten",
		    "see INFO persistence there");
		return WR_QUEUE_NOT_PERSISTENT;
	}
	return approve(redis);
}

enum { POLICY, APPEND, INFO, ANSWERS };

/* A service that does not let itself be asked for its settings, and the operator says that it loses
 * nothing. What it says of itself otherwise is believed: it may evict keys all the same. */
static enum wr_queue_reason trust(struct wr_remote *redis, const redisReply *refused,
				  const bool good[RULES], const redisReply *info)
{
	if (!judge_settings(redis, good))
		return WR_QUEUE_NOT_PERSISTENT;
	if (info && info->type == REDIS_REPLY_STRING &&
	    has_line((struct weir_str){info->str, info->len}, "\r\nmaxmemory_policy:allkeys-")) {
		say(redis, "INFO says maxmemory_policy:allkeys-…", "choose noeviction there");
		redis->whole_file = false; /* INFO is asked each time until it says otherwise */
		return WR_QUEUE_NOT_PERSISTENT;
	}
	if (!redis->trusted_said)
		wr_queue_backend_log(
			&redis->backend, WR_QUEUE_WARN,
			"the queue's Redis does not tell its settings (%s); by "
			"--queue-assume-durable it is taken to keep what it has answered, "
			"also when it is killed: if it does not, requests with a 202 are lost",
			refused->str);
	redis->trusted_said = true;
	redis->whole_file = true;
	return approve(redis);
}

/* With two answers, what INFO would say is known. */
static enum wr_queue_reason read_answers(struct wr_remote *redis, redisReply *const *answers,
					 size_t count)
{
	const redisReply *refused = NULL;
	bool good[RULES] = {false};

	for (size_t i = 0; i < count; i++) {
		if (!answers[i])
			return WR_QUEUE_AWAY;
		if (answers[i]->type != REDIS_REPLY_ERROR)
			continue;
		if (wr_queue_redis_error_reason(answers[i]) == WR_QUEUE_AWAY)
			return WR_QUEUE_AWAY;
		if (!refused)
			refused = answers[i];
	}
	if (refused && !redis->backend.opts->assume_durable) {
		say(redis, refused->str,
		    "let this user ask: ACL SETUSER … +config|get +info; or, if it is a service "
		    "that nobody may ask, see --queue-assume-durable");
		return WR_QUEUE_NOT_PERSISTENT;
	}
	for (size_t r = 0; r < RULES; r++) /* only with --queue-assume-durable */
		good[r] = answers[rules[r].prefix ? POLICY : APPEND]->type == REDIS_REPLY_ERROR;
	read_settings(answers[POLICY], good);
	read_settings(answers[APPEND], good);
	if (refused)
		return trust(redis, refused, good, count > INFO ? answers[INFO] : NULL);
	if (count > INFO && answers[INFO]->type != REDIS_REPLY_STRING)
		return WR_QUEUE_FAILED;
	return judge(redis, good, count > INFO ? answers[INFO] : NULL);
}

static void ask(struct wr_commands *out, size_t which)
{
	static const char *const questions[ANSWERS][3] = {
		[POLICY] = {"CONFIG", "GET", "maxmemory-policy"},
		[APPEND] = {"CONFIG", "GET", "*append*"},
		[INFO] = {"INFO", NULL, NULL}, /* servers before 7 know one section, or all */
	};
	size_t words = questions[which][1] ? 3 : 1;

	wr_command_begin(out, words);
	for (size_t i = 0; i < words; i++)
		wr_command_text(out, questions[which][i]);
	wr_command_end(out);
}

enum wr_queue_reason wr_queue_redis_check_durability(struct wr_remote *redis, bool thoroughly)
{
	struct wr_queue_redis_link *link = &redis->link;
	size_t count = thoroughly || link->fresh || !redis->whole_file ? ANSWERS : INFO;
	redisReply *answers[ANSWERS] = {NULL};
	enum wr_queue_reason reason;

	for (size_t i = 0; i < count; i++)
		ask(&link->out, i);
	if (!wr_queue_redis_send(link))
		return WR_QUEUE_AWAY;
	for (size_t i = 0; i < count; i++)
		answers[i] = wr_queue_redis_read_reply(link);
	reason = read_answers(redis, answers, count);
	link->fresh = false;
	for (size_t i = 0; i < count; i++)
		if (answers[i])
			freeReplyObject(answers[i]);
	return reason;
}
