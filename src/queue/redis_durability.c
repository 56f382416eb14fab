/* Checks that Redis does not lose stored requests even when it is killed. Called by redis_backend.c
 * before each batch of puts, because settings can change at any time. */
#include <string.h>

#include "base/str.h"
#include "queue/redis_backend.h"

struct rule {
	const char *setting, *value;
	/* true: the setting must not begin with `value`; false: the setting must be equal to
	 * `value` */
	bool prefix;
	const char *remedy;
};

/* The settings that Redis must have. appendfsync must be `always`: with `everysec`, Redis can reply
 * up to 2 s before it writes if a sync is running, and a kill -9 in this time would lose accepted
 * requests. maxmemory-policy must not begin with `allkeys-`. All other policies are allowed: they
 * never evict the queue's keys, because these keys do not expire. */
static const struct rule rules[] = {
	{"appendonly", "yes", false, "CONFIG SET appendonly yes, and the same in its file"},
	{"appendfsync", "always", false, "CONFIG SET appendfsync always"},
	{"no-appendfsync-on-rewrite", "no", false, "CONFIG SET no-appendfsync-on-rewrite no"},
	{"maxmemory-policy", "allkeys-", true, "CONFIG SET maxmemory-policy noeviction"},
};

#define RULES (sizeof rules / sizeof *rules)

/* Each element of rules[] describes a setting and its allowed value. If the reply contains the
 * setting of rules[r], stores in good[r] whether its value is allowed. Otherwise leaves good[r]
 * unchanged. */
