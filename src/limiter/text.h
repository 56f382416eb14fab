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

static inline void wr_text_put(struct wr_text *text, struct weir_str piece)
{
	if (text->len < text->cap && piece.len) {
		size_t room = text->cap - text->len;

		memcpy(text->at + text->len, piece.ptr, piece.len < room ? piece.len : room);
	}
	text->len += piece.len;
}

static inline void wr_text_char(struct wr_text *text, char c)
{
	if (text->len < text->cap)
		text->at[text->len] = c;
	text->len++;
}

static inline void wr_text_number(struct wr_text *text, uint64_t number)
{
	char digits[20];
	size_t at = sizeof digits;

	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	wr_text_put(text, (struct weir_str){digits + at, sizeof digits - at});
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
