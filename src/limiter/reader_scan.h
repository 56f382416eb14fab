/* Finds bytes in a part of a body, 16 bytes at a time. Every x86-64 processor has SSE2. Searches in
 * long parts first skip larger blocks (reader_scan.c). */
#ifndef WR_LIMITER_READER_SCAN_H
#define WR_LIMITER_READER_SCAN_H

#include <emmintrin.h>

#include <stdbool.h>
#include <string.h>

#include <weir/rules.h>

#define WR_READER_BLOCK 128 /* bytes */
#define WR_READER_NEAR 64   /* most strings are shorter, so a search looks at these bytes first */

/* Skips blocks in which no byte is `a` or `b`. Returns the first block that contains one of them, or
 * the rest, which is shorter than a block. */
const char *wr_reader_pass_either(const char *at, const char *end, char a, char b);

/* Skips blocks in which no position p has p[0] == first and p[distance] == last. Returns the first
 * block that has such a position, or the rest, which is shorter than a block and the distance. */
const char *wr_reader_pass_ends(const char *at, const char *end, size_t distance, char first,
				char last);

static inline const char *wr_reader_find_either_near(const char *at, const char *end, char a,
						     char b)
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

/* Returns the first byte that is `a` or `b`, or `end`. */
static inline const char *wr_reader_find_either(const char *at, const char *end, char a, char b)
{
	if (end - at > WR_READER_NEAR) {
		const char *near_end = at + WR_READER_NEAR;

		at = wr_reader_find_either_near(at, near_end, a, b);
		if (at < near_end)
			return at;
		at = wr_reader_pass_either(at, end, a, b);
	}
	return wr_reader_find_either_near(at, end, a, b);
}

/* Compares 16 positions from `at` on. A byte of the result is 0xff if the byte at the position is
 * `first`, and the byte `distance` further is `last`; otherwise it is 0. */
static inline __m128i wr_reader_match_ends(const char *at, size_t distance, __m128i first,
					   __m128i last)
{
	__m128i heads = _mm_loadu_si128((const __m128i *)at);
	__m128i tails = _mm_loadu_si128((const __m128i *)(at + distance));

	return _mm_and_si128(_mm_cmpeq_epi8(heads, first), _mm_cmpeq_epi8(tails, last));
}

/* Like wr_reader_find_text(). 32 positions are compared at a time: first the first and the last byte
 * of the text, then all of it. */
static inline const char *wr_reader_find_text_near(const char *at, const char *end,
						   struct weir_str text)
{
	const __m128i first = _mm_set1_epi8(text.ptr[0]);
	const __m128i last = _mm_set1_epi8(text.ptr[text.len - 1]);

	for (; end - at >= (ptrdiff_t)text.len + 31; at += 32) {
		__m128i low = wr_reader_match_ends(at, text.len - 1, first, last);
		__m128i high = wr_reader_match_ends(at + 16, text.len - 1, first, last);
		unsigned hits;

		if (!_mm_movemask_epi8(_mm_or_si128(low, high)))
			continue;
		hits = (unsigned)_mm_movemask_epi8(low) | (unsigned)_mm_movemask_epi8(high) << 16;
		for (; hits; hits &= hits - 1)
			if (memcmp(at + __builtin_ctz(hits), text.ptr, text.len) == 0)
				return at + __builtin_ctz(hits);
	}
	while (end - at >= (ptrdiff_t)text.len) {
		at = memchr(at, text.ptr[0], (size_t)(end - at) - text.len + 1);
		if (!at)
			return end;
		if (memcmp(at, text.ptr, text.len) == 0)
			return at;
		at++;
	}
	return end;
}

/* Returns the first occurrence of `text` in [at, end), or `end`. `text` is not empty. */
static inline const char *wr_reader_find_text(const char *at, const char *end, struct weir_str text)
{
	size_t distance = text.len - 1;

	for (;; at += WR_READER_BLOCK) {
		const char *block_end, *found;

		at = wr_reader_pass_ends(at, end, distance, text.ptr[0], text.ptr[distance]);
		if (end - at < (ptrdiff_t)(WR_READER_BLOCK + distance))
			return wr_reader_find_text_near(at, end, text);
		block_end = at + WR_READER_BLOCK + distance;
		found = wr_reader_find_text_near(at, block_end, text);
		if (found < block_end)
			return found;
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
