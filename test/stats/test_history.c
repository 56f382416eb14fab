/* History: points of seconds and minutes, gaps, clocks that step back, processes that die during a
 * tick. */
#include "helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rule with its expected points. */
struct scene {
	struct weir_table *table;
	struct wr_stats *stats;
	uint32_t slot;
};

static int tick(struct weir_table *table, uint64_t second)
{
	return weir_tick(table, (START_S + second) * SECOND_NS);
}

/* The first tick is before the rule exists. */
static struct scene open_scene(void)
{
	struct scene scene = {.table = table_of(4 << 20)};

	scene.stats = open_stats(scene.table);
	scene.slot = wr_stats_slot(scene.stats, WR_STR("api/user/1s"));
	assert_int_equal(tick(scene.table, 0), 1);
	return scene;
}

static void close_scene(struct scene *scene)
{
	close_stats(scene->stats);
	weir_close(scene->table);
}

/* Reads the last `count` points, which must exist. */
static uint64_t last_points(struct scene *scene, enum weir_span span, struct weir_point *points,
			    size_t count)
{
	uint64_t end_s = 0;

	assert_int_equal(weir_history(scene->table, scene->slot, span, points, count, &end_s),
			 count);
	return end_s - START_S;
}

/* Packed counts up to 4,095 are exact. Larger counts are off by at most 1/4096. A known point is
 * never packed as 0. */
static void packed_counts(void **state)
{
	uint64_t random = 1;

	for (uint64_t n = 0; n < 4096; n++) {
		struct weir_point point =
			wr_point_unpack(wr_point_pack((uint64_t[]){n, 4095 - n, 0, n}));

		assert_int_equal(point.admitted, n);
		assert_int_equal(point.refused, 4095 - n);
		assert_int_equal(point.shadowed, 0);
		assert_int_equal(point.delayed, n);
		assert_int_equal(point.known, 1);
	}
	for (int i = 0; i < 100000; i++) {
		uint64_t n = random_from(&random) >> (24 + i % 40);
		struct weir_point point = wr_point_unpack(wr_point_pack((uint64_t[]){0, n, 0, 0}));
		uint64_t error = point.refused > n ? point.refused - n : n - point.refused;

		assert_true(error <= n / 4096);
		assert_int_equal(point.admitted, 0);
	}
	assert_int_equal(
		wr_point_unpack(wr_point_pack((uint64_t[]){4096, 4097, 8191, 8193})).admitted,
		4096);
	assert_int_equal(wr_point_unpack(wr_point_pack((uint64_t[]){0, 0, 8191, 0})).shadowed,
			 8192);
	/* Counts above the maximum are packed as the maximum. */
	assert_int_equal(wr_point_unpack(wr_point_pack((uint64_t[]){UINT64_MAX, 0, 0, 0})).admitted,
			 4094ull << 30);
	assert_int_equal(wr_point_unpack(0).known, 0);
	(void)state;
}

static void seconds_and_minutes(void **state)
{
	struct scene scene = open_scene();
	struct weir_point points[600];
	uint64_t end_s;

	/* Three decisions with one refusal in second 0, none in second 1, a delayed one in second
	 * 2. */
	assert_int_equal(weir_history(scene.table, scene.slot, WEIR_SECONDS, points, 600, &end_s),
			 WEIR_ENOENT);
	add(scene.stats, scene.slot, WR_STAT_admitted, 2);
	add(scene.stats, scene.slot, WR_STAT_deferred, 1);
	assert_int_equal(tick(scene.table, 1), 1);
	assert_int_equal(tick(scene.table, 1), 0);
	assert_int_equal(tick(scene.table, 2), 1);
	add(scene.stats, scene.slot, WR_STAT_admitted, 1);
	add(scene.stats, scene.slot, WR_STAT_delayed, 1);
	add(scene.stats, scene.slot, WR_STAT_shadowed, 4);
	assert_int_equal(tick(scene.table, 3), 1);
	assert_int_equal(last_points(&scene, WEIR_SECONDS, points, 4), 3);
	assert_int_equal(points[0].known, 0);
	assert_int_equal(points[1].admitted, 2);
	assert_int_equal(points[1].refused, 1);
	assert_int_equal(points[2].known, 1);
	assert_int_equal(points[2].admitted, 0);
	assert_int_equal(points[3].admitted, 1);
	assert_int_equal(points[3].delayed, 1);
	assert_int_equal(points[3].shadowed, 4);
	/* A minute has a point when it is over. */
	last_points(&scene, WEIR_MINUTES, points, 1);
	assert_int_equal(points[0].known, 0);
	for (uint64_t s = 4; s <= 61; s++) {
		add(scene.stats, scene.slot, WR_STAT_admitted, 50);
		assert_int_equal(tick(scene.table, s), 1);
	}
	assert_int_equal(last_points(&scene, WEIR_MINUTES, points, 2), 60);
	assert_int_equal(points[0].known, 0);
	assert_int_equal(points[1].admitted, 3 + 57 * 50);
	assert_int_equal(points[1].refused, 1);
	assert_int_equal(points[1].shadowed, 4);
	/* 61 seconds are known, the rest of ten minutes is not. */
	assert_int_equal(last_points(&scene, WEIR_SECONDS, points, 600), 61);
	assert_int_equal(points[538].known, 0);
	assert_int_equal(points[539].admitted, 2);
	assert_int_equal(points[599].admitted, 50);
	close_scene(&scene);
	(void)state;
}

