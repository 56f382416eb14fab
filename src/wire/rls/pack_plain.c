/* Packs the plain responses that plain.h describes. Called by answer.c. */
#include "wire/rls/plain.h"

#include <string.h>

#define TAG_CODE 0x08
#define TAG_STATUS 0x12
#define TAG_LIMIT 0x12
#define TAG_REMAINING 0x18
#define TAG_RESET 0x22
#define TAG_REQUESTS 0x08
#define TAG_UNIT 0x10
#define TAG_NAME 0x1a
#define TAG_SECONDS 0x08

typedef Pb__RateLimitResponse__DescriptorStatus status_of;
typedef Pb__RateLimitResponse__RateLimit limit_of;

static size_t varint_size(uint64_t value)
{
	return (size_t)(70 - __builtin_clzll(value | 1)) /
	       7; /* rounded up: each byte of a varint has seven bits of `value` */
}

/* Returns the size of a field with a number. A field with the value 0 is not written. */
static size_t number_size(uint64_t value)
{
	return value ? 1 + varint_size(value) : 0;
}

static size_t part_size(size_t len)
{
	return 1 + varint_size(len) + len;
}

static size_t limit_size(const limit_of *limit)
{
	return number_size(limit->requests_per_unit) + number_size((uint64_t)limit->unit) +
	       (limit->name.len ? part_size(limit->name.len) : 0);
}

static size_t reset_size(const Pb__Duration *reset)
{
	return number_size((uint64_t)reset->seconds);
}

static size_t status_size(const status_of *status)
{
	size_t size = number_size((uint64_t)status->code) + number_size(status->limit_remaining);

	if (status->current_limit)
		size += part_size(limit_size(status->current_limit));
	if (status->duration_until_reset)
		size += part_size(reset_size(status->duration_until_reset));
	return size;
}

bool wr_rls_is_plain(const Pb__RateLimitResponse *response)
{
	return response->n_response_headers_to_add == 0 &&
	       response->n_request_headers_to_add == 0 && response->raw_body.len == 0 &&
	       !response->dynamic_metadata && !response->quota;
}

size_t wr_rls_size_plain(const Pb__RateLimitResponse *response)
{
	size_t size = number_size((uint64_t)response->overall_code);

	for (size_t i = 0; i < response->n_statuses; i++)
		size += part_size(status_size(response->statuses[i]));
	return size;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *put_number(uint8_t *at, uint8_t tag, uint64_t value)
{
	if (value == 0)
		return at;
	*at++ = tag;
	return put_varint(at, value);
}

static uint8_t *put_head(uint8_t *at, uint8_t tag, size_t len)
{
	*at++ = tag;
	return put_varint(at, len);
}

static uint8_t *put_limit(uint8_t *at, const limit_of *limit)
{
	at = put_head(at, TAG_LIMIT, limit_size(limit));
	at = put_number(at, TAG_REQUESTS, limit->requests_per_unit);
	at = put_number(at, TAG_UNIT, (uint64_t)limit->unit);
	if (limit->name.len == 0)
		return at;
	at = put_head(at, TAG_NAME, limit->name.len);
	memcpy(at, limit->name.data, limit->name.len);
	return at + limit->name.len;
}

static uint8_t *put_status(uint8_t *at, const status_of *status)
{
	const Pb__Duration *reset = status->duration_until_reset;

	at = put_head(at, TAG_STATUS, status_size(status));
	at = put_number(at, TAG_CODE, (uint64_t)status->code);
	if (status->current_limit)
		at = put_limit(at, status->current_limit);
	at = put_number(at, TAG_REMAINING, status->limit_remaining);
	if (!reset)
		return at;
	at = put_head(at, TAG_RESET, reset_size(reset));
	return put_number(at, TAG_SECONDS, (uint64_t)reset->seconds);
}

void wr_rls_pack_plain(const Pb__RateLimitResponse *response, uint8_t *out)
{
	out = put_number(out, TAG_CODE, (uint64_t)response->overall_code);
	for (size_t i = 0; i < response->n_statuses; i++)
		out = put_status(out, response->statuses[i]);
}
