/* weir gateway: runs nginx with weir's module in front of an API, and runs the gateway's service,
 * which is `weir serve` in a process of its own. Reads the options, starts nginx and the service,
 * and passes signals and reloads on. */
#include "cli/gateway/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/options/arguments.h"
#include "cli/options/shared.h"
#include "cli/cli.h"
#include "cli/gateway/service.h"
#include "gateway/conf.h"
#include "gateway/paths.h"
#include "gateway/preflight.h"
#include "gateway/process.h"
#include "gateway/supervisor.h"
#include "serve/notify.h"
#include "serve/user.h"

#define EDITION_BYTES ((size_t)4 * 1024 * 1024)
#define ORPHAN_TRIES 100
#define ORPHAN_PAUSE_NS 50000000
#define SERVICE_END_MS 20
#define SERVICE_LOOK_MS 100

extern char **environ;

/* The options as they were read at the start or at a reload, and the data derived from them. */
struct gateway_edition {
	struct wr_arena arena;
	struct wr_gateway_settings settings;
	struct wr_settings service;
	struct wr_gateway_plan plan;
	struct weir_rules *rules;
};

struct gateway_run {
	int argc;
	char **argv;
	struct gateway_edition *now;  /* the options in use */
	struct gateway_edition *next; /* the new options while nginx checks them, else NULL */
	struct wr_supervisor supervisor;
	struct wr_cli_gateway_service *service;
	/* sends messages to systemd, which accepts only messages of this process */
	struct wr_notify notify;
	uv_signal_t signals[5];
	/* timer that runs after nginx has ended, until the service has ended */
	uv_timer_t service_end;
	uv_timer_t service_look;
	unsigned table_moves; /* number of resizes of the table that the service has reported */
	uint64_t rules_seen;  /* latest generation of the rules that the service has reported */
	/* true if another program has resized the table and --memory has not changed since then */
	bool table_resized;
	bool nginx_done;
	bool failed;
};

static void log_line(void *context, const char *text)
{
	(void)context;
	fprintf(stderr, "weir gateway: %s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
}

/* ---- reading ---- */

static void edition_free(struct gateway_edition *edition)
{
	if (!edition)
		return;
	weir_rules_free(edition->rules);
	wr_arena_free(&edition->arena);
	free(edition);
}

/* Loads the rules, and prints warnings and errors in the form of weir check. */
static int load_rules(struct gateway_edition *edition)
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
	weir_rules_stamp(edition->rules, 1, wr_clock_wall_ns());
	return WR_EXIT_YES;
}

/* If root runs the gateway with a queue or Redis, checks that --user is given or the user weir
 * exists. Otherwise nginx's workers would run as www-data or nobody. Other programs run as these
 * users too, so they could read deferred requests or reach Redis. */
static int check_user(const struct gateway_edition *edition)
{
	const struct wr_gateway_plan *plan = &edition->plan;

	if (geteuid() != 0 || plan->drops || plan->settings->user || plan->settings->print_config)
		return WR_EXIT_YES;
	if (!plan->queue && !plan->settings->central)
		return WR_EXIT_YES;
	fprintf(stderr,
		"weir gateway: %s needs a user of its own, because root runs the "
		"gateway: " WR_GATEWAY_MAKE_USER " creates one, --user NAME selects another%s\n",
		plan->queue ? "a queue" : "--redis",
		plan->queue ? ", --queue off runs without a queue" : "");
	return WR_EXIT_NO;
}

static int edition_fill(struct gateway_edition *edition, int argc, char **argv)
{
	struct weir_error error;
	int rc;

	switch (wr_cli_options_read(&wr_cli_gateway_command, argc, argv, environ, &edition->arena,
				    stderr)) {
	case WR_OPTIONS_WRONG:
		return WR_EXIT_USAGE;
	case WR_OPTIONS_HELP:
		return -1;
	case WR_OPTIONS_READ:
		break;
	}
	edition->settings = wr_cli_gateway_settings;
	edition->service = wr_cli_serve_settings;
	edition->settings.table = edition->service.table;
	edition->settings.memory_bytes = edition->service.memory_bytes;
	edition->settings.log_bytes = edition->service.log_bytes;
	edition->settings.central = edition->service.redis.url != NULL;
	edition->settings.central_timeout_ns = edition->service.redis.timeout_ns;
	edition->settings.fleet_size = edition->service.redis.fleet_size;
	edition->settings.queue = edition->service.queue.url;
	edition->settings.queue_target = edition->service.queue.target;
	if (wr_gateway_plan(&edition->settings, &edition->arena, &edition->plan, &error) != 0)
		return wr_cli_fail("gateway", &error, WR_EXIT_USAGE);
	rc = load_rules(edition);
	if (rc == WR_EXIT_YES &&
	    (wr_gateway_pick_domain(&edition->plan, edition->rules, &edition->arena, &error) != 0 ||
	     wr_gateway_plan_queue(&edition->plan, edition->rules, &edition->arena, &error) != 0))
		rc = wr_cli_fail("gateway", &error, WR_EXIT_NO);
	return rc == WR_EXIT_YES ? check_user(edition) : rc;
}

