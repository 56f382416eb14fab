/* Implements rig.h: a host in memory and servers that answer handshakes, heartbeats and INFO. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "rules/rules.h"

#define SEED 88172645463325252ull
#define TURNS_MAX 4096

static const char modest_info[] = "# Server\r\nredis_version:7.0.15\r\n# Memory\r\nmaxmemory:0\r\n"
				  "maxmemory_policy:noeviction\r\naof_enabled:0\r\n";

/* ---- the host ---- */

static struct trouble none;

static const struct trouble *trouble_of(const struct rig *rig, uint16_t port)
{
	for (int i = 0; i < rig->trouble_count; i++)
		if (rig->troubles[i].port == port)
			return &rig->troubles[i];
	return &none;
}

struct trouble *rig_trouble(struct rig *rig, uint16_t port)
{
	for (int i = 0; i < rig->trouble_count; i++)
		if (rig->troubles[i].port == port)
			return &rig->troubles[i];
	assert_true(rig->trouble_count < PORTS_MAX);
	rig->troubles[rig->trouble_count].port = port;
	return &rig->troubles[rig->trouble_count++];
}

static void host_open(void *context, struct wr_central_link *link)
{
	struct rig *rig = context;
	struct peer *peer = &rig->peers[rig->peer_count++];

	assert_true(rig->peer_count < PEERS_MAX);
	*peer = (struct peer){.rig = rig, .link = link, .port = link->at.port};
	peer->commands = calloc(COMMANDS_MAX, sizeof *peer->commands);
	link->data = peer;
	if (trouble_of(rig, peer->port)->refuses) {
		peer->link = NULL;
		wr_central_link_down(link, "Connection refused", rig->now_ns, rig->mono_ns);
	}
}

static void host_close(void *context, struct wr_central_link *link)
{
	struct peer *peer = link->data;

	(void)context;
	assert_ptr_equal(peer->link, link);
	peer->link = NULL;
}

static void host_dirty(void *context, struct wr_central_link *link)
{
	struct rig *rig = context;

	rig->dirty[rig->dirty_count++] = link->data;
}

static void host_wake_at(void *context, uint64_t mono_ns)
{
	struct rig *rig = context;

	rig->wake_ns = mono_ns;
	rig->waking = true;
}

static void host_log(void *context, enum wr_central_log_level level, const char *text)
{
	struct rig *rig = context;
	size_t len = strlen(rig->logged);

	snprintf(rig->logged + len, sizeof rig->logged - len, "%d %s\n", (int)level, text);
}

static void host_secret(void *context, const uint8_t secret[WR_CENTRAL_SECRET])
{
	struct rig *rig = context;

	rig->secrets++;
	memcpy(rig->secret, secret, sizeof rig->secret);
}

static void host_nodes(void *context, uint32_t nodes)
{
	((struct rig *)context)->nodes_told = nodes;
}

static bool host_message(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	struct rig *rig = context;
	size_t at = strlen(rig->messages);

	snprintf(rig->messages + at, sizeof rig->messages - at, "%s%.*s;", own ? "own " : "",
		 (int)len, (const char *)bytes);
	rig->message_age_ns = age_ns;
	wr_central_forget(rig->central, NULL);
	return len == 4 && memcmp(bytes, "long", len) == 0;
}

static const struct wr_central_host host = {host_open, host_close,  host_dirty, host_wake_at,
					    host_log,  host_secret, host_nodes, host_message};

struct rig *rig_begin(const char *url)
{
	struct rig *rig = calloc(1, sizeof *rig);
	struct weir_error error;

	rig->now_ns = NOW_NS;
	rig->mono_ns = 1000 * MS;
	rig->nodes = 1;
	rig->info = modest_info;
	if (wr_redis_target_parse(wr_str(url), &rig->target, &error) < 0)
		fail_msg("%s", error.text);
	return rig;
}

void rig_start(struct rig *rig, const struct wr_central_opts *given)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = {1};
	struct wr_central_opts opts = {.holder = {0xa, 0xb}, .secret = secret};
	struct weir_error error;

	if (given)
		opts = *given;
	if (!opts.timeout_ns)
		opts.timeout_ns = 20 * MS;
	opts.target = &rig->target;
	opts.seed = SEED;
	if (wr_central_new(&opts, &host, rig, rig->now_ns, rig->mono_ns, &rig->central, &error) < 0)
		fail_msg("%s", error.text);
	run_turn(rig);
	pass_time(rig, 0);
}

struct rig *rig_new(const char *url, const struct wr_central_opts *opts)
{
	struct rig *rig = rig_begin(url);

	rig_start(rig, opts);
	return rig;
}

void rig_free(struct rig *rig)
{
	wr_central_free(rig->central);
	for (int i = 0; i < rig->peer_count; i++) {
		assert_null(rig->peers[i].link);
		free(rig->peers[i].commands);
	}
	free(rig);
}

