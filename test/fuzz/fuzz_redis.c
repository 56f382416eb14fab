/* Fuzzes central with any replies of servers and any order of events: questions, time, connections.
 * The first byte selects the topology. Each following byte is an event, followed by its arguments.
 * Each question is completed exactly once, a closed link is not used, and no link or question
 * remains at the end. */
#include "fuzz.h"

#include <stdbool.h>

#include "base/str.h"
#include "central/central.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINKS_MAX 64
#define ASKERS 16
#define EVENTS_MAX 2000
#define MS 1000000ull

static const char *const urls[] = {"redis://10.0.0.1", "redis+sentinel://:x@10.0.0.1,10.0.0.2/m",
				   "redis+cluster://ann:pw@10.0.0.1:7000,10.0.0.2:7001",
				   "rediss://:pw@10.0.0.1/3"};

/* Common replies of servers. */
static const char *const common_replies[] = {
	"+OK\r\n",
	"+PONG\r\n",
	"$-1\r\n",
	"*-1\r\n",
	":2\r\n",
	"*6\r\n:1700000000000000\r\n:21\r\n:9\r\n:0\r\n:60000000\r\n:0\r\n",
	"*6\r\n:1700000000000000\r\n:0\r\n:0\r\n:900000\r\n:60000000\r\n:0\r\n",
	"*6\r\n:1700000000000000\r\n:53\r\n:0\r\n:900000\r\n:60000000\r\n:0\r\n",
	"*11\r\n:1700000000000000\r\n:1\r\n:9\r\n:0\r\n:6\r\n:0\r\n:0\r\n:0\r\n:7\r\n:8\r\n:0\r\n",
	"-NOSCRIPT No matching script\r\n",
	"-MOVED 7 10.0.0.3:7002\r\n",
	"-ASK 7 10.0.0.1:7000\r\n",
	"-TRYAGAIN\r\n",
	"-LOADING\r\n",
	"-READONLY You can't write\r\n",
	"-OOM command not allowed\r\n",
	"-NOAUTH\r\n",
	"-CLUSTERDOWN\r\n",
	"-ERR what\r\n",
	"*2\r\n$8\r\n10.0.0.3\r\n$4\r\n6379\r\n",
	"*1\r\n*4\r\n$2\r\nip\r\n$8\r\n10.0.0.4\r\n$4\r\nport\r\n$5\r\n26379\r\n",
	"*1\r\n*3\r\n:8001\r\n:16383\r\n*2\r\n$0\r\n\r\n:7002\r\n",
	"*2\r\n$10\r\n1700000000\r\n$1\r\n5\r\n",
	"*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nm\r\n$1\r\nb\r\n",
	"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
	"*3\r\n$5\r\nslave\r\n:0\r\n*0\r\n",
	"$35\r\nmaxmemory:1\r\nmaxmemory_policy:lru\r\n\r\n",
};

struct asker {
	struct wr_central_ask ask;
	bool waiting;
	bool again; /* sends another question from its callback */
};

static struct state {
	struct wr_central *central;
	struct wr_central_link *links[LINKS_MAX];
	struct asker askers[ASKERS];
	uint64_t now_ns, mono_ns, wake_ns;
	const uint8_t *at, *end;
	int freed;
} s;

static uint8_t next_byte(void)
{
	return s.at < s.end ? *s.at++ : 0;
}

/* ---- the host ---- */

static void on_open(void *context, struct wr_central_link *link)
{
	(void)context;
	for (int i = 0; i < LINKS_MAX; i++)
		if (!s.links[i]) {
			s.links[i] = link;
			return;
		}
	wr_central_link_down(link, "no more links", s.now_ns, s.mono_ns);
}

static void on_close(void *context, struct wr_central_link *link)
{
	(void)context;
	for (int i = 0; i < LINKS_MAX; i++)
		if (s.links[i] == link) {
			s.links[i] = NULL;
			return;
		}
	abort(); /* the link was never opened, or is closed twice */
}

static void on_dirty(void *context, struct wr_central_link *link)
{
	(void)context;
	require(link != NULL);
}

static void on_wake(void *context, uint64_t mono_ns)
{
	(void)context;
	s.wake_ns = mono_ns;
}

