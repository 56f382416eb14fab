/* The only functions of the program that read a clock. Code that decides requests does not call
 * these functions, but gets the time as an argument.
 *
 * Tests move the wall clock by preloading a library with its own clock_gettime(). So the time must
 * be read with clock_gettime(), and the result must not be cached. */
#ifndef WR_BASE_CLOCK_H
#define WR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WR_SECOND_NS 1000000000u

static inline uint64_t wr_clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * WR_SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Returns the time of the wall clock in nanoseconds since 1970. The wall clock jumps when an
 * operator or NTP sets it. Decisions use the wall clock, because all nodes and Redis agree on
 * it. */
static inline uint64_t wr_clock_wall_ns(void)
{
	return wr_clock_read_ns(CLOCK_REALTIME);
}

/* Returns the time of the monotonic clock in nanoseconds. The monotonic clock never jumps, and
 * stands still while the machine sleeps. Durations and timeouts use this clock.
 * pthread_cond_timedwait() uses it too if the condition was created with
 * pthread_condattr_setclock(CLOCK_MONOTONIC). */
static inline uint64_t wr_clock_mono_ns(void)
{
	return wr_clock_read_ns(CLOCK_MONOTONIC);
}

/* Returns the time of the boot clock in nanoseconds. The boot clock never jumps, and continues
 * while the machine sleeps. Leases expire by this clock, because a machine that wakes up must not
 * spend units that Redis gave to other nodes while the machine slept. All code that holds or spends
 * leases uses only this clock. Reading the boot clock takes as long as reading the other clocks. */
static inline uint64_t wr_clock_boot_ns(void)
{
	return wr_clock_read_ns(CLOCK_BOOTTIME);
}

/* Converts nanoseconds to a timespec for functions of the C library. */
static inline struct timespec wr_clock_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / WR_SECOND_NS),
				 .tv_nsec = (long)(ns % WR_SECOND_NS)};
}

#endif
