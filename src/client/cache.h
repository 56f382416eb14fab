/* Responses stored on disk, for several processes at once.
 *
 *     DIR/5f/URLHASH-FIELDHASH      a response: the URL, the fields and the body
 *     DIR/tmp/PID-NUMBER            a response that is being written
 *
 * A file is complete when it is renamed to its name, and never changes afterwards. Its checksums
 * cover every byte. A file that does not match them, or that belongs to another URL, counts as
 * missing and is removed. Files have the mode 0600.
 *
 * The key is the URL and all header fields of the request other than Cache-Control and Pragma. So a
 * response is never used for a request that differs in another field, whatever its Vary says. Two
 * users with different credentials have different keys.
 *
 * When the files exceed the maximum, the responses whose last use is longest ago are removed. The
 * time of the last use is the modification time of the file. Other processes may write meanwhile.
 * Each of them adds at most a sixteenth of the maximum before it counts all files again.
 *
 * One thread at a time may use a cache. */
#ifndef WR_FETCH_CACHE_H
#define WR_FETCH_CACHE_H

#include "client/freshness.h"

struct wr_fetch_cache;
struct wr_fetch_writer;

#define WR_FETCH_CACHE_MIN ((uint64_t)1 << 20) /* smallest maximum of a cache, in bytes */
#define WR_FETCH_CACHE_NAME 65u                /* length of the name of a file */
#define WR_FETCH_CACHE_FILES 65536u            /* maximum number of responses */

struct wr_fetch_key {
	struct weir_str url;                    /* the caller's text */
	uint8_t fields[16];                     /* digest of the request's fields */
	char name[3 + WR_FETCH_CACHE_NAME + 1]; /* "5f/URLHASH-FIELDHASH" */
};

/* Computes the key. The order of the fields, and the case of their names, do not matter to servers
 * but to the key: a program sends the same fields each time. */
void wr_fetch_key_make(struct weir_str url, struct weir_str fields, struct wr_fetch_key *key);

/* Opens the folder, or makes it with the mode 0700. Returns 0, WEIR_EACCESS if the folder belongs to
 * another user or other users can write to it, WEIR_ESYS or WEIR_EMEMORY. */
int wr_fetch_cache_open(const char *dir, uint64_t max_bytes, struct wr_fetch_cache **cache,
			struct weir_error *error);
void wr_fetch_cache_close(struct wr_fetch_cache *cache);

/* A stored response. */
struct wr_fetch_entry {
	struct wr_fetch_stored stored; /* stored.fields is in `memory` */
	unsigned status;
	uint64_t body_len;
	int fd;
	uint64_t body_at; /* position of the body in the file */
	uint64_t body_check;
	char *memory;
};

/* Finds a stored response and verifies all of it. Returns true if there is one; the caller ends with
 * wr_fetch_entry_close. */
bool wr_fetch_cache_find(struct wr_fetch_cache *cache, const struct wr_fetch_key *key,
			 struct wr_fetch_entry *entry);

/* Notes that the response is used at now_ns, so that it is removed later than others. */
void wr_fetch_entry_touch(const struct wr_fetch_entry *entry, uint64_t now_ns);

/* Reads up to `cap` bytes of the body. Returns the number of bytes; 0 at the end and on an error. */
size_t wr_fetch_entry_read(const struct wr_fetch_entry *entry, uint64_t offset, void *bytes,
			   size_t cap);
void wr_fetch_entry_close(struct wr_fetch_entry *entry);

/* Begins to store a response. Returns NULL if that is not possible; the response is then not stored,
 * which is no error. The caller ends with wr_fetch_writer_commit or wr_fetch_writer_drop. */
struct wr_fetch_writer *wr_fetch_cache_begin(struct wr_fetch_cache *cache,
					     const struct wr_fetch_key *key, unsigned status,
					     const struct wr_fetch_stored *stored);

/* Appends to the body. Returns false if the response is too large or the disk is full. The caller
 * then drops the writer. */
bool wr_fetch_writer_add(struct wr_fetch_writer *writer, const void *bytes, size_t len);

/* Makes the response visible, and frees the writer. Removes other responses if the cache is full.
 * Returns whether the response is stored. */
bool wr_fetch_writer_commit(struct wr_fetch_writer *writer);
void wr_fetch_writer_drop(struct wr_fetch_writer *writer);

/* Replaces the fields and the times of a stored response, and keeps its body. */
bool wr_fetch_cache_update(struct wr_fetch_cache *cache, const struct wr_fetch_key *key,
			   const struct wr_fetch_entry *entry,
			   const struct wr_fetch_stored *stored);

/* Removes all stored responses of the URL, whatever the fields of their requests were. */
void wr_fetch_cache_forget(struct wr_fetch_cache *cache, struct weir_str url);

/* Removes the response whose key this is. */
void wr_fetch_cache_remove(struct wr_fetch_cache *cache, const struct wr_fetch_key *key);

/* Counts all files, and removes the oldest ones until the cache has at most seven eighths of its
 * maximum. Called by wr_fetch_writer_commit. Also removes files of writers that were killed. */
void wr_fetch_cache_trim(struct wr_fetch_cache *cache);

#endif
