/* The cache: its folder, its keys, and reading stored responses. */
#include "client/cache_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blake.h"
#include "base/error.h"

/* ---- the folder ---- */

/* Makes a folder and its missing parents. Returns 0 or -1. */
static int make_folders(const char *dir)
{
	char *path = strdup(dir);
	int rc;

	if (!path)
		return -1;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	rc = mkdir(path, 0700);
	free(path);
	return rc < 0 && errno != EEXIST ? -1 : 0;
}

/* Checks that no other user can replace files of the folder. */
static int check_folder(int fd, const char *dir, struct weir_error *error)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return wr_error_errno(error, WEIR_ESYS, "%s", dir);
	if (info.st_uid != geteuid())
		return wr_error(error, WEIR_EACCESS,
				"%s: the folder of the cache belongs to another user; use a folder "
				"of your own",
				dir);
	if (info.st_mode & 022)
		return wr_error(error, WEIR_EACCESS,
				"%s: other users can write to the folder of the cache; run chmod "
				"700 %s, or use another folder",
				dir, dir);
	return 0;
}

int wr_fetch_cache_open(const char *dir, uint64_t max_bytes, struct wr_fetch_cache **cache,
			struct weir_error *error)
{
	struct wr_fetch_cache *made;
	int fd, rc;

	if (make_folders(dir) < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot make the folder of the cache %s",
				      dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot open the folder of the cache %s",
				      dir);
	rc = check_folder(fd, dir, error);
	if (rc == 0 && mkdirat(fd, "tmp", 0700) < 0 && errno != EEXIST)
		rc = wr_error_errno(error, WEIR_ESYS, "cannot make %s/tmp", dir);
	made = rc == 0 ? malloc(sizeof *made) : NULL;
	if (!made) {
		close(fd);
		return rc ? rc : wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	*made = (struct wr_fetch_cache){WR_FETCH_CACHE_MAGIC, .dir = fd, .max_bytes = max_bytes};
	*cache = made;
	return 0;
}

void wr_fetch_cache_close(struct wr_fetch_cache *cache)
{
	wr_assert_magic(cache, WR_FETCH_CACHE_MAGIC);
	cache->magic = 0;
	close(cache->dir);
	free(cache);
}

/* ---- keys ---- */

static void put_hex(const uint8_t digest[WR_BLAKE_BYTES], char *text)
{
	for (unsigned i = 0; i < WR_BLAKE_BYTES; i++) {
		text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
	}
}

static void digest_of(struct weir_str text, uint8_t digest[WR_BLAKE_BYTES])
{
	struct wr_blake blake;

	wr_blake_begin(&blake);
	wr_blake_feed(&blake, text.ptr, text.len);
	wr_blake_end(&blake, digest);
}

void wr_fetch_key_make(struct weir_str url, struct weir_str fields, struct wr_fetch_key *key)
{
	uint8_t digest[WR_BLAKE_BYTES];

	memset(key, 0, sizeof *key);
	key->url = url;
	digest_of(url, digest);
	put_hex(digest, key->name + 3);
	key->name[0] = key->name[3];
	key->name[1] = key->name[4];
	key->name[2] = '/';
	digest_of(fields, key->fields);
	key->name[3 + 32] = '-';
	put_hex(key->fields, key->name + 3 + 33);
}

/* ---- reading ---- */

uint64_t wr_fetch_head_check(const struct wr_fetch_file_head *head, struct weir_str url,
			     struct weir_str fields)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, head, offsetof(struct wr_fetch_file_head, head_check));
	XXH3_64bits_update(&state, url.ptr, url.len);
	XXH3_64bits_update(&state, fields.ptr, fields.len);
	return XXH3_64bits_digest(&state);
}

