/* weir ask: one decision from a running service. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "wire/rls/json.h"

#define MEMORY_BYTES ((size_t)2 << 20)
#define JSON_MAX (16 * MEMORY_BYTES) /* of a response: a byte takes six at most */

static const char help[] =
	"weir ask [--grpc ADDR | --http ADDR] [--hits N] [--json] DOMAIN KEY=VALUE… [+ "
	"KEY=VALUE…]…\n"
	"\n"
	"Asks a running weir serve (or any service of Envoy's protocol) for one decision, which\n"
	"counts. Words after a + make one more descriptor.\n"
	"\n"
	"  --grpc ADDR   PORT, HOST:PORT, [IPV6]:PORT or unix:/path of Envoy's protocol in plain\n"
	"                text (WEIR_GRPC, or 127.0.0.1:8081)\n"
	"  --http ADDR   ask POST /v1/check there instead\n"
	"  --hits N      what it costs (1); with --http, 0 looks and below 0 gives back\n"
	"                (the service says to whom, by --refunds)\n"
	"  --json        the whole answer\n"
	"\n"
	"Exit: 0 admitted, 1 refused, 2 not understood or nobody answered.\n"
	"\n"
	"  weir ask api user=7\n"
	"  weir ask --http 8082 --hits 0 api route=/v1/posts user=7\n"
	"  weir ask --grpc unix:/run/weir/grpc.sock api user=7 + plan=free\n";

struct arguments {
	const char *grpc, *http;
	long long hits;
	bool json, help, has_hits;
	const char *domain;
	char **words;
	int word_count;
};

/* ---- words ---- */

static int parse_hits(struct arguments *a, const char *text)
{
	char *end;

	a->hits = strtoll(text, &end, 10);
	a->has_hits = true;
	if (*end || end == text || a->hits > UINT32_MAX || a->hits < -(long long)UINT32_MAX)
		return wr_cli_usage("ask", "'%s' is not a number of hits", text);
	return 0;
}

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {
		{"grpc", required_argument, NULL, 'g'}, {"http", required_argument, NULL, 't'},
		{"hits", required_argument, NULL, 'n'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},       {0}};
	int option, rc = 0;

	opterr = 0;
	while (rc == 0 && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'g')
			a->grpc = optarg;
		else if (option == 't')
			a->http = optarg;
		else if (option == 'n')
			rc = parse_hits(a, optarg);
		else if (option == 'j')
			a->json = true;
		else if (option == 'h')
			a->help = true;
		else
			rc = wr_cli_usage("ask", "'%s' is not understood", argv[optind - 1]);
	}
	if (rc || a->help)
		return rc;
	if (argc - optind < 2)
		return wr_cli_usage("ask", "DOMAIN and KEY=VALUE are missing");
	if (a->grpc && a->http)
		return wr_cli_usage("ask", "--grpc and --http at once");
	if (!a->http && a->hits < 0)
		return wr_cli_usage("ask", "--hits below 0 needs --http");
	a->domain = argv[optind];
	a->words = argv + optind + 1;
	a->word_count = argc - optind - 1;
	return 0;
}

/* [{"entries": [{"key": …, "value": …}, …]}, …], or NULL: said what is wrong. */
static json_t *make_descriptors(const struct arguments *a)
{
	json_t *list = json_array(), *entries = json_array();

	json_array_append_new(list, json_pack("{s:o}", "entries", entries));
	for (int i = 0; i < a->word_count; i++) {
		json_t *entry;

		if (strcmp(a->words[i], "+") == 0) {
			entries = json_array();
			json_array_append_new(list, json_pack("{s:o}", "entries", entries));
			continue;
		}
		entry = wr_client_entry(a->words[i]);
		if (!entry) {
			wr_cli_usage("ask", "'%s' is not KEY=VALUE", a->words[i]);
			json_decref(list);
			return NULL;
		}
		json_array_append_new(entries, entry);
	}
	return list;
}

/* ---- /v1/check ---- */

static double number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void tell_left(double remaining, double limit, const char *rule)
{
	printf(", %.0f of %.0f left", remaining, limit);
	if (rule) {
		printf(" in ");
		wr_client_print(rule);
	}
}

static void tell_answer(const json_t *answer)
{
	const char *verdict = json_string_value(json_object_get(answer, "verdict"));
	char span[WR_CLIENT_SPAN];
	bool admitted = json_is_true(json_object_get(answer, "admitted"));

	printf("%s", admitted ? "admitted" : "refused");
	if (verdict && strcmp(verdict, "delay") == 0)
		printf(" after %s", wr_client_span(number(answer, "delay"), span));
	if (json_is_null(json_object_get(answer, "limit")))
		printf(", no limit applies");
	else
		tell_left(number(answer, "remaining"), number(answer, "limit"),
			  json_string_value(json_object_get(answer, "rule")));
	if (!admitted && json_is_null(json_object_get(answer, "retry_after")))
		printf(", no wait will do");
	else if (!admitted)
		printf(", try again in %s", wr_client_span(number(answer, "retry_after"), span));
	putchar('\n');
}

