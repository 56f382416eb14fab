/* Counts are exact: with many threads and processes, after exits and kill -9, and when no lane,
 * line or name is free. */
#include "helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct found {
	const char *rule;
	struct weir_stat stat;
	int count, others;
};

static int find(void *context, const struct weir_stat *stat)
{
	struct found *found = context;

	found->count++;
	if (wr_str_equal(stat->rule, wr_str(found->rule)))
		found->stat = *stat;
	return 0;
}

static unsigned lanes_owned(const struct wr_stats *stats)
{
	unsigned count = 0;

	for (unsigned lane = 1; lane < WR_LANES; lane++)
		count += stats->map.owners[lane].lo != 0;
	return count;
}

static uintptr_t at(const void *pointer)
{
	return (uintptr_t)pointer;
}

/* For every table size the parts fit in their sections and do not overlap. */
static void sizes(void **state)
{
	static const uint64_t sizes[] = {256 << 10, 1 << 20, 5 << 20, 64 << 20};
	static const uint32_t names[] = {32, 128, 512, 8192};

	for (size_t i = 0; i < 4; i++) {
		struct weir_table *table = table_of(sizes[i]);
		struct wr_stats_map map;
		const uint8_t *end = table->base + table->header.sections[WR_SECTION_LANES].offset +
				     table->header.sections[WR_SECTION_LANES].bytes;

		assert_true(wr_stats_map(table, &map));
		assert_int_equal(map.name_count, names[i]);
		assert_true((uintptr_t)map.shared % 64 == 0);
		assert_true(at(&map.owners[WR_LANES]) <= at(map.names));
		assert_true(at(&map.names[map.name_count]) <= at(map.shared));
		assert_true(at(&map.shared[map.name_count]) <= at(&map.lines[1]));
		assert_true(at(&map.lines[map.line_count]) <= at(map.index));
		assert_true(at(&map.index[63 * map.name_count]) <= at(end));
		assert_true(map.line_count > 2 * map.name_count);
		weir_close(table);
	}
	(void)state;
}

