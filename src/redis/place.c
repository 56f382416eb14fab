#include "redis/place.h"

#include <stdio.h>

#include "base/str.h"
#include "redis/slot.h"

static bool read_number(struct weir_str text, uint64_t max, uint64_t *number)
{
	uint64_t value = 0;

	if (text.len == 0 || text.len > 9)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text.ptr[i] - '0');
	}
	*number = value;
	return value <= max;
}

bool wr_place_make(struct weir_str host, uint64_t port, const struct wr_endpoint *told_by,
		   struct wr_endpoint *at)
{
	char text[WR_ENDPOINT_TEXT];

	if (port < 1 || port > 65535)
		return false;
	if (host.len == 0 || wr_str_equal(host, WR_STR("?"))) {
		if (told_by->kind == WR_ENDPOINT_UNIX)
			return false;
		*at = *told_by;
		at->port = (uint16_t)port;
		return true;
	}
	if (host.len > WR_HOST_MAX)
		return false;
	snprintf(text, sizeof text, wr_str_has(host, ':') ? "[%.*s]:%u" : "%.*s:%u", (int)host.len,
		 host.ptr, (unsigned)port);
	return wr_endpoint_parse(wr_str(text), at, NULL) == 0 && at->kind != WR_ENDPOINT_ANY &&
	       at->kind != WR_ENDPOINT_UNIX;
}

bool wr_place_read(const redisReply *array, size_t first, const struct wr_endpoint *told_by,
		   struct wr_endpoint *at)
{
	const redisReply *host = wr_reply_at(array, first);
	const redisReply *port = wr_reply_at(array, first + 1);
	uint64_t number = 0;

	if (!host || !port || (!wr_reply_is_text(host) && host->type != REDIS_REPLY_NIL))
		return false;
	if (port->type == REDIS_REPLY_INTEGER)
		number = port->integer > 0 ? (uint64_t)port->integer : 0;
	else if (!read_number(wr_reply_text(port), 65535, &number))
		return false;
	return wr_place_make(wr_reply_text(host), number, told_by, at);
}

/* An IPv6 address stands there without brackets: the last colon is the port's. */
static size_t last_colon(struct weir_str text)
{
	for (size_t i = text.len; i > 0; i--)
		if (text.ptr[i - 1] == ':')
			return i - 1;
	return text.len;
}

bool wr_place_redirect(struct weir_str text, const struct wr_endpoint *told_by, uint16_t *slot,
		       struct wr_endpoint *at)
{
	struct weir_str rest = wr_str_from(text, wr_str_find(text, ' '));
	uint64_t number, port;
	size_t end, colon;

	if (rest.len < 2)
		return false;
	rest = wr_str_from(rest, 1);
	end = wr_str_find(rest, ' ');
	if (end == rest.len || !read_number(wr_str_first(rest, end), WR_SLOTS - 1, &number))
		return false;
	rest = wr_str_from(rest, end + 1);
	rest = wr_str_first(rest, wr_str_find(rest, ' '));
	colon = last_colon(rest);
	if (colon == rest.len || !read_number(wr_str_from(rest, colon + 1), 65535, &port))
		return false;
	*slot = (uint16_t)number;
	return wr_place_make(wr_str_first(rest, colon), port, told_by, at);
}
