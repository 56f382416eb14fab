/* Sends one request on a connection of its own, with libcurl. Called by admin.c, grpc.c and
 * `weir ask --http`. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/error.h"
#include "cli/client/client.h"

#define TOKEN_FIELD 600
#define SECOND_NS 1000000000u

/* A request that libcurl is sending, or whose response libcurl is receiving. */
struct http_transfer {
	struct wr_cli_client_exchange *exchange;
	struct wr_endpoint at;
	struct weir_error *error;
	bool refused; /* exchange->check has refused the server and set the error */
	int fd;       /* socket of the connection; owned by libcurl */
	/* seen_ns: time of the latest call of on_progress(); idle_ns: how long no bytes were sent
	 * or received */
	uint64_t seen_ns, idle_ns;
	curl_off_t bytes;
};

static curl_socket_t on_open(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_transfer *transfer = context;

	(void)purpose;
	transfer->fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	return transfer->fd < 0 ? CURL_SOCKET_BAD : transfer->fd;
}

/* Called by libcurl when the socket is connected, before the request is sent. Ends the transfer if
 * exchange->check refuses the server. */
static int on_connected(void *context, char *ip, char *local_ip, int port, int local_port)
{
	struct http_transfer *transfer = context;
	const struct wr_cli_client_exchange *exchange = transfer->exchange;

	(void)ip;
	(void)local_ip;
	(void)port;
	(void)local_port;
	transfer->refused = exchange->check &&
			    exchange->check(transfer->fd, exchange->address, transfer->error) < 0;
	return transfer->refused ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Called by libcurl for each header field and trailer field. Stores the values of grpc-status and
 * grpc-message. */
static size_t on_field(char *bytes, size_t size, size_t count, void *context)
{
	struct wr_cli_client_exchange *exchange = ((struct http_transfer *)context)->exchange;
	struct weir_str line = {bytes, size * count};
	size_t colon = wr_str_find(line, ':');
	struct weir_str name = wr_str_first(line, colon);
	struct weir_str value =
		wr_str_trim(wr_str_from(line, colon < line.len ? colon + 1 : colon));

	if (wr_str_equal_nocase(name, WR_STR("grpc-status")))
		exchange->grpc_status = (int)strtol(value.ptr, NULL, 10);
	else if (wr_str_equal_nocase(name, WR_STR("grpc-message")))
		snprintf(exchange->grpc_message, sizeof exchange->grpc_message, "%.*s",
			 (int)value.len, value.ptr);
	return line.len;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
	const struct http_transfer *transfer = context;

	return wr_buf_add(&transfer->exchange->answer, bytes, size * count) ? size * count : 0;
}

/* Called by libcurl about once a second. Ends the transfer if no bytes were sent or received for
 * WR_CLIENT_TIMEOUT_S. If two calls are more than a second apart, this process was stopped (Ctrl-Z,
 * a debugger, a suspended machine). The time between these calls counts as one second, so that it
 * does not end the transfer. */
static int on_progress(void *context, curl_off_t download_total, curl_off_t downloaded,
		       curl_off_t upload_total, curl_off_t uploaded)
{
	struct http_transfer *transfer = context;
	uint64_t now_ns = wr_clock_mono_ns(), gap_ns = now_ns - transfer->seen_ns;

	(void)download_total;
	(void)upload_total;
	transfer->seen_ns = now_ns;
	transfer->idle_ns += gap_ns < SECOND_NS ? gap_ns : SECOND_NS;
	if (transfer->bytes != downloaded + uploaded)
		transfer->idle_ns = 0;
	transfer->bytes = downloaded + uploaded;
	return transfer->idle_ns > (uint64_t)WR_CLIENT_TIMEOUT_S * SECOND_NS;
}

static void set_target(CURL *easy, const struct wr_endpoint *at, const char *path)
{
	char url[2560];

	if (at->kind == WR_ENDPOINT_UNIX)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, at->host);
	/* A port without a host is on this machine, where the service can listen on IPv4 or on
	 * IPv6. */
	if (at->kind == WR_ENDPOINT_UNIX || at->kind == WR_ENDPOINT_ANY)
		snprintf(url, sizeof url, "http://localhost:%u%s", at->port ? at->port : 80u, path);
	else
		snprintf(url, sizeof url,
			 at->kind == WR_ENDPOINT_V6 ? "http://[%s]:%u%s" : "http://%s:%u%s",
			 at->host, at->port, path);
	curl_easy_setopt(easy, CURLOPT_URL, url);
}

