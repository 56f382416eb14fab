/* Writes responses to the cache: into a temporary file, which is then renamed. */
#include "client/cache_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 64
#define TEMPORARY_TRIES 8u

struct wr_fetch_writer {
	struct wr_fetch_cache *cache;
	int fd;
	struct wr_fetch_file_head head;
	char temporary[NAME_BYTES]; /* "tmp/123-7" */
	char name[sizeof((struct wr_fetch_key *)NULL)->name];
	char *text; /* the URL, then the fields */
	XXH3_state_t check;
};

static bool write_all(int fd, const void *bytes, size_t len, uint64_t at)
{
	const char *from = bytes;

	while (len) {
		ssize_t put = pwrite(fd, from, len, (off_t)at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		from += put;
		at += (uint64_t)put;
		len -= (size_t)put;
	}
	return true;
}

/* Makes a temporary file with a new name. Returns its descriptor, or -1. */
static int create_temporary(struct wr_fetch_cache *cache, char name[NAME_BYTES])
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd;

	snprintf(name, NAME_BYTES, "tmp/%ld-%p-%llu", (long)getpid(), (void *)cache,
		 (unsigned long long)cache->writers++);
	fd = openat(cache->dir, name, flags, 0600);
	if (fd < 0 && errno == EEXIST) { /* from a killed process with the same number */
		unlinkat(cache->dir, name, 0);
		fd = openat(cache->dir, name, flags, 0600);
	}
	return fd;
}

/* Makes the temporary file and locks it. The lock tells other processes that the writer of the file
 * is alive. Another process can remove the file before it is locked; then the next file is made. */
static int make_temporary(struct wr_fetch_cache *cache, char name[NAME_BYTES])
{
	struct stat info;

	for (unsigned i = 0; i < TEMPORARY_TRIES; i++) {
		int fd = create_temporary(cache, name);

		if (fd < 0)
			return -1;
		if (flock(fd, LOCK_EX) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0)
			return fd;
		close(fd);
	}
	return -1;
}

/* Copies the URL and the fields, whose checksum is computed at the end. */
static bool copy_text(struct wr_fetch_writer *writer, struct weir_str url, struct weir_str fields)
{
	writer->text = malloc(url.len + fields.len + 1);
	if (!writer->text)
		return false;
	memcpy(writer->text, url.ptr, url.len);
	if (fields.len)
		memcpy(writer->text + url.len, fields.ptr, fields.len);
	return write_all(writer->fd, writer->text, url.len + fields.len, sizeof writer->head);
}

struct wr_fetch_writer *wr_fetch_cache_begin(struct wr_fetch_cache *cache,
					     const struct wr_fetch_key *key, unsigned status,
					     const struct wr_fetch_stored *stored)
{
	struct wr_fetch_writer *writer;

	wr_assert_magic(cache, WR_FETCH_CACHE_MAGIC);
	if (key->url.len > WR_FETCH_CACHE_URL_MAX || !wr_fetch_fields_valid(stored->fields))
		return NULL;
	writer = calloc(1, sizeof *writer);
	if (!writer)
		return NULL;
	writer->cache = cache;
	writer->head = (struct wr_fetch_file_head){.requested_s = stored->requested_s,
						   .received_s = stored->received_s,
						   .status = status,
						   .url_len = (uint32_t)key->url.len,
						   .fields_len = (uint32_t)stored->fields.len};
	memcpy(writer->head.format, WR_FETCH_CACHE_FORMAT, sizeof writer->head.format);
	memcpy(writer->head.request_fields, key->fields, sizeof key->fields);
	memcpy(writer->name, key->name, sizeof writer->name);
	XXH3_64bits_reset(&writer->check);
	writer->fd = make_temporary(cache, writer->temporary);
	if (writer->fd >= 0 && copy_text(writer, key->url, stored->fields))
		return writer;
	wr_fetch_writer_drop(writer);
	return NULL;
}

bool wr_fetch_writer_add(struct wr_fetch_writer *writer, const void *bytes, size_t len)
{
	struct wr_fetch_file_head *head = &writer->head;

	if (len > writer->cache->max_bytes / 8 - head->body_len ||
	    !write_all(writer->fd, bytes, len,
		       sizeof *head + head->url_len + head->fields_len + head->body_len))
		return false;
	XXH3_64bits_update(&writer->check, bytes, len);
	head->body_len += len;
	return head->body_len <= writer->cache->max_bytes / 8;
}

/* Counts the new file. The files of the cache are counted before the first one is added, when the
 * maximum is reached, and after each sixteenth of it, because other processes add files too. */
static void count_file(struct wr_fetch_cache *cache, uint64_t bytes)
{
	cache->added += wr_fetch_disk_bytes(bytes);
	if (!cache->is_counted || cache->counted + cache->added > cache->max_bytes ||
	    cache->added > cache->max_bytes / 16)
		wr_fetch_cache_trim(cache);
}

bool wr_fetch_writer_commit(struct wr_fetch_writer *writer)
{
	struct wr_fetch_file_head *head = &writer->head;
	struct wr_fetch_cache *cache = writer->cache;
	uint64_t bytes = sizeof *head + head->url_len + head->fields_len + head->body_len;
	char folder[3] = {writer->name[0], writer->name[1], '\0'};
	bool stored;

	head->body_check = XXH3_64bits_digest(&writer->check);
	head->head_check = wr_fetch_head_check(
		head, (struct weir_str){writer->text, head->url_len},
		(struct weir_str){writer->text + head->url_len, head->fields_len});
	mkdirat(cache->dir, folder, 0700);
	stored = write_all(writer->fd, head, sizeof *head, 0) &&
		 renameat(cache->dir, writer->temporary, cache->dir, writer->name) == 0;
	if (stored)
		writer->temporary[0] = '\0';
	wr_fetch_writer_drop(writer);
	if (stored)
		count_file(cache, bytes);
	return stored;
}

void wr_fetch_writer_drop(struct wr_fetch_writer *writer)
{
	if (!writer)
		return;
	if (writer->fd >= 0) {
		if (writer->temporary[0])
			unlinkat(writer->cache->dir, writer->temporary, 0);
		close(writer->fd);
	}
	free(writer->text);
	free(writer);
}

bool wr_fetch_cache_update(struct wr_fetch_cache *cache, const struct wr_fetch_key *key,
			   const struct wr_fetch_entry *entry, const struct wr_fetch_stored *stored)
{
	struct wr_fetch_writer *writer = wr_fetch_cache_begin(cache, key, entry->status, stored);
	char *piece = malloc(WR_FETCH_CACHE_PIECE);
	uint64_t done = 0;
	size_t got = 1;

	while (writer && piece && done < entry->body_len && got) {
		got = wr_fetch_entry_read(entry, done, piece, WR_FETCH_CACHE_PIECE);
		if (!wr_fetch_writer_add(writer, piece, got))
			break;
		done += got;
	}
	free(piece);
	if (writer && piece && done == entry->body_len)
		return wr_fetch_writer_commit(writer);
	wr_fetch_writer_drop(writer);
	return false;
}
