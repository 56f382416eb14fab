/* State that is copied from one table file to another: checkpoints, restores and resizes. */
#include "table/table_test.h"

#include <sched.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOW (T0 + 20 * SECOND)

/* Number of keys. They have all algorithms in turn. 5 + number % 20 units are taken from each. */
#define KEYS 60

#define ALGORITHMS 6
static struct weir_limit limits[ALGORITHMS];

static int prepare(void **unused)
{
	(void)unused;
	for (uint32_t i = 0; i < ALGORITHMS; i++)
		limits[i] = sized(i + 1, 30, MINUTE);
	return 0;
}

static void fill(struct weir_table *table)
{
	for (uint64_t key = 0; key < KEYS; key++)
		for (uint64_t i = 0; i < 5 + key % 20; i++)
			assert_int_equal(
				take_nth(table, &limits[key % ALGORITHMS], key, 1, T0 + i * SECOND)
					.admitted,
				1);
}

/* Checks that both tables decide in the same way, now and at each time when a token, a window or a
 * stamp expires. */
static void assert_same(struct weir_table *a, struct weir_table *b)
{
	for (uint64_t key = 0; key < KEYS; key++)
		for (uint64_t s = 0; s < 130; s++) {
			uint64_t now_ns = NOW + s * SECOND / 2;
			const struct weir_limit *limit = &limits[key % ALGORITHMS];
			struct weir_decision x = take_nth(a, limit, key, 0, now_ns);
			struct weir_decision y = take_nth(b, limit, key, 0, now_ns);

			if (x.remaining != y.remaining || x.reset_after_ns != y.reset_after_ns)
				fail_msg("key %d: %u left before, %u after", (int)key, x.remaining,
					 y.remaining);
		}
}

static int restore(const char *name, const char *from, uint64_t memory_bytes, uint64_t now_ns,
		   struct weir_table **table, struct weir_error *error)
{
	struct weir_opts opts = opts_of(name, memory_bytes, 0);

	opts.restore_from = from;
	opts.now_ns = now_ns;
	return weir_open(&opts, table, error);
}

