#include "rules/http_source.h"

#include "base/str.h"

#define VALUES_MAX 16

/* Fields of one name, by either way the view offers. */
static size_t header_values(const struct weir_http_view *view, struct weir_str name,
			    struct weir_str values[VALUES_MAX])
{
	size_t count = 0;

	if (view->header)
		return view->header(view->context, name, values, VALUES_MAX);
	for (size_t i = 0; i < view->header_count; i++) {
		if (!wr_str_equal_nocase(view->headers[i].name, name))
			continue;
		if (count < VALUES_MAX)
			values[count] = view->headers[i].value;
		count++;
	}
	return count;
}

/* Keeps the first value and remembers whether another one differs. */
static int settle(int so_far, struct weir_str *value, struct weir_str found)
{
	if (found.len == 0)
		return so_far;
	if (so_far == WR_ABSENT) {
		*value = found;
		return WR_PRESENT;
	}
	return wr_str_equal(*value, found) ? so_far : WR_AMBIGUOUS;
}

static int read_header(struct wr_reading *reading, const struct wr_source *source,
		       struct weir_str *value)
{
	struct weir_str values[VALUES_MAX];
	size_t count = header_values(reading->view, source->name, values);
	int presence = WR_ABSENT;

	for (size_t i = 0; i < count && i < VALUES_MAX; i++)
		presence = settle(presence, value, wr_str_trim(values[i]));
	return presence == WR_PRESENT && count > VALUES_MAX ? WR_AMBIGUOUS : presence;
}

/* One byte of a name or value, decoded; *i moves on. */
static char next_byte(struct weir_str raw, size_t *i, bool plus)
{
	char c = raw.ptr[(*i)++];

	if (c == '+' && plus)
		return ' ';
	if (c == '%' && raw.len - *i >= 2) {
		int high = wr_hex(raw.ptr[*i]), low = wr_hex(raw.ptr[*i + 1]);

		if (high >= 0 && low >= 0) {
			*i += 2;
			return (char)(high * 16 + low);
		}
	}
	return c;
}

static bool decodes_to(struct weir_str raw, struct weir_str name, bool plus)
{
	size_t i = 0, at = 0;

	while (i < raw.len)
		if (at == name.len || next_byte(raw, &i, plus) != name.ptr[at++])
			return false;
	return at == name.len;
}

/* In place if there is nothing to decode. */
static int decode(struct wr_memory *memory, struct weir_str raw, bool plus, struct weir_str *value)
{
	size_t len = 0;
	char *text;

	if (!wr_str_has(raw, '%') && !(plus && wr_str_has(raw, '+'))) {
		*value = raw;
		return 0;
	}
	text = wr_memory_take(memory, raw.len, 1);
	if (!text)
		return WEIR_EROOM;
	for (size_t i = 0; i < raw.len;)
		text[len++] = next_byte(raw, &i, plus);
	memory->at = text + len;
	*value = (struct weir_str){text, len};
	return 0;
}

/* Decodes a found value and settles it; memory of a repeated one is given back. */
static int settle_decoded(struct wr_reading *reading, int so_far, struct weir_str raw, bool plus,
			  struct weir_str *value)
{
	char *mark = reading->memory.at;
	struct weir_str found;

	if (decode(&reading->memory, raw, plus, &found) != 0)
		return WEIR_EROOM;
	if (so_far != WR_ABSENT || found.len == 0)
		reading->memory.at = mark;
	return settle(so_far, value, found);
}

/* The next piece up to a separator. */
static struct weir_str split_off(struct weir_str *rest, char separator)
{
	struct weir_str piece = wr_str_first(*rest, wr_str_find(*rest, separator));

	*rest = wr_str_from(*rest, piece.len + (piece.len < rest->len));
	return piece;
}

static int read_query(struct wr_reading *reading, const struct wr_source *source,
		      struct weir_str *value)
{
	struct weir_str rest = reading->target.query;
	int presence = WR_ABSENT;

	while (rest.len && presence >= 0) {
		struct weir_str raw = split_off(&rest, '&');
		struct weir_str name = split_off(&raw, '=');

		if (decodes_to(name, source->name, true))
			presence = settle_decoded(reading, presence, raw, true, value);
	}
	return presence;
}

static struct weir_str unquoted(struct weir_str value)
{
	if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
		return wr_str_first(wr_str_from(value, 1), value.len - 2);
	return value;
}

/* Frameworks decode cookies, or at least many do; a plus stays one. */
static int read_cookie(struct wr_reading *reading, const struct wr_source *source,
		       struct weir_str *value)
{
	struct weir_str lines[VALUES_MAX];
	size_t count = header_values(reading->view, WR_STR("cookie"), lines);
	int presence = WR_ABSENT;

	for (size_t i = 0; i < count && i < VALUES_MAX && presence >= 0; i++)
		while (lines[i].len && presence >= 0) {
			struct weir_str raw = wr_str_trim(split_off(&lines[i], ';'));
			struct weir_str name = wr_str_trim(split_off(&raw, '='));

			if (wr_str_equal(name, source->name))
				presence = settle_decoded(reading, presence,
							  unquoted(wr_str_trim(raw)), false, value);
		}
	return presence == WR_PRESENT && count > VALUES_MAX ? WR_AMBIGUOUS : presence;
}

static int read_address(struct wr_reading *reading, const struct wr_source *source,
			struct weir_str *value)
{
	bool masked = source->kind == WR_FROM_MASKED_REMOTE_ADDRESS;
	unsigned bits = WR_ADDRESS_WHOLE;
	char text[WR_ADDRESS_TEXT];
	char *kept;
	size_t len;

	if (!reading->has_peer)
		return WR_ABSENT;
	if (masked)
		bits = wr_address_is_v4(&reading->peer) ? source->v4_bits : source->v6_bits;
	len = wr_address_text(&reading->peer, bits, text);
	kept = wr_memory_take(&reading->memory, len, 1);
	if (!kept)
		return WEIR_EROOM;
	*value = (struct weir_str){memcpy(kept, text, len), len};
	return WR_PRESENT;
}

static int read_capture(const struct wr_reading *reading, const struct wr_source *source,
			struct weir_str *value)
{
	size_t captured = 0;

	for (uint16_t i = 0; reading->path && i < reading->path->count; i++) {
		if (!reading->path->segments[i].capture)
			continue;
		if (wr_str_equal(reading->path->segments[i].text, source->name)) {
			*value = reading->captures[captured];
			return WR_PRESENT;
		}
		captured++;
	}
	return WR_ABSENT;
}

int wr_source_read(struct wr_reading *reading, const struct wr_source *source,
		   struct weir_str *value)
{
	switch (source->kind) {
	case WR_FROM_HEADER:
		return read_header(reading, source, value);
	case WR_FROM_QUERY:
		return read_query(reading, source, value);
	case WR_FROM_COOKIE:
		return read_cookie(reading, source, value);
	case WR_FROM_REMOTE_ADDRESS:
	case WR_FROM_MASKED_REMOTE_ADDRESS:
		return read_address(reading, source, value);
	case WR_FROM_PATH_PART:
		return read_capture(reading, source, value);
	case WR_FROM_PATH:
		return settle(WR_ABSENT, value, reading->target.readings[0]);
	case WR_FROM_METHOD:
		return settle(WR_ABSENT, value, reading->method);
	case WR_FROM_HOST:
		return settle(WR_ABSENT, value, reading->host);
	case WR_FROM_IDENTITY:
		return settle(WR_ABSENT, value, reading->view->identity);
	}
	return WR_ABSENT;
}
