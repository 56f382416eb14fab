/* Stores the lines of waiting requests: in a hash table by key, and in a heap by due time. An undo
 * log contains the changes since the latest commit. Called by the other sqlite_*.c files. */
#include "queue/sqlite_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define BUCKETS_MIN 64u
#define POSITIONS_MIN 2u

enum change_kind { JOINED, LEFT, OTHER };

/* An entry of the undo log: the state of a line before a change. */
struct wr_queue_lines_change {
	struct wr_queue_line *line; /* the line exists at least until the commit or rollback */
	enum change_kind kind;
	/* if the change adds or removes a request: this request; if it changes the due time of a
	 * request: the old values of the request; if it is a take: all zero */
	struct wr_queue_position position;
	uint64_t head, due_us, fence, bytes;
};

/* ---- lines by key ---- */

/* Returns the bucket of a key. Keys are hashes, so their first bytes can select the bucket. */
static size_t bucket_of(const struct wr_queue_lines *lines, const uint8_t *key)
{
	uint64_t hash;

	memcpy(&hash, key, sizeof hash);
	return (size_t)hash & (lines->bucket_count - 1);
}

/* Returns the line of a key. Unlike wr_queue_lines_find(), it also returns a line that is empty but
 * not freed yet. */
static struct wr_queue_line *find_line(const struct wr_queue_lines *lines, const uint8_t *key)
{
	struct wr_queue_line *line =
		lines->bucket_count ? lines->buckets[bucket_of(lines, key)] : NULL;

	while (line && memcmp(line->key, key, sizeof line->key) != 0)
		line = line->next;
	return line;
}

struct wr_queue_line *wr_queue_lines_find(const struct wr_queue_lines *lines, const uint8_t *key)
{
	struct wr_queue_line *line = find_line(lines, key);

	return line && line->count ? line : NULL;
}

static bool grow_buckets(struct wr_queue_lines *lines)
{
	struct wr_queue_lines more = {.bucket_count = lines->bucket_count ? 2 * lines->bucket_count
									  : BUCKETS_MIN};

	if (lines->line_count < lines->bucket_count)
		return true;
	more.buckets = calloc(more.bucket_count, sizeof(struct wr_queue_line *));
	if (!more.buckets)
		return false;
	for (size_t i = 0; i < lines->bucket_count; i++) {
		struct wr_queue_line *next;

		for (struct wr_queue_line *line = lines->buckets[i]; line; line = next) {
			struct wr_queue_line **to = &more.buckets[bucket_of(&more, line->key)];

			next = line->next;
			line->next = *to;
			*to = line;
		}
	}
	free(lines->buckets);
	lines->buckets = more.buckets;
	lines->bucket_count = more.bucket_count;
	return true;
}

/* Creates a line. Also makes room for the line in the heap, so that adding the line to the heap
 * cannot fail. Returns NULL if memory is exhausted. */
static struct wr_queue_line *make_line(struct wr_queue_lines *lines, const uint8_t *key)
{
	struct wr_queue_line *line, **bucket;

	if (!wr_heap_reserve(&lines->heap, lines->line_count + 1) || !grow_buckets(lines))
		return NULL;
	line = calloc(1, sizeof *line);
	if (!line)
		return NULL;
	memcpy(line->key, key, sizeof line->key);
	bucket = &lines->buckets[bucket_of(lines, key)];
	line->next = *bucket;
	*bucket = line;
	lines->line_count++;
	return line;
}

static void free_line(struct wr_queue_lines *lines, struct wr_queue_line *line)
{
	struct wr_queue_line **at = &lines->buckets[bucket_of(lines, line->key)];

	while (*at != line)
		at = &(*at)->next;
	*at = line->next;
	lines->line_count--;
	free(line->positions);
	free(line);
}

/* ---- the heap: lines by due time; if that is equal, by the id of their head ---- */

static bool is_before(const struct wr_heap_node *first, const struct wr_heap_node *second)
{
	const struct wr_queue_line *a = wr_container_of(first, const struct wr_queue_line, node);
	const struct wr_queue_line *b = wr_container_of(second, const struct wr_queue_line, node);

	return a->due_us != b->due_us ? a->due_us < b->due_us : a->head < b->head;
}

/* Moves a line to its position in the heap after a change. If the line is empty or its head is in
 * delivery, removes the line from the heap. */
