/* The arguments of `weir ask`, and functions that ask.c and ask_reserve.c share. */
#ifndef WR_CLI_ASK_H
#define WR_CLI_ASK_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/memory.h"

#define WR_CLI_ASK_MEMORY ((size_t)2 << 20) /* bytes for the messages of a gRPC call */

struct wr_cli_ask {
	const char *grpc, *http; /* addresses; `http` is NULL if gRPC is used */
	int64_t hits;
	const char *commit, *cancel, *release; /* tokens of reservations, or NULL */
	uint64_t ttl_ns, actual;
	bool json, has_hits, has_grpc, reserve, has_actual;
};

/* Makes a reservation, and prints its token. `body` is the request as JSON, with the domain and the
 * descriptors; the function frees it. Returns the exit code. */
int wr_cli_ask_reserve(const struct wr_cli_ask *ask, json_t *body);

/* Settles the reservation that an option names. `body` is as above; it can be empty. Returns the
 * exit code. */
int wr_cli_ask_settle(const struct wr_cli_ask *ask, json_t *body);

/* Converts JSON to a message of this type. Returns NULL if there is no memory. */
ProtobufCMessage *wr_cli_ask_message(const ProtobufCMessageDescriptor *type, const json_t *body,
				     struct wr_rls_memory *memory);

/* Prints the message as JSON. Returns `code`, or another exit code if stdout is closed. */
int wr_cli_ask_print_message(const ProtobufCMessage *message, int code);

/* Prints a decision of the HTTP API in one line, without a newline at the end. */
void wr_cli_ask_print_decision(const json_t *answer);

#endif
