/* The former name of wr_clock_boot_ns() in base/clock.h. */
#ifndef WR_BASE_MONO_H
#define WR_BASE_MONO_H

#include "base/clock.h"

static inline uint64_t wr_mono_ns(void)
{
	return wr_clock_boot_ns();
}

#endif