/* Reads the options and the rules and makes the plan. If this fails or --help was given, returns
 * NULL. *exit_code is then the exit code of the failure, or -1 for --help. */
static struct gateway_edition *edition_read(int argc, char **argv, int *exit_code)
{
	struct gateway_edition *edition = calloc(1, sizeof *edition);

	if (!edition)
		abort();
	wr_arena_init(&edition->arena, EDITION_BYTES);
	*exit_code = edition_fill(edition, argc, argv);
	if (*exit_code == WR_EXIT_YES)
		return edition;
	edition_free(edition);
	return NULL;
}

/* ---- callbacks of the supervisor ---- */

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

/* Gives the new options the present runtime folder. A reload cannot change this folder, because
 * nginx runs in it. */
static void keep_folder(const struct gateway_edition *now, struct gateway_edition *fresh)
{
	if (strcmp(now->plan.runtime, fresh->plan.runtime) != 0)
		log_line(NULL, "the runtime folder does not change before the next start");
	fresh->plan.runtime = wr_gateway_print(&fresh->arena, "%s", now->plan.runtime);
	fresh->plan.bodies = wr_gateway_print(&fresh->arena, "%s", now->plan.bodies);
	fresh->plan.socket = wr_gateway_print(&fresh->arena, "%s", now->plan.socket);
	fresh->plan.link_key = wr_gateway_print(&fresh->arena, "%s", now->plan.link_key);
	fresh->plan.deliver = wr_gateway_print(&fresh->arena, "%s", now->plan.deliver);
}

/* Writes nginx's configuration. At the start uses the options that have been read; at a reload
 * reads the options again. */
static int write_configuration(void *context, const char *path)
{
	struct gateway_run *gateway = context;
	struct weir_error error;
	struct gateway_edition *fresh;
	int exit_code;

	if (gateway->supervisor.state == WR_SUPERVISOR_CHECKING)
		return write_conf(&gateway->now->plan, path);
	fresh = edition_read(gateway->argc, gateway->argv, &exit_code);
	if (!fresh) {
		log_line(NULL, "nothing changes");
		return -1;
	}
	keep_folder(gateway->now, fresh);
	fresh->plan.table_as_is =
		gateway->table_resized &&
		fresh->settings.memory_bytes == gateway->now->settings.memory_bytes;
	if (wr_gateway_ports_check(&fresh->plan, gateway->supervisor.session, &error) != 0)
		exit_code = wr_cli_fail("gateway", &error, WR_EXIT_NO);
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

/* Called when nginx has accepted the new configuration: the gateway and the service change to the
 * new options. */
static void on_accepted(void *context)
{
	struct gateway_run *gateway = context;

	if (!gateway->next)
		return;
	edition_free(gateway->now);
	gateway->now = gateway->next;
	gateway->next = NULL;
	gateway->table_resized = gateway->now->plan.table_as_is;
	gateway->supervisor.opts.drain_ms = gateway->now->settings.drain_ns / 1000000;
	gateway->rules_seen = 0; /* a new service counts generations from 1 again */
	wr_cli_gateway_service_reload(&gateway->service, &gateway->now->service,
				      &gateway->now->plan);
}

/* Called before nginx starts. Lets only the owner enter the folder of the delivery socket, because
 * nginx creates the socket with access for all users. */
static void on_starting(void *context)
{
	const struct gateway_run *gateway = context;

	wr_gateway_close_delivery(&gateway->now->plan);
}

static void on_ready(void *context, bool taken_over)
{
	struct gateway_run *gateway = context;
	const struct wr_supervisor *s = &gateway->supervisor;

	wr_gateway_open_delivery(&gateway->now->plan);
	if (taken_over)
		printf("weir gateway took over an nginx that outlived its gateway; its messages go "
		       "to the same output as before\n");
	wr_plan_summary_write(&gateway->now->plan, gateway->now->rules, wr_clock_wall_ns(), stdout);
	wr_cli_gateway_service_summary(gateway->service, stdout);
	printf("weir gateway is ready, nginx is process %d\n", (int)s->pid);
	fflush(stdout);
	wr_notify_send(&gateway->notify, "READY=1");
}

/* Closes all handles, which ends the loop. Blocks signals first, because without a handler a signal
 * would end the process before it has cleaned up. */
static void close_handles(struct gateway_run *gateway)
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
	struct gateway_run *gateway = timer->data;

	if (wr_cli_gateway_service_drained(gateway->service))
		close_handles(gateway);
}

