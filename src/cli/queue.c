/* weir queue: deferred requests, by the admin API of whoever keeps them. */
#include "cli/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "wire/json.h"

#define PATH_BYTES 1024
#define LIST_USUAL 50
#define PAGE 500 /* looked at in one step of what takes long */

static const char help[] =
	"weir queue stats\n"
	"weir queue list [--state STATE] [--rule RULE] [--key KEY] [--count N] [--after ID]\n"
	"weir queue show ID\n"
	"weir queue retry ID… | --state STATE | --rule RULE | --key KEY | --all\n"
	"weir queue drop  ID… | --state STATE | --rule RULE | --key KEY | --all\n"
	"\n"
	"Requests that a rule with `on_limit: defer` refused and that are delivered later.\n"
	"\n"
	"  stats   how many wait, since when, and how deliveries go\n"
	"  list    requests in the order they came; STATE is waiting, delivering, delivered, dead\n"
	"          or dropped\n"
	"  show    one with its header fields and its body\n"
	"  retry   waiting ones are due at once; dead ones wait again, with all their tries and\n"
	"          their age new, as far as the queue has room for them\n"
	"  drop    waiting and dead ones are given up for good; not one that is being delivered\n"
	"\n" WR_CLIENT_ADMIN_HELP "  --json              what the service answered\n"
	"\n"
	"Examples\n"
	"  weir queue stats\n"
	"  weir queue list --state dead\n"
	"  weir queue retry --state dead --rule shop/orders/1s\n"
	"  weir queue drop 4711\n"
	"\n"
	"Exit: 0 done, 1 there is no such request, 2 not understood or nobody answers.\n";

/* ---- words ---- */

enum option {
	O_STATE,
	O_RULE,
	O_KEY,
	O_COUNT,
	O_AFTER,
	O_ADMIN,
	O_TOKEN,
	O_TABLE,
	O_DIR,
	OPTION_COUNT
};

static const char *const options[OPTION_COUNT] = {"--state",      "--rule",  "--key",
						  "--count",      "--after", "--admin",
						  "--token-file", "--table", "--dir"};

struct arguments {
	const char *verb;
	const char *value[OPTION_COUNT];
	char **ids;
	int id_count;
	bool all, json, help;
};

static bool is_number(const char *text)
{
	return text[0] && strlen(text) < 20 && text[strspn(text, "0123456789")] == '\0';
}

/* An option and what is behind it; 0: it is none. */
static int read_option(int argc, char **argv, struct arguments *a)
{
	for (int i = 0; i < OPTION_COUNT; i++) {
		size_t len = strlen(options[i]);

		if (strncmp(argv[0], options[i], len) != 0)
			continue;
		if (argv[0][len] == '=') {
			a->value[i] = argv[0] + len + 1;
			return 1;
		}
		if (argv[0][len] == '\0' && argc > 1) {
			a->value[i] = argv[1];
			return 2;
		}
	}
	return 0;
}

static int read_words(int argc, char **argv, struct arguments *a)
{
	for (int i = 1, taken; i < argc; i += taken) {
		taken = 1;
		if (strcmp(argv[i], "--help") == 0)
			a->help = true;
		else if (strcmp(argv[i], "--json") == 0)
			a->json = true;
		else if (strcmp(argv[i], "--all") == 0)
			a->all = true;
		else if (argv[i][0] == '-') {
			taken = read_option(argc - i, argv + i, a);
			if (taken == 0)
				return wr_cli_usage("queue", "%s is not an option, or says nothing",
						    argv[i]);
		} else if (!a->verb)
			a->verb = argv[i];
		else if (is_number(argv[i]))
			a->ids[a->id_count++] = argv[i];
		else
			return wr_cli_usage("queue", "'%s' is not the number of a request",
					    argv[i]);
	}
	return 0;
}

/* ---- asking ---- */

