/* Files that weir_open() refuses with an error and a text: truncated, damaged and foreign files, and
 * files of other users. */
#include "needs.h"
#include "table/file_test.h"

#include <errno.h>
#include <grp.h>
#include <sys/stat.h>

/* --- files that are no tables --- */

static void a_truncated_file(void **unused)
{
	struct weir_table *table = table_open("short", 256 * KIB, 0);
	off_t sizes[] = {0,
			 1,
			 100,
			 sizeof(struct wr_header) - 1,
			 sizeof(struct wr_header),
			 4096,
			 (off_t)table->header.file_bytes - 1};

	(void)unused;
	weir_close(table);
	for (size_t i = sizeof sizes / sizeof *sizes; i-- > 0;) {
		assert_int_equal(truncate(file_of("short"), sizes[i]), 0);
		assert_refused("short", WEIR_EFORMAT,
			       sizes[i] < (off_t)sizeof(struct wr_header) ? "too short"
									  : "bytes long instead");
	}
	assert_int_equal(weir_remove("short", folder(), NULL), 0);
}

static void a_file_that_is_too_long(void **unused)
{
	struct weir_table *table = table_open("long", 256 * KIB, 0);

	(void)unused;
	assert_int_equal(truncate(file_of("long"), (off_t)table->header.file_bytes + 1), 0);
	weir_close(table);
	assert_refused("long", WEIR_EFORMAT, "bytes long instead");
	assert_int_equal(weir_remove("long", folder(), NULL), 0);
}

static void a_foreign_file_is_refused(void **unused)
{
	char junk[8192];

	(void)unused;
	memset(junk, 'x', sizeof junk);
	make_file(file_of("foreign"), junk, sizeof junk);
	assert_refused("foreign", WEIR_EFORMAT, "is not a weir table");
	memset(junk, 0, sizeof junk);
	make_file(file_of("foreign"), junk, sizeof junk);
	assert_refused("foreign", WEIR_EFORMAT, "is not a weir table");
	/* Damaged or not, it can be removed. */
	assert_int_equal(weir_remove("foreign", folder(), NULL), 0);
}

static void another_layout_is_refused(void **unused)
{
	struct wr_header header;

	(void)unused;
	weir_close(table_open("layout", 256 * KIB, 0));
	header = header_of(file_of("layout"));
	header.layout = WR_LAYOUT + 1;
	put_header(file_of("layout"), header, true);
	assert_refused("layout", WEIR_ELAYOUT,
		       "has layout 3, but this version of weir uses layout 2");
	header.layout = 0;
	put_header(file_of("layout"), header, true);
	assert_refused("layout", WEIR_ELAYOUT, "has layout 0");
	header.layout = WR_LAYOUT;
	header.header_bytes += 8;
	put_header(file_of("layout"), header, true);
	assert_refused("layout", WEIR_ELAYOUT, "layout");
	assert_int_equal(weir_remove("layout", folder(), NULL), 0);
}

/* Flips all bits of each byte in turn: an error each time, and the file is usable again when the
 * byte is restored. */
static void any_byte_of_the_header_flipped(void **unused)
{
	struct wr_header header;
	struct weir_error error;

	(void)unused;
	weir_close(table_open("flip", 256 * KIB, 0));
	header = header_of(file_of("flip"));
	for (size_t i = 0; i < sizeof header; i++) {
		struct wr_header flipped = header;

		((uint8_t *)&flipped)[i] ^= 0xff;
		put_header(file_of("flip"), flipped, false);
		assert_true(open_existing("flip", &error) < 0);
		assert_true(error.text[0] != 0);
	}
	put_header(file_of("flip"), header, false);
	assert_int_equal(open_existing("flip", &error), 0);
	assert_int_equal(weir_remove("flip", folder(), NULL), 0);
}

/* The same with a correct checksum: an error, or no effect. */
static void any_byte_of_the_header_forged(void **unused)
{
	struct wr_header header;
	struct weir_error error;
	struct rnd r = {rnd_seed()};

	(void)unused;
	weir_close(table_open("forge", 256 * KIB, 0));
	header = header_of(file_of("forge"));
	for (size_t i = 0; i < offsetof(struct wr_header, checksum); i++)
		for (int k = 0; k < 6; k++) {
			struct wr_header forged = header;

			((uint8_t *)&forged)[i] ^= (uint8_t)(k ? rnd(&r) : 0xff);
			put_header(file_of("forge"), forged, true);
			if (open_existing("forge", &error) < 0)
				assert_true(error.text[0] != 0);
		}
	assert_int_equal(weir_remove("forge", folder(), NULL), 0);
}

static const struct forgery {
	const char *what;
	size_t at;
	uint64_t value;
} forgeries[] = {
	{"outside", offsetof(struct wr_header, sections[0].offset), 1ull << 40},
	{"outside", offsetof(struct wr_header, sections[0].offset), 4096},
	{"outside", offsetof(struct wr_header, sections[0].offset), 8193},
	{"outside", offsetof(struct wr_header, sections[0].bytes), UINT64_MAX - 511},
	{"outside", offsetof(struct wr_header, sections[2].offset), UINT64_MAX - 4095},
	{"outside", offsetof(struct wr_header, sections[3].bytes), 1ull << 40},
	{"impossible", offsetof(struct wr_header, sections[0].bytes), 0},
	{"impossible", offsetof(struct wr_header, sections[0].bytes), 513},
	{"impossible", offsetof(struct wr_header, sections[0].bytes), 512},
	{"impossible", offsetof(struct wr_header, sections[1].bytes), 4},
	{"impossible", offsetof(struct wr_header, span_bytes), 0},
	{"impossible", offsetof(struct wr_header, span_bytes), 4095},
	{"impossible", offsetof(struct wr_header, span_bytes), 1ull << 32},
	{"bytes long", offsetof(struct wr_header, file_bytes), 4096},
};

