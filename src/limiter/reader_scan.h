/* Finds bytes in a part of a body, 16 bytes at a time. Every x86-64 processor has SSE2. */
#ifndef WR_LIMITER_READER_SCAN_H
#define WR_LIMITER_READER_SCAN_H

#include <emmintrin.h>

#include <stdbool.h>
#include <string.h>

/* Returns the first byte that is `a` or `b`, or `end`. */
static inline const char *wr_reader_find_either(const char *at, const char *end, char a, char b)
{
	const __m128i all_a = _mm_set1_epi8(a), all_b = _mm_set1_epi8(b);

	for (; end - at >= 16; at += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)at);
		__m128i equal =
			_mm_or_si128(_mm_cmpeq_epi8(bytes, all_a), _mm_cmpeq_epi8(bytes, all_b));
		int hits = _mm_movemask_epi8(equal);

		if (hits)
			return at + __builtin_ctz((unsigned)hits);
	}
	while (at < end && *at != a && *at != b)
		at++;
	return at;
}

/* Returns whether the bytes contain `text`, or a backslash. `text` has at least one byte, and there
 * are at least text_len + 15 bytes. Sixteen positions are compared at a time: first the first and
 * the last byte of the text, and then the rest of it. */
static inline bool wr_reader_has_text(const char *at, const char *end, const char *text,
				      size_t text_len)
{
	const __m128i first = _mm_set1_epi8(text[0]), last = _mm_set1_epi8(text[text_len - 1]);
	const __m128i backslash = _mm_set1_epi8('\\');
	const char *final = end - text_len - 15;

	for (;; at += 16) {
		__m128i heads, tails, escapes;
		int hits;

		if (at > final)
			at = final; /* some positions are compared again */
		heads = _mm_loadu_si128((const __m128i *)at);
		tails = _mm_loadu_si128((const __m128i *)(at + text_len - 1));
		escapes = _mm_or_si128(_mm_cmpeq_epi8(heads, backslash),
				       _mm_cmpeq_epi8(tails, backslash));
		if (_mm_movemask_epi8(escapes))
			return true;
		hits = _mm_movemask_epi8(
			_mm_and_si128(_mm_cmpeq_epi8(heads, first), _mm_cmpeq_epi8(tails, last)));
		for (; hits; hits &= hits - 1)
			if (memcmp(at + __builtin_ctz((unsigned)hits), text, text_len) == 0)
				return true;
		if (at == final)
			return false;
	}
}

/* Returns the first quote, bracket or brace, or `end`. Brackets and braces differ in bit 0x20. */
static inline const char *wr_reader_find_structure(const char *at, const char *end)
{
	const __m128i quotes = _mm_set1_epi8('"'), bit = _mm_set1_epi8(0x20);
	const __m128i opening = _mm_set1_epi8('{'), closing = _mm_set1_epi8('}');

	for (; end - at >= 16; at += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)at);
		__m128i braces = _mm_or_si128(bytes, bit);
		__m128i equal = _mm_or_si128(_mm_cmpeq_epi8(braces, opening),
					     _mm_cmpeq_epi8(braces, closing));
		int hits = _mm_movemask_epi8(_mm_or_si128(equal, _mm_cmpeq_epi8(bytes, quotes)));

		if (hits)
			return at + __builtin_ctz((unsigned)hits);
	}
	while (at < end && *at != '"' && (*at | 0x20) != '{' && (*at | 0x20) != '}')
		at++;
	return at;
}

#endif
