/* Reads short texts of a line without a branch for each byte. The lengths of the fields of a log
 * differ from line to line, so that a loop over bytes ends with a branch that the processor predicts
 * wrongly.
 *
 * All functions may read up to WR_LAB_PADDING bytes at `at`. */
#ifndef WR_LAB_LOG_SCAN_H
#define WR_LAB_LOG_SCAN_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WR_LAB_PADDING 64u /* readable bytes behind every line; their values do not matter */

static inline uint64_t wr_lab_load64(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof word);
	return word;
}

static inline __m128i wr_lab_load128(const char *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Returns a mask with bit i set if the byte at `at` + i is `c`, for 16 bytes. */
static inline uint32_t wr_lab_match16(const char *at, char c)
{
	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(wr_lab_load128(at), _mm_set1_epi8(c)));
}

/* The same for 64 bytes that are `a` or `b`. */
static inline uint64_t wr_lab_match64(const char *at, char a, char b)
{
	const __m128i left = _mm_set1_epi8(a), right = _mm_set1_epi8(b);
	uint64_t mask = 0;

	for (unsigned i = 0; i < 4; i++) {
		__m128i bytes = wr_lab_load128(at + (size_t)16 * i);
		__m128i equal =
			_mm_or_si128(_mm_cmpeq_epi8(bytes, left), _mm_cmpeq_epi8(bytes, right));

		mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(equal) << 16 * i;
	}
	return mask;
}

/* Reads 1 to 7 digits at `at`. Returns how many there are; 0 if there is none or there are more. */
static inline unsigned wr_lab_digits(const char *at, uint64_t *number)
{
	uint64_t digits = wr_lab_load64(at) ^ 0x3030303030303030;
	uint64_t others = (digits | (digits + 0x0606060606060606)) & 0xf0f0f0f0f0f0f0f0;
	unsigned count = others ? (unsigned)__builtin_ctzll(others) / 8 : 0;

	if (count == 0)
		return 0;
	digits <<= 8 * (8 - count);
	digits = (digits & 0x0f0f0f0f0f0f0f0f) * 2561 >> 8;
	digits = (digits & 0x00ff00ff00ff00ff) * 6553601 >> 16;
	*number = (digits & 0x0000ffff0000ffff) * 42949672960001 >> 32;
	return count;
}

/* Reads "hh:mm:ss" as seconds. A leap second, 60, is the first second of the next minute. */
static inline bool wr_lab_clock(const char *at, int64_t *seconds)
{
	uint64_t digits = wr_lab_load64(at) ^ 0x30303a30303a3030;
	uint64_t above = digits + 0x0606000606000606;
	int64_t hour = (int64_t)((digits & 0xff) * 10 + (digits >> 8 & 0xff));
	int64_t minute = (int64_t)((digits >> 24 & 0xff) * 10 + (digits >> 32 & 0xff));
	int64_t second = (int64_t)((digits >> 48 & 0xff) * 10 + (digits >> 56));

	*seconds = hour * 3600 + minute * 60 + second;
	return ((digits | above) & 0xf0f0fff0f0fff0f0) == 0 && hour < 24 && minute < 60 &&
	       second <= 60;
}

#endif
