/* Secrets in files: access rights, lengths, creation, comparison. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/secret.h"

static char folder[] = "/tmp/weir-key-XXXXXX", path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/key", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void put(const char *text, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void test_new_key_replaces_a_file(void **state)
{
	struct wr_secret key, other;
	struct weir_error error;
	struct stat st;

	(void)state;
	put("old", 3, 0666);
	assert_int_equal(wr_secret_make(path, &error), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(wr_secret_read(path, &key, &error), 0);
	assert_int_equal(key.len, 64);
	assert_int_equal(strspn(key.text, "0123456789abcdef"), 64);
	assert_int_equal(wr_secret_make(path, &error), 0);
	assert_int_equal(wr_secret_read(path, &other, &error), 0);
	assert_memory_not_equal(key.text, other.text, 64);
}

static void test_length_of_a_key_is_limited(void **state)
{
	char text[300];
	struct wr_secret key;
	struct weir_error error;

	(void)state;
	memset(text, 'k', sizeof text);
	put(text, 31, 0600);
	assert_int_equal(wr_secret_read(path, &key, &error), WEIR_EFORMAT);
	assert_int_equal(key.len, 0);
	put(text, 32, 0600);
	assert_int_equal(wr_secret_read(path, &key, &error), 0);
	assert_int_equal(key.len, 32);
	text[256] = '\r';
	text[257] = '\n';
	put(text, 258, 0600);
	assert_int_equal(wr_secret_read(path, &key, &error), 0);
	assert_int_equal(key.len, 256);
	text[256] = 'k';
	put(text, 257, 0600);
	assert_int_equal(wr_secret_read(path, &key, &error), WEIR_EFORMAT);
	text[40] = '\n';
	put(text, 80, 0600);
	assert_int_equal(wr_secret_read(path, &key, &error), WEIR_EFORMAT);
}

static void test_key_with_other_rights_is_refused(void **state)
{
	static const char text[] = "0123456789abcdef0123456789abcdef\n";
	struct wr_secret key;
	struct weir_error error;

	(void)state;
	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		put(text, sizeof text - 1, 0600 | bit);
		assert_int_equal(wr_secret_read(path, &key, &error), WEIR_EACCESS);
		assert_non_null(
			strstr(error.text, "is accessible to other users: run chmod 600 on it"));
		assert_int_equal(key.len, 0);
	}
	put(text, sizeof text - 1, 0600);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, -1), 0);
		assert_int_equal(wr_secret_read(path, &key, &error), WEIR_EACCESS);
		assert_non_null(strstr(error.text, "belongs to user 65534"));
	}
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(wr_secret_read(path, &key, &error), WEIR_EACCESS);
	unlink(path);
	assert_int_equal(wr_secret_read(path, &key, &error), WEIR_ESYS);
}

/* A shared file may have any owner, and its group may read it. Other rights are refused. */
static void test_shared_file(void **state)
{
	char text[16];
	struct weir_error error;
	size_t len;

	(void)state;
	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		int rc;

		put("password\n", 9, 0600 | bit);
		if (geteuid() == 0)
			assert_int_equal(chown(path, 65534, -1), 0);
		rc = wr_secret_file_read(path, WR_SECRET_SHARED, text, sizeof text, &len, &error);
		assert_int_equal(rc, bit & 027 ? WEIR_EACCESS : 0);
		assert_int_equal(len, rc == 0 ? 9 : 0);
	}
	put("0123456789abcdef", 15, 0640);
	assert_int_equal(wr_secret_file_read(path, WR_SECRET_SHARED, text, 16, &len, &error), 0);
	assert_int_equal(len, 15);
	put("0123456789abcdef", 16, 0640);
	assert_int_equal(wr_secret_file_read(path, WR_SECRET_SHARED, text, 16, &len, &error),
			 WEIR_EFORMAT);
	assert_non_null(strstr(error.text, "is larger than 15 bytes"));
	assert_int_equal(len, 0);
}

static void test_keys_are_compared(void **state)
{
	struct wr_secret none = {0}, key = {.len = 32};

	(void)state;
	memcpy(key.text, "0123456789abcdef0123456789abcdef", 32);
	assert_true(wr_secret_is(&key, "0123456789abcdef0123456789abcdef", 32));
	assert_false(wr_secret_is(&key, "0123456789abcdef0123456789abcdeg", 32));
	assert_false(wr_secret_is(&key, "1123456789abcdef0123456789abcdef", 32));
	assert_false(wr_secret_is(&key, "0123456789abcdef0123456789abcdef", 31));
	assert_false(wr_secret_is(&key, "0123456789abcdef0123456789abcdef\0", 33));
	assert_false(wr_secret_is(&key, "", 0));
	assert_false(wr_secret_is(&none, "", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_key_replaces_a_file),
		cmocka_unit_test(test_length_of_a_key_is_limited),
		cmocka_unit_test(test_key_with_other_rights_is_refused),
		cmocka_unit_test(test_shared_file),
		cmocka_unit_test(test_keys_are_compared),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
