/* weir_watch_…: rules that change on disk are loaded. */
#include "helper.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

struct log {
	pthread_mutex_t lock;
	int good, bad;
	char text[1024];
	int sigusr_blocked;
	/* Number of times that the watcher read the clock: at the end of each check, and before it
	 * waits. */
	unsigned clock_reads;
	uint64_t ahead_ns; /* by how much the watcher's clock is ahead */
};

static struct log log_of = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_load(void *context, const struct weir_load *load)
{
	struct log *log = context;
	sigset_t mask;

	pthread_mutex_lock(&log->lock);
	if (load->rc == 0)
		log->good++;
	else
		log->bad++;
	if (load->errors->count)
		weir_diagnostic_text(&load->errors->items[0], log->text, sizeof log->text);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	log->sigusr_blocked = sigismember(&mask, SIGUSR1);
	pthread_mutex_unlock(&log->lock);
}

/* Returns whole seconds, so that every pause between two checks is 250 ms, which __wrap_poll
 * expects. */
static uint64_t watcher_now_ns(void *context)
{
	struct log *log = context;
	struct timespec now;

	__atomic_fetch_add(&log->clock_reads, 1, __ATOMIC_RELEASE);
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + __atomic_load_n(&log->ahead_ns, __ATOMIC_ACQUIRE);
}

static struct weir_watch *by_host; /* NULL: the watch has its own thread */

/* Waits for `good` successful and `failed` failed loads, and fails if there are more. It takes less
 * than a second on an idle machine. */
static void expect(struct log *log, int good, int bad)
{
	uint64_t limit_ns = clock_ns() + 60 * SECOND_NS, start_ns = clock_ns();
	int done = 0;

	while (!done && clock_ns() < limit_ns) {
		pthread_mutex_lock(&log->lock);
		done = log->good >= good && log->bad >= bad;
		pthread_mutex_unlock(&log->lock);
		if (by_host)
			assert_int_equal(weir_watch_look(by_host), 0);
		if (!done)
			usleep(2000);
	}
	pthread_mutex_lock(&log->lock);
	done = log->good == good && log->bad == bad;
	pthread_mutex_unlock(&log->lock);
	if (!done) {
		print_error("%d good, %d bad instead of %d and %d; last: %s", log->good, log->bad,
			    good, bad, log->text);
		exit(1); /* a watching thread still runs and would disturb the next test */
	}
	if (clock_ns() - start_ns > SECOND_NS)
		print_message("noticed after %.1f s\n", (double)(clock_ns() - start_ns) / 1e9);
}

static char folder[64];

/* Waits until the watcher has done a whole check after this call. The check in progress reads the
 * clock up to three times, the next check twice. */
static void let_look(struct log *log)
{
	unsigned start = __atomic_load_n(&log->clock_reads, __ATOMIC_ACQUIRE);
	uint64_t limit_ns = clock_ns() + 60 * SECOND_NS;

	while (__atomic_load_n(&log->clock_reads, __ATOMIC_ACQUIRE) - start < 8 &&
	       clock_ns() < limit_ns) {
		if (by_host)
			assert_int_equal(weir_watch_look(by_host), 0);
		usleep(1000);
	}
	assert_true(__atomic_load_n(&log->clock_reads, __ATOMIC_ACQUIRE) - start >= 8);
}

#define FILE_BYTES 256 /* size of each file; the rest is empty lines */

static bool has_time_of(int fd, struct timespec before)
{
	struct stat now;

	assert_int_equal(fstat(fd, &now), 0);
	return now.st_ctim.tv_sec == before.tv_sec && now.st_ctim.tv_nsec == before.tv_nsec;
}

/* The file is complete at any moment: an existing file is overwritten by one write of the same
 * size, and a new file is renamed when it is complete. An overwritten file gets a new time stamp;
 * the function waits for the clock of the file system, which has steps of milliseconds on some
 * kernels. */