static int ask_http(const struct arguments *a, json_t *descriptors)
{
	json_t *body = json_pack("{s:o, s:o}", "domain", wr_json_text(wr_str(a->domain)),
				 "descriptors", descriptors);
	struct wr_client_reply reply;
	struct weir_error error;
	int code;

	if (a->has_hits)
		json_object_set_new(body, "hits", json_integer(a->hits));
	if (wr_client_http(a->http, "POST", "/v1/check", NULL, body, &reply, &error) < 0) {
		fprintf(stderr, "weir ask: %s\n", error.text);
		return WR_EXIT_USAGE;
	}
	if (reply.status != 200 || !reply.json) {
		code = wr_client_problem("ask", &reply);
		json_decref(reply.json);
		return code == WR_EXIT_NO ? WR_EXIT_USAGE : code;
	}
	code = json_is_true(json_object_get(reply.json, "admitted")) ? WR_EXIT_YES : WR_EXIT_NO;
	if (a->json)
		return wr_json_print(reply.json, code);
	tell_answer(reply.json);
	json_decref(reply.json);
	return code;
}

/* ---- gRPC ---- */

/* MINUTE → minute */
static void tell_unit(Pb__RateLimitResponse__RateLimit__Unit unit)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
		&pb__rate_limit_response__rate_limit__unit__descriptor, (int)unit);
	const char *name = value && unit ? value->name : "period";

	for (; *name; name++)
		putchar(*name >= 'A' && *name <= 'Z' ? *name + ('a' - 'A') : *name);
}

static void tell_status(const Pb__RateLimitResponse__DescriptorStatus *status)
{
	const Pb__RateLimitResponse__RateLimit *limit = status->current_limit;
	bool over = status->code == PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT;
	char span[WR_CLIENT_SPAN];

	printf("  %s", over ? "over limit" : "ok");
	if (limit) {
		printf(", %u left of %u per ", status->limit_remaining, limit->requests_per_unit);
		tell_unit(limit->unit);
	}
	if (status->duration_until_reset)
		printf(", reset in %s",
		       wr_client_span((double)status->duration_until_reset->seconds, span));
	putchar('\n');
}

static void tell_response(const Pb__RateLimitResponse *response, bool admitted)
{
	puts(admitted ? "admitted" : "refused");
	for (size_t i = 0; i < response->n_statuses; i++)
		tell_status(response->statuses[i]);
}

static int print_response(const Pb__RateLimitResponse *response, int code)
{
	struct wr_json_out out;
	struct wr_buf buf;
	json_t *json;

	wr_buf_init(&buf, JSON_MAX);
	wr_json_begin(&out, &buf);
	wr_rls_json_write(&response->base, &out);
	if (wr_buf_failed(&buf))
		abort();
	json = json_loadb(buf.ptr, buf.len, JSON_ALLOW_NUL, NULL);
	wr_buf_free(&buf);
	return wr_json_print(json, code);
}

/* The question as protojson is the shortest way to a message. */
static Pb__RateLimitRequest *make_request(const struct arguments *a, json_t *descriptors,
					  struct wr_rls_memory *memory)
{
	json_t *body = json_pack("{s:o, s:o}", "domain", wr_json_text(wr_str(a->domain)),
				 "descriptors", descriptors);
	struct wr_problem problem = {0};
	ProtobufCMessage *message;
	json_t *each;
	size_t i;
	char *text;

	json_array_foreach(descriptors, i, each) if (a->has_hits)
		json_object_set_new(each, "hitsAddend", json_integer(a->hits));
	text = json_dumps(body, JSON_COMPACT);
	message = text ? wr_rls_json_read(&pb__rate_limit_request__descriptor, wr_str(text), memory,
					  &problem)
		       : NULL;
	free(text);
	json_decref(body);
	return (Pb__RateLimitRequest *)message;
}

static int ask_grpc(const struct arguments *a, json_t *descriptors)
{
	const char *address = wr_client_setting(a->grpc, "WEIR_GRPC", "127.0.0.1:8081");
	Pb__RateLimitResponse *response = NULL;
	struct weir_error error = {.text = "out of memory"};
	struct wr_rls_memory memory;
	Pb__RateLimitRequest *request;
	int code = WR_EXIT_USAGE;

	if (wr_rls_memory_init(&memory, MEMORY_BYTES) < 0)
		abort();
	request = make_request(a, descriptors, &memory);
	if (request)
		response = wr_client_grpc(address, request, &memory, &error);
	if (!response) {
		fprintf(stderr, "weir ask: %s\n", error.text);
	} else {
		code = response->overall_code == PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT
			       ? WR_EXIT_NO
			       : WR_EXIT_YES;
		if (a->json)
			print_response(response, code);
		else
			tell_response(response, code == WR_EXIT_YES);
	}
	wr_rls_memory_free(&memory);
	return code;
}

int wr_cli_ask(int argc, char **argv)
{
	struct arguments a = {.hits = 1, .domain = ""};
	json_t *descriptors;
	int rc = parse_arguments(argc, argv, &a);

	if (rc)
		return rc;
	if (a.help) {
		fputs(help, stdout);
		return WR_EXIT_YES;
	}
	descriptors = make_descriptors(&a);
	if (!descriptors)
		return WR_EXIT_USAGE;
	return a.http ? ask_http(&a, descriptors) : ask_grpc(&a, descriptors);
}
