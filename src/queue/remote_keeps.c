/* Whether Redis keeps what it is told, also when it is killed: asked before every store, as it can
 * be set otherwise at any time. */
#include <string.h>

#include "base/str.h"
#include "queue/remote.h"

struct rule {
	const char *setting, *value;
	bool prefix; /* the value is what it must not begin with */
	const char *remedy;
};

/* With `everysec` Redis answers before it has written while a sync is under way (for up to 2 s), so
 * that kill -9 could lose what was promised. Evicted are keys of ours only by allkeys-…: they do
 * not expire. */
static const struct rule rules[] = {
	{"appendonly", "yes", false, "CONFIG SET appendonly yes"},
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

static void say(struct wr_remote *remote, const char *what, const char *remedy)
{
	if (!remote->volatile_said)
		wr_store_say(&remote->store, WR_QUEUE_ERROR,
			     "the queue's Redis would not keep deferred requests, so none is "
			     "accepted: %s; %s, and the same in its file",
			     what, remedy);
	remote->volatile_said = true;
}

static enum wr_queue_reason judge(struct wr_remote *remote, const bool good[RULES],
				  const redisReply *refusal)
{
	if (refusal) {
		say(remote, refusal->str,
		    "let this user run CONFIG GET: ACL SETUSER … +config|get");
		return WR_QUEUE_NOT_PERSISTENT;
	}
	for (size_t r = 0; r < RULES; r++)
		if (!good[r]) {
			say(remote, rules[r].setting, rules[r].remedy);
			return WR_QUEUE_NOT_PERSISTENT;
		}
	if (remote->volatile_said)
		wr_store_say(&remote->store, WR_QUEUE_NOTICE,
			     "the queue's Redis keeps deferred requests again");
	remote->volatile_said = false;
	return WR_QUEUE_OK;
}

enum wr_queue_reason wr_remote_keeps(struct wr_remote *remote)
{
	static const char *const patterns[] = {"*append*", "maxmemory-policy"};
	struct wr_remote_link *link = &remote->link;
	bool good[RULES] = {false};
	redisReply *replies[2] = {NULL, NULL}, *refusal = NULL;
	enum wr_queue_reason reason = WR_QUEUE_AWAY;

	for (size_t i = 0; i < 2; i++) {
		wr_command_begin(&link->out, 3);
		wr_command_text(&link->out, "CONFIG");
		wr_command_text(&link->out, "GET");
		wr_command_text(&link->out, patterns[i]);
		wr_command_end(&link->out);
	}
	if (!wr_remote_send(link))
		return reason;
	for (size_t i = 0; i < 2; i++) {
		replies[i] = wr_remote_reply(link);
		if (replies[i] && replies[i]->type == REDIS_REPLY_ERROR)
			refusal = replies[i];
		else if (replies[i])
			read_settings(replies[i], good);
	}
	if (replies[0] && replies[1])
		reason = refusal && wr_remote_fault(refusal) == WR_QUEUE_AWAY
				 ? WR_QUEUE_AWAY
				 : judge(remote, good, refusal);
	for (size_t i = 0; i < 2; i++)
		if (replies[i])
			freeReplyObject(replies[i]);
	return reason;
}
