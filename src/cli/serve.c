/* weir serve: runs the service in this process until a signal ends it. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/str.h"
#include "cli/options/arguments.h"
#include "cli/options/serve_environment.h"
#include "cli/options/shared.h"
#include "net/log.h"
#include "serve/service.h"

#define OPTIONS_BYTES ((size_t)1024 * 1024)

extern char **environ;

struct serve_run {
	struct wr_service service;
	int signals; /* signalfd that receives the signals */
	int ended;   /* eventfd that is written when the service has ended */
	bool draining;
};

/* ---- settings ---- */

static void finish_settings(const struct wr_cli_serve_environment *variables, bool hidden)
{
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	enum wr_log_level level = WR_LOG_ERROR;

	while (strcmp(wr_cli_serve_settings.log_level, levels[level]) != 0)
		level++;
	wr_cli_serve_settings.headers = weir_profile_by_name(wr_str(wr_cli_serve_headers));
	wr_log_setup("weir serve", level, strcmp(wr_cli_serve_settings.log_format, "json") == 0);
	if (variables->taken[0])
		wr_log(WR_LOG_INFO, "read from the environment: %s", variables->taken);
	if (variables->ignored[0])
		wr_log(WR_LOG_WARN,
		       "ignored in the environment, because they have no meaning here: %s",
		       variables->ignored);
	if (hidden)
		wr_log(WR_LOG_WARN, "%s", WR_ARGUMENTS_HIDDEN);
}

/* ---- running ---- */

static void on_ended(void *context)
{
	struct serve_run *run = context;
	uint64_t one = 1;

	if (write(run->ended, &one, sizeof one) < 0)
		return; /* cannot happen: the counter of the eventfd is far from its maximum */
}

static int open_signals(struct serve_run *run)
{
	signal(SIGPIPE, SIG_IGN);
	run->signals = wr_signals_open();
	run->ended = eventfd(0, EFD_CLOEXEC);
	return run->signals < 0 || run->ended < 0 ? -1 : 0;
}

/* Handles one signal. Returns false if the process has to end immediately. */
static bool on_signal(struct serve_run *run)
{
	struct signalfd_siginfo info;

	if (read(run->signals, &info, sizeof info) != sizeof info)
		return true;
	if (info.ssi_signo == SIGHUP) {
		wr_log(WR_LOG_INFO, "HUP: reading rules and certificates again");
		wr_service_reload(&run->service);
		return true;
	}
	if (run->draining) {
		wr_log(WR_LOG_WARN, "second signal: stopping at once");
		return false;
	}
	run->draining = true;
	wr_service_drain(&run->service);
	return true;
}

static void wait_for_end(struct serve_run *run)
{
	struct pollfd fds[] = {{run->signals, POLLIN, 0}, {run->ended, POLLIN, 0}};

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			return;
		if (fds[0].revents && !on_signal(run))
			return;
	}
}

static int open_service(struct serve_run *run, struct weir_error *error)
{
	struct wr_user user;
	int rc = wr_user_find(wr_cli_serve_settings.user, &user, error);

	if (rc < 0)
		return rc;
	rc = wr_service_init(&run->service, &wr_cli_serve_settings, error);
	if (rc < 0)
		return rc;
	run->service.ended = on_ended;
	run->service.context = run;
	wr_service_report(&run->service);
	if (wr_user_stays_root(wr_cli_serve_settings.user, &user))
		wr_log(WR_LOG_WARN, "the service runs as root: " WR_USER_REMEDY);
	rc = wr_service_give(&run->service, &user, error);
	if (rc == 0)
		rc = wr_service_start(&run->service, error);
	if (rc < 0) {
		wr_service_stop(&run->service);
		wr_service_free(&run->service);
	}
	return rc;
}

static int run_service(void)
{
	static struct serve_run run;
	struct weir_error error = {0};

	if (open_signals(&run) < 0) {
		perror("weir serve: signals");
		return WR_EXIT_NO;
	}
	if (open_service(&run, &error) < 0)
		return wr_cli_fail("serve", &error, WR_EXIT_NO);
	wr_log(WR_LOG_INFO, "ready");
	wait_for_end(&run);
	wr_service_stop(&run.service);
	wr_service_free(&run.service);
	wr_log(WR_LOG_INFO, "ended");
	return WR_EXIT_YES;
}

static int read_and_run(int argc, char **argv, struct wr_arena *arena, bool hidden)
{
	static struct wr_cli_serve_environment variables;
	struct weir_error error = {0};

	if (wr_cli_serve_environment_read(environ, arena, &variables, &error) < 0)
		return wr_cli_fail("serve", &error, WR_EXIT_USAGE);
	switch (wr_cli_options_read(&wr_cli_serve_command, argc, argv, variables.environment, arena,
				    stderr)) {
	case WR_OPTIONS_HELP:
		wr_cli_options_help(&wr_cli_serve_command, stdout);
		return WR_EXIT_YES;
	case WR_OPTIONS_READ:
		finish_settings(&variables, hidden);
		return run_service();
	case WR_OPTIONS_WRONG:
		break;
	}
	return WR_EXIT_USAGE;
}

int wr_cli_serve(int argc, char **argv)
{
	struct wr_arena arena;
	bool hidden;
	char **own = wr_cli_arguments_hide(&wr_cli_serve_command, argc, argv, &hidden);
	int code;

	if (!own)
		abort();
	wr_arena_init(&arena, OPTIONS_BYTES);
	code = read_and_run(argc, own, &arena, hidden);
	wr_arena_free(&arena);
	free(own);
	return code;
}
