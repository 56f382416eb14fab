/* Table files: created once in any race, opened only if complete, of the right owner and of this
 * layout; everything else is an error with a text, never a crash. */
#include "needs.h"
#include "table/table_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table/file.h"

static struct weir_limit five;

static int prepare(void **unused)
{
	(void)unused;
	five = sized(WEIR_FIXED_WINDOW, 5, MINUTE);
	return 0;
}

static int open_existing(const char *name, struct weir_error *error)
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

/* The code, and a text that gives the reason and names the file. */
static void assert_refused(const char *name, int code, const char *part)
{
	struct weir_error error;

	assert_int_equal(open_existing(name, &error), code);
	assert_int_equal(error.code, code);
	if (!strstr(error.text, part) || !strstr(error.text, folder()))
		fail_msg("\"%s\" does not say \"%s\" and name the file", error.text, part);
}

static const char *file_of(const char *name)
{
	char file[100];

	snprintf(file, sizeof file, "%s.v%d", name, WR_LAYOUT);
	return in_folder(file);
}

static void write_at(const char *path, off_t at, const void *bytes, size_t len)
{
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
	close(fd);
}

static void make_file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

static struct wr_header header_of(const char *path)
{
	struct wr_header header;
	int fd = open(path, O_RDONLY);

	assert_int_equal(read(fd, &header, sizeof header), (ssize_t)sizeof header);
	close(fd);
	return header;
}

static void put_header(const char *path, struct wr_header header, bool sum)
{
	if (sum)
		header.checksum = XXH3_64bits(&header, offsetof(struct wr_header, checksum));
	write_at(path, 0, &header, sizeof header);
}

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

/* Only the file itself: no temporary one is left. */
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

static int open_with(struct weir_opts opts, struct weir_error *error)
{
	struct weir_table *table;
	int rc = weir_open(&opts, &table, error);

	if (rc == 0) {
		weir_close(table);
		assert_int_equal(weir_remove(opts.name, opts.dir, NULL), 0);
	}
	return rc;
}

/* Many kernels stop reserving pages on a tmpfs when a signal arrives, and nginx gets signals while
 * its workers end. That is not a lack of room. This replaces the function of the C library. */
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
	/* Statistics and other sections take up to a third more. */
	assert_true(info.file_bytes > 4 * MIB && info.file_bytes <= 4 * MIB * 4 / 3 + 16 * 4096);
	table_drop(table);
}

/* On a disk: /dev/shm may be smaller than that. */
static void a_table_has_64_mib_by_default(void **unused)
{
	struct weir_opts opts = opts_of("default", 0, 0);
	char place[] = "/tmp/weir-test-XXXXXX";
	struct weir_error error = {0};
	struct weir_table *table;

	(void)unused;
	assert_non_null(mkdtemp(place));
	opts.dir = place;
	if (weir_open(&opts, &table, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(info_of(table, T0).memory_bytes, 64 * MIB);
	assert_int_equal(info_of(table, T0).log_bytes, 4 * MIB);
	table_drop(table);
	assert_int_equal(rmdir(place), 0);
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
	/* An existing table stays as it is. */
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

/* Another size keeps the share: half, a quarter, and never less than the default. */
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
	/* Three quarters are the most, whatever rows and spans leave over. */
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
	assert_refused("layout", WEIR_ELAYOUT, "has layout 3, this weir writes 2");
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

/* --- no room --- */

/* A file system with less room than the table wants, or a limit on file sizes where this process
 * may not mount one: posix_fallocate fails either way. */
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
	/* A checkpoint that does not fit does no harm either. */
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
		cmocka_unit_test(a_full_file_system_is_found_out_on_opening),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
