/* Table files: how they are made, the options of weir_open(), and a file system without room. */
#include "table/file_test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* --- making --- */

static uint64_t (*ids)[2];

static int race_to_open(void *number)
{
	struct weir_opts opts = opts_of("race", 256 * KIB, 0);
	struct weir_info info = {.size = sizeof info};
	struct weir_table *table;
	struct weir_decision d;

	CHILD_CHECK(weir_open(&opts, &table, NULL) == 0);
	CHILD_CHECK(weir_take(table, &five, "k", 1, 1, T0, &d) == 0);
	CHILD_CHECK(weir_info(table, T0, &info) == 0);
	memcpy(ids[(intptr_t)number], info.table_id, sizeof ids[0]);
	weir_close(table);
	return d.admitted ? 10 : 11;
}

static void sixteen_processes_make_one_table(void **unused)
{
	(void)unused;
	ids = shared_memory(16 * sizeof ids[0]);
	for (int round = 0; round < 20; round++) {
		pid_t pids[16];
		int admitted = 0;

		for (intptr_t i = 0; i < 16; i++)
			pids[i] = spawn(race_to_open, (void *)i);
		for (int i = 0; i < 16; i++) {
			int code = reap(pids[i]);

			assert_true(code == 10 || code == 11);
			admitted += code == 10;
		}
		assert_int_equal(admitted, 5);
		for (int i = 1; i < 16; i++)
			assert_memory_equal(ids[i], ids[0], sizeof ids[0]);
		assert_int_equal(weir_remove("race", folder(), NULL), 0);
	}
	shared_free(ids, 16 * sizeof ids[0]);
}

/* The folder contains only the table's file: no temporary file is left. */
static void nothing_else_is_left_in_the_folder(void **unused)
{
	struct weir_table *table;

	(void)unused;
	assert_int_equal(mkdir(in_folder("clean"), 0700), 0);
	{
		struct weir_opts opts = opts_of("only", 256 * KIB, 0);

		opts.dir = in_folder("clean");
		assert_int_equal(weir_open(&opts, &table, NULL), 0);
		weir_close(table);
		assert_int_equal(weir_checkpoint(NULL, "x", T0, NULL), WEIR_EINVAL);
		assert_int_equal(weir_remove("only", in_folder("clean"), NULL), 0);
	}
	assert_int_equal(rmdir(in_folder("clean")), 0);
}