static void update_heap(struct wr_queue_lines *lines, struct wr_queue_line *line)
{
	bool in_heap = wr_heap_holds(&line->node);

	if (!line->count || line->fence) {
		if (in_heap)
			wr_heap_remove(&lines->heap, &line->node);
	} else if (in_heap) {
		wr_heap_update(&lines->heap, &line->node);
	} else {
		wr_heap_add(&lines->heap, &line->node); /* cannot fail: make_line() made room */
	}
}

struct wr_queue_line *wr_queue_lines_first(const struct wr_queue_lines *lines)
{
	struct wr_heap_node *first = wr_heap_first(&lines->heap);

	return first ? wr_container_of(first, struct wr_queue_line, node) : NULL;
}

/* ---- positions in a line ---- */

/* Finds the first position of the line whose id is `id` or higher. Returns its index, counted from
 * line->first. Returns line->count if there is no such position. */
static size_t search_id(const struct wr_queue_line *line, uint64_t id)
{
	const struct wr_queue_position *positions = line->positions + line->first;
	size_t low = 0, high = line->count;

	if (high == 0 || positions[0].id >= id)
		return 0;
	if (positions[high - 1].id < id)
		return high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (positions[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct wr_queue_position *find_position(const struct wr_queue_line *line, uint64_t id)
{
	size_t at = search_id(line, id);
	struct wr_queue_position *position = line->positions + line->first + at;

	return at < line->count && position->id == id ? position : NULL;
}

size_t wr_queue_line_position_of(const struct wr_queue_line *line, uint64_t id)
{
	const struct wr_queue_position *position = find_position(line, id);

	wr_assert(line->positions || line->count == 0);
	return position ? (size_t)(position - line->positions) - line->first + 1 : 0;
}

/* Makes room for one more position. If the last element of the array is unused, there is room
 * already. If it is used, and more than half of the array is unused at its front, moves the
 * positions to the front. In all other cases doubles the array. Returns false if memory is
 * exhausted. */
static bool make_room(struct wr_queue_line *line)
{
	size_t cap = line->cap ? 2 * line->cap : POSITIONS_MIN;
	struct wr_queue_position *positions;

	if (line->first + line->count < line->cap)
		return true;
	if (line->first > line->cap / 2) {
		memmove(line->positions, line->positions + line->first,
			line->count * sizeof *line->positions);
		line->first = 0;
		return true;
	}
	positions = realloc(line->positions, cap * sizeof *positions);
	if (!positions)
		return false;
	line->positions = positions;
	line->cap = cap;
	return true;
}

/* Inserts a position. The caller has made room with make_room(). */
static void insert_position(struct wr_queue_line *line, struct wr_queue_position position)
{
	size_t at = search_id(line, position.id);
	struct wr_queue_position *to = line->positions + line->first + at;
	bool has_end = line->first + line->count < line->cap;

	if (line->first > 0 && (at == 0 || !has_end)) {
		memmove(line->positions + line->first - 1, line->positions + line->first,
			at * sizeof *to);
		line->first--;
		to--;
	} else {
		memmove(to + 1, to, (line->count - at) * sizeof *to);
	}
	*to = position;
	line->count++;
	line->held += position.bytes;
}

static void erase_position(struct wr_queue_line *line, const struct wr_queue_position *position)
{
	size_t at = (size_t)(position - line->positions) - line->first;
	struct wr_queue_position *from = line->positions + line->first + at;

	line->count--;
	line->held -= position->bytes;
	if (at == 0)
		line->first++;
	else
		memmove(from, from + 1, (line->count - at) * sizeof *from);
}

/* ---- changes ---- */

/* Adds an entry to the undo log. Called before the change is made. Returns false if memory is
 * exhausted. */
static bool log_change(struct wr_queue_lines *lines, struct wr_queue_line *line,
		       enum change_kind kind, struct wr_queue_position position)
{
	struct wr_queue_lines_change change = {line,         kind,        position,   line->head,
					       line->due_us, line->fence, line->bytes};

	return wr_buf_add(&lines->undo_log, &change, sizeof change);
}

static void set_head(struct wr_queue_line *line, struct wr_queue_position position)
{
	line->head = position.id;
	line->due_us = position.due_us;
	line->fence = line->bytes = 0;
}

bool wr_queue_lines_join(struct wr_queue_lines *lines, const uint8_t *key,
			 struct wr_queue_position position)
{
	struct wr_queue_line *line = find_line(lines, key);
	bool is_new = !line;

	if (is_new)
		line = make_line(lines, key);
	if (!line)
		return false;
	if (!make_room(line) || !log_change(lines, line, JOINED, position)) {
		if (is_new) /* a new line can be freed, because the undo log does not refer to it */
			free_line(lines, line);
		return false;
	}
	insert_position(line, position);
	if (line->count == 1 || (!line->fence && position.id < line->head))
		set_head(line, position);
	update_heap(lines, line);
	return true;
}

bool wr_queue_lines_leave(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id)
{
	struct wr_queue_position *position = find_position(line, id);

	wr_assert(line->count > 0);
	if (!position)
		return true;
	if (!log_change(lines, line, LEFT, *position))
		return false;
	erase_position(line, position);
	if (line->count && line->head == id)
		set_head(line, line->positions[line->first]);
	update_heap(lines, line);
	return true;
}

bool wr_queue_lines_take(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t fence,
			 uint64_t bytes)
{
	wr_assert(line->count > 0);
	if (!log_change(lines, line, OTHER, (struct wr_queue_position){0}))
		return false;
	line->fence = fence;
	line->bytes = bytes;
	update_heap(lines, line);
	return true;
}

bool wr_queue_lines_set_due(struct wr_queue_lines *lines, struct wr_queue_line *line, uint64_t id,
			    uint64_t due_us)
{
	struct wr_queue_position *position = find_position(line, id);

	wr_assert(line->count > 0);
	if (!position)
		return true;
	if (!log_change(lines, line, OTHER, *position))
		return false;
	position->due_us = due_us;
	if (line->head == id)
		set_head(line, *position);
	update_heap(lines, line);
	return true;
}

/* ---- commit and rollback ---- */

/* Frees empty lines and clears the undo log. Empty lines were not freed earlier, because entries of
 * the undo log may refer to them. */
void wr_queue_lines_commit(struct wr_queue_lines *lines)
{
	struct wr_queue_lines_change *changes = (struct wr_queue_lines_change *)lines->undo_log.ptr;
	size_t count = lines->undo_log.len / sizeof *changes, empty = 0;

	wr_assert(lines->undo_log.len % sizeof *changes == 0);
	for (size_t i = 0; i < count; i++) {
		struct wr_queue_line *line = changes[i].line;

		if (line->count || line->empty)
			continue;
		line->empty = true;
		changes[empty++].line = line;
	}
	for (size_t i = 0; i < empty; i++)
		free_line(lines, changes[i].line);
	wr_buf_clear(&lines->undo_log);
}

/* Undoes one change. Inserting a position again cannot fail, because the arrays never shrink. */
static void undo_change(struct wr_queue_lines *lines, const struct wr_queue_lines_change *change)
{
	struct wr_queue_line *line = change->line;
	struct wr_queue_position *position = find_position(line, change->position.id);

	if (change->kind == LEFT)
		insert_position(line, change->position);
	else if (position && change->kind == JOINED)
		erase_position(line, position);
	else if (position)
		*position = change->position;
	line->head = change->head;
	line->due_us = change->due_us;
	line->fence = change->fence;
	line->bytes = change->bytes;
	update_heap(lines, line);
}

void wr_queue_lines_roll_back(struct wr_queue_lines *lines)
{
	const struct wr_queue_lines_change *changes =
		(const struct wr_queue_lines_change *)lines->undo_log.ptr;

	for (size_t i = lines->undo_log.len / sizeof *changes; i-- > 0;)
		undo_change(lines, &changes[i]);
	wr_queue_lines_commit(lines);
}

/* ---- all lines ---- */

const struct wr_queue_line *wr_queue_lines_next(const struct wr_queue_lines *lines,
						const struct wr_queue_line *before)
{
	const struct wr_queue_line *line = before ? before->next : NULL;
	size_t bucket = before ? bucket_of(lines, before->key) + 1 : 0;

	while (!line && bucket < lines->bucket_count)
		line = lines->buckets[bucket++];
	return line;
}

void wr_queue_lines_init(struct wr_queue_lines *lines)
{
	*lines = (struct wr_queue_lines){0};
	wr_heap_init(&lines->heap, is_before, SIZE_MAX);
	wr_buf_init(&lines->undo_log, SIZE_MAX / 4);
}

void wr_queue_lines_clear(struct wr_queue_lines *lines)
{
	for (size_t i = 0; i < lines->bucket_count; i++) {
		struct wr_queue_line *next;

		for (struct wr_queue_line *line = lines->buckets[i]; line; line = next) {
			next = line->next;
			free(line->positions);
			free(line);
		}
	}
	free(lines->buckets);
	wr_heap_free(&lines->heap);
	wr_buf_free(&lines->undo_log);
	wr_queue_lines_init(lines);
}
