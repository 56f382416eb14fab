/* Requests go out to be delivered: the heads of lines that are due, oldest first. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "queue/lite.h"

#define TAKE_MAX 256u
#define BYTES_MAX (32u << 20) /* of bodies in one answer, or a little more */
#define EXPIRED_MAX 1000u     /* found in one go; the rest is found the next time */

struct due {
	uint8_t key[WR_LINE_KEY_BYTES];
	uint64_t id;
};

/* Lines whose head is due. Returns SQLITE_OK. */
static int find_due(struct wr_lite *lite, struct due *dues, size_t max, size_t *count)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_DUE);
	int rc;

	sqlite3_bind_int64(sql, 1, (sqlite3_int64)lite->now_us);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)max);
	*count = 0;
	while ((rc = sqlite3_step(sql)) == SQLITE_ROW && *count < max) {
		const void *key = sqlite3_column_blob(sql, 0);

		if (!key || sqlite3_column_bytes(sql, 0) != WR_LINE_KEY_BYTES)
			continue;
		memcpy(dues[*count].key, key, WR_LINE_KEY_BYTES);
		dues[(*count)++].id = (uint64_t)sqlite3_column_int64(sql, 1);
	}
	sqlite3_reset(sql);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int expire(struct wr_lite *lite, const struct wr_deferred *row)
{
	struct wr_lite_end end = {.id = row->id, .state = WR_DEFERRED_DEAD, .status = row->status};
	char reason[WR_DEFERRED_REASON_MAX + 1];
	struct wr_lite_standing at = {0};
	struct wr_lite_line line = {0};
	int rc = wr_lite_standing(lite, row->id, &at);
	int len =
		snprintf(reason, sizeof reason, "too old%s%.*s", row->reason.len ? "; last: " : "",
			 (int)row->reason.len, row->reason.len ? row->reason.ptr : "");

	end.bytes = at.bytes;
	end.reason = wr_str_first((struct weir_str){reason, (size_t)len}, sizeof reason - 1);
	if (rc == SQLITE_OK)
		rc = wr_lite_line(lite, row->key, &line);
	if (rc == SQLITE_OK)
		rc = wr_lite_finish(lite, &end);
	return rc == SQLITE_OK ? wr_lite_leave(lite, row->key, row->id, &line) : rc;
}

static int hand_out(struct wr_lite *lite, struct wr_queue_job *job, struct wr_deferred *row,
		    struct wr_deferred ***tail)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_LINE_TAKEN);

	row->fence = ++lite->fence;
	row->state = WR_DEFERRED_DELIVERING;
	row->position = 1;
	**tail = row;
	*tail = &row->next;
	job->take.count++;
	lite->counts.delivering++;
	sqlite3_bind_blob(sql, 1, row->key, sizeof row->key, SQLITE_STATIC);
	sqlite3_bind_int64(sql, 2, (sqlite3_int64)row->fence);
	return wr_lite_do(sql);
}

/* One line; if its head is too old, what is behind it comes the next time round. */
static int take_one(struct wr_lite *lite, struct wr_queue_job *job, const struct due *due,
		    struct wr_deferred ***tail)
{
	struct wr_deferred *row;
	int rc = wr_lite_read(lite, due->id, WR_LITE_OPEN, &row);

	if (rc != SQLITE_OK)
		return rc;
	if (!row)
		return SQLITE_CORRUPT;
	if (row->expires_us > lite->wall_us)
		return hand_out(lite, job, row, tail);
	rc = expire(lite, row);
	wr_deferred_free(row);
	job->take.expired++;
	return rc;
}

static int find_next(struct wr_lite *lite, uint64_t *next_us)
{
	sqlite3_stmt *sql = wr_lite_sql(lite, WR_SQL_NEXT_DUE);
	int rc = sqlite3_step(sql);

	*next_us = UINT64_MAX;
	if (rc == SQLITE_ROW && sqlite3_column_type(sql, 0) == SQLITE_INTEGER) {
		uint64_t due_us = (uint64_t)sqlite3_column_int64(sql, 0);

		*next_us = due_us > lite->now_us ? due_us - lite->now_us : 0;
	}
	sqlite3_reset(sql);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int wr_lite_take(struct wr_lite *lite, struct wr_queue_job *job)
{
	struct wr_deferred **tail = &job->take.first;
	uint32_t max = job->take.max < TAKE_MAX ? job->take.max : TAKE_MAX;
	struct due dues[TAKE_MAX];
	size_t count, bytes = 0;
	int rc;

	do {
		uint32_t expired = job->take.expired;

		rc = find_due(lite, dues, max - job->take.count, &count);
		for (size_t i = 0; i < count && rc == SQLITE_OK && bytes < BYTES_MAX; i++) {
			struct wr_deferred **before = tail;

			rc = take_one(lite, job, &dues[i], &tail);
			bytes += before != tail ? (*before)->body.len : 0;
		}
		if (expired == job->take.expired)
			break; /* all there was, or all that was wanted */
	} while (rc == SQLITE_OK && job->take.count < max && job->take.expired < EXPIRED_MAX);
	return rc == SQLITE_OK ? find_next(lite, &job->take.next_us) : rc;
}