static int ask(const struct arguments *a, const char *method, const char *path, json_t *body,
	       struct wr_client_reply *reply)
{
	struct wr_client_admin flags = {a->value[O_ADMIN], a->value[O_TOKEN], a->value[O_TABLE],
					a->value[O_DIR]};
	struct weir_error error;
	int code;

	if (wr_client_admin(&flags, method, path, body, reply, &error) < 0) {
		fprintf(stderr, "weir queue: %s\n", error.text);
		return WR_EXIT_USAGE;
	}
	if (reply->status == 200 && reply->json)
		return WR_EXIT_YES;
	code = wr_client_problem("queue", reply);
	json_decref(reply->json);
	return code;
}

/* Answers with what was got, or by `tell`. */
static int show_answer(const struct arguments *a, const char *path, int (*tell)(const json_t *))
{
	struct wr_client_reply reply;
	int code = ask(a, "GET", path, NULL, &reply);

	if (code != WR_EXIT_YES)
		return code;
	if (a->json)
		return wr_json_print(reply.json, WR_EXIT_YES);
	code = tell(reply.json);
	json_decref(reply.json);
	return code;
}

static int stats(const struct arguments *a)
{
	return show_answer(a, "/v1/queue", queue_tell_stats);
}

static int show(const struct arguments *a)
{
	char path[64];

	if (a->id_count != 1)
		return wr_cli_usage("queue", "show wants the number of a request");
	snprintf(path, sizeof path, "/v1/queue/request?id=%s", a->ids[0]);
	return show_answer(a, path, queue_tell_request);
}

/* ---- list ---- */

static void put_escaped(char *path, const char *name, const char *value)
{
	size_t len = strlen(path);

	len += (size_t)snprintf(path + len, PATH_BYTES - len, "&%s=", name);
	for (; *value && len + 4 < PATH_BYTES; value++)
		len += (size_t)snprintf(path + len, PATH_BYTES - len, "%%%02x",
					(unsigned char)*value);
}

static int list(const struct arguments *a)
{
	char path[PATH_BYTES] = "/v1/queue/requests?count=";
	const char *count = a->value[O_COUNT];

	if ((count && !is_number(count)) || (a->value[O_AFTER] && !is_number(a->value[O_AFTER])))
		return wr_cli_usage("queue", "--count and --after want numbers");
	if (count)
		strncat(path, count, 20);
	else
		snprintf(path + strlen(path), 8, "%d", LIST_USUAL);
	for (int i = O_STATE; i <= O_KEY; i++)
		if (a->value[i])
			put_escaped(path, options[i] + 2, a->value[i]);
	if (a->value[O_AFTER])
		put_escaped(path, "after", a->value[O_AFTER]);
	return show_answer(a, path, queue_tell_list);
}

/* ---- retry and drop ---- */

static json_t *order_of(const struct arguments *a)
{
	json_t *order = json_object();

	for (int i = O_STATE; i <= O_KEY; i++)
		if (a->value[i])
			json_object_set_new(order, options[i] + 2,
					    wr_json_text(wr_str(a->value[i])));
	if (a->all)
		json_object_set_new(order, "all", json_true());
	return order;
}

struct progress {
	json_int_t changed;
	json_int_t left; /* dead ones that the queue has no room for */
	json_int_t next; /* where to go on; 0: that was all */
	json_int_t end;
};

/* One step. Counts of `at` grow. */
static int step(const struct arguments *a, const char *path, json_t *order, struct progress *at)
{
	struct wr_client_reply reply;
	int code = ask(a, "POST", path, order, &reply);

	if (code != WR_EXIT_YES)
		return code;
	at->changed += json_integer_value(json_object_get(reply.json, "changed"));
	at->left += json_integer_value(json_object_get(reply.json, "left"));
	at->next = json_integer_value(json_object_get(reply.json, "next"));
	at->end = json_integer_value(json_object_get(reply.json, "end"));
	json_decref(reply.json);
	return WR_EXIT_YES;
}