static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_new = fd < 0;
	char fresh[300], bytes[FILE_BYTES];
	int len = snprintf(bytes, sizeof bytes, "%s", text);
	struct stat before = {0};

	snprintf(fresh, sizeof fresh, "%s.fresh", path);
	memset(bytes + len, '\n', sizeof bytes - (size_t)len);
	if (is_new)
		fd = open(fresh, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	else
		assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
	while (!is_new && has_time_of(fd, before.st_ctim)) {
		usleep(1000);
		assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
	}
	assert_int_equal(close(fd), 0);
	if (is_new)
		assert_int_equal(rename(fresh, path), 0);
}

static const char *in_folder(const char *name)
{
	static char paths[4][256];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", folder, name);
	return path;
}

static const char *yaml_of(int limit)
{
	static char yaml[512];

	snprintf(yaml, sizeof yaml,
		 "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: "
		 "%d}\n",
		 limit);
	return yaml;
}

static uint32_t limit_now(struct rig *rig)
{
	rig_ask(rig, "a=1");
	return rig_status(rig, 0).requests_per_unit;
}

static struct weir_watch *start_with(struct rig *rig, const char *path,
				     const struct weir_rules *seen, uint32_t flags)
{
	struct weir_watch_opts opts = {.size = sizeof opts,
				       .flags = flags,
				       .loaded = on_load,
				       .context = &log_of,
				       .now_ns = watcher_now_ns};
	struct weir_watch *watch;

	log_of.good = log_of.bad = 0;
	assert_int_equal(weir_watch_start(rig->engine, path, seen, &opts, &watch), 0);
	return watch;
}

static struct weir_watch *start(struct rig *rig, const char *path, const struct weir_rules *seen)
{
	return start_with(rig, path, seen, 0);
}

static int make_folder(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/weir-watch-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
	(void)state;
}

static int remove_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command); /* NOLINT(cert-env33-c): a test's own folder */
	(void)state;
}

/* The watcher also calls weir_tick: when its clock has advanced, a second is recorded. */
static void expect_history(struct rig *rig)
{
	struct weir_point point = {0};
	uint64_t end_s;

	for (int i = 0; i < 3; i++) {
		__atomic_fetch_add(&log_of.ahead_ns, SECOND_NS, __ATOMIC_RELEASE);
		let_look(&log_of);
	}
	weir_history(rig->table, WEIR_STAT_ALL, WEIR_SECONDS, &point, 1, &end_s);
	assert_true(point.known);
}

static void watch_a_file(void **state)
{
	struct weir_engine_info info = {.size = sizeof info};
	const char *path = in_folder("rules.yaml");
	struct weir_watch *watch;
	struct weir_rules *rules;
	struct rig rig;

	write_file(path, yaml_of(5));
	rules = rig_load(path);
	rig_open_with(&rig, rules, "d", 0);
	watch = start(&rig, path, rules);
	assert_int_equal(limit_now(&rig), 5);
	/* The file is written; the counter continues. */
	write_file(path, yaml_of(6));
	expect(&log_of, 1, 0);
	assert_int_equal(limit_now(&rig), 6);
	assert_int_equal(rig_status(&rig, 0).remaining, 4);
	assert_true(log_of.sigusr_blocked);
	/* The file is renamed. */
	write_file(in_folder("next"), yaml_of(7));
	assert_int_equal(rename(in_folder("next"), path), 0);
	expect(&log_of, 2, 0);
	assert_int_equal(limit_now(&rig), 7);
	/* A broken file changes nothing and is reported once. */
	write_file(path, "domain: d\ndescriptors:\n- kye: a\n");
	expect(&log_of, 2, 1);
	assert_int_equal(limit_now(&rig), 7);
	weir_engine_info(rig.engine, &info);
	assert_non_null(strstr(info.error, "rules.yaml:3:3: error: "));
	assert_int_equal(info.generation, 3);
	let_look(&log_of);
	expect(&log_of, 2, 1);
	expect_history(&rig);
	/* The file is written with the same content: the error is not reported again. */
	write_file(path, "domain: d\ndescriptors:\n- kye: a\n");
	let_look(&log_of);
	expect(&log_of, 2, 1);
	/* The file is removed and restored. */
	assert_int_equal(unlink(path), 0);
	expect(&log_of, 2, 2);
	assert_int_equal(limit_now(&rig), 7);
	write_file(path, yaml_of(7));
	expect(&log_of, 3, 2);
	weir_engine_info(rig.engine, &info);
	assert_string_equal(info.error, "");
	/* A load of the same content is not reported. */
	write_file(path, yaml_of(7));
	let_look(&log_of);
	expect(&log_of, 3, 2);
	/* A load of the same content is reported if it was requested. */
	weir_watch_poke(watch);
	expect(&log_of, 4, 2);
	weir_watch_stop(watch);
	rig_close(&rig);
	(void)state;
}

