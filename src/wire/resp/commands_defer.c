/* Runs WEIR.DEFER and WEIR.TICKET: reads the arguments, asks the queue, and writes the queue's
 * answer. Called through the table of commands.c. */
#include "wire/resp/commands_defer.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "wire/http/http1.h"
#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

/* ---- arguments ---- */

enum argument {
	A_VERSION = 1,
	A_DOMAIN,
	A_RULE,
	A_KEY,
	A_METHOD,
	A_URI,
	A_DESCRIPTORS,
	A_MAX_WAITING,
	A_MAX_AGE,
	A_MAX_TRIES,
	A_WAIT,
	A_INTERVAL,
	A_BODY,
};
_Static_assert(A_BODY + 1 == WR_DEFER_ARGS, "the enum has all arguments before the header fields");

static bool is_number(struct weir_str text, uint64_t least, uint64_t most, uint64_t *value)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.ptr[i] - (unsigned)'0';

		if (digit > 9 || sum > (UINT64_MAX - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*value = sum;
	return text.len > 0 && sum >= least && sum <= most;
}

/* Returns whether the text may be part of a request's head, that is, whether it has no control
 * characters. Blanks and tabs are allowed only if `blanks` is true. */
static bool is_plain(struct weir_str text, bool blanks)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (c == 0x7f || c < ' ' ? !(blanks && c == '\t') : c == ' ' && !blanks)
			return false;
	}
	return true;
}

static int read_fields(struct wr_wire_defer_request *request, struct weir_error *error)
{
	size_t bytes = 0;

	if (request->field_count > WR_DEFER_FIELDS_MAX)
		return wr_error(error, WEIR_EINVAL, "the request has more than 100 header fields");
	for (uint32_t i = 0; i < request->field_count; i++) {
		struct weir_str name = request->fields[2 * i], value = request->fields[2 * i + 1];

		if (name.len > WR_DEFER_NAME_MAX || !wr_http1_is_token(name) ||
		    !is_plain(value, true))
			return wr_error(error, WEIR_EINVAL,
					"the name or the value of a header field is invalid");
		bytes += name.len + value.len;
	}
	if (bytes > WR_DEFER_FIELD_BYTES_MAX)
		return wr_error(error, WEIR_EINVAL,
				"the header fields are larger than 32768 bytes");
	return 0;
}

static int read_texts(const struct weir_str *argv, struct wr_wire_defer_request *request,
		      struct weir_error *error)
{
	*request = (struct wr_wire_defer_request){.domain = argv[A_DOMAIN],
						  .rule = argv[A_RULE],
						  .key = argv[A_KEY],
						  .method = argv[A_METHOD],
						  .uri = argv[A_URI],
						  .descriptors = argv[A_DESCRIPTORS],
						  .body = argv[A_BODY]};
	if (!wr_str_equal(argv[A_VERSION], WR_STR("1")))
		return wr_error(error, WEIR_EINVAL,
				"the version of the arguments is not 1; use the same version of "
				"weir and of its nginx module");
	if (request->domain.len == 0 || request->domain.len > WR_DEFER_NAME_MAX)
		return wr_error(error, WEIR_EINVAL, "domain must have 1 to 255 bytes");
	if (request->rule.len > WR_DEFER_NAME_MAX)
		return wr_error(error, WEIR_EINVAL, "rule may have at most 255 bytes");
	if (request->key.len != WR_DEFER_KEY_BYTES)
		return wr_error(error, WEIR_EINVAL, "key must have 16 bytes");
	if (request->method.len > WR_DEFER_METHOD_MAX || !wr_http1_is_token(request->method))
		return wr_error(error, WEIR_EINVAL, "method is not a token of at most 16 bytes");
	if (request->uri.len == 0 || request->uri.len > WR_DEFER_URI_MAX ||
	    request->uri.ptr[0] != '/' || !is_plain(request->uri, false))
		return wr_error(error, WEIR_EINVAL,
				"uri is not a path, with an optional query, of at most 8192 bytes");
	if (request->descriptors.len > WR_DEFER_DESCRIPTORS_MAX)
		return wr_error(error, WEIR_EINVAL, "descriptors may have at most 16384 bytes");
	return 0;
}

static int read_numbers(const struct weir_str *argv, struct wr_wire_defer_request *request,
			struct weir_error *error)
{
	if (!is_number(argv[A_MAX_WAITING], 1, UINT64_MAX, &request->max_waiting))
		return wr_error(error, WEIR_EINVAL, "max_waiting is not a number of at least 1");
	if (!is_number(argv[A_MAX_AGE], 1, WR_DEFER_AGE_MAX_S, &request->max_age_s))
		return wr_error(error, WEIR_EINVAL,
				"max_age_s is not a number of seconds from 1 to a year");
	if (!is_number(argv[A_MAX_TRIES], 1, WR_DEFER_TRIES_MAX, &request->max_tries))
		return wr_error(error, WEIR_EINVAL, "max_tries is not a number from 1 to 1000000");
	if (!is_number(argv[A_WAIT], 0, UINT64_MAX, &request->wait_ns))
		return wr_error(error, WEIR_EINVAL, "wait_ns is not a number");
	if (!is_number(argv[A_INTERVAL], 0, UINT64_MAX, &request->interval_ns))
		return wr_error(error, WEIR_EINVAL, "interval_ns is not a number");
	return 0;
}

