/* A library for LD_PRELOAD that simulates a slow disk. Every fsync and fdatasync takes SLOW_SYNC_US
 * microseconds longer. This is typical of a disk whose cache does not survive a power loss, while
 * disks of virtual machines are often much faster. */
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

	*(void **)&real = dlsym(RTLD_NEXT, name); /* the cast that dlsym(3) recommends */
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
