/* The service as a component. `weir serve` is a thin wrapper around it, and `weir gateway` runs it
 * beside nginx.
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
 * A process has one service at a time: the users of the RESP port and the log are global. */
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
struct wr_decision_log;
struct wr_queue_host;
struct wr_redis;
struct wr_stream;
struct wr_tls;

/* Connections reserved for the Unix socket of the admin API. */
#define WR_ADMIN_SOCKET_CONNECTIONS 32u
#define WR_ADMIN_CONNECTIONS 256u /* connections reserved for the admin port */

enum wr_service_stage {
	WR_SERVICE_RUNNING,
	WR_SERVICE_DELAY,     /* the service reports NOT_SERVING and still accepts connections */
	WR_SERVICE_LAST_CALL, /* the service drops new connections; the ports close soon */
	WR_SERVICE_DRAINING,
	WR_SERVICE_ENDED,
};

/* The file of the core's table. The housekeeping thread checks whether the file still exists. */
struct wr_table_file {
	/* The core whose file this is; NULL: the file is not known yet. */
	const struct wr_core *core;
	char path[512];
	uint64_t inode;
	unsigned missed; /* consecutive checks that did not find the file */
};

/* The last result of weir_info(). weir_info() scans the whole table, so it is never called in a
 * loop, and its result is reused for a while. */
struct wr_table_info {
	pthread_mutex_t lock;       /* protects the fields below */
	pthread_mutex_t reader;     /* held by the thread that scans the table */
	const struct wr_core *core; /* the core whose table was scanned; NULL: no scan yet */
	uint64_t at_ns, took_ns;    /* end and duration of the last scan, CLOCK_MONOTONIC */
	struct weir_info info;
};

struct wr_service {
	struct wr_settings settings;
	/* Called once, from a thread of the service, when the drain is complete. NULL: no
	 * callback. */
	void (*ended)(void *context);
	void *context;

	struct wr_tls *tls;
	struct wr_decision_log *decision_log; /* NULL: no decision log */
	struct wr_redis *redis;               /* NULL: no Redis */
	struct wr_queue_host *queue;          /* NULL: no queue of deferred requests */
	struct wr_networks refunds;           /* networks of --refunds */
	/* Limits the connections of all ports except admin. */
	struct wr_quota quota;
	/* Connections per client address on all ports except admin. */
	struct wr_client_counts *client_counts;
	struct wr_quota *port_quotas; /* one quota per port, in the order of wr_ports */
	struct wr_quota admin_socket_quota;
	char table_folder[512]; /* settings.table_dir may point here after the change of user */
	/* Keys of --queue-key, read before the change of user; NULL: none. */
	struct wr_seals *seals;
	struct wr_listener *listeners;
	struct wr_loop *loops;
	unsigned loop_count, loops_ready;
	struct wr_notify notify;

	pthread_t housekeeping;
	bool housekeeping_started;
	bool refunds_unix;    /* --refunds includes all peers of Unix sockets */
	pthread_mutex_t lock; /* protects the fields below unless a comment says otherwise */
	pthread_cond_t woken;
	struct wr_core *core;
	const struct weir_rules *first_rules; /* valid until `watch` has been started */
	struct weir_watch *watch;
	enum wr_service_stage stage;
	uint64_t stage_until_ms;
	bool drain_asked, reload_asked, stop_asked;
	/* Redis is unavailable and every rule denies without Redis. */
	bool unready;
	struct wr_table_info table_info; /* has its own locks */
	struct wr_metrics_choice metrics;
	unsigned admin_works;       /* number of responses that worker threads are writing */
	unsigned admin_lives;       /* number of open live streams of the dashboard */
	struct wr_changes *changes; /* changes made through the admin API; has its own lock */
	struct wr_admin_guard admin_guard; /* counts wrong tokens; has its own lock */
	/* The next two fields are used by the housekeeping thread only. */
	bool fill_reported; /* a warning that the table is nearly full has been logged */
	struct wr_table_file table_file;
	/* The next two fields are atomic. Any thread may read them. */
	unsigned moves;       /* how often the service moved to a resized table */
	uint64_t moved_bytes; /* size of the table after the last move, set before `moves` */
};

/* Loads the rules, opens the table, reads certificates, binds the ports and raises the limit of
 * open files. Errors in the rules are printed as `weir check` prints them. Starts no thread.
 * Returns 0. On failure, returns an error code, fills in `error` and frees the service. */
int wr_service_init(struct wr_service *service, const struct wr_settings *settings,
		    struct weir_error *error);

/* Changes the owner of the Unix sockets and logs, changes the process to the user, and checks that
 * the user can read the files that are reloaded later. Returns 0, or an error code with `error`
 * filled in. */
int wr_service_give(struct wr_service *service, const struct wr_user *user,
		    struct weir_error *error);

/* Logs one line each for the table, the rules and the ports. */
void wr_service_report(struct wr_service *service);

/* Logs the address of Redis and the number of limits that Redis decides. Does nothing without
 * Redis. */
void wr_service_report_store(const struct wr_service *service);

int wr_service_start(struct wr_service *service, struct weir_error *error);

/* Reloads rules and certificates and reopens logs. Any thread may call. */
void wr_service_reload(struct wr_service *service);

/* Begins the shutdown: health turns to NOT_SERVING at once, the ports close after --drain-delay,
 * and connections that have not ended after --drain are cut. Any thread may call. A second call has
 * no effect. */
void wr_service_drain(struct wr_service *service);

void wr_service_stop(struct wr_service *service);
void wr_service_free(struct wr_service *service);

/* ---- functions for loops and protocols ---- */

bool wr_service_is_ending(const struct wr_service *service);
enum wr_health wr_service_health(const struct wr_service *service);
struct wr_core *wr_service_core(struct wr_service *service); /* the caller releases the core */
/* Whether a client may give hits back and reset counters. On TCP, its network has to be in
 * --refunds. On a Unix socket, the client has to be root or the service's user, unless --refunds
 * has `unix:`. */
bool wr_service_refunds(const struct wr_service *service, const struct wr_stream *stream);

void wr_service_loop_ended(struct wr_service *service);

/* Sets *info to the result of weir_info() for the core's table. The result may be a second old, or
 * older if a scan takes long. Blocks while the table is scanned, so a loop must not call this.
 * Returns 0 or WEIR_E…. */
int wr_service_table_info(struct wr_service *service, struct wr_core *core, uint64_t now_ns,
			  struct weir_info *info);
/* Called when the core was replaced. */
void wr_service_forget_table_info(struct wr_service *service);

#endif
