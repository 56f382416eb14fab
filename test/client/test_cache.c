/* The cache on disk: finding, storing, removing the oldest, damaged files, other processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/cache.h"

#define FIELDS ((struct weir_str){"ETag\0\"1\"\0", 9})
#define NOW 1700000000ull
#define SECOND_NS 1000000000ull

struct rig {
	char dir[64];
	struct wr_fetch_cache *cache;
};

static int setup(void **state)
{
	struct rig *rig = calloc(1, sizeof *rig);

	strcpy(rig->dir, "/tmp/weir-cache-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	assert_int_equal(wr_fetch_cache_open(rig->dir, WR_FETCH_CACHE_MIN, &rig->cache, NULL), 0);
	*state = rig;
	return 0;
}

static int remove_file(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	(void)type;
	(void)walk;
	return remove(path);
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	wr_fetch_cache_close(rig->cache);
	assert_int_equal(nftw(rig->dir, remove_file, 10, FTW_DEPTH | FTW_PHYS), 0);
	free(rig);
	return 0;
}

static struct wr_fetch_key key_of(const char *url, const char *user)
{
	struct wr_fetch_key key;

	wr_fetch_key_make(wr_str(url), wr_str(user), &key);
	return key;
}

/* Stores a response of `len` equal bytes. Returns whether it is stored. */
static bool put(struct wr_fetch_cache *cache, const char *url, char byte, size_t len)
{
	struct wr_fetch_stored stored = {NOW, NOW + 1, FIELDS};
	struct wr_fetch_key key = key_of(url, "");
	struct wr_fetch_writer *writer = wr_fetch_cache_begin(cache, &key, 200, &stored);
	char *bytes = malloc(len + 1);
	bool added;

	assert_non_null(writer);
	memset(bytes, byte, len);
	added = wr_fetch_writer_add(writer, bytes, len / 2) &&
		wr_fetch_writer_add(writer, bytes, len - len / 2);
	free(bytes);
	if (added)
		return wr_fetch_writer_commit(writer);
	wr_fetch_writer_drop(writer);
	return false;
}

/* Returns the length of the stored body, or -1 if there is none. Checks each byte. */
static long get(struct wr_fetch_cache *cache, const char *url, char byte)
{
	struct wr_fetch_key key = key_of(url, "");
	struct wr_fetch_entry entry;
	char bytes[1000];
	uint64_t done = 0;
	size_t got;

	if (!wr_fetch_cache_find(cache, &key, &entry))
		return -1;
	while ((got = wr_fetch_entry_read(&entry, done, bytes, sizeof bytes)) > 0) {
		for (size_t i = 0; i < got; i++)
			assert_int_equal(bytes[i], byte);
		done += got;
	}
	assert_int_equal(done, entry.body_len);
	wr_fetch_entry_close(&entry);
	return (long)done;
}

static void path_of(const struct rig *rig, const char *url, char path[256])
{
	struct wr_fetch_key key = key_of(url, "");

	snprintf(path, 256, "%s/%s", rig->dir, key.name);
}

static void set_used(const struct rig *rig, const char *url, uint64_t used_s)
{
	struct wr_fetch_key key = key_of(url, "");
	struct wr_fetch_entry entry;

	assert_true(wr_fetch_cache_find(rig->cache, &key, &entry));
	wr_fetch_entry_touch(&entry, used_s * SECOND_NS);
	wr_fetch_entry_close(&entry);
}

static void a_response_is_found_again(void **state)
{
	struct rig *rig = *state;
	struct wr_fetch_key key = key_of("http://a/1", "");
	struct wr_fetch_entry entry;
	struct stat info;
	char path[256];

	assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
	assert_true(put(rig->cache, "http://a/1", 'x', 5000));
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), 5000);
	assert_true(wr_fetch_cache_find(rig->cache, &key, &entry));
	assert_int_equal(entry.status, 200);
	assert_int_equal(entry.stored.requested_s, NOW);
	assert_int_equal(entry.stored.received_s, NOW + 1);
	assert_int_equal(entry.stored.fields.len, 9);
	assert_memory_equal(entry.stored.fields.ptr, FIELDS.ptr, 9);
	wr_fetch_entry_close(&entry);
	path_of(rig, "http://a/1", path);
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	assert_true(put(rig->cache, "http://a/1", 'y', 0));
	assert_int_equal(get(rig->cache, "http://a/1", 'y'), 0);
}

