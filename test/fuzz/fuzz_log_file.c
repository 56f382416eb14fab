/* Fuzzes whole files: decompression, lines, recognition of the format, and the window. The input is
 * a file, which may be compressed. */
#include "fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wr_lab_log_opts opts = {.path_count = 1, .window_lines = 3, .window_ns = 10};
	const struct wr_lab_record *record;
	struct wr_lab_log_totals totals;
	struct wr_lab_log *log;
	const char *paths[1];
	uint64_t before_ns = 0, count = 0;
	char path[64];
	int fd = memfd_create("log", 0);

	require(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	paths[0] = path;
	opts.paths = paths;
	require(wr_lab_log_open(&opts, &log, NULL) == 0);
	while ((record = wr_lab_log_next(log)) != NULL) {
		require(record->time_ns >= before_ns);
		before_ns = record->time_ns;
		count++;
	}
	wr_lab_log_totals(log, &totals);
	wr_lab_log_close(log);
	close(fd);
	require(totals.records == count);
	require(totals.lines == count + totals.unreadable + totals.late);
	require(totals.example_count == (totals.unreadable < 3 ? totals.unreadable : 3));
	require(totals.bytes <= size);
	for (uint32_t i = 0; i < totals.example_count; i++)
		require(memchr(totals.examples[i], '\0', sizeof totals.examples[i]) != NULL);
	return 0;
}
