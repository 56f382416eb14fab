/* Measures the free disk space, and runs checkpoints of the write-ahead log. Called by
 * sqlite_backend.c. */
#include <sys/statvfs.h>

#include "queue/sqlite_backend.h"
#include "base/assert.h"
#include "queue/record.h"

#define PAGE_BYTES 4096u
#define WAL_PAGES_MAX 2000  /* a checkpoint is due when the log has this many pages */
#define REMIND_US 60000000u /* a disk that stays full is logged again after a minute */

/* Disk space that a request needs: SPACE_FACTOR times its size, plus SPACE_FIXED for pages of
 * tables and indexes. The factor is 2, because each byte is written to the log and later to the
 * file. */
#define SPACE_FACTOR 2u
#define SPACE_FIXED (64u << 10)

static uint64_t space_for(uint64_t bytes)
{
	return bytes * SPACE_FACTOR + SPACE_FIXED;
}

static int on_wal_commit(void *context, sqlite3 *db, const char *name, int pages)
{
	(void)db;
	(void)name;
	((struct wr_sqlite *)context)->wal_pages = (uint64_t)pages;
	return SQLITE_OK;
}

void wr_sqlite_watch_wal(struct wr_sqlite *sqlite)
{
	wr_assert(sqlite->db);
	sqlite->wal_pages = 0;
	sqlite3_wal_hook(sqlite->db, on_wal_commit, sqlite);
}

void wr_sqlite_checkpoint(struct wr_sqlite *sqlite, bool truncate)
{
	int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
	int total = -1, copied = -1;

	wr_assert(sqlite->db);
	if (sqlite3_wal_checkpoint_v2(sqlite->db, NULL, mode, &total, &copied) == SQLITE_OK &&
	    total == copied)
		sqlite->wal_pages = 0;
}

void wr_sqlite_checkpoint_if_due(struct wr_sqlite *sqlite)
{
	if (sqlite->wal_pages >= WAL_PAGES_MAX)
		wr_sqlite_checkpoint(sqlite, false);
}

/* Returns the number of bytes that new requests may write. Each byte of a request is written twice:
 * to the log, which grows on the disk, and later to the file, which uses its free pages before it
 * grows. The reserve (free_bytes_min) stays free for other programs and for the results of
 * deliveries. */
static uint64_t measure_space(struct wr_sqlite *sqlite)
{
	uint64_t reserve = sqlite->backend.opts->free_bytes_min, size, disk;
	uint64_t log = sqlite->wal_pages * PAGE_BYTES, file;
	int64_t free_pages;
	struct statvfs at;

	if (statvfs(sqlite->folder, &at) < 0)
		/* The free space is unknown, so puts are not restricted. If the disk is full, the
		 * commit fails. */
		return UINT64_MAX;
	wr_sqlite_query_number(sqlite, "PRAGMA freelist_count", &free_pages);
	file = (uint64_t)free_pages * PAGE_BYTES;
	size = (uint64_t)at.f_blocks * at.f_frsize;
	disk = (uint64_t)at.f_bavail * at.f_frsize;
	if (reserve > size / 16)
		reserve = size / 16;
	disk = disk > reserve ? disk - reserve : 0;
	if (disk + file <= log)
		return 0;
	return disk + file - log < 2 * disk ? disk + file - log : 2 * disk;
}

void wr_sqlite_space_check(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count)
{
	uint64_t wanted = 0;

	wr_assert(jobs || count == 0);
	for (size_t i = 0; i < count; i++)
		if (jobs[i]->verb == WR_QUEUE_PUT)
			wanted += space_for(jobs[i]->put.request->body.len +
					    2 * WR_QUEUE_RECORD_OVERHEAD);
	if (wanted == 0)
		return;
	sqlite->space = measure_space(sqlite);
	if (sqlite->space >= wanted || (sqlite->wal_pages == 0 && sqlite->counts.unswept == 0))
		return;
	/* Try to free space with a sweep and a checkpoint. Their errors do not matter, because the
	 * free space is measured again afterwards. */
	wr_sqlite_sweep_now(sqlite);
	wr_sqlite_checkpoint(sqlite, true);
	sqlite->space = measure_space(sqlite);
}

bool wr_sqlite_space_reserve(struct wr_sqlite *sqlite, uint64_t bytes)
{
	if (space_for(bytes) > sqlite->space)
		return false;
	if (sqlite->space != UINT64_MAX)
		sqlite->space -= space_for(bytes);
	return true;
}

void wr_sqlite_space_report(struct wr_sqlite *sqlite, struct wr_queue_job **jobs, size_t count)
{
	struct statvfs at = {0};
	size_t refused = 0;

	for (size_t i = 0; i < count; i++)
		refused += jobs[i]->reason == WR_QUEUE_NO_SPACE;
	if (refused == 0 || (sqlite->full_us && sqlite->now_us - sqlite->full_us < REMIND_US))
		return;
	sqlite->full_us = sqlite->now_us;
	if (statvfs(sqlite->folder, &at) < 0)
		at.f_bavail = 0;
	wr_queue_backend_log(
		&sqlite->backend, WR_QUEUE_ERROR,
		"the disk of %s is full or nearly full: %llu bytes are free, and some of them are "
		"reserved for results of deliveries; new requests are refused",
		sqlite->path, (unsigned long long)at.f_bavail * at.f_frsize);
}
