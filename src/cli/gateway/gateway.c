/* weir gateway: nginx with the module before an API. */
#include "cli/gateway/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/options/arguments.h"
#include "cli/cli.h"
#include "cli/gateway/service.h"
#include "gateway/conf.h"
#include "gateway/paths.h"
#include "gateway/ports.h"
#include "gateway/process.h"
#include "gateway/summary.h"
#include "gateway/supervisor.h"
#include "gateway/worker_view.h"
#include "serve/notify.h"

#define EDITION_BYTES ((size_t)4 * 1024 * 1024)
#define ORPHAN_TRIES 100
#define ORPHAN_PAUSE_NS 50000000
#define SERVICE_END_MS 20
#define SERVICE_LOOK_MS 100

extern char **environ;

/* Options as they were read once, and all that follows from them. */
struct edition {
	struct wr_arena arena;
	struct wr_gateway_settings settings;
	struct gateway_service_settings service;
	struct wr_gateway_plan plan;
	struct weir_rules *rules;
};

struct gateway {
	int argc;
	char **argv;
	struct edition *now;  /* in force */
	struct edition *next; /* while nginx looks at it; NULL: none */
	struct wr_supervisor supervisor;
	struct gateway_service *service; /* beside nginx */
	struct wr_notify notify;         /* systemd, which listens to this process alone */
	uv_signal_t signals[5];
	uv_timer_t service_end; /* nginx has ended, the service has not */
	uv_timer_t service_look;
	unsigned table_moves; /* of the service, seen so far */
	uint64_t rules_seen;  /* the service's, by number */
	bool table_resized;   /* by somebody else, and --memory is what it was then */
	bool nginx_done;
	bool failed;
};

