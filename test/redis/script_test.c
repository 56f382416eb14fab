/* Implements script_test.h. */
#include "redis/script_test.h"

/* The parts of take.lua that concern time, and the text that replaces them. The clock is a key. A
 * second of the test is not a second of Redis, so keys must not expire; their expiry time is stored
 * in another key. */
static const char *const ours[][2] = {
	{"redis.call('TIME')", "{0, redis.call('GET', 'clock')}"},
	/* Rounded down to a multiple of 2, because -1 means that the key does not expire. */
	{"redis.call('PTTL', l.key)",
	 "2 * math.floor((redis.call('GET', l.key .. 'x') - redis.call('GET', 'clock') / 1000) / "
	 "2)"},
	{"redis.call('SET', l.key, head .. value, 'PX', ms)",
	 "redis.call('SET', l.key, head .. value)"
	 "redis.call('SET', l.key .. 'x', math.floor(now / 1000) + ms)"},
	{"redis.call('PEXPIRE', l.key, ms)", ""},
	{"redis.call('PEXPIRE', l.key, life_ms(l.period + us - now))",
	 "redis.call('SET', l.key .. 'x', math.floor(now / 1000) + life_ms(l.period + us - now))"},
	{"SET', l.key .. ':g', struct.pack('>I7I7', since, math.min(count, EXACT)), 'PX',\n"
	 "\t\tlife_ms(math.min(2 * full_after(l), SPAN_MAX_US) + SKEW_US))",
	 "SET', l.key .. ':g', struct.pack('>I7I7', since, math.min(count, EXACT)))"},
	/* The parts below occur only in the lease script. */
	{"redis.call('PEXPIRE', KEYS[2], life_ms(life))",
	 "redis.call('SET', KEYS[2] .. 'x', math.floor(now / 1000) + life_ms(life))"},
};

#define OURS_OF_TAKE 6

