/* Top keys: counts are within their bounds for any stream, texts are valid, and many threads may
 * write. */
#include "helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rule that has top keys, because it had a second of traffic. */
struct scene {
	struct weir_table *table;
	struct wr_stats *stats;
	uint32_t slot;
	struct wr_top *top;
};

static struct scene open_scene(void)
{
	struct scene scene = {.table = table_of(1 << 20)};

	scene.stats = open_stats(scene.table);
	scene.slot = wr_stats_slot(scene.stats, WR_STR("api/user/1s"));
	weir_tick(scene.table, START_S * SECOND_NS);
	add(scene.stats, scene.slot, WR_STAT_admitted, 1);
	weir_tick(scene.table, (START_S + 1) * SECOND_NS);
	scene.top = &scene.stats->map.history
			     .tops[wr_track_series(scene.stats->map.history.track[scene.slot]) - 1];
	return scene;
}

static void close_scene(struct scene *scene)
{
	close_stats(scene->stats);
	weir_close(scene->table);
}

static int read_top(struct scene *scene, enum weir_top_list list, struct weir_top_key *keys,
		    uint64_t *sum)
{
	struct weir_top_info info = {.size = sizeof info};
	int count = weir_top(scene->table, scene->slot, list, keys, WEIR_TOP_KEYS, &info);

	*sum = info.total;
	return count;
}

static struct wr_stats_key_text text_of(const char *text)
{
	struct wr_stats_key_text made = {.kind = WEIR_TOP_WHOLE, .len = (uint8_t)strlen(text)};

	memcpy(made.bytes, text, made.len);
	return made;
}

/* ---- against an exact count ---- */

#define KEYS 5000

struct exact {
	uint64_t count[KEYS]; /* exact counts; the hash of key i is i + 1 */
	uint64_t total;
};

static struct exact exact;

static void see(struct scene *scene, unsigned key)
{
	wr_top_add(scene->top, WEIR_TOP_HOT, key + 1, 1, NULL);
	exact.count[key]++;
	exact.total++;
}

/* Counts are never too low and at most `over` too high, which is at most 1/48 of the total. Keys
 * with more than 1/48 are in the list. */
static void check_bounds(struct scene *scene)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	bool there[KEYS] = {false};
	uint64_t sum;
	int count = read_top(scene, WEIR_TOP_HOT, keys, &sum);

	assert_int_equal(sum, exact.total);
	for (int i = 0; i < count; i++) {
		uint64_t real = exact.count[keys[i].hash - 1];

		there[keys[i].hash - 1] = true;
		assert_in_range(real, keys[i].count - keys[i].over, keys[i].count);
		assert_true(keys[i].over <= sum / WEIR_TOP_KEYS);
		assert_int_equal(keys[i].noise, 0);
		assert_true(i == 0 || keys[i - 1].count >= keys[i].count);
	}
	for (unsigned i = 0; i < KEYS; i++)
		assert_true(there[i] || exact.count[i] <= sum / WEIR_TOP_KEYS);
}

static struct scene new_stream(void)
{
	memset(&exact, 0, sizeof exact);
	return open_scene();
}

/* Few keys are counted exactly. */
static void few_keys(void **state)
{
	struct scene scene = new_stream();
	struct weir_top_key keys[WEIR_TOP_KEYS];
	uint64_t sum;

	for (unsigned i = 0; i < WEIR_TOP_KEYS; i++)
		for (unsigned j = 0; j <= i; j++)
			see(&scene, i);
	assert_int_equal(read_top(&scene, WEIR_TOP_HOT, keys, &sum), 48);
	for (unsigned i = 0; i < WEIR_TOP_KEYS; i++) {
		assert_int_equal(keys[i].count, WEIR_TOP_KEYS - i);
		assert_int_equal(keys[i].hash, WEIR_TOP_KEYS - i);
		assert_int_equal(keys[i].over, 0);
	}
	assert_int_equal(sum, 48 * 49 / 2);
	assert_int_equal(weir_top(scene.table, scene.slot, WEIR_TOP_HOT, keys, 3, NULL), 3);
	assert_int_equal(keys[2].count, 46);
	assert_int_equal(read_top(&scene, WEIR_TOP_REFUSED, keys, &sum), 0);
	close_scene(&scene);
	(void)state;
}

