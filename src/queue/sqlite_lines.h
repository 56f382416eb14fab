/* Who waits, in memory: a line for each key with its requests by their numbers, and which line is
 * due next. Made of the file when that is opened, and changed along with it: what was done since
 * the last wr_queue_lines_commit() can be undone, as a transaction is that fails. Finding, joining
 * at the end, taking and leaving at the front take the same time however many wait.
 *
 * Lines are gone with the process, and with them who has taken what: it waits again. */
#ifndef WR_QUEUE_SQLITE_LINES_H
#define WR_QUEUE_SQLITE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/deferred.h"

struct wr_queue_position {
	uint64_t id;
	uint64_t due_us; /* or when it is too old, if that is earlier */
	uint64_t bytes;  /* what it counts for */
};

struct wr_queue_line {
	uint8_t key[WR_LINE_KEY_BYTES];
	uint64_t head;   /* who is next. Not always the first: one that was dead may be older than
			    the one that is taken, and has to wait for it */
	uint64_t due_us; /* when the head is */
	uint64_t fence;  /* of who has taken the head; 0: nobody */
	uint64_t bytes;  /* of the head, if it is taken */

	struct wr_queue_position *positions; /* by id, `count` of them from `first` on */
	size_t first, count, cap;
	uint64_t held;  /* bytes of them all */
	size_t heap_at; /* from 1; 0: it is taken, or empty */
	bool empty;     /* and about to go */
	struct wr_queue_line *next;
};

struct wr_queue_lines {
	struct wr_queue_line **buckets; /* a power of two, or none */
	size_t bucket_count, line_count;
	struct wr_queue_line **heap; /* lines that are not taken, the first due in front */
	size_t heap_count, heap_cap;
	struct wr_queue_lines_change *changes; /* since the last keep */
	size_t change_count, change_cap;
};

/* NULL: nobody waits. Stays where it is as long as somebody does. */
struct wr_queue_line *wr_queue_lines_find(const struct wr_queue_lines *lines, const uint8_t *key);

/* The one that is due first of those that are not taken; NULL: there is none. */
struct wr_queue_line *wr_queue_lines_first(const struct wr_queue_lines *lines);

/* From 1; 0: it does not wait there. */
size_t wr_queue_line_position_of(const struct wr_queue_line *line, uint64_t id);

/* Changes. False: no memory, and nothing was changed. */

/* One more waits; at the place that its number gives it. */
bool wr_queue_lines_join(struct wr_queue_lines *lines, const uint8_t *key,
			 struct wr_queue_position position);

/* It waits no more. The line may be gone with it when that is kept. */
bool wr_queue_lines_leave(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id);

bool wr_queue_lines_take(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t fence,
			 uint64_t bytes);

/* It is due then; if it is the head, nobody has taken it any more. */
bool wr_queue_lines_set_due(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id,
			    uint64_t due_us);

void wr_queue_lines_commit(struct wr_queue_lines *lines);
void wr_queue_lines_roll_back(struct wr_queue_lines *lines);

/* All of them, in no order: NULL is before the first and after the last. */
const struct wr_queue_line *wr_queue_lines_next(const struct wr_queue_lines *lines,
						const struct wr_queue_line *before);

/* Back to nothing, which is also what all zeroes are. */
void wr_queue_lines_clear(struct wr_queue_lines *lines);

#endif