static void say(void *context, const char *text)
{
	(void)context;
	fprintf(stderr, "weir gateway: %s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static int refuse(const struct weir_error *error, int exit_code)
{
	say(NULL, error->text);
	return exit_code;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- reading ---- */

static void edition_free(struct edition *edition)
{
	if (!edition)
		return;
	weir_rules_free(edition->rules);
	wr_arena_free(&edition->arena);
	free(edition);
}

/* Warnings are shown as well, as weir check does. */
static int load_rules(struct edition *edition)
{
	struct weir_errors errors = {.size = sizeof errors};
	int rc = weir_rules_load(edition->plan.rules, &edition->rules, &errors);

	wr_cli_print_errors(&errors);
	weir_errors_free(&errors);
	if (rc != 0) {
		fprintf(stderr, "weir gateway: the rules at %s are not usable%s\n",
			edition->plan.rules, rc == WEIR_EMEMORY ? ": out of memory" : "");
		return WR_EXIT_NO;
	}
	weir_rules_stamp(edition->rules, 1, now_ns());
	return WR_EXIT_YES;
}

/* Programs of others run as www-data and nobody. What they could do with a request that is kept, or
 * with Redis, asks for a user of our own. */
static int check_user(const struct edition *edition)
{
	const struct wr_gateway_plan *plan = &edition->plan;

	if (geteuid() != 0 || plan->drops || plan->settings->user || plan->settings->print_config)
		return WR_EXIT_YES;
	if (!plan->queue && !plan->settings->central)
		return WR_EXIT_YES;
	fprintf(stderr,
		"weir gateway: %s needs a user of its own, for root runs "
		"this: " WR_GATEWAY_MAKE_USER " makes one, --user NAME names another%s\n",
		plan->queue ? "a queue" : "--redis",
		plan->queue ? ", --queue off does without a queue" : "");
	return WR_EXIT_NO;
}

static int edition_fill(struct edition *edition, int argc, char **argv)
{
	struct weir_error error;
	int rc;

	switch (wr_options_read(&gateway_command, argc, argv, environ, &edition->arena, stderr)) {
	case WR_OPTIONS_WRONG:
		return WR_EXIT_USAGE;
	case WR_OPTIONS_HELP:
		return -1;
	case WR_OPTIONS_READ:
		break;
	}
	edition->settings = gateway_settings;
	edition->service = gateway_service_settings;
	edition->settings.central = edition->service.redis.url != NULL;
	edition->settings.central_timeout_ns = edition->service.redis.timeout_ns;
	edition->settings.fleet_size = edition->service.redis.fleet_size;
	edition->settings.queue = edition->service.queue.url;
	edition->settings.queue_target = edition->service.queue.target;
	if (wr_gateway_plan(&edition->settings, &edition->arena, &edition->plan, &error) != 0)
		return refuse(&error, WR_EXIT_USAGE);
	rc = load_rules(edition);
	if (rc == WR_EXIT_YES &&
	    (wr_gateway_pick_domain(&edition->plan, edition->rules, &edition->arena, &error) != 0 ||
	     wr_gateway_plan_queue(&edition->plan, edition->rules, &edition->arena, &error) != 0))
		rc = refuse(&error, WR_EXIT_NO);
	return rc == WR_EXIT_YES ? check_user(edition) : rc;
}

/* Options, plan and rules; NULL and an exit code (-1: help was asked for) when they are not usable.
 */
static struct edition *edition_read(int argc, char **argv, int *exit_code)
{
	struct edition *edition = calloc(1, sizeof *edition);

	if (!edition)
		abort();
	wr_arena_init(&edition->arena, EDITION_BYTES);
	*exit_code = edition_fill(edition, argc, argv);
	if (*exit_code == WR_EXIT_YES)
		return edition;
	edition_free(edition);
	return NULL;
}

/* ---- what the supervisor asks for ---- */

static int write_conf(const struct wr_gateway_plan *plan, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool written;

	if (!out) {
		fprintf(stderr, "weir gateway: %s: %s\n", path, strerror(errno));
		return -1;
	}
	wr_conf_write(plan, WR_CONF_RUN, out);
	written = !ferror(out);
	if (fclose(out) != 0 || !written) {
		fprintf(stderr, "weir gateway: %s: %s\n", path, strerror(errno));
		return -1;
	}
	return 0;
}

/* What a reload cannot change: nginx is where it is. */
static void keep_folder(const struct edition *now, struct edition *fresh)
{
	if (strcmp(now->plan.runtime, fresh->plan.runtime) != 0)
		say(NULL, "the runtime folder stays the same until the next start");
	fresh->plan.runtime = wr_gateway_print(&fresh->arena, "%s", now->plan.runtime);
	fresh->plan.bodies = wr_gateway_print(&fresh->arena, "%s", now->plan.bodies);
	fresh->plan.socket = wr_gateway_print(&fresh->arena, "%s", now->plan.socket);
	fresh->plan.link_key = wr_gateway_print(&fresh->arena, "%s", now->plan.link_key);
	fresh->plan.deliver = wr_gateway_print(&fresh->arena, "%s", now->plan.deliver);
}

/* At the start the options have just been read; on a reload they are read again. */
static int configure(void *context, const char *path)
{
	struct gateway *gateway = context;
	struct weir_error error;
	struct edition *fresh;
	int exit_code;

	if (gateway->supervisor.state == WR_SUPERVISOR_CHECKING)
		return write_conf(&gateway->now->plan, path);
	fresh = edition_read(gateway->argc, gateway->argv, &exit_code);
	if (!fresh) {
		say(NULL, "nothing changes");
		return -1;
	}
	keep_folder(gateway->now, fresh);
	fresh->plan.table_as_is =
		gateway->table_resized &&
		fresh->settings.memory_bytes == gateway->now->settings.memory_bytes;
	if (wr_gateway_ports_check(&fresh->plan, gateway->supervisor.session, &error) != 0)
		exit_code = refuse(&error, WR_EXIT_NO);
	else if (write_conf(&fresh->plan, path) != 0)
		exit_code = WR_EXIT_NO;
	if (exit_code != WR_EXIT_YES) {
		edition_free(fresh);
		return -1;
	}
	edition_free(gateway->next);
	gateway->next = fresh;
	return 0;
}

/* Nothing changes before nginx has agreed: neither here nor for the service. */
static void on_accepted(void *context)
{
	struct gateway *gateway = context;

	if (!gateway->next)
		return;
	edition_free(gateway->now);
	gateway->now = gateway->next;
	gateway->next = NULL;
	gateway->table_resized = gateway->now->plan.table_as_is;
	gateway->supervisor.opts.drain_ms = gateway->now->settings.drain_ns / 1000000;
	gateway->rules_seen = 0; /* it may be another service, and count anew */
	gateway_service_reload(&gateway->service, &gateway->now->service, &gateway->now->plan);
}

/* nginx will make the socket for deliveries, open to all. */
static void on_starting(void *context)
{
	const struct gateway *gateway = context;

	wr_gateway_close_delivery(&gateway->now->plan);
}

static void on_ready(void *context, bool taken_over)
{
	struct gateway *gateway = context;
	const struct wr_supervisor *s = &gateway->supervisor;

	wr_gateway_open_delivery(&gateway->now->plan);
	if (taken_over)
		printf("weir gateway took over an nginx that outlived its gateway; its messages go "
		       "where "
		       "they went\n");
	wr_summary_write(&gateway->now->plan, gateway->now->rules, now_ns(), stdout);
	gateway_service_summary(gateway->service, stdout);
	printf("weir gateway is ready, nginx is process %d\n", (int)s->pid);
	fflush(stdout);
	wr_notify_send(&gateway->notify, "READY=1");
}

/* Signals are blocked first: without a handler the next one would end us half way. */
static void leave(struct gateway *gateway)
{
	sigset_t all;

	if (uv_is_closing((uv_handle_t *)&gateway->service_end))
		return;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	uv_close((uv_handle_t *)&gateway->service_end, NULL);
	uv_close((uv_handle_t *)&gateway->service_look, NULL);
	for (size_t i = 0; i < sizeof gateway->signals / sizeof *gateway->signals; i++)
		uv_close((uv_handle_t *)&gateway->signals[i], NULL);
}

static void on_service_end(uv_timer_t *timer)
{
	struct gateway *gateway = timer->data;

	if (gateway_service_drained(gateway->service))
		leave(gateway);
}

/* The service may have calls to end yet; its own bound on that is --drain too. */
static void on_done(void *context, bool failed)
{
	struct gateway *gateway = context;

	gateway->failed = failed;
	gateway->nginx_done = true;
	if (failed || gateway_service_drained(gateway->service)) {
		leave(gateway);
		return;
	}
	gateway_service_drain(gateway->service);
	uv_timer_start(&gateway->service_end, on_service_end, SERVICE_END_MS, SERVICE_END_MS);
}

/* The service follows a table that is resized, and nginx only at a reload: until then a limit would
 * hold in each of the tables for itself, and what is deferred be known in one of them alone. If it
 * has the size that nginx was told, nginx itself has resized it. */
static void look_at_table(struct gateway *gateway)
{
	uint64_t bytes = 0;
	unsigned moves = gateway_service_moves(gateway->service, &bytes);

	bool renewed = gateway_service_renew(gateway->service);

	if (renewed)
		gateway_service_moves(gateway->service, &bytes);
	else if (moves == gateway->table_moves)
		return;
	gateway->table_moves = renewed ? 0 : moves;
	if ((moves == 0 && !renewed) ||
	    (!gateway->now->plan.table_as_is &&
	     bytes / 1024 == (gateway->now->settings.memory_bytes + 1023) / 1024))
		return;
	gateway->table_resized = true;
	say(NULL, "the table is another one now: nginx is to take it, too");
	wr_supervisor_reload(&gateway->supervisor);
}

/* Where nobody says --queue there is none before a rule needs one, and rules change while we run.
 * If it cannot be had, why is said once for each change of the rules. */
static void look_at_rules(struct gateway *gateway)
{
	const struct wr_gateway_plan *plan = &gateway->now->plan;
	uint64_t seen = gateway->rules_seen;
	bool defers;

	if (gateway->supervisor.state != WR_SUPERVISOR_RUNNING)
		return;
	gateway->rules_seen = gateway_service_rules(gateway->service, &defers);
	if (gateway->rules_seen == seen || !defers || plan->queue || plan->settings->queue)
		return;
	say(NULL, "a rule says on_limit: defer now: nginx is to keep its requests");
	wr_supervisor_reload(&gateway->supervisor);
}

static void on_service_look(uv_timer_t *timer)
{
	struct gateway *gateway = timer->data;

	gateway_service_look(gateway->service);
	if (gateway->notify.watchdog_ms && gateway_service_lives(gateway->service))
		wr_notify_send(&gateway->notify, "WATCHDOG=1");
	if (gateway->supervisor.state == WR_SUPERVISOR_RUNNING)
		wr_gateway_open_delivery(&gateway->now->plan);
	look_at_table(gateway);
	look_at_rules(gateway);
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int number)
{
	struct gateway *gateway = handle->data;

	switch (number) {
	case SIGHUP:
		wr_supervisor_reload(&gateway->supervisor);
		break;
	case SIGUSR1:
		/* nginx would give the terminal behind /dev/stdout to its workers' user. */
		if (gateway->now->plan.access_log &&
		    strcmp(gateway->now->settings.access_log, "-") != 0)
			wr_supervisor_reopen(&gateway->supervisor);
		break;
	case SIGPIPE:
		break;
	default:
		if (gateway->nginx_done) {
			leave(gateway);
			return;
		}
		if (gateway->supervisor.state < WR_SUPERVISOR_STOPPING)
			say(NULL,
			    "stopping when the requests under way are done; again to stop at once");
		gateway_service_drain(gateway->service);
		wr_supervisor_stop(&gateway->supervisor);
	}
}

static void listen_to_signals(struct gateway *gateway, uv_loop_t *loop)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE};

	uv_timer_init(loop, &gateway->service_end);
	gateway->service_end.data = gateway;
	uv_timer_init(loop, &gateway->service_look);
	gateway->service_look.data = gateway;
	uv_timer_start(&gateway->service_look, on_service_look, SERVICE_LOOK_MS, SERVICE_LOOK_MS);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		uv_signal_init(loop, &gateway->signals[i]);
		gateway->signals[i].data = gateway;
		uv_signal_start(&gateway->signals[i], on_signal, numbers[i]);
	}
}

