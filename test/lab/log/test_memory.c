/* The memory of reading does not depend on the length of the log: logs of ten million lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"
#include "lab/log/log.h"

#define LINES 10000000u
#define MEBI (1024u * 1024u)

/* Writes a log into a pipe: `per_second` lines in each second. */
struct writer {
	int fd;
	uint32_t per_second;
};

static void *write_lines(void *context)
{
	const struct writer *writer = context;
	FILE *file = fdopen(writer->fd, "wb");
	char line[256];
	int len = 0;

	for (uint32_t i = 0; i < LINES; i++) {
		uint32_t s = i / writer->per_second;

		if (i % writer->per_second == 0)
			len = snprintf(line, sizeof line,
				       "192.0.2.7 - - [%02u/Jan/2024:%02u:%02u:%02u +0000] \"GET "
				       "/index.html HTTP/1.1\" 200 5120 \"https://a.example/\" "
				       "\"Mozilla/5.0 (X11; Linux x86_64; rv:128.0)\"\n",
				       1 + s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
		fwrite_unlocked(line, 1, (size_t)len, file);
	}
	fclose(file);
	return NULL;
}

/* Returns the most memory that the process has used, in bytes. */
static uint64_t peak_bytes(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

/* Reads ten million lines, and asserts the highest memory of the process afterwards. */
static void read_log(uint32_t per_second, uint64_t limit_bytes)
{
	struct wr_lab_log_opts opts = {.path_count = 1};
	struct writer writer = {.per_second = per_second};
	const struct wr_lab_record *record;
	uint64_t count = 0, before_ns = 0;
	struct weir_error error;
	struct wr_lab_log *log;
	const char *paths[1];
	pthread_t thread;
	char path[64];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	writer.fd = ends[1];
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
	paths[0] = path;
	opts.paths = paths;
	assert_int_equal(wr_thread_start(&thread, "writer", write_lines, &writer), 0);
	assert_int_equal(wr_lab_log_open(&opts, &log, &error), 0);
	close(ends[0]);
	while ((record = wr_lab_log_next(log)) != NULL) {
		assert_true(record->time_ns >= before_ns);
		before_ns = record->time_ns;
		count++;
	}
	wr_lab_log_close(log);
	pthread_join(thread, NULL);
	assert_int_equal(count, LINES);
	if (peak_bytes() > limit_bytes)
		fail_msg("%llu bytes", (unsigned long long)peak_bytes());
}

static void usual_log_needs_little_memory(void **state)
{
	read_log(100, 24 * MEBI);
	(void)state;
}

/* All lines have the same time, so that the window is always full. */
static void log_of_one_second_needs_bounded_memory(void **state)
{
	read_log(LINES, 128 * MEBI);
	(void)state;
}

int main(void)
{
	/* in this order, because the memory of a process is measured at its highest */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_log_needs_little_memory),
		cmocka_unit_test(log_of_one_second_needs_bounded_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
