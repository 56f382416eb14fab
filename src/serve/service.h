/* The service as a component. `weir serve` is a thin wrapper around it, and `weir gateway` runs it
 * together with nginx.
 *
 *   wr_service_init(&service, &settings, &error);    // load rules, open table, ports, certificates
 *   wr_service_report(&service);                     // log them
 *   service.ended = …;
 *   wr_service_start(&service, &error);              // start the threads; returns at once
 *   wr_service_reload(&service);                     // on HUP
 *   wr_service_drain(&service);                      // on TERM; `ended` is called when done
 *   wr_service_stop(&service);                       // end the threads, drained or not
 *   wr_service_free(&service);
 *
 * A process has one service at a time, because the log and the users of the RESP port are global
 * variables. */
#ifndef WR_SERVE_SERVICE_H
#define WR_SERVE_SERVICE_H

#include <pthread.h>
#include <stdbool.h>

#include <weir/engine.h>
#include <weir/weir.h>

#include "serve/admin/guard.h"
#include "net/listen.h"
#include "serve/loop.h"
#include "net/networks.h"
#include "serve/notify.h"
#include "serve/core.h"
#include "serve/settings.h"
#include "serve/user.h"
#include "serve/admin/metrics.h"

struct wr_changes;
struct wr_serve_decision_log;
struct wr_serve_queue_host;
struct wr_serve_redis;
struct wr_stream;
struct wr_tls;

/* Maximum number of connections to the Unix socket of the admin API. */
#define WR_ADMIN_SOCKET_CONNECTIONS 32u
#define WR_ADMIN_CONNECTIONS 256u /* maximum number of connections to the admin port */

enum wr_service_stage {
	WR_SERVICE_RUNNING,
	WR_SERVICE_DELAY,     /* the service reports NOT_SERVING and still accepts connections */
	WR_SERVICE_LAST_CALL, /* the kernel drops new connections, because the ports close soon */
	WR_SERVICE_DRAINING,
	WR_SERVICE_ENDED,
};

/* The file of the core's table. The housekeeping thread checks whether the file still exists. */
struct wr_serve_table_file {
	/* The core whose table is in the file; NULL: path and inode are not set. */
	const struct wr_core *core;
	char path[512];
	uint64_t inode;
	unsigned missed; /* number of consecutive checks that did not find the table's file */
};

/* The latest result of weir_info(). weir_info() scans the whole table, so it is never called in a
 * loop, and its result is reused for a while. */
struct wr_serve_table_info {
	pthread_mutex_t lock;       /* protects the fields below */
	pthread_mutex_t reader;     /* held by the thread that scans the table */
	const struct wr_core *core; /* the core whose table was scanned; NULL: no scan yet */
	/* Time (CLOCK_MONOTONIC) at which the latest scan ended, and its duration. */
	uint64_t at_ns, took_ns;
	struct weir_info info;
};

struct wr_service {
	struct wr_settings settings;
	/* Called once, in the housekeeping thread, when the drain is complete. May be NULL. */
	void (*ended)(void *context);
	void *context;

	struct wr_tls *tls;
	struct wr_serve_decision_log *decision_log; /* NULL: no decision log */
	struct wr_serve_redis *redis;               /* NULL: no Redis */
	struct wr_serve_queue_host *queue;          /* NULL: no queue of deferred requests */
	struct wr_networks refunds;                 /* networks of --refunds */
	/* Networks of --trust. Empty: the networks of wr_forward_neighbours() are trusted. */
	struct wr_networks trusted;
	/* Limits the total number of open connections on all ports except admin. */
	struct wr_quota quota;
	/* Limits the number of open connections of each client address, on all ports except
	 * admin. */
	struct wr_client_counts *client_counts;
	struct wr_quota *port_quotas; /* one for each element of `ports` in service.c */
	struct wr_quota admin_socket_quota;
	char table_folder[512]; /* memory for settings.table_dir after the change of user */
	struct wr_seals *seals; /* keys of --queue-key, read before the change of user; or NULL */
	struct wr_listener *listeners;
	struct wr_loop *loops;
	unsigned loop_count, loops_ready;
	struct wr_notify notify;

