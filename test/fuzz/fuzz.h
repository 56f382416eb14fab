/* Shared by the fuzz targets: a check of a property, rules from a text, a table
 * without a name, and a decision. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/engine.h>
#include <weir/rules.h>
#include <weir/weir.h>

#include "limiter/refund.h"

static inline void require(int condition)
{
	if (!condition)
		abort();
}

/* Writes the path of a new file with this text to `path`. The file exists until the caller closes
 * the returned descriptor. */
static inline int make_file(const char *text, char path[64])
{
	int fd = memfd_create("rules", 0);
	size_t len = strlen(text);

	require(write(fd, text, len) == (ssize_t)len);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static inline struct weir_rules *load_rules(const char *yaml)
{
	struct weir_rules *rules;
	char path[64];
	int fd = make_file(yaml, path);

	require(weir_rules_load(path, &rules, NULL) == 0);
	close(fd);
	return rules;
}

/* Makes a table whose file is already removed, so that no file is left after a crash. */
static inline struct weir_table *make_table(uint64_t memory_bytes)
{
	char name[64];
	struct weir_opts opts = {
		.size = sizeof opts, .name = name, .dir = "/dev/shm", .memory_bytes = memory_bytes};
	struct weir_table *table;

	snprintf(name, sizeof name, "fuzz-%d", (int)getpid());
	require(weir_open(&opts, &table, NULL) == 0);
	weir_remove(name, opts.dir, NULL);
	return table;
}

/* Decides the ask. An ask that gives units back needs the time at which they were taken. */
static inline int decide_ask(struct weir_ask *ask, uint64_t now_ns)
{
	if (wr_ask_lacks_time(ask)) {
		require(weir_ask_decide(ask, now_ns) == WEIR_EINVAL);
		require(weir_ask_taken_at(ask, now_ns) == 0);
	}
	return weir_ask_decide(ask, now_ns);
}

#endif
