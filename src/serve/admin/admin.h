/* The admin API and the dashboard: what operators look at and change, on an address of its own.
 * docs/http-api.md, docs/dashboard.md.
 *
 * Who may come in: on a Unix socket whom its listener admits; on TCP whoever shows a token, of
 * --admin-token-file or the one that was made at start. With --admin-open everybody of this machine
 * may. Web pages of other sites never may: on loopback the Host has to be this machine's, and a
 * foreign Origin is turned away. */
#ifndef WR_SERVE_ADMIN_ADMIN_H
#define WR_SERVE_ADMIN_ADMIN_H

#include <jansson.h>

#include <weir/control.h>

#include "serve/http/http.h"

/* One list of routes: X(path, methods, handler, what it is), as in http.h. */
#define WR_ADMIN_ROUTES(X)                                                                         \
	X("/", "GET, HEAD", wr_admin_front, "the dashboard")                                       \
	X("/ui/", "GET, HEAD", wr_admin_file, "what the dashboard is made of")                     \
	X("/v1/session", "GET, HEAD", wr_admin_session, "what a page needs to make changes")       \
	X("/v1/overview", "GET, HEAD", wr_admin_overview, "all rules, once or as events")          \
	X("/v1/rule", "GET, HEAD", wr_admin_rule, "one rule, once or as events")                   \
	X("/v1/fleet", "GET, HEAD", wr_admin_fleet, "hosts and store, once or as events")          \
	X("/metrics", "GET, HEAD", wr_admin_metrics, "for Prometheus, and as OpenMetrics")         \
	X("/v1/status", "GET, HEAD", wr_admin_status, "version, table, rules, last reload error")  \
	X("/v1/rules", "GET, HEAD", wr_admin_rules, "the rules in force and their generation")     \
	X("/v1/rules/text", "GET, HEAD", wr_admin_rules_text, "rule files, and what is wrong")     \
	X("/v1/explain", "POST", wr_admin_explain, "which rule a request or descriptor meets")     \
	X("/rlconfig", "GET, HEAD", wr_admin_rlconfig, "the rules as the reference prints them")   \
	X("/v1/reload", "POST", wr_admin_reload, "read rules and certificates again")              \
	X("/v1/key/get", "POST", wr_admin_key_get, "the counters of a descriptor")                 \
	X("/v1/key/reset", "POST", wr_admin_key_reset, "make them as good as new")                 \
	X("/v1/key/grant", "POST", wr_admin_key_grant, "allow more for a while")                   \
	X("/v1/key/ban", "POST", wr_admin_key_ban, "refuse for a while, or lift that")             \
	X("/v1/key/changes", "POST", wr_admin_key_changes, "what was done to it, and when")        \
	X("/v1/changes", "GET, HEAD", wr_admin_changes, "what was done to anything")               \
	X("/v1/overrides", "GET, HEAD", wr_admin_overrides, "bans and grants in force")            \
	X("/v1/paused", "GET, HEAD", wr_admin_paused, "what is not enforced")                      \
	X("/v1/pause", "POST", wr_admin_pause, "stop enforcing a rule, or all")                    \
	X("/v1/resume", "POST", wr_admin_resume, "enforce it again")                               \
	X("/v1/queue", "GET, HEAD", wr_admin_queue, "deferred requests, once or as events")        \
	X("/v1/queue/requests", "GET, HEAD", wr_admin_queue_requests, "a page of them")            \
	X("/v1/queue/request", "GET, HEAD", wr_admin_queue_request, "one of them, whole")          \
	X("/v1/queue/retry", "POST", wr_admin_queue_retry, "try them again, dead ones too")        \
	X("/v1/queue/drop", "POST", wr_admin_queue_drop, "give them up")

#define WR_ADMIN_ROUTE_DECLARE(path, methods, handler, what)                                       \
	void handler(struct wr_http_request *request);
WR_ADMIN_ROUTES(WR_ADMIN_ROUTE_DECLARE)
#undef WR_ADMIN_ROUTE_DECLARE

#define WR_ADMIN_WHO 128

/* A server's own. */
struct wr_admin {
	struct wr_tokens *tokens; /* NULL: none are asked for */
	char who[WR_ADMIN_WHO];   /* of the request that is being handled, for the log */
	const char *token_name;   /* the token it showed; NULL: none was asked for */
	uint64_t wait_ms;         /* it showed a wrong one, and too many of them; 0: not so */
};

extern const struct wr_protocol wr_admin_protocol;

/* Opens the Unix socket of --admin-socket, or the usual one beside the table. Before rights are
 * given up. */
int wr_admin_socket_open(struct wr_service *service, struct weir_error *error);

/* Writes an answer; called twice if the first time there was too little room. */
typedef void (*wr_admin_writer)(struct wr_text *out, void *context);