/* The sum of all rules exists from the first second on, and does not include candidates. */
static void all_rules(void **state)
{
	struct scene scene = open_scene();
	uint32_t other = wr_stats_slot(scene.stats, WR_STR("api/ip/1m"));
	uint32_t candidate = wr_stats_slot_of(scene.stats, WR_NAME_CANDIDATE, WR_STR("9 x"));
	struct weir_point point;
	uint64_t end_s;

	add(scene.stats, scene.slot, WR_STAT_admitted, 2);
	add(scene.stats, other, WR_STAT_admitted, 3);
	add(scene.stats, other, WR_STAT_refused, 5);
	add(scene.stats, WEIR_STAT_NO_DOMAIN, WR_STAT_admitted, 7);
	add(scene.stats, candidate, WR_STAT_admitted, 1000);
	tick(scene.table, 1);
	assert_int_equal(weir_history(scene.table, WEIR_STAT_ALL, WEIR_SECONDS, &point, 1, &end_s),
			 1);
	assert_int_equal(point.admitted, 12);
	assert_int_equal(point.refused, 5);
	/* A candidate has its own history. */
	assert_int_equal(weir_history(scene.table, candidate, WEIR_SECONDS, &point, 1, &end_s), 1);
	assert_int_equal(point.admitted, 1000);
	close_scene(&scene);
	(void)state;
}

/* Ticks at irregular times: the counts are divided evenly among the seconds between two ticks. */
static void irregular_ticks(void **state)
{
	enum { SPAN = 4 * 3600 };
	static uint64_t even[SPAN + 1]; /* expected count of a second, rounded down */
	static struct weir_point points[1440];
	struct scene scene = open_scene();
	uint64_t random = 7, now = 0, end, sum = 0, reported = 0;

	while (now < SPAN - 600) {
		uint64_t gap = random_from(&random) % 20 ? 1 : 1 + random_from(&random) % 600;
		uint64_t n = random_from(&random) % 3000;

		add(scene.stats, scene.slot, WR_STAT_admitted, n);
		for (uint64_t i = 0; i < gap; i++)
			even[now + i] = n / gap;
		now += gap;
		sum += n;
		assert_int_equal(tick(scene.table, now), 1);
	}
	end = last_points(&scene, WEIR_SECONDS, points, 600);
	assert_int_equal(end, now);
	for (size_t i = 0; i < 600; i++)
		assert_in_range(points[i].admitted, even[end - 600 + i], even[end - 600 + i] + 1);
	/* Minutes have the exact counts, up to rounding. */
	end = last_points(&scene, WEIR_MINUTES, points, 1440) / 60;
	assert_int_equal(end, now / 60);
	for (size_t i = 1440 - end; i < 1440; i++) {
		assert_int_equal(points[i].known, 1);
		reported += points[i].admitted;
	}
	for (uint64_t s = now / 60 * 60; s < now; s++)
		reported += even[s];
	assert_true(reported <= sum + sum / 4096 && reported >= sum - sum / 4096 - 600);
	close_scene(&scene);
	(void)state;
}