/* As Kubernetes mounts a ConfigMap: links through ..data, which is replaced by a rename. */
static void watch_a_configmap(void **state)
{
	struct weir_watch *watch;
	struct rig rig;

	assert_int_equal(mkdir(in_folder("..v1"), 0700), 0);
	assert_int_equal(mkdir(in_folder("..v2"), 0700), 0);
	write_file(in_folder("..v1/rules.yaml"), yaml_of(5));
	write_file(in_folder("..v2/rules.yaml"), yaml_of(6));
	assert_int_equal(symlink("..v1", in_folder("..data")), 0);
	assert_int_equal(symlink("..data/rules.yaml", in_folder("rules.yaml")), 0);
	rig_open_with(&rig, NULL, "d", 0);
	watch = start(&rig, folder, NULL);
	expect(&log_of, 1, 0); /* not loaded before, so the load is immediate */
	assert_int_equal(limit_now(&rig), 5);
	assert_int_equal(symlink("..v2", in_folder("..data_tmp")), 0);
	assert_int_equal(rename(in_folder("..data_tmp"), in_folder("..data")), 0);
	expect(&log_of, 2, 0);
	assert_int_equal(limit_now(&rig), 6);
	/* A second file is added to the folder. */
	write_file(in_folder("more.yaml"), "domain: e\ndescriptors:\n- key: a\n");
	expect(&log_of, 3, 0);
	weir_watch_stop(watch);
	rig_close(&rig);
	(void)state;
}

/* A symbolic link is replaced, and the file behind a link is written. */
static void watch_a_symbolic_link(void **state)
{
	struct weir_watch *watch;
	struct rig rig;

	assert_int_equal(mkdir(in_folder("releases"), 0700), 0);
	write_file(in_folder("releases/1.yaml"), yaml_of(1));
	write_file(in_folder("releases/2.yaml"), yaml_of(2));
	assert_int_equal(symlink("releases/1.yaml", in_folder("current.yaml")), 0);
	rig_open_with(&rig, NULL, "d", 0);
	watch = start(&rig, in_folder("current.yaml"), NULL);
	expect(&log_of, 1, 0);
	assert_int_equal(symlink("releases/2.yaml", in_folder("next")), 0);
	assert_int_equal(rename(in_folder("next"), in_folder("current.yaml")), 0);
	expect(&log_of, 2, 0);
	assert_int_equal(limit_now(&rig), 2);
	write_file(in_folder("releases/2.yaml"), yaml_of(3));
	expect(&log_of, 3, 0);
	assert_int_equal(limit_now(&rig), 3);
	weir_watch_stop(watch);
	rig_close(&rig);
	(void)state;
}

/* A file that is being written: the rest of its content. */
static struct {
	pthread_mutex_t lock;
	FILE *file; /* NULL: no file is being written */
	const char *left;
	int pauses; /* pauses of the watcher while a file settles */
	int early; /* number of pauses that a call of weir_watch_poke had ended before they began */
	struct weir_watch *poked; /* watcher to poke at the next pause, or NULL */
} writing = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void write_bit(void)
{
	size_t left = strlen(writing.left), bit = left < 12 ? left : 12;

	fwrite(writing.left, 1, bit, writing.file);
	fflush(writing.file);
	writing.left += bit;
	if (bit == left) {
		fclose(writing.file);
		writing.file = NULL;
	}
}

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's --wrap wants these names
int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);