/* Key k has a probability proportional to 1/(k + 1). */
static unsigned zipf(uint64_t *random)
{
	static double upto[KEYS];
	double at, all = 0;
	unsigned low = 0, high = KEYS - 1;

	if (upto[KEYS - 1] == 0)
		for (unsigned i = 0; i < KEYS; i++)
			upto[i] = all += 1.0 / (i + 1);
	at = (double)(random_from(random) >> 11) / (double)(1ull << 53) * upto[KEYS - 1];
	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (upto[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void zipf_stream(void **state)
{
	struct scene scene = new_stream();
	struct weir_top_key keys[WEIR_TOP_KEYS];
	uint64_t random = 5, sum;

	for (int i = 0; i < 200000; i++)
		see(&scene, zipf(&random));
	check_bounds(&scene);
	/* Better than the bound: the first keys are in order. */
	read_top(&scene, WEIR_TOP_HOT, keys, &sum);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(keys[i].hash, i + 1);
	close_scene(&scene);
	(void)state;
}

/* Streams that are made to defeat the sketch. */
static void adversarial_streams(void **state)
{
	/* All keys in turn: every entry is replaced continuously. */
	struct scene scene = new_stream();

	for (unsigned i = 0; i < 100000; i++)
		see(&scene, i % KEYS);
	check_bounds(&scene);
	close_scene(&scene);
	/* A frequent key among many new keys, each of which comes twice. */
	scene = new_stream();
	for (unsigned i = 0; i < 100000; i++)
		see(&scene, i % 40 == 0 ? KEYS - 1 : 1 + i / 2 % (KEYS - 2));
	check_bounds(&scene);
	close_scene(&scene);
	/* First rare keys, then as many requests of 60 frequent keys: more keys than entries. */
	scene = new_stream();
	for (unsigned i = 0; i < 50000; i++)
		see(&scene, 100 + i % 4000);
	for (unsigned i = 0; i < 50000; i++)
		see(&scene, i % 60);
	check_bounds(&scene);
	close_scene(&scene);
	/* One key after the other, each with more requests than the key before. */
	scene = new_stream();
	for (unsigned i = 0; i < 400; i++)
		for (unsigned j = 0; j < i; j++)
			see(&scene, i);
	check_bounds(&scene);
	close_scene(&scene);
	(void)state;
}

/* One decision in 16 is sampled: counts are within three standard deviations, plus the error of the
 * sketch. */
static void sampled_counts(void **state)
{
	struct scene scene = new_stream();
	struct weir_top_key keys[WEIR_TOP_KEYS];
	uint64_t random = 11, sum;
	int count;

	scene.top->noise_shift[WEIR_TOP_HOT] = 4;
	for (int i = 0; i < 400000; i++) {
		unsigned key = zipf(&random);

		exact.count[key]++;
		if (random_from(&random) % 16 == 0)
			wr_top_add(scene.top, WEIR_TOP_HOT, key + 1, 16, NULL);
	}
	count = read_top(&scene, WEIR_TOP_HOT, keys, &sum);
	assert_in_range(sum, 395000, 405000);
	for (int i = 0; i < count; i++) {
		uint64_t real = exact.count[keys[i].hash - 1];

		assert_true(real <= keys[i].count + keys[i].noise);
		assert_true(real + keys[i].over + keys[i].noise >= keys[i].count);
	}
	/* Of 44,000 decisions 2,750 are sampled, and the noise is sqrt(2,750) · 3 · 16. */
	assert_int_equal(keys[0].hash, 1);
	assert_in_range(keys[0].noise, 2400, 2800);
	close_scene(&scene);
	(void)state;
}

/* ---- texts ---- */

static const struct weir_top_key *find_key(const struct weir_top_key *keys, int count,
					   uint64_t hash)
{
	for (int i = 0; i < count; i++)
		if (keys[i].hash == hash)
			return &keys[i];
	fail_msg("key %llu is not there", (unsigned long long)hash);
	return NULL;
}

/* The ten keys with the largest counts have texts, even if other keys had texts before. */
static void texts(void **state)
{
	struct scene scene = open_scene();
	struct weir_top_key keys[WEIR_TOP_KEYS];
	uint64_t sum;

	for (unsigned round = 0; round < 50; round++)
		for (unsigned i = 0; i < 40; i++) {
			char name[32];
			struct wr_stats_key_text text;

			snprintf(name, sizeof name, "client %u", i);
			text = text_of(name);
			/* Later keys are more frequent. */
			wr_top_add(scene.top, WEIR_TOP_REFUSED, 100 + i, 1 + i, &text);
		}
	assert_int_equal(read_top(&scene, WEIR_TOP_REFUSED, keys, &sum), 40);
	for (int i = 0; i < 40; i++) {
		char name[32];

		snprintf(name, sizeof name, "client %d", 39 - i);
		assert_int_equal(keys[i].text_kind, i < 10 ? WEIR_TOP_WHOLE : WEIR_TOP_NO_TEXT);
		assert_int_equal(keys[i].text_len, i < 10 ? strlen(name) : 0);
		if (i < 10)
			assert_memory_equal(keys[i].text, name, strlen(name));
	}
	close_scene(&scene);
	(void)state;
}

/* Texts may have any bytes, up to 64. A hash of 0 is valid. */
static void texts_with_any_bytes(void **state)
{
	struct scene scene = open_scene();
	struct weir_top_key keys[WEIR_TOP_KEYS];
	struct wr_stats_key_text text = {.kind = WEIR_TOP_CUT, .len = WEIR_TOP_TEXT};
	const struct weir_top_key *key;
	uint64_t sum;
	int count;

	for (unsigned i = 0; i < WEIR_TOP_TEXT; i++)
		text.bytes[i] = (char)(i * 4);
	wr_top_add(scene.top, WEIR_TOP_HOT, 7, 1, &text);
	wr_top_add(scene.top, WEIR_TOP_HOT, 0, 1,
		   &(struct wr_stats_key_text){.kind = WEIR_TOP_WHOLE});
	count = read_top(&scene, WEIR_TOP_HOT, keys, &sum);
	key = find_key(keys, count, 7);
	assert_int_equal(key->text_kind, WEIR_TOP_CUT);
	assert_int_equal(key->text_len, WEIR_TOP_TEXT);
	assert_memory_equal(key->text, text.bytes, WEIR_TOP_TEXT);
	key = find_key(keys, count, 1);
	assert_int_equal(key->text_kind, WEIR_TOP_WHOLE);
	assert_int_equal(key->text_len, 0);
	close_scene(&scene);
	(void)state;
}

/* A half-written text, or one with an invalid length, is ignored; the next write repairs it. */
static void half_written_text(void **state)
{
	struct scene scene = open_scene();
	struct wr_stats_key_text text = text_of("10.0.0.1");
	struct wr_top_text *written = &scene.top->list[WEIR_TOP_HOT].text[0];
	struct weir_top_key key;

	wr_top_add(scene.top, WEIR_TOP_HOT, 7, 1, &text);
	assert_int_equal(written->hash, 7);
	written->words[0] ^= 1;
	assert_int_equal(weir_top(scene.table, scene.slot, WEIR_TOP_HOT, &key, 1, NULL), 1);
	assert_int_equal(key.text_kind, WEIR_TOP_NO_TEXT);
	wr_top_add(scene.top, WEIR_TOP_HOT, 7, 1, &text);
	weir_top(scene.table, scene.slot, WEIR_TOP_HOT, &key, 1, NULL);
	assert_int_equal(key.text_kind, WEIR_TOP_WHOLE);
	written->seal |= 0xff;
	weir_top(scene.table, scene.slot, WEIR_TOP_HOT, &key, 1, NULL);
	assert_int_equal(key.text_kind, WEIR_TOP_NO_TEXT);
	/* Texts are erased on request. */
	wr_top_add(scene.top, WEIR_TOP_HOT, 7, 1, &text);
	wr_stats_wipe_texts(scene.stats);
	weir_top(scene.table, scene.slot, WEIR_TOP_HOT, &key, 1, NULL);
	assert_int_equal(key.text_kind, WEIR_TOP_NO_TEXT);
	assert_int_equal(key.count, 3);
	assert_int_equal(written->words[0], 0);
	close_scene(&scene);
	(void)state;
}

/* ---- time ---- */

/* All counts are halved every five minutes. Keys with a count of 0 are removed with their texts. */
static void counts_are_halved(void **state)
{
	struct scene scene = open_scene();
	struct wr_stats_key_text text = text_of("once");
	struct weir_top_key keys[WEIR_TOP_KEYS];
	uint64_t sum;

	wr_top_add(scene.top, WEIR_TOP_HOT, 1, 1000, NULL);
	wr_top_add(scene.top, WEIR_TOP_HOT, 2, 7, NULL);
	wr_top_add(scene.top, WEIR_TOP_HOT, 3, 1, &text);
	scene.top->noise_shift[WEIR_TOP_HOT] = 2;
	for (uint64_t s = 2; s < 300; s++)
		weir_tick(scene.table, (START_S + s) * SECOND_NS);
	assert_int_equal(read_top(&scene, WEIR_TOP_HOT, keys, &sum), 3);
	assert_int_equal(sum, 1008); /* a new rule starts in its first five-minute period */
	weir_tick(scene.table, (START_S + 300) * SECOND_NS);
	assert_int_equal(read_top(&scene, WEIR_TOP_HOT, keys, &sum), 2);
	assert_int_equal(sum, 503);
	assert_int_equal(keys[0].count, 500);
	assert_int_equal(keys[1].count, 3);
	assert_int_equal(scene.top->list[WEIR_TOP_HOT].text[0].hash, 0);
	assert_int_equal(scene.top->list[WEIR_TOP_HOT].text[0].words[0], 0);
	assert_int_equal(scene.top->noise_shift[WEIR_TOP_HOT], 1);
	weir_tick(scene.table, (START_S + 599) * SECOND_NS);
	read_top(&scene, WEIR_TOP_HOT, keys, &sum);
	assert_int_equal(keys[0].count, 500);
	weir_tick(scene.table, (START_S + 600) * SECOND_NS);
	read_top(&scene, WEIR_TOP_HOT, keys, &sum);
	assert_int_equal(keys[0].count, 250);
	/* Counts near the maximum are halved earlier. */
	wr_top_add(scene.top, WEIR_TOP_HOT, 1, 3000000000u, NULL);
	wr_top_add(scene.top, WEIR_TOP_HOT, 1, 3000000000u, NULL);
	weir_tick(scene.table, (START_S + 601) * SECOND_NS);
	read_top(&scene, WEIR_TOP_HOT, keys, &sum);
	assert_int_equal(keys[0].count, UINT32_MAX / 2);
	close_scene(&scene);
	(void)state;
}

/* The sampling rate follows the traffic: it falls at once and rises within minutes. */
static void sampling_rate(void **state)
{
	struct scene scene = open_scene();
	struct weir_top_info info = {.size = sizeof info};
	uint64_t s = 1;

	weir_top(scene.table, scene.slot, WEIR_TOP_HOT, NULL, 0, &info);
	assert_int_equal(info.every, 1);
	add(scene.stats, scene.slot, WR_STAT_admitted, 1000000);
	add(scene.stats, scene.slot, WR_STAT_refused, 3000);
	weir_tick(scene.table, (START_S + ++s) * SECOND_NS);
	weir_top(scene.table, scene.slot, WEIR_TOP_HOT, NULL, 0, &info);
	assert_int_equal(info.every, 1024);
	weir_top(scene.table, scene.slot, WEIR_TOP_REFUSED, NULL, 0, &info);
	assert_int_equal(info.every, 4);
	while (s < 1000)
		weir_tick(scene.table, (START_S + ++s) * SECOND_NS);
	weir_top(scene.table, scene.slot, WEIR_TOP_HOT, NULL, 0, &info);
	assert_int_equal(info.every, 1);
	close_scene(&scene);
	(void)state;
}

/* ---- many writers ---- */

static struct scene shared_scene;
static uint64_t written;  /* number of samples that all threads have written */
static bool never_ending; /* threads write until this is cleared */

static void *write_much(void *arg)
{
	uint64_t random = (uint64_t)(uintptr_t)arg;

	for (int i = 0; i < 30000 || __atomic_load_n(&never_ending, __ATOMIC_RELAXED); i++) {
		unsigned key = (unsigned)(random_from(&random) % 64);
		char name[32];
		struct wr_stats_key_text text;

		key = key < 32 ? key % 4 : key; /* four frequent keys */
		snprintf(name, sizeof name, "client %u", key);
		text = text_of(name);
		wr_top_add(shared_scene.top, WEIR_TOP_HOT, key + 1, 1, &text);
		__atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* No decision is counted twice, frequent keys are found, and texts are complete or missing. */
static void check_shared(uint64_t most)
{
	struct weir_top_key keys[WEIR_TOP_KEYS];
	uint64_t sum, all = 0;
	int count = read_top(&shared_scene, WEIR_TOP_HOT, keys, &sum);

	for (int i = 0; i < count; i++) {
		char name[32];

		all += keys[i].count;
		snprintf(name, sizeof name, "client %u", (unsigned)keys[i].hash - 1);
		if (keys[i].text_kind != WEIR_TOP_NO_TEXT)
			assert_memory_equal(keys[i].text, name, strlen(name));
	}
	assert_true(all <= most);
	assert_true(count >= 4);
	for (int i = 0; i < 4; i++)
		assert_true(keys[i].hash <= 4);
}

/* Halves the list while threads write; thousands of writes come between two calls. */
static void fade_along(void)
{
	for (int i = 0; i < 20; i++) {
		uint64_t enough = __atomic_load_n(&written, __ATOMIC_RELAXED) + 4000;

		check_shared(UINT64_MAX);
		wr_top_fade(shared_scene.top);
		while (__atomic_load_n(&written, __ATOMIC_RELAXED) < enough)
			usleep(100);
	}
}

static void many_threads(void **state)
{
	pthread_t threads[4];

	shared_scene = open_scene();
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_much, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	check_shared(4 * 30000);
	never_ending = true;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_much, (void *)i);
	fade_along();
	__atomic_store_n(&never_ending, false, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	close_scene(&shared_scene);
	(void)state;
}

static void killed_writers(void **state)
{
	shared_scene = open_scene();
	for (int round = 0; round < 30; round++) {
		pid_t child = fork();

		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends with a failed test */
			for (;;)
				write_much((void *)1);
		}
		while (__atomic_load_n(&shared_scene.top->total[0], __ATOMIC_RELAXED) <
		       1000u * (unsigned)round + 1000)
			usleep(100);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	write_much((void *)2);
	check_shared(UINT64_MAX);
	close_scene(&shared_scene);
	(void)state;
}

static void wrong_arguments(void **state)
{
	struct scene scene = open_scene();
	struct weir_top_info info = {.size = 1};
	struct weir_top_key key;

	assert_int_equal(weir_top(NULL, scene.slot, WEIR_TOP_HOT, &key, 1, NULL), WEIR_EINVAL);
	assert_int_equal(weir_top(scene.table, scene.slot, 2, &key, 1, NULL), WEIR_EINVAL);
	assert_int_equal(weir_top(scene.table, scene.slot, WEIR_TOP_HOT, NULL, 1, NULL),
			 WEIR_EINVAL);
	assert_int_equal(weir_top(scene.table, scene.slot, WEIR_TOP_HOT, &key, 1, &info),
			 WEIR_EINVAL);
	assert_int_equal(weir_top(scene.table, 1u << 30, WEIR_TOP_HOT, &key, 1, NULL), WEIR_ENOENT);
	assert_int_equal(weir_top(scene.table, WEIR_STAT_OTHER, WEIR_TOP_HOT, &key, 1, NULL),
			 WEIR_ENOENT);
	scene.stats->map.history.track[scene.slot] = 0xffff;
	assert_int_equal(weir_top(scene.table, scene.slot, WEIR_TOP_HOT, &key, 1, NULL),
			 WEIR_ENOENT);
	close_scene(&scene);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_keys),
		cmocka_unit_test(zipf_stream),
		cmocka_unit_test(adversarial_streams),
		cmocka_unit_test(sampled_counts),
		cmocka_unit_test(texts),
		cmocka_unit_test(texts_with_any_bytes),
		cmocka_unit_test(half_written_text),
		cmocka_unit_test(counts_are_halved),
		cmocka_unit_test(sampling_rate),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(killed_writers),
		cmocka_unit_test(wrong_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