static void a_checkpoint_brings_everything_back(void **unused)
{
	struct weir_table *table = table_open("before", MIB, 0), *after;
	struct stat st;

	(void)unused;
	fill(table);
	take_nth(table, &limits[2], 1000, 30, NOW);
	take_nth(table, &limits[2], 1000, 1, NOW);
	assert_int_equal(weir_checkpoint(table, in_folder("saved"), NOW, NULL), 0);
	assert_int_equal(stat(in_folder("saved"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(restore("after", in_folder("saved"), 2 * MIB, NOW, &after, NULL), 0);
	assert_int_equal(info_of(after, NOW).keys, info_of(table, NOW).keys);
	assert_int_equal(info_of(after, NOW).keys_refused, 1);
	assert_int_equal(info_of(after, NOW).evicted, 0);
	assert_int_equal(info_of(after, NOW).log_evicted, 0);
	assert_same(table, after);
	assert_int_equal(take_nth(after, &limits[2], 1000, 1, NOW).admitted, 0);
	/* The restored table has another id. */
	assert_memory_not_equal(info_of(after, NOW).table_id, info_of(table, NOW).table_id, 16);
	table_drop(table);
	table_drop(after);
	assert_int_equal(unlink(in_folder("saved")), 0);
}

static void expired_keys_are_not_copied(void **unused)
{
	struct weir_table *table = table_open("before", MIB, 0), *after;
	struct weir_limit hour = sized(WEIR_FIXED_WINDOW, 30, HOUR);

	(void)unused;
	fill(table);
	take(table, &hour, "long", 7, NOW);
	assert_int_equal(weir_checkpoint(table, in_folder("saved"), NOW, NULL), 0);
	table_drop(table);
	assert_int_equal(restore("after", in_folder("saved"), MIB, NOW + 3 * MINUTE, &after, NULL),
			 0);
	assert_int_equal(info_of(after, NOW).keys, 1);
	assert_int_equal(take(after, &hour, "long", 0, NOW + 3 * MINUTE).remaining, 23);
	table_drop(after);
	assert_int_equal(unlink(in_folder("saved")), 0);
}

static void a_table_that_exists_is_not_restored(void **unused)
{
	struct weir_table *table = table_open("before", MIB, 0), *after;

	(void)unused;
	take(table, &limits[2], "k", 7, NOW);
	assert_int_equal(weir_checkpoint(table, in_folder("saved"), NOW, NULL), 0);
	take(table, &limits[2], "k", 7, NOW);
	assert_int_equal(restore("before", in_folder("saved"), MIB, NOW, &after, NULL), 0);
	assert_int_equal(take(after, &limits[2], "k", 0, NOW).remaining, 16);
	weir_close(after);
	table_drop(table);
	assert_int_equal(unlink(in_folder("saved")), 0);
}

static void a_checkpoint_that_is_not_there_is_no_error(void **unused)
{
	struct weir_table *table;

	(void)unused;
	assert_int_equal(restore("fresh", in_folder("never"), MIB, NOW, &table, NULL), 0);
	assert_int_equal(info_of(table, NOW).keys, 0);
	table_drop(table);
}

static void a_damaged_checkpoint_is_an_error(void **unused)
{
	struct weir_table *table = table_open("before", MIB, 0);
	struct weir_error error = {0};
	struct stat st;
	int fd;

	(void)unused;
	fill(table);
	assert_int_equal(weir_checkpoint(table, in_folder("saved"), NOW, NULL), 0);
	table_drop(table);
	assert_int_equal(stat(in_folder("saved"), &st), 0);
	assert_int_equal(truncate(in_folder("saved"), st.st_size - 1), 0);
	assert_int_equal(restore("after", in_folder("saved"), MIB, NOW, &table, &error),
			 WEIR_EFORMAT);
	assert_non_null(strstr(error.text, "saved"));
	fd = open(in_folder("saved"), O_RDWR);
	assert_int_equal(pwrite(fd, "?", 1, 200), 1);
	close(fd);
	assert_int_equal(restore("after", in_folder("saved"), MIB, NOW, &table, &error),
			 WEIR_EFORMAT);
	assert_int_equal(chmod(in_folder("saved"), 0644), 0);
	assert_int_equal(restore("after", in_folder("saved"), MIB, NOW, &table, &error),
			 WEIR_EACCESS);
	/* No table was made. */
	assert_int_equal(weir_remove("after", folder(), NULL), WEIR_ENOENT);
	assert_int_equal(unlink(in_folder("saved")), 0);
}

static void bad_paths_for_a_checkpoint(void **unused)
{
	struct weir_table *table = table_open("before", MIB, 0);
	struct weir_error error = {0};
	char longer[600];

	(void)unused;
	assert_int_equal(weir_checkpoint(table, "", NOW, &error), WEIR_EINVAL);
	assert_int_equal(weir_checkpoint(table, NULL, NOW, &error), WEIR_EINVAL);
	assert_int_equal(weir_checkpoint(NULL, "x", NOW, &error), WEIR_EINVAL);
	assert_int_equal(weir_checkpoint(table, in_folder("no/where"), NOW, &error), WEIR_ESYS);
	assert_non_null(strstr(error.text, "no"));
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	assert_int_equal(weir_checkpoint(table, longer, NOW, &error), WEIR_EINVAL);
	assert_int_equal(mkdir(in_folder("dir"), 0700), 0);
	assert_int_equal(weir_checkpoint(table, in_folder("dir"), NOW, &error), WEIR_ESYS);
	assert_int_equal(rmdir(in_folder("dir")), 0);
	table_drop(table);
}

static struct weir_table *saving;
static int *saves_begun; /* in memory that the child shares */

static int save_for_ever(void *unused)
{
	(void)unused;
	for (;;) {
		__atomic_fetch_add(saves_begun, 1, __ATOMIC_RELAXED);
		CHILD_CHECK(weir_checkpoint(saving, in_folder("saved"), NOW, NULL) == 0);
	}
}

/* If the writer is killed at any moment, the previous checkpoint is complete. */
static void a_killed_checkpoint_leaves_the_previous_one(void **unused)
{
	struct rnd r = {rnd_seed()};
	struct weir_table *after;

	(void)unused;
	saving = table_open("before", 512 * KIB, 0);
	saves_begun = shared_memory(sizeof *saves_begun);
	fill(saving);
	assert_int_equal(weir_checkpoint(saving, in_folder("saved"), NOW, NULL), 0);
	for (int i = 0; i < 60; i++) {
		pid_t pid;

		*saves_begun = 0;
		pid = spawn(save_for_ever, NULL);
		while (__atomic_load_n(saves_begun, __ATOMIC_RELAXED) == 0)
			sched_yield();
		nanosleep(&(struct timespec){0, (long)rnd_below(&r, 4000000)}, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(reap(pid), 256 + SIGKILL);
		assert_int_equal(restore("after", in_folder("saved"), 512 * KIB, NOW, &after, NULL),
				 0);
		assert_int_equal(info_of(after, NOW).keys, info_of(saving, NOW).keys);
		table_drop(after);
	}
	table_drop(saving);
	shared_free(saves_begun, sizeof *saves_begun);
	assert_int_equal(unlink(in_folder("saved")), 0);
}

static int resize(const char *name, uint64_t memory_bytes, uint64_t log_bytes)
{
	struct weir_opts opts = opts_of(name, memory_bytes, log_bytes);

	return weir_resize(&opts, NOW, NULL);
}

static void another_size_keeps_the_counts(void **unused)
{
	struct weir_table *first = table_open("size", MIB, 0), *larger, *smaller;

	(void)unused;
	fill(first);
	assert_int_equal(weir_moved(first), 0);
	assert_int_equal(resize("size", 8 * MIB, 0), 0);
	assert_int_equal(weir_moved(first), WEIR_EMOVED);
	assert_int_equal(info_of(first, NOW).superseded, 1);
	larger = table_open("size", 0, 0);
	assert_int_equal(info_of(larger, NOW).memory_bytes, 8 * MIB);
	assert_int_equal(info_of(larger, NOW).superseded, 0);
	assert_same(first, larger);
	assert_int_equal(resize("size", 256 * KIB, 64 * KIB), 0);
	smaller = table_open("size", 0, 0);
	assert_int_equal(weir_moved(larger), WEIR_EMOVED);
	assert_int_equal(weir_moved(smaller), 0);
	assert_int_equal(info_of(smaller, NOW).memory_bytes, 256 * KIB);
	assert_same(first, smaller);
	/* Old handles continue to work. */
	assert_int_equal(take_nth(first, &limits[0], 0, 1, NOW).admitted, 1);
	weir_close(first);
	weir_close(larger);
	table_drop(smaller);
}

/* More keys than fit into the new table: refused keys are kept, and the lost keys are counted. */
static void a_size_too_small_is_counted(void **unused)
{
	struct weir_limit hour = sized(WEIR_FIXED_WINDOW, 2, HOUR);
	struct weir_table *table = table_open("shrink", 2 * MIB, 0);
	struct weir_info before, info;

	(void)unused;
	for (uint64_t i = 0; i < 20000; i++) {
		take_nth(table, &hour, i, 2, NOW);
		if (i % 100 == 0)
			assert_int_equal(take_nth(table, &hour, i, 1, NOW).admitted, 0);
	}
	before = info_of(table, NOW);
	assert_int_equal(before.keys, 20000);
	assert_int_equal(resize("shrink", 256 * KIB, 0), 0);
	weir_close(table);
	table = table_open("shrink", 0, 0);
	info = info_of(table, NOW);
	assert_int_equal(info.keys, 7680);
	assert_int_equal(info.keys_refused, 200);
	assert_int_equal(info.evicted, 20000 - 7680);
	assert_int_equal(info.evicted_refused, 0);
	table_drop(table);
}

static void logs_too_many_for_the_slab_are_counted(void **unused)
{
	struct weir_limit log = sized(WEIR_SLIDING_LOG, 60, HOUR);
	struct weir_table *table = table_open("logs", 2 * MIB, MIB);

	(void)unused;
	for (uint64_t i = 0; i < 100; i++)
		for (uint64_t k = 0; k < 60; k++)
			take_nth(table, &log, i, 1, NOW + k);
	assert_int_equal(info_of(table, NOW).log_bytes_used, 100 * 512);
	assert_int_equal(resize("logs", 256 * KIB, 16 * KIB), 0);
	weir_close(table);
	table = table_open("logs", 0, 0);
	assert_int_equal(info_of(table, NOW).log_bytes_used, 16 * KIB);
	assert_int_equal(info_of(table, NOW).log_evicted, 100 - 32);
	/* The logs have become brief, so no key is admitted more than before. */
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(take_nth(table, &log, i, 0, NOW + SECOND).remaining, 0);
	table_drop(table);
}

/* Changes a table into a file of layout 1, in which the words of spans are 32 bits of class + 1. */
static void make_layout_1(struct weir_table *table)
{
	struct wr_header *header = (struct wr_header *)table->base;
	uint32_t *words = (uint32_t *)table->spans;

	for (uint32_t i = 0; i < table->span_count; i++)
		words[i] = table->spans[i].lo & 0xff;
	header->layout = 1;
	header->checksum = XXH3_64bits(header, offsetof(struct wr_header, checksum));
}

/* The keys of the old file are in the new table, and the old file is removed. */
static void a_table_of_the_previous_layout_is_imported(void **unused)
{
	struct weir_table *old = table_open("older", MIB, 0), *twin = table_open("twin", MIB, 0);
	struct weir_table *table;
	char before[512];

	(void)unused;
	fill(old);
	fill(twin);
	make_layout_1(old);
	memcpy(before, old->path, sizeof before);
	before[strlen(before) - 1] = '1';
	assert_int_equal(rename(old->path, before), 0);
	weir_close(old);
	table = table_open("older", MIB, 0);
	assert_int_equal(info_of(table, NOW).layout, WR_LAYOUT);
	assert_int_equal(info_of(table, NOW).log_evicted, 0);
	assert_same(table, twin);
	assert_int_equal(access(before, F_OK), -1);
	table_drop(table);
	table_drop(twin);
}

static void tables_that_cannot_be_resized(void **unused)
{
	struct weir_table *table;
	struct weir_opts opts = opts_of("none", MIB, 0);
	struct weir_error error = {0};

	(void)unused;
	assert_int_equal(weir_resize(&opts, NOW, &error), WEIR_ENOENT);
	opts.size = 4;
	assert_int_equal(weir_resize(&opts, NOW, &error), WEIR_EINVAL);
	assert_int_equal(weir_resize(NULL, NOW, &error), WEIR_EINVAL);
	table = table_open("tiny", MIB, 0);
	assert_int_equal(resize("tiny", 1000, 0), WEIR_EINVAL);
	assert_int_equal(weir_moved(table), 0);
	table_drop(table);
}

/* No temporary files are left. This test runs before the test that kills processes, because a
 * killed process may leave a temporary file. */
static void nothing_is_left_behind(void **unused)
{
	DIR *dir = opendir(folder());
	struct dirent *entry;
	int files = 0;

	(void)unused;
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			print_error("left: %s\n", entry->d_name);
			files++;
		}
	closedir(dir);
	assert_int_equal(files, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_checkpoint_brings_everything_back, prepare),
		cmocka_unit_test_setup(expired_keys_are_not_copied, prepare),
		cmocka_unit_test_setup(a_table_that_exists_is_not_restored, prepare),
		cmocka_unit_test_setup(a_checkpoint_that_is_not_there_is_no_error, prepare),
		cmocka_unit_test_setup(a_damaged_checkpoint_is_an_error, prepare),
		cmocka_unit_test_setup(another_size_keeps_the_counts, prepare),
		cmocka_unit_test(a_size_too_small_is_counted),
		cmocka_unit_test(logs_too_many_for_the_slab_are_counted),
		cmocka_unit_test(a_table_of_the_previous_layout_is_imported),
		cmocka_unit_test(tables_that_cannot_be_resized),
		cmocka_unit_test(nothing_is_left_behind),
		cmocka_unit_test(bad_paths_for_a_checkpoint),
		cmocka_unit_test_setup(a_killed_checkpoint_leaves_the_previous_one, prepare),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