/* The watcher pauses for 40 ms between two checks of a file that has changed: then the next part is
 * written. Its other pauses, of 250 ms, are shortened. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
	if (ms != 40)
		return __real_poll(fds, count, 5);
	pthread_mutex_lock(&writing.lock);
	writing.pauses++;
	writing.early += __real_poll(fds, count, 0) > 0;
	if (writing.poked)
		weir_watch_poke(writing.poked);
	writing.poked = NULL;
	if (writing.file)
		write_bit();
	pthread_mutex_unlock(&writing.lock);
	return __real_poll(fds, count, ms);
}
// NOLINTEND(bugprone-reserved-identifier)

static int pauses_since_last(void)
{
	int pauses;

	pthread_mutex_lock(&writing.lock);
	pauses = writing.pauses;
	writing.pauses = 0;
	pthread_mutex_unlock(&writing.lock);
	return pauses;
}

/* Starts a watcher, then writes other rules: one part now, and one at each pause of the watcher.
 * With `poke` the watcher is poked at its first pause. */
static struct weir_watch *start_writing(struct rig *rig, bool poke)
{
	const char *path = in_folder("rules.yaml");
	struct weir_watch *watch;

	write_file(path, yaml_of(1));
	rig_open_with(rig, NULL, "d", 0);
	watch = start(rig, path, NULL);
	expect(&log_of, 1, 0);
	pauses_since_last();
	pthread_mutex_lock(&writing.lock);
	writing.early = 0;
	writing.poked = poke ? watch : NULL;
	writing.file = fopen(path, "w");
	writing.left = yaml_of(22);
	assert_non_null(writing.file);
	write_bit();
	pthread_mutex_unlock(&writing.lock);
	return watch;
}

/* A file that changes between any two checks is read when it is complete. */
static void file_written_in_parts(void **state)
{
	struct rig rig;
	struct weir_watch *watch = start_writing(&rig, false);

	expect(&log_of, 2, 0);
	assert_int_equal(limit_now(&rig), 22);
	weir_watch_stop(watch);
	assert_null(writing.file);
	assert_in_range(pauses_since_last(), 5, 8);
	rig_close(&rig);
	(void)state;
}

/* A poke while a file settles causes one more load and does not shorten later pauses. */
static void poke_while_a_file_settles(void **state)
{
	struct rig rig;
	struct weir_watch *watch = start_writing(&rig, true);

	expect(&log_of, 3, 0);
	assert_int_equal(limit_now(&rig), 22);
	weir_watch_stop(watch);
	assert_int_equal(writing.early, 0);
	rig_close(&rig);
	(void)state;
}

static int threads_now(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	assert_non_null(tasks);
	for (struct dirent *entry; (entry = readdir(tasks));)
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* Waits until the process has this many threads. A thread that was joined may still exist for a
 * moment. */
static void expect_threads(int count)
{
	uint64_t deadline_ns = clock_ns() + 60 * SECOND_NS;

	while (threads_now() != count && clock_ns() < deadline_ns)
		usleep(2000);
	assert_int_equal(threads_now(), count);
}

/* WEIR_WATCH_BY_HOST: a thread exists only during a load. */
static void watch_by_host(void **state)
{
	const char *path = in_folder("rules.yaml");
	struct weir_rules *rules;
	struct rig rig;
	int threads = threads_now();

	write_file(path, yaml_of(5));
	rules = rig_load(path);
	rig_open_with(&rig, rules, "d", 0);
	by_host = start_with(&rig, path, rules, WEIR_WATCH_BY_HOST);
	expect_threads(threads);
	assert_int_equal(weir_watch_look(by_host), 0);
	expect_threads(threads);
	write_file(path, yaml_of(6));
	expect(&log_of, 1, 0);
	assert_int_equal(limit_now(&rig), 6);
	assert_true(log_of.sigusr_blocked);
	write_file(path, "domain: d\ndescriptors:\n- kye: a\n");
	expect(&log_of, 1, 1);
	assert_int_equal(limit_now(&rig), 6);
	weir_watch_poke(by_host);
	expect(&log_of, 1, 2);
	write_file(path, yaml_of(7));
	expect(&log_of, 2, 2);
	assert_int_equal(limit_now(&rig), 7);
	expect_history(&rig);
	weir_watch_poke(by_host); /* a load in progress at the stop */
	assert_int_equal(weir_watch_look(by_host), 0);
	weir_watch_stop(by_host);
	by_host = NULL;
	expect_threads(threads);
	rig_close(&rig);
	(void)state;
}

/* After a poke the watcher still waits for a file to settle. */
static void poke_of_a_watch_by_host(void **state)
{
	const char *path = in_folder("rules.yaml");
	struct weir_rules *rules;
	struct rig rig;

	write_file(path, yaml_of(5));
	rules = rig_load(path);
	rig_open_with(&rig, rules, "d", 0);
	by_host = start_with(&rig, path, rules, WEIR_WATCH_BY_HOST);
	weir_watch_poke(by_host);
	expect(&log_of, 1, 0);
	let_look(&log_of);
	pauses_since_last();
	write_file(path, yaml_of(6));
	expect(&log_of, 2, 0);
	weir_watch_stop(by_host);
	assert_in_range(pauses_since_last(), 1, 2);
	by_host = NULL;
	rig_close(&rig);
	(void)state;
}

struct slow_clock {
	pthread_t host;
	int calls, on_host;
};

/* Every fourth check is slow, like checks with a tick. */
static uint64_t slow_now_ns(void *context)
{
	struct slow_clock *clock = context;
	struct timespec start, now;

	if (__atomic_fetch_add(&clock->calls, 1, __ATOMIC_ACQ_REL) % 4)
		return NOW_NS;
	clock->on_host += pthread_equal(pthread_self(), clock->host) != 0;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 2000000);
	return NOW_NS;
}

