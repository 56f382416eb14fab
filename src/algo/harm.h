/* Harm: the number of units that a key has used, on a logarithmic scale. If a full table evicts the
 * key, at most these units are admitted a second time, so keys with little harm are evicted first.
 *
 * The scale has four steps per octave (doubling). The harm of 0 is 0, of 1 it is 1, of 2 it is 5,
 * of 3 it is 7, of 4 it is 9, of 8 it is 13, of 100 it is 27, of 2^31 it is 125. The used
 * fraction of the limit would be a wrong measure: the first request of a key with a limit of 3 uses
 * a third of the limit, but if this key is evicted, only one unit is admitted a second time. */
#ifndef WR_ALGO_HARM_H
#define WR_ALGO_HARM_H

#include <stdint.h>

#define WR_HARM_OCTAVE 4u

/* Returns the harm of a number below 2^62. */
static inline unsigned wr_harm_of(uint64_t used)
{
	unsigned octave = 63u - (unsigned)__builtin_clzll(used | 1);

	return used ? 1 + octave * WR_HARM_OCTAVE + (unsigned)(used << 2 >> octave & 3) : 0;
}

/* Returns the harm of the quotient `used` / divisor. The caller passes the harm of the divisor, so
 * that no division is needed. The result is off by at most two steps. It is 1 if the harm of `used`
 * is not above the harm of the divisor. */
static inline unsigned wr_harm_of_quotient(uint64_t used, unsigned harm_of_divisor)
{
	unsigned harm = wr_harm_of(used);

	return harm > harm_of_divisor ? harm - harm_of_divisor + 1 : 1;
}

#endif
