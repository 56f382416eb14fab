/* Skips blocks of bytes in which a search finds nothing. The vector code is compiled twice: for AVX2
 * (32 bytes at a time) and for SSE2 (16 bytes). With AVX2, a search needs half of
 * the instructions of a search that compares only 16 bytes at a time. */
#include "limiter/reader_scan.h"

typedef uint8_t vector __attribute__((vector_size(32)));
typedef uint64_t vector_words __attribute__((vector_size(32)));

#define INLINE static inline __attribute__((always_inline))
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#endif

_Static_assert(WR_READER_BLOCK == 4 * sizeof(vector), "a block has four vectors");

INLINE bool is_zero(const vector *v)
{
	vector_words words = (vector_words)*v;

	return (words[0] | words[1] | words[2] | words[3]) == 0;
}

/* Sets byte i of *found to 0xff if at[i] is `c`, otherwise to 0. */
INLINE void find_byte(const char *at, char c, vector *found)
{
	vector bytes;

	memcpy(&bytes, at, sizeof bytes);
	*found = (vector)(bytes == (uint8_t)c);
}

INLINE void find_either(const char *at, char a, char b, vector *found)
{
	vector is_a, is_b;

	find_byte(at, a, &is_a);
	find_byte(at, b, &is_b);
	*found |= is_a | is_b;
}

INLINE void find_ends(const char *at, size_t distance, char first, char last, vector *found)
{
	vector heads, tails;

	find_byte(at, first, &heads);
	find_byte(at + distance, last, &tails);
	*found |= heads & tails;
}

INLINE const char *pass_either(const char *at, const char *end, char a, char b)
{
	for (; end - at >= WR_READER_BLOCK; at += WR_READER_BLOCK) {
		vector found = {0};

		find_either(at, a, b, &found);
		find_either(at + sizeof found, a, b, &found);
		find_either(at + 2 * sizeof found, a, b, &found);
		find_either(at + 3 * sizeof found, a, b, &found);
		if (!is_zero(&found))
			break;
	}
	return at;
}

INLINE const char *pass_ends(const char *at, const char *end, size_t distance, char first,
			     char last)
{
	for (; end - at >= (ptrdiff_t)(WR_READER_BLOCK + distance); at += WR_READER_BLOCK) {
		vector found = {0};

		find_ends(at, distance, first, last, &found);
		find_ends(at + sizeof found, distance, first, last, &found);
		find_ends(at + 2 * sizeof found, distance, first, last, &found);
		find_ends(at + 3 * sizeof found, distance, first, last, &found);
		if (!is_zero(&found))
			break;
	}
	return at;
}

#ifdef AVX2
AVX2 static const char *pass_either_avx2(const char *at, const char *end, char a, char b)
{
	return pass_either(at, end, a, b);
}

AVX2 static const char *pass_ends_avx2(const char *at, const char *end, size_t distance, char first,
				       char last)
{
	return pass_ends(at, end, distance, first, last);
}
#endif

const char *wr_reader_pass_either(const char *at, const char *end, char a, char b)
{
#ifdef AVX2
	if (__builtin_cpu_supports("avx2"))
		return pass_either_avx2(at, end, a, b);
#endif
	return pass_either(at, end, a, b);
}

const char *wr_reader_pass_ends(const char *at, const char *end, size_t distance, char first,
				char last)
{
#ifdef AVX2
	if (__builtin_cpu_supports("avx2"))
		return pass_ends_avx2(at, end, distance, first, last);
#endif
	return pass_ends(at, end, distance, first, last);
}