static void other_users_and_urls_have_other_keys(void **state)
{
	struct rig *rig = *state;
	struct wr_fetch_key one = key_of("http://a/1", "one"), two = key_of("http://a/1", "two");
	struct wr_fetch_entry entry;

	assert_true(put(rig->cache, "http://a/1", 'x', 10));
	assert_string_not_equal(one.name, two.name);
	assert_memory_equal(one.name, two.name, 36);
	assert_false(wr_fetch_cache_find(rig->cache, &one, &entry));
	assert_int_equal(get(rig->cache, "http://a/2", 'x'), -1);
}

static void forgetting_a_url_removes_all_its_responses(void **state)
{
	struct rig *rig = *state;
	struct wr_fetch_stored stored = {NOW, NOW, FIELDS};
	struct wr_fetch_key key = key_of("http://a/1", "user");
	struct wr_fetch_entry entry;

	assert_true(put(rig->cache, "http://a/1", 'x', 10));
	assert_true(put(rig->cache, "http://a/2", 'x', 10));
	assert_true(wr_fetch_writer_commit(wr_fetch_cache_begin(rig->cache, &key, 200, &stored)));
	wr_fetch_cache_forget(rig->cache, WR_STR("http://a/1"));
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
	assert_false(wr_fetch_cache_find(rig->cache, &key, &entry));
	assert_int_equal(get(rig->cache, "http://a/2", 'x'), 10);
}

static void an_update_keeps_the_body(void **state)
{
	struct rig *rig = *state;
	struct wr_fetch_key key = key_of("http://a/1", "");
	struct wr_fetch_stored stored = {NOW + 5,
					 NOW + 6,
					 {"Age\0"
					  "3\0",
					  6}};
	struct wr_fetch_entry entry;

	assert_true(put(rig->cache, "http://a/1", 'x', 100000));
	assert_true(wr_fetch_cache_find(rig->cache, &key, &entry));
	assert_true(wr_fetch_cache_update(rig->cache, &key, &entry, &stored));
	wr_fetch_entry_close(&entry);
	assert_true(wr_fetch_cache_find(rig->cache, &key, &entry));
	assert_int_equal(entry.stored.received_s, NOW + 6);
	assert_int_equal(entry.stored.fields.len, 6);
	wr_fetch_entry_close(&entry);
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), 100000);
}

/* Changes each byte of the file in turn, and shortens the file. */
static void a_damaged_file_counts_as_missing(void **state)
{
	struct rig *rig = *state;
	char path[256], bytes[400];
	ssize_t len;
	int fd;

	path_of(rig, "http://a/1", path);
	assert_true(put(rig->cache, "http://a/1", 'x', 50));
	fd = open(path, O_RDONLY);
	len = read(fd, bytes, sizeof bytes);
	close(fd);
	assert_int_equal(len, 80 + 10 + 9 + 50);
	for (ssize_t i = 0; i <= 2 * len; i++) {
		ssize_t kept = i < len ? len : i - len;

		if (i < len)
			bytes[i] ^= 4;
		if (i == 2 * len)
			break;
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		assert_int_equal(write(fd, bytes, (size_t)kept), kept);
		close(fd);
		assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
		assert_int_equal(access(path, F_OK), -1);
		if (i < len)
			bytes[i] ^= 4;
	}
	assert_true(put(rig->cache, "http://a/1", 'y', 50));
	assert_int_equal(get(rig->cache, "http://a/1", 'y'), 50);
}

static void only_regular_files_are_read(void **state)
{
	struct rig *rig = *state;
	char path[256], moved[300];

	path_of(rig, "http://a/1", path);
	snprintf(moved, sizeof moved, "%s.moved", path);
	assert_true(put(rig->cache, "http://a/1", 'x', 50));
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(symlink(moved, path), 0);
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
}

/* Adds the length of a stored response. Files in other folders do not count. */
static uint64_t counted_bytes;

static int count_file(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)path;
	if (type == FTW_F && walk->level == 2)
		counted_bytes += (uint64_t)info->st_size;
	return 0;
}

static uint64_t bytes_of(const struct rig *rig)
{
	counted_bytes = 0;
	assert_int_equal(nftw(rig->dir, count_file, 10, FTW_PHYS), 0);
	return counted_bytes;
}

