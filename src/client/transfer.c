/* One attempt as a transfer of libcurl: its options, the header fields that are sent, and the
 * callbacks that read the response. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/engine.h"

#define FIELD_LINE_MAX ((size_t)72 << 10) /* a field of the caller, with its name */

/* ---- the header fields of the request ---- */

/* Appends "name: value". For an empty value libcurl wants "name;". */
static bool add_line(struct wr_fetch_job *job, struct weir_str name, struct weir_str value)
{
	struct curl_slist *lines;
	struct wr_buf line;

	wr_buf_init(&line, FIELD_LINE_MAX);
	wr_buf_add_str(&line, name);
	wr_buf_add_str(&line, value.len ? WR_STR(": ") : WR_STR(";"));
	wr_buf_add_str(&line, value);
	lines = wr_buf_failed(&line) ? NULL : curl_slist_append(job->lines, line.ptr);
	wr_buf_free(&line);
	if (lines)
		job->lines = lines;
	return lines != NULL;
}

/* Suppresses a field that libcurl would add by itself. */
static bool suppress(struct wr_fetch_job *job, const char *name)
{
	char line[32];
	struct curl_slist *lines;

	snprintf(line, sizeof line, "%s:", name);
	lines = curl_slist_append(job->lines, line);
	if (lines)
		job->lines = lines;
	return lines != NULL;
}

/* Asks the server to confirm the stored response. */
static bool add_conditions(struct wr_fetch_job *job)
{
	struct weir_str value, fields = job->entry.stored.fields;

	if (!job->has_entry)
		return true;
	if (wr_fetch_fields_get(fields, WR_STR("etag"), &value) &&
	    !add_line(job, WR_STR("If-None-Match"), value))
		return false;
	return !wr_fetch_fields_get(fields, WR_STR("last-modified"), &value) ||
	       add_line(job, WR_STR("If-Modified-Since"), value);
}

/* Asks for the rest of a body of which a part has arrived before. */
static bool add_range(struct wr_fetch_job *job)
{
	char range[48];

	if (!job->delivered || !job->validator || !(job->flags & WEIR_REQUEST_CONTINUE))
		return true;
	snprintf(range, sizeof range, "bytes=%llu-", (unsigned long long)job->delivered);
	return add_line(job, WR_STR("Range"), wr_str(range)) &&
	       add_line(job, WR_STR("If-Range"), wr_str(job->validator));
}

static bool make_lines(struct wr_fetch_job *job)
{
	struct weir_str block = wr_buf_str(&job->request), name, value;

	while (wr_fetch_fields_next(&block, &name, &value))
		if (!add_line(job, name, value))
			return false;
	if (job->key[0] && !add_line(job, WR_STR("Idempotency-Key"), wr_str(job->key)))
		return false;
	if (!wr_fetch_fields_get(wr_buf_str(&job->request), WR_STR("content-type"), &value) &&
	    !suppress(job, "Content-Type"))
		return false;
	return suppress(job, "Expect") && add_conditions(job) && add_range(job);
}

/* ---- the connection ---- */

/* Called when a connection is ready and the request is about to be sent. If a connection that had
 * several requests ends without a byte of the response, libcurl would send the request again at once,
 * although the server may have handled it. With HTTP/2 this includes a request that was the first on
 * its connection. The second call prevents that: the attempt fails, and method, pace and budget decide
 * about another one. The attempt also fails if the server has said that it did not handle the request,
 * as with REFUSED_STREAM of HTTP/2: libcurl does not tell the cases apart. */
static int on_send(void *context, char *remote, char *local, int remote_port, int local_port)
{
	struct wr_fetch_job *job = context;
	long connects = 0;

	(void)remote, (void)local, (void)remote_port, (void)local_port;
	if (job->sent) {
		job->stale = job->kept;
		job->aborted = WEIR_ETRANSFER;
		job->wrong = job->kept ? "the server closed a kept connection without a response"
				       : "the connection ended without a response";
		return CURL_PREREQFUNC_ABORT;
	}
	curl_easy_getinfo(job->easy, CURLINFO_NUM_CONNECTS, &connects);
	job->sent = true;
	job->kept = connects == 0;
	return CURL_PREREQFUNC_OK;
}

/* If a kept connection ends without a response, a request that must not reach the server twice cannot
 * be repeated. So such a request gets a new connection. So does the attempt after a kept connection
 * has ended: others to the host may have ended too. */
static void set_connection(struct wr_fetch_job *job)
{
	bool has_key = job->has_key || job->key[0];
	bool fresh = job->stale || !wr_retry_may_repeat(wr_str(job->method), has_key);

	job->sent = job->kept = job->stale = false;
	curl_easy_setopt(job->easy, CURLOPT_FRESH_CONNECT, (long)fresh);
	curl_easy_setopt(job->easy, CURLOPT_PREREQFUNCTION, on_send);
	curl_easy_setopt(job->easy, CURLOPT_PREREQDATA, job);
}

/* ---- the response ---- */

/* Ends the transfer with an error of our own. */
static size_t abort_with(struct wr_fetch_job *job, int code)
{
	job->aborted = code;
	return 0;
}

