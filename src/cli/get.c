/* weir get: loads URLs with the polite client. The options are in get_options.c. */
#include "cli/get.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

#define UNDER_WAY_MAX 1024u /* URLs that are requested at once; more are read later */
#define STEP_NS 100000000u  /* how often the progress is shown, and an interrupt is noticed */

/* ---- running ---- */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

/* The state of a run. */
struct get {
	const struct get_arguments *given;
	struct weir_client *client;
	struct get_list list;
	struct get_seen seen;
	struct get_files files;
	struct get_report report;
	uint64_t next_number;
	uint32_t under_way;
	bool at_end;
};

static enum get_exit exit_of(int code)
{
	switch (code) {
	case 0:
		return GET_OK;
	case WEIR_EURL:
		return GET_MALFORMED;
	case WEIR_ERESOLVE:
		return GET_RESOLVE;
	case WEIR_ECONNECT:
	case WEIR_EBREAKER:
		return GET_CONNECT;
	case WEIR_ETLS:
		return GET_TLS;
	case WEIR_ECERTIFICATE:
		return GET_CERTIFICATE;
	case WEIR_ETIMEOUT:
	case WEIR_EDEADLINE:
		return GET_TIMEOUT;
	case WEIR_ETOOLARGE:
		return GET_TOO_LARGE;
	case WEIR_EREDIRECT:
		return GET_REDIRECT;
	case WEIR_ECALLBACK:
		return GET_WRITE;
	case WEIR_ECANCELED:
		return GET_INTERRUPTED;
	case WEIR_EINVAL:
		return GET_USAGE;
	case WEIR_EMEMORY:
		return GET_MEMORY;
	default:
		return GET_RECEIVE;
	}
}

static struct get_item *make_item(struct get *get, const char *url)
{
	struct get_item *item = calloc(1, sizeof *item);

	if (!item)
		return NULL;
	item->url = strdup(url);
	item->number = get->next_number++;
	item->fd = -1;
	item->files = get->given->out ? &get->files : NULL;
	item->with_errors = get->given->with_errors;
	wr_cli_get_name(url, item->name);
	return item;
}

static void free_item(struct get_item *item)
{
	if (item->fd >= 0)
		close(item->fd);
	free(item->validator);
	free(item->url);
	free(item);
}

/* Reports the end of an item, and frees it. */
static void end_item(struct get *get, struct get_item *item, const struct weir_response *response,
		     enum get_end end, enum get_exit code, const char *why)
{
	wr_cli_get_report_item(&get->report, item, response, end, code, why);
	free_item(item);
}

/* Starts the request of an item. Returns 0 or an error. */
static int start_request(struct get *get, struct get_item *item, struct weir_error *error)
{
	const struct get_arguments *given = get->given;
	bool continues = !given->data && !given->method;
	struct weir_request request = {.size = sizeof request,
				       .flags = (continues ? WEIR_REQUEST_CONTINUE : 0) |
						(given->retry_all ? WEIR_REQUEST_RETRY : 0),
				       .method = given->method ? given->method
						 : given->data ? "POST"
							       : "GET",
				       .url = item->url,
				       .fields = given->fields,
				       .field_count = given->field_count,
				       .body = given->body,
				       .body_len = given->body_len,
				       .on_body = wr_cli_get_write,
				       .context = item,
				       .offset = item->offset,
				       .validator = item->validator};
	int rc = weir_client_start(get->client, &request, error);

	get->under_way += rc == 0;
	return rc;
}

/* Begins the next URL of the list. */
static void begin_item(struct get *get, const char *url, const char *wrong)
{
	struct get_item *item = make_item(get, url);
	struct weir_error error = {0};
	enum get_end found;
	int rc, again = 0;

	if (item && item->url && item->files && !wrong)
		again = wr_cli_get_seen_add(&get->seen, item->name);
	if (!item || !item->url || again < 0) {
		if (item)
			free_item(item);
		fputs("weir get: out of memory\n", stderr);
		get->at_end = true;
		get->report.exit = GET_MEMORY;
		return;
	}
	if (wrong) {
		end_item(get, item, NULL, GET_FAILED, GET_MALFORMED, wrong);
		return;
	}
	found = item->files && !again ? wr_cli_get_file_find(item) : GET_COMPLETE;
	if (again || found == GET_SKIPPED) {
		end_item(get, item, NULL, GET_SKIPPED, GET_OK, "");
		return;
	}
	if (found == GET_FAILED) {
		end_item(get, item, NULL, GET_FAILED, GET_WRITE, item->failed);
		return;
	}
	rc = start_request(get, item, &error);
	if (rc < 0)
		end_item(get, item, NULL, GET_FAILED, exit_of(rc), error.text);
}

static void begin_items(struct get *get)
{
	const char *url, *wrong;

	while (!get->at_end && !interrupted && get->under_way < UNDER_WAY_MAX) {
		url = wr_cli_get_list_next(&get->list, &wrong);
		if (url)
			begin_item(get, url, wrong);
		else
			get->at_end = true;
	}
	if (get->list.failed_errno && !interrupted) {
		wr_cli_get_report_unread(&get->report, &get->list, get->next_number);
		get->list.failed_errno = 0;
	}
}

/* Returns how many bytes of the body were written by this run and by earlier ones. */
static uint64_t bytes_of(const struct get_item *item)
{
	return item->written > item->offset ? item->written : item->offset;
}