/* One slow check on the event loop is enough to switch to threads. */
static void slow_checks_use_a_thread(void **state)
{
	const char *path = in_folder("rules.yaml");
	struct slow_clock clock = {pthread_self(), 0, 0};
	struct weir_watch_opts opts = {.size = sizeof opts,
				       .flags = WEIR_WATCH_BY_HOST,
				       .context = &clock,
				       .now_ns = slow_now_ns};
	struct weir_watch *watch;
	struct weir_rules *rules;
	struct rig rig;

	write_file(path, yaml_of(5));
	rules = rig_load(path);
	rig_open_with(&rig, rules, "d", 0);
	assert_int_equal(weir_watch_start(rig.engine, path, rules, &opts, &watch), 0);
	for (uint64_t limit_ns = clock_ns() + 60 * SECOND_NS; clock_ns() < limit_ns;) {
		int calls = __atomic_load_n(&clock.calls, __ATOMIC_ACQUIRE);

		if (calls >= 41)
			break;
		assert_int_equal(weir_watch_look(watch), 0);
		usleep(100);
	}
	weir_watch_stop(watch);
	assert_true(clock.calls >= 41);
	assert_int_equal(clock.on_host, 1);
	rig_close(&rig);
	(void)state;
}

static void wrong_arguments(void **state)
{
	struct weir_watch_opts opts = {.size = 3}, odd = {.size = sizeof odd, .flags = 2};
	struct weir_watch *watch;
	struct rig rig;

	rig_open_with(&rig, NULL, "d", 0);
	assert_int_equal(weir_watch_start(NULL, "x", NULL, NULL, &watch), WEIR_EINVAL);
	assert_int_equal(weir_watch_start(rig.engine, NULL, NULL, NULL, &watch), WEIR_EINVAL);
	assert_int_equal(weir_watch_start(rig.engine, "x", NULL, &opts, &watch), WEIR_EINVAL);
	assert_int_equal(weir_watch_start(rig.engine, "x", NULL, &odd, &watch), WEIR_EINVAL);
	assert_int_equal(weir_watch_look(NULL), WEIR_EINVAL);
	/* A path that does not exist is a failed load, not an error of weir_watch_start. */
	watch = start(&rig, in_folder("nothing"), NULL);
	expect(&log_of, 0, 1);
	assert_int_equal(weir_watch_look(watch), WEIR_EINVAL);
	weir_watch_stop(watch);
	weir_watch_stop(NULL);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(watch_a_file, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(watch_a_configmap, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(watch_a_symbolic_link, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(file_written_in_parts, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(poke_while_a_file_settles, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(watch_by_host, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(poke_of_a_watch_by_host, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(slow_checks_use_a_thread, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(wrong_arguments, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
