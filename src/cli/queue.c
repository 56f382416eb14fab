/* weir queue: lists, shows, retries and drops deferred requests, through the admin API of the
 * service that has the queue. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/client/client.h"
#include "wire/json.h"

#define PATH_BYTES 1024
#define PAGE 500 /* number of requests that are checked in one step of retry or drop */

static struct queue_arguments {
	struct wr_cli_client_admin service;
	const char *state, *rule, *key;
	uint64_t count, after;
	bool all, json;
} given;
static struct wr_cli_words words; /* the verb, then the IDs of requests */

#define AT(field) .at = offsetof(struct queue_arguments, field), .variable = WR_NO_VARIABLE

static const struct wr_cli_option options[] = {
	{"state", WR_OPTION_TEXT, "STATE", NULL,
	 "requests in this state: waiting, delivering, delivered,\n"
	 "dead or dropped",
	 AT(state)},
	{"rule", WR_OPTION_TEXT, "RULE", NULL, "requests of this rule", AT(rule)},
	{"key", WR_OPTION_TEXT, "KEY", NULL, "requests of this key", AT(key)},
	{"all", WR_OPTION_SWITCH, NULL, NULL, "retry, drop: all requests", AT(all)},
	{"count", WR_OPTION_NUMBER, "N", "50", "list: at most this number of requests", AT(count)},
	{"after", WR_OPTION_NUMBER, "ID", NULL, "list: requests after this one", AT(after)},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the service's response as JSON", AT(json)},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	WR_CLIENT_ADMIN_GROUPS(given.service),
};

