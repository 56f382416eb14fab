/* weir get: loads URLs with the polite client. */
#include "cli/get.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/duration.h"
#include "cli/cli.h"

#define UNDER_WAY_MAX 1024u /* URLs that are requested at once; more are read later */
#define STEP_NS 100000000u  /* how often the progress is shown, and an interrupt is noticed */
#define DATA_MAX ((size_t)64 << 20)
#define FIELDS_MAX 256u
#define NOT_FROM_ENVIRONMENT .variable = WR_NO_VARIABLE

static struct {
	const char *from, *out, *rate, *method, *data, *cache, *table, *table_dir, *cacert,
		*user_agent;
	struct wr_cli_words fields;
	uint64_t concurrency, attempts, redirects, timeout_ns, connect_ns, deadline_ns, cache_bytes;
	bool resume, overwrite, with_errors, retry_all, no_cache, no_proxy, json, quiet;
} given;
static struct wr_cli_words words;

#define AT(field) .at = offsetof(__typeof__(given), field)

static const struct wr_cli_option requests[] = {
	{"from", WR_OPTION_TEXT, "FILE", NULL,
	 "load the URLs of a file, one per line; - is standard input.\n"
	 "Empty lines and lines that begin with # are left out",
	 AT(from), NOT_FROM_ENVIRONMENT},
	{"header", WR_OPTION_REPEATED, "'NAME: VALUE'", NULL,
	 "add a header field to each request; may be repeated", AT(fields), NOT_FROM_ENVIRONMENT,
	 .letter = 'H'},
	{"method", WR_OPTION_TEXT, "METHOD", NULL, "method; without it GET, or POST with --data",
	 AT(method), NOT_FROM_ENVIRONMENT},
	{"data", WR_OPTION_TEXT, "TEXT|@FILE", NULL, "body of each request", AT(data),
	 NOT_FROM_ENVIRONMENT},
	{"retry-all", WR_OPTION_SWITCH, NULL, NULL,
	 "retry POST and PATCH too, with an Idempotency-Key", AT(retry_all), NOT_FROM_ENVIRONMENT},
	{"user-agent", WR_OPTION_TEXT, "TEXT", NULL, "value of User-Agent; without it weir/VERSION",
	 AT(user_agent), NOT_FROM_ENVIRONMENT},
};

static const struct wr_cli_option pacing[] = {
	{"concurrency", WR_OPTION_NUMBER, "N", "8", "transfers at once, to each host and in all",
	 AT(concurrency), .min = 1, .max = 1000, NOT_FROM_ENVIRONMENT},
	{"rate", WR_OPTION_TEXT, "N/UNIT", NULL,
	 "send at most so many requests to each host: 10/s, 100/m,\n"
	 "5000/h. Without it only the limits of the host count",
	 AT(rate), NOT_FROM_ENVIRONMENT},
	{"table", WR_OPTION_TEXT, "NAME", NULL,
	 "share the pace with other processes of this machine, through\n"
	 "a table of this name",
	 AT(table), NOT_FROM_ENVIRONMENT},
	{"table-dir", WR_OPTION_TEXT, "DIR", NULL, "folder of the table", AT(table_dir),
	 NOT_FROM_ENVIRONMENT},
	{"attempts", WR_OPTION_NUMBER, "N", "5", "maximum number of attempts of a URL",
	 AT(attempts), .min = 1, .max = 100, NOT_FROM_ENVIRONMENT},
	{"deadline", WR_OPTION_DURATION, "DURATION", "1h",
	 "give up a URL after this time, with all its waits", AT(deadline_ns), .min = 1000000,
	 .max = 30 * 86400 * 1000000000ull, NOT_FROM_ENVIRONMENT},
	{"timeout", WR_OPTION_DURATION, "DURATION", "1m",
	 "an attempt fails if no byte arrives for this time", AT(timeout_ns), .min = 1000000000,
	 .max = 86400 * 1000000000ull, NOT_FROM_ENVIRONMENT},
	{"connect-timeout", WR_OPTION_DURATION, "DURATION", "10s",
	 "an attempt fails if there is no connection after this time", AT(connect_ns),
	 .min = 1000000, .max = 86400 * 1000000000ull, NOT_FROM_ENVIRONMENT},
	{"max-redirects", WR_OPTION_NUMBER, "N", "10", "maximum number of redirects of a URL",
	 AT(redirects), .min = 1, .max = 100, NOT_FROM_ENVIRONMENT},
};