/* ---- starting ---- */

/* Workers whose master and gateway are both gone still hold the ports. */
static void end_orphans(pid_t session)
{
	struct timespec pause = {.tv_nsec = ORPHAN_PAUSE_NS};
	size_t workers = wr_process_signal_session(session, 0, SIGQUIT);

	if (!workers)
		return;
	fprintf(stderr, "weir gateway: %zu worker%s of an nginx without master asked to finish\n",
		workers, workers == 1 ? "" : "s");
	for (int i = 0; i < ORPHAN_TRIES && wr_process_signal_session(session, 0, 0); i++)
		nanosleep(&pause, NULL);
	wr_process_signal_session(session, 0, SIGKILL);
}

static int check_worker_view(const struct wr_gateway_plan *plan)
{
	int seen = wr_worker_view(plan);

	if (seen & WR_WORKER_NO_BODIES) {
		fprintf(stderr,
			"weir gateway: nginx's workers run as %s, who cannot enter %s: chmod o+x "
			"on it and the "
			"folders above, or choose another with --runtime DIR\n",
			plan->user, plan->bodies);
		return WR_EXIT_NO;
	}
	if (seen & WR_WORKER_NO_RULES)
		fprintf(stderr,
			"weir gateway: warning: nginx's workers run as %s, who cannot read %s: "
			"changes will "
			"be noticed at SIGHUP only. Put the rules where %s can read them, as in "
			"/etc/weir\n",
			plan->user, plan->rules, plan->user);
	return WR_EXIT_YES;
}

