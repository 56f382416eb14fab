/* A text of bounded length, to which pieces are appended. `len` is the length of the whole text,
 * even if it is larger than `cap`; bytes beyond `cap` are not written. */
#ifndef WR_LIMITER_TEXT_H
#define WR_LIMITER_TEXT_H

#include <stdint.h>

#include "base/str.h"

struct wr_limiter_text {
	char *at;
	size_t cap;
	size_t len;
};

static inline bool wr_limiter_text_fits(const struct wr_limiter_text *text)
{
	return text->len <= text->cap;
}

static inline size_t wr_limiter_text_room(const struct wr_limiter_text *text)
{
	return text->len < text->cap ? text->cap - text->len : 0;
}

/* The compiler turns the first memcpy into one or two store instructions if the piece is a
 * constant. */
static inline void wr_limiter_text_put(struct wr_limiter_text *text, struct weir_str piece)
{
	size_t room = wr_limiter_text_room(text);

	if (__builtin_expect(piece.len && piece.len <= room, 1))
		memcpy(text->at + text->len, piece.ptr, piece.len);
	else if (piece.len && room)
		memcpy(text->at + text->len, piece.ptr, room);
	text->len += piece.len;
}

static inline void wr_limiter_text_char(struct wr_limiter_text *text, char c)
{
	if (text->len < text->cap)
		text->at[text->len] = c;
	text->len++;
}

#define WR_TEXT_DIGITS 20 /* number of digits of 2^64 */

/* Writes a number in decimal. The digits are computed from the last to the first, two at a time. If
 * 20 bytes fit, 20 bytes are copied, because a copy of constant size needs no function call; the
 * bytes after the number are overwritten later. */
static inline void wr_limiter_text_number(struct wr_limiter_text *text, uint64_t number)
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
	if (__builtin_expect(wr_limiter_text_room(text) < WR_TEXT_DIGITS, 0)) {
		wr_limiter_text_put(text, (struct weir_str){digits + at, WR_TEXT_DIGITS - at});
		return;
	}
	memcpy(text->at + text->len, digits + at, WR_TEXT_DIGITS);
	text->len += WR_TEXT_DIGITS - at;
}

/* Writes a String of RFC 9651 without its quotes. Bytes that are not printable ASCII become "?". */
static inline void wr_limiter_text_quoted(struct wr_limiter_text *text, struct weir_str piece)
{
	for (size_t i = 0; i < piece.len; i++) {
		char c = piece.ptr[i];

		if (c == '"' || c == '\\')
			wr_limiter_text_char(text, '\\');
		wr_limiter_text_char(text, (char)(c >= ' ' && c <= '~' ? c : '?'));
	}
}

/* Writes the inside of a JSON string. The piece must be valid UTF-8. Texts of rules are valid
 * UTF-8, because YAML requires it. */
static inline void wr_limiter_text_json(struct wr_limiter_text *text, struct weir_str piece)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < piece.len; i++) {
		unsigned char c = (unsigned char)piece.ptr[i];

		if (c == '"' || c == '\\') {
			wr_limiter_text_char(text, '\\');
			wr_limiter_text_char(text, (char)c);
		} else if (c < ' ' || c == 0x7f) {
			wr_limiter_text_put(text, WR_STR("\\u00"));
			wr_limiter_text_char(text, hex[c >> 4]);
			wr_limiter_text_char(text, hex[c & 15]);
		} else {
			wr_limiter_text_char(text, (char)c);
		}
	}
}

/* Writes the piece with the special characters of HTML escaped. */
static inline void wr_limiter_text_html(struct wr_limiter_text *text, struct weir_str piece)
{
	for (size_t i = 0; i < piece.len; i++) {
		char c = piece.ptr[i];

		if (c == '&')
			wr_limiter_text_put(text, WR_STR("&amp;"));
		else if (c == '<')
			wr_limiter_text_put(text, WR_STR("&lt;"));
		else if (c == '>')
			wr_limiter_text_put(text, WR_STR("&gt;"));
		else if (c == '"')
			wr_limiter_text_put(text, WR_STR("&quot;"));
		else if (c == '\'')
			wr_limiter_text_put(text, WR_STR("&#39;"));
		else
			wr_limiter_text_char(text, c);
	}
}

#endif