static const struct wr_cli_option output[] = {
	{"out", WR_OPTION_TEXT, "DIR", NULL,
	 "write each body to a file of this folder; without it one URL\n"
	 "is written to standard output",
	 AT(out), NOT_FROM_ENVIRONMENT},
	{"resume", WR_OPTION_SWITCH, NULL, NULL,
	 "skip files that are complete, and continue partial ones", AT(resume),
	 NOT_FROM_ENVIRONMENT},
	{"overwrite", WR_OPTION_SWITCH, NULL, NULL, "replace files that exist", AT(overwrite),
	 NOT_FROM_ENVIRONMENT},
	{"fail-with-body", WR_OPTION_SWITCH, NULL, NULL,
	 "write the body of an error to standard output too", AT(with_errors),
	 NOT_FROM_ENVIRONMENT},
	{"json", WR_OPTION_SWITCH, NULL, NULL,
	 "print the result of each URL, and the totals, as JSON", AT(json), NOT_FROM_ENVIRONMENT},
	{"quiet", WR_OPTION_SWITCH, NULL, NULL, "show no progress and no summary", AT(quiet),
	 NOT_FROM_ENVIRONMENT, .letter = 'q'},
};

static const struct wr_cli_option caching[] = {
	{"cache", WR_OPTION_TEXT, "DIR", NULL,
	 "keep responses in this folder, and ask the server whether\n"
	 "they are still right",
	 AT(cache), .variable = "WEIR_GET_CACHE"},
	{"cache-size", WR_OPTION_SIZE, "SIZE", "256M", "maximum size of the cache", AT(cache_bytes),
	 .min = 1 << 20, .max = (uint64_t)1 << 44, .variable = "WEIR_GET_CACHE_SIZE"},
	{"no-cache", WR_OPTION_SWITCH, NULL, NULL,
	 "use no cache, although WEIR_GET_CACHE names one", AT(no_cache), NOT_FROM_ENVIRONMENT},
};

static const struct wr_cli_option network[] = {
	{"cacert", WR_OPTION_TEXT, "FILE", NULL,
	 "trust these certificates (PEM) instead of those of the system", AT(cacert),
	 NOT_FROM_ENVIRONMENT},
	{"no-proxy", WR_OPTION_SWITCH, NULL, NULL,
	 "ignore the variables http_proxy, https_proxy and all_proxy", AT(no_proxy),
	 NOT_FROM_ENVIRONMENT},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Requests", requests, &given), WR_OPTION_GROUP("Pace", pacing, &given),
	WR_OPTION_GROUP("Output", output, &given),     WR_OPTION_GROUP("Cache", caching, &given),
	WR_OPTION_GROUP("Network", network, &given),
};