/* Handles the empty line after the fields. The body may arrive much later. The client asks for no other
 * protocol, so that a 101 is final, unlike the other statuses below 200. */
static int end_head(struct wr_fetch_job *job)
{
	long status = 0;

	curl_easy_getinfo(job->easy, CURLINFO_RESPONSE_CODE, &status);
	return status < 200 && status != 101 ? 0 : wr_fetch_body_begin(job);
}

/* Reads a line of the response's header. A status line begins a new response: the fields of an
 * earlier 1xx response do not count. */
static size_t on_line(char *bytes, size_t size, size_t count, void *context)
{
	struct wr_fetch_job *job = context;
	struct weir_str line = {bytes, size * count}, name, value;
	size_t colon;

	if (job->in_body)
		return line.len;
	while (line.len && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r'))
		line.len--;
	colon = wr_str_find(line, ':');
	if (wr_str_begins(line, WR_STR("HTTP/"))) {
		wr_buf_clear(&job->response->fields);
		return size * count;
	}
	if (line.len == 0) {
		int rc = end_head(job);

		return rc < 0 ? abort_with(job, rc) : size * count;
	}
	name = wr_str_first(line, colon);
	if (colon == line.len)
		return size * count;
	value = wr_str_trim(wr_str_from(line, colon + 1));
	/* A line that is not a field, such as a folded one, is left out. So is a value with a control
	 * character: an ETag is sent again, and could add a field to the request. */
	if (!wr_fetch_is_token(name) || !wr_fetch_is_value(value))
		return size * count;
	if (!wr_fetch_fields_add(&job->response->fields, name, value))
		return abort_with(job, WEIR_ETOOLARGE);
	return size * count;
}

/* Bounds the time for a body that may not be wanted: a server could send it for hours. */
static int hold_until(struct wr_fetch_job *job, uint64_t at_ns)
{
	job->due_ns = at_ns;
	return wr_heap_add(&job->client->due, &job->due_node) ? 0 : WEIR_EMEMORY;
}

/* Keeps the body of a response that may be retried or redirected. */
static size_t hold(struct wr_fetch_job *job, const char *bytes, size_t len)
{
	struct wr_buf *body = &job->response->body;
	size_t max = body->max < WR_FETCH_HELD_MAX ? body->max : WR_FETCH_HELD_MAX;
	size_t kept = len < max - body->len ? len : max - body->len;

	if (!wr_buf_add(body, bytes, kept))
		return abort_with(job, WEIR_EMEMORY);
	job->cut |= kept < len;
	/* The rest would only cost time. The status and the fields are complete. */
	return job->cut ? 0 : len;
}

/* Tells the pace of the host about the limits. Other requests to the host may start now. Returns whether
 * the response refuses the request. */
static bool learn(struct wr_fetch_job *job)
{
	struct weir_ratelimit told;

	job->head_ns = wr_clock_mono_ns();
	wr_fetch_told(job, &told);
	wr_fetch_host_learn(job, &told, job->head_ns);
	job->host->known = true;
	return told.refused;
}

int wr_fetch_body_begin(struct wr_fetch_job *job)
{
	struct weir_response *shown = &job->response->shown;
	bool asked = job->delivered && job->validator && job->flags & WEIR_REQUEST_CONTINUE;
	long status = 0;
	bool refused;
	int rc;

	curl_easy_getinfo(job->easy, CURLINFO_RESPONSE_CODE, &status);
	shown->status = (uint32_t)status;
	job->in_body = true;
	rc = wr_fetch_part_length(job);
	if ((job->decodes && wr_fetch_response_decoded(job->response) < 0) ||
	    wr_fetch_response_list(job->response) < 0)
		return WEIR_EMEMORY;
	refused = learn(job);
	if (rc < 0)
		return rc;
	if ((status == 206 && wr_fetch_part_begin(job, asked) < 0) ||
	    (status == 304 && wr_fetch_part_unchanged(job) < 0) ||
	    (status == 416 && asked && wr_fetch_part_missing(job) < 0))
		return WEIR_ETRANSFER;
	job->holds = refused || (status >= 502 && status <= 504) ||
		     wr_fetch_is_redirect(job, (unsigned)status);
	job->holds |= asked && status == 416;
	if (job->holds)
		return hold_until(job, wr_clock_mono_ns() + WR_FETCH_HELD_NS);
	if (!(asked && status == 206))
		job->delivered = 0;
	if (job->flags & WEIR_REQUEST_CONTINUE && job->delivered == 0)
		wr_fetch_part_keep(job);
	wr_fetch_cached_begin(job);
	return 0;
}

int wr_fetch_body_pass(struct wr_fetch_job *job, const void *bytes, size_t len)
{
	struct wr_fetch_response *response = job->response;

	if (job->on_body) {
		if (job->on_body(job->context, &response->shown, job->delivered, bytes, len))
			return WEIR_ECALLBACK;
		job->delivered += len;
		response->shown.body_len += len;
		return 0;
	}
	if (wr_buf_add(&response->body, bytes, len))
		return 0;
	return response->body.failed == WEIR_EROOM ? WEIR_ETOOLARGE : WEIR_EMEMORY;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
	struct wr_fetch_job *job = context;
	size_t len = size * count;
	int rc;

	if (job->holds)
		return hold(job, bytes, len);
	if (job->part_end && len > job->part_end - job->delivered)
		return abort_with(job, wr_fetch_part_overrun(job));
	if (job->writer && !wr_fetch_writer_add(job->writer, bytes, len)) {
		wr_fetch_writer_drop(job->writer);
		job->writer = NULL;
	}
	wr_fetch_count(job->client, &job->client->info.body_bytes, len);
	rc = wr_fetch_body_pass(job, bytes, len);
	return rc < 0 ? abort_with(job, rc) : len;
}

/* ---- the options ---- */

static bool has_body(const struct wr_fetch_job *job)
{
	return job->body_len > 0 || strcmp(job->method, "POST") == 0 ||
	       strcmp(job->method, "PUT") == 0 || strcmp(job->method, "PATCH") == 0;
}

static void set_method(struct wr_fetch_job *job)
{
	CURL *easy = job->easy;

	if (has_body(job)) {
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)job->body_len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, job->body);
	} else if (strcmp(job->method, "HEAD") == 0) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, job->method);
}