/* Without ticks for more than ten minutes the points are unknown. Totals are complete. */
static void long_gap(void **state)
{
	struct scene scene = open_scene();
	struct weir_point points[600];

	for (uint64_t s = 1; s <= 120; s++) {
		add(scene.stats, scene.slot, WR_STAT_admitted, 1);
		tick(scene.table, s);
	}
	add(scene.stats, scene.slot, WR_STAT_admitted, 1000);
	assert_int_equal(tick(scene.table, 120 + 601), 1);
	add(scene.stats, scene.slot, WR_STAT_admitted, 5);
	assert_int_equal(tick(scene.table, 722), 1);
	assert_int_equal(last_points(&scene, WEIR_SECONDS, points, 600), 722);
	for (size_t i = 0; i < 599; i++)
		assert_int_equal(points[i].known, 0);
	assert_int_equal(points[599].admitted, 5);
	assert_int_equal(last_points(&scene, WEIR_MINUTES, points, 12), 720);
	assert_int_equal(points[0].admitted, 60);
	assert_int_equal(points[1].admitted, 60);
	for (size_t i = 2; i < 12; i++)
		assert_int_equal(points[i].known, 0);
	assert_int_equal(total(scene.table, "api/user/1s").admitted, 1125);
	close_scene(&scene);
	(void)state;
}

static void clock_steps_back(void **state)
{
	struct scene scene = open_scene();
	struct weir_point points[600];

	for (uint64_t s = 1; s <= 1000; s++) {
		add(scene.stats, scene.slot, WR_STAT_admitted, 1);
		tick(scene.table, s);
	}
	/* Small differences between clocks of processes have no effect. */
	assert_int_equal(tick(scene.table, 995), 0);
	/* The clock steps back a hundred seconds: these points are erased and recorded again. */
	add(scene.stats, scene.slot, WR_STAT_admitted, 1);
	assert_int_equal(tick(scene.table, 900), 1);
	assert_int_equal(last_points(&scene, WEIR_SECONDS, points, 600), 900);
	for (size_t i = 0; i < 600; i++) /* the oldest points were overwritten by the erased ones */
		assert_int_equal(points[i].known, i >= 100);
	assert_int_equal(points[599].admitted, 1);
	assert_int_equal(last_points(&scene, WEIR_MINUTES, points, 15), 900);
	assert_int_equal(points[14].admitted, 60);
	add(scene.stats, scene.slot, WR_STAT_admitted, 7);
	assert_int_equal(tick(scene.table, 901), 1);
	last_points(&scene, WEIR_SECONDS, points, 2);
	assert_int_equal(points[0].admitted, 1);
	assert_int_equal(points[1].admitted, 7);
	for (uint64_t s = 902; s <= 960; s++)
		tick(scene.table, s);
	last_points(&scene, WEIR_MINUTES, points, 1);
	assert_int_equal(points[0].admitted, 7); /* counts since the clock stepped back */
	close_scene(&scene);
	(void)state;
}

/* The process that claimed a second is dead. After three seconds another process replaces the
 * claim, and no count is lost. */
static void claim_of_a_dead_process(void **state)
{
	struct scene scene = open_scene();
	uint64_t *claim = &scene.stats->map.history.header->claim;
	struct weir_point points[4];

	add(scene.stats, scene.slot, WR_STAT_admitted, 1);
	tick(scene.table, 1);
	*claim = (START_S + 2) << 24 | 77;
	add(scene.stats, scene.slot, WR_STAT_admitted, 30);
	assert_int_equal(tick(scene.table, 2), 0);
	assert_int_equal(tick(scene.table, 4), 0);
	assert_int_equal(tick(scene.table, 5), 1);
	assert_int_equal(*claim, 0);
	assert_int_equal(last_points(&scene, WEIR_SECONDS, points, 4), 5);
	for (size_t i = 0; i < 4; i++)
		assert_in_range(points[i].admitted, 7, 8);
	assert_int_equal(points[0].admitted + points[1].admitted + points[2].admitted +
				 points[3].admitted,
			 30);
	/* A claim from the future is from before the clock was set back. */
	*claim = (START_S + 1000) << 24 | 77;
	assert_int_equal(tick(scene.table, 6), 1);
	close_scene(&scene);
	(void)state;
}

