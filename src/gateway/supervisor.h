/* Keeps nginx running: checks its configuration, starts nginx or takes over a running nginx,
 * restarts nginx when it dies, and stops nginx in steps (QUIT, TERM, KILL).
 *
 *              configuration good               nginx.pid is there
 *   CHECKING ──────────────────────► STARTING ───────────────────► RUNNING
 *       │ bad: done                     ▲   │ died: done, if it           │ died
 *       ▼                               │   ▼ never ran                   ▼
 *    CLOSED ◄── STOPPING ◄── stop    WAITING ◄────────────────────────────┘
 *
 * The supervisor runs on the caller's loop, in the caller's memory. It never blocks and prints
 * nothing: messages go to opts.report. After opts.done the caller can free the memory. All
 * functions and callbacks run on the loop's thread. */
#ifndef WR_GATEWAY_SUPERVISOR_H
#define WR_GATEWAY_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uv.h>

#include "gateway/supervisor_check.h"

#define WR_SUPERVISOR_LOST 8

struct wr_supervisor_opts {
	const char *nginx;  /* path of the program */
	const char *folder; /* folder of nginx.conf and nginx.pid */
	/* path of nginx's socket for deliveries, or NULL; this socket is removed before a start */
	const char *deliver;
	uint64_t drain_ms; /* how much time requests in flight get to finish at a stop */

	/* Writes the configuration to `path` and returns 0. On failure reports the error to the
	 * user and returns -1. After a failure, a running nginx keeps its configuration; an nginx
	 * that does not run yet is not started. */
	int (*configure)(void *context, const char *path);
	/* Called when nginx -t has accepted the configuration that `configure` has written. From
	 * then on this configuration is in force. */
	void (*accepted)(void *context);
	/* Called before nginx is started. May be NULL. */
	void (*starting)(void *context);
	/* Called once, when nginx listens: this gateway has started nginx, or has taken it over
	 * from an earlier gateway. */
	void (*ready)(void *context, bool taken_over);
	/* Reports a message to the user. The text has no newline at its end. */
	void (*report)(void *context, const char *text);
	/* Called when the supervisor has ended. `failed` means that nginx never became ready. */
	void (*done)(void *context, bool failed);
	void *context;
};

enum wr_supervisor_state {
	WR_SUPERVISOR_IDLE,
	WR_SUPERVISOR_CHECKING,
	WR_SUPERVISOR_STARTING,
	WR_SUPERVISOR_RUNNING,
	WR_SUPERVISOR_WAITING,
	WR_SUPERVISOR_STOPPING,
	WR_SUPERVISOR_CLOSED,
};

struct wr_supervisor {
	struct wr_supervisor_opts opts;
	uv_loop_t *loop;
	enum wr_supervisor_state state;
	pid_t pid;     /* process id of nginx's master; 0: no master runs */
	pid_t session; /* process session of the master and its workers */
	/* Ring buffer of the process sessions whose master has died and whose workers possibly
	 * still run. */
	pid_t lost[WR_SUPERVISOR_LOST];
	unsigned lost_count;
	/* true after nginx was first ready; from then on nginx is restarted when it dies */
	bool ran;
	bool failed;
	/* true if a reload was requested during a check; then the check is repeated */
	bool check_again;
	/* the configuration changed while nginx was starting, so nginx must reload it */
	bool reload_pending;
	unsigned stop_step; /* number of signals sent to stop nginx */
	/* number of restarts since a master last ran for more than 10 s */
	unsigned failed_starts;
	uint64_t started_ms;
	uv_timer_t timer;
	uv_process_t child;
	uv_poll_t watch; /* polls `pidfd` of a master that is not a child of this process */
	int pidfd;
	unsigned handles; /* number of open libuv handles */
	char ended[96];   /* text that tells how the latest master ended */
	struct wr_conf_check check;
};

/* Initializes a supervisor and copies `opts`. Returns 0 or an error code of libuv. */
int wr_supervisor_init(struct wr_supervisor *supervisor, uv_loop_t *loop,
		       const struct wr_supervisor_opts *opts);

/* Takes over the nginx that runs in this folder, or starts an nginx. Then calls opts.ready, or
 * opts.done on failure. */
void wr_supervisor_start(struct wr_supervisor *supervisor);

/* Lets requests in flight finish, then stops nginx and calls opts.done. A second call stops nginx
 * at once. */
void wr_supervisor_stop(struct wr_supervisor *supervisor);

/* Writes and checks the configuration again. If the check succeeds, makes nginx load the
 * configuration. */
void wr_supervisor_reload(struct wr_supervisor *supervisor);

/* Makes nginx reopen its log files. Called after the log files were rotated. */
void wr_supervisor_reopen(struct wr_supervisor *supervisor);

/* Returns the delay before nginx is started again. `tries` is the number of restarts in a row,
 * including the next one. The delay is 100 ms for the first restart, and doubles with each further
 * restart, up to 10,000 ms. */
uint64_t wr_supervisor_backoff_ms(unsigned tries);

#endif
