/* weir_watch_…: loads the rules of an engine when their files change. Called by programs that
 * reload.
 *
 * Four times a second, a thread does a check: it computes a fingerprint of the names, sizes and
 * time stamps of the files, and compares it with the fingerprint of the latest load. inotify is not
 * used, because not every file system reports changes to it, and because close() of an inotify
 * descriptor can take many seconds on a busy machine. A change is loaded when two fingerprints in a
 * row are equal, so that a file is not read while it is written. If a file is written after the
 * load, its time stamp changes, and the next check finds the change.
 *
 * With WEIR_WATCH_BY_HOST the program calls weir_watch_look on its event loop, which must not
 * block. If there is something to load, or if a recent check was slow (many files, many rules), a
 * thread is started for this one check. */
#include "base/thread.h"
#include "base/clock.h"
#include "limiter/engine.h"

#include "base/assert.h"
#include "base/versioned.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 250 /* time between two checks of the rule files */
#define SETTLE_MS 40
#define SETTLE_LOOKS 8 /* a file that still changes after this many checks is read anyway */
#define LOOK_NS 500000 /* processor time in ns that a check may take on the event loop */
#define SLOW_LOOKS 16  /* after a slow file check, this many run in a thread of their own */

struct weir_watch {
	struct weir_engine *engine;
	struct weir_watch_opts opts;
	char *path;
	pthread_t thread;
	int wake; /* eventfd */
	int stop;
	int poked;
	int looked;   /* 1: the thread for a single check of the rule files has finished */
	bool looking; /* the thread of a single check exists and must be joined */
	/* The fields from here on are used only by the thread that does a check; there is one such
	 * thread at a time. */
	unsigned slow;      /* number of further file checks that run in a thread of their own */
	uint64_t seen;      /* fingerprint of the latest load, successful or not */
	bool failing;       /* the latest load failed */
	uint64_t failed_as; /* hash of the message of the latest failed load */
};

static uint64_t now_ns(const struct weir_watch *watch)
{
	return watch->opts.now_ns ? watch->opts.now_ns(watch->opts.context) : wr_clock_wall_ns();
}

static bool is_stopped(const struct weir_watch *watch)
{
	return __atomic_load_n(&watch->stop, __ATOMIC_ACQUIRE);
}

static void clear_wake(const struct weir_watch *watch)
{
	uint64_t calls;

	while (read(watch->wake, &calls, sizeof calls) > 0)
		;
}

/* Waits for `ms`. The wait ends early if weir_watch_poke or weir_watch_stop is called. */
static void pause_ms(const struct weir_watch *watch, int ms)
{
	struct pollfd fd = {watch->wake, POLLIN, 0};

	poll(&fd, 1, ms);
}

static uint64_t settled_fingerprint(const struct weir_watch *watch)
{
	uint64_t before = weir_rules_fingerprint(watch->path);

	for (int i = 0; i < SETTLE_LOOKS && !is_stopped(watch); i++) {
		uint64_t again;

		pause_ms(watch, SETTLE_MS);
		clear_wake(watch); /* otherwise the next wait would end at once */
		again = weir_rules_fingerprint(watch->path);
		if (again == before)
			break;
		before = again;
	}
	return before;
}

static void write_errors(const struct weir_errors *errors, int rc, char *text, size_t cap)
{
	size_t len = 0;

	snprintf(text, cap, "%s", weir_strerror(rc));
	for (size_t i = 0; i < errors->count && len + 1 < cap; i++)
		if (errors->items[i].severity == WEIR_ERROR)
			len += weir_diagnostic_text(&errors->items[i], text + len, cap - len);
}

/* Records a failed load. Returns whether the failure must be reported, because its message is new
 * or because weir_watch_poke requested the load. */
static bool note_failure(struct weir_watch *watch, const struct weir_errors *errors, int rc,
			 bool poked)
{
	char text[sizeof watch->engine->info.error];
	uint64_t hash;
	bool news;

	write_errors(errors, rc, text, sizeof text);
	hash = XXH3_64bits(text, strlen(text));
	news = poked || !watch->failing || hash != watch->failed_as;
	watch->failing = true;
	watch->failed_as = hash;
	if (news)
		weir_engine_load_failed(watch->engine, text, now_ns(watch));
	return news;
}

/* Puts rules into force. Returns whether the load must be reported. A load of rules that are
 * already in force changes nothing and is not reported. */
static bool put_in_force(struct weir_watch *watch, struct weir_rules *rules, bool poked, int *rc)
{
	struct weir_engine_info info = {.size = sizeof info};
	struct weir_rules_info loaded = {.size = sizeof loaded};

	weir_engine_info(watch->engine, &info);
	weir_rules_info(rules, &loaded);
	if (!poked && !watch->failing && info.generation && info.hash == loaded.hash) {
		weir_rules_free(rules);
		return false;
	}
	*rc = weir_engine_swap(watch->engine, rules, now_ns(watch));
	if (*rc)
		weir_rules_free(rules);
	watch->failing = *rc != 0;
	return true;
}

static void load_rules(struct weir_watch *watch, bool poked)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_engine_info info = {.size = sizeof info};
	uint64_t start_ns = wr_clock_mono_ns();
	struct weir_rules *rules;
	int rc = weir_rules_load(watch->path, &rules, &errors);
	bool news = rc ? note_failure(watch, &errors, rc, poked)
		       : put_in_force(watch, rules, poked, &rc);
	struct weir_load result = {.size = sizeof result,
				   .rc = rc,
				   .duration_ns = wr_clock_mono_ns() - start_ns,
				   .errors = &errors};

	weir_engine_info(watch->engine, &info);
	result.generation = info.generation;
	result.hash = info.hash;
	if (news && watch->opts.loaded)
		watch->opts.loaded(watch->opts.context, &result);
	weir_errors_free(&errors);
}