/* Returns whether a 416 says that no bytes are missing. */
static bool has_all(const struct get_item *item, const struct weir_response *response)
{
	const char *range = weir_response_header(response, "content-range");
	char expected[40];

	snprintf(expected, sizeof expected, "bytes */%llu", (unsigned long long)bytes_of(item));
	return range && strcmp(range, expected) == 0;
}

static void finish(struct get *get, struct get_item *item, const struct weir_response *response)
{
	int rc = item->files ? wr_cli_get_file_finish(item, response)
			     : wr_cli_get_output_finish(item);

	if (rc < 0)
		end_item(get, item, response, GET_FAILED, GET_WRITE,
			 item->failed ? item->failed : strerror(item->failed_errno));
	else
		end_item(get, item, response, GET_COMPLETE, GET_OK, "");
}

static void fail(struct get *get, struct get_item *item, const struct weir_response *response)
{
	enum get_exit code = exit_of(response->code);
	const char *why = response->text;
	char text[96];

	if (response->code == 0) {
		snprintf(text, sizeof text, "HTTP status %u%s", response->status,
			 response->given_up ? ", and the wait would pass the deadline" : "");
		why = text;
		code = GET_HTTP_ERROR;
	} else if (response->code == WEIR_ECALLBACK) {
		why = item->failed ? item->failed : strerror(item->failed_errno);
		code = item->broken ? GET_RECEIVE : GET_WRITE;
	}
	end_item(get, item, response, GET_FAILED, code, why);
}

/* Handles the response of an item. */
static void take(struct get *get, const struct weir_response *response)
{
	struct get_item *item = response->context;
	struct weir_error error = {0};
	int rc;

	get->under_way--;
	if (response->code == 0 && response->status == 416 && bytes_of(item) &&
	    has_all(item, response)) {
		finish(get, item, response);
		return;
	}
	if (response->code == 0 && response->status == 416 && item->offset && !item->restarted) {
		wr_cli_get_file_discard(item); /* it is not a part of what the server has */
		item->restarted = true;
		rc = start_request(get, item, &error);
		if (rc < 0)
			end_item(get, item, response, GET_FAILED, exit_of(rc), error.text);
		return;
	}
	if (response->code == 0 && response->status >= 200 && response->status < 300)
		finish(get, item, response);
	else
		fail(get, item, response);
}

/* Returns which part of all URLs has ended, 0 to 1, or -1 if the end of the list is not known. URLs
 * that are under way have been read, but have not ended. */
static double part_ended(const struct get *get)
{
	const struct get_report *report = &get->report;
	double read = wr_cli_get_list_part(&get->list);
	double ended = (double)(report->complete + report->skipped + report->failed);

	return read < 0 || !get->next_number ? read : read * ended / (double)get->next_number;
}

static void run(struct get *get)
{
	bool cancelled = false;

	begin_items(get);
	while (get->under_way) {
		struct weir_response *response = weir_client_next(get->client, STEP_NS);

		if (response)
			take(get, response);
		weir_response_free(response);
		if (interrupted && !cancelled) {
			weir_client_cancel(get->client);
			cancelled = true;
		}
		begin_items(get);
		wr_cli_get_report_progress(&get->report, part_ended(get));
	}
}

static int open_client(struct get *get)
{
	const struct get_arguments *given = get->given;
	struct weir_client_opts opts = {.size = sizeof opts,
					.flags = (given->no_proxy ? WEIR_CLIENT_NO_PROXY : 0),
					.user_agent = given->user_agent,
					.rate_count = given->rate_count,
					.rate_ns = given->rate_ns,
					.cache_dir = given->no_cache ? NULL : given->cache,
					.cache_bytes = given->cache_bytes,
					.table = given->table,
					.table_dir = given->table_dir,
					.attempts = (uint32_t)given->attempts,
					.per_host = (uint32_t)given->concurrency,
					.transfers = (uint32_t)given->concurrency,
					.redirects = (uint32_t)given->redirects,
					.connect_ns = given->connect_ns,
					.attempt_ns = given->timeout_ns,
					.deadline_ns = given->deadline_ns,
					.ca_file = given->cacert,
					.on_event = wr_cli_get_report_event,
					.context = &get->report};
	struct weir_error error;

	if (weir_client_open(&opts, &get->client, &error) < 0)
		return wr_cli_fail("get", &error, GET_USAGE);
	return 0;
}

/* Runs with the client open. Returns the exit code. */
static int run_opened(struct get *get)
{
	const struct get_arguments *given = get->given;
	struct sigaction action = {.sa_handler = on_signal};
	int code;

	if (wr_cli_get_list_open(&get->list, &given->urls, given->from) < 0)
		return GET_READ;
	get->files.resume = given->resume;
	get->files.overwrite = given->overwrite;
	if (given->out && wr_cli_get_files_open(&get->files, given->out) < 0)
		return GET_WRITE;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	wr_cli_get_report_begin(&get->report, given->json, given->quiet);
	run(get);
	code = (int)wr_cli_get_report_end(&get->report, get->client, interrupted != 0);
	if (given->out)
		wr_cli_get_files_close(&get->files);
	return code;
}

int wr_cli_get(int argc, char **argv)
{
	static struct get get;
	int code;

	get.given = wr_cli_get_arguments(argc, argv, &code);
	if (!get.given)
		return code;
	code = open_client(&get);
	if (code == 0)
		code = run_opened(&get);
	weir_client_close(get.client);
	wr_cli_get_list_close(&get.list);
	wr_cli_get_seen_free(&get.seen);
	wr_cli_get_arguments_free();
	return code;
}
