/* A wall clock that a test moves. Preloaded into nginx, weir and redis-server, it answers every
 * reading of CLOCK_REALTIME from a word that the test writes; all processes of a test share the
 * word, so they see a step at the same moment. Monotonic clocks are left alone: timeouts and timers
 * run in real time.
 *
 * TESTCLOCK_FILE names a file of 8 bytes, one signed integer in native order:
 *     even: nanoseconds to add to the real time          odd: the time stands at this many
 * nanoseconds since 1970 Without the variable, or when the file cannot be mapped, the real time is
 * answered. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const _Atomic int64_t *shared; /* NULL: the real time is used */

__attribute__((constructor)) static void map_the_clock(void)
{
	const char *path = getenv("TESTCLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *word = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (word != MAP_FAILED)
		shared = word;
}

static int64_t wall_ns(clockid_t clock)
{
	struct timespec now;
	int64_t word = shared ? atomic_load(shared) : 0;

	if (word & 1)
		return word;
	syscall(SYS_clock_gettime, clock, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec + word;
}

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
	if (clock_id != CLOCK_REALTIME && clock_id != CLOCK_REALTIME_COARSE)
		return (int)syscall(SYS_clock_gettime, clock_id, tp);
	int64_t now_ns = wall_ns(clock_id);
	*tp = (struct timespec){.tv_sec = now_ns / SECOND_NS, .tv_nsec = now_ns % SECOND_NS};
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	int64_t now_ns = wall_ns(CLOCK_REALTIME);
	(void)tz;
	*tv = (struct timeval){.tv_sec = now_ns / SECOND_NS, .tv_usec = now_ns % SECOND_NS / 1000};
	return 0;
}

time_t time(time_t *timer)
{
	time_t now = (time_t)(wall_ns(CLOCK_REALTIME) / SECOND_NS);
	if (timer)
		*timer = now;
	return now;
}
