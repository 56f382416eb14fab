/* Strict UTF-8: overlong forms, surrogates and code points above U+10FFFF are not valid. */
#ifndef WR_BASE_UTF8_H
#define WR_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_UTF8_UNKNOWN "\xef\xbf\xbd" /* U+FFFD, written in place of an invalid byte */

/* Returns the length in bytes of the character at `at`, or 0 if no valid character is there. `left`
 * is the number of bytes from `at` to the end of the text, at least 1. */
static inline size_t wr_utf8_len(const char *at, size_t left)
{
	const unsigned char *c = (const unsigned char *)at;
	size_t len = c[0] < 0x80   ? 1
		     : c[0] < 0xc2 ? 0
		     : c[0] < 0xe0 ? 2
		     : c[0] < 0xf0 ? 3
		     : c[0] < 0xf5 ? 4
				   : 0;

	if (len == 0 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
	    (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	return len;
}

/* Returns the code point of a character. `len` is the length that wr_utf8_len returned for it. */
static inline uint32_t wr_utf8_point(const char *at, size_t len)
{
	const unsigned char *c = (const unsigned char *)at;
	uint32_t point = len == 1 ? c[0] : c[0] & (0x7fu >> len);

	for (size_t i = 1; i < len; i++)
		point = point << 6 | (c[i] & 0x3fu);
	return point;
}

/* Returns whether a code point above ASCII is a control character, a zero-width character, a line
 * separator, or a mark that changes the direction of text. */
static inline bool wr_utf8_is_control(uint32_t point)
{
	return (point >= 0x80 && point < 0xa0) || (point >= 0x200b && point <= 0x200f) ||
	       (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

#endif