/* Reads exactly `len` bytes. Returns false at the end of the file or on an error. */
static bool read_all(int fd, void *bytes, size_t len, uint64_t at)
{
	char *to = bytes;

	while (len) {
		ssize_t got = pread(fd, to, len, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		to += got;
		at += (uint64_t)got;
		len -= (size_t)got;
	}
	return true;
}

/* Returns whether the lengths in the head can be true for a file of `size` bytes. */
static bool is_head(const struct wr_fetch_file_head *head, uint64_t size)
{
	return memcmp(head->format, WR_FETCH_CACHE_FORMAT, sizeof head->format) == 0 &&
	       head->url_len <= WR_FETCH_CACHE_URL_MAX && head->fields_len <= WR_FETCH_FIELDS_MAX &&
	       size >= sizeof *head + head->url_len + head->fields_len &&
	       head->body_len == size - sizeof *head - head->url_len - head->fields_len;
}

static bool verify_body(const struct wr_fetch_entry *entry)
{
	char *piece = malloc(WR_FETCH_CACHE_PIECE);
	XXH3_state_t state;
	uint64_t done = 0;
	size_t got = 1;

	if (!piece)
		return false;
	XXH3_64bits_reset(&state);
	while (done < entry->body_len && got) {
		got = wr_fetch_entry_read(entry, done, piece, WR_FETCH_CACHE_PIECE);
		XXH3_64bits_update(&state, piece, got);
		done += got;
	}
	free(piece);
	return done == entry->body_len && XXH3_64bits_digest(&state) == entry->body_check;
}

/* Reads an open file into the entry. Returns whether the file is complete and belongs to the key. On
 * success, entry->memory holds the URL and the fields. */
static bool read_entry(const struct wr_fetch_key *key, struct wr_fetch_entry *entry)
{
	struct wr_fetch_file_head head;
	struct weir_str url, fields;
	struct stat info;

	if (fstat(entry->fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
	    !read_all(entry->fd, &head, sizeof head, 0) || !is_head(&head, (uint64_t)info.st_size))
		return false;
	entry->memory = malloc((size_t)head.url_len + head.fields_len + 1);
	if (!entry->memory || !read_all(entry->fd, entry->memory,
					(size_t)head.url_len + head.fields_len, sizeof head))
		return false;
	url = (struct weir_str){entry->memory, head.url_len};
	fields = (struct weir_str){entry->memory + head.url_len, head.fields_len};
	if (wr_fetch_head_check(&head, url, fields) != head.head_check ||
	    !wr_fetch_fields_valid(fields) || !wr_str_equal(url, key->url) ||
	    memcmp(head.request_fields, key->fields, sizeof key->fields) != 0)
		return false;
	entry->stored =
		(struct wr_fetch_stored){head.requested_s, head.received_s, .fields = fields};
	entry->status = head.status;
	entry->body_len = head.body_len;
	entry->body_at = sizeof head + head.url_len + head.fields_len;
	entry->body_check = head.body_check;
	return verify_body(entry);
}

bool wr_fetch_cache_find(struct wr_fetch_cache *cache, const struct wr_fetch_key *key,
			 struct wr_fetch_entry *entry)
{
	wr_assert_magic(cache, WR_FETCH_CACHE_MAGIC);
	*entry = (struct wr_fetch_entry){
		/* O_NONBLOCK: a fifo at this name must not stop the program. */
		.fd = openat(cache->dir, key->name,
			     O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
	if (entry->fd < 0)
		return false;
	if (read_entry(key, entry))
		return true;
	wr_fetch_entry_close(entry);
	wr_fetch_cache_remove(cache, key);
	return false;
}

void wr_fetch_entry_touch(const struct wr_fetch_entry *entry, uint64_t now_ns)
{
	struct timespec now = {(time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u)};
	struct timespec times[2] = {now, now};

	futimens(entry->fd, times);
}

size_t wr_fetch_entry_read(const struct wr_fetch_entry *entry, uint64_t offset, void *bytes,
			   size_t cap)
{
	uint64_t left = offset < entry->body_len ? entry->body_len - offset : 0;
	ssize_t got;

	if (left < cap)
		cap = (size_t)left;
	do
		got = pread(entry->fd, bytes, cap, (off_t)(entry->body_at + offset));
	while (got < 0 && errno == EINTR);
	return got > 0 ? (size_t)got : 0;
}

void wr_fetch_entry_close(struct wr_fetch_entry *entry)
{
	if (entry->fd >= 0)
		close(entry->fd);
	free(entry->memory);
	*entry = (struct wr_fetch_entry){.fd = -1};
}

void wr_fetch_cache_remove(struct wr_fetch_cache *cache, const struct wr_fetch_key *key)
{
	unlinkat(cache->dir, key->name, 0);
}
