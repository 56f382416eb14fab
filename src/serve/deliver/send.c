/* Turns a deferred request into a transfer of libcurl, and its response into an outcome for the
 * queue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "limiter/text.h"
#include "serve/deliver/deliver_impl.h"
#include "wire/resp/commands_defer.h"
#include "wire/json.h"

#define CONNECT_MS_MAX 10000u
#define NAME_AND_VALUE 3 /* bytes for the colon, the blank and the terminating zero of a field */
#define OWN_FIELDS 5     /* number of fields that the deliverer adds or suppresses */
#define OWN_BYTES 192    /* bytes for OWN_FIELDS fields, without the value of Idempotency-Key */

/* ---- header fields of the request ---- */

/* A list of header fields for libcurl in one piece of memory: first the elements of the list, then
 * their texts. libcurl does not change the list. */
struct lines {
	struct curl_slist *next;
	char *text;
};

static size_t size_of_lines(const struct wr_queue_request *request)
{
	size_t count = request->field_count + OWN_FIELDS;
	size_t size = count * (sizeof(struct curl_slist) + NAME_AND_VALUE) + OWN_BYTES +
		      request->idempotency_key.len;

	for (size_t i = 0; i < request->field_count; i++)
		size += request->fields[i].name.len + request->fields[i].value.len;
	return size;
}

static void add_text(struct lines *lines, struct weir_str text)
{
	if (text.len)
		memcpy(lines->text, text.ptr, text.len);
	lines->text += text.len;
}

static void begin_line(struct lines *lines)
{
	*lines->next = (struct curl_slist){lines->text, lines->next + 1};
	lines->next++;
}

/* Adds a header field. For an empty value libcurl wants "Name;", because "Name:" would suppress the
 * field. */
static void add_field(struct lines *lines, struct weir_str name, struct weir_str value)
{
	begin_line(lines);
	add_text(lines, name);
	add_text(lines, value.len ? WR_STR(": ") : WR_STR(";"));
	add_text(lines, value);
	*lines->text++ = '\0';
}

/* Suppresses a field that libcurl would add by itself. */
static void suppress_field(struct lines *lines, struct weir_str name)
{
	begin_line(lines);
	add_text(lines, name);
	add_text(lines, WR_STR(":"));
	*lines->text++ = '\0';
}

static bool has_field(const struct wr_queue_request *request, struct weir_str name)
{
	for (size_t i = 0; i < request->field_count; i++)
		if (wr_str_equal_nocase(request->fields[i].name, name))
			return true;
	return false;
}

static int make_fields(struct wr_delivery *delivery)
{
	const struct wr_queue_request *request = delivery->request;
	size_t most = request->field_count + OWN_FIELDS;
	char accepted[WR_TIME_TEXT];
	struct curl_slist *first;
	struct lines lines;

	for (size_t i = 0; i < request->field_count; i++)
		if (request->fields[i].locked)
			return WEIR_EACCESS;
	first = malloc(size_of_lines(request));
	if (!first)
		return WEIR_EMEMORY;
	lines = (struct lines){first, (char *)(first + most)};
	suppress_field(&lines, WR_STR("Expect"));
	for (size_t i = 0; i < request->field_count; i++)
		add_field(&lines, request->fields[i].name, request->fields[i].value);
	if (!has_field(request, WR_STR("accept")))
		suppress_field(&lines, WR_STR("Accept"));
	if (!has_field(request, WR_STR("content-type")))
		suppress_field(&lines, WR_STR("Content-Type"));
	add_field(&lines, WR_STR("Idempotency-Key"), request->idempotency_key);
	add_field(&lines, WR_STR("X-Weir-Deferred"),
		  wr_time_text(request->accepted_us * 1000, accepted));
	lines.next[-1].next = NULL;
	delivery->fields = first;
	return 0;
}

/* ---- the response ---- */

/* Returns whether the line is a status line "HTTP/1.1 101 …". */
static bool is_status_101(struct weir_str line)
{
	size_t blank = wr_str_find(line, ' ');

	return wr_str_begins(wr_str_from(line, blank), WR_STR(" 101")) &&
	       (line.len == blank + 4 || line.ptr[blank + 4] == ' ');
}