static const struct wr_cli_command command = {
	"queue",
	"weir queue stats\n"
	"weir queue list [--state STATE] [--rule RULE] [--key KEY] [--count N] [--after ID]\n"
	"weir queue show ID\n"
	"weir queue retry ID… | --state STATE | --rule RULE | --key KEY | --all\n"
	"weir queue drop  ID… | --state STATE | --rule RULE | --key KEY | --all\n"
	"\n"
	"Requests that a rule with `on_limit: defer` refused and that are delivered later.\n"
	"\n"
	"  stats   number of requests, the age of the oldest, and counts of deliveries\n"
	"  list    requests in order of acceptance\n"
	"  show    one request with its header fields and its body\n"
	"  retry   makes waiting requests due at once. Dead requests wait again, with all "
	"attempts\n"
	"          and their age reset, as far as the queue has room for them\n"
	"  drop    removes waiting and dead requests for good. Requests in delivery stay\n",
	"Examples\n"
	"  weir queue stats\n"
	"  weir queue list --state dead\n"
	"  weir queue retry --state dead --rule shop/orders/1s\n"
	"  weir queue drop 4711\n"
	"\n"
	"Exit: 0 done, 1 there is no such request, 2 usage error or no service answered.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* ---- stats, show, list ---- */

/* Prints the response of the admin API, as JSON or with the function `print`. */
static int show_answer(const char *path, int (*print)(const json_t *))
{
	json_t *answer;
	int code = wr_cli_client_admin(&given.service, "queue", "GET", path, NULL, &answer);

	if (code != WR_EXIT_YES)
		return code;
	if (given.json)
		return wr_cli_json_print(answer, WR_EXIT_YES);
	code = print(answer);
	json_decref(answer);
	return code;
}

static int show_stats(const char *verb)
{
	(void)verb;
	return show_answer("/v1/queue", wr_cli_queue_print_stats);
}

static int show_request(const char *verb)
{
	char path[64];

	if (words.count != 2)
		return wr_cli_usage("queue", "%s needs the ID of one request", verb);
	snprintf(path, sizeof path, "/v1/queue/request?id=%s", words.items[1]);
	return show_answer(path, wr_cli_queue_print_request);
}

static void add_parameter(char *path, const char *name, const char *value)
{
	size_t len = strlen(path);

	len += value ? (size_t)snprintf(path + len, PATH_BYTES - len, "&%s=", name) : 0;
	for (; value && *value && len + 4 < PATH_BYTES; value++)
		len += (size_t)snprintf(path + len, PATH_BYTES - len, "%%%02x",
					(unsigned char)*value);
}

static int list_requests(const char *verb)
{
	char path[PATH_BYTES];

	(void)verb;
	snprintf(path, sizeof path, "/v1/queue/requests?count=%llu&after=%llu",
		 (unsigned long long)given.count, (unsigned long long)given.after);
	add_parameter(path, "state", given.state);
	add_parameter(path, "rule", given.rule);
	add_parameter(path, "key", given.key);
	return show_answer(path, wr_cli_queue_print_list);
}

/* ---- retry and drop ---- */

struct queue_progress {
	json_int_t changed;
	json_int_t left; /* number of dead letters not retried, because the queue is full */
	json_int_t next; /* ID at which the next step starts; 0: all requests were checked */
	json_int_t end;
};

/* Sends one step of a retry or drop to the service and updates `at` from the response. Frees
 * `order`. Returns an exit code. */
static int run_step(const char *path, json_t *order, struct queue_progress *at)
{
	json_t *answer;
	int code = wr_cli_client_admin(&given.service, "queue", "POST", path, order, &answer);

	if (code != WR_EXIT_YES)
		return code;
	at->changed += json_integer_value(json_object_get(answer, "changed"));
	at->left += json_integer_value(json_object_get(answer, "left"));
	at->next = json_integer_value(json_object_get(answer, "next"));
	at->end = json_integer_value(json_object_get(answer, "end"));
	json_decref(answer);
	return WR_EXIT_YES;
}

/* Prints the progress if stderr is a terminal. */
static void print_progress(const char *verb, const struct queue_progress *at)
{
	if (given.json || !isatty(STDERR_FILENO))
		return;
	if (at->next)
		fprintf(stderr, "\r%s: %lld so far, %lld %% checked", verb, (long long)at->changed,
			at->end ? (long long)(at->next * 100 / at->end) : 0);
	else
		fprintf(stderr, "\r\033[K");
}

static int print_changed(const char *verb, const struct queue_progress *at, int code)
{
	if (given.json)
		return wr_cli_json_print(
			json_pack("{s:I, s:I}", "changed", at->changed, "left", at->left), code);
	printf("%lld %s\n", (long long)at->changed,
	       strcmp(verb, "drop") == 0 ? "dropped" : "to be retried");
	if (at->left)
		printf("%lld stay dead: the queue has no room for them\n", (long long)at->left);
	return code;
}

static int change_by_id(const char *verb, const char *path)
{
	struct queue_progress at = {0};

	for (size_t i = 1; i < words.count; i++) {
		json_t *order =
			json_pack("{s:I}", "id", (json_int_t)strtoll(words.items[i], NULL, 10));
		json_int_t before = at.changed;

		if (run_step(path, order, &at) == WR_EXIT_USAGE)
			return WR_EXIT_USAGE;
		if (at.changed == before)
			fprintf(stderr, "weir queue: %s: nothing to %s\n", words.items[i], verb);
	}
	return print_changed(verb, &at,
			     at.changed == (json_int_t)words.count - 1 ? WR_EXIT_YES : WR_EXIT_NO);
}

static void set_text(json_t *order, const char *name, const char *value)
{
	if (value)
		json_object_set_new(order, name, wr_wire_json_text(wr_str(value)));
}

static int change_requests(const char *verb)
{
	bool by_property = given.all || given.state || given.rule || given.key;
	bool by_id = words.count > 1;
	struct queue_progress at = {0};
	char path[32];
	int code;

	if (by_id == by_property)
		return wr_cli_usage(
			"queue", "%s needs either IDs, or --state, --rule, --key or --all", verb);
	snprintf(path, sizeof path, "/v1/queue/%s", verb);
	if (by_id)
		return change_by_id(verb, path);
	do {
		json_t *order = json_pack("{s:i, s:I}", "count", PAGE, "after", at.next);

		set_text(order, "state", given.state);
		set_text(order, "rule", given.rule);
		set_text(order, "key", given.key);
		if (given.all)
			json_object_set_new(order, "all", json_true());
		code = run_step(path, order, &at);
		if (code != WR_EXIT_YES)
			return code;
		print_progress(verb, &at);
	} while (at.next);
	return print_changed(verb, &at, WR_EXIT_YES);
}

/* ---- the command ---- */

static const struct {
	const char *name;
	int (*run)(const char *verb);
	bool takes_ids;
} verbs[] = {{"stats", show_stats, false},
	     {"list", list_requests, false},
	     {"show", show_request, true},
	     {"retry", change_requests, true},
	     {"drop", change_requests, true}};

int wr_cli_queue(int argc, char **argv)
{
	const char *verb;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (words.count == 0)
		return wr_cli_usage("queue", "stats, list, show, retry or drop is needed");
	verb = words.items[0];
	for (size_t i = 1; i < words.count; i++)
		if (strlen(words.items[i]) >= 20 || !words.items[i][0] ||
		    words.items[i][strspn(words.items[i], "0123456789")])
			return wr_cli_usage("queue", "'%s' is not the ID of a request: a number",
					    words.items[i]);
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(verbs[i].name, verb) != 0)
			continue;
		if (words.count > 1 && !verbs[i].takes_ids)
			return wr_cli_usage("queue", "%s takes no ID", verb);
		return verbs[i].run(verb);
	}
	return wr_cli_usage("queue", "'%s' is not one of: stats, list, show, retry, drop", verb);
}
