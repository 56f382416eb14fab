/* Shared by the files of the cache: cache.c, cache_write.c, cache_trim.c. */
#ifndef WR_FETCH_CACHE_IMPL_H
#define WR_FETCH_CACHE_IMPL_H

#include "base/hash.h"
#include "client/cache.h"

#define WR_FETCH_CACHE_MAGIC 0x77636163u
#define WR_FETCH_CACHE_FORMAT "weirhc1\n"
#define WR_FETCH_CACHE_URL_MAX 65536u
#define WR_FETCH_CACHE_PIECE ((size_t)64 << 10) /* bytes that are read or copied at once */

struct wr_fetch_cache {
	uint32_t magic;
	int dir; /* the folder */
	uint64_t max_bytes;
	uint64_t counted; /* bytes of all files when they were counted last */
	uint64_t added;   /* bytes that this process has added since */
	bool is_counted;
	uint64_t writers; /* number of writers that were begun; makes names of files */
};

/* The first bytes of a file. The URL, the fields and the body follow. */
struct wr_fetch_file_head {
	char format[8];
	uint64_t requested_s, received_s;
	uint64_t body_len;
	uint32_t status, url_len, fields_len, zero;
	uint8_t request_fields[16]; /* digest of the fields of the request */
	uint64_t body_check;        /* XXH3 of the body */
	uint64_t head_check;        /* XXH3 of the head before this word, the URL and the fields */
};
_Static_assert(sizeof(struct wr_fetch_file_head) == 80, "the head has no gaps");

/* Returns the checksum of the head with the URL and the fields. */
uint64_t wr_fetch_head_check(const struct wr_fetch_file_head *head, struct weir_str url,
			     struct weir_str fields);

/* Returns the bytes that a file of this length takes on disk. */
static inline uint64_t wr_fetch_disk_bytes(uint64_t len)
{
	return (len + 4095) / 4096 * 4096;
}

#endif
