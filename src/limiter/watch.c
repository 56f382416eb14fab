/* Keeps an engine's rules as they are on disk: a thread does, or the host's own looks.
 *
 * The thread compares the fingerprint of names, sizes and times four times a second. inotify is
 * not used: not every file system reports changes, and close() of its descriptor waits for a grace
 * period of the kernel, for many seconds on a busy machine. A change is loaded when two looks in a
 * row see the same, so that a file is not read while it is being written, and a load's fingerprint
 * is older than any write that could share its time.
 *
 * A host that looks itself does so in its loop, which must not be held up: when there is something
 * to load, or when one of the last looks took long (a folder of many files, a tick over many
 * rules), a thread is started for this one look. */
#include "limiter/engine.h"

#include "base/options.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 250 /* between looks */
#define SETTLE_MS 40
#define SETTLE_LOOKS 8 /* a file that changes all the time is read all the same */
#define LOOK_NS 500000 /* of processor time: as much as a look may take of the host's loop */
#define SLOW_LOOKS 16  /* done by threads after one that took longer: not each look has a tick */

struct weir_watch {
	struct weir_engine *engine;
	struct weir_watch_opts opts;
	char *path;
	pthread_t thread;
	int wake; /* eventfd */
	int stop;
	int poked;
	int looked;   /* the thread of one look has done its work */
	bool looking; /* there is one, to be joined */
	/* Of whoever looks, one at a time. */
	unsigned slow;      /* looks until the host tries itself again: one took long */
	uint64_t seen;      /* fingerprint of what was loaded last, well or not */
	bool failing;       /* the last load failed */
	uint64_t failed_as; /* hash of what it said */
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(const struct weir_watch *watch)
{
	return watch->opts.now_ns ? watch->opts.now_ns(watch->opts.context)
				  : clock_ns(CLOCK_REALTIME);
}

static bool stopped(const struct weir_watch *watch)
{
	return __atomic_load_n(&watch->stop, __ATOMIC_ACQUIRE);
}

static void clear_wake(const struct weir_watch *watch)
{
	uint64_t calls;

	while (read(watch->wake, &calls, sizeof calls) > 0)
		;
}

/* Until the next look, or the next second: history's seconds are best told where they end. */
static int wait_ms(const struct weir_watch *watch)
{
	int second_ms = 1000 - (int)(now_ns(watch) / 1000000 % 1000) + 1;

	return second_ms < LOOK_MS ? second_ms : LOOK_MS;
}

/* Ends early when weir_watch_poke or weir_watch_stop is called. */
static void pause_ms(const struct weir_watch *watch, int ms)
{
	struct pollfd fd = {watch->wake, POLLIN, 0};

	poll(&fd, 1, ms);
}

static uint64_t settled_fingerprint(const struct weir_watch *watch)
{
	uint64_t before = weir_rules_fingerprint(watch->path);

	for (int i = 0; i < SETTLE_LOOKS && !stopped(watch); i++) {
		uint64_t again;

		pause_ms(watch, SETTLE_MS);
		clear_wake(watch); /* or the next pause would end at once */
		again = weir_rules_fingerprint(watch->path);
		if (again == before)
			break;
		before = again;
	}
	return before;
}

static void text_of(const struct weir_errors *errors, int rc, char *text, size_t cap)
{
	size_t len = 0;

	snprintf(text, cap, "%s", weir_strerror(rc));
	for (size_t i = 0; i < errors->count && len + 1 < cap; i++)
		if (errors->items[i].severity == WEIR_ERROR)
			len += weir_diagnostic_text(&errors->items[i], text + len, cap - len);
}

/* Whether a failure is news: another content, another message. */
static bool note_failure(struct weir_watch *watch, const struct weir_errors *errors, int rc,
			 bool poked)
{
	char text[sizeof watch->engine->info.error];
	uint64_t hash;
	bool news;

	text_of(errors, rc, text, sizeof text);
	hash = XXH3_64bits(text, strlen(text));
	news = poked || !watch->failing || hash != watch->failed_as;
	watch->failing = true;
	watch->failed_as = hash;
	if (news)
		weir_engine_load_failed(watch->engine, text, now_ns(watch));
	return news;
}

/* Whether the rules are news: content that is in force already changes nothing. */
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

static void load(struct weir_watch *watch, bool poked)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_engine_info info = {.size = sizeof info};
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	struct weir_rules *rules;
	int rc = weir_rules_load(watch->path, &rules, &errors);
	bool news = rc ? note_failure(watch, &errors, rc, poked)
		       : put_in_force(watch, rules, poked, &rc);
	struct weir_load result = {.size = sizeof result,
				   .rc = rc,
				   .duration_ns = clock_ns(CLOCK_MONOTONIC) - start_ns,
				   .errors = &errors};

	weir_engine_info(watch->engine, &info);
	result.generation = info.generation;
	result.hash = info.hash;
	if (news && watch->opts.loaded)
		watch->opts.loaded(watch->opts.context, &result);
	weir_errors_free(&errors);
}

static void tick(const struct weir_watch *watch)
{
	struct weir_engine_info info = {.size = sizeof info};

	weir_tick(watch->engine->table, now_ns(watch));
	weir_engine_info(watch->engine, &info); /* frees rules nobody holds any more */
}

static void look(struct weir_watch *watch)
{
	bool poked;

	clear_wake(watch); /* before: a call that comes in between is heard, now or next time */
	poked = __atomic_exchange_n(&watch->poked, 0, __ATOMIC_ACQ_REL);
	if (poked || weir_rules_fingerprint(watch->path) != watch->seen) {
		watch->seen = settled_fingerprint(watch);
		load(watch, poked);
	}
	tick(watch);
}

static void *watch_main(void *arg)
{
	struct weir_watch *watch = arg;

	while (!stopped(watch)) {
		look(watch);
		if (!stopped(watch) && !__atomic_load_n(&watch->poked, __ATOMIC_ACQUIRE))
			pause_ms(watch, wait_ms(watch));
	}
	return NULL;
}

/* ---- by the host ---- */

/* All there is to do as long as nothing has changed. False: something has. */
static bool look_lightly(struct weir_watch *watch)
{
	uint64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (__atomic_load_n(&watch->poked, __ATOMIC_ACQUIRE) ||
	    weir_rules_fingerprint(watch->path) != watch->seen)
		return false;
	tick(watch);
	if (clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns > LOOK_NS)
		watch->slow = SLOW_LOOKS;
	else if (watch->slow)
		watch->slow--;
	return true;
}

static void *look_main(void *arg)
{
	struct weir_watch *watch = arg;

	if (!look_lightly(watch))
		look(watch);
	/* Paired with the load in weir_watch_look. */
	__atomic_store_n(&watch->looked, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The host's threads take the signals. */
static int start_thread(struct weir_watch *watch, void *(*start)(void *))
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&watch->thread, NULL, start, watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
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

static void release(struct weir_watch *watch)
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
	    (given && !wr_options_read(given, &opts, sizeof opts,
				       offsetof(struct weir_watch_opts, loaded))) ||
	    opts.flags & ~WEIR_WATCH_BY_HOST)
		return WEIR_EINVAL;
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
		release(watch);
	else
		*out = watch;
	return rc;
}

/* eventfd's write is one of the calls a signal handler may make. */
void weir_watch_poke(struct weir_watch *watch)
{
	uint64_t one = 1;
	int saved = errno;

	__atomic_store_n(&watch->poked, 1, __ATOMIC_RELEASE);
	if (write(watch->wake, &one, sizeof one) < 0)
		errno = saved; /* full: it will wake */
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
	release(watch);
}
