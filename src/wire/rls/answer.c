/* Makes a RateLimitResponse from a decided ask. Called by serve/grpc/rls.c and
 * serve/http/json.c. */
#include "wire/rls/rls.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "limiter/ask.h"
#include "limiter/status.h"
#include "wire/rls/plain.h"

/* size of the first buffer for a body; a longer body is written again into a larger buffer */
#define BODY_BYTES 2048
/* maximum number of header fields: those of a profile (enum weir_profile), three of Envoy's
 * ratelimit, and content-type */
#define HEADERS_MAX 16
#define NUMBER_TEXT 11 /* maximum size of a uint32_t as text, including the zero byte */

/* A response that is being made, with its input. */
struct rls_answer {
	struct weir_ask *ask;
	const struct wr_rls_options *options;
	struct wr_rls_memory *memory;
	Pb__RateLimitResponse *response;
	bool refused;
	bool too_long; /* the delay is longer than the client can wait, so the request is refused */
};

/* A status and the messages that it points to, allocated together. */
struct status_parts {
	Pb__RateLimitResponse__DescriptorStatus status;
	Pb__RateLimitResponse__RateLimit limit;
	Pb__Duration reset;
};

static ProtobufCBinaryData bytes_of(struct weir_str text)
{
	return (ProtobufCBinaryData){text.len, (uint8_t *)text.ptr};
}

/* ---- statuses ---- */

static void fill_pb_limit(struct status_parts *parts, const struct weir_status *from)
{
	pb__rate_limit_response__rate_limit__init(&parts->limit);
	parts->limit.requests_per_unit = from->requests_per_unit;
	parts->limit.unit = (Pb__RateLimitResponse__RateLimit__Unit)from->unit;
	parts->limit.name = bytes_of(from->name);
	pb__duration__init(&parts->reset);
	parts->reset.seconds = from->reset_s;
	parts->status.current_limit = &parts->limit;
	parts->status.duration_until_reset = &parts->reset;
}

/* Returns whether a leaky bucket of descriptor number `at` can delay the request. */
static bool has_delay(const struct weir_ask *ask, size_t at)
{
	const struct wr_ask_descriptor *descriptor = &ask->descriptors[at];

	for (uint8_t i = 0; i < descriptor->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[descriptor->first_need + i];

		if (need->class != WR_COUNTED && !need->replaced &&
		    need->need.limit->algorithm == WEIR_LEAKY_BUCKET)
			return true;
	}
	return false;
}

static Pb__RateLimitResponse__DescriptorStatus *write_status(const struct rls_answer *answer,
							     size_t at)
{
	struct status_parts *parts = wr_rls_alloc(answer->memory, sizeof *parts);
	struct weir_status from = {.size = sizeof from};

	if (!parts)
		return NULL;
	weir_ask_status(answer->ask, at, &from);
	pb__rate_limit_response__descriptor_status__init(&parts->status);
	if (answer->too_long && has_delay(answer->ask, at))
		from.code = WEIR_STATUS_OVER_LIMIT;
	parts->status.code = (Pb__RateLimitResponse__Code)from.code;
	if (from.code == WEIR_STATUS_OK)
		parts->status.limit_remaining = from.remaining;
	if (from.flags & WEIR_STATUS_LIMITED)
		fill_pb_limit(parts, &from);
	return &parts->status;
}

static bool write_statuses(const struct rls_answer *answer, size_t count)
{
	Pb__RateLimitResponse *response = answer->response;

	response->statuses = wr_rls_alloc_many(answer->memory, count, sizeof(void *));
	if (!response->statuses)
		return false;
	for (size_t i = 0; i < count; i++) {
		response->statuses[i] = write_status(answer, i);
		if (!response->statuses[i])
			return false;
	}
	response->n_statuses = count;
	return true;
}

/* ---- header fields and body ---- */

static bool add_header(const struct rls_answer *answer, struct weir_str name, struct weir_str value)
{
	Pb__RateLimitResponse *response = answer->response;
	Pb__HeaderValue *header;

	if (response->n_response_headers_to_add == HEADERS_MAX)
		return false;
	header = wr_rls_alloc(answer->memory, sizeof *header);
	if (!header)
		return false;
	pb__header_value__init(header);
	header->key = bytes_of(name);
	header->value = bytes_of(value);
	response->response_headers_to_add[response->n_response_headers_to_add++] = header;
	return true;
}

static bool add_number(const struct rls_answer *answer, const char *name, uint32_t number)
{
	char *text;
	int len;

	if (!name)
		return true;
	text = wr_rls_alloc(answer->memory, NUMBER_TEXT);
	if (!text)
		return false;
	len = snprintf(text, NUMBER_TEXT, "%u", number);
	return add_header(answer, (struct weir_str){name, strlen(name)},
			  (struct weir_str){text, (size_t)len});
}