/* Called when nginx has ended. The service can still have requests in progress. The service gets
 * the time of --drain to finish these requests. */
static void on_done(void *context, bool failed)
{
	struct gateway_run *gateway = context;

	gateway->failed = failed;
	gateway->nginx_done = true;
	if (failed || wr_cli_gateway_service_drained(gateway->service)) {
		close_handles(gateway);
		return;
	}
	wr_cli_gateway_service_drain(gateway->service);
	uv_timer_start(&gateway->service_end, on_service_end, SERVICE_END_MS, SERVICE_END_MS);
}

/* Reloads nginx after a resize of the table. The service changes to the new table by itself, but
 * nginx does so only at a reload. Until then each limit is counted in both tables, and deferred
 * requests are known in only one table. If the table has the size in nginx's configuration, nginx
 * itself has resized it, and no reload is needed. */
static void follow_table(struct gateway_run *gateway)
{
	uint64_t bytes = 0;
	unsigned moves = wr_cli_gateway_service_moves(gateway->service, &bytes);

	bool renewed = wr_cli_gateway_service_renew(gateway->service);

	if (renewed)
		wr_cli_gateway_service_moves(gateway->service, &bytes);
	else if (moves == gateway->table_moves)
		return;
	gateway->table_moves = renewed ? 0 : moves;
	if ((moves == 0 && !renewed) ||
	    (!gateway->now->plan.table_as_is &&
	     bytes / 1024 == (gateway->now->settings.memory_bytes + 1023) / 1024))
		return;
	gateway->table_resized = true;
	log_line(NULL, "the table was resized: reloading nginx to use the new table");
	wr_supervisor_reload(&gateway->supervisor);
}

/* Reloads nginx if the rules have changed and a rule has on_limit: defer, but there is no queue and
 * --queue is not given. The reload then sets up a queue. If this fails, the reload reports the
 * error, and the next reload follows only when the rules change again. */
static void follow_rules(struct gateway_run *gateway)
{
	const struct wr_gateway_plan *plan = &gateway->now->plan;
	uint64_t seen = gateway->rules_seen;
	bool defers;

	if (gateway->supervisor.state != WR_SUPERVISOR_RUNNING)
		return;
	gateway->rules_seen = wr_cli_gateway_service_rules(gateway->service, &defers);
	if (gateway->rules_seen == seen || !defers || plan->queue || plan->settings->queue)
		return;
	log_line(NULL, "a rule now has on_limit: defer: reloading nginx to queue its requests");
	wr_supervisor_reload(&gateway->supervisor);
}

static void on_service_timer(uv_timer_t *timer)
{
	struct gateway_run *gateway = timer->data;

	wr_cli_gateway_service_poll(gateway->service);
	if (gateway->notify.watchdog_ms && wr_cli_gateway_service_runs(gateway->service))
		wr_notify_send(&gateway->notify, "WATCHDOG=1");
	if (gateway->supervisor.state == WR_SUPERVISOR_RUNNING)
		wr_gateway_open_delivery(&gateway->now->plan);
	follow_table(gateway);
	follow_rules(gateway);
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int number)
{
	struct gateway_run *gateway = handle->data;

	switch (number) {
	case SIGHUP:
		wr_supervisor_reload(&gateway->supervisor);
		break;
	case SIGUSR1:
		/* A log at /dev/stdout is not opened again, because nginx would change the owner of
		 * the terminal. */
		if (gateway->now->plan.access_log &&
		    strcmp(gateway->now->settings.access_log, "-") != 0)
			wr_supervisor_reopen(&gateway->supervisor);
		break;
	case SIGPIPE:
		break;
	default:
		if (gateway->nginx_done) {
			close_handles(gateway);
			return;
		}
		if (gateway->supervisor.state < WR_SUPERVISOR_STOPPING)
			log_line(NULL, "stopping when the requests in progress are done; a second "
				       "signal stops at once");
		wr_cli_gateway_service_drain(gateway->service);
		wr_supervisor_stop(&gateway->supervisor);
	}
}

