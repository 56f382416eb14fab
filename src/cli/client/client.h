/* Sends requests to a running service. Shared by `weir ask`, `weir key`, `weir pause` and `weir
 * queue`. */
#ifndef WR_CLI_CLIENT_CLIENT_H
#define WR_CLI_CLIENT_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#include "base/buffer.h"
#include "cli/options/table.h"
#include "wire/rls/rls.h"

#define WR_CLIENT_TIMEOUT_S 35 /* long, because a leaky bucket can delay a response */
#define WR_CLIENT_REPLY_MAX (16u << 20)

struct wr_cli_client_reply {
	int status;     /* HTTP status */
	json_t *json;   /* the body; NULL: it is not JSON */
	char text[256]; /* the first bytes of the body */
};

/* Checks the server at the other end of a connected socket, before a request is sent. Returns 0 if
 * the request can be sent. Otherwise returns a negative number and sets `error`. */
typedef int wr_cli_client_check(int fd, const char *address, struct weir_error *error);

/* A request and its response. The caller sets the members down to `check`. */
struct wr_cli_client_exchange {
	const char *address; /* PORT (on this machine), HOST:PORT, [V6]:PORT or unix:/path */
	const char *path;
	bool grpc;                  /* use HTTP/2 without TLS; otherwise HTTP/1.1 */
	const char *const *fields;  /* header fields as "Name: value"; ends with NULL */
	struct weir_str body;       /* body of a POST; a NULL pointer: the method is GET */
	wr_cli_client_check *check; /* NULL: any server is accepted */
	int status;                 /* HTTP status */
	int grpc_status;            /* value of grpc-status; -1: the response has no such field */
	char grpc_message[200];
	struct wr_buf answer; /* body of the response */
};

/* Sends the request and reads the response (http.c). Returns 0, or a negative number with `error`
 * set. The caller frees exchange->answer in both cases. */
int wr_cli_client_exchange(struct wr_cli_client_exchange *exchange, struct weir_error *error);

/* Sends one HTTP/1.1 request and reads the response (http.c). `check`, `token` and `body` may be
 * NULL. The function frees `body`. Returns 0; the caller then frees reply->json. On failure returns
 * a negative number and sets `error`. */
int wr_cli_client_http(const char *address, wr_cli_client_check *check, const char *method,
		       const char *path, const char *token, json_t *body,
		       struct wr_cli_client_reply *reply, struct weir_error *error);

/* The options of a command that asks the admin API. A text is NULL if its option was not given. */
struct wr_cli_client_admin {
	struct wr_cli_table_choice table;
	const char *admin, *token_file;
};

#define WR_CLIENT_ADMIN_OPTIONS 2
extern const struct wr_cli_option wr_cli_client_admin_options[WR_CLIENT_ADMIN_OPTIONS];

/* The two option groups that fill a struct wr_cli_client_admin. */
#define WR_CLIENT_ADMIN_GROUPS(service)                                                            \
	{"Service: by the Unix socket beside its table", wr_cli_table_options, WR_TABLE_OPTIONS,   \
	 &(service).table},                                                                        \
	{                                                                                          \
		"Service: by an address", wr_cli_client_admin_options, WR_CLIENT_ADMIN_OPTIONS,    \
			&(service)                                                                 \
	}

/* Sends one request to the admin API of the service that the options select (admin.c). Frees
 * `body`, which may be NULL. Returns 0 if the response has status 200 and JSON; the caller frees
 * the JSON. Otherwise reports the error as `weir COMMAND` and returns an exit code. */
int wr_cli_client_admin(const struct wr_cli_client_admin *options, const char *command,
			const char *method, const char *path, json_t *body, json_t **answer);

/* Calls a gRPC method once (grpc.c). `path` is "/package.Service/Method". The response, a message of
 * this type, is allocated in `memory`. On failure returns NULL and sets `error`. */
ProtobufCMessage *wr_cli_client_grpc(const char *address, const char *path,
				     const ProtobufCMessage *request,
				     const ProtobufCMessageDescriptor *type,
				     struct wr_rls_memory *memory, struct weir_error *error);

/* ---- words and texts ---- */

/* Converts "user=7" to {"key": "user", "value": "7"}. Returns NULL if `word` does not have this
 * form. */
json_t *wr_cli_client_entry(const char *word);

/* Makes the JSON body {"domain": …, "entries": […]} of a descriptor. `pairs` are words of the form
 * KEY=VALUE, `sources` are the values of --from. If one of them is invalid, reports the error as
 * `weir COMMAND` and returns NULL. */
json_t *wr_cli_client_target(const char *command, const char *domain,
			     const struct wr_cli_words *pairs, const struct wr_cli_words *sources);

/* Formats seconds since 1970 as local time: "2026-11-16 07:00:00". */
#define WR_CLIENT_TIME 32
const char *wr_cli_client_time(double seconds, char text[WR_CLIENT_TIME]);

/* Returns a member of the object as a number, or 0 if it is not a number. */
double wr_cli_client_number(const json_t *object, const char *name);

/* Reports an error response of the service to stderr. Returns an exit code: WR_EXIT_NO for status
 * 404, else WR_EXIT_USAGE. */
int wr_cli_client_problem(const char *command, const struct wr_cli_client_reply *reply);

/* Formats seconds as "0.25 s", "58 s" or "3 h 20 m". */
#define WR_CLIENT_SPAN 32
const char *wr_cli_client_span(double seconds, char text[WR_CLIENT_SPAN]);

/* Returns the number of bytes of the control character at `at`, or 0 if there is no control
 * character. `at` must not be the end of the text. */
size_t wr_cli_client_control(const char *at);

/* Prints text from another program to stdout, with control characters replaced by '?'. */
void wr_cli_client_print(const char *text);

#endif