/* Adds the three header fields of Envoy's ratelimit, which describe the tightest limit. */
static bool add_reference_headers(const struct rls_answer *answer)
{
	const struct wr_rls_options *options = answer->options;
	struct weir_status tightest = {.size = sizeof tightest};

	if (!options->limit_header && !options->remaining_header && !options->reset_header)
		return true;
	if (weir_ask_tightest(answer->ask, &tightest) != 0)
		return true;
	return add_number(answer, options->limit_header, tightest.requests_per_unit) &&
	       add_number(answer, options->remaining_header,
			  answer->too_long ? 0 : tightest.remaining) &&
	       add_number(answer, options->reset_header, tightest.reset_s);
}

static bool add_profile_headers(const struct rls_answer *answer)
{
	int count = answer->options->profile_headers
			    ? weir_ask_headers(answer->ask, answer->options->profile)
			    : 0;

	for (int i = 0; i < count; i++) {
		struct weir_str name, value;

		if (weir_ask_header(answer->ask, (size_t)i, &name, &value) != 0 ||
		    !add_header(answer, name, value))
			return false;
	}
	return true;
}

static bool wants_body(const struct rls_answer *answer)
{
	const struct wr_rules_response *own;

	if (!answer->refused)
		return false;
	own = wr_ask_response(answer->ask);
	return answer->options->bodies || (own && own->body.len);
}

/* Adds the body, and a header field content-type that tells Envoy the type of the body. */
static bool add_body(const struct rls_answer *answer)
{
	struct weir_str type = {0};
	size_t cap = BODY_BYTES;
	int len;
	char *body;

	if (!wants_body(answer))
		return true;
	for (;;) {
		body = wr_rls_alloc(answer->memory, cap);
		if (!body)
			return false;
		len = weir_ask_body(answer->ask, WEIR_BODY_PROBLEM, body, cap, &type);
		/* An error means that there is no body: the request is deferred, or its delay is
		 * too long. */
		if (len < 0)
			return true;
		if ((size_t)len <= cap)
			break;
		cap = (size_t)len;
	}
	answer->response->raw_body = bytes_of((struct weir_str){body, (size_t)len});
	return add_header(answer, (struct weir_str){"content-type", 12}, type);
}

static bool write_headers(const struct rls_answer *answer)
{
	const struct wr_rls_options *options = answer->options;
	Pb__RateLimitResponse *response = answer->response;

	if (!options->profile_headers && !options->limit_header && !options->remaining_header &&
	    !options->reset_header && !wants_body(answer))
		return true;
	response->response_headers_to_add =
		wr_rls_alloc_many(answer->memory, HEADERS_MAX, sizeof(void *));
	return response->response_headers_to_add && add_profile_headers(answer) &&
	       add_reference_headers(answer) && add_body(answer);
}

/* ---- the whole response ---- */

Pb__RateLimitResponse *wr_rls_answer(struct weir_ask *ask, int verdict,
				     const Pb__RateLimitRequest *request,
				     const struct wr_rls_options *options,
				     struct wr_rls_memory *memory)
{
	struct weir_result result = {.size = sizeof result};
	struct rls_answer answer = {.ask = ask,
				    .options = options,
				    .memory = memory,
				    .refused = verdict != WEIR_ADMIT,
				    .too_long = verdict == WEIR_DELAY};

	wr_assert(ask && options && memory);
	answer.response = wr_rls_alloc(memory, sizeof *answer.response);
	if (!answer.response)
		return NULL;
	weir_ask_result(ask, &result);
	pb__rate_limit_response__init(answer.response);
	answer.response->overall_code = answer.refused ? PB__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT
						       : PB__RATE_LIMIT_RESPONSE__CODE__OK;
	if (!write_statuses(&answer, result.descriptors) || !write_headers(&answer))
		return NULL;
	if (!options->dynamic_metadata || !request)
		return answer.response;
	answer.response->dynamic_metadata = wr_rls_metadata(ask, request, memory);
	return answer.response->dynamic_metadata ? answer.response : NULL;
}

size_t wr_rls_size(const Pb__RateLimitResponse *response)
{
	return wr_rls_is_plain(response) ? wr_rls_size_plain(response)
					 : pb__rate_limit_response__get_packed_size(response);
}

void wr_rls_pack(const Pb__RateLimitResponse *response, uint8_t *out)
{
	if (wr_rls_is_plain(response))
		wr_rls_pack_plain(response, out);
	else
		pb__rate_limit_response__pack(response, out);
}
