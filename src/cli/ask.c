/* weir ask: asks a running service for one decision, over gRPC or HTTP, and prints it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "wire/rls/json.h"

#define MEMORY_BYTES ((size_t)2 << 20)
/* maximum size of a response as JSON: escaping turns a byte into at most six bytes */
#define JSON_MAX (16 * MEMORY_BYTES)

static struct ask_arguments {
	const char *grpc, *http;
	int64_t hits;
	bool json, has_hits, has_grpc;
} given;
static struct wr_cli_words words; /* the arguments DOMAIN KEY=VALUE… */

#define AT(field) .at = offsetof(struct ask_arguments, field)
#define GIVEN(field) .given_at = offsetof(struct ask_arguments, field)

static const struct wr_cli_option options[] = {
	{"grpc", WR_OPTION_TEXT, "ADDR", "127.0.0.1:8081",
	 "ask over gRPC without TLS: PORT, HOST:PORT, [IPV6]:PORT or\n"
	 "unix:/path",
	 AT(grpc), GIVEN(has_grpc)},
	{"http", WR_OPTION_TEXT, "ADDR", NULL, "ask POST /v1/check at this address instead",
	 AT(http), .variable = WR_NO_VARIABLE},
	{"hits", WR_OPTION_SIGNED, "N", "1", "cost of the request; with --http 0 only reads",
	 AT(hits), .max = UINT32_MAX, GIVEN(has_hits), .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole response as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {WR_OPTION_GROUP("Options", options, &given)};

static const struct wr_cli_command command = {
	"ask",
	"weir ask [--grpc ADDR | --http ADDR] [--hits N] [--json] DOMAIN KEY=VALUE…\n"
	"         [+ KEY=VALUE…]…\n"
	"\n"
	"Asks a running weir serve, or another service of Envoy's rate limit protocol, for one\n"
	"decision. The request counts. Words after a + form another descriptor.\n",
	"Examples\n"
	"  weir ask api user=7\n"
	"  weir ask --http 8082 --hits 0 api route=/v1/posts user=7\n"
	"  weir ask --grpc unix:/run/weir/grpc.sock api user=7 + plan=free\n"
	"\n"
	"Exit: 0 admitted, 1 refused, 2 usage error or no service answered.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* Converts the arguments KEY=VALUE… to [{"entries": [{"key": …, "value": …}, …]}, …]. The argument
 * "+" begins the next descriptor. On failure reports the error and returns NULL. */
static json_t *make_descriptors(void)
{
	json_t *list = json_array(), *entries = json_array();

	json_array_append_new(list, json_pack("{s:o}", "entries", entries));
	for (size_t i = 1; i < words.count; i++) {
		json_t *entry;

		if (strcmp(words.items[i], "+") == 0) {
			entries = json_array();
			json_array_append_new(list, json_pack("{s:o}", "entries", entries));
			continue;
		}
		entry = wr_cli_client_entry(words.items[i]);
		if (!entry) {
			wr_cli_usage("ask", "'%s' is not KEY=VALUE", words.items[i]);
			json_decref(list);
			return NULL;
		}
		json_array_append_new(entries, entry);
	}
	return list;
}

/* ---- /v1/check ---- */

static void print_answer(const json_t *answer)
{
	const char *verdict = json_string_value(json_object_get(answer, "verdict"));
	const char *rule = json_string_value(json_object_get(answer, "rule"));
	char span[WR_CLIENT_SPAN];
	bool admitted = json_is_true(json_object_get(answer, "admitted"));

	printf("%s", admitted ? "admitted" : "refused");
	if (verdict && strcmp(verdict, "delay") == 0)
		printf(" after %s",
		       wr_cli_client_span(wr_cli_client_number(answer, "delay"), span));
	if (json_is_null(json_object_get(answer, "limit"))) {
		printf(", no limit applies");
	} else {
		printf(", %.0f of %.0f left%s", wr_cli_client_number(answer, "remaining"),
		       wr_cli_client_number(answer, "limit"), rule ? " in " : "");
		wr_cli_client_print(rule ? rule : "");
	}
	if (!admitted && json_is_null(json_object_get(answer, "retry_after")))
		printf(", waiting does not help");
	else if (!admitted)
		printf(", try again in %s",
		       wr_cli_client_span(wr_cli_client_number(answer, "retry_after"), span));
	putchar('\n');
}

static int ask_http(const struct ask_arguments *a, json_t *descriptors)
{
	json_t *body = json_pack("{s:o, s:o}", "domain", wr_wire_json_text(wr_str(words.items[0])),
				 "descriptors", descriptors);
	struct wr_cli_client_reply reply;
	struct weir_error error;
	int code;

	if (a->has_hits)
		json_object_set_new(body, "hits", json_integer(a->hits));
	if (wr_cli_client_http(a->http, NULL, "POST", "/v1/check", NULL, body, &reply, &error) < 0)
		return wr_cli_fail("ask", &error, WR_EXIT_USAGE);
	if (reply.status != 200 || !reply.json) {
		wr_cli_client_problem("ask", &reply);
		json_decref(reply.json);
		return WR_EXIT_USAGE;
	}
	code = json_is_true(json_object_get(reply.json, "admitted")) ? WR_EXIT_YES : WR_EXIT_NO;
	if (a->json)
		return wr_cli_json_print(reply.json, code);
	print_answer(reply.json);
	json_decref(reply.json);
	return code;
}

/* ---- gRPC ---- */

/* Prints the time unit of a limit in lower case: "minute" for MINUTE. */
static void print_unit(Pb__RateLimitResponse__RateLimit__Unit unit)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
		&pb__rate_limit_response__rate_limit__unit__descriptor, (int)unit);
	const char *name = value && unit ? value->name : "period";

	for (; *name; name++)
		putchar(*name >= 'A' && *name <= 'Z' ? *name + ('a' - 'A') : *name);
}

static void print_status(const Pb__RateLimitResponse__DescriptorStatus *status)
{
	const Pb__RateLimitResponse__RateLimit *limit = status->current_limit;
	bool over = status->code == PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT;
	char span[WR_CLIENT_SPAN];

	printf("  %s", over ? "over limit" : "ok");
	if (limit) {
		printf(", %u left of %u per ", status->limit_remaining, limit->requests_per_unit);
		print_unit(limit->unit);
	}
	if (status->duration_until_reset)
		printf(", reset in %s",
		       wr_cli_client_span((double)status->duration_until_reset->seconds, span));
	putchar('\n');
}

static int print_json(const Pb__RateLimitResponse *response, int code)
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
	return wr_cli_json_print(json, code);
}