static void a_table_has_mode_0600_and_its_room_reserved(void **unused)
{
	struct weir_table *table = table_open("mode", MIB, 0);
	struct stat st;

	(void)unused;
	assert_int_equal(stat(file_of("mode"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_size, table->header.file_bytes);
	assert_true((uint64_t)st.st_blocks * 512 >= table->header.file_bytes);
	assert_string_equal(info_of(table, T0).path, file_of("mode"));
	table_drop(table);
}

static void state_outlives_its_processes(void **unused)
{
	(void)unused;
	ids = shared_memory(16 * sizeof ids[0]);
	for (int i = 0; i < 7; i++)
		assert_int_equal(in_child(race_to_open, NULL), i < 5 ? 10 : 11);
	assert_int_equal(weir_remove("race", folder(), NULL), 0);
	assert_int_equal(in_child(race_to_open, NULL), 10);
	assert_int_equal(weir_remove("race", folder(), NULL), 0);
	shared_free(ids, 16 * sizeof ids[0]);
}

static struct weir_table *inherited;

static int use_inherited(void *unused)
{
	struct weir_decision d;

	(void)unused;
	CHILD_CHECK(weir_take(inherited, &five, "k", 1, 2, T0, &d) == 0 && d.admitted);
	weir_close(inherited);
	return 0;
}

static void a_child_goes_on_with_the_handle_it_inherited(void **unused)
{
	(void)unused;
	inherited = table_open("fork", 256 * KIB, 0);
	take(inherited, &five, "k", 1, T0);
	assert_int_equal(in_child(use_inherited, NULL), 0);
	assert_int_equal(take(inherited, &five, "k", 0, T0).remaining, 2);
	table_drop(inherited);
}

/* --- options --- */

/* Many kernels stop reserving pages on a tmpfs when a signal arrives, for example when a worker of
 * nginx ends. weir_open() must then try again. This function replaces posix_fallocate() of the C
 * library and fails with EINTR a few times. */
static int interruptions;

int posix_fallocate(int fd, off_t offset, off_t len)
{
	if (interruptions > 0) {
		interruptions--;
		return EINTR;
	}
	return fallocate(fd, 0, offset, len) == 0 ? 0 : errno;
}

static void signals_while_room_is_reserved(void **unused)
{
	struct weir_table *table;

	(void)unused;
	interruptions = 3;
	table = table_open("disturbed", 256 * KIB, 0);
	assert_int_equal(interruptions, 0);
	table_drop(table);
}

static void names_are_checked(void **unused)
{
	char too_long[66], long_enough[65];
	const char *const bad[] = {"", ".hidden", "a/b", "../up", "a b", "ü", "a\n", too_long};
	const char *const good[] = {"a", "A-z_0.9", "-", long_enough};
	struct weir_error error;

	(void)unused;
	memset(too_long, 'n', sizeof too_long);
	memset(long_enough, 'n', sizeof long_enough);
	too_long[65] = long_enough[64] = 0;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		error = (struct weir_error){0};
		assert_int_equal(open_with(opts_of(bad[i], 256 * KIB, 0), &error), WEIR_ENAME);
		assert_non_null(strstr(error.text, "1 to 64 of A-Z a-z 0-9 . _ -"));
		assert_int_equal(weir_remove(bad[i], folder(), &error), WEIR_ENAME);
	}
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(open_with(opts_of(good[i], 256 * KIB, 0), NULL), 0);
}

static void sizes_are_checked(void **unused)
{
	static const struct {
		uint64_t memory, log;
		int code;
	} cases[] = {
		{256 * KIB - 1, 0, WEIR_EINVAL},
		{1, 0, WEIR_EINVAL},
		{(256ull << 30) + 1, 192ull << 30, WEIR_EINVAL},
		{256ull << 30, 192ull << 30, WEIR_EINVAL},
		{69ull << 30, 0, WEIR_EINVAL},
		{65ull << 30, 1, WEIR_EINVAL},
		{UINT64_MAX, 0, WEIR_EINVAL},
		{256 * KIB, 192 * KIB + 1, WEIR_EINVAL},
		{256 * KIB, UINT64_MAX, WEIR_EINVAL},
		{256 * KIB, 192 * KIB, 0},
		{256 * KIB, 1, 0},
		{256 * KIB + 1, 4097, 0},
		{1000003, 0, 0},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_error error = {0};

		assert_int_equal(open_with(opts_of("size", cases[i].memory, cases[i].log), &error),
				 cases[i].code);
		if (cases[i].code)
			assert_non_null(strstr(error.text, "memory_bytes"));
	}
}

static void the_memory_is_what_was_asked_for(void **unused)
{
	struct weir_table *table = table_open("memory", 4 * MIB, MIB);
	struct weir_info info = info_of(table, T0);

	(void)unused;
	assert_int_equal(info.layout, WR_LAYOUT);
	assert_int_equal(info.memory_bytes, 4 * MIB);
	assert_int_equal(info.cells * 32, 3 * MIB);
	assert_int_equal(info.log_bytes, MIB);
	assert_int_equal(info.log_bytes_used, 0);
	assert_int_equal(info.keys, 0);
	assert_int_equal(info.created_ns, T0);
	/* Statistics and other sections take up to three eighths of memory_bytes in addition. */
	assert_true(info.file_bytes > 4 * MIB && info.file_bytes <= 4 * MIB * 11 / 8 + 17 * 4096);
	table_drop(table);
}

/* The table is on a disk, because /dev/shm may be smaller than 64 MiB. */
static void a_table_has_64_mib_by_default(void **unused)
{
	struct weir_opts opts = opts_of("default", 0, 0);
	char dir[] = "/tmp/weir-test-XXXXXX";
	struct weir_error error = {0};
	struct weir_table *table;

	(void)unused;
	assert_non_null(mkdtemp(dir));
	opts.dir = dir;
	if (weir_open(&opts, &table, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(info_of(table, T0).memory_bytes, 64 * MIB);
	assert_int_equal(info_of(table, T0).log_bytes, 4 * MIB);
	table_drop(table);
	assert_int_equal(rmdir(dir), 0);
}

static uint64_t log_bytes_of(struct weir_opts opts)
{
	struct weir_table *table;
	uint64_t bytes;

	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	bytes = info_of(table, T0).log_bytes;
	weir_close(table);
	return bytes;
}

static void logs_get_a_quarter_if_they_are_used(void **unused)
{
	struct weir_opts opts = opts_of("share", 4 * MIB, 0);

	(void)unused;
	opts.flags = WEIR_OPEN_LOGS;
	assert_int_equal(log_bytes_of(opts), MIB);
	/* The size of an existing table does not change. */
	opts.flags = 0;
	assert_int_equal(log_bytes_of(opts), MIB);
	assert_int_equal(weir_remove("share", folder(), NULL), 0);
	assert_int_equal(log_bytes_of(opts), 256 * KIB);
	opts.flags = WEIR_OPEN_LOGS;
	assert_int_equal(log_bytes_of(opts), 256 * KIB);
	assert_int_equal(weir_remove("share", folder(), NULL), 0);
	/* An explicit number is used. */
	opts.log_bytes = 2 * MIB;
	assert_int_equal(log_bytes_of(opts), 2 * MIB);
	assert_int_equal(weir_remove("share", folder(), NULL), 0);
	opts.flags = 4;
	assert_int_equal(weir_open(&opts, &(struct weir_table *){NULL}, NULL), WEIR_EINVAL);
}

/* A resize keeps the share for logs, here half or a quarter, but never less than the default
 * share. */
static void a_resize_keeps_the_share_for_logs(void **unused)
{
	struct weir_opts opts = opts_of("share", 4 * MIB, 2 * MIB);

	(void)unused;
	assert_int_equal(log_bytes_of(opts), 2 * MIB);
	opts.log_bytes = 0;
	opts.memory_bytes = 8 * MIB;
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	assert_int_equal(log_bytes_of(opts), 4 * MIB);
	opts.log_bytes = 64 * KIB;
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	assert_int_equal(log_bytes_of(opts), 64 * KIB);
	opts.log_bytes = 0;
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	assert_int_equal(log_bytes_of(opts), 512 * KIB);
	opts.flags = WEIR_OPEN_LOGS;
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	assert_int_equal(log_bytes_of(opts), 2 * MIB);
	/* At most three quarters are for logs, even if rows and spans leave bytes unused. */
	opts.log_bytes = 6 * MIB;
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	opts.log_bytes = 0;
	opts.memory_bytes = 4 * MIB + 4096;
	assert_int_equal(weir_resize(&opts, T0, NULL), 0);
	assert_int_equal(log_bytes_of(opts), 3 * MIB);
	assert_int_equal(weir_remove("share", folder(), NULL), 0);
}

static void sections_do_not_overlap(void **unused)
{
	struct weir_table *table = table_open("sections", 3 * MIB + 12345, 77777);
	const struct wr_header *h = &table->header;

	(void)unused;
	for (int i = 0; i < WR_SECTIONS; i++)
		for (int k = 0; k < i; k++)
			assert_true(!h->sections[i].bytes || !h->sections[k].bytes ||
				    h->sections[i].offset >=
					    h->sections[k].offset + h->sections[k].bytes ||
				    h->sections[k].offset >=
					    h->sections[i].offset + h->sections[i].bytes);
	for (int i = 0; i <= WR_SECTION_OVERRIDES; i++)
		assert_true(h->sections[i].bytes > 0);
	table_drop(table);
}

static void open_existing_creates_nothing(void **unused)
{
	(void)unused;
	assert_refused("nowhere", WEIR_ENOENT, "there is no");
	assert_int_equal(access(file_of("nowhere"), F_OK), -1);
	weir_close(table_open("somewhere", 256 * KIB, 0));
	assert_int_equal(open_existing("somewhere", &(struct weir_error){0}), 0);
	assert_int_equal(weir_remove("somewhere", folder(), NULL), 0);
	assert_int_equal(weir_remove("somewhere", folder(), NULL), WEIR_ENOENT);
}

/* Processes that have the file open keep using it. */
static void a_removed_table_stays_usable(void **unused)
{
	struct weir_table *old = table_open("removed", 256 * KIB, 0), *new;

	(void)unused;
	take(old, &five, "k", 3, T0);
	assert_int_equal(weir_remove("removed", folder(), NULL), 0);
	new = table_open("removed", 256 * KIB, 0);
	assert_int_equal(take(new, &five, "k", 0, T0).remaining, 5);
	assert_int_equal(take(old, &five, "k", 0, T0).remaining, 2);
	weir_close(old);
	table_drop(new);
}

static void a_missing_folder_is_an_error(void **unused)
{
	struct weir_opts opts = opts_of("x", 256 * KIB, 0);
	struct weir_error error = {0};
	char longer[600];

	(void)unused;
	opts.dir = in_folder("missing");
	assert_int_equal(open_with(opts, &error), WEIR_ESYS);
	assert_non_null(strstr(error.text, "missing"));
	memset(longer, 'x', sizeof longer);
	longer[0] = '/';
	longer[sizeof longer - 1] = 0;
	opts.dir = longer;
	assert_int_equal(open_with(opts, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "longer than"));
}

/* --- no room --- */

/* Opens a table on a file system that is too small for it. If this process may not mount a file
 * system, limits the size of files instead. posix_fallocate() fails in both cases. */
static int open_without_room(void *unused)
{
	struct weir_opts opts = opts_of("room", 8 * MIB, 0);
	struct weir_error error = {0};
	struct weir_table *table = NULL;

	(void)unused;
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("weir", folder(), "tmpfs", 0, "size=1m") < 0) {
		struct rlimit small = {MIB, MIB};

		signal(SIGXFSZ, SIG_IGN);
		CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	}
	CHILD_CHECK(weir_open(&opts, &table, &error) == WEIR_ENOSPACE);
	CHILD_CHECK(strstr(error.text, "no room for") && strstr(error.text, folder()));
	/* No file is left, and a smaller table fits. */
	opts.memory_bytes = 256 * KIB;
	CHILD_CHECK(weir_open(&opts, &table, &error) == 0);
	/* A resize that does not fit leaves the table unchanged. */
	opts.memory_bytes = 8 * MIB;
	CHILD_CHECK(weir_resize(&opts, T0, &error) == WEIR_ENOSPACE);
	CHILD_CHECK(weir_moved(table) == 0);
	CHILD_CHECK(weir_remove("room", folder(), NULL) == 0);
	weir_close(table);
	return 0;
}

static void a_full_file_system_is_found_out_on_opening(void **unused)
{
	(void)unused;
	assert_int_equal(in_child(open_without_room, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(sixteen_processes_make_one_table, prepare),
		cmocka_unit_test(nothing_else_is_left_in_the_folder),
		cmocka_unit_test(a_table_has_mode_0600_and_its_room_reserved),
		cmocka_unit_test_setup(state_outlives_its_processes, prepare),
		cmocka_unit_test_setup(a_child_goes_on_with_the_handle_it_inherited, prepare),
		cmocka_unit_test(signals_while_room_is_reserved),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(sizes_are_checked),
		cmocka_unit_test(the_memory_is_what_was_asked_for),
		cmocka_unit_test(a_table_has_64_mib_by_default),
		cmocka_unit_test(logs_get_a_quarter_if_they_are_used),
		cmocka_unit_test(a_resize_keeps_the_share_for_logs),
		cmocka_unit_test(sections_do_not_overlap),
		cmocka_unit_test_setup(open_existing_creates_nothing, prepare),
		cmocka_unit_test_setup(a_removed_table_stays_usable, prepare),
		cmocka_unit_test(a_missing_folder_is_an_error),
		cmocka_unit_test(a_full_file_system_is_found_out_on_opening),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
