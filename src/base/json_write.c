/* Writes JSON; see base/json_write.h. Used for responses, the output of commands, and logs. */
#include "base/json_write.h"

#include <weir/algo.h>

#include "base/utf8.h"

/* Writes the comma before a value or a key, unless it is the first of its object or array. */
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

/* Appends text and escapes it. Bytes between two escapes are copied with one call. */
static void add_escaped(struct wr_buf *buf, struct weir_str text)
{
	size_t start = 0;

	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (c >= ' ' && c != '"' && c != '\\' && c != 0x7f)
			continue;
		wr_buf_add(buf, text.ptr + start, i - start);
		start = i + 1;
		if (c == '"' || c == '\\')
			wr_buf_add(buf, (const char[]){'\\', (char)c}, 2);
		else
			wr_buf_printf(buf, "\\u%04x", c);
	}
	if (start < text.len)
		wr_buf_add(buf, text.ptr + start, text.len - start);
}

void wr_json_string(struct wr_json_out *json, struct weir_str text)
{
	begin_value(json);
	wr_buf_add_char(json->buf, '"');
	add_escaped(json->buf, text);
	wr_buf_add_char(json->buf, '"');
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
	wr_json_string(json, name);
	wr_buf_add_char(json->buf, ':');
	json->comma = false;
}

void wr_json_key(struct wr_json_out *json, const char *name)
{
	wr_json_key_str(json, wr_str(name));
}

/* Returns whether a code point above ASCII is a control character, a zero-width character, a line
 * separator, or a mark that changes the direction of text. */
static bool is_control(uint32_t point)
{
	return (point >= 0x80 && point < 0xa0) || (point >= 0x200b && point <= 0x200f) ||
	       (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

bool wr_json_bytes(struct wr_json_out *json, struct weir_str text)
{
	bool is_utf8 = true;

	begin_value(json);
	wr_buf_add_char(json->buf, '"');
	for (size_t i = 0; i < text.len;) {
		size_t len = wr_utf8_len(text.ptr + i, text.len - i);
		uint32_t point = len ? wr_utf8_point(text.ptr + i, len) : 0;

		if (len == 0)
			wr_buf_add_str(json->buf, WR_STR(WR_UTF8_UNKNOWN));
		else if (is_control(point))
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
