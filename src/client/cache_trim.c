/* Keeps the cache within its maximum, and removes responses of a URL. */
#include "client/cache_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS 256u

/* A file that may be removed. */
struct file {
	uint64_t used_ns, bytes;
	char name[3 + WR_FETCH_CACHE_NAME + 1];
};

struct files {
	struct file *items;
	size_t count, cap;
	uint64_t bytes;
};

/* Opens a folder of the cache. Returns NULL if there is none. */
static DIR *open_folder(const struct wr_fetch_cache *cache, const char *name)
{
	int fd = openat(cache->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

	if (!folder && fd >= 0)
		close(fd);
	return folder;
}

/* Returns whether a name is that of a stored response. Other files are not touched. */
static bool is_response(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (i == 32 ? name[i] != '-' : wr_hex(name[i]) < 0)
			return false;
	return len == WR_FETCH_CACHE_NAME;
}

/* Returns room for one more file, or NULL if there are too many files or no memory. */
static struct file *more(struct files *files)
{
	size_t cap = files->cap ? 2 * files->cap : 1024;
	struct file *items;

	if (files->count < files->cap)
		return &files->items[files->count];
	if (files->count >= WR_FETCH_CACHE_FILES)
		return NULL;
	items = realloc(files->items, cap * sizeof *items);
	if (!items)
		return NULL;
	files->items = items;
	files->cap = cap;
	return &files->items[files->count];
}

/* Adds a file to the list. Removes it if the list is full, because the list is the only bound on the
 * number of files. */
static void list_file(const struct wr_fetch_cache *cache, struct files *files, const char *folder,
		      const char *name)
{
	char path[3 + WR_FETCH_CACHE_NAME + 1];
	struct file *file = more(files);
	struct stat info;

	snprintf(path, sizeof path, "%.2s/%.65s", folder, name);
	if (fstatat(cache->dir, path, &info, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!file || !S_ISREG(info.st_mode)) {
		unlinkat(cache->dir, path, 0);
		return;
	}
	file->used_ns =
		(uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
	file->bytes = wr_fetch_disk_bytes((uint64_t)info.st_size);
	memcpy(file->name, path, sizeof file->name);
	files->bytes += file->bytes;
	files->count++;
}

static void list_folder(const struct wr_fetch_cache *cache, struct files *files, unsigned number)
{
	const struct dirent *entry;
	char name[3];
	DIR *folder;

	snprintf(name, sizeof name, "%02x", number & 255);
	folder = open_folder(cache, name);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (is_response(entry->d_name))
			list_file(cache, files, name, entry->d_name);
	closedir(folder);
}

static int compare_used(const void *a, const void *b)
{
	const struct file *one = a, *other = b;

	return one->used_ns < other->used_ns ? -1 : one->used_ns > other->used_ns;
}

/* Removes temporary files whose writer has ended without removing them. */
static void remove_abandoned(const struct wr_fetch_cache *cache)
{
	DIR *folder = open_folder(cache, "tmp");
	const struct dirent *entry;

	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		fd = openat(dirfd(folder), entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(dirfd(folder), entry->d_name, 0);
		close(fd);
	}
	closedir(folder);
}

void wr_fetch_cache_trim(struct wr_fetch_cache *cache)
{
	struct files files = {0};
	uint64_t enough;
	size_t left, next = 0;

	wr_assert_magic(cache, WR_FETCH_CACHE_MAGIC);
	remove_abandoned(cache);
	for (unsigned i = 0; i < FOLDERS; i++)
		list_folder(cache, &files, i);
	left = files.count;
	enough = files.bytes > cache->max_bytes ? cache->max_bytes / 8 * 7 : cache->max_bytes;
	if (files.bytes > enough)
		qsort(files.items, files.count, sizeof *files.items, compare_used);
	for (; files.bytes > enough && next < left; next++) {
		unlinkat(cache->dir, files.items[next].name, 0);
		files.bytes -= files.items[next].bytes;
	}
	free(files.items);
	cache->counted = files.bytes;
	cache->added = 0;
	cache->is_counted = true;
}

void wr_fetch_cache_forget(struct wr_fetch_cache *cache, struct weir_str url)
{
	const struct dirent *entry;
	struct wr_fetch_key key;
	DIR *folder;

	wr_assert_magic(cache, WR_FETCH_CACHE_MAGIC);
	wr_fetch_key_make(url, WR_STR(""), &key);
	key.name[2] = '\0';
	folder = open_folder(cache, key.name);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (strncmp(entry->d_name, key.name + 3, 33) == 0)
			unlinkat(dirfd(folder), entry->d_name, 0);
	closedir(folder);
}