/* For who waits at a terminal. */
static void tell_progress(const struct arguments *a, const struct progress *at)
{
	if (a->json || !isatty(STDERR_FILENO))
		return;
	if (at->next)
		fprintf(stderr, "\r%s: %lld so far, %lld %% looked at", a->verb,
			(long long)at->changed,
			at->end ? (long long)(at->next * 100 / at->end) : 0);
	else
		fprintf(stderr, "\r\033[K");
}

static int tell_changed(const struct arguments *a, const struct progress *at, int code)
{
	bool drop = strcmp(a->verb, "drop") == 0;

	if (a->json)
		return wr_json_print(
			json_pack("{s:I, s:I}", "changed", at->changed, "left", at->left), code);
	printf("%lld %s\n", (long long)at->changed, drop ? "dropped" : "to be tried again");
	if (at->left)
		printf("%lld stay dead: the queue has no room for them\n", (long long)at->left);
	return code;
}

static int change_ids(const struct arguments *a, const char *path)
{
	struct progress at = {0};

	for (int i = 0; i < a->id_count; i++) {
		json_t *order = json_pack("{s:I}", "id", (json_int_t)strtoll(a->ids[i], NULL, 10));
		json_int_t before = at.changed;
		int code = step(a, path, order, &at);

		if (code == WR_EXIT_USAGE)
			return code;
		if (at.changed == before)
			fprintf(stderr, "weir queue: %s: nothing to %s\n", a->ids[i], a->verb);
	}
	return tell_changed(a, &at, at.changed == a->id_count ? WR_EXIT_YES : WR_EXIT_NO);
}

/* Whether it is said which ones by what they are. */
static bool is_choosy(const struct arguments *a)
{
	return a->all || a->value[O_STATE] || a->value[O_RULE] || a->value[O_KEY];
}

static int change(const struct arguments *a)
{
	struct progress at = {0};
	char path[32];

	snprintf(path, sizeof path, "/v1/queue/%s", a->verb);
	if (a->id_count && is_choosy(a))
		return wr_cli_usage("queue",
				    "%s wants either numbers, or --state, --rule, --key "
				    "or --all",
				    a->verb);
	if (a->id_count)
		return change_ids(a, path);
	if (!is_choosy(a))
		return wr_cli_usage("queue",
				    "%s wants to know which: ID…, --state, --rule, --key "
				    "or --all",
				    a->verb);
	do {
		json_t *order = order_of(a);
		int code;

		json_object_set_new(order, "count", json_integer(PAGE));
		json_object_set_new(order, "after", json_integer(at.next));
		code = step(a, path, order, &at);
		if (code != WR_EXIT_YES)
			return code;
		tell_progress(a, &at);
	} while (at.next);
	return tell_changed(a, &at, WR_EXIT_YES);
}

/* ---- the command ---- */

static const struct {
	const char *name;
	int (*run)(const struct arguments *a);
	bool takes_ids;
} verbs[] = {{"stats", stats, false},
	     {"list", list, false},
	     {"show", show, true},
	     {"retry", change, true},
	     {"drop", change, true}};

static int run(const struct arguments *a)
{
	if (!a->verb)
		return wr_cli_usage("queue", "stats, list, show, retry or drop");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(verbs[i].name, a->verb) != 0)
			continue;
		if (a->id_count && !verbs[i].takes_ids)
			return wr_cli_usage("queue", "%s takes no number", a->verb);
		return verbs[i].run(a);
	}
	return wr_cli_usage("queue", "there is no '%s'; there are stats, list, show, retry, drop",
			    a->verb);
}

int wr_cli_queue(int argc, char **argv)
{
	struct arguments a = {.ids = calloc((size_t)argc, sizeof *a.ids)};
	int code;

	if (!a.ids)
		return WR_EXIT_USAGE;
	code = read_words(argc, argv, &a);
	if (code == 0 && a.help)
		fputs(help, stdout);
	else if (code == 0)
		code = run(&a);
	free(a.ids);
	return code;
}
