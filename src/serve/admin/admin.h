/* The admin API and the dashboard, on ports and a Unix socket of their own. docs/http-api.md and
 * docs/dashboard.md describe them for users.
 *
 * Access: on the Unix socket, the listener admits root and the service's user. On TCP, a request
 * has to carry a token of --admin-token-file. Without that file, the request has to carry the token
 * that was generated at start. With --admin-open, every process of this machine has access. Web
 * pages of other sites never have access: on a loopback address the Host field has to name this
 * machine, and a request with the Origin of another site is refused. */
#ifndef WR_SERVE_ADMIN_ADMIN_H
#define WR_SERVE_ADMIN_ADMIN_H

#include <jansson.h>

#include <weir/control.h>

#include "base/json_write.h"
#include "serve/http/http.h"

/* The routes of the admin API: X(path, methods, handler, description). A path other than "/" that
 * ends with "/" stands for all paths below it. */
#define WR_ADMIN_ROUTES(X)                                                                         \
	X("/", "GET, HEAD", wr_admin_front, "the dashboard")                                       \
	X("/ui/", "GET, HEAD", wr_admin_file, "the files of the dashboard")                        \
	X("/v1/session", "GET, HEAD", wr_admin_session, "the page token, for changes")             \
	X("/v1/overview", "GET, HEAD", wr_admin_overview, "all rules, once or as events")          \
	X("/v1/rule", "GET, HEAD", wr_admin_rule, "one rule, once or as events")                   \
	X("/v1/fleet", "GET, HEAD", wr_admin_fleet, "hosts and gauges, once or as events")         \
	X("/metrics", "GET, HEAD", wr_admin_metrics, "for Prometheus, and as OpenMetrics")         \
	X("/v1/status", "GET, HEAD", wr_admin_status, "version, table, rules, last reload error")  \
	X("/v1/rules", "GET, HEAD", wr_admin_rules, "the rules in force and their generation")     \
	X("/v1/rules/text", "GET, HEAD", wr_admin_rules_text, "the rule files and their errors")   \
	X("/v1/explain", "POST", wr_admin_explain,                                                 \
	  "the rules that a request or descriptor matches")                                        \
	X("/rlconfig", "GET, HEAD", wr_admin_rlconfig, "rules as envoyproxy/ratelimit shows them") \
	X("/v1/reload", "POST", wr_admin_reload, "read rules and certificates again")              \
	X("/v1/key/get", "POST", wr_admin_key_get, "the counters of a descriptor")                 \
	X("/v1/key/reset", "POST", wr_admin_key_reset, "reset these counters")                     \
	X("/v1/key/grant", "POST", wr_admin_key_grant, "allow more for a time")                    \
	X("/v1/key/ban", "POST", wr_admin_key_ban, "refuse all requests for a time, or lift that") \
	X("/v1/key/changes", "POST", wr_admin_key_changes, "the last changes to a key")            \
	X("/v1/changes", "GET, HEAD", wr_admin_changes, "the last changes of all kinds")           \
	X("/v1/overrides", "GET, HEAD", wr_admin_overrides, "bans and grants in force")            \
	X("/v1/bans", "GET, HEAD, POST", wr_admin_bans, "a page of the bans in force; a new ban")  \
	X("/v1/bans/release", "POST", wr_admin_bans_release, "end bans by key, address or rule")   \
	X("/v1/paused", "GET, HEAD", wr_admin_paused, "the rules that are not enforced")           \
	X("/v1/pause", "POST", wr_admin_pause, "stop enforcing a rule, or all")                    \
	X("/v1/resume", "POST", wr_admin_resume, "enforce it again")                               \
	X("/v1/queue", "GET, HEAD", wr_admin_queue, "totals of the queue, once or as events")      \
	X("/v1/queue/requests", "GET, HEAD", wr_admin_queue_requests, "a page of the queue")       \
	X("/v1/queue/request", "GET, HEAD", wr_admin_queue_request, "one deferred request")        \
	X("/v1/queue/retry", "POST", wr_admin_queue_retry, "deliver again, dead letters too")      \
	X("/v1/queue/drop", "POST", wr_admin_queue_drop, "drop deferred requests")

#define WR_ADMIN_ROUTE_DECLARE(path, methods, handler, what)                                       \
	void handler(struct wr_serve_http_request *request);
WR_ADMIN_ROUTES(WR_ADMIN_ROUTE_DECLARE)
#undef WR_ADMIN_ROUTE_DECLARE

#define WR_ADMIN_WHO 128

/* The data of an admin server. `context` of its struct wr_serve_http_server points to this struct.
 * */
struct wr_admin {
	struct wr_tokens *tokens; /* tokens of --admin-token-file; NULL: there is no such file */
	/* The fields below describe the request that is being handled. */
	/* Name of the client in logs. For a TCP client: its address, followed by the name of its
	 * token if --admin-token-file has the token. For a client on the Unix socket: its user and
	 * process id. */
	char who[WR_ADMIN_WHO];
	const char *token_name; /* name of the token in the request; NULL: no token was required */
	/* If the client's address has sent too many wrong tokens: time in milliseconds until the
	 * limit allows one more wrong token. Otherwise 0. */
	uint64_t wait_ms;
};