/* Replaces the only occurrence of `old`, and frees the text. The caller frees the result. */
static char *replaced(char *text, const char *old, const char *new)
{
	const char *at = strstr(text, old);
	size_t size = strlen(text) + strlen(new) + 1;
	char *out = malloc(size);

	assert_non_null(out);
	assert_non_null(at);
	assert_null(strstr(at + 1, old));
	snprintf(out, size, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
	free(text);
	return out;
}

static void load_script(struct script_test *test, const struct wr_script *script,
			size_t replacements, char sha1[41])
{
	char *text = strdup(script->text);
	redisReply *reply;

	for (size_t i = 0; i < replacements; i++)
		text = replaced(text, ours[i][0], ours[i][1]);
	reply = redis_ask(&test->server, "SCRIPT LOAD %s", text);
	snprintf(sha1, 41, "%s", reply->str);
	freeReplyObject(reply);
	free(text);
}

int script_setup(void **state)
{
	static struct script_test test;

	if (redis_server_start(&test.server) < 0)
		return -1;
	load_script(&test, &wr_redis_script_take, OURS_OF_TAKE, test.sha1);
	*state = &test;
	return 0;
}

int script_lease_setup(void **state)
{
	struct script_test *test;

	if (script_setup(state) < 0)
		return -1;
	test = *state;
	load_script(test, &wr_redis_script_lease, sizeof ours / sizeof *ours, test->lease);
	return 0;
}

int script_teardown(void **state)
{
	struct script_test *test = *state; /* NULL if the setup failed */

	if (test)
		redis_server_stop(&test->server);
	return 0;
}

struct wr_take take_of(const struct weir_limit *l, int64_t cost)
{
	return (struct wr_take){.algorithm = (uint8_t)l->algorithm,
				.flags = (uint16_t)l->flags,
				.limit = l->limit,
				.burst = l->burst,
				.queue_size = l->queue_size,
				.soft_ceiling = l->soft_ceiling,
				.max_debt = l->max_debt,
				.cost = cost,
				.period_us = l->period_ns / US,
				.max_wait_us = l->max_wait_ns / US,
				.soft_for_us = l->soft_for_ns / US,
				.window_start_us = l->window_start_ns / US,
				.window_end_us = l->window_end_ns / US};
}

static void put_clock(struct wr_commands *out, uint64_t now_us)
{
	wr_command_begin(out, 3);
	wr_command_text(out, "SET");
	wr_command_text(out, "clock");
	wr_command_number(out, (int64_t)now_us);
	assert_true(wr_command_end(out));
}

static void put_keys(struct wr_commands *out, const char *key, size_t count, bool report,
		     bool claim)
{
	char name[64];

	wr_command_number(out, (int64_t)(count + report));
	for (size_t i = 0; i < count; i++) {
		snprintf(name, sizeof name, "%s%zu", key, i - claim);
		if (claim && i == 0)
			snprintf(name, sizeof name, "%sm", key);
		wr_command_text(out, name);
	}
	if (!report)
		return;
	snprintf(name, sizeof name, "%sr", key);
	wr_command_text(out, name);
}

void script_send(struct script_test *test, const char *key, const struct wr_take *takes,
		 size_t count, uint64_t report_seq, uint64_t now_us)
{
	bool report = takes[0].mode == WR_MODE_REPORT;
	struct weir_error error = {0};
	struct wr_commands out;

	for (size_t i = 0; i < count; i++)
		if (wr_take_check(&takes[i], &error))
			fail_msg("%s", error.text);
	wr_commands_init(&out, 65536);
	put_clock(&out, now_us);
	wr_command_begin(&out, 3 + count + report + wr_script_argc(takes, count));
	wr_command_text(&out, "EVALSHA");
	wr_command_text(&out, test->sha1);
	put_keys(&out, key, count, report, takes[0].mode == WR_MODE_CLAIM);
	wr_script_args(takes, count, report_seq, &out);
	assert_true(wr_command_end(&out));
	redisAppendFormattedCommand(test->server.link, (const char *)out.bytes + out.start,
				    wr_commands_len(&out));
	wr_commands_free(&out);
}

static redisReply *next_reply(struct script_test *test)
{
	void *reply = NULL;

	if (redisGetReply(test->server.link, &reply) != REDIS_OK)
		fail_msg("redis-server hung up: %s", test->server.link->errstr);
	return reply;
}

void script_read_reply(struct script_test *test, const struct wr_take *takes, size_t count,
		       struct wr_taken *taken)
{
	redisReply *reply;

	freeReplyObject(next_reply(test));
	reply = next_reply(test);
	if (wr_script_reply(reply, takes, count, taken))
		fail_msg("not an answer: %s", reply->str ? reply->str : "not even an error");
	freeReplyObject(reply);
}

struct wr_taken script_take(struct script_test *test, const char *key, struct wr_take take,
			    uint64_t now_us)
{
	struct wr_taken taken;

	script_send(test, key, &take, 1, 0, now_us);
	script_read_reply(test, &take, 1, &taken);
	return taken;
}

static void put_lease(struct script_test *test, const char *key,
		      const struct wr_redis_lease_call *call, uint64_t report_seq,
		      struct wr_commands *out)
{
	bool report = call->take.mode == WR_MODE_REPORT;
	char name[64];

	wr_command_begin(out, 5 + report + wr_script_lease_argc(call));
	wr_command_text(out, "EVALSHA");
	wr_command_text(out, test->lease);
	wr_command_number(out, 2 + report);
	wr_command_text(out, key);
	snprintf(name, sizeof name, "%sl", key);
	wr_command_text(out, name);
	if (report) {
		snprintf(name, sizeof name, "%sr", key);
		wr_command_text(out, name);
	}
	wr_script_lease_args(call, report_seq, out);
	assert_true(wr_command_end(out));
}

/* Deletes the record if its expiry time has passed. */
static void expire(struct script_test *test, const char *key, uint64_t now_us)
{
	redisReply *at = redis_ask(&test->server, "GET %slx", key);

	if (at->type == REDIS_REPLY_STRING && strtoull(at->str, NULL, 10) <= now_us / 1000)
		redis_run(&test->server, "DEL %sl %slx", key, key);
	freeReplyObject(at);
}

struct wr_leased script_lease(struct script_test *test, const char *key,
			      const struct wr_redis_lease_call *call, uint64_t now_us)
{
	struct weir_error error = {0};
	struct wr_leased leased;
	struct wr_commands out;
	redisReply *reply;

	if (wr_take_check(&call->take, &error))
		fail_msg("%s", error.text);
	expire(test, key, now_us);
	wr_commands_init(&out, 65536);
	put_clock(&out, now_us);
	put_lease(test, key, call, 1, &out);
	redisAppendFormattedCommand(test->server.link, (const char *)out.bytes + out.start,
				    wr_commands_len(&out));
	wr_commands_free(&out);
	freeReplyObject(next_reply(test));
	reply = next_reply(test);
	if (wr_script_lease_reply(reply, call, &leased))
		fail_msg("not an answer: %s", reply->str ? reply->str : "not even an error");
	freeReplyObject(reply);
	return leased;
}
