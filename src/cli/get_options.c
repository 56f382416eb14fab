/* The arguments of weir get: its options, their checks, header fields, and the body. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/get.h"

#define DATA_MAX ((size_t)64 << 20)
#define FIELDS_MAX 256u
#define NOT_FROM_ENVIRONMENT .variable = WR_NO_VARIABLE

static struct weir_field fields[FIELDS_MAX];
static struct get_arguments given = {.fields = fields};

#define AT(field) .at = offsetof(struct get_arguments, field)

static const struct wr_cli_option requests[] = {
	{"from", WR_OPTION_TEXT, "FILE", NULL,
	 "load the URLs of a file, one per line; - is standard input.\n"
	 "Empty lines and lines that begin with # are left out",
	 AT(from), NOT_FROM_ENVIRONMENT},
	{"header", WR_OPTION_REPEATED, "'NAME: VALUE'", NULL,
	 "add a header field to each request; may be repeated", AT(field_texts),
	 NOT_FROM_ENVIRONMENT, .letter = 'H'},
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
	"22 status other than 2xx, 23 file not written, 26 file not read, 28 timeout or deadline,\n"
	"35 TLS failed, 47 redirect, 56 connection broken, 60 certificate not trusted,\n"
	"63 response too large, 130 interrupted.\n"
	"Of several URLs that failed, the first one of the list counts.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &given.urls,
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
	if (given.urls.count == 0 && !given.from)
		return wr_cli_usage("get", "no URL");
	if (!given.out && (given.urls.count > 1 || given.from))
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
static int read_fields(void)
{
	if (given.field_texts.count > FIELDS_MAX)
		return wr_cli_usage("get", "more than %u header fields", FIELDS_MAX);
	for (size_t i = 0; i < given.field_texts.count; i++) {
		char *name = strdup(given.field_texts.items[i]),
		     *colon = name ? strchr(name, ':') : NULL;

		if (!colon) {
			free(name);
			return wr_cli_usage("get", "-H '%.80s' is not of the form 'NAME: VALUE'",
					    given.field_texts.items[i]);
		}
		*colon++ = '\0';
		fields[i] = (struct weir_field){name, colon + strspn(colon, " \t")};
		given.field_count++;
		if (given.resume && strcasecmp(name, "range") == 0)
			return wr_cli_usage("get", "--resume excludes -H 'Range: …'");
	}
	return 0;
}

/* Reads the body of --data. Returns 0 or an exit code. */
static int read_data(void)
{
	FILE *file;

	if (!given.data)
		return 0;
	if (given.data[0] != '@') {
		given.body = strdup(given.data);
		given.body_len = strlen(given.data);
		return given.body ? 0 : GET_MEMORY;
	}
	file = fopen(given.data + 1, "re");
	given.body = malloc(DATA_MAX + 1);
	if (file && given.body)
		given.body_len = fread(given.body, 1, DATA_MAX + 1, file);
	if (!file || !given.body || ferror(file) || given.body_len > DATA_MAX) {
		fprintf(stderr, "weir get: cannot read %s: %s\n", given.data + 1,
			given.body_len > DATA_MAX ? "it is larger than 64 MiB" : strerror(errno));
		if (file)
			fclose(file);
		return GET_READ;
	}
	fclose(file);
	return 0;
}

const struct get_arguments *wr_cli_get_arguments(int argc, char **argv, int *code)
{
	if (!wr_cli_read(&command, argc, argv, code))
		return NULL;
	*code = check_words();
	if (*code == 0)
		*code = read_fields();
	if (*code == 0)
		*code = read_data();
	if (*code == 0 && given.rate &&
	    read_rate(given.rate, &given.rate_count, &given.rate_ns) < 0)
		*code = wr_cli_usage("get", "--rate %s is not a rate such as 10/s, 100/m or 5000/h",
				     given.rate);
	if (*code == 0)
		return &given;
	wr_cli_get_arguments_free();
	return NULL;
}

void wr_cli_get_arguments_free(void)
{
	for (size_t i = 0; i < given.field_count; i++)
		free((char *)(uintptr_t)fields[i].name);
	free(given.body);
}
