/* Reads a value of a request from its source: a header field, cookie, parameter, path, method, host
 * or address. */
#include "rules/http_source.h"

#include "base/str.h"

/* Gets the values of all header fields with this name, from view->header() or, if it is NULL, from
 * view->headers. Returns the number of these fields, which may be more than WR_VALUES_MAX. */
static size_t header_values(const struct weir_http_view *view, struct weir_str name,
			    struct weir_str values[WR_VALUES_MAX])
{
	size_t count = 0;

	if (view->header)
		return view->header(view->context, name, values, WR_VALUES_MAX);
	for (size_t i = 0; i < view->header_count; i++) {
		if (!wr_str_equal_nocase(view->headers[i].name, name))
			continue;
		if (count < WR_VALUES_MAX)
			values[count] = view->headers[i].value;
		count++;
	}
	return count;
}

/* Adds a value, unless it is empty or was added before. */
static int add_value(struct wr_rules_reading *reading, struct weir_str found)
{
	uint32_t i = 0;

	if (found.len == 0)
		return 0;
	reading->found_count++;
	while (i < reading->value_count && !wr_str_equal(reading->values[i], found))
		i++;
	if (i == WR_VALUES_MAX)
		return WEIR_EROOM;
	reading->last_value = i;
	if (i == reading->value_count)
		reading->values[reading->value_count++] = found;
	return 0;
}

/* Returns the next byte of a name or value, decoded, and advances *i. */
static char next_byte(struct weir_str raw, size_t *i, bool plus)
{
	int byte = wr_escaped_byte(raw, *i);
	char c = raw.ptr[*i];

	*i += byte < 0 ? 1 : 3;
	if (byte >= 0)
		return (char)byte;
	return (char)(c == '+' && plus ? ' ' : c);
}

static bool decodes_to(struct weir_str raw, struct weir_str name, bool plus)
{
	size_t i = 0, at = 0;

	while (i < raw.len)
		if (at == name.len || next_byte(raw, &i, plus) != name.ptr[at++])
			return false;
	return at == name.len;
}

/* Decodes a text. The text is not copied if there is nothing to decode. */
static int decode_text(struct wr_rules_http_memory *memory, struct weir_str raw, bool plus,
		       struct weir_str *value)
{
	size_t len = 0;
	char *text;

	if (!wr_str_has(raw, '%') && !(plus && wr_str_has(raw, '+'))) {
		*value = raw;
		return 0;
	}
	text = wr_rules_http_memory_take(memory, raw.len, 1);
	if (!text)
		return WEIR_EROOM;
	for (size_t i = 0; i < raw.len;)
		text[len++] = next_byte(raw, &i, plus);
	memory->at = text + len;
	*value = (struct weir_str){text, len};
	return 0;
}

/* Decodes a value and adds it. If the value was added before, its memory is freed. */
static int add_decoded_value(struct wr_rules_reading *reading, struct weir_str raw, bool plus)
{
	char *mark = reading->memory.at;
	uint32_t before = reading->value_count;
	struct weir_str found;
	int rc = decode_text(&reading->memory, raw, plus, &found);

	if (rc == 0)
		rc = add_value(reading, found);
	if (reading->value_count == before)
		reading->memory.at = mark;
	return rc;
}

/* Returns the text up to the next separator, and removes this text and the separator from *rest. */
static struct weir_str split_off(struct weir_str *rest, char separator)
{
	struct weir_str piece = wr_str_first(*rest, wr_str_find(*rest, separator));

	*rest = wr_str_from(*rest, piece.len + (piece.len < rest->len));
	return piece;
}

/* Adds the elements of a comma-separated field as separate values, like separate fields: a proxy
 * may have joined two fields before weir sees them, or may join two fields that weir sees. */
static int add_list_values(struct wr_rules_reading *reading, struct weir_str rest)
{
	int rc = 0;

	while (rest.len && rc == 0)
		rc = add_value(reading, wr_str_trim(split_off(&rest, ',')));
	return rc;
}

/* Joins all fields into the one field that is equivalent to them (RFC 9110, 5.3), and adds it. */
static int add_joined_value(struct wr_rules_reading *reading, const struct weir_str *values,
			    size_t count)
{
	size_t room = 0, len = 0;
	char *text;

	if (count == 1)
		return add_value(reading, wr_str_trim(values[0]));
	for (size_t i = 0; i < count; i++)
		room += values[i].len + 2;
	text = wr_rules_http_memory_take(&reading->memory, room, 1);
	if (!text)
		return WEIR_EROOM;
	for (size_t i = 0; i < count; i++) {
		struct weir_str value = wr_str_trim(values[i]);

		if (value.len == 0)
			continue;
		memcpy(text + len, ", ", len ? 2 : 0);
		len += len ? 2 : 0;
		memcpy(text + len, value.ptr, value.len);
		len += value.len;
	}
	return add_value(reading, (struct weir_str){text, len});
}