/* ---- servers ---- */

void reply(struct peer *peer, const char *bytes)
{
	assert_true(peer->waiting > 0);
	assert_non_null(peer->link);
	memmove(peer->commands, peer->commands + 1, (size_t)--peer->waiting * COMMAND_BYTES);
	if (peer->taken)
		peer->taken--;
	wr_central_link_input(peer->link, (const uint8_t *)bytes, strlen(bytes), peer->rig->now_ns,
			      peer->rig->mono_ns);
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static const char *bulk_reply(const char *text)
{
	static char bytes[8192];

	snprintf(bytes, sizeof bytes, "$%zu\r\n%s\r\n", strlen(text), text);
	return bytes;
}

static const char *time_reply(const struct rig *rig)
{
	static char bytes[96];
	char s[24], us[24];

	snprintf(s, sizeof s, "%llu", (unsigned long long)(rig->now_ns / 1000000000));
	snprintf(us, sizeof us, "%llu", (unsigned long long)(rig->now_ns / 1000 % 1000000));
	snprintf(bytes, sizeof bytes, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(s), s,
		 strlen(us), us);
	return bytes;
}

static const char *set_secret(struct rig *rig, const char *command)
{
	const char *hex = strrchr(command, ' ') - 384;

	if (rig->secret_hex[0])
		return "$-1\r\n";
	snprintf(rig->secret_hex, sizeof rig->secret_hex, "%.384s", hex);
	return "+OK\r\n";
}

static const char *sentinel_reply(uint16_t master, const char *command)
{
	static char bytes[96];
	char port[8];

	if (begins(command, "SENTINEL sentinels"))
		return "*1\r\n*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$5\r\n26388\r\n";
	if (!master)
		return "*-1\r\n";
	snprintf(port, sizeof port, "%u", master);
	snprintf(bytes, sizeof bytes, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port),
		 port);
	return bytes;
}

/* Returns the reply that the server sends by itself, or NULL if the test must reply. */
static const char *answer_of(struct peer *peer, const char *command)
{
	struct rig *rig = peer->rig;
	const struct trouble *trouble = trouble_of(rig, peer->port);
	static char number[32];

	if (trouble->mute)
		return NULL;
	if (begins(command, "PING"))
		return trouble->ping ? trouble->ping : "+PONG\r\n";
	if (begins(command, "AUTH"))
		return trouble->auth ? trouble->auth : "+OK\r\n";
	if (begins(command, "ROLE"))
		return trouble->role ? trouble->role : "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
	if (begins(command, "SELECT") || begins(command, "CLIENT") || begins(command, "ASKING"))
		return "+OK\r\n";
	if (begins(command, "TIME"))
		return time_reply(rig);
	if (begins(command, "INFO"))
		return bulk_reply(rig->info);
	if (begins(command, "CLUSTER SLOTS"))
		return rig->slots;
	if (begins(command, "SENTINEL"))
		return sentinel_reply(trouble->names ? trouble->names : rig->master, command);
	if (begins(command, "GET"))
		return rig->secret_hex[0] ? bulk_reply(rig->secret_hex) : "$-1\r\n";
	if (begins(command, "SET"))
		return set_secret(rig, command);
	if (begins(command, "XREAD")) {
		const char *stream = rig->stream ? rig->stream : "*-1\r\n";

		snprintf(rig->last_xread, sizeof rig->last_xread, "%s", command);
		rig->stream = NULL;
		return stream;
	}
	if (begins(command, "XADD")) {
		rig->added++;
		snprintf(rig->added_text, sizeof rig->added_text, "%s", command);
		return "$3\r\n1-1\r\n";
	}
	if (strstr(command, wr_redis_script_nodes.sha1)) {
		snprintf(number, sizeof number, ":%d\r\n", rig->nodes);
		return number;
	}
	return NULL;
}

static void answer_by_itself(struct peer *peer)
{
	while (peer->link && peer->waiting) {
		const char *bytes = answer_of(peer, peer->commands[0]);

		if (!bytes)
			return;
		reply(peer, bytes);
	}
}

/* ---- bytes ---- */

static const uint8_t *read_number(const uint8_t *at, const uint8_t *end, uint8_t mark, long *number)
{
	assert_true(at < end && *at == mark);
	*number = 0;
	for (at++; at < end && *at >= '0' && *at <= '9'; at++)
		*number = *number * 10 + (*at - '0');
	assert_true(end - at >= 2);
	assert_memory_equal(at, "\r\n", 2);
	return at + 2;
}

/* Reads a command as "EVALSHA … 1 key …": the arguments are separated by blanks, and the text of a
 * script is cut. */