/* Everything that can be known to fail before nginx is asked. Returns the lock, or -1. */
static int prepare(const struct wr_gateway_plan *plan)
{
	struct weir_error error;
	struct wr_process master;
	pid_t left = 0;
	int lock = -1;
	bool running;

	if (wr_gateway_paths_make(plan, &error) != 0 ||
	    (lock = wr_gateway_paths_lock(plan, &error)) < 0) {
		refuse(&error, WR_EXIT_NO);
		return -1;
	}
	running = wr_process_master(plan->runtime, &master, &left);
	if (!running)
		end_orphans(left);
	if (wr_gateway_ports_check(plan, running ? master.session : 0, &error) == 0 &&
	    wr_gateway_write_link_key(plan, running, &error) == 0) {
		if (check_worker_view(plan) == WR_EXIT_YES)
			return lock;
	} else {
		refuse(&error, WR_EXIT_NO);
	}
	if (!running)
		wr_gateway_paths_remove(plan);
	close(lock);
	return -1;
}

static int run(struct gateway *gateway)
{
	const struct wr_gateway_plan *plan = &gateway->now->plan;
	struct wr_supervisor_opts opts = {.configure = configure,
					  .accepted = on_accepted,
					  .starting = on_starting,
					  .ready = on_ready,
					  .say = say,
					  .done = on_done,
					  .context = gateway};
	uv_loop_t loop;
	int lock = prepare(plan);

	if (lock < 0)
		return WR_EXIT_NO;
	gateway->service = gateway_service_start(&gateway->now->service, plan);
	if (!gateway->service) {
		close(lock);
		return WR_EXIT_NO;
	}
	/* Copies: a reload frees the edition these came from. */
	opts.nginx = strdup(plan->nginx);
	opts.folder = strdup(plan->runtime);
	opts.deliver = strdup(plan->deliver);
	opts.drain_ms = gateway->now->settings.drain_ns / 1000000;
	if (!opts.nginx || !opts.folder || !opts.deliver || uv_loop_init(&loop) != 0 ||
	    wr_supervisor_init(&gateway->supervisor, &loop, &opts) != 0)
		abort();
	listen_to_signals(gateway, &loop);
	wr_notify_open(&gateway->notify);
	wr_supervisor_start(&gateway->supervisor);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	gateway_service_stop(gateway->service);
	wr_notify_close(&gateway->notify);
	if (!gateway->failed)
		wr_gateway_paths_remove(&gateway->now->plan);
	close(lock);
	free((char *)opts.nginx);
	free((char *)opts.folder);
	free((char *)opts.deliver);
	return gateway->failed ? WR_EXIT_NO : WR_EXIT_YES;
}