static const struct wr_cli_command command = {
	"get",
	"weir get URL [options]\n"
	"weir get URL… --out DIR [--concurrency N] [--rate 10/s] [--resume]\n"
	"weir get --from FILE --out DIR [options]\n"
	"\n"
	"Loads URLs, and respects the rate limits of their hosts: reads Retry-After, RateLimit "
	"and\n"
	"X-RateLimit fields, sends slowly enough to be refused rarely, waits as long as it is told "
	"to,\n"
	"and retries what can be retried. A terminal shows what it waits for.\n",
	"Examples\n"
	"  weir get https://api.example.com/v1/items\n"
	"  weir get --from urls.txt --out pages --concurrency 4 --resume\n"
	"  weir get --from urls.txt --out pages --rate 10/s --json > result.json\n"
	"  weir get https://example.com/large.iso --out . --resume\n"
	"\n"
	"Exit: 0 done, 2 usage error, 3 malformed URL, 6 host not resolved, 7 not connected,\n"
	"22 status other than 2xx, 23 file not written, 28 timeout or deadline, 35 TLS failed,\n"
	"47 redirect, 56 connection broken, 60 certificate not trusted, 63 response too large,\n"
	"130 interrupted.\n"
	"Of several URLs that failed, the first one of the list counts.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* ---- arguments ---- */

/* Reads a rate such as 10/s. Returns 0 or -1. */
static int read_rate(const char *text, uint32_t *count, uint64_t *period_ns)
{
	static const struct {
		const char *name;
		uint64_t seconds;
	} units[] = {{"s", 1},    {"second", 1},  {"m", 60},    {"min", 60},   {"minute", 60},
		     {"h", 3600}, {"hour", 3600}, {"d", 86400}, {"day", 86400}};
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '/' || number < 1 || number > 1000000)
		return -1;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(end + 1, units[i].name) == 0) {
			*count = (uint32_t)number;
			*period_ns = units[i].seconds * 1000000000u;
			return 0;
		}
	return -1;
}

static int check_words(void)
{
	if (words.count == 0 && !given.from)
		return wr_cli_usage("get", "no URL");
	if (!given.out && (words.count > 1 || given.from))
		return wr_cli_usage("get", "several URLs need --out DIR");
	if (!given.out && (given.resume || given.overwrite || given.json))
		return wr_cli_usage("get", "%s needs --out DIR",
				    given.json     ? "--json"
				    : given.resume ? "--resume"
						   : "--overwrite");
	if (given.table_dir && !given.table)
		return wr_cli_usage("get", "--table-dir needs --table");
	if (given.resume && given.overwrite)
		return wr_cli_usage("get", "--resume keeps files, --overwrite replaces them");
	if (given.resume && (given.data || given.method))
		return wr_cli_usage("get", "--resume works with GET only");
	if (given.with_errors && given.out)
		return wr_cli_usage("get",
				    "--fail-with-body is for standard output, without --out");
	return 0;
}

/* Reads the fields of -H. Returns 0 or an exit code. */
static int read_fields(struct weir_field fields[FIELDS_MAX])
{
	if (given.fields.count > FIELDS_MAX)
		return wr_cli_usage("get", "more than %u header fields", FIELDS_MAX);
	for (size_t i = 0; i < given.fields.count; i++) {
		char *name = strdup(given.fields.items[i]),
		     *colon = name ? strchr(name, ':') : NULL;

		if (!colon) {
			free(name);
			return wr_cli_usage("get", "-H '%.80s' is not of the form 'NAME: VALUE'",
					    given.fields.items[i]);
		}
		*colon++ = '\0';
		fields[i] = (struct weir_field){name, colon + strspn(colon, " \t")};
		if (given.resume && strcasecmp(name, "range") == 0)
			return wr_cli_usage("get", "--resume excludes -H 'Range: …'");
	}
	return 0;
}

/* Reads the body of --data. Returns 0 or an exit code. The caller frees *bytes. */
static int read_data(char **bytes, size_t *len)
{
	FILE *file;

	*bytes = NULL;
	*len = 0;
	if (!given.data)
		return 0;
	if (given.data[0] != '@') {
		*bytes = strdup(given.data);
		*len = strlen(given.data);
		return *bytes ? 0 : GET_MEMORY;
	}
	file = fopen(given.data + 1, "re");
	*bytes = malloc(DATA_MAX + 1);
	if (file && *bytes)
		*len = fread(*bytes, 1, DATA_MAX + 1, file);
	if (!file || !*bytes || ferror(file) || *len > DATA_MAX) {
		fprintf(stderr, "weir get: cannot read %s: %s\n", given.data + 1,
			*len > DATA_MAX ? "it is larger than 64 MiB" : strerror(errno));
		if (file)
			fclose(file);
		return GET_READ;
	}
	fclose(file);
	return 0;
}

/* ---- running ---- */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

