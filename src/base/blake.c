/* Computes BLAKE2s digests (RFC 7693). central uses digests as names of regions, and limiter uses
 * them as names of lines in the queue. */
#include "base/blake.h"

#include <string.h>

#define ROUNDS 10u

static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
				  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint8_t order[ROUNDS][16] = {
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint32_t load_word(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

static uint32_t rotate(uint32_t word, unsigned bits)
{
	return word >> bits | word << (32 - bits);
}

/* Always inlined: a, b, c and d are then constants, so the compiler keeps the elements of `v` in
 * registers. */
static inline __attribute__((always_inline)) void
mix_quarter(uint32_t v[16], unsigned a, unsigned b, unsigned c, unsigned d, uint32_t x, uint32_t y)
{
	v[a] += v[b] + x;
	v[d] = rotate(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = rotate(v[b] ^ v[c], 12);
	v[a] += v[b] + y;
	v[d] = rotate(v[d] ^ v[a], 8);
	v[c] += v[d];
	v[b] = rotate(v[b] ^ v[c], 7);
}

static void mix_all(uint32_t v[16], const uint32_t m[16], const uint8_t s[16])
{
	mix_quarter(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
	mix_quarter(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
	mix_quarter(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
	mix_quarter(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
	mix_quarter(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
	mix_quarter(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
	mix_quarter(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
	mix_quarter(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
}

static void compress_block(struct wr_blake *blake, uint32_t last)
{
	uint32_t v[16], m[16];

	for (unsigned i = 0; i < 8; i++) {
		v[i] = blake->h[i];
		v[i + 8] = first[i];
	}
	v[12] ^= (uint32_t)blake->fed;
	v[13] ^= (uint32_t)(blake->fed >> 32);
	v[14] ^= last;
	for (unsigned i = 0; i < 16; i++)
		m[i] = load_word(blake->block + (size_t)4 * i);
	for (unsigned round = 0; round < ROUNDS; round++)
		mix_all(v, m, order[round]);
	for (unsigned i = 0; i < 8; i++)
		blake->h[i] ^= v[i] ^ v[i + 8];
}

void wr_blake_begin(struct wr_blake *blake)
{
	memcpy(blake->h, first, sizeof first);
	blake->h[0] ^= 0x01010000u ^ WR_BLAKE_BYTES;
	blake->fed = 0;
	blake->held = 0;
}

/* A full block is compressed only when more bytes arrive, because the final block of a text is
 * compressed in another way than the blocks before it. */
void wr_blake_feed(struct wr_blake *blake, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len) {
		size_t room, part;

		if (blake->held == WR_BLAKE_BLOCK) {
			blake->fed += WR_BLAKE_BLOCK;
			compress_block(blake, 0);
			blake->held = 0;
		}
		room = WR_BLAKE_BLOCK - blake->held;
		part = len < room ? len : room;
		memcpy(blake->block + blake->held, at, part);
		blake->held += part;
		at += part;
		len -= part;
	}
}

void wr_blake_end(struct wr_blake *blake, uint8_t digest[WR_BLAKE_BYTES])
{
	memset(blake->block + blake->held, 0, WR_BLAKE_BLOCK - blake->held);
	blake->fed += blake->held;
	compress_block(blake, UINT32_MAX);
	for (unsigned i = 0; i < WR_BLAKE_BYTES; i++)
		digest[i] = (uint8_t)(blake->h[i / 4] >> 8 * (i % 4));
}