static int read_and_run(struct gateway *gateway, bool hidden)
{
	int exit_code;

	gateway->now = edition_read(gateway->argc, gateway->argv, &exit_code);
	if (exit_code == -1) {
		wr_options_help(&gateway_command, stdout);
		return WR_EXIT_YES;
	}
	if (!gateway->now)
		return exit_code;
	if (hidden)
		say(NULL, WR_ARGUMENTS_HIDDEN);
	if (geteuid() == 0 && !gateway->now->plan.drops && !gateway->now->settings.user &&
	    !gateway->now->settings.print_config)
		say(NULL, "warning: the service runs as root: " WR_GATEWAY_MAKE_USER
			  " makes a user for it, and --user NAME names another");
	if (gateway->now->settings.print_config)
		wr_conf_write(&gateway->now->plan, WR_CONF_SHOW, stdout);
	else
		exit_code = run(gateway);
	edition_free(gateway->next);
	edition_free(gateway->now);
	return exit_code;
}

int wr_cli_gateway(int argc, char **argv)
{
	static struct gateway gateway;
	bool hidden;
	char **own = wr_arguments_hide(&gateway_command, argc, argv, &hidden);
	int exit_code;

	if (!own)
		abort();
	gateway = (struct gateway){.argc = argc, .argv = own};
	exit_code = read_and_run(&gateway, hidden);
	free(own);
	return exit_code;
}