	pthread_t housekeeping;
	bool housekeeping_started;
	bool refunds_unix;    /* --refunds includes all clients on Unix sockets */
	pthread_mutex_t lock; /* protects the fields below, unless their comment says otherwise */
	pthread_cond_t woken;
	struct wr_core *core;
	const struct weir_rules *first_rules; /* rules at the start; valid until the first reload */
	struct weir_watch *watch;
	enum wr_service_stage stage;
	uint64_t stage_until_ms;
	bool drain_asked, reload_asked, stop_asked;
	bool unready; /* Redis is unavailable, and every rule has on_store_failure: deny */
	struct wr_serve_table_info table_info; /* has its own locks */
	struct wr_metrics_choice metrics;
	unsigned admin_works;       /* number of responses that worker threads are writing */
	unsigned admin_lives;       /* number of connections that get server-sent events */
	struct wr_changes *changes; /* changes made through the admin API; has its own lock */
	struct wr_admin_guard admin_guard; /* counts wrong tokens; has its own lock */
	/* The next two fields are used by the housekeeping thread only. */
	bool fill_reported; /* the warning that the table is nearly full was logged */
	struct wr_serve_table_file table_file;
	/* The next two fields are atomic. Any thread may read them. */
	unsigned moves; /* how often the service has replaced its table by a resized one */
	/* size of the table after the latest resize; written before `moves` is raised */
	uint64_t moved_bytes;
};

/* Loads the rules, opens the table, reads certificates, binds the ports and raises the limit of
 * open files. Errors in the rules are printed as `weir check` prints them. Starts no thread.
 * Returns 0. On failure, returns an error code, fills in `error` and frees the service. */
int wr_service_init(struct wr_service *service, const struct wr_settings *settings,
		    struct weir_error *error);

/* Makes `user` the owner of the Unix sockets, of the decision log and of the queue's files. Then
 * changes the process to this user, and checks that the user can read the files that are reloaded
 * later. Returns 0, or an error code with `error` filled in. */
int wr_service_give(struct wr_service *service, const struct wr_user *user,
		    struct weir_error *error);

/* Logs one line each for the table, the rules and the ports. */
void wr_service_report(struct wr_service *service);

/* Logs the address of Redis and the number of limits that Redis decides. Logs nothing if the
 * service has no Redis. */
void wr_service_report_redis(const struct wr_service *service);

/* Logs a warning if the service refuses nothing (shadow mode), but weir shield drops the packets of
 * earlier bans. */
void wr_service_report_shielded(const struct wr_service *service);

/* Starts the threads and returns. Returns 0, or an error code with `error` filled in. */
int wr_service_start(struct wr_service *service, struct weir_error *error);

/* Reloads rules and certificates and reopens logs. Any thread may call this function. */
void wr_service_reload(struct wr_service *service);

/* Begins the shutdown: health turns to NOT_SERVING at once, the ports close after --drain-delay,
 * and connections that have not ended after --drain are closed. Any thread may call this function.
 * A second call has no effect. */
void wr_service_drain(struct wr_service *service);

void wr_service_stop(struct wr_service *service);
void wr_service_free(struct wr_service *service);

/* ---- housekeeping.c ---- */

/* Starts the housekeeping thread, which checks the table, Redis and the certificates once a second.
 * The thread also performs reloads and the stages of a shutdown. Returns 0 or WEIR_ESYS. */
int wr_housekeeping_start(struct wr_service *service);
void wr_housekeeping_stop(struct wr_service *service);

/* ---- functions for loops and protocols ---- */

bool wr_service_is_ending(const struct wr_service *service);
enum wr_health wr_service_health(const struct wr_service *service);
struct wr_core *wr_service_core(struct wr_service *service); /* the caller releases the core */
/* Returns whether a client may give hits back and reset counters. On TCP, the client's network has
 * to be in --refunds. On a Unix socket, the client has to be root or the service's user, unless
 * --refunds has `unix:`. */
bool wr_service_refunds(const struct wr_service *service, const struct wr_stream *stream);

/* Sets *flag if `flag` is not NULL. Then wakes the housekeeping thread in any case. */
void wr_service_wake(struct wr_service *service, bool *flag);

void wr_service_notify_loops(struct wr_service *service, enum wr_loop_message message);

/* Sets *info to the result of weir_info() for the core's table. The result may be a second old, or
 * older if a scan takes long. The function may block while the table is scanned, so a loop must not
 * call it. Returns 0 or a WEIR_E code. */
int wr_service_table_info(struct wr_service *service, struct wr_core *core, uint64_t now_ns,
			  struct weir_info *info);

/* Makes the next wr_service_table_info scan the table. Called when the core was replaced. */
void wr_service_forget_table_info(struct wr_service *service);

#endif
