/* A load generator for RESP servers. Like grpc_load.c with RATE, it sends commands at fixed times,
 * even if the server is slow.
 *
 *   resp-load PORT SECONDS KEYS CONNECTIONS RATE WORD…
 *
 * It sends the words as a command and replaces `KEY` by a number of six digits below KEYS. It
 * prints the number of replies, replies per second, p50 and p99 of the latency in ms, and the
 * number of error replies. The latency starts when a command was due. */
#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX (1u << 22)
#define UNDER_WAY 1024u /* maximum number of commands in flight per connection; others wait */
#define COMMAND_BYTES 4096u

struct link {
	redisReader *reader;
	int fd;
	unsigned sent, answered;
	uint64_t due_ns[UNDER_WAY];
};

static struct {
	uint64_t keys, done, failed, due_ns, gap_ns, end_ns, seed;
	char command[COMMAND_BYTES];
	size_t len;
	uint32_t *latency_us;
} load = {.seed = 42};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t draw(uint64_t below)
{
	load.seed = load.seed * 6364136223846793005u + 1442695040888963407u;
	return (load.seed >> 33) % below;
}

/* make_command() will replace each `KEY` in a word by six digits, which adds three bytes. Returns
 * the new length of the word. */
static size_t grown(const char *word)
{
	size_t len = strlen(word);

	for (const char *at = word; (at = strstr(at, "KEY")); at += 3)
		len += 3;
	return len;
}

static void make_command(char **words, int count)
{
	load.len = (size_t)snprintf(load.command, COMMAND_BYTES, "*%d\r\n", count);
	for (int i = 0; i < count; i++) {
		load.len += (size_t)snprintf(load.command + load.len, COMMAND_BYTES - load.len,
					     "$%zu\r\n%s\r\n", grown(words[i]), words[i]);
		if (load.len >= COMMAND_BYTES) {
			fputs("resp-load: the command is too long\n", stderr);
			exit(2);
		}
	}
}

static size_t write_command(char *out)
{
	unsigned key = (unsigned)draw(load.keys);
	size_t len = 0;

	for (const char *at = load.command, *end = at + load.len; at < end;) {
		if (end - at >= 3 && memcmp(at, "KEY", 3) == 0) {
			len += (size_t)sprintf(out + len, "%06u", key);
			at += 3;
		} else {
			out[len++] = *at++;
		}
	}
	return len;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void open_link(struct link *link, unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	link->reader = redisReaderCreate();
	link->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&to, sizeof to) < 0)
		fail("resp-load");
	setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void send_due(struct link *link)
{
	char out[2 * COMMAND_BYTES];
	size_t len;

	if (load.due_ns > now_ns() || load.due_ns >= load.end_ns ||
	    link->sent - link->answered == UNDER_WAY)
		return;
	len = write_command(out);
	link->due_ns[link->sent++ % UNDER_WAY] = load.due_ns;
	load.due_ns += load.gap_ns;
	if (send(link->fd, out, len, 0) != (ssize_t)len)
		fail("resp-load: send");
}

static void note(struct link *link, const redisReply *reply)
{
	uint64_t took_ns = now_ns() - link->due_ns[link->answered++ % UNDER_WAY];

	if (load.done < SAMPLES_MAX)
		load.latency_us[load.done] = (uint32_t)(took_ns / 1000);
	load.done++;
	load.failed += reply->type == REDIS_REPLY_ERROR;
}

static void receive(struct link *link)
{
	char in[65536];
	void *reply = NULL;
	ssize_t n = recv(link->fd, in, sizeof in, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		fail("resp-load: the server closed a connection");
	redisReaderFeed(link->reader, in, (size_t)n);
	while (redisReaderGetReply(link->reader, &reply) == REDIS_OK && reply) {
		note(link, reply);
		freeReplyObject(reply);
	}
}

static bool is_over(const struct link *links, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (links[i].sent != links[i].answered)
			return false;
	return now_ns() >= load.end_ns;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double quantile_ms(double share)
{
	uint64_t count = load.done < SAMPLES_MAX ? load.done : SAMPLES_MAX;

	return count ? load.latency_us[(uint64_t)((double)(count - 1) * share)] / 1000.0 : 0;
}

int main(int argc, char **argv)
{
	static struct link links[64];
	unsigned count = argc > 6 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
	double seconds = argc > 6 ? strtod(argv[2], NULL) : 0;
	double rate = argc > 6 ? strtod(argv[5], NULL) : 0;
	uint64_t begun_ns;

	load.keys = argc > 6 ? strtoull(argv[3], NULL, 10) : 0;
	load.latency_us = calloc(SAMPLES_MAX, sizeof *load.latency_us);
	if (!count || count > 64 || seconds <= 0 || rate <= 0 || !load.keys || !load.latency_us) {
		fputs("usage: resp-load PORT SECONDS KEYS CONNECTIONS RATE WORD…\n", stderr);
		return 2;
	}
	make_command(argv + 6, argc - 6);
	for (unsigned i = 0; i < count; i++)
		open_link(&links[i], (unsigned)strtoul(argv[1], NULL, 10));
	load.gap_ns = (uint64_t)(1e9 / rate);
	begun_ns = load.due_ns = now_ns();
	load.end_ns = begun_ns + (uint64_t)(seconds * 1e9);
	for (unsigned turn = 0; !is_over(links, count); turn++) {
		send_due(&links[turn % count]);
		receive(&links[turn % count]);
	}
	seconds = (double)(now_ns() - begun_ns) / 1e9;
	qsort(load.latency_us, load.done < SAMPLES_MAX ? load.done : SAMPLES_MAX,
	      sizeof *load.latency_us, by_size);
	printf("%llu %.1f %.3f %.3f %llu\n", (unsigned long long)load.done,
	       (double)load.done / seconds, quantile_ms(0.5), quantile_ms(0.99),
	       (unsigned long long)load.failed);
	return 0;
}