/* Reads a line of the response's header. Aborts the transfer at a status line with 101, because no
 * HTTP follows a 101 and libcurl would read until the timeout. */
static size_t on_line(char *bytes, size_t size, size_t count, void *context)
{
	struct wr_delivery *delivery = context;
	struct weir_str line = {bytes, size * count}, name, value;
	size_t colon;

	while (line.len && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r'))
		line.len--;
	/* A status line begins a new response. The fields of an earlier 1xx response do not
	 * count. */
	if (wr_str_begins(line, WR_STR("HTTP/"))) {
		delivery->asked_us = 0;
		delivery->unreachable = false;
		if (is_status_101(line))
			return 0;
	}
	colon = wr_str_find(line, ':');
	if (colon == line.len)
		return size * count;
	name = wr_str_first(line, colon);
	value = wr_str_trim(wr_str_from(line, colon + 1));
	if (wr_str_equal_nocase(name, WR_STR("retry-after")))
		wr_deliver_retry_after(value, wr_loop_now_ns(delivery->deliverer->own->loop) / 1000,
				       &delivery->asked_us);
	else if (wr_str_equal_nocase(name, WR_STR("x-weir-unreachable")))
		delivery->unreachable = true;
	return size * count;
}

/* Reads costs from the body of the response and discards it. Aborts the transfer if the body is too
 * long; the status of the response still counts. */
static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
	struct wr_delivery *delivery = context;

	wr_deliver_read_body(delivery, bytes, size * count);
	delivery->answered += size * count;
	return delivery->answered <= WR_DELIVER_ANSWER_MAX ? size * count : 0;
}

/* ---- the transfer ---- */

static bool has_body(const struct wr_queue_request *request)
{
	return request->body.len > 0 || wr_str_equal(request->method, WR_STR("POST")) ||
	       wr_str_equal(request->method, WR_STR("PUT")) ||
	       wr_str_equal(request->method, WR_STR("PATCH"));
}

static void set_request(struct wr_delivery *delivery, const char *method, const char *uri)
{
	const struct wr_queue_request *request = delivery->request;
	CURL *easy = delivery->easy;

	if (has_body(request)) {
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
				 request->body.len ? request->body.ptr : "");
	} else {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L); /* the request has no body */
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, uri);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, delivery->fields);
}

/* Sets the trusted certificates. --queue-target-ca replaces the system's certificates. */
static void set_trust(CURL *easy, const char *ca)
{
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (!ca)
		return;
	curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}

/* Sets the options that every transfer has. Environment variables for proxies and .netrc are
 * ignored. */
static void set_common_options(struct wr_deliverer *deliverer, CURL *easy)
{
	uint64_t timeout_ms = deliverer->own->host->settings->queue.timeout_ns / 1000000;

	curl_easy_setopt(easy, CURLOPT_URL, deliverer->target.url);
	if (deliverer->target.unix_socket[0])
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, deliverer->target.unix_socket);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	set_trust(easy, deliverer->own->host->settings->queue.target_ca);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(timeout_ms ? timeout_ms : 1));
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)(timeout_ms < CONNECT_MS_MAX ? timeout_ms : CONNECT_MS_MAX));
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_line);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, wr_deliver_open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, deliverer);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, wr_deliver_close_socket);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, deliverer);
}

/* Returns an idle handle or a new one. The caller sets the options that differ between requests. */
static CURL *get_easy(struct wr_deliverer *deliverer)
{
	CURL *easy = deliverer->easy_count ? deliverer->easies[--deliverer->easy_count] : NULL;

	if (easy)
		return easy;
	easy = curl_easy_init();
	if (easy)
		set_common_options(deliverer, easy);
	return easy;
}

/* Copies a text and terminates it with a zero. The queue bounds the length of the text. */
static void copy_terminated(char *to, size_t cap, struct weir_str from)
{
	size_t len = from.len < cap ? from.len : cap - 1;

	if (len)
		memcpy(to, from.ptr, len);
	to[len] = '\0';
}

