/* The clock that leases end by. CLOCK_BOOTTIME, because a machine that slept must not wake up with
 * units Redis has handed to others meanwhile; CLOCK_MONOTONIC stands still in sleep. Both are read
 * without a system call and cost the same. Whoever keeps or spends leases on one machine uses this
 * clock and no other. */
#ifndef WR_BASE_MONO_H
#define WR_BASE_MONO_H

#include <stdint.h>
#include <time.h>

static inline uint64_t wr_mono_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
