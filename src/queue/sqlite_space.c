/* The disk: how much of it may be used, and the log that has to be folded into the file. */
#include <sys/statvfs.h>

#include "queue/sqlite_backend.h"
#include "queue/record.h"

#define PAGE_BYTES 4096u
#define LOG_PAGES 2000 /* the log is folded in when it has so many */

/* A request is written to the log, and from there to the file. */
#define SPACE_FACTOR 2u
#define SPACE_FIXED (64u << 10)

#define REMIND_US 60000000u /* a disk that stays full is told of again */

static uint64_t space_for(uint64_t bytes)
{
	return bytes * SPACE_FACTOR + SPACE_FIXED;
}

static int note_log(void *context, sqlite3 *db, const char *name, int pages)
{
	(void)db;
	(void)name;
	((struct wr_sqlite *)context)->log_pages = (uint64_t)pages;
	return SQLITE_OK;
}

void wr_sqlite_watch_wal(struct wr_sqlite *sqlite)
{
	sqlite->log_pages = 0;
	sqlite3_wal_hook(sqlite->db, note_log, sqlite);
}

void wr_sqlite_checkpoint(struct wr_sqlite *sqlite, bool to_nothing)
{
	int mode = to_nothing ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
	int left = -1, folded = -1;

	if (sqlite3_wal_checkpoint_v2(sqlite->db, NULL, mode, &left, &folded) == SQLITE_OK &&
	    left == folded)
		sqlite->log_pages = 0;
}

void wr_sqlite_checkpoint_if_due(struct wr_sqlite *sqlite)
{
	if (sqlite->log_pages >= LOG_PAGES)
		wr_sqlite_checkpoint(sqlite, false);
}

static uint64_t free_in_file(struct wr_sqlite *sqlite)
{
	sqlite3_stmt *sql = wr_sqlite_statement(sqlite, WR_SQL_FREE_PAGES);
	uint64_t pages =
		sqlite3_step(sql) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(sql, 0) : 0;

	sqlite3_reset(sql);
	return pages * PAGE_BYTES;
}

/* Twice what may be stored: once in the log, which grows on the disk, and once in the file, which
 * has free pages and grows beyond them when the log is folded in. The space that others want, and
 * that noting what becomes of requests will want, is left alone. */
static uint64_t look(struct wr_sqlite *sqlite)
{
	uint64_t reserve = sqlite->backend.opts->free_bytes_min, size, disk;
	uint64_t log = sqlite->log_pages * PAGE_BYTES, file = free_in_file(sqlite);
	struct statvfs at;

	if (statvfs(sqlite->folder, &at) < 0)
		return UINT64_MAX; /* the commit will tell */
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

	for (size_t i = 0; i < count; i++)
		if (jobs[i]->verb == WR_QUEUE_PUT)
			wanted +=
				space_for(jobs[i]->put.request->body.len + 2 * WR_RECORD_OVERHEAD);
	if (wanted == 0)
		return;
	sqlite->space = look(sqlite);
	if (sqlite->space >= wanted || (sqlite->log_pages == 0 && sqlite->counts.unswept == 0))
		return;
	wr_sqlite_sweep_now(sqlite); /* if it fails, there is no more space than before */
	wr_sqlite_checkpoint(sqlite, true);
	sqlite->space = look(sqlite);
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
		"the disk of %s is full, or nearly: %llu bytes are free, of which some are "
		"left for what becomes of requests; what has no room is refused",
		sqlite->path, (unsigned long long)at.f_bavail * at.f_frsize);
}
