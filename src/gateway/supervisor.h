/* Keeps nginx running: checks its configuration, starts nginx or takes over a running one, restarts
 * it when it dies, and stops it in steps (QUIT, TERM, KILL).
 *
 *              configuration good               nginx.pid is there
 *   CHECKING ──────────────────────► STARTING ───────────────────► RUNNING
 *       │ bad: done                     ▲   │ died: done, if it           │ died
 *       ▼                               │   ▼ never ran                   ▼
 *    CLOSED ◄── STOPPING ◄── stop    WAITING ◄────────────────────────────┘
 *
 * It runs on the caller's loop, in the caller's memory, never blocks and prints nothing: messages
 * go to opts.say. After opts.done the caller can free the memory. All functions and callbacks run
 * on the loop's thread. */
#ifndef WR_GATEWAY_SUPERVISOR_H
#define WR_GATEWAY_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uv.h>

#include "gateway/supervisor_check.h"

#define WR_SUPERVISOR_LOST 8

struct wr_supervisor_opts {
	const char *nginx;   /* path of the program */
	const char *folder;  /* folder of nginx.conf and nginx.pid */
	const char *deliver; /* nginx's socket for deliveries, removed before a start; or NULL */
	uint64_t drain_ms;   /* at a stop, the time for requests in flight to finish */

	/* Writes the configuration to `path`. Returns 0, or -1 after it has reported the error to
	 * the user; then the running configuration stays, or nginx does not start. */
	int (*configure)(void *context, const char *path);
	/* nginx -t has accepted the configuration that was written last. It is in force now. */
	void (*accepted)(void *context);
	/* Called before nginx is started. May be NULL. */
	void (*starting)(void *context);
	/* nginx listens for the first time: it was started, or taken over from an earlier gateway.
	 */
	void (*ready)(void *context, bool taken_over);
	/* A message for the user, without a newline at its end. */
	void (*say)(void *context, const char *text);
	/* The supervisor has ended. failed: nginx never became ready. */
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
	pid_t pid;     /* nginx's master; 0: none */
	pid_t session; /* session of the master and its workers */
	/* Ring of sessions whose master has died and whose workers may still run. */
	pid_t lost[WR_SUPERVISOR_LOST];
	unsigned lost_count;
	bool ran; /* nginx has been ready once; later failures lead to a restart */
	bool failed;
	bool check_again;       /* a reload was requested during a check */
	bool reload_pending;    /* the configuration changed while nginx was starting */
	unsigned stop_step;     /* number of signals sent to stop nginx */
	unsigned failed_starts; /* in a row */
	uint64_t started_ms;
	uv_timer_t timer;
	uv_process_t child;
	uv_poll_t watch; /* polls `pidfd` of a master that is not a child of this process */
	int pidfd;
	unsigned handles; /* open libuv handles */
	char ended[96];   /* text: how the last master ended */
	struct wr_conf_check check;
};

/* Copies `opts`. Returns 0 or an error code of libuv. */
int wr_supervisor_init(struct wr_supervisor *supervisor, uv_loop_t *loop,
		       const struct wr_supervisor_opts *opts);

/* Takes over the nginx that runs in this folder, or starts one. Calls opts.ready, or opts.done if
 * it failed. */
void wr_supervisor_start(struct wr_supervisor *supervisor);

/* Lets requests in flight finish, then ends with opts.done. A second call stops nginx at once. */
void wr_supervisor_stop(struct wr_supervisor *supervisor);

/* Writes and checks the configuration again and makes nginx load it. */
void wr_supervisor_reload(struct wr_supervisor *supervisor);

/* Makes nginx reopen its log files, after they were rotated. */
void wr_supervisor_reopen(struct wr_supervisor *supervisor);

/* The delay before start number `tries` in a row, counted from 1: 100, 200, … 10,000 ms. */
uint64_t wr_supervisor_backoff_ms(unsigned tries);

#endif
