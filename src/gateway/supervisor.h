/* Keeps an nginx running: checks its configuration, starts it or takes over the one that is there,
 * starts it again when it dies, ends it in steps.
 *
 *              configuration good               nginx.pid is there
 *   CHECKING ──────────────────────► STARTING ───────────────────► RUNNING
 *       │ bad: done                     ▲   │ died: done, if it           │ died
 *       ▼                               │   ▼ never ran                   ▼
 *    CLOSED ◄── STOPPING ◄── stop    WAITING ◄────────────────────────────┘
 *
 * It lives on the caller's loop and in the caller's memory, blocks nowhere, and prints nothing:
 * what there is to say goes through opts.say. After opts.done the memory is the caller's again. */
#ifndef WR_GATEWAY_SUPERVISOR_H
#define WR_GATEWAY_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uv.h>

#include "gateway/supervisor_check.h"

#define WR_SUPERVISOR_LOST 8

struct wr_supervisor_opts {
	const char *nginx;   /* the program */
	const char *folder;  /* nginx.conf, nginx.pid */
	const char *deliver; /* a socket of nginx's, which one that was killed leaves behind */
	uint64_t drain_ms;   /* requests under way have so long when it stops */

	/* Writes the configuration to `path`. Returns 0, or -1 having told the user why: then
	 * nothing changes, or nothing starts. */
	int (*configure)(void *context, const char *path);
	/* nginx finds nothing wrong with what was written last: it is in force from now on. */
	void (*accepted)(void *context);
	/* nginx is about to be started. May be NULL. */
	void (*starting)(void *context);
	/* nginx listens: it was started, or taken over from a gateway that is no more. */
	void (*ready)(void *context, bool taken_over);
	void (*say)(void *context, const char *text);
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
	pid_t session; /* it and its workers */
	/* Sessions of masters that died, whose workers may go on: a ring. */
	pid_t lost[WR_SUPERVISOR_LOST];
	unsigned lost_count;
	bool ran; /* it was up once: from then on failures are met by trying again */
	bool failed;
	bool check_again;       /* a reload was asked for during a check */
	bool take_again;        /* the configuration changed while nginx was starting */
	unsigned stop_step;     /* how often it was asked to end */
	unsigned failed_starts; /* one after the other */
	uint64_t started_ms;
	uv_timer_t timer;
	uv_process_t child;
	uv_poll_t watch; /* of a master that is not our child */
	int pidfd;
	unsigned handles; /* open ones */
	char ended[96];   /* how the last master did */
	struct wr_conf_check check;
};

int wr_supervisor_init(struct wr_supervisor *supervisor, uv_loop_t *loop,
		       const struct wr_supervisor_opts *opts);

/* Takes over an nginx of this folder, or starts one. What comes of it: ready, or done. */
void wr_supervisor_start(struct wr_supervisor *supervisor);

/* Lets requests under way finish; a second time: at once. Ends with opts.done. */
void wr_supervisor_stop(struct wr_supervisor *supervisor);

/* Writes and checks the configuration anew and makes nginx take it. */
void wr_supervisor_reload(struct wr_supervisor *supervisor);

/* Log files are opened anew, after they were moved away. */
void wr_supervisor_reopen(struct wr_supervisor *supervisor);

/* Milliseconds to wait before the n-th try in a row, from 1: 100, 200, … 10,000. */
uint64_t wr_supervisor_backoff_ms(unsigned tries);

#endif