static void listen_to_signals(struct gateway_run *gateway, uv_loop_t *loop)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE};

	uv_timer_init(loop, &gateway->service_end);
	gateway->service_end.data = gateway;
	uv_timer_init(loop, &gateway->service_look);
	gateway->service_look.data = gateway;
	uv_timer_start(&gateway->service_look, on_service_timer, SERVICE_LOOK_MS, SERVICE_LOOK_MS);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		uv_signal_init(loop, &gateway->signals[i]);
		gateway->signals[i].data = gateway;
		uv_signal_start(&gateway->signals[i], on_signal, numbers[i]);
	}
}

/* ---- starting ---- */

/* Ends nginx workers that still hold the ports although their master and their gateway have ended.
 */
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
			"changes take effect at SIGHUP only. Put the rules where %s can read them, "
			"for example into /etc/weir\n",
			plan->user, plan->rules, plan->user);
	return WR_EXIT_YES;
}

/* Prepares the start of nginx: creates and locks the folders, ends workers of an earlier nginx,
 * checks the ports, writes the link key, and checks which files workers can access. Returns the
 * file descriptor of the lock file. On failure prints an error message and returns -1. */
static int prepare_start(const struct wr_gateway_plan *plan)
{
	struct weir_error error;
	struct wr_process master;
	pid_t left = 0;
	int lock = -1;
	bool running;

	if (wr_gateway_paths_make(plan, &error) != 0 ||
	    (lock = wr_gateway_paths_lock(plan, &error)) < 0) {
		wr_cli_fail("gateway", &error, WR_EXIT_NO);
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
		wr_cli_fail("gateway", &error, WR_EXIT_NO);
	}
	if (!running)
		wr_gateway_paths_remove(plan);
	close(lock);
	return -1;
}

static int run_gateway(struct gateway_run *gateway)
{
	const struct wr_gateway_plan *plan = &gateway->now->plan;
	struct wr_supervisor_opts opts = {.configure = write_configuration,
					  .accepted = on_accepted,
					  .starting = on_starting,
					  .ready = on_ready,
					  .report = log_line,
					  .done = on_done,
					  .context = gateway};
	uv_loop_t loop;
	int lock = prepare_start(plan);

	if (lock < 0)
		return WR_EXIT_NO;
	gateway->service = wr_cli_gateway_service_start(&gateway->now->service, plan);
	if (!gateway->service) {
		close(lock);
		return WR_EXIT_NO;
	}
	/* Copy these texts, because a reload frees the plan that owns them. */
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
	wr_cli_gateway_service_stop(gateway->service);
	wr_notify_close(&gateway->notify);
	if (!gateway->failed)
		wr_gateway_paths_remove(&gateway->now->plan);
	close(lock);
	free((char *)opts.nginx);
	free((char *)opts.folder);
	free((char *)opts.deliver);
	return gateway->failed ? WR_EXIT_NO : WR_EXIT_YES;
}

static int read_and_run(struct gateway_run *gateway, bool hidden)
{
	int exit_code;

	gateway->now = edition_read(gateway->argc, gateway->argv, &exit_code);
	if (exit_code == -1) {
		wr_cli_options_help(&wr_cli_gateway_command, stdout);
		return WR_EXIT_YES;
	}
	if (!gateway->now)
		return exit_code;
	if (hidden)
		log_line(NULL, WR_ARGUMENTS_HIDDEN);
	if (geteuid() == 0 && !gateway->now->plan.drops && !gateway->now->settings.user &&
	    !gateway->now->settings.print_config)
		log_line(NULL, "warning: the service runs as root: " WR_USER_REMEDY);
	if (gateway->now->settings.print_config)
		wr_conf_write(&gateway->now->plan, WR_CONF_SHOW, stdout);
	else
		exit_code = run_gateway(gateway);
	edition_free(gateway->next);
	edition_free(gateway->now);
	return exit_code;
}

int wr_cli_gateway(int argc, char **argv)
{
	static struct gateway_run gateway;
	bool hidden;
	char **own = wr_cli_arguments_hide(&wr_cli_gateway_command, argc, argv, &hidden);
	int exit_code;

	if (!own)
		abort();
	gateway = (struct gateway_run){.argc = argc, .argv = own};
	exit_code = read_and_run(&gateway, hidden);
	free(own);
	return exit_code;
}