/* A body that may be continued, and the answer to a request for a part, stay as the server has them. */
static void set_encoding(struct wr_fetch_job *job)
{
	struct weir_str block = wr_buf_str(&job->request), value;

	job->decodes = !(job->flags & WEIR_REQUEST_CONTINUE) &&
		       !wr_fetch_fields_get(block, WR_STR("range"), &value) &&
		       !wr_fetch_fields_get(block, WR_STR("accept-encoding"), &value);
	if (job->decodes)
		curl_easy_setopt(job->easy, CURLOPT_ACCEPT_ENCODING, "");
}

static void set_limits(struct wr_fetch_job *job, uint64_t now_ns)
{
	const struct weir_client_opts *opts = &job->client->opts;
	uint64_t left_ns = job->deadline_ns > now_ns ? job->deadline_ns - now_ns : 0;
	uint64_t connect_ns = opts->connect_ns < left_ns ? opts->connect_ns : left_ns;

	curl_easy_setopt(job->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / 1000000 + 1));
	/* The attempt fails if less than one byte per second arrives. */
	curl_easy_setopt(job->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(job->easy, CURLOPT_LOW_SPEED_TIME,
			 (long)((opts->attempt_ns + 999999999u) / 1000000000u));
}

static void set_security(CURL *easy, const struct weir_client_opts *opts)
{
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L); /* redirect.c follows */
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (opts->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, opts->ca_file);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (opts->flags & WEIR_CLIENT_NO_PROXY)
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

static void set_options(struct wr_fetch_job *job, uint64_t now_ns)
{
	const struct weir_client_opts *opts = &job->client->opts;
	CURL *easy = job->easy;

	set_security(easy, opts);
	set_method(job);
	set_encoding(job);
	set_limits(job, now_ns);
	set_connection(job);
	curl_easy_setopt(easy, CURLOPT_URL, job->url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, job->lines);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, opts->user_agent);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* A transfer that ends while its name is being resolved does not wait for the resolver, which
	 * would stop all other transfers. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, job);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, job->curl_error);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_line);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, job);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, job);
}

/* ---- beginning and ending ---- */

int wr_fetch_transfer_begin(struct wr_fetch_job *job, uint64_t now_ns)
{
	struct weir_client *client = job->client;

	wr_fetch_response_clear(job->response);
	job->state = WR_FETCH_RUNNING;
	job->passed = true;
	job->responded = false;
	job->aborted = 0;
	job->in_body = job->holds = job->cut = false;
	job->part_end = job->part_total = 0;
	job->wrong = NULL;
	job->wrong_again = false;
	job->curl_error[0] = '\0';
	job->sent_wall_ns = wr_clock_wall_ns();
	job->number++;
	job->response->shown.attempts++;
	job->easy = curl_easy_init();
	client->running += job->easy != NULL;
	if (!job->easy || !make_lines(job))
		return WEIR_EMEMORY;
	set_options(job, now_ns);
	if (curl_multi_add_handle(client->multi, job->easy))
		return WEIR_EMEMORY;
	pthread_mutex_lock(&client->lock);
	client->info.attempts++;
	client->info.retries += job->number > 1;
	pthread_mutex_unlock(&client->lock);
	if (job->number == 1)
		wr_retry_earn(&job->host->budget);
	wr_fetch_event(job, WEIR_EVENT_ATTEMPT, WEIR_WAIT_NONE, 0, "");
	return 0;
}

void wr_fetch_transfer_end(struct wr_fetch_job *job)
{
	if (job->easy) {
		curl_multi_remove_handle(job->client->multi, job->easy);
		curl_easy_cleanup(job->easy);
		job->client->running--;
	}
	if (job->due_node.at)
		wr_heap_remove(&job->client->due, &job->due_node);
	job->easy = NULL;
	curl_slist_free_all(job->lines);
	job->lines = NULL;
}
