/* weir ask --reserve, --commit, --cancel and --release: makes a reservation at a running service, over
 * gRPC or HTTP, and settles it. Called by ask.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "wire/rls/reserve.h"

#define SECOND_NS 1000000000ull
#define KUADRANT "/kuadrant.service.ratelimit.v1.RateLimitService/"
#define WEIR "/weir.v1.Reservations/"

/* The ways to settle a reservation. */
static const struct settlement {
	const char *http, *grpc, *done;
} committed = {"/v1/commit", KUADRANT "Commit", "committed"},
  cancelled = {"/v1/cancel", WEIR "Cancel", "cancelled"},
  released = {"/v1/release", WEIR "Release", "released"};

/* Sends a request to the HTTP API. Frees `body`. Returns false after an error was reported. */
static bool post(const struct wr_cli_ask *ask, const char *path, json_t *body,
		 struct wr_cli_client_reply *reply)
{
	struct weir_error error;

	if (wr_cli_client_http(ask->http, NULL, "POST", path, NULL, body, reply, &error) == 0)
		return true;
	wr_cli_fail("ask", &error, WR_EXIT_USAGE);
	return false;
}

/* Reports the error of the HTTP API. */
static int report_problem(struct wr_cli_client_reply *reply)
{
	wr_cli_client_problem("ask", reply);
	json_decref(reply->json);
	return WR_EXIT_USAGE;
}

/* Calls a gRPC method. Frees `body`. Returns NULL after an error was reported. */
static ProtobufCMessage *call(const struct wr_cli_ask *ask, const char *path,
			      const ProtobufCMessageDescriptor *request, json_t *body,
			      const ProtobufCMessageDescriptor *response,
			      struct wr_rls_memory *memory)
{
	struct weir_error error = {.text = "out of memory"};
	ProtobufCMessage *message = wr_cli_ask_message(request, body, memory), *answer = NULL;

	json_decref(body);
	if (message)
		answer = wr_cli_client_grpc(ask->grpc, path, message, response, memory, &error);
	if (!answer)
		wr_cli_fail("ask", &error, WR_EXIT_USAGE);
	return answer;
}

/* ---- --reserve ---- */

static json_int_t ttl_s(const struct wr_cli_ask *ask)
{
	return (json_int_t)((ask->ttl_ns + SECOND_NS - 1) / SECOND_NS);
}

static void print_token(struct weir_str text)
{
	char *token = strndup(text.ptr ? text.ptr : "", text.len);

	if (!token)
		abort();
	wr_cli_client_print(token);
	putchar('\n');
	free(token);
}

static void print_reserved(const json_t *answer)
{
	const char *token = json_string_value(json_object_get(answer, "reservation"));
	char span[WR_CLIENT_SPAN];

	wr_cli_ask_print_decision(answer);
	if (token) {
		printf(", the reservation expires in %s\n",
		       wr_cli_client_span(wr_cli_client_number(answer, "expires_after"), span));
		wr_cli_client_print(token);
	}
	putchar('\n');
}

static int reserve_http(const struct wr_cli_ask *ask, json_t *body)
{
	struct wr_cli_client_reply reply;
	const json_t *admitted;
	int code;

	if (ask->has_hits)
		json_object_set_new(body, "hits", json_integer(ask->hits));
	if (ask->ttl_ns)
		json_object_set_new(body, "ttl", json_integer(ttl_s(ask)));
	if (!post(ask, "/v1/reserve", body, &reply))
		return WR_EXIT_USAGE;
	/* A refusal has the status of its rule, and the body of a decision. */
	admitted = json_object_get(reply.json, "admitted");
	if (!json_is_boolean(admitted))
		return report_problem(&reply);
	code = json_is_true(admitted) ? WR_EXIT_YES : WR_EXIT_NO;
	if (ask->json)
		return wr_cli_json_print(reply.json, code);
	print_reserved(reply.json);
	json_decref(reply.json);
	return code;
}

static int reserve_grpc(const struct wr_cli_ask *ask, json_t *body, struct wr_rls_memory *memory)
{
	const Pb__ReserveResponse *response;
	int code;

	json_object_set_new(body, "amount", json_integer(ask->hits));
	if (ask->ttl_ns)
		json_object_set_new(body, "ttl", json_pack("{s:I}", "seconds", ttl_s(ask)));
	response = (const Pb__ReserveResponse *)call(ask, KUADRANT "Reserve",
						     &pb__reserve_request__descriptor, body,
						     &pb__reserve_response__descriptor, memory);
	if (!response)
		return WR_EXIT_USAGE;
	code = response->code == PB__RATE_LIMIT_RESPONSE__CODE__OK ? WR_EXIT_YES : WR_EXIT_NO;
	if (ask->json)
		return wr_cli_ask_print_message(&response->base, code);
	puts(code == WR_EXIT_YES ? "admitted" : "refused");
	if (code == WR_EXIT_YES)
		print_token(wr_rls_text(response->reservation_id));
	return code;
}

