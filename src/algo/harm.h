/* How much a key has used, on a logarithmic scale: the loss if the table forgets the key.
 *
 * Four steps to the octave: 0 is 0, 1 is 1, 2 is 5, 3 is 7, 4 is 9, 8 is 13, 100 is 27, 2^31 is
 * 125. A share of the limit would not do: the first request of a key with a limit of 3 uses a third
 * of it and is worth one request.
 */
#ifndef WR_ALGO_HARM_H
#define WR_ALGO_HARM_H

#include <stdint.h>

#define WR_HARM_OCTAVE 4u

/* For a number below 2^62. */
static inline unsigned wr_harm_of(uint64_t used)
{
	unsigned octave = 63u - (unsigned)__builtin_clzll(used | 1);

	return used ? 1 + octave * WR_HARM_OCTAVE + (unsigned)(used << 2 >> octave & 3) : 0;
}

/* The same for a quotient, without a division. It is off by two steps at most, and 1 if both are
 * equal. */
static inline unsigned wr_harm_of_quotient(uint64_t used, unsigned harm_of_divisor)
{
	unsigned harm = wr_harm_of(used);

	return harm > harm_of_divisor ? harm - harm_of_divisor + 1 : 1;
}

#endif
