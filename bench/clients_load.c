/* Clients that each send requests to one URL for some seconds, in one process:
 *
 *   clients-load polite|naive URL CLIENTS SECONDS
 *
 * polite: each client is a weir_client of its own and knows only its own responses. naive: each
 * client is a libcurl handle and a loop, which waits one second after a refusal, as Retry-After
 * says, and otherwise sends at once. Prints a line "second admitted refused" for each second, then a
 * line "client admitted" for each client. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include <weir/client.h>

#include "base/clock.h"

#define SECONDS_MAX 3600u
#define TOO_MANY 429

struct client {
	pthread_t thread;
	struct weir_client *polite;
	uint64_t admitted;
};

static atomic_uint admitted_in[SECONDS_MAX], refused_in[SECONDS_MAX];
static const char *url;
static uint64_t start_ns, end_ns;

static void fail(const char *text)
{
	fprintf(stderr, "clients-load: %s\n", text);
	_exit(1);
}

static unsigned second_now(void)
{
	uint64_t second = (wr_clock_mono_ns() - start_ns) / WR_SECOND_NS;

	return second < SECONDS_MAX ? (unsigned)second : SECONDS_MAX - 1;
}

static void count(struct client *client, bool admitted)
{
	atomic_fetch_add(admitted ? &admitted_in[second_now()] : &refused_in[second_now()], 1);
	client->admitted += admitted;
}

static void on_event(void *context, const struct weir_client_event *event)
{
	if (event->kind == WEIR_EVENT_REFUSED)
		count(context, false);
}

static void *be_polite(void *context)
{
	struct client *client = context;
	struct weir_request request = {.size = sizeof request, .url = url};

	while (wr_clock_mono_ns() < end_ns) {
		struct weir_response *response = NULL;
		struct weir_error error;
		int rc = weir_client_send(client->polite, &request, &response, &error);

		if (rc == WEIR_ECANCELED || rc == WEIR_EDEADLINE)
			break;
		if (rc < 0)
			fail(error.text);
		if (response->status == 200)
			count(client, true);
		weir_response_free(response);
	}
	return NULL;
}

static size_t drop_body(char *bytes, size_t size, size_t number, void *context)
{
	(void)bytes;
	(void)context;
	return size * number;
}

static void *be_naive(void *context)
{
	CURL *curl = curl_easy_init();
	long status;

	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	while (wr_clock_mono_ns() < end_ns) {
		if (curl_easy_perform(curl) != CURLE_OK)
			fail("a request failed");
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
		count(context, status == 200);
		if (status == TOO_MANY)
			usleep(1000000);
	}
	curl_easy_cleanup(curl);
	return NULL;
}

static void open_polite(struct client *client)
{
	struct weir_client_opts opts = {.size = sizeof opts,
					.attempts = 100,
					.flags = WEIR_CLIENT_NO_PROXY,
					.deadline_ns = end_ns - start_ns,
					.on_event = on_event,
					.context = client};
	struct weir_error error;

	if (weir_client_open(&opts, &client->polite, &error) < 0)
		fail(error.text);
}

static void print_counts(const struct client *clients, unsigned number, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++)
		printf("%u %u %u\n", i, admitted_in[i], refused_in[i]);
	for (unsigned i = 0; i < number; i++)
		printf("client %llu\n", (unsigned long long)clients[i].admitted);
}

int main(int argc, char **argv)
{
	unsigned number, seconds;
	struct client *clients;
	bool polite;

	if (argc != 5)
		fail("usage: clients-load polite|naive URL CLIENTS SECONDS");
	polite = strcmp(argv[1], "polite") == 0;
	url = argv[2];
	number = (unsigned)strtoul(argv[3], NULL, 10);
	seconds = (unsigned)strtoul(argv[4], NULL, 10);
	clients = calloc(number, sizeof *clients);
	if (!clients || !number || !seconds || seconds >= SECONDS_MAX)
		fail("CLIENTS and SECONDS have to be above 0");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	start_ns = wr_clock_mono_ns();
	end_ns = start_ns + (uint64_t)seconds * WR_SECOND_NS;
	for (unsigned i = 0; i < number && polite; i++)
		open_polite(&clients[i]);
	start_ns = wr_clock_mono_ns();
	end_ns = start_ns + (uint64_t)seconds * WR_SECOND_NS;
	for (unsigned i = 0; i < number; i++)
		if (pthread_create(&clients[i].thread, NULL, polite ? be_polite : be_naive,
				   &clients[i]) != 0)
			fail("no more threads");
	sleep(seconds);
	for (unsigned i = 0; i < number; i++) {
		if (polite)
			weir_client_cancel(clients[i].polite);
		pthread_join(clients[i].thread, NULL);
	}
	print_counts(clients, number, seconds);
	free(clients);
	return 0;
}
