/* Asking a running service: what `weir ask`, `weir key` and `weir pause` share. */
#ifndef WR_CLI_CLIENT_CLIENT_H
#define WR_CLI_CLIENT_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/error.h>
#include <weir/rules.h>

#include "wire/rls/rls.h"

#define WR_CLIENT_TIMEOUT_S 35 /* a leaky bucket may hold an answer */
#define WR_CLIENT_REPLY_MAX (16u << 20)
#define WR_CLIENT_ENTRIES_MAX 64

/* A blocking socket to PORT (of this machine), HOST:PORT, [V6]:PORT or unix:/path. Below 0: `error`
 * names the address and what to do. */
int wr_client_connect(const char *address, struct weir_error *error);

/* As recv and send. A program that was stopped and goes on (Ctrl-Z, a debugger, a machine that
 * slept) waits on. */
ssize_t wr_client_recv(int fd, void *bytes, size_t len);
ssize_t wr_client_send(int fd, const void *bytes, size_t len);

struct wr_client_reply {
	int status;     /* HTTP's */
	json_t *json;   /* NULL: it is none */
	char text[256]; /* the beginning of what is no JSON */
};

/* One request of HTTP/1.1. `body` is given up, and may be NULL; so may `token_file`. 0 or below. */
int wr_client_http(const char *address, const char *method, const char *path,
		   const char *token_file, json_t *body, struct wr_client_reply *reply,
		   struct weir_error *error);

/* The same on a connection, which it closes; below 0: there is none, and the error is told. */
int wr_client_http_on(int fd, const char *method, const char *path, const char *token, json_t *body,
		      struct wr_client_reply *reply, struct weir_error *error);

/* Flags of a command that asks the admin API; each may be NULL. */
struct wr_client_admin {
	const char *admin, *token_file, *table, *dir;
};

#define WR_CLIENT_ADMIN_HELP                                                                       \
	"  --table NAME        of the service on this table, by its Unix socket (WEIR_TABLE)\n"    \
	"  --dir DIR           … which is in this folder (WEIR_TABLE_DIR)\n"                     \
	"  --admin ADDR        instead, by this address: PORT, HOST:PORT or unix:/path "           \
	"(WEIR_ADMIN)\n"                                                                           \
	"  --token-file FILE   the token to show at a port (WEIR_ADMIN_TOKEN_FILE); without "      \
	"--admin\n"                                                                                \
	"                      the port is 127.0.0.1:9099\n"

/* One request to the admin API: at --admin, or at the socket of the service on the table. `body` is
 * given up, and may be NULL. 0 or below. */
int wr_client_admin(const struct wr_client_admin *flags, const char *method, const char *path,
		    json_t *body, struct wr_client_reply *reply, struct weir_error *error);

/* ShouldRateLimit. The response is in `memory`; NULL and `error`: there is none. */
Pb__RateLimitResponse *wr_client_grpc(const char *address, const Pb__RateLimitRequest *request,
				      struct wr_rls_memory *memory, struct weir_error *error);

/* ---- words of a command line ---- */

/* The environment variable's value if `flag` is NULL, or `otherwise`. */
const char *wr_client_setting(const char *flag, const char *variable, const char *otherwise);

/* "user=7" → {"key": "user", "value": "7"}; NULL: it is not of that form. */
json_t *wr_client_entry(const char *word);

/* Reports a problem the service answered with, and says how to exit. */
int wr_client_problem(const char *command, const struct wr_client_reply *reply);

/* Seconds as people like to read them: "0.25 s", "58 s", "3 h 20 m". */
#define WR_CLIENT_SPAN 32
const char *wr_client_span(double seconds, char text[WR_CLIENT_SPAN]);

/* How many bytes of UTF-8 the control character here has; 0: it is none. Not at the text's end. */
size_t wr_client_control(const char *at);

/* Text from outside, to stdout; control characters do not reach the terminal. */
void wr_client_print(const char *text);

#endif
