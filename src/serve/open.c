/* Opens the service's core, and reacts to changes of the rules, the table and Redis. Called by
 * service.c and housekeeping.c. */
#include "serve/open.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "net/log.h"
#include "serve/fleet/redis.h"

#define FILL_PERCENT 80
#define DIAGNOSTICS_LOGGED 10
/* A warning is logged after this many consecutive checks that did not find the table's file. One
 * check does not suffice, because a resize removes the file for a moment. */
#define MISSED_LOOKS 3

/* ---- loading ---- */

/* Notifies systemd and logs the result of a reload. Called from the thread that watches the
 * rules. */
static void on_load(void *context, const struct weir_load *load)
{
	struct wr_service *service = context;

	wr_notify_send(&service->notify, "READY=1");
	if (service->settings.quiet)
		return;
	for (size_t i = 0; i < load->errors->count && i < DIAGNOSTICS_LOGGED; i++) {
		const struct weir_diagnostic *d = &load->errors->items[i];

		wr_log(d->severity == WEIR_ERROR ? WR_LOG_ERROR : WR_LOG_WARN, "%s:%u:%u: %s",
		       d->file, d->line, d->column, d->text);
	}
	if (load->rc == 0)
		wr_log(WR_LOG_INFO, "rules loaded: generation %llu, hash %016llx, in %.1f ms",
		       (unsigned long long)load->generation, (unsigned long long)load->hash,
		       (double)load->duration_ns / 1e6);
	else if (load->rc == WEIR_ERULES)
		wr_log(WR_LOG_ERROR,
		       "rules not loaded: weir check %s shows the errors; generation %llu stays in "
		       "force",
		       service->settings.rules, (unsigned long long)load->generation);
	else
		wr_log(WR_LOG_ERROR, "rules not loaded: %s; generation %llu stays in force",
		       weir_strerror(load->rc), (unsigned long long)load->generation);
}

static void print_diagnostics(const struct weir_errors *errors)
{
	for (size_t i = 0; i < errors->count; i++) {
		char text[2048];

		weir_diagnostic_text(&errors->items[i], text, sizeof text);
		fputs(text, stderr);
	}
	if (errors->dropped)
		fprintf(stderr, "… and %u more\n", errors->dropped);
}

static int load_rules(const char *path, bool print, struct weir_rules **rules,
		      struct weir_error *error)
{
	struct weir_errors errors = {.size = sizeof errors};
	int rc = weir_rules_load(path, rules, &errors);

	if (print)
		print_diagnostics(&errors);
	if (rc < 0)
		wr_error(error, rc, "%s: %u error%s in the rules; weir check %s shows them", path,
			 errors.errors, errors.errors == 1 ? "" : "s", path);
	weir_errors_free(&errors);
	return rc;
}

struct weir_opts wr_settings_table(const struct wr_settings *settings,
				   const struct weir_rules *rules)
{
	struct weir_rules_info info = {.size = sizeof info};

	weir_rules_info(rules, &info);
	return (struct weir_opts){.size = sizeof(struct weir_opts),
				  .flags = info.logs ? WEIR_OPEN_LOGS : 0,
				  .name = settings->table,
				  .dir = settings->table_dir,
				  .memory_bytes = settings->memory_bytes,
				  .log_bytes = settings->log_bytes,
				  .now_ns = wr_clock_wall_ns()};
}

int wr_core_watch_rules(struct wr_service *service, struct wr_core *core,
			const struct weir_rules *rules, struct weir_watch **watch,
			struct weir_error *error)
{
	struct weir_watch_opts opts = {.size = sizeof opts, .loaded = on_load, .context = service};
	int rc = weir_watch_start(core->engine, service->settings.rules, rules, &opts, watch);

	if (rc < 0)
		wr_error(error, rc, "cannot watch %s: %s", service->settings.rules,
			 weir_strerror(rc));
	return rc;
}

uint32_t wr_settings_keys(const struct wr_settings *settings)
{
	const char *keys = settings->keys ? settings->keys : "text";

	return strcmp(keys, "hidden") == 0   ? WEIR_KEYS_HIDDEN
	       : strcmp(keys, "hashed") == 0 ? WEIR_KEYS_HASHED
					     : WEIR_KEYS_TEXT;
}

struct wr_core *wr_core_open(struct wr_service *service, bool print, struct weir_rules **rules,
			     struct weir_error *error)
{
	const struct wr_settings *settings = &service->settings;
	uint8_t secret[WEIR_SECRET_BYTES];
	struct weir_engine_opts opts = {.size = sizeof opts,
					.now_ns = wr_clock_wall_ns(),
					.near_percent = (uint32_t)settings->near_limit_percent,
					.keys = wr_settings_keys(settings),
					.host = "serve"};
	struct weir_engine *engine = NULL;
	struct weir_table *table = NULL;
	struct weir_opts table_opts;
	struct wr_core *core;