static void impossible_headers(void **unused)
{
	struct wr_header header;

	(void)unused;
	weir_close(table_open("imp", 256 * KIB, 0));
	header = header_of(file_of("imp"));
	for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
		struct wr_header forged = header;

		memcpy((uint8_t *)&forged + forgeries[i].at, &forgeries[i].value, 8);
		put_header(file_of("imp"), forged, true);
		assert_refused("imp", WEIR_EFORMAT, forgeries[i].what);
	}
	assert_int_equal(weir_remove("imp", folder(), NULL), 0);
}

/* --- rights --- */

static void a_symbolic_link(void **unused)
{
	char file[400];

	(void)unused;
	weir_close(table_open("real", 256 * KIB, 0));
	snprintf(file, sizeof file, "%s", file_of("real"));
	assert_int_equal(symlink(file, file_of("link")), 0);
	assert_refused("link", WEIR_EACCESS, "is a symbolic link");
	assert_int_equal(weir_remove("link", folder(), NULL), 0);
	assert_int_equal(open_existing("real", &(struct weir_error){0}), 0);
	assert_int_equal(weir_remove("real", folder(), NULL), 0);
}

static void a_folder_instead_of_a_file_is_refused(void **unused)
{
	struct weir_error error = {0};

	(void)unused;
	assert_int_equal(mkdir(file_of("dir"), 0700), 0);
	assert_refused("dir", WEIR_ESYS, "irectory");
	assert_int_equal(open_with(opts_of("dir", 256 * KIB, 0), &error), WEIR_ESYS);
	assert_int_equal(weir_remove("dir", folder(), &error), WEIR_ESYS);
	assert_int_equal(rmdir(file_of("dir")), 0);
	assert_int_equal(mkfifo(file_of("fifo"), 0600), 0);
	assert_refused("fifo", WEIR_EACCESS, "not a regular file");
	assert_int_equal(unlink(file_of("fifo")), 0);
}

static void a_file_others_may_read_is_refused(void **unused)
{
	static const mode_t bad[] = {0601, 0602, 0604, 0666, 0777}, good[] = {0600, 0660, 0640};

	(void)unused;
	weir_close(table_open("wide", 256 * KIB, 0));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(chmod(file_of("wide"), bad[i]), 0);
		assert_refused("wide", WEIR_EACCESS, "chmod o=");
	}
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(chmod(file_of("wide"), good[i]), 0);
		assert_int_equal(open_existing("wide", &(struct weir_error){0}), 0);
	}
	assert_int_equal(weir_remove("wide", folder(), NULL), 0);
}

static int as_user(uid_t uid)
{
	return setgid(uid) == 0 && setuid(uid) == 0 ? 0 : -1;
}

static int open_as_stranger(void *unused)
{
	struct weir_error error;

	(void)unused;
	CHILD_CHECK(as_user(65533) == 0);
	CHILD_CHECK(open_existing("theirs", &error) == WEIR_EACCESS);
	CHILD_CHECK(strstr(error.text, "belongs to user 65532"));
	return 0;
}

static int open_as_owner(void *unused)
{
	struct weir_error error;

	(void)unused;
	CHILD_CHECK(as_user(65532) == 0);
	CHILD_CHECK(open_existing("theirs", &error) == 0);
	return 0;
}

/* Members of the group may use root's table of mode 0660. Other users' tables are refused. */
static int open_roots_as_group(void *unused)
{
	struct weir_error error;

	(void)unused;
	CHILD_CHECK(setgid(65531) == 0 && setuid(65530) == 0);
	CHILD_CHECK(open_existing("roots", &error) == 0);
	return 0;
}

static void a_file_of_another_user_is_refused(void **unused)
{
	(void)unused;
	needs("root"); /* only root can give files away */
	assert_int_equal(chmod(folder(), 0777), 0);
	weir_close(table_open("theirs", 256 * KIB, 0));
	assert_int_equal(chown(file_of("theirs"), 65532, 65533), 0);
	assert_int_equal(chmod(file_of("theirs"), 0660), 0);
	assert_refused("theirs", WEIR_EACCESS, "belongs to user 65532");
	assert_int_equal(in_child(open_as_stranger, NULL), 0);
	assert_int_equal(in_child(open_as_owner, NULL), 0);
	assert_int_equal(weir_remove("theirs", folder(), NULL), 0);
	weir_close(table_open("roots", 256 * KIB, 0));
	assert_int_equal(chown(file_of("roots"), 0, 65531), 0);
	assert_int_equal(chmod(file_of("roots"), 0660), 0);
	assert_int_equal(in_child(open_roots_as_group, NULL), 0);
	assert_int_equal(weir_remove("roots", folder(), NULL), 0);
	assert_int_equal(chmod(folder(), 0700), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_truncated_file, prepare),
		cmocka_unit_test(a_file_that_is_too_long),
		cmocka_unit_test(a_foreign_file_is_refused),
		cmocka_unit_test(another_layout_is_refused),
		cmocka_unit_test_setup(any_byte_of_the_header_flipped, prepare),
		cmocka_unit_test_setup(any_byte_of_the_header_forged, prepare),
		cmocka_unit_test_setup(impossible_headers, prepare),
		cmocka_unit_test_setup(a_symbolic_link, prepare),
		cmocka_unit_test_setup(a_folder_instead_of_a_file_is_refused, prepare),
		cmocka_unit_test_setup(a_file_others_may_read_is_refused, prepare),
		cmocka_unit_test_setup(a_file_of_another_user_is_refused, prepare),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
