/* Probes the machine for the capabilities that tests need. The macro needs() calls it. */
#include "needs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHM_BYTES (256ull << 20)

static bool lacks_root(void)
{
	return geteuid() != 0;
}

static int write_file(const char *path, const char *text)
{
	ssize_t len = (ssize_t)strlen(text);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, (size_t)len) == len;

	if (fd >= 0)
		close(fd);
	return written ? 0 : -1;
}

static int own_user_namespace(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char uids[64], gids[64];

	snprintf(uids, sizeof uids, "%u %u 1", uid, uid);
	snprintf(gids, sizeof gids, "%u %u 1", gid, gid);
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
			       write_file("/proc/self/setgroups", "deny") == 0 &&
			       write_file("/proc/self/uid_map", uids) == 0 &&
			       write_file("/proc/self/gid_map", gids) == 0
		       ? 0
		       : -1;
}

int test_own_mounts(void)
{
	if (unshare(CLONE_NEWNS) != 0 && own_user_namespace() != 0)
		return -1;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* Tries to make mounts in a child process, because a process cannot return to its former mounts. */
static bool lacks_mounts(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(test_own_mounts() != 0 || mount("none", "/mnt", "tmpfs", 0, "size=1m") != 0);
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static bool lacks_ipv6(void)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;

	if (fd >= 0)
		close(fd);
	return !bound;
}

static bool lacks_shm(void)
{
	struct statvfs found;

	return statvfs("/dev/shm", &found) != 0 || access("/dev/shm", W_OK) != 0 ||
	       (uint64_t)found.f_bavail * found.f_frsize < SHM_BYTES;
}

/* Only root may reserve huge pages for hugetlbfs. */
static bool lacks_hugepages(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(access("/proc/sys/vm/nr_hugepages", W_OK) != 0 || test_own_mounts() != 0 ||
		      mount("none", "/mnt", "tmpfs", 0, "size=4m,huge=advise") != 0 ||
		      mount("none", "/mnt", "hugetlbfs", 0, "pagesize=2M") != 0);
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static const struct capability {
	const char *name, *reason;
	bool (*lacks)(void);
} capabilities[] = {
	{"root", "not root", lacks_root},
	{"mounts", "cannot mount in a namespace", lacks_mounts},
	{"hugepages", "no huge pages, or not root", lacks_hugepages},
	{"ipv6", "no IPv6", lacks_ipv6},
	{"shm", "less than 256 MiB of /dev/shm", lacks_shm},
};

static const struct capability *find_capability(const char *name)
{
	for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
		if (strcmp(capabilities[i].name, name) == 0)
			return &capabilities[i];
	fprintf(stderr, "needs: unknown capability %s\n", name);
	abort();
}

static bool is_listed(const char *words, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = words; *at;) {
		size_t word = strcspn(at, " ");

		if (word == len && memcmp(at, name, len) == 0)
			return true;
		at += word + strspn(at + word, " ");
	}
	return false;
}

bool test_lacks(const char *name)
{
	const struct capability *capability = find_capability(name);
	const char *missing = getenv("WEIR_LACKS");

	return (missing && is_listed(missing, name)) || capability->lacks();
}

void test_report_skipped(const char *name)
{
	printf("skipped: %s\n", find_capability(name)->reason);
	fflush(stdout);
}
