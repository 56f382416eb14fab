/* The waiting requests in memory. Each key has a line with its requests in order of their ids, and
 * a heap sorts the lines by the time when they are due. The lines are read from the file when the
 * file is opened. After that, each change of the file is also made here. If SQLite rolls back a
 * transaction, wr_queue_lines_roll_back() undoes all changes since the previous
 * wr_queue_lines_commit(). Finding a line, adding a request at its end and removing a request from
 * its front take a time that does not depend on the number of waiting requests. An update of the
 * heap takes O(log lines).
 *
 * The file does not record which requests are in delivery, so after a restart these requests wait
 * again. */
#ifndef WR_QUEUE_SQLITE_LINES_H
#define WR_QUEUE_SQLITE_LINES_H

#include "base/buffer.h"
#include "base/heap.h"
#include "queue/deferred.h"

struct wr_queue_position {
	uint64_t id;
	uint64_t due_us; /* when the request is due or expires, whichever is earlier */
	uint64_t bytes;  /* size of the request, which counts towards max_bytes of the queue */
};

struct wr_queue_line {
	uint8_t key[WR_LINE_KEY_BYTES];
	/* Id of the next request to deliver. This is usually the lowest id of the line. But a
	 * retried dead letter can have a lower id than a head that is being delivered. The dead
	 * letter then waits until the head has left the line. */
	uint64_t head;
	uint64_t due_us; /* when the head is due or expires, whichever is earlier */
	/* number of the take that returned the head for delivery; 0: the head is not in delivery */
	uint64_t fence;
	/* size in bytes of the line's head while the head is in delivery; otherwise 0 */
	uint64_t bytes;

	/* sorted by id; positions[first] is the first of `count` elements in use */
	struct wr_queue_position *positions;
	size_t first, count, cap;
	uint64_t held; /* size of all requests in the line, in bytes */
	/* The line's element of the heap. It is not in the heap while the line is empty or the head
	 * is in delivery. */
	struct wr_heap_node node;
	bool empty; /* true if no request waits; then wr_queue_lines_commit() frees the line */
	struct wr_queue_line *next;
};

struct wr_queue_lines {
	/* hash table of lines; bucket_count is a power of two or 0 */
	struct wr_queue_line **buckets;
	size_t bucket_count, line_count;
	/* all lines whose head is not in delivery, by the time when they are due */
	struct wr_heap heap;
	struct wr_buf undo_log; /* array of struct wr_queue_lines_change since the latest commit */
};

/* Makes an empty set of lines. wr_queue_lines_clear() frees its memory. */
void wr_queue_lines_init(struct wr_queue_lines *lines);

/* Returns the line of this key, or NULL if no request of the key waits. The pointer is valid until
 * a commit that finds the line empty. */
struct wr_queue_line *wr_queue_lines_find(const struct wr_queue_lines *lines, const uint8_t *key);

/* Of the lines whose head is not in delivery, returns the line that is due first. Returns NULL if
 * there is no such line. */
struct wr_queue_line *wr_queue_lines_first(const struct wr_queue_lines *lines);

/* Returns the position of a request in the line, from 1. Returns 0 if the request does not wait in
 * this line. */
size_t wr_queue_line_position_of(const struct wr_queue_line *line, uint64_t id);

/* The next four functions change lines. On failure (memory is exhausted) they return false and have
 * changed nothing. */

/* Adds a request at the position that its id determines. Creates the line if needed. */
bool wr_queue_lines_join(struct wr_queue_lines *lines, const uint8_t *key,
			 struct wr_queue_position position);

/* Removes a request from its line. A line that becomes empty is freed at the next commit. */
bool wr_queue_lines_leave(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id);

/* Marks the head of the line as in delivery. */
bool wr_queue_lines_take(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t fence,
			 uint64_t bytes);

/* Sets the time when a request is due. If the request is the head, the head is not in delivery
 * after this call. */
bool wr_queue_lines_set_due(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id,
			    uint64_t due_us);

void wr_queue_lines_commit(struct wr_queue_lines *lines);
void wr_queue_lines_roll_back(struct wr_queue_lines *lines);

/* Iterates over all lines in no particular order. Returns the line after `before`, or the first
 * line if `before` is NULL. Returns NULL if no line follows. */
const struct wr_queue_line *wr_queue_lines_next(const struct wr_queue_lines *lines,
						const struct wr_queue_line *before);

/* Frees all lines. Afterwards *lines is empty and can be used again. */
void wr_queue_lines_clear(struct wr_queue_lines *lines);

#endif
