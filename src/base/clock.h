/* The one place where the program reads a clock. Code that decides takes the time as an argument;
 * only programs, their threads and the functions that start a wait call these functions.
 *
 * Tests move the wall clock by preloading a library with its own clock_gettime(). It therefore has
 * to be called by this name, and the result must not be cached. */
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

/* Nanoseconds since 1970. Steps when an operator or NTP sets the clock. Decisions use it, because
 * all hosts and Redis agree on it. */
static inline uint64_t wr_clock_wall_ns(void)
{
	return wr_clock_read_ns(CLOCK_REALTIME);
}

/* Never steps, and stands still while the machine sleeps. For durations and timeouts; the clock of
 * pthread_cond_timedwait() after pthread_condattr_setclock(CLOCK_MONOTONIC). */
static inline uint64_t wr_clock_mono_ns(void)
{
	return wr_clock_read_ns(CLOCK_MONOTONIC);
}

/* Never steps, and runs on while the machine sleeps. Leases expire by this clock: a machine that
 * wakes up must not spend units that Redis has given to other nodes meanwhile. All code that holds
 * or spends leases on one machine uses this clock and no other. Costs the same as the others. */
static inline uint64_t wr_clock_boot_ns(void)
{
	return wr_clock_read_ns(CLOCK_BOOTTIME);
}

/* The same moment as a timespec, as the functions of the C library take it. */
static inline struct timespec wr_clock_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / WR_SECOND_NS),
				 .tv_nsec = (long)(ns % WR_SECOND_NS)};
}

#endif
