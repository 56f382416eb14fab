/* Shared by the suites of table files: opening, writing and forging them. */
#ifndef TEST_TABLE_FILE_H
#define TEST_TABLE_FILE_H

#include "table/table_test.h"

#include <fcntl.h>
#include <unistd.h>

#include "table/file.h"

static struct weir_limit five;

static inline int prepare(void **unused)
{
	(void)unused;
	five = sized(WEIR_FIXED_WINDOW, 5, MINUTE);
	return 0;
}

static inline int open_existing(const char *name, struct weir_error *error)
{
	struct weir_opts opts = opts_of(name, 256 * KIB, 0);
	struct weir_table *table = NULL;
	int rc;

	opts.flags = WEIR_OPEN_EXISTING;
	*error = (struct weir_error){0};
	rc = weir_open(&opts, &table, error);
	if (rc == 0) {
		take(table, &five, "k", 1, T0);
		weir_close(table);
	}
	return rc;
}

/* Checks that weir_open() returns the code, and that the text contains the reason and the
 * folder. */
static inline void assert_refused(const char *name, int code, const char *part)
{
	struct weir_error error;

	assert_int_equal(open_existing(name, &error), code);
	assert_int_equal(error.code, code);
	if (!strstr(error.text, part) || !strstr(error.text, folder()))
		fail_msg("\"%s\" does not say \"%s\" and name the file", error.text, part);
}

static inline const char *file_of(const char *name)
{
	char file[100];

	snprintf(file, sizeof file, "%s.v%d", name, WR_LAYOUT);
	return in_folder(file);
}

static inline void write_at(const char *path, off_t at, const void *bytes, size_t len)
{
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
	close(fd);
}

static inline void make_file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

static inline struct wr_header header_of(const char *path)
{
	struct wr_header header;
	int fd = open(path, O_RDONLY);

	assert_int_equal(read(fd, &header, sizeof header), (ssize_t)sizeof header);
	close(fd);
	return header;
}

static inline void put_header(const char *path, struct wr_header header, bool sum)
{
	if (sum)
		header.checksum = XXH3_64bits(&header, offsetof(struct wr_header, checksum));
	write_at(path, 0, &header, sizeof header);
}

static inline int open_with(struct weir_opts opts, struct weir_error *error)
{
	struct weir_table *table;
	int rc = weir_open(&opts, &table, error);

	if (rc == 0) {
		weir_close(table);
		assert_int_equal(weir_remove(opts.name, opts.dir, NULL), 0);
	}
	return rc;
}

#endif
