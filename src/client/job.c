/* Makes jobs of requests: checks and copies everything that the caller gave. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/engine.h"

#define FIELDS_MAX 256u
#define FIELDS_BYTES ((size_t)64 << 10)
#define METHOD_MAX 32u
#define REQUEST_FLAGS                                                                              \
	(WEIR_REQUEST_NO_CACHE | WEIR_REQUEST_NO_REDIRECTS | WEIR_REQUEST_CONTINUE |               \
	 WEIR_REQUEST_RETRY)
#define SHOWN_URL 200 /* bytes of a URL in an error */

/* ---- the URL ---- */

static bool is_web(const char *scheme)
{
	return strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0;
}

/* Writes the names of the host. `text` has the port only if it is not the usual one. */
static bool write_host(const char *scheme, const char *host, const char *port,
		       char key[WR_FETCH_HOST_TEXT], char text[WR_FETCH_HOST_TEXT])
{
	const char *usual = strcmp(scheme, "https") == 0 ? "443" : "80";
	int len = snprintf(key, WR_FETCH_HOST_TEXT, "%s://%s:%s", scheme, host, port);

	for (char *c = key; *c; c++)
		*c = wr_lower(*c);
	if (len < 0 || len >= (int)WR_FETCH_HOST_TEXT)
		return false;
	snprintf(text, WR_FETCH_HOST_TEXT, strcmp(port, usual) == 0 ? "%s" : "%s:%s", host, port);
	return true;
}

/* Reads the parts of a parsed URL. Returns NULL, or the reason why the URL cannot be used. */
static const char *read_parts(CURLU *parts, char key[WR_FETCH_HOST_TEXT],
			      char text[WR_FETCH_HOST_TEXT])
{
	char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL;
	const char *wrong = NULL;

	if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) || !is_web(scheme))
		wrong = "the scheme must be http or https";
	else if (!curl_url_get(parts, CURLUPART_USER, &user, 0))
		wrong = "a URL must not have a user; use an Authorization field";
	else if (curl_url_get(parts, CURLUPART_HOST, &host, 0) || !*host ||
		 curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ||
		 !write_host(scheme, host, port, key, text))
		wrong = "the host is missing or too long";
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_free(user);
	return wrong;
}

/* Returns whether there are not exactly two slashes before the host, as in "http:///x". libcurl would
 * take x for the host. */
static bool lacks_host(const char *url)
{
	const char *at = strchr(url, ':');

	return !at || strncmp(at, "://", 3) != 0 || at[3] == '/';
}

int wr_fetch_url_read(const char *url, char key[WR_FETCH_HOST_TEXT], char text[WR_FETCH_HOST_TEXT],
		      struct weir_error *error)
{
	const char *wrong;
	CURLU *parts;
	CURLUcode code;

	wr_assert(url);
	if (strlen(url) > WR_FETCH_URL_MAX)
		return wr_error(error, WEIR_EURL, "a URL has more than %zu bytes",
				WR_FETCH_URL_MAX);
	if (!wr_fetch_is_value(wr_str(url)))
		return wr_error(error, WEIR_EURL, "a URL has a control character");
	parts = curl_url();
	if (!parts)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	code = curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
	wrong = code ? curl_url_strerror(code) : read_parts(parts, key, text);
	if (!wrong && lacks_host(url))
		wrong = "the host is missing; write two slashes before it";
	if (code == CURLUE_BAD_SCHEME)
		wrong = "the scheme is missing; begin with http:// or https://";
	curl_url_cleanup(parts);
	if (wrong)
		return wr_error(error, WEIR_EURL, "%.*s: %s", SHOWN_URL, url, wrong);
	return 0;
}

char *wr_fetch_url_resolve(const char *base, const char *reference)
{
	CURLU *parts = curl_url();
	char *text = NULL, *copy;

	if (!parts)
		return NULL;
	if (!curl_url_set(parts, CURLUPART_URL, base, 0) &&
	    (!reference || !curl_url_set(parts, CURLUPART_URL, reference, CURLU_URLENCODE)) &&
	    !curl_url_set(parts, CURLUPART_FRAGMENT, NULL, 0))
		curl_url_get(parts, CURLUPART_URL, &text, 0);
	copy = text ? strdup(text) : NULL;
	curl_free(text);
	curl_url_cleanup(parts);
	return copy;
}

