/* The admin API: what operators look at and change, on an address of its own. docs/http-api.md.
 *
 * Who may come in: on a Unix socket whom its listener admits; on loopback everybody of this
 * machine, but no web page (the Host has to be this machine's, a foreign Origin is turned away);
 * elsewhere, and wherever there is a token file, whoever shows a token. */
#ifndef WR_SERVE_ADMIN_H
#define WR_SERVE_ADMIN_H

#include "serve/http.h"

/* One list of routes: X(path, methods, handler, what it is), as in http.h. */
#define WR_ADMIN_ROUTES(X)                                                                         \
	X("/metrics", "GET, HEAD", wr_admin_metrics, "for Prometheus, and as OpenMetrics")         \
	X("/v1/status", "GET, HEAD", wr_admin_status, "version, table, rules, last reload error")  \
	X("/v1/rules", "GET, HEAD", wr_admin_rules, "the rules in force and their generation")     \
	X("/rlconfig", "GET, HEAD", wr_admin_rlconfig, "the rules as the reference prints them")   \
	X("/v1/reload", "POST", wr_admin_reload, "read rules and certificates again")              \
	X("/v1/key/get", "POST", wr_admin_key_get, "the counters of a descriptor")                 \
	X("/v1/key/reset", "POST", wr_admin_key_reset, "make them as good as new")                 \
	X("/v1/key/grant", "POST", wr_admin_key_grant, "allow more for a while")                   \
	X("/v1/key/ban", "POST", wr_admin_key_ban, "refuse for a while, or lift that")             \
	X("/v1/overrides", "GET, HEAD", wr_admin_overrides, "bans and grants in force")            \
	X("/v1/paused", "GET, HEAD", wr_admin_paused, "what is not enforced")                      \
	X("/v1/pause", "POST", wr_admin_pause, "stop enforcing a rule, or all")                    \
	X("/v1/resume", "POST", wr_admin_resume, "enforce it again")

#define WR_ADMIN_ROUTE_DECLARE(path, methods, handler, what)                                       \
	void handler(struct wr_http_request *request);
WR_ADMIN_ROUTES(WR_ADMIN_ROUTE_DECLARE)
#undef WR_ADMIN_ROUTE_DECLARE

#define WR_ADMIN_WHO 128

/* A server's own. */
struct wr_admin {
	struct wr_tokens *tokens; /* NULL: none are asked for */
	char who[WR_ADMIN_WHO];   /* of the request that is being handled, for the log */
};

extern const struct wr_host wr_admin_host;

/* Writes an answer; called twice if the first time there was too little room. */
typedef void (*wr_admin_writer)(struct wr_text *out, void *context);

void wr_admin_reply(struct wr_http_request *request, unsigned status, const char *content_type,
		    wr_admin_writer writer, void *context);

/* Header fields that every answer has. */
void wr_admin_harden(struct MHD_Response *response);

/* What an answer is made of that is written away from the loop, because it reads the whole table or
 * thousands of rules. */
struct wr_admin_work {
	struct wr_service *service;
	struct wr_world *world; /* held: table and engine stay */
	uint64_t now_ns;
	unsigned choice; /* the handler's own */
};

/* Called by a thread of libuv's pool; again with more room if there was too little. Below 0: an
 * error code, and there is no answer. */
typedef int (*wr_admin_work_fn)(struct wr_text *out, const struct wr_admin_work *work);

#define WR_ADMIN_WORKS_MAX 8u /* under way in the process; others are told to come again */

/* Answers with 200 when it has been written. */
void wr_admin_reply_later(struct wr_http_request *request, const char *content_type,
			  wr_admin_work_fn write, unsigned choice);

/* Notes a change and who made it. */
void wr_admin_log(const struct wr_http_request *request, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* An error of the library as a problem: WEIR_ENOENT is 404, the caller's fault 400. */
void wr_admin_reply_error(struct wr_http_request *request, int rc, const char *text);

/* ---- tokens ---- */

/* A file of tokens, one a line: TOKEN, or NAME:TOKEN. Blank lines and those that begin with # are
 * left out. Read again when it has changed. */
struct wr_tokens;

/* *tokens is NULL unless 0. */
int wr_tokens_open(const char *path, struct wr_tokens **tokens, struct weir_error *error);
void wr_tokens_free(struct wr_tokens *tokens);

/* The name of the token in an Authorization field, or NULL: none of ours. Takes as long whichever
 * it is. */
const char *wr_tokens_find(struct wr_tokens *tokens, struct weir_str authorization);

#endif
