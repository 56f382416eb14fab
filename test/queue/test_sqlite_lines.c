/* Compares the lines in memory with a simple oracle: an array of all requests, which is searched
 * linearly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "queue/sqlite_lines.h"

#define KEYS 5u
#define IDS 40u
#define STEPS 20000u

struct dull_line {
	bool waits[IDS + 1];
	uint64_t due_us[IDS + 1];
	uint64_t head, head_due_us, fence;
};

struct dull {
	struct dull_line lines[KEYS];
};

static uint64_t seed = 1;

static unsigned random_below(unsigned most)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % most;
}

static const uint8_t *key_of(unsigned key)
{
	static uint8_t bytes[WR_LINE_KEY_BYTES];

	memset(bytes, 0, sizeof bytes);
	bytes[0] = 64; /* all keys are in one bucket until the table grows */
	bytes[1] = (uint8_t)key;
	return bytes;
}

/* ---- the oracle ---- */

static unsigned count_of(const struct dull_line *line)
{
	unsigned count = 0;

	for (unsigned id = 1; id <= IDS; id++)
		count += line->waits[id];
	return count;
}

static void dull_join(struct dull_line *line, uint64_t id, uint64_t due_us)
{
	bool first = count_of(line) == 0;

	line->waits[id] = true;
	line->due_us[id] = due_us;
	if (!first && (line->fence || id > line->head))
		return;
	line->head = id;
	line->head_due_us = due_us;
	line->fence = 0;
}

static void dull_leave(struct dull_line *line, uint64_t id)
{
	line->waits[id] = false;
	if (line->head != id)
		return;
	line->fence = 0;
	for (unsigned next = IDS; next >= 1; next--)
		if (line->waits[next]) {
			line->head = next;
			line->head_due_us = line->due_us[next];
		}
}

static const struct dull_line *dull_first(const struct dull *dull)
{
	const struct dull_line *first = NULL;

	for (unsigned i = 0; i < KEYS; i++) {
		const struct dull_line *line = &dull->lines[i];

		if (count_of(line) == 0 || line->fence)
			continue;
		if (!first || line->head_due_us < first->head_due_us ||
		    (line->head_due_us == first->head_due_us && line->head < first->head))
			first = line;
	}
	return first;
}

/* Returns the size of the waiting requests. The size of each request is three times its id. */
static uint64_t dull_held(const struct dull_line *line)
{
	uint64_t sum = 0;

	for (uint64_t id = 1; id <= IDS; id++)
		sum += line->waits[id] ? 3 * id : 0;
	return sum;
}

/* ---- both ---- */

static void compare_line(const struct wr_queue_lines *lines, const struct dull *dull, unsigned key)
{
	const struct dull_line *is = &dull->lines[key];
	const struct wr_queue_line *line = wr_queue_lines_find(lines, key_of(key));
	size_t position = 0;

	if (count_of(is) == 0) {
		assert_null(line);
		return;
	}
	assert_non_null(line);
	assert_int_equal(line->count, count_of(is));
	assert_int_equal(line->head, is->head);
	assert_int_equal(line->due_us, is->head_due_us);
	assert_int_equal(line->fence, is->fence);
	assert_int_equal(line->held, dull_held(is));
	for (unsigned id = 1; id <= IDS; id++)
		assert_int_equal(wr_queue_line_position_of(line, id),
				 is->waits[id] ? ++position : 0);
}

static void compare_all(const struct wr_queue_lines *lines, const struct dull *dull)
{
	const struct dull_line *first = dull_first(dull);
	const struct wr_queue_line *line = wr_queue_lines_first(lines);

	for (unsigned key = 0; key < KEYS; key++)
		compare_line(lines, dull, key);
	if (!first) {
		assert_null(line);
		return;
	}
	assert_non_null(line);
	assert_int_equal(line->due_us, first->head_due_us);
	assert_int_equal(line->head, first->head);
}

/* Makes a random change of the lines and of the oracle, if the change is possible. Each id belongs
 * to only one line, as in a file. */
