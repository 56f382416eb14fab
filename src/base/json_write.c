/* Writes JSON; see base/json_write.h. Used for responses, the output of commands, and logs. */
#include "base/json_write.h"

#include <weir/algo.h>

#include "base/utf8.h"

/* Writes the comma before a value or a key, unless the value or key is the first of its object or
 * array. */
static void begin_value(struct wr_json_out *json)
{
	if (json->comma)
		wr_buf_add_char(json->buf, ',');
	json->comma = true;
}

void wr_json_raw(struct wr_json_out *json, struct weir_str value)
{
	begin_value(json);
	wr_buf_add_str(json->buf, value);
}

void wr_json_object(struct wr_json_out *json)
{
	wr_json_raw(json, WR_STR("{"));
	json->comma = false;
}

void wr_json_end_object(struct wr_json_out *json)
{
	wr_buf_add_char(json->buf, '}');
	json->comma = true;
}

void wr_json_array(struct wr_json_out *json)
{
	wr_json_raw(json, WR_STR("["));
	json->comma = false;
}

void wr_json_end_array(struct wr_json_out *json)
{
	wr_buf_add_char(json->buf, ']');
	json->comma = true;
}

#define BYTES(c) (UINT64_C(0x0101010101010101) * (c)) /* a word of eight bytes `c` */

/* The result is not 0 if a byte of `word` is below `c`, otherwise 0. `c` is at most 128. */
static uint64_t has_below(uint64_t word, uint64_t c)
{
	return (word - BYTES(c)) & ~word & BYTES(0x80);
}

static bool is_plain(unsigned char c)
{
	return c >= ' ' && c != '"' && c != '\\' && c != 0x7f;
}

/* Returns the number of bytes before the first byte that needs an escape. With `ascii`, returns the
 * number of bytes before the first byte that needs an escape or is not ASCII. Most texts need no
 * escape, so eight bytes are tested at a time. */
static size_t plain_len(struct weir_str text, bool ascii)
{
	uint64_t above = ascii ? BYTES(0x80) : 0, word;
	size_t len = 0;

	for (; len + sizeof word <= text.len; len += sizeof word) {
		memcpy(&word, text.ptr + len, sizeof word);
		if (has_below(word, ' ') | has_below(word ^ BYTES('"'), 1) |
		    has_below(word ^ BYTES('\\'), 1) | has_below(word ^ BYTES(0x7f), 1) |
		    (word & above))
			break;
	}
	while (len < text.len && is_plain((unsigned char)text.ptr[len]) &&
	       !(ascii && (unsigned char)text.ptr[len] >= 0x80))
		len++;
	return len;
}

/* Adds text inside the quotes. Runs of bytes that need no escape are copied as a whole. */
static void add_escaped(struct wr_buf *buf, struct weir_str text)
{
	for (;;) {
		size_t plain = plain_len(text, false);
		unsigned char c;

		wr_buf_add(buf, text.ptr, plain);
		if (plain == text.len)
			return;
		c = (unsigned char)text.ptr[plain];
		if (c == '"' || c == '\\')
			wr_buf_add(buf, (const char[]){'\\', (char)c}, 2);
		else
			wr_buf_printf(buf, "\\u%04x", c);
		text = wr_str_from(text, plain + 1);
	}
}

/* Like write_string(), but the text must need no escapes. Appends to the buffer only once. */
static inline void write_plain(struct wr_json_out *json, struct weir_str text, bool is_key)
{
	size_t len = json->comma + text.len + 2 + is_key;
	char *at = wr_buf_reserve(json->buf, len);

	if (!at)
		return;
	if (json->comma)
		*at++ = ',';
	*at++ = '"';
	if (text.len)
		memcpy(at, text.ptr, text.len);
	at += text.len;
	*at++ = '"';
	if (is_key)
		*at = ':';
	wr_buf_commit(json->buf, len);
	json->comma = !is_key;
}

/* Writes a string or, if `is_key` is true, a key with its colon. After a key, json->comma is false,
 * because its value follows without a comma. */
static void write_string(struct wr_json_out *json, struct weir_str text, bool is_key)
{
	if (plain_len(text, false) == text.len) {
		write_plain(json, text, is_key);
		return;
	}
	begin_value(json);
	wr_buf_add_char(json->buf, '"');
	add_escaped(json->buf, text);
	wr_buf_add(json->buf, "\":", is_key ? 2 : 1);
	json->comma = !is_key;
}

void wr_json_string(struct wr_json_out *json, struct weir_str text)
{
	write_string(json, text, false);
}

void wr_json_string_or_null(struct wr_json_out *json, struct weir_str text)
{
	if (text.len)
		wr_json_string(json, text);
	else
		wr_json_null(json);
}

void wr_json_key_str(struct wr_json_out *json, struct weir_str name)
{
	write_string(json, name, true);
}

bool wr_json_bytes(struct wr_json_out *json, struct weir_str text)
{
	bool is_utf8 = true;

	begin_value(json);
	wr_buf_add_char(json->buf, '"');
	for (size_t i = 0; i < text.len;) {
		size_t plain = plain_len(wr_str_from(text, i), true), len;
		uint32_t point;

		wr_buf_add(json->buf, text.ptr + i, plain);
		i += plain;
		if (i == text.len)
			break;
		len = wr_utf8_len(text.ptr + i, text.len - i);
		point = len ? wr_utf8_point(text.ptr + i, len) : 0;
		if (len == 0)
			wr_buf_add_str(json->buf, WR_STR(WR_UTF8_UNKNOWN));
		else if (wr_utf8_is_control(point))
			wr_buf_printf(json->buf, "\\u%04x", (unsigned)point);
		else
			add_escaped(json->buf, (struct weir_str){text.ptr + i, len});
		is_utf8 = is_utf8 && len;
		i += len ? len : 1;
	}
	wr_buf_add_char(json->buf, '"');
	return is_utf8;
}

void wr_json_int(struct wr_json_out *json, int64_t number)
{
	begin_value(json);
	if (number < 0)
		wr_buf_add_char(json->buf, '-');
	wr_buf_add_uint(json->buf, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void wr_json_uint(struct wr_json_out *json, uint64_t number)
{
	begin_value(json);
	wr_buf_add_uint(json->buf, number);
}

void wr_json_seconds(struct wr_json_out *json, uint64_t ns)
{
	uint64_t ms = ns / 1000000 + (ns % 1000000 != 0);

	if (ns == WEIR_NEVER)
		wr_json_null(json);
	else if (ms % 1000)
		wr_json_milli(json, ms);
	else
		wr_json_uint(json, ms / 1000);
}

void wr_json_milli(struct wr_json_out *json, uint64_t milli)
{
	const char decimals[] = {'.', (char)('0' + milli / 100 % 10), (char)('0' + milli / 10 % 10),
				 (char)('0' + milli % 10)};

	wr_json_uint(json, milli / 1000);
	wr_buf_add(json->buf, decimals, sizeof decimals);
}

void wr_json_bool(struct wr_json_out *json, bool value)
{
	wr_json_raw(json, value ? WR_STR("true") : WR_STR("false"));
}

void wr_json_null(struct wr_json_out *json)
{
	wr_json_raw(json, WR_STR("null"));
}