void wr_admin_reply(struct wr_http_request *request, unsigned status, const char *content_type,
		    wr_admin_writer writer, void *context);

/* Header fields that every answer has. */
void wr_admin_harden(struct wr_http_response *response);

/* What an answer is made of that is written away from the loop, because it reads the whole table or
 * thousands of rules. */
struct wr_admin_work {
	struct wr_service *service;
	struct wr_core *core; /* held: table and engine stay */
	uint64_t now_ns;
	unsigned choice; /* the handler's own, and … */
	void *context;   /* … from malloc, freed when the work is over; may be NULL */
};

/* Called by a thread of libuv's pool; again with more room if there was too little. Below 0: an
 * error code, and there is no answer. */
typedef int (*wr_admin_work_fn)(struct wr_text *out, const struct wr_admin_work *work);

#define WR_ADMIN_WORKS_MAX 8u /* under way in the process; others are told to come again */

/* Answers with 200 when it has been written. */
void wr_admin_reply_later(struct wr_http_request *request, const char *content_type,
			  wr_admin_work_fn write, unsigned choice);
void wr_admin_reply_with(struct wr_http_request *request, const char *content_type,
			 wr_admin_work_fn write, void *context);

/* A text that is being written. */
struct wr_admin_job {
	uv_work_t work;
	wr_admin_work_fn write;
	struct wr_admin_work view;
	struct wr_text out; /* the one who is told may keep out.at, and sets it to NULL */
	int rc;             /* below 0: there is no text */
	/* In the loop, when it has been written. */
	void (*done)(struct wr_admin_job *job);
};

/* Begins, with `write`, `done`, view.choice and view.context set. False: too many are under way. */
bool wr_admin_job_start(struct wr_admin_job *job, struct wr_loop *loop);
void wr_admin_job_end(struct wr_admin_job *job); /* after `done`; view.context stays */

#define WR_ADMIN_LIVE_MAX 16u /* pages that follow something, in the process */

/* The same text again and again, as server-sent events: one a second, or fewer where writing one
 * takes long, so that it costs a twentieth of a core at most. What a slow client has not read when
 * the next is there, is not sent. */
void wr_admin_live(struct wr_http_request *request, wr_admin_work_fn write, void *context);

/* Whether it asks for events. */
bool wr_admin_wants_events(const struct wr_http_request *request);

/* ---- pages ---- */

#define WR_ADMIN_PAGE_TOKEN 33

/* What a page has to show for a change, in X-Weir-Page: it reads it at /v1/session, which no page
 * of another origin can. One for the life of the process. NULL: there is no randomness. */
const char *wr_admin_page_token(void);

/* Whether the path leads to the dashboard itself, which anybody may have: it holds no data. */
bool wr_admin_is_page(const char *path);

/* ---- what was done ---- */

struct wr_changes;

struct wr_changes *wr_changes_new(void);
void wr_changes_free(struct wr_changes *changes);

/* The key's number, for lists of what was done to it. */
uint64_t wr_admin_key_number(const struct weir_entry *entries, size_t count,
			     struct weir_str domain);

/* Writes {"changes":[…]}, newest first: of one key, or all if `key` is 0. */
void wr_changes_write(struct wr_changes *changes, uint64_t key, struct wr_text *out);

/* ---- counters ---- */

#define WR_ADMIN_NO_LIMIT "no limit applies to this descriptor"

/* Answers with the counters of a target, whose texts are in the document: as Redis has them, where
 * it keeps them and answers in time. */
void wr_admin_reply_counters(struct wr_http_request *request, json_t *document,
			     const struct weir_target *target);

/* ---- pieces of answers ---- */

/* Seconds since 1970, "ever", or null for 0. */
void wr_admin_put_time(struct wr_text *out, uint64_t ns);

/* "table":{…},"rules":{…}: how the service is doing at a glance. */
int wr_admin_put_health(struct wr_text *out, const struct wr_admin_work *work);

/* Notes a change and who made it; `key` is the number of the key it was made to, or 0. */
void wr_admin_log(const struct wr_http_request *request, uint64_t key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* An error of the library as a problem: WEIR_ENOENT is 404, the caller's fault 400. */
void wr_admin_reply_error(struct wr_http_request *request, int rc, const char *text);

/* ---- tokens ---- */

#define WR_ADMIN_START_TOKEN 65

/* The token that TCP ports ask for where there is no token file: 32 random bytes in hex, one for
 * the life of the process, so that a reload does not sign the dashboard out. NULL: none is asked
 * for. */
const char *wr_admin_start_token(const struct wr_settings *settings);

/* Before ports are opened: makes the token if one is needed. */
int wr_admin_make_start_token(const struct wr_settings *settings, struct weir_error *error);

/* Whether an Authorization field shows this token. Takes as long whichever it shows. */
bool wr_token_shown(const char *token, struct weir_str authorization);

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