/* ---- the fields ---- */

/* Fields that the client sets by itself. A caller that sets them could make the message ambiguous. */
static bool is_own(struct weir_str name)
{
	static const char *const own[] = {"content-length",
					  "transfer-encoding",
					  "connection",
					  "host",
					  "te",
					  "upgrade",
					  "trailer",
					  "expect",
					  "proxy-connection"};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (wr_str_equal_nocase(name, wr_str(own[i])))
			return true;
	return false;
}

static int check_field(struct weir_str name, struct weir_str value, struct weir_error *error)
{
	if (!wr_fetch_is_token(name))
		return wr_error(error, WEIR_EINVAL,
				"the name of a header field is empty, or has a character that is "
				"not allowed");
	if (!wr_fetch_is_value(value))
		return wr_error(error, WEIR_EINVAL,
				"the value of the header field %.64s has a control character",
				name.ptr);
	if (is_own(name))
		return wr_error(error, WEIR_EINVAL, "the client sets the header field %.64s itself",
				name.ptr);
	return 0;
}

static int copy_fields(struct wr_fetch_job *job, const struct weir_request *request,
		       struct weir_error *error)
{
	wr_buf_init(&job->request, FIELDS_BYTES);
	if (request->field_count > FIELDS_MAX)
		return wr_error(error, WEIR_EINVAL, "a request has more than %u header fields",
				FIELDS_MAX);
	for (size_t i = 0; i < request->field_count; i++) {
		struct weir_str name, value;
		int rc;

		if (!request->fields[i].name || !request->fields[i].value)
			return wr_error(error, WEIR_EINVAL, "a header field is NULL");
		name = wr_str(request->fields[i].name);
		value = wr_str_trim(wr_str(request->fields[i].value));
		rc = check_field(name, value, error);
		if (rc < 0)
			return rc;
		if (!wr_fetch_fields_add(&job->request, name, value))
			return wr_error(error, WEIR_EINVAL,
					"the header fields of a request have more than %zu bytes",
					FIELDS_BYTES);
	}
	return 0;
}

/* ---- retries and the cache ---- */