/* Reads the arguments of WEIR.DEFER. argv[0] is the name of the command. Returns 0 or WEIR_EINVAL.
 */
static int read_request(const struct weir_str *argv, uint32_t argc,
			struct wr_wire_defer_request *request, struct weir_error *error)
{
	int rc;

	if (argc < WR_DEFER_ARGS || (argc - WR_DEFER_ARGS) % 2)
		return wr_error(error, WEIR_EINVAL, "a header field needs a name and a value");
	rc = read_texts(argv, request, error);
	if (rc == 0)
		rc = read_numbers(argv, request, error);
	request->fields = argv + WR_DEFER_ARGS;
	request->field_count = (argc - WR_DEFER_ARGS) / 2;
	return rc == 0 ? read_fields(request, error) : rc;
}

bool wr_wire_defer_is_secret(struct weir_str name)
{
	static const char *const secret[] = {"authorization", "proxy-authorization",
					     "cookie",        "x-api-key",
					     "api-key",       "x-auth-token"};

	for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
		if (wr_str_equal_nocase(name, wr_str(secret[i])))
			return true;
	return false;
}

static void write_refusal(struct wr_resp_out *out, const char *reason, const char *sentence)
{
	wr_reply_error(out, "DEFER %s %s", reason, sentence);
}

/* ---- waiting for the queue ---- */

static void copy_answer(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns)
{
	const struct wr_wire_defer_answer *queue_answer = answer;

	(void)now_ns;
	wr_assert(len == sizeof *queue_answer);
	wait->deferred.reason = queue_answer->reason;
	wait->deferred.sentence = queue_answer->sentence;
	wait->deferred.position = queue_answer->position;
	wait->deferred.expected_ns = queue_answer->expected_ns;
	memcpy(wait->deferred.ticket, queue_answer->ticket, sizeof wait->deferred.ticket);
	if (queue_answer->reason || queue_answer->json.len == 0)
		return;
	wait->deferred.json = malloc(queue_answer->json.len);
	if (wait->deferred.json) {
		memcpy(wait->deferred.json, queue_answer->json.ptr, queue_answer->json.len);
	} else {
		wait->deferred.reason = "error";
		wait->deferred.sentence = "the queue failed: see the log of weir";
	}
	wait->deferred.json_len = queue_answer->json.len;
}

static void write_answer(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	if (wait->deferred.reason) {
		write_refusal(out, wait->deferred.reason, wait->deferred.sentence);
	} else if (!wait->deferred.asked) {
		wr_reply_array(out, 3);
		wr_reply_cstr(out, wait->deferred.ticket);
		wr_reply_integer(out, (int64_t)wait->deferred.position);
		wr_reply_integer(out, (int64_t)wait->deferred.expected_ns);
	} else if (wait->deferred.json) {
		wr_reply_bulk(out, (struct weir_str){wait->deferred.json, wait->deferred.json_len});
	} else {
		wr_reply_null(out);
	}
}

static void free_answer(struct wr_resp_wait *wait)
{
	free(wait->deferred.json);
}

static const struct wr_resp_wait_kind defer_kind = {copy_answer, write_answer, free_answer};

/* Returns a new struct wr_resp_wait for the queue's answer. On failure writes an error and returns
 * NULL. */
static struct wr_resp_wait *begin_wait(const struct wr_resp_call *call)
{
	const struct wr_resp_queue *queue = call->host->queue;
	struct wr_resp_wait *wait = NULL;

	if (!queue) {
		write_refusal(call->out, "off", "there is no queue: start weir with --queue");
		return NULL;
	}
	wait = queue->begin(call->host);
	if (!wait) {
		write_refusal(call->out, "busy",
			      "too many requests are being written to the queue");
		return NULL;
	}
	wr_resp_wait_init(wait, call->session, WR_RESP_QUEUE, &defer_kind);
	return wait;
}

void wr_resp_command_defer(const struct wr_resp_call *call)
{
	struct wr_wire_defer_request request;
	struct wr_resp_wait *wait;
	struct weir_error error;

	if (read_request(call->argv, call->argc, &request, &error) != 0) {
		write_refusal(call->out, "bad", error.text);
		return;
	}
	wait = begin_wait(call);
	if (!wait)
		return;
	call->host->queue->defer(call->host, wait, &request, call->now_ns);
	wr_resp_wait_reply(wait, call->out);
}

void wr_resp_command_ticket(const struct wr_resp_call *call)
{
	struct wr_resp_wait *wait = begin_wait(call);

	wr_assert(call->argc == 2);
	if (!wait)
		return;
	wait->deferred.asked = true;
	call->host->queue->ticket(call->host, wait, call->argv[1], call->now_ns);
	wr_resp_wait_reply(wait, call->out);
}