/* The state of a run. */
struct get {
	struct weir_client *client;
	struct get_list list;
	struct get_files files;
	struct get_report report;
	struct weir_field fields[FIELDS_MAX];
	char *data;
	size_t data_len;
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
	item->files = given.out ? &get->files : NULL;
	item->with_errors = given.with_errors;
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
	bool continues = !given.data && !given.method;
	struct weir_request request = {.size = sizeof request,
				       .flags = (continues ? WEIR_REQUEST_CONTINUE : 0) |
						(given.retry_all ? WEIR_REQUEST_RETRY : 0),
				       .method = given.method ? given.method
						 : given.data ? "POST"
							      : "GET",
				       .url = item->url,
				       .fields = get->fields,
				       .field_count = given.fields.count,
				       .body = get->data,
				       .body_len = get->data_len,
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
	int rc;

	if (!item || !item->url) {
		free(item);
		fputs("weir get: out of memory\n", stderr);
		get->at_end = true;
		get->report.exit = GET_MEMORY;
		return;
	}
	if (wrong) {
		end_item(get, item, NULL, GET_FAILED, GET_MALFORMED, wrong);
		return;
	}
	found = item->files ? wr_cli_get_file_find(item) : GET_COMPLETE;
	if (found == GET_SKIPPED) {
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
		wr_cli_get_report_progress(&get->report, wr_cli_get_list_part(&get->list));
	}
}

static int open_client(struct get *get)
{
	struct weir_client_opts opts = {.size = sizeof opts,
					.flags = (given.no_proxy ? WEIR_CLIENT_NO_PROXY : 0),
					.user_agent = given.user_agent,
					.cache_dir = given.no_cache ? NULL : given.cache,
					.cache_bytes = given.cache_bytes,
					.table = given.table,
					.table_dir = given.table_dir,
					.attempts = (uint32_t)given.attempts,
					.per_host = (uint32_t)given.concurrency,
					.transfers = (uint32_t)given.concurrency,
					.redirects = (uint32_t)given.redirects,
					.connect_ns = given.connect_ns,
					.attempt_ns = given.timeout_ns,
					.deadline_ns = given.deadline_ns,
					.ca_file = given.cacert,
					.on_event = wr_cli_get_report_event,
					.context = &get->report};
	struct weir_error error;

	if (given.rate && read_rate(given.rate, &opts.rate_count, &opts.rate_ns) < 0)
		return wr_cli_usage("get", "--rate %s is not a rate such as 10/s, 100/m or 5000/h",
				    given.rate);
	if (weir_client_open(&opts, &get->client, &error) < 0)
		return wr_cli_fail("get", &error, GET_USAGE);
	return 0;
}

/* Runs with the client open. Returns the exit code. */
static int run_opened(struct get *get)
{
	struct sigaction action = {.sa_handler = on_signal};
	int code;

	if (wr_cli_get_list_open(&get->list, &words, given.from) < 0)
		return GET_READ;
	get->files.resume = given.resume;
	get->files.overwrite = given.overwrite;
	if (given.out && wr_cli_get_files_open(&get->files, given.out) < 0)
		return GET_WRITE;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	wr_cli_get_report_begin(&get->report, given.json, given.quiet);
	run(get);
	code = (int)wr_cli_get_report_end(&get->report, get->client, interrupted != 0);
	if (given.out)
		wr_cli_get_files_close(&get->files);
	return code;
}

int wr_cli_get(int argc, char **argv)
{
	static struct get get;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	code = check_words();
	if (code == 0)
		code = read_fields(get.fields);
	if (code == 0)
		code = read_data(&get.data, &get.data_len);
	if (code == 0)
		code = open_client(&get);
	if (code == 0)
		code = run_opened(&get);
	weir_client_close(get.client);
	wr_cli_get_list_close(&get.list);
	free(get.data);
	for (size_t i = 0; i < given.fields.count && i < FIELDS_MAX; i++)
		free((char *)(uintptr_t)get.fields[i].name);
	return code;
}