extern const struct wr_protocol wr_admin_protocol;

/* Opens the Unix socket of --admin-socket. Without this option, opens the default socket, which is
 * in the folder of the table's file. Called before the process gives up root. Returns 0, or WEIR_E…
 * if the socket of --admin-socket cannot be opened. A failure to open the default socket is only
 * logged. */
int wr_admin_socket_open(struct wr_service *service, struct weir_error *error);

/* ---- responses ---- */

/* Maximum length of a response body. A longer body is not sent. */
#define WR_ADMIN_BODY_MAX ((size_t)64 << 20)

/* Responds with the JSON that `write` writes, followed by a line feed. `write` is called once,
 * before this function returns. */
void wr_admin_reply(struct wr_serve_http_request *request, unsigned status,
		    void (*write)(struct wr_json_out *json, void *context), void *context);

/* Returns a response with this body and the header fields that every response has. Takes over the
 * memory of `body`, even on failure, so the caller does not free it. Returns NULL if the body could
 * not be written or there is no memory. wr_serve_http_reply() accepts NULL and then closes the
 * connection. */
struct wr_serve_http_response *wr_admin_response(struct wr_buf *body, const char *content_type);

/* Responds with an error of the library as a problem (RFC 9457). The status is 404 for WEIR_ENOENT,
 * 503 for WEIR_EMOVED and WEIR_EMEMORY, and 400 for other codes. An empty text is replaced by
 * weir_strerror(). */
void wr_admin_reply_error(struct wr_serve_http_request *request, int rc, const char *text);

/* ---- responses that worker threads write, because they read the whole table or many rules ---- */

struct wr_admin_work {
	struct wr_service *service;
	/* A reference to the core. The reference is kept until the body has been written, so that
	 * the table and the engine stay valid. */
	struct wr_core *core;
	uint64_t now_ns;
	unsigned choice; /* a value that the handler passes to the function that writes the body */
	/* Memory from malloc that the handler passes, or NULL. later.c or live.c frees it after the
	 * last use. */
	void *context;
};

/* A function that writes the body of a response. It writes a JSON document with `json`, or appends
 * any text to json->buf. Called once, from a thread of libuv's pool. Returns 0 or WEIR_E…; after an
 * error the body is not sent. */
typedef int (*wr_admin_work_fn)(struct wr_json_out *json, const struct wr_admin_work *work);

/* Maximum number of jobs of the process that write bodies at the same time. Further requests get
 * 503. */
#define WR_ADMIN_WORKS_MAX 8u

/* Starts a job that writes the body, and responds with 200 when the body has been written. The job
 * owns `context` and frees it. */
void wr_admin_reply_later(struct wr_serve_http_request *request, const char *content_type,
			  wr_admin_work_fn write, unsigned choice, void *context);

struct wr_admin_job {
	uv_work_t work;
	wr_admin_work_fn write;
	struct wr_admin_work view;
	struct wr_buf out; /* the body; on_written can take its memory with wr_buf_release() */
	int rc;            /* result of `write`; after an error there is no body */
	void (*on_written)(
		struct wr_admin_job *job); /* called in the loop's thread after `write` */
};

/* Starts a job whose write, on_written, view.choice and view.context are set. Returns false if
 * WR_ADMIN_WORKS_MAX jobs are in progress. */
bool wr_admin_job_start(struct wr_admin_job *job, struct wr_loop *loop);

/* Ends the job. Called by on_written when it no longer needs the body. Frees the body and releases
 * the job's reference to the core. Does not free view.context, because a stream of events uses it
 * for the next event. */
void wr_admin_job_end(struct wr_admin_job *job);

/* ---- server-sent events ---- */

#define WR_ADMIN_LIVE_MAX 16u /* maximum number of streams of events in the process */

/* Responds with a stream of events. Once a second, `write` writes a body, which is sent as an
 * event. If writing takes more than 50 ms, events are sent less often, so that a stream uses at
 * most a twentieth of a CPU core. An event is skipped while the client has not read the previous
 * event. The stream owns `context` and frees it. */
void wr_admin_live(struct wr_serve_http_request *request, wr_admin_work_fn write, void *context);

/* Returns whether the Accept field of a GET request asks for server-sent events. */
bool wr_admin_wants_events(const struct wr_serve_http_request *request);

/* ---- pages ---- */

#define WR_ADMIN_PAGE_TOKEN 33

/* Returns the value that a page has to send in X-Weir-Page with each POST. The page reads the value
 * from /v1/session, which pages of other origins cannot read. The value stays the same for the life
 * of the process. Returns NULL if the system has no random bytes. */