int wr_cli_ask_reserve(const struct wr_cli_ask *ask, json_t *body)
{
	struct wr_rls_memory memory;
	int code;

	if (ask->http)
		return reserve_http(ask, body);
	if (wr_rls_memory_init(&memory, WR_CLI_ASK_MEMORY) < 0)
		abort();
	code = reserve_grpc(ask, body, &memory);
	wr_rls_memory_free(&memory);
	return code;
}

/* ---- --commit, --cancel and --release ---- */

static void print_settled(const char *status, double refunded, double charged)
{
	wr_cli_client_print(strcmp(status, "already") == 0 ? "already settled" : status);
	if (refunded > 0)
		printf(", %.0f given back", refunded);
	if (charged > 0)
		printf(", %.0f charged", charged);
	putchar('\n');
}

static int settle_http(const struct wr_cli_ask *ask, const struct settlement *how, json_t *body)
{
	struct wr_cli_client_reply reply;
	const char *status;
	int code;

	if (how == &committed)
		json_object_set_new(body, "actual", json_integer((json_int_t)ask->actual));
	if (!post(ask, how->http, body, &reply))
		return WR_EXIT_USAGE;
	status = json_string_value(json_object_get(reply.json, "status"));
	if (reply.status != 200 || !status)
		return report_problem(&reply);
	code = strcmp(status, "expired") == 0 || strcmp(status, "unknown") == 0 ? WR_EXIT_NO
										: WR_EXIT_YES;
	if (ask->json)
		return wr_cli_json_print(reply.json, code);
	print_settled(status, wr_cli_client_number(reply.json, "refunded"),
		      wr_cli_client_number(reply.json, "charged"));
	json_decref(reply.json);
	return code;
}

static int commit_grpc(const struct wr_cli_ask *ask, json_t *body, struct wr_rls_memory *memory)
{
	const Pb__CommitResponse *response;
	int code;

	json_object_set_new(body, "actualAmount", json_integer((json_int_t)ask->actual));
	response = (const Pb__CommitResponse *)call(ask, committed.grpc,
						    &pb__commit_request__descriptor, body,
						    &pb__commit_response__descriptor, memory);
	if (!response)
		return WR_EXIT_USAGE;
	code = response->reservation_released ? WR_EXIT_YES : WR_EXIT_NO;
	if (ask->json)
		return wr_cli_ask_print_message(&response->base, code);
	puts(code == WR_EXIT_YES ? "committed" : "expired or unknown");
	return code;
}

static int give_up_grpc(const struct wr_cli_ask *ask, const struct settlement *how, json_t *body,
			struct wr_rls_memory *memory)
{
	static const char *const others[] = {[PB__SETTLE_RESPONSE__STATUS__UNSPECIFIED] =
						     "unspecified",
					     [PB__SETTLE_RESPONSE__STATUS__DONE] = NULL,
					     [PB__SETTLE_RESPONSE__STATUS__ALREADY] = "already",
					     [PB__SETTLE_RESPONSE__STATUS__EXPIRED] = "expired",
					     [PB__SETTLE_RESPONSE__STATUS__UNKNOWN] = "unknown"};
	const Pb__SettleResponse *response =
		(const Pb__SettleResponse *)call(ask, how->grpc, &pb__settle_request__descriptor,
						 body, &pb__settle_response__descriptor, memory);
	unsigned status;
	int code;

	if (!response)
		return WR_EXIT_USAGE;
	status = (unsigned)response->status;
	code = status == PB__SETTLE_RESPONSE__STATUS__DONE ||
			       status == PB__SETTLE_RESPONSE__STATUS__ALREADY
		       ? WR_EXIT_YES
		       : WR_EXIT_NO;
	if (ask->json)
		return wr_cli_ask_print_message(&response->base, code);
	if (status >= sizeof others / sizeof *others)
		status = PB__SETTLE_RESPONSE__STATUS__UNSPECIFIED;
	print_settled(others[status] ? others[status] : how->done, (double)response->refunded, 0);
	return code;
}

int wr_cli_ask_settle(const struct wr_cli_ask *ask, json_t *body)
{
	const struct settlement *how = ask->commit   ? &committed
				       : ask->cancel ? &cancelled
						     : &released;
	const char *token = ask->commit ? ask->commit : ask->cancel ? ask->cancel : ask->release;
	struct wr_rls_memory memory;
	int code;

	json_object_set_new(body, ask->http ? "reservation" : "reservationId",
			    wr_wire_json_text(wr_str(token)));
	if (ask->http)
		return settle_http(ask, how, body);
	if (wr_rls_memory_init(&memory, WR_CLI_ASK_MEMORY) < 0)
		abort();
	code = ask->commit ? commit_grpc(ask, body, &memory)
			   : give_up_grpc(ask, how, body, &memory);
	wr_rls_memory_free(&memory);
	return code;
}
