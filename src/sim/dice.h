/* Numbers that look like chance and are the same for the same seed, on every machine (splitmix64).
 */
#ifndef WR_SIM_DICE_H
#define WR_SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct wr_dice {
	uint64_t state;
};

static inline uint64_t wr_dice_roll(struct wr_dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* 0 … n - 1; n is not 0. */
static inline uint64_t wr_dice_below(struct wr_dice *dice, uint64_t n)
{
	return wr_dice_roll(dice) % n;
}

/* low … high, both included. */
static inline uint64_t wr_dice_between(struct wr_dice *dice, uint64_t low, uint64_t high)
{
	return low + wr_dice_below(dice, high - low + 1);
}

static inline bool wr_dice_percent(struct wr_dice *dice, unsigned percent)
{
	return wr_dice_below(dice, 100) < percent;
}

/* low … high, where each factor of two is as likely as another: delays, rates. */
static inline uint64_t wr_dice_scale(struct wr_dice *dice, uint64_t low, uint64_t high)
{
	uint64_t top = low;

	while (top < high && wr_dice_below(dice, 8) != 0)
		top = top * 2 < high ? top * 2 : high;
	return wr_dice_between(dice, low, top);
}

/* Another one that goes its own way: what one part of a run draws does not change what another
 * draws. */
static inline struct wr_dice wr_dice_part(struct wr_dice *dice)
{
	return (struct wr_dice){wr_dice_roll(dice)};
}

#endif