int wr_deliver_prepare(struct wr_delivery *delivery)
{
	const struct wr_queue_request *request = delivery->request;
	char method[WR_DEFER_METHOD_MAX + 1], uri[WR_DEFER_URI_MAX + 1];
	int rc;

	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(request && !delivery->easy && !delivery->fields);
	delivery->easy = get_easy(delivery->deliverer);
	if (!delivery->easy)
		return WEIR_EMEMORY;
	rc = make_fields(delivery);
	if (rc < 0)
		return rc;
	delivery->asked_us = 0;
	delivery->answered = 0;
	delivery->unreachable = false;
	delivery->error[0] = '\0';
	copy_terminated(method, sizeof method, request->method);
	copy_terminated(uri, sizeof uri, request->uri);
	curl_easy_setopt(delivery->easy, CURLOPT_PRIVATE, delivery);
	curl_easy_setopt(delivery->easy, CURLOPT_ERRORBUFFER, delivery->error);
	curl_easy_setopt(delivery->easy, CURLOPT_HEADERDATA, delivery);
	curl_easy_setopt(delivery->easy, CURLOPT_WRITEDATA, delivery);
	set_request(delivery, method, uri);
	return 0;
}

void wr_deliver_unprepare(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;

	wr_assert(!delivery->easy || deliverer->easy_count < deliverer->connections);
	wr_deliver_end_reading(delivery);
	if (delivery->easy) /* keeps the handle for reuse; `easies` has room for all handles */
		deliverer->easies[deliverer->easy_count++] = delivery->easy;
	delivery->easy = NULL;
	free(delivery->fields);
	delivery->fields = NULL;
}

/* ---- the outcome ---- */

static void set_reason(struct wr_delivery *delivery, CURLcode result, long status)
{
	if (status)
		snprintf(delivery->reason, sizeof delivery->reason, "HTTP status %ld", status);
	else
		snprintf(delivery->reason, sizeof delivery->reason, "%.*s",
			 (int)sizeof delivery->reason - 1,
			 delivery->error[0] ? delivery->error : curl_easy_strerror(result));
	delivery->job.settle.reason = wr_str(delivery->reason);
}

/* Returns the outcome of a response that is not final. Sets *before to the number of earlier failed
 * deliveries of the request, including those that do not count as attempts. */
static enum wr_queue_outcome again_or_absent(struct wr_delivery *delivery, unsigned status,
					     uint32_t *before)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	bool counts = true;

	*before = delivery->request->tries;
	if (wr_deliver_is_absent(status))
		*before += wr_deliver_absent_note(&deliverer->absent, delivery->request->id,
						  delivery->request->rule,
						  wr_deliver_mono_us(deliverer), &counts);
	return counts ? WR_QUEUE_AGAIN : WR_QUEUE_ABSENT;
}

/* A status that has arrived counts, even if the rest of the response is missing. */
bool wr_deliver_judge(struct wr_delivery *delivery, CURLcode result, uint64_t now_us,
		      uint64_t random)
{
	const struct wr_queue_request *request = delivery->request;
	struct wr_queue_job *job = &delivery->job;
	uint64_t left_us = request->expires_us > now_us ? request->expires_us - now_us : 0;
	/* Time from the start of the transfer until libcurl began to send the request. 0: nothing
	 * was sent. */
	curl_off_t sent_us = 0;
	uint32_t before;
	long status = 0;

	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(delivery->easy);
	curl_easy_getinfo(delivery->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(delivery->easy, CURLINFO_PRETRANSFER_TIME_T, &sent_us);
	if (status && !wr_deliver_is_absent((unsigned)status))
		wr_deliver_absent_present(&delivery->deliverer->absent, request->rule,
					  wr_deliver_mono_us(delivery->deliverer));
	job->settle.status = (uint16_t)status;
	if (status && wr_deliver_is_final((unsigned)status)) {
		job->settle.outcome = WR_QUEUE_DELIVERED;
		job->settle.reason = WR_STR("");
		return true;
	}
	set_reason(delivery, result, status);
	if (status == 0 && sent_us == 0)
		return false;
	if (delivery->unreachable && (status == 502 || status == 504))
		return false;
	if (status == 101) {
		job->settle.outcome = WR_QUEUE_GIVE_UP;
		return true;
	}
	job->settle.outcome = again_or_absent(delivery, (unsigned)status, &before);
	job->settle.wait_us = wr_deliver_wait_us(wr_deliver_backoff_us(before, random),
						 delivery->asked_us, left_us);
	return true;
}
