/* Sends one HTTP/1.1 request on a connection of its own, with libcurl. Called by `weir ask --http`
 * and by admin.c. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/error.h"
#include "cli/client/client.h"

#define TOKEN_FIELD 600
#define SECOND_NS 1000000000u

struct http_exchange {
	const char *address;
	struct wr_endpoint at;
	wr_client_check *check; /* checks the peer; NULL: any peer is accepted */
	struct weir_error *error;
	bool refused; /* `check` has refused the peer and set the error */
	int fd;       /* owned by libcurl */
	int os_error; /* errno of connect() */
	struct wr_buf body;
	/* time of the last call of on_progress(), and how long no bytes were sent or received */
	uint64_t seen_ns, idle_ns;
	curl_off_t bytes;
};

static curl_socket_t on_open(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_exchange *exchange = context;

	(void)purpose;
	exchange->fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	return exchange->fd < 0 ? CURL_SOCKET_BAD : exchange->fd;
}

/* Called by libcurl when the socket is connected, before the request is sent. */
static int on_connected(void *context, char *ip, char *local_ip, int port, int local_port)
{
	struct http_exchange *exchange = context;

	(void)ip;
	(void)local_ip;
	(void)port;
	(void)local_port;
	exchange->refused = exchange->check &&
			    exchange->check(exchange->fd, exchange->address, exchange->error) < 0;
	return exchange->refused ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
	struct http_exchange *exchange = context;

	return wr_buf_add(&exchange->body, bytes, size * count) ? size * count : 0;
}

/* Called by libcurl about once a second: ends an exchange in which no bytes were sent or received
 * for WR_CLIENT_TIMEOUT_S. If the calls are further apart, this process was stopped (Ctrl-Z, a
 * debugger, a suspended machine). Such a gap counts as one second, so that it does not end the
 * exchange. */
static int on_progress(void *context, curl_off_t download_total, curl_off_t downloaded,
		       curl_off_t upload_total, curl_off_t uploaded)
{
	struct http_exchange *exchange = context;
	uint64_t now_ns = wr_clock_mono_ns(), gap_ns = now_ns - exchange->seen_ns;

	(void)download_total;
	(void)upload_total;
	exchange->seen_ns = now_ns;
	exchange->idle_ns += gap_ns < SECOND_NS ? gap_ns : SECOND_NS;
	if (exchange->bytes != downloaded + uploaded)
		exchange->idle_ns = 0;
	exchange->bytes = downloaded + uploaded;
	return exchange->idle_ns > (uint64_t)WR_CLIENT_TIMEOUT_S * SECOND_NS;
}

static void set_target(CURL *easy, const struct wr_endpoint *at, const char *path)
{
	char url[2560];

	if (at->kind == WR_ENDPOINT_UNIX)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, at->host);
	/* A port without a host is on this machine, where the service may listen on IPv4 or IPv6.
	 */
	if (at->kind == WR_ENDPOINT_UNIX || at->kind == WR_ENDPOINT_ANY)
		snprintf(url, sizeof url, "http://localhost:%u%s", at->port ? at->port : 80u, path);
	else
		snprintf(url, sizeof url,
			 at->kind == WR_ENDPOINT_V6 ? "http://[%s]:%u%s" : "http://%s:%u%s",
			 at->host, at->port, path);
	curl_easy_setopt(easy, CURLOPT_URL, url);
}

static void set_options(CURL *easy, struct http_exchange *exchange, struct curl_slist *fields,
			const char *body)
{
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* ignore proxies that the environment names */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields);
	if (body)
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exchange);
}

static CURLcode perform(struct http_exchange *exchange, const char *path, const char *token,
			const char *body, int *status)
{
	static const char *const fixed[] = {"Host: localhost", "Connection: close",
					    "Content-Type: application/json", "Expect:"};
	char field[TOKEN_FIELD];
	struct curl_slist *fields = NULL;
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	CURL *easy = curl_easy_init();
	long code = 0, os_error = 0;

	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		fields = curl_slist_append(fields, fixed[i]);
	if (token) {
		snprintf(field, sizeof field, "Authorization: Bearer %s", token);
		fields = curl_slist_append(fields, field);
	}
	if (easy && fields) {
		set_target(easy, &exchange->at, path);
		set_options(easy, exchange, fields, body);
		rc = curl_easy_perform(easy);
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
		curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
	}
	*status = (int)code;
	exchange->os_error = (int)os_error;
	curl_easy_cleanup(easy);
	curl_slist_free_all(fields);
	return rc;
}

static int report_failure(CURLcode rc, const struct http_exchange *exchange)
{
	struct weir_error *error = exchange->error;

	if (exchange->refused)
		return WEIR_ESYS;
	switch (rc) {
	case CURLE_COULDNT_RESOLVE_HOST:
		errno = EHOSTUNREACH;
		return wr_client_refused(exchange->address, error);
	case CURLE_COULDNT_CONNECT:
		errno = exchange->os_error;
		return wr_client_refused(exchange->address, error);
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return wr_error(error, WEIR_EFORMAT,
				"the program at %s does not speak HTTP/1.1; is it another port?",
				exchange->address);
	case CURLE_WRITE_ERROR:
		return wr_error(error, WEIR_EFORMAT, "the response is larger than %u MiB",
				WR_CLIENT_REPLY_MAX >> 20);
	case CURLE_ABORTED_BY_CALLBACK:
		return wr_error(error, WEIR_ESYS, "%s did not answer within %d s",
				exchange->address, WR_CLIENT_TIMEOUT_S);
	default:
		return wr_error(error, WEIR_ESYS, "the connection ended before the response: %s",
				curl_easy_strerror(rc));
	}
}

int wr_client_http(const char *address, wr_client_check *check, const char *method,
		   const char *path, const char *token, json_t *body, struct wr_client_reply *reply,
		   struct weir_error *error)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	const char *sent = strcmp(method, "POST") == 0 ? (text ? text : "") : NULL;
	struct http_exchange exchange = {.address = address,
					 .check = check,
					 .error = error,
					 .fd = -1,
					 .seen_ns = wr_clock_mono_ns()};
	int rc = wr_endpoint_parse(wr_str(address), &exchange.at, error);
	CURLcode done;

	wr_assert(reply && error);
	*reply = (struct wr_client_reply){0};
	json_decref(body);
	wr_buf_init(&exchange.body, WR_CLIENT_REPLY_MAX);
	if (rc == 0) {
		done = perform(&exchange, path, token, sent, &reply->status);
		rc = done == CURLE_OK ? 0 : report_failure(done, &exchange);
	}
	if (rc == 0) {
		struct weir_str got = wr_buf_str(&exchange.body);

		reply->json = json_loadb(got.ptr, got.len, JSON_ALLOW_NUL, NULL);
		snprintf(reply->text, sizeof reply->text, "%.200s", got.ptr);
	}
	wr_buf_free(&exchange.body);
	free(text);
	return rc;
}