static int read_header(struct wr_rules_reading *reading, const struct wr_source *source)
{
	struct weir_str values[WR_VALUES_MAX];
	size_t count = header_values(reading->view, source->name, values);
	int rc = 0;

	if (count > WR_VALUES_MAX)
		return WEIR_EROOM;
	if (source->commas == WR_COMMAS_JOIN && count)
		return add_joined_value(reading, values, count);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = source->commas == WR_COMMAS_TEXT ? add_value(reading, wr_str_trim(values[i]))
						      : add_list_values(reading, values[i]);
	return rc;
}

static int read_query(struct wr_rules_reading *reading, const struct wr_source *source)
{
	struct weir_str rest = reading->target.query;
	int rc = 0;

	while (rest.len && rc == 0) {
		struct weir_str raw = split_off(&rest, '&');
		struct weir_str name = split_off(&raw, '=');

		if (decodes_to(name, source->name, true))
			rc = add_decoded_value(reading, raw, true);
	}
	return rc;
}

static struct weir_str without_quotes(struct weir_str value)
{
	if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
		return wr_str_first(wr_str_from(value, 1), value.len - 2);
	return value;
}

/* Cookies are decoded, because many frameworks do so. A plus sign stays a plus sign. */
static int read_cookie(struct wr_rules_reading *reading, const struct wr_source *source)
{
	struct weir_str lines[WR_VALUES_MAX];
	size_t count = header_values(reading->view, WR_STR("cookie"), lines);
	int rc = count > WR_VALUES_MAX ? WEIR_EROOM : 0;

	for (size_t i = 0; i < count && rc == 0; i++)
		while (lines[i].len && rc == 0) {
			struct weir_str raw = wr_str_trim(split_off(&lines[i], ';'));
			struct weir_str name = wr_str_trim(split_off(&raw, '='));

			if (wr_str_equal(name, source->name))
				rc = add_decoded_value(reading, without_quotes(wr_str_trim(raw)),
						       false);
		}
	return rc;
}

static int read_address(struct wr_rules_reading *reading, const struct wr_source *source)
{
	bool masked = source->kind == WR_FROM_MASKED_REMOTE_ADDRESS;
	unsigned bits = WR_ADDRESS_WHOLE;
	char text[WR_ADDRESS_TEXT];
	char *copy;
	size_t len;

	if (!reading->has_peer)
		return 0;
	if (masked)
		bits = wr_address_is_v4(&reading->peer) ? source->v4_bits : source->v6_bits;
	len = wr_address_text(&reading->peer, bits, text);
	copy = wr_rules_http_memory_take(&reading->memory, len, 1);
	if (!copy)
		return WEIR_EROOM;
	return add_value(reading, (struct weir_str){memcpy(copy, text, len), len});
}

/* Reads a captured segment without its parameters, so that parameters do not make new counters. A
 * segment that consists of parameters only is read as it is. */
static int read_capture(struct wr_rules_reading *reading, const struct wr_source *source)
{
	size_t captured = 0;

	for (uint16_t i = 0; reading->path && i < reading->path->count; i++) {
		if (!reading->path->segments[i].capture)
			continue;
		if (wr_str_equal(reading->path->segments[i].text, source->name)) {
			struct weir_str whole = reading->captures[captured];
			struct weir_str bare = wr_str_first(whole, wr_str_find(whole, ';'));

			return add_value(reading, bare.len ? bare : whole);
		}
		captured++;
	}
	return 0;
}

int wr_source_read(struct wr_rules_reading *reading, const struct wr_source *source)
{
	struct weir_str bare;

	reading->value_count = reading->found_count = 0;
	switch (source->kind) {
	case WR_FROM_HEADER:
		return read_header(reading, source);
	case WR_FROM_QUERY:
		return read_query(reading, source);
	case WR_FROM_COOKIE:
		return read_cookie(reading, source);
	case WR_FROM_REMOTE_ADDRESS:
	case WR_FROM_MASKED_REMOTE_ADDRESS:
		return read_address(reading, source);
	case WR_FROM_PATH_PART:
		return read_capture(reading, source);
	case WR_FROM_PATH:
		if (wr_path_bare(reading->target.readings[reading->at], &reading->memory, &bare))
			return WEIR_EROOM;
		return add_value(reading, bare);
	case WR_FROM_METHOD:
		return add_value(reading, reading->method);
	case WR_FROM_HOST:
		return add_value(reading, reading->host);
	case WR_FROM_IDENTITY:
		return add_value(reading, reading->view->identity);
	}
	return 0;
}