/* Processes are killed during ticks: the history continues and never exceeds the totals. */
static void processes_killed_during_ticks(void **state)
{
	enum { ROUNDS = 40 };
	struct scene scene = open_scene();
	uint64_t *tick_s = &scene.stats->map.history.header->tick_s;
	static struct weir_point points[600];
	uint64_t reported = 0, before = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t from = *tick_s - START_S;
		pid_t child = fork();

		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends with a failed test */
			for (uint64_t s = from + 1;; s++) {
				add(scene.stats, scene.slot, WR_STAT_admitted, 1);
				tick(scene.table, s);
			}
		}
		while (__atomic_load_n(tick_s, __ATOMIC_ACQUIRE) < START_S + from + 3)
			usleep(200);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		/* The claim of the killed process has expired after four seconds. */
		assert_int_equal(tick(scene.table, *tick_s - START_S + 4), 1);
	}
	before = total(scene.table, "api/user/1s").admitted;
	for (uint64_t s = *tick_s - START_S, i = 0; i < 10; i++) {
		add(scene.stats, scene.slot, WR_STAT_admitted, 3);
		assert_int_equal(tick(scene.table, s + i + 1), 1);
	}
	assert_int_equal(total(scene.table, "api/user/1s").admitted, before + 30);
	last_points(&scene, WEIR_SECONDS, points, 600);
	for (size_t i = 0; i < 600; i++)
		reported += points[i].admitted;
	assert_true(reported >= 30 && reported <= before + 30);
	for (size_t i = 590; i < 600; i++)
		assert_int_equal(points[i].admitted, 3);
	close_scene(&scene);
	(void)state;
}

/* ---- threads ---- */

struct crowd {
	struct scene scene;
	pthread_barrier_t gate;
	uint64_t last_s;
	uint32_t done; /* ticks that did the work */
	bool stop;
};

