/* Loads URLs one after the other and prints each status. `client-demo [-c CACHE] URL…`. client.py does
 * the same in Python. */
#include <stdio.h>
#include <string.h>

#include <weir/client.h>

static void on_event(void *context, const struct weir_client_event *event)
{
	(void)context;
	if (event->kind == WEIR_EVENT_WAIT)
		printf("%s: waits, %s\n", event->host, event->text);
}

/* Returns 0 if there is a response with a status below 400, otherwise 1. */
static int get(struct weir_client *client, const char *url)
{
	static const char *const caches[] = {"", ", from the cache", ", confirmed"};
	struct weir_request request = {.size = sizeof request, .url = url};
	struct weir_response *response;
	struct weir_error error;
	int failed = 1;

	if (weir_client_send(client, &request, &response, &error) < 0) {
		printf("%s: %s\n", url, error.text);
	} else {
		printf("%s: %u, %zu bytes, %u attempts%s\n", url, response->status,
		       response->body_len, response->attempts, caches[response->cache]);
		failed = response->status >= 400;
	}
	weir_response_free(response);
	return failed;
}

int main(int argc, char **argv)
{
	struct weir_client_opts opts = {.size = sizeof opts,
					.user_agent = "client-demo/1.0",
					.deadline_ns = 60 * 1000000000ull,
					.on_event = on_event};
	struct weir_client *client;
	struct weir_error error;
	int failed = 0, first = 1;

	setvbuf(stdout, NULL, _IOLBF, 0); /* line buffered, even if stdout is a pipe */
	if (argc > 2 && strcmp(argv[1], "-c") == 0) {
		opts.cache_dir = argv[2];
		first = 3;
	}
	if (weir_client_open(&opts, &client, &error) < 0) {
		fprintf(stderr, "client-demo: %s\n", error.text);
		return 1;
	}
	for (int i = first; i < argc; i++)
		failed |= get(client, argv[i]);
	weir_client_close(client);
	return failed;
}
