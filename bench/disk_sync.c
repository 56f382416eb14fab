/* Measures how many records per second a disk makes durable. The program appends a record to a
 * file, syncs the file, and repeats that, like a queue without group commit. The number of deferred
 * requests that weir stores per second is compared with this number.
 *
 *   disk-sync FOLDER SECONDS BYTES      prints syncs per second */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns the number of syncs per second. On failure returns a negative number and sets errno. */
static double measure(int fd, const char *record, size_t size, double seconds)
{
	unsigned long count = 0;
	double began = now_s();

	do {
		if (write(fd, record, size) != (ssize_t)size || fsync(fd))
			return -1;
		count++;
	} while (now_s() - began < seconds);
	return (double)count / (now_s() - began);
}

int main(int argc, char **argv)
{
	static char record[MOST_BYTES];
	double rate, seconds = argc == 4 ? strtod(argv[2], NULL) : 0;
	unsigned long size = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	int fd;

	if (seconds <= 0 || !size || size > sizeof record) {
		fputs("disk-sync FOLDER SECONDS BYTES\n", stderr);
		return 2;
	}
	memset(record, 'x', size);
	fd = open(argv[1], O_TMPFILE | O_WRONLY | O_CLOEXEC,
		  0600); /* a file without a name, which the kernel removes on exit */
	rate = fd < 0 ? -1 : measure(fd, record, size, seconds);
	if (rate < 0) {
		fprintf(stderr, "disk-sync: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	printf("%.1f\n", rate);
	return close(fd) ? 1 : 0;
}