static void read_settings(const redisReply *reply, bool good[RULES])
{
	if (reply->type != REDIS_REPLY_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		for (size_t r = 0; r < RULES; r++)
			if (wr_str_equal(wr_queue_redis_text(reply, i), wr_str(rules[r].setting))) {
				struct weir_str value = wr_queue_redis_text(reply, i + 1);

				good[r] = rules[r].prefix
						  ? !wr_str_begins(value, wr_str(rules[r].value))
						  : wr_str_equal(value, wr_str(rules[r].value));
			}
}

static void log_not_durable(struct wr_queue_redis *redis, const char *what, const char *remedy)
{
	if (!redis->volatile_logged)
		wr_queue_backend_log(&redis->backend, WR_QUEUE_ERROR,
				     "the queue's Redis could lose deferred requests, so none is "
				     "accepted: %s; %s",
				     what, remedy);
	redis->volatile_logged = true;
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

/* Returns true if the append-only file is complete. If appendonly is switched on while Redis runs,
 * nothing is durable until the first rewrite of the file is done. INFO does not distinguish the
 * first rewrite from later rewrites, during which everything is durable. So the file counts as
 * complete after one INFO that shows no rewrite. The file counts as incomplete again when Redis
 * restarts or appendonly is switched off. */
static bool has_whole_file(struct wr_queue_redis *redis, struct weir_str info)
{
	struct weir_str run = run_id(info);

	if (run.len == 0 || run.len >= sizeof redis->run)
		return false;
	if (!wr_str_equal(run, wr_str(redis->run))) {
		/* This Redis process is new, so it is unknown whether its file is complete. */
		redis->whole_file = false;
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

static bool check_settings(struct wr_queue_redis *redis, const bool good[RULES])
{
	for (size_t r = 0; r < RULES; r++)
		if (!good[r]) {
			log_not_durable(redis, rules[r].setting, rules[r].remedy);
			redis->whole_file = false;
			return false;
		}
	return true;
}

static enum wr_queue_reason report_durable(struct wr_queue_redis *redis)
{
	if (redis->volatile_logged)
		wr_queue_backend_log(&redis->backend, WR_QUEUE_NOTICE,
				     "the queue's Redis stores deferred requests durably again");
	redis->volatile_logged = false;
	return WR_QUEUE_OK;
}

enum { POLICY, APPEND, INFO, QUESTIONS };

/* Judges a Redis that does not show all of its settings. Called only with --queue-assume-durable.
 * The settings that Redis does show must still be right, and INFO must not show a policy that
 * evicts keys. */
static enum wr_queue_reason assume_durable(struct wr_queue_redis *redis, const redisReply *refused,
					   const bool good[RULES], const redisReply *info)
{
	if (!check_settings(redis, good))
		return WR_QUEUE_NOT_PERSISTENT;
	if (info && info->type == REDIS_REPLY_STRING &&
	    has_line((struct weir_str){info->str, info->len}, "\r\nmaxmemory_policy:allkeys-")) {
		log_not_durable(redis, "INFO says maxmemory_policy:allkeys-…",
				"choose noeviction there");
		redis->whole_file = false; /* makes each later check ask for INFO */
		return WR_QUEUE_NOT_PERSISTENT;
	}
	if (!redis->trusted_logged)
		wr_queue_backend_log(
			&redis->backend, WR_QUEUE_WARN,
			"the queue's Redis does not show its settings (%s); "
			"--queue-assume-durable assumes that it loses nothing when it is killed: "
			"otherwise accepted requests (202) are lost",
			refused->str);
	redis->trusted_logged = true;
	redis->whole_file = true;
	return report_durable(redis);
}

/* Judges the replies to CONFIG GET for the eviction policy (replies[POLICY]), to CONFIG GET for the
 * append-only file (replies[APPEND]) and to INFO (replies[INFO]). If count is 2, INFO was not sent.
 * INFO is only needed to see whether the append-only file already contains all data. */
static enum wr_queue_reason read_replies(struct wr_queue_redis *redis, redisReply *const *replies,
					 size_t count)
{
	const redisReply *refused = NULL, *info = count > INFO ? replies[INFO] : NULL;
	bool good[RULES] = {false};

	for (size_t i = 0; i < count; i++) {
		if (!replies[i])
			return WR_QUEUE_AWAY;
		if (replies[i]->type != REDIS_REPLY_ERROR)
			continue;
		if (wr_queue_redis_error_reason(replies[i]) == WR_QUEUE_AWAY)
			return WR_QUEUE_AWAY;
		if (!refused)
			refused = replies[i];
	}
	if (refused && !redis->backend.opts->assume_durable) {
		log_not_durable(redis, refused->str,
				"allow these commands: ACL SETUSER … +config|get +info; if the "
				"service does "
				"not offer them, see --queue-assume-durable");
		return WR_QUEUE_NOT_PERSISTENT;
	}
	/* With --queue-assume-durable, the settings that Redis refused to show count as good.
	 * Without this option, the function has already returned if Redis refused to show
	 * settings. */
	for (size_t r = 0; r < RULES; r++)
		good[r] = replies[rules[r].prefix ? POLICY : APPEND]->type == REDIS_REPLY_ERROR;
	read_settings(replies[POLICY], good);
	read_settings(replies[APPEND], good);
	if (refused)
		return assume_durable(redis, refused, good, info);
	if (info && info->type != REDIS_REPLY_STRING)
		return WR_QUEUE_FAILED;
	if (!check_settings(redis, good))
		return WR_QUEUE_NOT_PERSISTENT;
	if (info && !has_whole_file(redis, (struct weir_str){info->str, info->len})) {
		log_not_durable(redis,
				"its append-only file is incomplete, or could not be rewritten",
				"see its INFO persistence");
		return WR_QUEUE_NOT_PERSISTENT;
	}
	return report_durable(redis);
}

static void write_question(struct wr_commands *out, size_t which)
{
	static const char *const questions[QUESTIONS][3] = {
		[POLICY] = {"CONFIG", "GET", "maxmemory-policy"},
		[APPEND] = {"CONFIG", "GET", "*append*"},
		/* INFO without a section name: two sections are needed, and Redis before 7 accepts
		 * only one section name. */
		[INFO] = {"INFO", NULL, NULL},
	};
	size_t words = questions[which][1] ? 3 : 1;

	wr_command_begin(out, words);
	for (size_t i = 0; i < words; i++)
		wr_command_text(out, questions[which][i]);
	wr_command_end(out);
}

enum wr_queue_reason wr_queue_redis_check_durability(struct wr_queue_redis *redis, bool thoroughly)
{
	struct wr_queue_redis_link *link = &redis->link;
	size_t count = thoroughly || link->fresh || !redis->whole_file ? QUESTIONS : INFO;
	redisReply *replies[QUESTIONS] = {NULL};
	enum wr_queue_reason reason;

	for (size_t i = 0; i < count; i++)
		write_question(&link->out, i);
	if (!wr_queue_redis_send(link))
		return WR_QUEUE_AWAY;
	for (size_t i = 0; i < count; i++)
		replies[i] = wr_queue_redis_read_reply(link);
	reason = read_replies(redis, replies, count);
	link->fresh = false;
	for (size_t i = 0; i < count; i++)
		if (replies[i])
			freeReplyObject(replies[i]);
	return reason;
}
