/* LD_PRELOAD: a disk that takes a while. Every fsync and fdatasync lasts SLOW_SYNC_US longer than
 * it does, as on a disk without a cache that outlives a power loss; those of virtual machines often
 * answer in a fraction of that. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_a_while(void)
{
	const char *us = getenv("SLOW_SYNC_US");

	if (us)
		usleep((useconds_t)strtoul(us, NULL, 10));
}

static int sync_as(const char *name, int fd)
{
	int (*real)(int);

	*(void **)&real = dlsym(RTLD_NEXT, name); /* as its manual page has it */
	wait_a_while();
	return real(fd);
}

int fsync(int fd)
{
	return sync_as("fsync", fd);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's name is reserved
int fdatasync(int fd)
{
	return sync_as("fdatasync", fd);
}