static const uint8_t *read_command(struct peer *peer, const uint8_t *at, const uint8_t *end)
{
	char *text = peer->commands[peer->waiting];
	size_t len = 0;
	long args, bytes;

	assert_true(peer->waiting < COMMANDS_MAX);
	at = read_number(at, end, '*', &args);
	for (long i = 0; i < args; i++) {
		at = read_number(at, end, '$', &bytes);
		assert_true(at + bytes + 2 <= end);
		len += (size_t)snprintf(text + len, COMMAND_BYTES - len, "%s%.*s", i ? " " : "",
					(int)(bytes > 400 ? 6 : bytes), (const char *)at);
		assert_true(len < COMMAND_BYTES);
		at += bytes;
		assert_memory_equal(at, "\r\n", 2);
		at += 2;
	}
	peer->waiting++;
	return at;
}

static void fetch_output(struct peer *peer)
{
	const uint8_t *bytes, *at;
	size_t len;

	while (peer->link && wr_central_link_output(peer->link, &bytes, &len)) {
		peer->rig->writes++;
		peer->rig->bytes += len;
		for (at = bytes; at < bytes + len;)
			at = read_command(peer, at, bytes + len);
		wr_central_link_sent(peer->link, len);
	}
}

static bool connect_all(struct rig *rig)
{
	bool any = false;

	for (int i = 0; i < rig->peer_count; i++) {
		struct peer *peer = &rig->peers[i];

		if (!peer->link || peer->up || trouble_of(rig, peer->port)->silent)
			continue;
		peer->up = any = true;
		wr_central_link_up(peer->link, rig->now_ns, rig->mono_ns);
	}
	return any;
}

void run_turn(struct rig *rig)
{
	int turns = 0;

	while (connect_all(rig) || rig->dirty_count) {
		struct peer *dirty[PEERS_MAX];
		int count = rig->dirty_count;

		assert_true(turns++ < TURNS_MAX);
		memcpy(dirty, rig->dirty, sizeof dirty);
		rig->dirty_count = 0;
		for (int i = 0; i < count; i++)
			fetch_output(dirty[i]);
		for (int i = 0; i < rig->peer_count; i++)
			answer_by_itself(&rig->peers[i]);
	}
}

void pass_time(struct rig *rig, uint64_t ns)
{
	uint64_t end = rig->mono_ns + ns;
	int ticks = 0;

	run_turn(rig);
	while (rig->waking && rig->wake_ns <= end) {
		uint64_t at = rig->wake_ns > rig->mono_ns ? rig->wake_ns : rig->mono_ns;

		assert_true(ticks++ < 100000);
		rig->now_ns += at - rig->mono_ns;
		rig->mono_ns = at;
		rig->waking = false;
		wr_central_tick(rig->central, rig->now_ns, rig->mono_ns);
		run_turn(rig);
	}
	rig->now_ns += end - rig->mono_ns;
	rig->mono_ns = end;
}

struct peer *peer_at(struct rig *rig, uint16_t port)
{
	for (int i = rig->peer_count; i > 0; i--)
		if (rig->peers[i - 1].link && rig->peers[i - 1].port == port)
			return &rig->peers[i - 1];
	return NULL;
}

const char *next_command(struct peer *peer)
{
	run_turn(peer->rig);
	if (!peer->link)
		return NULL;
	answer_by_itself(peer);
	return peer->taken < peer->waiting ? peer->commands[peer->taken++] : NULL;
}

void cut_peer(struct peer *peer, const char *why)
{
	struct wr_central_link *link = peer->link;

	peer->link = NULL;
	wr_central_link_down(link, why, peer->rig->now_ns, peer->rig->mono_ns);
}

const char *taken_all(int n, const int64_t (*values)[5])
{
	static char bytes[4096];
	size_t len = (size_t)snprintf(bytes, sizeof bytes, "*%d\r\n:%llu\r\n", 1 + 5 * n,
				      (unsigned long long)NOW_US);

	for (int i = 0; i < n; i++)
		for (int j = 0; j < 5; j++)
			len += (size_t)snprintf(bytes + len, sizeof bytes - len, ":%lld\r\n",
						(long long)values[i][j]);
	return bytes;
}

const char *taken(bool admitted, int remaining, int64_t retry_us, int times)
{
	int verdict = (admitted ? V_ADMITTED | V_TAKEN : 0) + V_TIMES * times;
	int64_t values[1][5] = {{verdict, remaining, retry_us, 60000000, 0}};

	return taken_all(1, values);
}

const struct wr_central_info *info(struct rig *rig)
{
	wr_central_info(rig->central, &rig->info_now);
	return &rig->info_now;
}

uint64_t faults(struct rig *rig, enum wr_fault fault)
{
	return info(rig)->counts.faults[fault];
}

