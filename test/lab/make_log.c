/* Writes an access log for benchmarks and tests. The same arguments give the same bytes.
 *
 *   make_log LINES SECONDS combined|json >access.log
 *
 * The log begins at 2026-03-02 00:00:00 UTC and lasts for the given time. The rate of requests
 * follows the time of day, with 60 % more or less than the average. There are 100,000 clients, whose
 * numbers of requests follow Zipf's law; every eighth one has an IPv6 address. Lines have about 200
 * bytes. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENTS 100000u
#define DRAWS (1u << 20) /* length of the list that clients are drawn from */
#define START_S 1772409600
#define DAY_S 86400.0

static const char *const agents[] = {
	"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
	"Chrome/131.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Linux; Android 14; SM-A546B) AppleWebKit/537.36 (KHTML, like Gecko) "
	"Chrome/131.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
	"Gecko) "
	"Version/18.1 Mobile/15E148 Safari/604.1",
	"python-requests/2.32.3",
	"okhttp/4.12.0",
};
static const char *const referers[] = {"-", "https://www.example.com/",
				       "https://example.org/search?q=weir"};
static const char *const sections[] = {"v1/users",   "v1/orders",   "v1/search",
				       "static/img", "v2/products", "blog"};

static uint64_t random_state = 19;

/* xorshift64* */
static uint64_t draw(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1dull;
}

static uint32_t draw_below(uint32_t end)
{
	return (uint32_t)((draw() >> 32) * end >> 32);
}

/* Fills in a list in which each client occurs as often as Zipf's law says. */
static uint32_t *zipf_list(void)
{
	uint32_t *list = malloc(DRAWS * sizeof(*list));
	double sum = 0, reached = 0;
	uint32_t filled = 0;

	if (!list)
		return NULL;
	for (uint32_t i = 1; i <= CLIENTS; i++)
		sum += 1.0 / i;
	for (uint32_t i = 1; i <= CLIENTS; i++) {
		reached += 1.0 / i / sum;
		while (filled < DRAWS && filled < reached * DRAWS)
			list[filled++] = i - 1;
	}
	while (filled < DRAWS)
		list[filled++] = CLIENTS - 1;
	return list;
}

/* Returns how many of `lines` requests arrive in the first `second` of `seconds`: the integral of
 * the rate 1 - 0.6 cos(2πt/day), scaled to the number of lines. */
static uint64_t arrived(uint64_t lines, double second, double seconds)
{
	double turn = 2 * M_PI / DAY_S;
	double part = second - 0.6 * sin(turn * second) / turn;
	double whole = seconds - 0.6 * sin(turn * seconds) / turn;

	return (uint64_t)llround((double)lines * part / whole);
}

static void put_client(uint32_t client, char text[64])
{
	uint32_t mixed =
		client * 2654435761u; /* neighbours in rank are not neighbours in the network */

	if (client % 8 == 7)
		snprintf(text, 64, "2001:db8:%x:%x::%x", mixed >> 16, mixed & 0xffff,
			 client % 97 + 1);
	else
		snprintf(text, 64, "%u.%u.%u.%u", 11 + (mixed >> 24) % 180, mixed >> 16 & 255,
			 mixed >> 8 & 255, client % 251 + 1);
}

static uint32_t draw_status(void)
{
	uint32_t part = draw_below(100);

	return part < 90 ? 200 : part < 94 ? 304 : part < 98 ? 404 : part < 99 ? 301 : 500;
}

struct line {
	char client[64], target[96], time[40];
	const char *method, *referer, *agent;
	uint32_t status, bytes, duration_ms;
};

static void draw_line(struct line *line, uint32_t client)
{
	uint32_t section = draw_below(sizeof(sections) / sizeof(sections[0]));

	put_client(client, line->client);
	snprintf(line->target, sizeof(line->target), "/%s/%u%s", sections[section],
		 draw_below(5000), draw_below(4) == 0 ? "?page=2&sort=price" : "");
	line->method = draw_below(10) == 0 ? "POST" : "GET";
	line->referer = referers[draw_below(sizeof(referers) / sizeof(referers[0]))];
	line->agent = agents[draw_below(sizeof(agents) / sizeof(agents[0]))];
	line->status = draw_status();
	line->bytes = draw_below(60000);
	line->duration_ms = 1 + draw_below(200);
}

static void put_line(const struct line *line, bool json)
{
	if (json)
		printf("{\"time_iso8601\":\"%s\",\"remote_addr\":\"%s\",\"request\":\"%s %s "
		       "HTTP/1.1\","
		       "\"status\":%u,\"body_bytes_sent\":%u,\"request_time\":%u.%03u,\"http_"
		       "referer\":\"%s\","
		       "\"http_user_agent\":\"%s\"}\n",
		       line->time, line->client, line->method, line->target, line->status,
		       line->bytes, line->duration_ms / 1000, line->duration_ms % 1000,
		       line->referer, line->agent);
	else
		printf("%s - - [%s] \"%s %s HTTP/1.1\" %u %u \"%s\" \"%s\"\n", line->client,
		       line->time, line->method, line->target, line->status, line->bytes,
		       line->referer, line->agent);
}

int main(int argc, char **argv)
{
	uint64_t lines = argc == 4 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t seconds = argc == 4 ? strtoull(argv[2], NULL, 10) : 0, written = 0;
	bool json = argc == 4 && strcmp(argv[3], "json") == 0;
	uint32_t *clients = zipf_list();
	struct line line;

	if (!clients || lines == 0 || seconds == 0) {
		fprintf(stderr, "usage: make_log LINES SECONDS combined|json\n");
		free(clients);
		return 2;
	}
	for (uint64_t second = 0; second < seconds; second++) {
		uint64_t until = arrived(lines, (double)second + 1, (double)seconds);
		time_t now = START_S + (time_t)second;
		struct tm tm;

		gmtime_r(&now, &tm);
		strftime(line.time, sizeof(line.time),
			 json ? "%Y-%m-%dT%H:%M:%S+00:00" : "%d/%b/%Y:%H:%M:%S +0000", &tm);
		for (; written < until; written++) {
			draw_line(&line, clients[draw() >> 44]);
			put_line(&line, json);
		}
	}
	free(clients);
	return fflush(stdout) == 0 ? 0 : 1;
}
