/* Identifies processes as owners of lanes and host entries. Called by lanes.c and hosts.c. */
#include "stats/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STARTED_BITS 40

/* Returns the start time of a process in clock ticks since boot, which is field 22 of
 * /proc/PID/stat. Returns 0 if the start time is unknown. */
static uint64_t started_at(pid_t pid)
{
	char path[32], text[1024];
	const char *at;
	ssize_t len;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	len = read(fd, text, sizeof text - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	at = strrchr(text, ')'); /* the end of the process name, which may contain any byte */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) & ((1ull << STARTED_BITS) - 1) : 0;
}

struct wr_pair wr_stats_owner_self(void)
{
	pid_t pid = getpid();
	uint64_t pid_namespace = 0;
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0)
		pid_namespace = st.st_ino * 0x9e3779b97f4a7c15u >> STARTED_BITS << STARTED_BITS;
	return (struct wr_pair){(uint64_t)pid << 32, pid_namespace | started_at(pid)};
}

bool wr_stats_owner_is_dead(struct wr_pair owner, struct wr_pair self)
{
	const uint64_t started = (1ull << STARTED_BITS) - 1;
	pid_t pid = (pid_t)wr_stats_owner_pid(owner);
	uint64_t now;

	if ((owner.hi & ~started) != (self.hi & ~started))
		return false;
	if (kill(pid, 0) != 0 && errno == ESRCH)
		return true;
	now = started_at(pid);
	return now != 0 && (owner.hi & started) != 0 && now != (owner.hi & started);
}