/* Builds the gRPC request from JSON, because this needs the least code. */
static Pb__RateLimitRequest *make_request(const struct ask_arguments *a, json_t *descriptors,
					  struct wr_rls_memory *memory)
{
	json_t *body = json_pack("{s:o, s:o}", "domain", wr_wire_json_text(wr_str(words.items[0])),
				 "descriptors", descriptors);
	struct wr_problem problem = {0};
	ProtobufCMessage *message;
	json_t *each;
	size_t i;
	char *text;

	json_array_foreach(descriptors, i, each)
		if (a->has_hits)
			json_object_set_new(each, "hitsAddend", json_integer(a->hits));
	text = json_dumps(body, JSON_COMPACT);
	message = text ? wr_rls_json_read(&pb__rate_limit_request__descriptor, wr_str(text), memory,
					  &problem)
		       : NULL;
	free(text);
	json_decref(body);
	return (Pb__RateLimitRequest *)message;
}

static int ask_grpc(const struct ask_arguments *a, json_t *descriptors)
{
	Pb__RateLimitResponse *response = NULL;
	struct weir_error error = {.text = "out of memory"};
	struct wr_rls_memory memory;
	Pb__RateLimitRequest *request;
	int code = WR_EXIT_USAGE;

	if (wr_rls_memory_init(&memory, MEMORY_BYTES) < 0)
		abort();
	request = make_request(a, descriptors, &memory);
	if (request)
		response = wr_cli_client_grpc(a->grpc, request, &memory, &error);
	if (!response) {
		wr_cli_fail("ask", &error, code);
	} else {
		code = response->overall_code == PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT
			       ? WR_EXIT_NO
			       : WR_EXIT_YES;
		if (a->json)
			print_json(response, code);
		else
			puts(code == WR_EXIT_YES ? "admitted" : "refused");
		for (size_t i = 0; !a->json && i < response->n_statuses; i++)
			print_status(response->statuses[i]);
	}
	wr_rls_memory_free(&memory);
	return code;
}

int wr_cli_ask(int argc, char **argv)
{
	json_t *descriptors;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (words.count < 2)
		return wr_cli_usage("ask", "DOMAIN and KEY=VALUE are missing");
	if (given.has_grpc && given.http)
		return wr_cli_usage("ask", "--grpc and --http cannot be used together");
	if (given.hits < 0)
		return wr_cli_usage("ask", "--hits is below 0; reservations give units back");
	descriptors = make_descriptors();
	if (!descriptors)
		return WR_EXIT_USAGE;
	return given.http ? ask_http(&given, descriptors) : ask_grpc(&given, descriptors);
}