static bool is_safe(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* Writes a random UUID of version 4. */
static void make_key(struct weir_client *client, char key[37])
{
	uint64_t a = wr_fetch_random(client), b = wr_fetch_random(client);

	snprintf(key, 37, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32),
		 (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
		 (unsigned)(0x8000 | (b >> 48 & 0x3fff)),
		 (unsigned long long)(b & 0xffffffffffffull));
}

static bool has_field(const struct wr_fetch_job *job, const char *name)
{
	struct weir_str value;

	return wr_fetch_fields_get(wr_buf_str(&job->request), wr_str(name), &value);
}

/* Only a plain GET uses the cache: a caller that asks for a part, or asks conditionally, gets the
 * response of the server. */
bool wr_fetch_job_can_cache(const struct wr_fetch_job *job)
{
	return job->client->cache && strcmp(job->method, "GET") == 0 && !job->body_len &&
	       !(job->flags & WEIR_REQUEST_NO_CACHE) && !job->delivered &&
	       !has_field(job, "range") && !has_field(job, "if-none-match") &&
	       !has_field(job, "if-modified-since") && !has_field(job, "if-match") &&
	       !has_field(job, "if-unmodified-since") && !has_field(job, "if-range");
}

static void prepare_retries(struct wr_fetch_job *job)
{
	bool wanted =
		job->flags & WEIR_REQUEST_RETRY || job->client->opts.flags & WEIR_CLIENT_RETRY_ALL;

	job->has_key = has_field(job, "idempotency-key");
	if (wanted && !job->has_key && !is_safe(job->method))
		make_key(job->client, job->key);
}

/* ---- making and freeing ---- */

/* Reads the fields that the caller's version of the struct has. */
static int read_request(const struct weir_client *client, const struct weir_request *given,
			struct weir_request *request, struct weir_error *error)
{
	size_t size = given->size;

	*request = (struct weir_request){0};
	if (size < offsetof(struct weir_request, fields) || size > sizeof *request)
		return wr_error(error, WEIR_EINVAL, "weir_request.size is %zu", size);
	memcpy(request, given, size);
	if (!request->url)
		return wr_error(error, WEIR_EINVAL, "a request has no URL");
	if (!request->method)
		request->method = "GET";
	if (strlen(request->method) > METHOD_MAX || !wr_fetch_is_token(wr_str(request->method)))
		return wr_error(error, WEIR_EINVAL, "the method of a request is not valid");
	if (request->flags & ~(uint32_t)REQUEST_FLAGS)
		return wr_error(error, WEIR_EINVAL, "weir_request.flags has an unknown flag: 0x%x",
				request->flags);
	if (request->body_len > client->opts.body_bytes || (request->body_len && !request->body))
		return wr_error(error, WEIR_EINVAL, "the body of a request is too large or NULL");
	if (request->flags & WEIR_REQUEST_CONTINUE && !request->on_body)
		return wr_error(error, WEIR_EINVAL, "WEIR_REQUEST_CONTINUE needs on_body");
	if (request->offset && (!(request->flags & WEIR_REQUEST_CONTINUE) || !request->validator ||
				!wr_fetch_is_value(wr_str(request->validator))))
		return wr_error(error, WEIR_EINVAL,
				"an offset needs WEIR_REQUEST_CONTINUE and a validator");
	return 0;
}

static int fill(struct wr_fetch_job *job, const struct weir_request *request,
		struct weir_error *error)
{
	char key[WR_FETCH_HOST_TEXT], text[WR_FETCH_HOST_TEXT];
	int rc = wr_fetch_url_read(request->url, key, text, error);

	if (rc == 0)
		rc = copy_fields(job, request, error);
	if (rc < 0)
		return rc;
	job->method = strdup(request->method);
	job->url = wr_fetch_url_resolve(request->url, NULL);
	job->body = malloc(request->body_len + 1);
	job->validator = request->offset ? strdup(request->validator) : NULL;
	job->response = wr_fetch_response_make(job->client);
	if (!job->method || !job->url || !job->body || !job->response ||
	    (request->offset && !job->validator))
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	if (request->body_len)
		memcpy(job->body, request->body, request->body_len);
	job->body_len = request->body_len;
	job->delivered = request->offset;
	job->response->shown.context = request->context;
	job->uses_cache = wr_fetch_job_can_cache(job);
	if (has_field(job, "range")) { /* the positions of a part are not those of the body */
		if (request->offset)
			return wr_error(error, WEIR_EINVAL, "an offset excludes a Range field");
		job->flags &= ~(uint32_t)WEIR_REQUEST_CONTINUE;
	}
	prepare_retries(job);
	return 0;
}

int wr_fetch_job_make(struct weir_client *client, const struct weir_request *given,
		      struct wr_fetch_job **made, struct weir_error *error)
{
	struct weir_request request;
	struct wr_fetch_job *job;
	int rc = read_request(client, given, &request, error);

	if (rc < 0)
		return rc;
	job = calloc(1, sizeof *job);
	if (!job)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	job->client = client;
	job->flags = request.flags;
	job->on_body = request.on_body;
	job->context = request.context;
	job->entry.fd = -1;
	job->deadline_ns = wr_clock_mono_ns() +
			   (request.deadline_ns ? request.deadline_ns : client->opts.deadline_ns);
	rc = fill(job, &request, error);
	if (rc < 0) {
		wr_fetch_job_free(job);
		return rc;
	}
	*made = job;
	return 0;
}

void wr_fetch_job_free(struct wr_fetch_job *job)
{
	wr_buf_free(&job->request);
	free(job->method);
	free(job->url);
	free(job->body);
	free(job->validator);
	if (job->response)
		weir_response_free(&job->response->shown);
	free(job);
}