static void on_say(void *context, enum wr_central_log_level level, const char *text)
{
	(void)context, (void)level;
	require(strlen(text) < 512 && !strstr(text, "pw"));
}

static void on_secret(void *context, const uint8_t secret[WR_CENTRAL_SECRET])
{
	(void)context, (void)secret;
}

static void on_nodes(void *context, uint32_t nodes)
{
	(void)context;
	require(nodes > 0);
}

static bool on_heard(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	(void)context, (void)bytes, (void)age_ns, (void)own;
	require(len > 0 && len <= WR_CENTRAL_MESSAGE_MAX);
	wr_central_forget(s.central, NULL);
	return len & 1;
}

static const struct wr_central_host host = {on_open, on_close,  on_dirty, on_wake,
					    on_say,  on_secret, on_nodes, on_heard};

/* ---- questions ---- */

static size_t write_question(uint8_t kind, uint8_t bytes[WEIR_QUESTION_MAX])
{
	struct wr_question_head head = {.version = WR_QUESTION_VERSION, .kind = kind};
	size_t len = sizeof head;

	head.count = 1 + next_byte() % 3;
	for (int i = 0; i < head.count; i++) {
		uint8_t how = next_byte();
		struct wr_question_item item = {
			.bytes = sizeof item + 2,
			.algorithm = 1 + how % 5,
			.flags = how >> 7,
			.id_len = 2,
			.key = {next_byte() % 4, 7},
			.cost = how >> 5 & 3,
			.limit = 10,
			.period_ns = 60000 * MS,
			.decided_us = s.now_ns / 1000,
			.group = how >> 4 & 1,
		};

		if (kind == WR_QUESTION_RETURN)
			item.cost = -1;
		if (kind == WR_QUESTION_REPORT)
			item.cost = 1;
		if (kind == WR_QUESTION_SETTLE)
			item.cost = i && how & 8 ? -1 : 1;
		memcpy(bytes + len, &item, sizeof item);
		bytes[len + sizeof item] = 'i';
		bytes[len + sizeof item + 1] = 'd';
		len += item.bytes;
	}
	head.bytes = (uint32_t)len;
	memcpy(bytes, &head, sizeof head);
	return len;
}

static void send_question(struct asker *asker);

static void on_done(struct wr_central_ask *ask, const void *answer, size_t len)
{
	struct asker *asker = (struct asker *)ask;
	struct wr_question_head head;

	require(asker->waiting);
	asker->waiting = false;
	if (len) {
		memcpy(&head, answer, sizeof head);
		require(head.bytes == len &&
			len == sizeof head + head.count * sizeof(struct wr_answer));
	}
	if (asker->again && s.at < s.end && s.freed == 0)
		send_question(asker);
}

static void send_question(struct asker *asker)
{
	uint8_t bytes[WEIR_QUESTION_MAX], how = next_byte();
	size_t len = write_question(how & 2 ? WR_QUESTION_SETTLE : WR_QUESTION_TAKE, bytes);

	asker->ask.done = on_done;
	asker->waiting = true;
	asker->again = how & 1;
	wr_central_take(s.central, &asker->ask, bytes, len, s.now_ns, s.mono_ns);
}

static void cancel_question(struct asker *asker)
{
	wr_central_cancel(s.central, &asker->ask);
	asker->waiting = false;
}

static void send_message(void)
{
	uint8_t bytes[WEIR_QUESTION_MAX];
	size_t len = write_question(next_byte() % 7, bytes);

	wr_central_send(s.central, bytes, len, s.now_ns, s.mono_ns);
}

static void send_raw(void)
{
	size_t len = next_byte();

	if (len > (size_t)(s.end - s.at))
		len = (size_t)(s.end - s.at);
	wr_central_send(s.central, s.at, len, s.now_ns, s.mono_ns);
	s.at += len;
}

/* ---- links ---- */

static struct wr_central_link *pick_link(void)
{
	int at = next_byte() % LINKS_MAX;

	for (int i = 0; i < LINKS_MAX; i++)
		if (s.links[(at + i) % LINKS_MAX])
			return s.links[(at + i) % LINKS_MAX];
	return NULL;
}