const char *wr_admin_page_token(void);

/* Returns whether this is the path of a file of the dashboard. The files of the dashboard need no
 * token, because they hold no data. */
bool wr_admin_is_page(const char *path);

/* ---- changes ---- */

/* A list of the latest changes that operators made, in the memory of this process. Any thread may
 * call the functions of the list. */
struct wr_changes;

struct wr_changes *wr_changes_new(void); /* returns NULL if there is no memory */
void wr_changes_free(struct wr_changes *changes);

/* Adds a change to the list. Does nothing if `changes` is NULL. `key` is a number from
 * wr_admin_key_number(), or 0 if the change does not concern a key. */
void wr_changes_note(struct wr_changes *changes, uint64_t now_ns, uint64_t key, const char *who,
		     const char *what);

/* Writes {"changes":[…]} with the newest change first. Writes the changes of one key, or all
 * changes if `key` is 0. */
void wr_changes_write(struct wr_changes *changes, uint64_t key, struct wr_json_out *json);

/* Returns a number that identifies a descriptor in the list of changes. The number is never 0. */
uint64_t wr_admin_key_number(const struct weir_entry *entries, size_t count,
			     struct weir_str domain);

/* Logs a change with the client that made it, and adds the change to the list of changes. `key` is
 * as in wr_changes_note(). */
void wr_admin_log(const struct wr_serve_http_request *request, uint64_t key, const char *format,
		  ...) __attribute__((format(printf, 3, 4)));

/* ---- counters ---- */

#define WR_ADMIN_NO_LIMIT "no limit applies to this descriptor"

/* Responds with the counters that `target` selects. Counters in Redis are read from Redis. If Redis
 * does not reply within the timeout, the response has the counters of this machine. `document` is
 * the parsed request body. The strings of `target` point into `document`, so the function takes a
 * reference to it. If `shield_address` is not NULL, it becomes the member "shield_address" of the
 * response, and an empty text becomes null. */
void wr_admin_reply_counters(struct wr_serve_http_request *request, json_t *document,
			     const struct weir_target *target, const char *shield_address);

/* Handles POST /v1/bans: bans a key and responds with its counters. Defined in key.c. */
void wr_admin_ban_add(struct wr_serve_http_request *request);

/* ---- functions that write members of responses ---- */

/* Writes a member with a time: seconds since 1970, "ever" for WEIR_NEVER, or null for 0. */
void wr_admin_json_time(struct wr_json_out *json, const char *name, uint64_t ns);

/* Writes a member with the hash as 16 hexadecimal digits. */
void wr_admin_json_hash(struct wr_json_out *json, const char *name, uint64_t hash);

struct wr_serve_redis;
struct wr_central_info;

/* Writes an object with the state of Redis as the central store, or null if `redis` or `info` is
 * NULL. `info` is from wr_serve_redis_info(). */
void wr_admin_json_redis(struct wr_json_out *json, const struct wr_serve_redis *redis,
			 const struct wr_central_info *info);

/* Writes the members "table", "rules" and "pauses". Returns 0 or WEIR_E…. */
int wr_admin_json_health(struct wr_json_out *json, const struct wr_admin_work *work);

/* ---- tokens ---- */

#define WR_ADMIN_START_TOKEN 65

/* Writes size - 1 random hexadecimal digits and a zero byte. `size` is odd. Writes nothing if the
 * system has no random bytes. */
void wr_admin_random_hex(char *text, size_t size);

/* Returns the token that TCP ports require if there is no token file: 32 random bytes in
 * hexadecimal. The token stays the same for the life of the process, so that a reload does not sign
 * the dashboard out. Returns NULL if no such token is required. */
const char *wr_admin_start_token(const struct wr_settings *settings);

/* Generates the token of wr_admin_start_token() if TCP ports require it. Called before ports are
 * opened. Returns 0, or WEIR_E… with `error` filled in. */
int wr_admin_make_start_token(const struct wr_settings *settings, struct weir_error *error);

/* Returns whether an Authorization field has this token. The duration of the comparison does not
 * depend on the token. */
bool wr_admin_token_matches(const char *token, struct weir_str authorization);

/* The tokens of a file with one token on each line: TOKEN, or NAME:TOKEN. Empty lines and lines
 * that begin with # are skipped. The file is read again when it has changed. */
struct wr_tokens;

/* Reads the file at `path` and sets *tokens. Returns 0. On failure, returns WEIR_E…, fills in
 * `error` and sets *tokens to NULL. `path` has to outlive the tokens. */
int wr_tokens_open(const char *path, struct wr_tokens **tokens, struct weir_error *error);
void wr_tokens_free(struct wr_tokens *tokens);

/* Returns the name of the token in an Authorization field, or NULL if the file does not have the
 * token. The name is valid until the next call. The duration of the search does not depend on the
 * token. */
const char *wr_tokens_find(struct wr_tokens *tokens, struct weir_str authorization);

#endif