static void *tick_along(void *arg)
{
	struct crowd *crowd = arg;

	for (uint64_t s = 1; s <= crowd->last_s; s++) {
		pthread_barrier_wait(&crowd->gate);
		add(crowd->scene.stats, crowd->scene.slot, WR_STAT_admitted, 1);
		pthread_barrier_wait(&crowd->gate);
		if (tick(crowd->scene.table, s) == 1)
			__atomic_fetch_add(&crowd->done, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *read_along(void *arg)
{
	static struct weir_point points[600];
	struct crowd *crowd = arg;
	uint64_t end_s;

	while (!__atomic_load_n(&crowd->stop, __ATOMIC_RELAXED)) {
		int count = weir_history(crowd->scene.table, crowd->scene.slot, WEIR_SECONDS,
					 points, 600, &end_s);

		for (int i = 0; i < count; i++)
			if (points[i].known && points[i].admitted != 4)
				abort();
	}
	return NULL;
}

static void concurrent_ticks(void **state)
{
	struct crowd crowd = {.scene = open_scene(), .last_s = 700};
	pthread_t tickers[4], reader;
	struct weir_point points[600];

	pthread_barrier_init(&crowd.gate, NULL, 4);
	pthread_create(&reader, NULL, read_along, &crowd);
	for (int i = 0; i < 4; i++)
		pthread_create(&tickers[i], NULL, tick_along, &crowd);
	for (int i = 0; i < 4; i++)
		pthread_join(tickers[i], NULL);
	__atomic_store_n(&crowd.stop, true, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	pthread_barrier_destroy(&crowd.gate);
	assert_int_equal(crowd.done, 700);
	assert_int_equal(last_points(&crowd.scene, WEIR_SECONDS, points, 600), 700);
	for (int i = 0; i < 600; i++)
		assert_int_equal(points[i].admitted, 4);
	close_scene(&crowd.scene);
	(void)state;
}

/* ---- rules with a history ---- */

#define RULES 5000

static uint32_t slots[RULES];

static bool has_history(struct weir_table *table, int rule)
{
	struct weir_point point;
	uint64_t end_s;

	return weir_history(table, slots[rule], WEIR_SECONDS, &point, 1, &end_s) == 1;
}

static int with_history(struct weir_table *table, int from, int to)
{
	int count = 0;

	for (int i = from; i < to; i++)
		count += has_history(table, i);
	return count;
}

/* Runs a tick after ten decisions of each of the rules [from, from + 400) and one of each other
 * rule. */
static void busy_second(struct weir_table *table, struct wr_stats *stats, int from, uint64_t s)
{
	for (int i = 0; i < RULES; i++)
		add(stats, slots[i], WR_STAT_admitted, i >= from && i < from + 400 ? 10 : 1);
	assert_int_equal(tick(table, s), 1);
}

/* 400 of 5,000 rules have a history: those with the highest rates, after a short time. */
static void busiest_rules_have_a_history(void **state)
{
	struct weir_table *table = table_of(64 << 20);
	struct wr_stats *stats = open_stats(table);
	struct weir_stats_info info = {.size = sizeof info};
	uint64_t s = 0;

	for (int i = 0; i < RULES; i++) {
		char name[32];

		snprintf(name, sizeof name, "api/user=%d/1s", i);
		slots[i] = wr_stats_slot(stats, wr_str(name));
		assert_true(slots[i] >= WEIR_STAT_RULES);
	}
	tick(table, s);
	while (s < 20)
		busy_second(table, stats, 1000, ++s);
	assert_int_equal(with_history(table, 1000, 1400), 400);
	assert_int_equal(with_history(table, 0, RULES), 400);
	/* Other rules become faster and take over series, a few in each second. */
	while (s < 320)
		busy_second(table, stats, 3000, ++s);
	assert_int_equal(with_history(table, 3000, 3400), 400);
	assert_int_equal(with_history(table, 0, RULES), 400);
	assert_int_equal(weir_stats_info(table, &info), 0);
	assert_int_equal(info.history, 400);
	assert_int_equal(info.history_used, 400);
	assert_int_equal(info.names_used, RULES + WEIR_STAT_RULES);
	assert_int_equal(info.lanes_used, 1);
	assert_int_equal(info.lines_used, RULES);
	assert_int_equal(info.rule_bytes, 20091);
	assert_int_equal(info.ticked_ns, (START_S + 320) * SECOND_NS);
	/* This rule had ten decisions per second for more than a minute. */
	assert_in_range(total(table, "api/user=3000/1s").recent_milli, 9500, 10000);
	assert_int_equal(total(table, "api/user=3000/1s").flags & WEIR_STAT_HISTORY, 1);
	assert_int_equal(total(table, "api/user=0/1s").flags & WEIR_STAT_HISTORY, 0);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* A process was killed while it gave a series away or retired one: the series is not lost. */
static void interrupted_transfer_of_a_series(void **state)
{
	struct weir_table *table = table_of(1 << 20); /* a table of this size has six series */
	struct wr_stats *stats = open_stats(table);
	struct wr_history_map *history = &stats->map.history;
	struct weir_stats_info info = {.size = sizeof info};

	for (int i = 0; i < 6; i++) {
		char name[32];

		snprintf(name, sizeof name, "api/%d", i);
		slots[i] = wr_stats_slot(stats, wr_str(name));
	}
	for (uint64_t s = 0; s < 6; s++) {
		for (int i = 0; i < 6; i++)
			add(stats, slots[i], WR_STAT_admitted, 1);
		tick(table, s);
		assert_int_equal(with_history(table, 0, 6), s == 0 ? 0 : s == 3 ? 5 : 6);
		if (s == 2) {
			history->track[slots[0]] = 0; /* killed while the series was retired */
			history->series[wr_track_series(history->track[slots[1]])].owner = 0;
			history->track[slots[1]] = 7; /* a series that does not exist */
		}
	}
	weir_stats_info(table, &info);
	assert_int_equal(info.history_used, 6);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* since_ns is the time when the rule was first loaded with its current limit. */
static void age_of_a_rule(void **state)
{
	struct weir_table *table = table_of(1 << 20);
	struct wr_stats *stats = open_stats(table);
	struct wr_rule_numbers note = {.loaded_ns = 10, .limit = 5, .period_ns = SECOND_NS};
	uint32_t slot = wr_stats_slot(stats, WR_STR("a/b"));

	wr_stats_set_numbers(stats, slot, &note);
	assert_int_equal(total(table, "a/b").since_ns, 10);
	note.loaded_ns = 20;
	wr_stats_set_numbers(stats, slot, &note);
	assert_int_equal(total(table, "a/b").since_ns, 10);
	assert_int_equal(total(table, "a/b").loaded_ns, 20);
	note.loaded_ns = 30;
	note.limit = 6;
	wr_stats_set_numbers(stats, slot, &note);
	assert_int_equal(total(table, "a/b").since_ns, 30);
	close_stats(stats);
	weir_close(table);
	(void)state;
}

/* Small tables have fewer series, and weir_stats_info() reports how many. */
static void small_tables(void **state)
{
	static const struct {
		uint64_t bytes;
		uint32_t history;
	} sizes[] = {
		{256 << 10, 0}, {1 << 20, 6}, {4 << 20, 28}, {64 << 20, 400}, {256 << 20, 400}};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct weir_table *table = table_of(sizes[i].bytes);
		struct wr_stats *stats = open_stats(table);
		struct weir_stats_info info = {.size = sizeof info};
		uint32_t slot = wr_stats_slot(stats, WR_STR("a/b"));
		struct weir_point point;
		uint64_t end_s;

		assert_int_equal(weir_stats_info(table, &info), 0);
		assert_int_equal(info.history, sizes[i].history);
		tick(table, 0);
		add(stats, slot, WR_STAT_admitted, 1);
		assert_int_equal(tick(table, 1), 1);
		assert_int_equal(
			weir_history(table, WEIR_STAT_ALL, WEIR_SECONDS, &point, 1, &end_s), 1);
		assert_int_equal(weir_history(table, slot, WEIR_SECONDS, &point, 1, &end_s),
				 sizes[i].history ? 1 : WEIR_ENOENT);
		close_stats(stats);
		weir_close(table);
	}
	(void)state;
}

/* Damaged sections never cause an access outside of them. */
static void damaged_sections(void **state)
{
	struct scene scene = open_scene();
	struct wr_history_map *history = &scene.stats->map.history;
	uint64_t random = 3, end_s;
	struct weir_point points[600];

	for (int round = 0; round < 20; round++) {
		uint64_t *words = (uint64_t *)history->used;
		size_t count = (size_t)((uint64_t *)history->series - words);

		for (size_t i = 0; i < count; i++)
			words[i] = random_from(&random) >> round * 3;
		for (uint32_t i = 0; i < history->series_count; i++)
			for (size_t j = 0; j < 16; j++)
				((uint64_t *)&history->series[i])[j] =
					random_from(&random) >> (20 + round * 2);
		history->header->tick_s = random_from(&random) >> round * 3;
		history->header->claim = 0;
		tick(scene.table, (uint64_t)round);
		for (uint32_t slot = 0; slot < scene.stats->map.name_count; slot++)
			weir_history(scene.table, slot, WEIR_SECONDS, points, 600, &end_s);
	}
	close_scene(&scene);
	(void)state;
}

static void wrong_arguments(void **state)
{
	struct scene scene = open_scene();
	struct weir_point point;
	uint64_t end_s;

	assert_int_equal(weir_tick(NULL, 0), WEIR_EINVAL);
	assert_int_equal(weir_tick(scene.table, UINT64_MAX), WEIR_ETIME);
	assert_int_equal(weir_history(NULL, 9, WEIR_SECONDS, &point, 1, &end_s), WEIR_EINVAL);
	assert_int_equal(weir_history(scene.table, 9, 7, &point, 1, &end_s), WEIR_EINVAL);
	assert_int_equal(weir_history(scene.table, 9, WEIR_SECONDS, NULL, 1, &end_s), WEIR_EINVAL);
	assert_int_equal(weir_history(scene.table, 1u << 30, WEIR_SECONDS, &point, 1, &end_s),
			 WEIR_ENOENT);
	scene.stats->map.header->version = 1;
	assert_int_equal(weir_tick(scene.table, START_S * SECOND_NS), WEIR_ELAYOUT);
	assert_int_equal(weir_history(scene.table, 9, WEIR_SECONDS, &point, 1, &end_s),
			 WEIR_ELAYOUT);
	close_scene(&scene);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packed_counts),
		cmocka_unit_test(seconds_and_minutes),
		cmocka_unit_test(all_rules),
		cmocka_unit_test(irregular_ticks),
		cmocka_unit_test(long_gap),
		cmocka_unit_test(clock_steps_back),
		cmocka_unit_test(claim_of_a_dead_process),
		cmocka_unit_test(processes_killed_during_ticks),
		cmocka_unit_test(concurrent_ticks),
		cmocka_unit_test(busiest_rules_have_a_history),
		cmocka_unit_test(interrupted_transfer_of_a_series),
		cmocka_unit_test(age_of_a_rule),
		cmocka_unit_test(small_tables),
		cmocka_unit_test(damaged_sections),
		cmocka_unit_test(wrong_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
