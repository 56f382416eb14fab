/* A generator of pseudo-random numbers (splitmix64). The same seed gives the same numbers on every
 * machine. */
#ifndef WR_SIM_RNG_H
#define WR_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct wr_rng {
	uint64_t state;
};

static inline uint64_t wr_rng_next(struct wr_rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Returns a number from 0 to n - 1. `n` must not be 0. */
static inline uint64_t wr_rng_below(struct wr_rng *rng, uint64_t n)
{
	return wr_rng_next(rng) % n;
}

/* Returns a number from `low` to `high`, both included. */
static inline uint64_t wr_rng_between(struct wr_rng *rng, uint64_t low, uint64_t high)
{
	return low + wr_rng_below(rng, high - low + 1);
}

/* Returns true in `percent` percent of the calls. */
static inline bool wr_rng_percent(struct wr_rng *rng, unsigned percent)
{
	return wr_rng_below(rng, 100) < percent;
}

/* Returns a number from `low` to `high` for a delay or a rate. Small numbers are more likely,
 * because the upper bound starts at `low` and doubles with a probability of 7/8 at each step. */
static inline uint64_t wr_rng_scale(struct wr_rng *rng, uint64_t low, uint64_t high)
{
	uint64_t top = low;

	while (top < high && wr_rng_below(rng, 8) != 0)
		top = top * 2 < high ? top * 2 : high;
	return wr_rng_between(rng, low, top);
}

/* Returns an independent generator. Numbers drawn from the new generator do not change the numbers
 * that `rng` returns later. */
static inline struct wr_rng wr_rng_fork(struct wr_rng *rng)
{
	return (struct wr_rng){wr_rng_next(rng)};
}

#endif