static void consume_output(void)
{
	const uint8_t *bytes;
	size_t len;

	for (int i = 0; i < LINKS_MAX; i++)
		while (s.links[i] && wr_central_link_output(s.links[i], &bytes, &len)) {
			require(bytes[0] == '*' || len < 1u << 23);
			wr_central_link_sent(s.links[i], len > 7 ? len - 7 : len);
		}
}

/* Copies the bytes to memory of their size, so that the sanitizer detects a read beyond them. */
static void feed_link(struct wr_central_link *link, const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, bytes, len);
	if (link)
		wr_central_link_input(link, copy, len, s.now_ns, s.mono_ns);
	free(copy);
}

static void feed_input(void)
{
	struct wr_central_link *link = pick_link();
	size_t len = next_byte();

	if (len > (size_t)(s.end - s.at))
		len = (size_t)(s.end - s.at);
	feed_link(link, s.at, len);
	s.at += len;
}

static void feed_common_reply(void)
{
	struct wr_central_link *link = pick_link();
	const char *reply =
		common_replies[next_byte() % (sizeof common_replies / sizeof *common_replies)];

	feed_link(link, reply, strlen(reply));
}

static void break_link(void)
{
	struct wr_central_link *link = pick_link();

	for (int i = 0; link && i < LINKS_MAX; i++)
		if (s.links[i] == link)
			s.links[i] = NULL;
	if (link)
		wr_central_link_down(link, "cut", s.now_ns, s.mono_ns);
}

static void connect_link(void)
{
	struct wr_central_link *link = pick_link();

	if (link)
		wr_central_link_up(link, s.now_ns, s.mono_ns);
}

static void advance_time(uint64_t ns)
{
	s.now_ns += ns;
	s.mono_ns += ns;
	s.wake_ns = UINT64_MAX;
	wr_central_tick(s.central, s.now_ns, s.mono_ns);
	/* Central may request an immediate tick several times in a row, but not endlessly. */
	for (int i = 0; s.wake_ns <= s.mono_ns; i++) {
		require(i < 100);
		s.wake_ns = UINT64_MAX;
		wr_central_tick(s.central, s.now_ns, s.mono_ns);
	}
}

static void run_event(void)
{
	switch (next_byte() % 14) {
	case 0:
		feed_input();
		break;
	case 1:
	case 2:
		feed_common_reply();
		break;
	case 3:
	case 4: {
		struct asker *asker = &s.askers[next_byte() % ASKERS];

		if (!asker->waiting)
			send_question(asker);
		break;
	}
	case 5:
		cancel_question(&s.askers[next_byte() % ASKERS]);
		break;
	case 6:
		send_message();
		break;
	case 7:
		advance_time(next_byte() * MS);
		break;
	case 8:
		advance_time(next_byte() * 100 * MS);
		break;
	case 9:
		connect_link();
		break;
	case 10:
		break_link();
		break;
	case 11:
		consume_output();
		break;
	case 12:
		(void)wr_central_publish(s.central, "order", 5, s.mono_ns);
		break;
	default:
		send_raw();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wr_central_info info;
	struct wr_redis_target target;
	struct wr_central_opts opts = {.target = &target, .holder = {1, 2}, .seed = 7};

	if (size < 2)
		return 0;
	memset(&s, 0, sizeof s);
	s.at = data;
	s.end = data + size;
	s.now_ns = 1700000000000000000;
	s.mono_ns = 1000000000;
	opts.chief = *s.at & 4;
	require(wr_redis_target_parse(wr_str(urls[next_byte() & 3]), &target, NULL) == 0);
	require(wr_central_new(&opts, &host, NULL, s.now_ns, s.mono_ns, &s.central, NULL) == 0);
	for (int i = 0; i < EVENTS_MAX && s.at < s.end; i++)
		run_event();
	wr_central_info(s.central, &info);
	require(info.waiting <= ASKERS);
	s.freed = 1;
	wr_central_free(s.central);
	for (int i = 0; i < LINKS_MAX; i++)
		require(!s.links[i]);
	for (int i = 0; i < ASKERS; i++)
		require(!s.askers[i].waiting);
	return 0;
}
