/* Text of bounded length, put together piece by piece. What does not fit is left out and counted:
 * `len` goes on, as snprintf's does. */
#ifndef WR_LIMITER_TEXT_H
#define WR_LIMITER_TEXT_H

#include <stdint.h>

#include "base/str.h"

struct wr_text {
	char *at;
	size_t cap;
	size_t len;
};

static inline bool wr_text_fits(const struct wr_text *text)
{
	return text->len <= text->cap;
}

static inline size_t wr_text_room(const struct wr_text *text)
{
	return text->len < text->cap ? text->cap - text->len : 0;
}

/* A constant that fits is put with a store or two. */
static inline void wr_text_put(struct wr_text *text, struct weir_str piece)
{
	size_t room = wr_text_room(text);

	if (__builtin_expect(piece.len && piece.len <= room, 1))
		memcpy(text->at + text->len, piece.ptr, piece.len);
	else if (piece.len && room)
		memcpy(text->at + text->len, piece.ptr, room);
	text->len += piece.len;
}

static inline void wr_text_char(struct wr_text *text, char c)
{
	if (text->len < text->cap)
		text->at[text->len] = c;
	text->len++;
}

#define WR_TEXT_DIGITS 20 /* of 2^64 */

/* Digits come out last first, two at a time. Where there is room for any number they are copied as
 * a piece of that size, which takes no call; what is behind them counts for nothing. */
static inline void wr_text_number(struct wr_text *text, uint64_t number)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
				    "31323334353637383940414243444546474849505152535455565758596061"
				    "62636465666768697071727374757677787980818283848586878889909192"
				    "93949596979899";
	char digits[2 * WR_TEXT_DIGITS] = {0};
	size_t at = WR_TEXT_DIGITS;

	for (; number >= 10; number /= 100) {
		at -= 2;
		memcpy(digits + at, pairs + number % 100 * 2, 2);
	}
	if (number || at == WR_TEXT_DIGITS)
		digits[--at] = (char)('0' + number);
	if (__builtin_expect(wr_text_room(text) < WR_TEXT_DIGITS, 0)) {
		wr_text_put(text, (struct weir_str){digits + at, WR_TEXT_DIGITS - at});
		return;
	}
	memcpy(text->at + text->len, digits + at, WR_TEXT_DIGITS);
	text->len += WR_TEXT_DIGITS - at;
}

/* A String of RFC 9651 without its quotes: printable ASCII, the rest becomes a question mark. */
static inline void wr_text_quoted(struct wr_text *text, struct weir_str piece)
{
	for (size_t i = 0; i < piece.len; i++) {
		char c = piece.ptr[i];

		if (c == '"' || c == '\\')
			wr_text_char(text, '\\');
		wr_text_char(text, (char)(c >= ' ' && c <= '~' ? c : '?'));
	}
}

/* Inside a JSON string. Bytes above ASCII are passed on if they are UTF-8 as a whole; rules are
 * read from YAML, which sees to that. */
static inline void wr_text_json(struct wr_text *text, struct weir_str piece)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < piece.len; i++) {
		unsigned char c = (unsigned char)piece.ptr[i];

		if (c == '"' || c == '\\') {
			wr_text_char(text, '\\');
			wr_text_char(text, (char)c);
		} else if (c < ' ' || c == 0x7f) {
			wr_text_put(text, WR_STR("\\u00"));
			wr_text_char(text, hex[c >> 4]);
			wr_text_char(text, hex[c & 15]);
		} else {
			wr_text_char(text, (char)c);
		}
	}
}

static inline void wr_text_html(struct wr_text *text, struct weir_str piece)
{
	for (size_t i = 0; i < piece.len; i++) {
		char c = piece.ptr[i];

		if (c == '&')
			wr_text_put(text, WR_STR("&amp;"));
		else if (c == '<')
			wr_text_put(text, WR_STR("&lt;"));
		else if (c == '>')
			wr_text_put(text, WR_STR("&gt;"));
		else if (c == '"')
			wr_text_put(text, WR_STR("&quot;"));
		else if (c == '\'')
			wr_text_put(text, WR_STR("&#39;"));
		else
			wr_text_char(text, c);
	}
}

#endif