static void set_options(CURL *easy, struct http_transfer *transfer, struct curl_slist *fields)
{
	const struct wr_cli_client_exchange *exchange = transfer->exchange;

	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
			 (long)(exchange->grpc ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
					       : CURL_HTTP_VERSION_1_1));
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* ignore proxies that the environment names */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields);
	if (exchange->body.ptr) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)exchange->body.len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange->body.ptr);
	}
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_field);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(easy, CURLOPT_XFERINFODATA, transfer);
}

/* Sets the error of a connect() that failed. */
static int report_refusal(const char *address, int os_error, struct weir_error *error)
{
	if (os_error == EACCES)
		return wr_error(
			error, WEIR_EACCESS,
			"this user may not connect to %s: run the command as root or as the "
			"service's user, or use the port with --admin and --token-file",
			address);
	errno = os_error;
	return wr_error_errno(error, WEIR_ESYS, "no service answers at %s (is weir serve running?)",
			      address);
}

static int report_failure(CURLcode rc, const struct http_transfer *transfer, int os_error)
{
	const char *address = transfer->exchange->address;
	struct weir_error *error = transfer->error;

	if (transfer->refused)
		return WEIR_ESYS;
	switch (rc) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return report_refusal(address, EHOSTUNREACH, error);
	case CURLE_COULDNT_CONNECT:
		return report_refusal(address, os_error, error);
	case CURLE_WRITE_ERROR:
		return wr_error(error, WEIR_EFORMAT, "the response is larger than %u MiB",
				WR_CLIENT_REPLY_MAX >> 20);
	case CURLE_ABORTED_BY_CALLBACK:
		return wr_error(error, WEIR_ESYS, "%s did not answer within %d s", address,
				WR_CLIENT_TIMEOUT_S);
	default:
		break;
	}
	if (transfer->exchange->grpc)
		return wr_error(
			error, WEIR_ESYS,
			"%s does not speak gRPC without TLS; is it another port, or does it need "
			"TLS?",
			address);
	if (rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_WEIRD_SERVER_REPLY)
		return wr_error(error, WEIR_EFORMAT,
				"the program at %s does not speak HTTP/1.1; is it another port?",
				address);
	return wr_error(error, WEIR_ESYS, "the connection ended before the response: %s",
			curl_easy_strerror(rc));
}

int wr_cli_client_exchange(struct wr_cli_client_exchange *exchange, struct weir_error *error)
{
	struct http_transfer transfer = {
		.exchange = exchange, .error = error, .fd = -1, .seen_ns = wr_clock_mono_ns()};
	struct curl_slist *fields = NULL;
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	long status = 0, os_error = 0;
	CURL *easy;

	exchange->grpc_status = -1;
	exchange->grpc_message[0] = '\0';
	wr_buf_init(&exchange->answer, WR_CLIENT_REPLY_MAX);
	if (wr_endpoint_parse(wr_str(exchange->address), &transfer.at, error) < 0)
		return WEIR_EINVAL;
	easy = curl_easy_init();
	for (const char *const *field = exchange->fields; *field; field++)
		fields = curl_slist_append(fields, *field);
	if (easy && fields) {
		set_target(easy, &transfer.at, exchange->path);
		set_options(easy, &transfer, fields);
		rc = curl_easy_perform(easy);
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
	}
	exchange->status = (int)status;
	curl_easy_cleanup(easy);
	curl_slist_free_all(fields);
	return rc == CURLE_OK ? 0 : report_failure(rc, &transfer, (int)os_error);
}

int wr_cli_client_http(const char *address, wr_cli_client_check *check, const char *method,
		       const char *path, const char *token, json_t *body,
		       struct wr_cli_client_reply *reply, struct weir_error *error)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	bool is_post = strcmp(method, "POST") == 0;
	char field[TOKEN_FIELD];
	const char *fields[] = {
		"Host: localhost", "Connection: close",  "Content-Type: application/json",
		"Expect:",         token ? field : NULL, NULL};
	struct wr_cli_client_exchange exchange = {.address = address,
						  .path = path,
						  .fields = fields,
						  .check = check,
						  .body = is_post ? wr_str(text ? text : "")
								  : (struct weir_str){NULL, 0}};
	struct weir_str got;
	int rc;

	wr_assert(reply && error);
	json_decref(body);
	snprintf(field, sizeof field, "Authorization: Bearer %s", token ? token : "");
	rc = wr_cli_client_exchange(&exchange, error);
	got = wr_buf_str(&exchange.answer);
	*reply = (struct wr_cli_client_reply){.status = exchange.status};
	if (rc == 0) {
		reply->json = json_loadb(got.ptr, got.len, JSON_ALLOW_NUL, NULL);
		snprintf(reply->text, sizeof reply->text, "%.200s", got.ptr);
	}
	wr_buf_free(&exchange.answer);
	free(text);
	return rc;
}