enum wr_central_shard_state state_now(struct rig *rig)
{
	return info(rig)->shards[0].state;
}

/* ---- questions ---- */

size_t question(uint8_t kind, const struct item *items, size_t count, const uint8_t **bytes)
{
	static uint8_t buffer[WEIR_QUESTION_MAX];
	struct wr_question_head head = {
		.version = WR_QUESTION_VERSION, .kind = kind, .count = (uint16_t)count};
	size_t len = sizeof head;

	for (size_t i = 0; i < count; i++) {
		const char *id = items[i].id ? items[i].id : "fixed_window/1m";
		struct wr_question_item item = {
			.bytes = (uint16_t)(sizeof item + strlen(id)),
			.algorithm = items[i].algorithm ? items[i].algorithm : WEIR_FIXED_WINDOW,
			.consistency = items[i].leased ? WR_LEASE : WR_STRICT,
			.flags = items[i].flags,
			.id_len = (uint16_t)strlen(id),
			.key = {items[i].key, ~items[i].key},
			.tag = items[i].key,
			.cost = items[i].cost,
			.limit = items[i].limit ? items[i].limit : 10,
			.burst = items[i].burst,
			.soft_ceiling = items[i].soft_ceiling,
			.soft_for_ns = items[i].soft_ceiling ? 1000 * MS : 0,
			.period_ns = items[i].period_ns ? items[i].period_ns : 60000 * MS,
			.granted = items[i].granted,
			.max_debt = items[i].max_debt,
			.group = items[i].group,
			.decided_us = items[i].decided_us,
			.window_before_ns = items[i].windows[0] * 1000 * MS,
			.window_start_ns = items[i].windows[1] * 1000 * MS,
			.window_end_ns = items[i].windows[2] * 1000 * MS,
			.window_after_ns = items[i].windows[3] * 1000 * MS,
		};

		memcpy(buffer + len, &item, sizeof item);
		memcpy(buffer + len + sizeof item, id, item.id_len);
		len += item.bytes;
	}
	head.bytes = (uint32_t)len;
	memcpy(buffer, &head, sizeof head);
	*bytes = buffer;
	return len;
}

static void on_done(struct wr_central_ask *ask, const void *answer, size_t len)
{
	struct asker *asker = (struct asker *)ask;
	struct wr_question_head head;

	asker->done++;
	asker->len = len;
	asker->done_at_ns = asker->rig->mono_ns;
	if (len) {
		memcpy(&head, answer, sizeof head);
		assert_int_equal(head.version, WR_QUESTION_VERSION);
		assert_int_equal(head.kind, WR_QUESTION_ANSWER);
		assert_int_equal(head.bytes, len);
		assert_int_equal(len, sizeof head + head.count * sizeof(struct wr_answer));
		asker->count = head.count;
		memcpy(asker->answers, (const uint8_t *)answer + sizeof head, len - sizeof head);
	}
	if (asker->then)
		asker->then(asker);
}

static void ask_central(struct rig *rig, struct asker *asker, uint8_t kind,
			const struct item *items, size_t count)
{
	const uint8_t *bytes;
	size_t len = question(kind, items, count, &bytes);
	void (*then)(struct asker *) = asker->then;

	*asker = (struct asker){.ask.done = on_done, .rig = rig, .then = then};
	wr_central_take(rig->central, &asker->ask, bytes, len, rig->now_ns, rig->mono_ns);
}

void take(struct rig *rig, struct asker *asker, const struct item *items, size_t count)
{
	ask_central(rig, asker, WR_QUESTION_TAKE, items, count);
}

void settle_question(struct rig *rig, struct asker *asker, const struct item *items, size_t count)
{
	ask_central(rig, asker, WR_QUESTION_SETTLE, items, count);
}

void take_one(struct rig *rig, struct asker *asker, uint64_t key, int64_t cost)
{
	struct item item = {.key = key, .cost = cost};

	take(rig, asker, &item, 1);
}

void send_question(struct rig *rig, uint8_t kind, const struct item *items, size_t count)
{
	const uint8_t *bytes;
	size_t len = question(kind, items, count, &bytes);

	wr_central_send(rig->central, bytes, len, rig->now_ns, rig->mono_ns);
}

uint32_t flags_of(const struct asker *asker, int n)
{
	assert_int_equal(asker->done, 1);
	assert_true(n < asker->count);
	return asker->answers[n].flags;
}

void take_with_reply(struct rig *rig, uint64_t key, const char *bytes)
{
	struct asker asker = {.done = 0};
	struct peer *peer = peer_at(rig, 6379);

	take_one(rig, &asker, key, 1);
	assert_pending(&asker);
	run_turn(rig);
	reply(peer, bytes);
	assert_int_equal(asker.done, 1);
	if (bytes[0] == '-')
		assert_failed(&asker);
}
