/* The waiting requests in memory: a line per key with its requests in order of their ids, and a
 * heap of lines by the time when they are due. The lines are read from the file when it is opened
 * and then changed together with it: wr_queue_lines_roll_back() undoes all changes since the last
 * wr_queue_lines_commit(), as SQLite does with its transaction. Finding a line, joining at its end
 * and leaving at its front do not depend on the number of waiting requests; the heap costs O(log
 * lines).
 *
 * Takes are recorded only here: after a restart all requests wait again. */
#ifndef WR_QUEUE_SQLITE_LINES_H
#define WR_QUEUE_SQLITE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/deferred.h"

struct wr_queue_position {
	uint64_t id;
	uint64_t due_us; /* when it is due or expires, whichever is earlier */
	uint64_t bytes;  /* counted against the queue's limits */
};

struct wr_queue_line {
	uint8_t key[WR_LINE_KEY_BYTES];
	uint64_t head;   /* id of the next request to deliver. Usually the first; a retried dead
			    letter can be older than the head that is taken, and then waits for it */
	uint64_t due_us; /* of the head */
	uint64_t fence;  /* number of the take of the head; 0: not taken */
	uint64_t bytes;  /* of the head, if it is taken */

	struct wr_queue_position *positions; /* sorted by id: `count` of them from `first` on */
	size_t first, count, cap;
	uint64_t held;  /* bytes of all positions */
	size_t heap_at; /* index in the heap, from 1; 0: the line is taken or empty */
	bool empty;     /* about to be freed */
	struct wr_queue_line *next;
};

struct wr_queue_lines {
	struct wr_queue_line **buckets; /* hash table; its size is a power of two or 0 */
	size_t bucket_count, line_count;
	struct wr_queue_line **heap; /* lines that are not taken; the first is due first */
	size_t heap_count, heap_cap;
	struct wr_queue_lines_change *changes; /* since the last commit */
	size_t change_count, change_cap;
};

/* Returns the line of this key, NULL if no request waits there. The pointer is valid until the line
 * is empty and that is committed. */
struct wr_queue_line *wr_queue_lines_find(const struct wr_queue_lines *lines, const uint8_t *key);

/* Returns the line that is due first among those that are not taken; NULL: there is none. */
struct wr_queue_line *wr_queue_lines_first(const struct wr_queue_lines *lines);

/* Returns the position of a request, from 1; 0: it does not wait in this line. */
size_t wr_queue_line_position_of(const struct wr_queue_line *line, uint64_t id);

/* Changes. Each returns false if memory is exhausted; then nothing was changed. */

/* Adds a request at the position that its id determines. Creates the line if needed. */
bool wr_queue_lines_join(struct wr_queue_lines *lines, const uint8_t *key,
			 struct wr_queue_position position);

/* Removes a request. An empty line is freed at the next commit. */
bool wr_queue_lines_leave(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id);

/* Marks the head of the line as taken. */
bool wr_queue_lines_take(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t fence,
			 uint64_t bytes);

/* Sets when a request is due. If it is the head, it is no longer taken. */
bool wr_queue_lines_set_due(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id,
			    uint64_t due_us);

void wr_queue_lines_commit(struct wr_queue_lines *lines);
void wr_queue_lines_roll_back(struct wr_queue_lines *lines);

/* Iterates over all lines in no particular order: `before` is NULL at first; returns NULL at the
 * end. */
const struct wr_queue_line *wr_queue_lines_next(const struct wr_queue_lines *lines,
						const struct wr_queue_line *before);

/* Frees all lines. *lines is then all zeroes, which is also its initial state. */
void wr_queue_lines_clear(struct wr_queue_lines *lines);

#endif