	wr_serve_redis_engine_opts(service->redis, &opts, secret);
	if (load_rules(settings->rules, print, rules, error) < 0)
		return NULL;
	table_opts = wr_settings_table(settings, *rules);
	if (weir_open(&table_opts, &table, error) < 0) {
		weir_rules_free(*rules);
		return NULL;
	}
	if (weir_engine_new(table, *rules, &opts, &engine) < 0)
		weir_rules_free(*rules);
	core = engine ? wr_core_new(table, engine) : NULL;
	if (!core) {
		weir_engine_free(engine); /* frees the rules too; does nothing if engine is NULL */
		weir_close(table);
		wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	return core;
}

/* ---- following changes ---- */

static void replace_core(struct wr_service *service, struct wr_core *core, struct weir_watch *watch)
{
	struct wr_core *before;
	struct weir_watch *watch_before;

	pthread_mutex_lock(&service->lock);
	before = service->core;
	watch_before = service->watch;
	service->core = core;
	service->watch = watch;
	pthread_mutex_unlock(&service->lock);
	/* The fleet's secret may have arrived after the new engine was created, so the engine gets
	 * it here. */
	wr_serve_redis_share_secret(service->redis, core->engine);
	wr_service_notify_loops(service, WR_LOOP_CORE);
	service->table_file.core = NULL;
	wr_service_forget_table_info(service);
	weir_watch_stop(watch_before);
	wr_core_release(before);
}

static void report_resize(struct wr_service *service, struct wr_core *core)
{
	struct weir_info info = {.size = sizeof info};
	char size[WR_SIZE_TEXT];

	if (weir_info(core->table, wr_clock_wall_ns(), &info) < 0)
		return;
	wr_size_text(info.memory_bytes, size);
	wr_log(WR_LOG_INFO, "the table was resized: %s, %s, %llu keys in use", info.path, size,
	       (unsigned long long)info.keys);
	__atomic_store_n(&service->moved_bytes, info.memory_bytes, __ATOMIC_RELAXED);
	__atomic_add_fetch(&service->moves, 1, __ATOMIC_RELEASE);
}

/* Logs a warning if the table's file was removed: by hand, or with its folder by systemd. The
 * process then keeps counting, but no other process shares its counters. */
static void check_file(struct wr_service *service)
{
	struct wr_serve_table_file *file = &service->table_file;
	struct stat found;

	if (file->core != service->core ||
	    (stat(file->path, &found) == 0 && found.st_ino == file->inode)) {
		file->missed = 0;
		return;
	}
	if (++file->missed == MISSED_LOOKS)
		wr_log(WR_LOG_WARN,
		       "table %s was removed: this process keeps its counters, but no other "
		       "process shares them; restart this process",
		       file->path);
}

static void remember_file(struct wr_service *service, const char *path)
{
	struct wr_serve_table_file *file = &service->table_file;
	struct stat found;

	if (file->core == service->core || stat(path, &found) < 0)
		return;
	*file = (struct wr_serve_table_file){.core = service->core, .inode = found.st_ino};
	snprintf(file->path, sizeof file->path, "%s", path);
}

void wr_core_follow_resize(struct wr_service *service)
{
	static struct wr_log_gate gate;
	struct weir_error error = {0};
	struct weir_watch *watch = NULL;
	struct weir_rules *rules;
	struct wr_core *core;

	wr_assert(service->core);
	if (weir_moved(service->core->table) == 0) {
		check_file(service);
		return;
	}
	core = wr_core_open(service, false, &rules, &error);
	if (core && wr_core_watch_rules(service, core, rules, &watch, &error) < 0) {
		wr_core_release(core);
		core = NULL;
	}
	if (!core) {
		wr_log_limited(&gate, WR_LOG_ERROR,
			       "the table was resized, but the new one cannot be used yet: %s",
			       error.text);
		return;
	}
	replace_core(service, core, watch);
	report_resize(service, core);
}

void wr_core_check_redis(struct wr_service *service)
{
	struct wr_serve_redis_rules rules;
	bool unready = false;

	if (!service->redis)
		return;
	wr_serve_redis_set_gauges(service->redis, service->core->table, wr_clock_wall_ns());
	if (wr_serve_redis_is_away(service->redis)) {
		rules = wr_serve_redis_rules(service->core->engine);
		unready = rules.limits > 0 && rules.deny == rules.limits;
	}
	if (unready == service->unready)
		return;
	__atomic_store_n(&service->unready, unready, __ATOMIC_RELAXED);
	wr_log(WR_LOG_WARN, unready ? "not ready: Redis is unavailable, and every rule has "
				      "on_store_failure: deny"
				    : "ready again");
	wr_service_notify_loops(service, WR_LOOP_HEALTH);
}

void wr_core_check_fill(struct wr_service *service)
{
	struct weir_info info;

	wr_assert(service->core);
	if (wr_service_table_info(service, service->core, wr_clock_wall_ns(), &info) < 0)
		return;
	remember_file(service, info.path);
	if (info.keys * 100 < info.cells * FILL_PERCENT) {
		service->fill_reported = false;
		return;
	}
	if (!service->fill_reported)
		wr_log(WR_LOG_WARN,
		       "table %s is %llu %% full: %llu of %llu keys; weir table resize gives it "
		       "more memory",
		       info.path, (unsigned long long)(info.keys * 100 / info.cells),
		       (unsigned long long)info.keys, (unsigned long long)info.cells);
	service->fill_reported = true;
}
