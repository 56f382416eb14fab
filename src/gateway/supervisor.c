/* The state machine that keeps nginx running; supervisor.h draws it. Called by the subcommand
 * `weir gateway`. */
#include "gateway/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "gateway/process.h"

#define PID_POLL_MS 20 /* time between two checks for nginx.pid during a start */
/* A start that takes longer than this has failed. The value must be above 2.5 s, because nginx
 * tries for 2.5 s to listen on a port that is in use. */
#define START_MS 20000
/* if a master dies after it has run longer than this, it is restarted after the shortest delay */
#define STEADY_MS 10000
#define KILL_MS 5000 /* time between SIGTERM and SIGKILL */
#define BACKOFF_MAX_MS 10000

static void on_master_ended(struct wr_supervisor *s);

static void report_message(struct wr_supervisor *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void report_message(struct wr_supervisor *s, const char *format, ...)
{
	char text[10240];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	s->opts.report(s->opts.context, text);
}

uint64_t wr_supervisor_backoff_ms(unsigned tries)
{
	uint64_t ms = 100;

	for (; tries > 1 && ms < BACKOFF_MAX_MS; tries--)
		ms *= 2;
	return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

/* ---- closing ---- */

static void report_done_if_closed(struct wr_supervisor *s)
{
	if (s->state == WR_SUPERVISOR_CLOSED && s->handles == 0 && s->check.handles == 0)
		s->opts.done(s->opts.context, s->failed);
}

static void on_closed(uv_handle_t *handle)
{
	struct wr_supervisor *s = handle->data;

	s->handles--;
	report_done_if_closed(s);
}

/* Sends a signal to the workers whose master has died. Returns the number of these workers. */
static size_t signal_lost_workers(const struct wr_supervisor *s, int signal)
{
	size_t count = 0;

	for (unsigned i = 0; i < WR_SUPERVISOR_LOST; i++)
		if (s->lost[i] != s->session || !s->pid)
			count += wr_process_signal_session(s->lost[i], 0, signal);
	return count;
}

/* Ends the supervisor. Called when no master runs any more. Stops workers whose master has died,
 * because otherwise they would serve requests for ever. */
static void close_supervisor(struct wr_supervisor *s, bool failed)
{
	if (s->state == WR_SUPERVISOR_CLOSED)
		return;
	s->state = WR_SUPERVISOR_CLOSED;
	s->failed = failed;
	signal_lost_workers(s, SIGTERM);
	uv_close((uv_handle_t *)&s->timer, on_closed);
}

/* ---- watching a master ---- */

static void on_child_closed(uv_handle_t *handle)
{
	struct wr_supervisor *s = handle->data;

	s->handles--;
	on_master_ended(s);
	report_done_if_closed(s);
}

static void on_child_exit(uv_process_t *child, int64_t status, int signal)
{
	struct wr_supervisor *s = child->data;

	if (signal)
		snprintf(s->ended, sizeof s->ended,
			 "nginx (process %d) was ended by signal %d (%s)", (int)s->pid, signal,
			 strsignal(signal));
	else
		snprintf(s->ended, sizeof s->ended, "nginx (process %d) ended with code %d",
			 (int)s->pid, (int)status);
	uv_close((uv_handle_t *)child, on_child_closed);
}

static void on_watch_closed(uv_handle_t *handle)
{
	struct wr_supervisor *s = handle->data;

	close(s->pidfd);
	on_child_closed(handle);
}

static void on_watch(uv_poll_t *watch, int status, int events)
{
	struct wr_supervisor *s = watch->data;

	(void)status;
	(void)events;
	snprintf(s->ended, sizeof s->ended, "nginx (process %d) has ended", (int)s->pid);
	uv_close((uv_handle_t *)watch, on_watch_closed);
}

/* Watches a master that is not a child of this process. Returns false if the master cannot be
 * watched. */
static bool adopt_master(struct wr_supervisor *s, const struct wr_process *master)
{
	s->pidfd = (int)syscall(SYS_pidfd_open, master->pid, 0);
	if (s->pidfd < 0)
		return false;
	if (uv_poll_init(s->loop, &s->watch, s->pidfd) != 0) {
		close(s->pidfd);
		return false;
	}
	s->handles++;
	s->watch.data = s;
	uv_poll_start(&s->watch, UV_READABLE, on_watch);
	s->pid = master->pid;
	s->session = master->session;
	return true;
}

/* ---- starting ---- */

static void on_supervisor_timer(uv_timer_t *timer);

static void enter_running(struct wr_supervisor *s, bool taken_over)
{
	bool first = !s->ran;

	uv_timer_stop(&s->timer);
	s->state = WR_SUPERVISOR_RUNNING;
	s->started_ms = uv_now(s->loop);
	s->ran = true;
	if (s->reload_pending)
		kill(s->pid, SIGHUP);
	s->reload_pending = false;
	if (first)
		s->opts.ready(s->opts.context, taken_over);
	else
		report_message(s, "nginx runs again (process %d)", (int)s->pid);
}

static void wait_and_start(struct wr_supervisor *s)
{
	uint64_t ms = wr_supervisor_backoff_ms(++s->failed_starts);

	s->state = WR_SUPERVISOR_WAITING;
	report_message(s, "%s; starting it again in %.1f s", s->ended, (double)ms / 1000);
	uv_timer_start(&s->timer, on_supervisor_timer, ms, 0);
}

static void spawn_nginx(struct wr_supervisor *s)
{
	char conf[PATH_MAX + 16], pid[PATH_MAX + 16];
	const char *args[] = {s->opts.nginx, "-p", s->opts.folder, "-c",
			      conf,          "-e", "stderr",       NULL};
	uv_stdio_container_t io[3] = {{.flags = UV_IGNORE},
				      {.flags = UV_INHERIT_FD, .data.fd = 1},
				      {.flags = UV_INHERIT_FD, .data.fd = 2}};
	uv_process_options_t options = {.exit_cb = on_child_exit,
					.file = s->opts.nginx,
					.args = (char **)args,
					.cwd = s->opts.folder,
					.flags = UV_PROCESS_DETACHED,
					.stdio = io,
					.stdio_count = 3};
	int rc;

	snprintf(conf, sizeof conf, "%s/nginx.conf", s->opts.folder);
	snprintf(pid, sizeof pid, "%s/nginx.pid", s->opts.folder);
	unlink(pid);
	/* Remove the socket that a killed nginx left behind, because nginx does not start if the
	 * file exists. No other gateway can use the socket, because this gateway has locked the
	 * runtime folder. */
	if (s->opts.deliver)
		unlink(s->opts.deliver);
	if (s->opts.starting)
		s->opts.starting(s->opts.context);
	s->reload_pending = false;
	s->state = WR_SUPERVISOR_STARTING;
	s->started_ms = uv_now(s->loop);
	rc = uv_spawn(s->loop, &s->child, &options);
	s->child.data = s;
	s->handles++;
	if (rc != 0) {
		snprintf(s->ended, sizeof s->ended, "nginx cannot be started: %s", uv_strerror(rc));
		uv_close((uv_handle_t *)&s->child, on_child_closed);
		return;
	}
	s->pid = s->child.pid;
	s->session = s->pid;
	uv_timer_start(&s->timer, on_supervisor_timer, PID_POLL_MS, PID_POLL_MS);
}

/* Checks whether nginx is ready: nginx writes nginx.pid when it listens. */
static void look_for_pid(struct wr_supervisor *s)
{
	struct wr_process master;
	pid_t left;

	if (wr_process_master(s->opts.folder, &master, &left) && master.pid == s->pid) {
		enter_running(s, false);
	} else if (uv_now(s->loop) - s->started_ms > START_MS) {
		report_message(s, "nginx was not ready after %d s; killing it", START_MS / 1000);
		kill(s->pid, SIGKILL);
		uv_timer_stop(&s->timer);
	}
}

/* Frees the ports that workers hold although their master has died. SIGQUIT lets these workers stop
 * listening and finish their requests. With by_force, which is used after a start has failed, these
 * workers are killed. */
static void release_ports(struct wr_supervisor *s, bool by_force)
{
	size_t workers = signal_lost_workers(s, by_force ? SIGKILL : SIGQUIT);

	if (workers)
		report_message(s, "%zu worker%s of the last nginx %s", workers,
			       workers == 1 ? "" : "s", by_force ? "killed" : "asked to finish");
}

/* Adopts the new master if an operator has upgraded nginx on the fly (USR2, then QUIT); nginx.pid
 * then contains the id of the new master. Returns false if there is no new master. */
static bool follow_successor(struct wr_supervisor *s, pid_t gone)
{
	struct wr_process successor;
	pid_t left;

	if (!wr_process_master(s->opts.folder, &successor, &left) || successor.pid == gone ||
	    !adopt_master(s, &successor))
		return false;
	report_message(s, "nginx was upgraded: process %d replaces %d", (int)successor.pid,
		       (int)gone);
	return true;
}

static void on_master_ended(struct wr_supervisor *s)
{
	bool was_running = s->state == WR_SUPERVISOR_RUNNING;
	pid_t gone = s->pid;

	s->pid = 0;
	uv_timer_stop(&s->timer);
	if (was_running && follow_successor(s, gone))
		return;
	s->lost[s->lost_count++ % WR_SUPERVISOR_LOST] = s->session;
	if (s->state == WR_SUPERVISOR_STOPPING) {
		close_supervisor(s, false);
		return;
	}
	if (!s->ran) {
		report_message(s, "%s before it was ready", s->ended);
		close_supervisor(s, true);
		return;
	}
	if (was_running && uv_now(s->loop) - s->started_ms > STEADY_MS)
		s->failed_starts = 0;
	wait_and_start(s);
	release_ports(s, !was_running);
}

/* ---- configuration ---- */

static void conf_path(const struct wr_supervisor *s, const char *name, char path[PATH_MAX + 16])
{
	snprintf(path, PATH_MAX + 16, "%s/%s", s->opts.folder, name);
}

static void check_conf(struct wr_supervisor *s)
{
	char path[PATH_MAX + 16];

	conf_path(s, "nginx.conf.new", path);
	s->check_again = false;
	if (s->opts.configure(s->opts.context, path) != 0) {
		if (s->state == WR_SUPERVISOR_CHECKING)
			close_supervisor(s, true);
		return;
	}
	wr_conf_check_start(&s->check, s->loop, s->opts.nginx, s->opts.folder, path);
}

/* Called when nginx -t has accepted the first configuration. If an nginx already runs in
 * s->opts.folder, takes it over and makes it load the configuration. Otherwise starts an nginx. */
static void start_or_take_over(struct wr_supervisor *s)
{
	struct wr_process master;
	pid_t left;

	if (wr_process_master(s->opts.folder, &master, &left) && adopt_master(s, &master)) {
		kill(s->pid, SIGHUP);
		enter_running(s, true);
		return;
	}
	spawn_nginx(s);
}

static void conf_is_good(struct wr_supervisor *s)
{
	char fresh[PATH_MAX + 16], path[PATH_MAX + 16];

	conf_path(s, "nginx.conf.new", fresh);
	conf_path(s, "nginx.conf", path);
	if (rename(fresh, path) != 0) {
		report_message(s, "cannot rename %s: %s", fresh, strerror(errno));
		if (s->state == WR_SUPERVISOR_CHECKING)
			close_supervisor(s, true);
		return;
	}
	s->opts.accepted(s->opts.context);
	if (s->state == WR_SUPERVISOR_CHECKING) {
		start_or_take_over(s);
	} else if (s->state == WR_SUPERVISOR_RUNNING) {
		kill(s->pid, SIGHUP);
		report_message(s, "nginx loads the new configuration");
	} else if (s->state == WR_SUPERVISOR_STARTING) {
		/* nginx has possibly read the old configuration already, so it has to reload the
		 * new one when it is ready. */
		s->reload_pending = true;
	}
}

static void on_checked(struct wr_conf_check *check)
{
	struct wr_supervisor *s = check->data;

	if (s->state == WR_SUPERVISOR_STOPPING || s->state == WR_SUPERVISOR_CLOSED) {
		if (!s->pid)
			close_supervisor(s, false);
		report_done_if_closed(s);
		return;
	}
	if (check->good) {
		if (check->len)
			report_message(s, "nginx warns about the configuration:\n%s",
				       check->report);
		conf_is_good(s);
	} else {
		report_message(s, "nginx refuses the configuration %s/nginx.conf.new%s:\n%s",
			       s->opts.folder, s->ran ? ", the last one stays in force" : "",
			       check->report);
		if (!s->ran)
			close_supervisor(s, true);
	}
	if (s->check_again && s->state != WR_SUPERVISOR_CLOSED)
		check_conf(s);
	report_done_if_closed(s);
}

/* ---- called by the owner ---- */

int wr_supervisor_init(struct wr_supervisor *s, uv_loop_t *loop,
		       const struct wr_supervisor_opts *opts)
{
	int rc;

	wr_assert(opts->nginx && opts->folder && opts->configure && opts->accepted && opts->ready &&
		  opts->report && opts->done);
	memset(s, 0, sizeof *s);
	s->opts = *opts;
	s->loop = loop;
	s->check.data = s;
	s->check.done = on_checked;
	rc = uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	s->handles = 1;
	return rc;
}

void wr_supervisor_start(struct wr_supervisor *s)
{
	wr_assert(s->state == WR_SUPERVISOR_IDLE);
	s->state = WR_SUPERVISOR_CHECKING;
	check_conf(s);
}

void wr_supervisor_reload(struct wr_supervisor *s)
{
	if (s->state == WR_SUPERVISOR_STOPPING || s->state == WR_SUPERVISOR_CLOSED)
		return;
	if (s->check.handles)
		s->check_again = true;
	else
		check_conf(s);
}

void wr_supervisor_reopen(struct wr_supervisor *s)
{
	if (s->pid && s->state == WR_SUPERVISOR_RUNNING)
		kill(s->pid, SIGUSR1);
}

/* Sends SIGQUIT (drain) at the first call, SIGTERM (end at once) at the second call, and SIGKILL at
 * later calls. */
static void send_stop_signal(struct wr_supervisor *s)
{
	unsigned step = s->stop_step++;

	if (step >= 2)
		wr_process_signal_session(s->session, 0, SIGKILL);
	/* The master gets the signal by its id, because wr_process_signal_session() does not find a
	 * master that is still starting and has no process title yet. */
	kill(s->pid, step == 0 ? SIGQUIT : step == 1 ? SIGTERM : SIGKILL);
	uv_timer_start(&s->timer, on_supervisor_timer, step ? KILL_MS : s->opts.drain_ms, 0);
}

static void stop_harder(struct wr_supervisor *s, const char *why)
{
	if (!s->pid)
		return;
	report_message(s, "%s; %s nginx", why, s->stop_step < 2 ? "stopping" : "killing");
	send_stop_signal(s);
}

void wr_supervisor_stop(struct wr_supervisor *s)
{
	bool starting = s->state == WR_SUPERVISOR_STARTING;

	if (s->state == WR_SUPERVISOR_CLOSED)
		return;
	if (s->state == WR_SUPERVISOR_STOPPING) {
		stop_harder(s, "a second stop was requested");
		return;
	}
	s->state = WR_SUPERVISOR_STOPPING;
	uv_timer_stop(&s->timer);
	if (s->check.handles && !uv_is_closing((uv_handle_t *)&s->check.process))
		uv_process_kill(&s->check.process, SIGTERM);
	if (s->pid) {
		/* Skip SIGQUIT if there is no time to drain, or if nginx does not listen yet.
		 * Until nginx listens, it does not handle signals, and SIGQUIT would make it
		 * dump core. */
		s->stop_step = starting || s->opts.drain_ms == 0;
		send_stop_signal(s);
	} else if (!s->check.handles) {
		close_supervisor(s, false);
	}
}

static void on_supervisor_timer(uv_timer_t *timer)
{
	struct wr_supervisor *s = timer->data;

	if (s->state == WR_SUPERVISOR_STARTING)
		look_for_pid(s);
	else if (s->state == WR_SUPERVISOR_WAITING)
		spawn_nginx(s);
	else if (s->state == WR_SUPERVISOR_STOPPING)
		stop_harder(s, "requests are still in flight");
}
