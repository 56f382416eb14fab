/* Tables on file systems with huge pages. Each test mounts a file system over the folder of the test,
 * in a child process with its own mounts. */
#include "needs.h"
#include "table/table_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#define PAGE (2 * MIB) /* a huge page */
#define POOL "/proc/sys/vm/nr_hugepages"

static int mount_folder(const char *type, const char *options)
{
	CHILD_CHECK(test_own_mounts() == 0);
	CHILD_CHECK(mount("none", folder(), type, 0, options) == 0);
	return 0;
}

static unsigned long read_pool(void)
{
	FILE *file = fopen(POOL, "re");
	char line[32] = "";

	if (file && !fgets(line, sizeof line, file))
		line[0] = 0;
	if (file)
		fclose(file);
	return strtoul(line, NULL, 10);
}

static int write_pool(unsigned long pages)
{
	FILE *file = fopen(POOL, "we");
	bool written = file && fprintf(file, "%lu", pages) > 0;

	return file && fclose(file) == 0 && written ? 0 : -1;
}

/* Makes a table of 4 MiB, resizes it to 8 MiB and opens it again. The counts stay. `pages` is the
 * least number of huge pages of the first table. */
static int use_table(uint64_t pages)
{
	struct weir_opts opts = opts_of("huge", 4 * MIB, 256 * KIB);
	struct weir_limit limit = sized(WEIR_TOKEN_BUCKET, 5, DAY);
	struct weir_error error = {0};
	struct weir_decision d;
	struct weir_table *table;

	CHILD_CHECK(weir_open(&opts, &table, &error) == 0);
	CHILD_CHECK(weir_take(table, &limit, "k", 1, 3, T0, &d) == 0);
	CHILD_CHECK(d.remaining == 2);
	CHILD_CHECK(info_of(table, T0).huge_bytes >= pages * PAGE);
	CHILD_CHECK(info_of(table, T0).file_bytes >= info_of(table, T0).huge_bytes);
	weir_close(table);
	opts.memory_bytes = 8 * MIB;
	opts.log_bytes = 0;
	CHILD_CHECK(weir_resize(&opts, T0, &error) == 0);
	CHILD_CHECK(weir_open(&opts, &table, &error) == 0);
	CHILD_CHECK(weir_take(table, &limit, "k", 1, 1, T0, &d) == 0);
	CHILD_CHECK(d.remaining == 1);
	CHILD_CHECK(info_of(table, T0).huge_bytes >= 2 * pages * PAGE);
	weir_close(table);
	CHILD_CHECK(weir_remove("huge", folder(), &error) == 0);
	return 0;
}

static int use_tmpfs(void *unused)
{
	(void)unused;
	return mount_folder("tmpfs", "huge=advise,size=64m") || use_table(1);
}

/* A file on hugetlbfs has a whole number of huge pages. */
static int use_hugetlbfs(void *unused)
{
	struct weir_table *table;

	(void)unused;
	if (mount_folder("hugetlbfs", "pagesize=2M,size=24M") || use_table(2))
		return 1;
	table = table_open("huge", 4 * MIB, 256 * KIB);
	CHILD_CHECK(info_of(table, T0).file_bytes % PAGE == 0);
	weir_close(table);
	return 0;
}

/* The file system has a single page. */
static int fill_hugetlbfs(void *unused)
{
	struct weir_opts opts = opts_of("huge", 4 * MIB, 256 * KIB);
	struct weir_error error = {0};
	struct weir_table *table;

	(void)unused;
	if (mount_folder("hugetlbfs", "pagesize=2M,size=2M"))
		return 1;
	CHILD_CHECK(weir_open(&opts, &table, &error) == WEIR_ENOSPACE);
	CHILD_CHECK(strncmp(error.text, "no room for ", 12) == 0);
	return 0;
}

static void test_tmpfs_with_huge_pages(void **unused)
{
	(void)unused;
	needs("hugepages");
	assert_int_equal(in_child(use_tmpfs, NULL), 0);
}

static unsigned long pool_before;

static int fill_pool(void **unused)
{
	(void)unused;
	pool_before = read_pool();
	if (!test_lacks("hugepages"))
		write_pool(pool_before + 12);
	return 0;
}

static int restore_pool(void **unused)
{
	(void)unused;
	if (!test_lacks("hugepages"))
		write_pool(pool_before);
	return 0;
}

static void test_hugetlbfs(void **unused)
{
	(void)unused;
	needs("hugepages");
	assert_int_equal(in_child(use_hugetlbfs, NULL), 0);
}

static void test_hugetlbfs_without_room(void **unused)
{
	(void)unused;
	needs("hugepages");
	assert_int_equal(in_child(fill_hugetlbfs, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tmpfs_with_huge_pages),
		cmocka_unit_test_setup_teardown(test_hugetlbfs, fill_pool, restore_pool),
		cmocka_unit_test_setup_teardown(test_hugetlbfs_without_room, fill_pool,
						restore_pool),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