static void make_random_change(struct wr_queue_lines *lines, struct dull *dull)
{
	unsigned key = random_below(KEYS), id = 1 + random_below(IDS / KEYS) * KEYS + key,
		 due_us = random_below(20);
	struct dull_line *is = &dull->lines[key];
	struct wr_queue_line *line = wr_queue_lines_find(lines, key_of(key));
	unsigned what = random_below(4);

	if (id > IDS)
		return;
	if (what == 0 && !is->waits[id]) {
		assert_true(wr_queue_lines_join(lines, key_of(key),
						(struct wr_queue_position){id, due_us, 3ull * id}));
		dull_join(is, id, due_us);
	} else if (what == 1 && is->waits[id]) {
		assert_true(wr_queue_lines_leave(lines, line, id));
		dull_leave(is, id);
	} else if (what == 2 && line && !is->fence) {
		assert_true(wr_queue_lines_take(lines, line, 7 + id, 100));
		is->fence = 7 + id;
	} else if (what == 3 && is->waits[id]) {
		assert_true(wr_queue_lines_set_due(lines, line, id, due_us));
		is->due_us[id] = due_us;
		if (is->head == id) {
			is->head_due_us = due_us;
			is->fence = 0;
		}
	}
}

static void test_like_the_oracle(void **state)
{
	static struct dull dull, before;
	struct wr_queue_lines lines;
	unsigned undone = 0;

	(void)state;
	wr_queue_lines_init(&lines);
	for (unsigned i = 0; i < STEPS; i++) {
		make_random_change(&lines, &dull);
		compare_all(&lines, &dull);
		if (random_below(16) == 0) {
			wr_queue_lines_commit(&lines);
			before = dull;
		} else if (random_below(16) == 0) {
			wr_queue_lines_roll_back(&lines);
			dull = before;
			undone++;
			compare_all(&lines, &dull);
		}
	}
	assert_true(undone > STEPS / 32);
	wr_queue_lines_clear(&lines);
	assert_null(wr_queue_lines_first(&lines));
}

static void test_many_lines(void **state)
{
	struct wr_queue_lines lines;
	const struct wr_queue_line *each = NULL;
	uint8_t key[WR_LINE_KEY_BYTES] = {0};
	uint64_t sum = 0;

	(void)state;
	wr_queue_lines_init(&lines);
	for (uint64_t id = 1; id <= 1000; id++) {
		memcpy(key, &id, sizeof id);
		assert_true(wr_queue_lines_join(&lines, key,
						(struct wr_queue_position){id, 2000 - id, 1}));
	}
	wr_queue_lines_commit(&lines);
	while ((each = wr_queue_lines_next(&lines, each)))
		sum += each->head;
	assert_int_equal(sum, 500500);
	/* The lines are due in the reverse order of their creation. */
	for (uint64_t id = 1000; id >= 1; id--) {
		struct wr_queue_line *line = wr_queue_lines_first(&lines);

		assert_int_equal(line->head, id);
		assert_true(wr_queue_lines_take(&lines, line, id, 0));
		assert_true(wr_queue_lines_leave(&lines, line, id));
		wr_queue_lines_commit(&lines);
		assert_int_equal(lines.line_count, id - 1);
	}
	wr_queue_lines_clear(&lines);
}

/* The memory of a line depends on its waiting requests, not on the requests that have left it. */
static void test_long_line(void **state)
{
	struct wr_queue_lines lines;
	const uint8_t *key = key_of(1);

	(void)state;
	wr_queue_lines_init(&lines);
	for (uint64_t id = 1; id <= 100000; id++) {
		assert_true(
			wr_queue_lines_join(&lines, key, (struct wr_queue_position){id, id, 1}));
		if (id > 10)
			assert_true(wr_queue_lines_leave(&lines, wr_queue_lines_find(&lines, key),
							 id - 10));
		wr_queue_lines_commit(&lines);
	}
	assert_int_equal(wr_queue_lines_find(&lines, key)->count, 10);
	assert_int_equal(wr_queue_lines_find(&lines, key)->head, 99991);
	assert_in_range(wr_queue_lines_find(&lines, key)->cap, 10, 64);
	wr_queue_lines_clear(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_the_oracle),
		cmocka_unit_test(test_many_lines),
		cmocka_unit_test(test_long_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
