/* weir ask: asks a running service for one decision, over gRPC or HTTP, and prints it. The options of
 * reservations are in ask_reserve.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "limiter/reservation.h"
#include "wire/rls/json.h"

/* maximum size of a response as JSON: escaping turns a byte into at most six bytes */
#define JSON_MAX (16 * WR_CLI_ASK_MEMORY)

#define SECOND_NS 1000000000ull

static struct wr_cli_ask given;
static struct wr_cli_words words; /* the arguments DOMAIN KEY=VALUE… */

#define AT(field) .at = offsetof(struct wr_cli_ask, field)
#define GIVEN(field) .given_at = offsetof(struct wr_cli_ask, field)

static const struct wr_cli_option options[] = {
	{"grpc", WR_OPTION_TEXT, "ADDR", "127.0.0.1:8081",
	 "ask over gRPC without TLS: PORT, HOST:PORT, [IPV6]:PORT or\n"
	 "unix:/path",
	 AT(grpc), GIVEN(has_grpc)},
	{"http", WR_OPTION_TEXT, "ADDR", NULL, "use the HTTP API at this address instead", AT(http),
	 .variable = WR_NO_VARIABLE},
	{"hits", WR_OPTION_SIGNED, "N", "1", "cost of the request; with --http 0 only reads",
	 AT(hits), .max = UINT32_MAX, GIVEN(has_hits), .variable = WR_NO_VARIABLE},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole response as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option reservations[] = {
	{"reserve", WR_OPTION_SWITCH, NULL, NULL,
	 "reserve --hits units, and slots of concurrent limits;\n"
	 "prints the token of the reservation in the last line",
	 AT(reserve), .variable = WR_NO_VARIABLE},
	{"ttl", WR_OPTION_DURATION, "TIME", NULL,
	 "with --reserve: how long the reservation can be settled\n"
	 "(default: 1m, or the max_hold of its slots)",
	 AT(ttl_ns), .min = SECOND_NS, .max = WR_RESERVATION_TTL_MAX_NS,
	 .variable = WR_NO_VARIABLE},
	{"commit", WR_OPTION_TEXT, "TOKEN", NULL,
	 "settle the reservation: charge --actual units; DOMAIN\n"
	 "KEY=VALUE… are charged if the reservation is unknown",
	 AT(commit), .variable = WR_NO_VARIABLE},
	{"actual", WR_OPTION_NUMBER, "N", NULL, "with --commit: the units that were used",
	 AT(actual), .max = UINT32_MAX, GIVEN(has_actual), .variable = WR_NO_VARIABLE},
	{"cancel", WR_OPTION_TEXT, "TOKEN", NULL, "give all units and slots back", AT(cancel),
	 .variable = WR_NO_VARIABLE},
	{"release", WR_OPTION_TEXT, "TOKEN", NULL,
	 "give slots back; other units stay charged as reserved", AT(release),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Options", options, &given),
	WR_OPTION_GROUP("Reservations", reservations, &given)};

static const struct wr_cli_command command = {
	"ask",
	"weir ask [--grpc ADDR | --http ADDR] [--hits N] [--json] DOMAIN KEY=VALUE…\n"
	"         [+ KEY=VALUE…]…\n"
	"weir ask --reserve [--ttl TIME] [OPTION…] DOMAIN KEY=VALUE… [+ KEY=VALUE…]…\n"
	"weir ask --commit TOKEN --actual N [OPTION…] [DOMAIN KEY=VALUE… [+ KEY=VALUE…]…]\n"
	"weir ask --cancel TOKEN | --release TOKEN [OPTION…]\n"
	"\n"
	"Asks a running weir serve, or another service of Envoy's rate limit protocol, for one\n"
	"decision. The request counts. Words after a + form another descriptor.\n"
	"\n"
	"With --reserve, the cost of the request can be corrected later: --commit charges the\n"
	"units that were used, --cancel gives everything back.\n",
	"Examples\n"
	"  weir ask api user=7\n"
	"  weir ask --http 8082 --hits 0 api route=/v1/posts user=7\n"
	"  weir ask --grpc unix:/run/weir/grpc.sock api user=7 + plan=free\n"
	"  token=$(weir ask --reserve --hits 600 api tenant=7 | tail -n 1)\n"
	"  weir ask --commit \"$token\" --actual 500\n"
	"\n"
	"Exit: 0 admitted or settled, also if it was settled before; 1 refused, or the "
	"reservation\n"
	"is unknown or has expired; 2 usage error or no service answered.\n",
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

void wr_cli_ask_print_decision(const json_t *answer)
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
}

static int ask_http(const struct wr_cli_ask *a, json_t *body)
{
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
	wr_cli_ask_print_decision(reply.json);
	putchar('\n');
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

int wr_cli_ask_print_message(const ProtobufCMessage *message, int code)
{
	struct wr_json_out out;
	struct wr_buf buf;
	json_t *json;

	wr_buf_init(&buf, JSON_MAX);
	wr_json_begin(&out, &buf);
	wr_rls_json_write(message, &out);
	if (wr_buf_failed(&buf))
		abort();
	json = json_loadb(buf.ptr, buf.len, JSON_ALLOW_NUL, NULL);
	wr_buf_free(&buf);
	return wr_cli_json_print(json, code);
}

/* gRPC requests are built from JSON, because this needs the least code. */
ProtobufCMessage *wr_cli_ask_message(const ProtobufCMessageDescriptor *type, const json_t *body,
				     struct wr_rls_memory *memory)
{
	struct wr_problem problem = {0};
	ProtobufCMessage *message = NULL;
	char *text = json_dumps(body, JSON_COMPACT);

	if (text)
		message = wr_rls_json_read(type, wr_str(text), memory, &problem);
	free(text);
	return message;
}

static ProtobufCMessage *make_request(const struct wr_cli_ask *a, json_t *body,
				      struct wr_rls_memory *memory)
{
	ProtobufCMessage *message;
	json_t *each;
	size_t i;

	json_array_foreach(json_object_get(body, "descriptors"), i, each)
		if (a->has_hits)
			json_object_set_new(each, "hitsAddend", json_integer(a->hits));
	message = wr_cli_ask_message(&pb__rate_limit_request__descriptor, body, memory);
	json_decref(body);
	return message;
}

static int ask_grpc(const struct wr_cli_ask *a, json_t *body)
{
	const Pb__RateLimitResponse *response = NULL;
	struct weir_error error = {.text = "out of memory"};
	struct wr_rls_memory memory;
	ProtobufCMessage *request;
	int code = WR_EXIT_USAGE;

	if (wr_rls_memory_init(&memory, WR_CLI_ASK_MEMORY) < 0)
		abort();
	request = make_request(a, body, &memory);
	if (request)
		response = (const Pb__RateLimitResponse *)wr_cli_client_grpc(
			a->grpc, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
			request, &pb__rate_limit_response__descriptor, &memory, &error);
	if (!response) {
		wr_cli_fail("ask", &error, code);
	} else {
		code = response->overall_code == PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT
			       ? WR_EXIT_NO
			       : WR_EXIT_YES;
		if (a->json)
			wr_cli_ask_print_message(&response->base, code);
		else
			puts(code == WR_EXIT_YES ? "admitted" : "refused");
		for (size_t i = 0; !a->json && i < response->n_statuses; i++)
			print_status(response->statuses[i]);
	}
	wr_rls_memory_free(&memory);
	return code;
}

/* ---- the command ---- */

/* Returns the request as JSON: the domain and the descriptors, or an empty object if there are no
 * words. On failure reports the error and returns NULL. */
static json_t *make_body(void)
{
	json_t *descriptors;

	if (words.count == 0)
		return json_object();
	descriptors = make_descriptors();
	return descriptors ? json_pack("{s:o, s:o}", "domain",
				       wr_wire_json_text(wr_str(words.items[0])), "descriptors",
				       descriptors)
			   : NULL;
}

static bool settles(void)
{
	return given.commit || given.cancel || given.release;
}

/* Returns the first mistake in the options as a sentence, or NULL if there is none. */
static const char *find_mistake(void)
{
	if (given.has_grpc && given.http)
		return "--grpc and --http cannot be used together";
	if (given.hits < 0)
		return "--hits is below 0; reservations give units back";
	if (given.reserve + !!given.commit + !!given.cancel + !!given.release > 1)
		return "--reserve, --commit, --cancel and --release cannot be used together";
	if (given.commit && !given.has_actual)
		return "--commit needs --actual, the number of units that were used";
	if (given.has_actual && !given.commit)
		return "--actual needs --commit";
	if (given.ttl_ns && !given.reserve)
		return "--ttl needs --reserve";
	if (settles() && given.has_hits)
		return "--hits belongs to --reserve; --commit has --actual";
	if ((given.cancel || given.release) && words.count)
		return "--cancel and --release need no DOMAIN and no KEY=VALUE";
	if (words.count < 2 && !(settles() && words.count == 0))
		return "DOMAIN and KEY=VALUE are missing";
	return NULL;
}

int wr_cli_ask(int argc, char **argv)
{
	const char *mistake;
	json_t *body;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	mistake = find_mistake();
	if (mistake)
		return wr_cli_usage("ask", "%s", mistake);
	body = make_body();
	if (!body)
		return WR_EXIT_USAGE;
	if (given.reserve)
		return wr_cli_ask_reserve(&given, body);
	if (settles())
		return wr_cli_ask_settle(&given, body);
	return given.http ? ask_http(&given, body) : ask_grpc(&given, body);
}