static void names(void **state)
{
	static const char euro[] = {'\xe2', '\x82', '\xac'};
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats;
	char name[300], shown[2][WEIR_STAT_NAME_BYTES];
	uint32_t slot, longer;
	struct weir_stat stat;

	stats = open_stats(table);
	slot = wr_stats_slot(stats, WR_STR("api/user/1s"));
	assert_true(slot >= WEIR_STAT_RULES);
	assert_int_equal(wr_stats_slot(stats, WR_STR("api/user/1s")), slot);
	assert_int_not_equal(wr_stats_slot(stats, WR_STR("api/user/1m")), slot);
	add(stats, slot, WR_STAT_admitted, 3);
	add(stats, slot, WR_STAT_soft, 1);
	add(stats, WEIR_STAT_NO_DOMAIN, WR_STAT_admitted, 2);
	stat = total(table, "api/user/1s");
	assert_int_equal(stat.admitted, 3);
	assert_int_equal(stat.soft, 1);
	assert_int_equal(stat.refused, 0);
	assert_int_equal(stat.slot, slot);
	assert_int_equal(total(table, "domain_not_found").admitted, 2);
	/* Cut names differ by the hash of the whole name. */
	memset(name, 'n', sizeof name);
	slot = wr_stats_slot(stats, (struct weir_str){name, 200});
	longer = wr_stats_slot(stats, (struct weir_str){name, 201});
	assert_int_not_equal(slot, longer);
	add(stats, slot, WR_STAT_refused, 9);
	assert_int_equal(weir_stats_slot(table, slot, shown[0], &stat), 0);
	assert_int_equal(stat.refused, 9);
	assert_int_equal(weir_stats_slot(table, longer, shown[1], &stat), 0);
	assert_int_equal(strlen(shown[0]), 119);
	assert_memory_equal(shown[0], shown[1], 111); /* then ~ and eight digits, which differ */
	assert_string_not_equal(shown[0], shown[1]);
	/* Names are not cut within a character. */
	memcpy(name + 109, euro, sizeof euro);
	assert_int_equal(weir_stats_slot(table, wr_stats_slot(stats, (struct weir_str){name, 200}),
					 shown[0], &stat),
			 0);
	assert_int_equal(shown[0][108], 'n');
	assert_int_equal(shown[0][109], '~');
	memset(name, 'n', sizeof name);
	slot = wr_stats_slot(stats, (struct weir_str){name, 119});
	add(stats, slot, WR_STAT_refused, 1);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

static int stop_at_once(void *context, const struct weir_stat *stat)
{
	(void)stat;
	return *(int *)context;
}

/* If the directory is full, names share the slot WEIR_STAT_OTHER. */
static void full_directory(void **state)
{
	struct weir_table *table = table_of(256 << 10);
	struct wr_stats *stats;
	uint32_t shared = 0;
	int answer = 42;
	struct found found = {.rule = "none"};

	stats = open_stats(table);
	for (int i = 0; i < 100; i++) {
		char name[32];
		uint32_t slot;

		snprintf(name, sizeof name, "rule/%d", i);
		slot = wr_stats_slot(stats, wr_str(name));
		shared += slot == WEIR_STAT_OTHER;
		add(stats, slot, WR_STAT_admitted, 1);
	}
	assert_int_equal(shared, 100 - (32 - WEIR_STAT_RULES));
	assert_int_equal(total(table, "other").admitted, shared);
	weir_stats_each(table, find, &found);
	assert_int_equal(found.count, 32);
	assert_int_equal(weir_stats_each(table, stop_at_once, &answer), 42);
	assert_int_equal(weir_stats_each(NULL, find, &found), WEIR_EINVAL);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* A process died after it claimed an entry: the next process writes the name. */
static void claimed_entry_without_a_name(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats;
	uint32_t slot;

	stats = open_stats(table);
	slot = wr_stats_slot(stats, WR_STR("a/b"));
	memset(stats->map.names[slot].words, 0, sizeof stats->map.names[slot].words);
	add(stats, slot, WR_STAT_admitted, 1);
	assert_int_equal(total(table, "a/b").admitted, 0); /* the entry has no name */
	assert_int_equal(wr_stats_slot(stats, WR_STR("a/b")), slot);
	assert_int_equal(total(table, "a/b").admitted, 1);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* Statistics of another version are not changed. */
static void statistics_of_another_version(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats;
	struct wr_stats_map map;
	struct found found = {.rule = ""};

	assert_true(wr_stats_map(table, &map));
	map.header->version = 99;
	stats = open_stats(table);
	assert_false(stats->usable);
	assert_int_equal(wr_stats_slot(stats, WR_STR("a/b")), WEIR_STAT_OTHER);
	add(stats, WEIR_STAT_OTHER, WR_STAT_admitted, 1);
	assert_int_equal(map.shared[0].count[0], 0);
	assert_int_equal(weir_stats_each(table, find, &found), WEIR_ELAYOUT);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* ---- threads ---- */

#define THREADS 100 /* more than there are lanes */
#define EACH 5000

struct crowd {
	struct wr_stats *stats;
	uint32_t slots[3];
	pthread_barrier_t *gate;
};

static void *count_much(void *arg)
{
	struct crowd *crowd = arg;

	wr_lane_mine(crowd->stats);
	if (crowd->gate)
		pthread_barrier_wait(crowd->gate);
	for (int i = 0; i < EACH; i++)
		add(crowd->stats, crowd->slots[i % 3], i % 2 ? WR_STAT_admitted : WR_STAT_refused,
		    1);
	return NULL;
}

static void run_threads(struct crowd *crowd, int count)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_much, crowd), 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static uint64_t sum_of(struct weir_table *table, const char *const *rules, int count)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += total(table, rules[i]).admitted + total(table, rules[i]).refused;
	return sum;
}

static const char *const three[] = {"a/1", "a/2", "a/3"};

static void many_threads(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	pthread_barrier_t gate;
	struct wr_stats *stats;
	struct crowd crowd = {.gate = &gate};

	crowd.stats = stats = open_stats(table);
	for (int i = 0; i < 3; i++)
		crowd.slots[i] = wr_stats_slot(stats, wr_str(three[i]));
	pthread_barrier_init(&gate, NULL, THREADS);
	run_threads(&crowd, THREADS);
	pthread_barrier_destroy(&gate);
	assert_int_equal(sum_of(table, three, 3), THREADS * EACH);
	assert_true(stats->map.shared[crowd.slots[0]].count[0] > 0); /* 37 threads had no lane */
	/* Threads release their lanes when they end, so a few lanes suffice for many threads. */
	assert_int_equal(lanes_owned(stats), 0);
	crowd.gate = NULL;
	for (int i = 0; i < 200; i++)
		run_threads(&crowd, 1);
	assert_int_equal(sum_of(table, three, 3), (THREADS + 200) * EACH);
	assert_true(stats->map.header->next_line <= 63 * 3);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* More engines than lanes per thread: the thread changes its lanes often, and no count is lost. */
static void more_engines_than_lanes_per_thread(void **state)
{
	struct weir_table *tables[6];
	struct wr_stats *stats[6];
	uint32_t slots[6];

	for (int i = 0; i < 6; i++) {
		tables[i] = table_of(256 << 10);
		stats[i] = open_stats(tables[i]);
		slots[i] = wr_stats_slot(stats[i], WR_STR("a/b"));
	}
	for (int round = 0; round < 50; round++)
		for (int i = 0; i < 6; i++)
			add(stats[i], slots[i], WR_STAT_admitted, 1);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(total(tables[i], "a/b").admitted, 50);
		assert_true(lanes_owned(stats[i]) <= 1);
	}
	/* A lane of a closed handle is not used for a new handle at the same address. */
	close_stats(stats[0]);
	weir_close(tables[0]);
	tables[0] = table_of(256 << 10);
	stats[0] = open_stats(tables[0]);
	slots[0] = wr_stats_slot(stats[0], WR_STR("a/b"));
	add(stats[0], slots[0], WR_STAT_admitted, 1);
	assert_int_equal(total(tables[0], "a/b").admitted, 1);
	for (int i = 0; i < 6; i++) {
		wr_stats_close(stats[i]);
		assert_int_equal(lanes_owned(stats[i]), 0);
		free(stats[i]);
		weir_close(tables[i]);
	}
	(void)state;
}

/* If no line is free, counts go to the shared lane. */
static void no_free_lines(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats;
	uint32_t slot;

	stats = open_stats(table);
	slot = wr_stats_slot(stats, WR_STR("a/b"));
	stats->map.header->next_line = stats->map.line_count - 2;
	add(stats, slot, WR_STAT_admitted, 1); /* takes the last line */
	slot = wr_stats_slot(stats, WR_STR("a/c"));
	for (int i = 0; i < 10; i++)
		add(stats, slot, WR_STAT_admitted, 1);
	assert_int_equal(stats->map.shared[slot].count[WR_STAT_admitted], 10);
	assert_int_equal(total(table, "a/b").admitted, 1);
	assert_int_equal(total(table, "a/c").admitted, 10);
	assert_int_equal(stats->map.header->next_line, stats->map.line_count - 1);
	/* An invalid index is ignored. */
	stats->map.index[slot] = 65535;
	add(stats, slot, WR_STAT_admitted, 1);
	assert_int_equal(total(table, "a/c").admitted, 11);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* ---- processes ---- */

/* A child reports its count after each decision; it may be killed in between. */
struct progress {
	uint64_t done;
	uint64_t pad[7];
};

static void count_for_ever(struct wr_stats *stats, uint32_t slot, struct progress *progress)
{
	for (;;) {
		add(stats, slot, WR_STAT_admitted, 1);
		__atomic_store_n(&progress->done, progress->done + 1, __ATOMIC_RELEASE);
	}
}

static void killed_processes(void **state)
{
	enum { CHILDREN = 8, ROUNDS = 12 };
	struct weir_table *table = table_of(1 << 20);
	struct progress *progress = mmap(NULL, CHILDREN * ROUNDS * sizeof *progress,
					 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct wr_stats *stats;
	uint64_t sum = 0, counted;
	uint32_t slot;

	stats = open_stats(table);
	slot = wr_stats_slot(stats, WR_STR("a/b"));
	add(stats, slot, WR_STAT_admitted, 1); /* this process has a lane too */
	for (int round = 0; round < ROUNDS; round++) {
		pid_t children[CHILDREN];

		for (int i = 0; i < CHILDREN; i++) {
			children[i] = fork();
			if (children[i] == 0)
				count_for_ever(stats, slot, &progress[round * CHILDREN + i]);
		}
		for (int i = 0; i < CHILDREN; i++)
			while (__atomic_load_n(&progress[round * CHILDREN + i].done,
					       __ATOMIC_ACQUIRE) < 100)
				usleep(500);
		for (int i = 0; i < CHILDREN; i++)
			kill(children[i], SIGKILL);
		for (int i = 0; i < CHILDREN; i++)
			waitpid(children[i], NULL, 0);
		add(stats, slot, WR_STAT_admitted, 1);
	}
	for (int i = 0; i < CHILDREN * ROUNDS; i++)
		sum += progress[i].done;
	counted = total(table, "a/b").admitted;
	/* Each child may have died between counting and reporting. */
	assert_in_range(counted, sum + 1 + ROUNDS, sum + 1 + ROUNDS + CHILDREN * ROUNDS);
	/* There were 96 processes; lanes of dead processes were reused. */
	assert_int_equal(stats->map.shared[slot].count[WR_STAT_admitted], 0);
	close_stats(stats);
	munmap(progress, CHILDREN * ROUNDS * sizeof *progress);
	weir_close(table);
	(void)state;
}

/* A parent and its child have different lanes, and keep them when the other process ends. */
static void forked_child(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats;
	uint32_t slot;
	int status;
	pid_t child;

	stats = open_stats(table);
	slot = wr_stats_slot(stats, WR_STR("a/b"));
	add(stats, slot, WR_STAT_admitted, 1);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 100000; i++)
			add(stats, slot, WR_STAT_admitted, 1);
		close_stats(stats);
		_exit(0);
	}
	for (int i = 0; i < 100000; i++)
		add(stats, slot, WR_STAT_admitted, 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(total(table, "a/b").admitted, 200001);
	assert_int_equal(lanes_owned(stats),
			 1); /* the child released its own lane, not the parent's */
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* A process in another pid namespace counts as alive. */
static void lanes_of_other_namespaces(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats;
	uint32_t slot;
	struct wr_pair mine;

	stats = open_stats(table);
	slot = wr_stats_slot(stats, WR_STR("a/b"));
	add(stats, slot, WR_STAT_admitted, 1);
	mine = stats->map.owners[1];
	/* All other lanes belong to a dead process of another namespace. */
	for (unsigned lane = 2; lane < WR_LANES; lane++)
		stats->map.owners[lane] =
			(struct wr_pair){0x7ffffffeull << 32 | 1, mine.hi ^ 1ull << 63};
	run_threads(&(struct crowd){stats, {slot, slot, slot}, NULL}, 3);
	assert_int_equal(stats->map.shared[slot].count[WR_STAT_admitted] +
				 stats->map.shared[slot].count[WR_STAT_refused],
			 3 * EACH);
	/* Lanes of dead processes in this namespace are reused. A process id with another start
	 * time belongs to another process. */
	stats->map.owners[2] = (struct wr_pair){0x7ffffffeull << 32 | 1, mine.hi};
	stats->map.owners[3] = (struct wr_pair){mine.lo, mine.hi ^ 1};
	run_threads(&(struct crowd){stats, {slot, slot, slot}, NULL}, 1);
	assert_int_equal(stats->map.owners[2].lo, 0);
	assert_int_equal(total(table, "a/b").admitted + total(table, "a/b").refused, 4 * EACH + 1);
	for (unsigned lane = 4; lane < WR_LANES; lane++)
		stats->map.owners[lane] = (struct wr_pair){0, 0};
	close_stats(stats);
	weir_close(table);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(names),
		cmocka_unit_test(full_directory),
		cmocka_unit_test(claimed_entry_without_a_name),
		cmocka_unit_test(statistics_of_another_version),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(more_engines_than_lanes_per_thread),
		cmocka_unit_test(no_free_lines),
		cmocka_unit_test(killed_processes),
		cmocka_unit_test(forked_child),
		cmocka_unit_test(lanes_of_other_namespaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