static void tick_statistics(const struct weir_watch *watch)
{
	struct weir_engine_info info = {.size = sizeof info};

	weir_tick(watch->engine->table, now_ns(watch));
	/* Called because it frees rules that no request uses. */
	weir_engine_info(watch->engine, &info);
}

static void look_for_changes(struct weir_watch *watch)
{
	bool poked;

	/* The wake-up and `poked` are cleared before the check. So if weir_watch_poke is called
	 * during the check, the next check loads the rules. */
	clear_wake(watch);
	poked = __atomic_exchange_n(&watch->poked, 0, __ATOMIC_ACQ_REL);
	if (poked || weir_rules_fingerprint(watch->path) != watch->seen) {
		watch->seen = settled_fingerprint(watch);
		load_rules(watch, poked);
	}
	tick_statistics(watch);
}

static void *watch_main(void *arg)
{
	struct weir_watch *watch = arg;

	while (!is_stopped(watch)) {
		int second_ms;

		look_for_changes(watch);
		/* The wait ends at the next full second at the latest, because weir_tick should run
		 * then. */
		second_ms = 1000 - (int)(now_ns(watch) / 1000000 % 1000) + 1;
		if (!is_stopped(watch) && !__atomic_load_n(&watch->poked, __ATOMIC_ACQUIRE))
			pause_ms(watch, second_ms < LOOK_MS ? second_ms : LOOK_MS);
	}
	return NULL;
}

/* ---- WEIR_WATCH_BY_HOST ---- */

/* Checks whether rules must be loaded, because the files have changed or weir_watch_poke was
 * called. If so, returns false; the caller then loads them. Otherwise updates the statistics and
 * returns true. */
static bool look_lightly(struct weir_watch *watch)
{
	uint64_t start_ns = wr_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

	if (__atomic_load_n(&watch->poked, __ATOMIC_ACQUIRE) ||
	    weir_rules_fingerprint(watch->path) != watch->seen)
		return false;
	tick_statistics(watch);
	if (wr_clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns > LOOK_NS)
		watch->slow = SLOW_LOOKS;
	else if (watch->slow)
		watch->slow--;
	return true;
}

static void *look_main(void *arg)
{
	struct weir_watch *watch = arg;

	if (!look_lightly(watch))
		look_for_changes(watch);
	/* Release: paired with the load in weir_watch_look, which joins this thread when `looked`
	 * is 1. */
	__atomic_store_n(&watch->looked, 1, __ATOMIC_RELEASE);
	return NULL;
}

static int start_thread(struct weir_watch *watch, void *(*start)(void *))
{
	int rc = wr_thread_start(&watch->thread, "weir-watch", start, watch);

	if (rc)
		errno = rc;
	return rc == 0 ? 0 : WEIR_ESYS;
}

int weir_watch_look(struct weir_watch *watch)
{
	int rc;

	if (!watch || !(watch->opts.flags & WEIR_WATCH_BY_HOST))
		return WEIR_EINVAL;
	if (watch->looking) {
		if (!__atomic_load_n(&watch->looked, __ATOMIC_ACQUIRE))
			return 0;
		pthread_join(watch->thread, NULL);
		watch->looking = false;
	}
	if (!watch->slow && look_lightly(watch))
		return 0;
	watch->looked = 0;
	rc = start_thread(watch, look_main);
	watch->looking = rc == 0;
	return rc;
}

static void free_watch(struct weir_watch *watch)
{
	if (watch->wake >= 0)
		close(watch->wake);
	free(watch->path);
	free(watch);
}

int weir_watch_start(struct weir_engine *engine, const char *path, const struct weir_rules *seen,
		     const struct weir_watch_opts *given, struct weir_watch **out)
{
	struct weir_watch_opts opts = {.size = sizeof opts};
	struct weir_watch *watch;
	int rc = WEIR_ESYS;

	if (!engine || !path || !out ||
	    (given && !wr_versioned_read(given, &opts, sizeof opts,
					 offsetof(struct weir_watch_opts, loaded))) ||
	    opts.flags & ~WEIR_WATCH_BY_HOST)
		return WEIR_EINVAL;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	watch = calloc(1, sizeof *watch);
	if (!watch)
		return WEIR_EMEMORY;
	watch->engine = engine;
	watch->opts = opts;
	watch->path = strdup(path);
	watch->seen = seen ? seen->fingerprint : 0;
	watch->poked = !seen;
	watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!watch->path)
		rc = WEIR_EMEMORY;
	else if (watch->wake >= 0)
		rc = opts.flags & WEIR_WATCH_BY_HOST ? 0 : start_thread(watch, watch_main);
	if (rc)
		free_watch(watch);
	else
		*out = watch;
	return rc;
}

/* Can be called in a signal handler, because write() is async-signal-safe. */
void weir_watch_poke(struct weir_watch *watch)
{
	uint64_t one = 1;
	int saved = errno;

	__atomic_store_n(&watch->poked, 1, __ATOMIC_RELEASE);
	if (write(watch->wake, &one, sizeof one) < 0)
		errno = saved; /* no error: the eventfd is full, so the thread is woken anyway */
	errno = saved;
}

void weir_watch_stop(struct weir_watch *watch)
{
	if (!watch)
		return;
	__atomic_store_n(&watch->stop, 1, __ATOMIC_RELEASE);
	weir_watch_poke(watch);
	if (watch->looking || !(watch->opts.flags & WEIR_WATCH_BY_HOST))
		pthread_join(watch->thread, NULL);
	free_watch(watch);
}