/* Returns the number of temporary files. */
static unsigned writers_of(const struct rig *rig)
{
	const struct dirent *entry;
	unsigned count = 0;
	char path[96];
	DIR *folder;

	snprintf(path, sizeof path, "%s/tmp", rig->dir);
	folder = opendir(path);
	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static void the_oldest_are_removed(void **state)
{
	struct rig *rig = *state;
	char url[32];

	for (int i = 0; i < 40; i++) {
		snprintf(url, sizeof url, "http://a/%d", i);
		assert_true(put(rig->cache, url, 'x', 40000));
		set_used(rig, url, NOW + (uint64_t)i);
		if (i == 10) /* used again later */
			set_used(rig, "http://a/0", NOW + 1000);
	}
	wr_fetch_cache_trim(rig->cache);
	assert_true(bytes_of(rig) <= WR_FETCH_CACHE_MIN);
	assert_int_equal(get(rig->cache, "http://a/0", 'x'), 40000);
	assert_int_equal(get(rig->cache, "http://a/39", 'x'), 40000);
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
}

static void a_response_takes_at_most_an_eighth(void **state)
{
	struct rig *rig = *state;

	assert_true(put(rig->cache, "http://a/1", 'x', WR_FETCH_CACHE_MIN / 8));
	assert_false(put(rig->cache, "http://a/2", 'x', WR_FETCH_CACHE_MIN / 8 + 1));
	assert_int_equal(get(rig->cache, "http://a/2", 'x'), -1);
}

static void files_of_others_stay(void **state)
{
	struct rig *rig = *state;
	char path[128];

	snprintf(path, sizeof path, "%s/00", rig->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s/00/notes.txt", rig->dir);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof path, "http://a/%d", i);
		assert_true(put(rig->cache, path, 'x', 40000));
	}
	snprintf(path, sizeof path, "%s/00/notes.txt", rig->dir);
	assert_int_equal(access(path, F_OK), 0);
}

/* A child is killed while it stores. Its temporary file is removed by the next trim, and that of a
 * living writer stays. */
static void files_of_killed_writers_are_removed(void **state)
{
	struct rig *rig = *state;
	struct wr_fetch_stored stored = {NOW, NOW, FIELDS};
	struct wr_fetch_key key = key_of("http://a/1", ""), mine = key_of("http://a/2", "");
	struct wr_fetch_writer *writer;
	char byte;
	int status, pipes[2];
	pid_t child;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		writer = wr_fetch_cache_begin(rig->cache, &key, 200, &stored);
		wr_fetch_writer_add(writer, "bytes", 5);
		if (write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	writer = wr_fetch_cache_begin(rig->cache, &mine, 200, &stored);
	assert_true(wr_fetch_writer_add(writer, "bytes", 5));
	assert_int_equal(writers_of(rig), 2);
	wr_fetch_cache_trim(rig->cache);
	assert_int_equal(writers_of(rig), 1);
	assert_true(wr_fetch_writer_commit(writer));
	assert_int_equal(get(rig->cache, "http://a/1", 'x'), -1);
	close(pipes[0]);
	close(pipes[1]);
}

/* Two processes write and read the same keys. A response is found whole or not at all. */
static void processes_share_a_folder(void **state)
{
	struct rig *rig = *state;
	char url[32];
	int status;
	pid_t child = fork();

	for (int i = 0; i < 400; i++) {
		snprintf(url, sizeof url, "http://a/%d", i % 7);
		put(rig->cache, url, (char)('a' + i % 7), 3000 + (size_t)i);
		get(rig->cache, url, (char)('a' + i % 7));
	}
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_true(get(rig->cache, "http://a/3", 'd') >= 3000);
}

static void a_folder_of_others_is_refused(void **state)
{
	struct rig *rig = *state;
	struct wr_fetch_cache *cache;
	struct weir_error error;
	char path[128];

	assert_int_equal(chmod(rig->dir, 0770), 0);
	assert_int_equal(wr_fetch_cache_open(rig->dir, WR_FETCH_CACHE_MIN, &cache, &error),
			 WEIR_EACCESS);
	assert_non_null(strstr(error.text, "chmod 700"));
	assert_int_equal(chmod(rig->dir, 0700), 0);
	snprintf(path, sizeof path, "%s/a/b/c", rig->dir);
	assert_int_equal(wr_fetch_cache_open(path, WR_FETCH_CACHE_MIN, &cache, &error), 0);
	wr_fetch_cache_close(cache);
	assert_int_equal(wr_fetch_cache_open("/dev/null/x", WR_FETCH_CACHE_MIN, &cache, &error),
			 WEIR_ESYS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_response_is_found_again),
		TEST(other_users_and_urls_have_other_keys),
		TEST(forgetting_a_url_removes_all_its_responses),
		TEST(an_update_keeps_the_body),
		TEST(a_damaged_file_counts_as_missing),
		TEST(only_regular_files_are_read),
		TEST(the_oldest_are_removed),
		TEST(a_response_takes_at_most_an_eighth),
		TEST(files_of_others_stay),
		TEST(files_of_killed_writers_are_removed),
		TEST(processes_share_a_folder),
		TEST(a_folder_of_others_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
