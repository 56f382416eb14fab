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

#define WR_ADMIN_SOCKET_CONNECTIONS 32u /* reserved for the Unix socket of the admin API */
#define WR_ADMIN_CONNECTIONS 256u       /* reserved for the admin port */

enum wr_service_stage {
	WR_SERVICE_RUNNING,
	WR_SERVICE_DELAY,     /* reports NOT_SERVING and still accepts connections */
	WR_SERVICE_LAST_CALL, /* drops new connections before the ports close */
	WR_SERVICE_DRAINING,
	WR_SERVICE_ENDED,
};

/* The file of the core's table, watched for removal. */
struct wr_table_file {
	const struct wr_core *core; /* NULL: the file is not known yet */
	char path[512];
	uint64_t inode;
	unsigned missed; /* consecutive checks that did not find the file */
};

/* The last result of weir_info(). It scans the whole table, so it never runs in a loop, and its result
 * is reused for a while. */
struct wr_table_info {
	pthread_mutex_t lock;       /* protects the fields below */
	pthread_mutex_t reader;     /* held during the scan */
	const struct wr_core *core; /* the core whose table was scanned; NULL: none */
	uint64_t at_ns, took_ns;    /* CLOCK_MONOTONIC */
	struct weir_info info;
};

struct wr_service {
	struct wr_settings settings;
	/* Called once, from a thread of the service, when the drain is complete. May be NULL. */
	void (*ended)(void *context);
	void *context;

	struct wr_tls *tls;
	struct wr_decision_log *decision_log;   /* NULL: no decision log */
	struct wr_redis *redis;                 /* NULL: no Redis */
	struct wr_queue_host *queue;            /* NULL: no queue of deferred requests */
	struct wr_networks refunds;             /* --refunds */
	struct wr_quota quota;                  /* connections of all ports except admin */
	struct wr_client_counts *client_counts; /* connections per client address on these ports */
	struct wr_quota *port_quotas;           /* per port, in the order of wr_ports */
	struct wr_quota admin_socket_quota;
	char table_folder[512]; /* memory of settings.table_dir after the change of user */
	struct wr_seals *seals; /* keys of --queue-key, read before the change of user; or NULL */
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
	const struct weir_rules *first_rules; /* valid until the watch has been started */
	struct weir_watch *watch;
	enum wr_service_stage stage;
	uint64_t stage_until_ms;
	bool drain_asked, reload_asked, stop_asked;
	bool unready;                    /* Redis is unavailable and every rule denies without it */
	struct wr_table_info table_info; /* has its own locks */
	struct wr_metrics_choice metrics;
	unsigned admin_works;       /* responses that worker threads are writing */
	unsigned admin_lives;       /* open live streams of the dashboard */
	struct wr_changes *changes; /* changes made through the admin API; has its own lock */
	struct wr_admin_guard admin_guard; /* counts wrong tokens; has its own lock */
	/* The next two belong to the housekeeping thread. */
	bool fill_reported; /* the log says that the table is nearly full */
	struct wr_table_file table_file;
	/* Atomic, for any thread. */
	unsigned moves;       /* how often the service moved to a resized table */
	uint64_t moved_bytes; /* size of the last such table, set before `moves` */
};

/* Loads the rules (errors are printed as `weir check` does), opens the table, reads certificates,
 * binds the ports and raises the limit of open files. Starts no thread. Returns 0, or an error code
 * with `error` filled in; the service is freed then. */
int wr_service_init(struct wr_service *service, const struct wr_settings *settings,
		    struct weir_error *error);

/* Changes the owner of the Unix sockets and logs, changes to the user, and checks that the user can
 * read the files that are reloaded later. */
int wr_service_give(struct wr_service *service, const struct wr_user *user,
		    struct weir_error *error);

/* Logs a line each for the table, the rules and the ports. */
void wr_service_report(struct wr_service *service);

/* Logs the address of Redis and the number of limits it decides, if there is a Redis. */
void wr_service_report_store(const struct wr_service *service);

int wr_service_start(struct wr_service *service, struct weir_error *error);

/* Reloads rules and certificates and reopens logs. Any thread. */
void wr_service_reload(struct wr_service *service);

/* Begins the shutdown: health turns to NOT_SERVING at once, the ports close after --drain-delay, and
 * connections that have not ended after --drain are cut. Any thread. A second call has no effect. */
void wr_service_drain(struct wr_service *service);

void wr_service_stop(struct wr_service *service);
void wr_service_free(struct wr_service *service);

/* ---- for loops and protocols ---- */

bool wr_service_is_ending(const struct wr_service *service);
enum wr_health wr_service_health(const struct wr_service *service);
struct wr_core *wr_service_core(struct wr_service *service); /* the caller releases it */
/* Whether a client may give hits back and reset counters: its network is in --refunds, or it is root
 * or our own user on a Unix socket. */
bool wr_service_refunds(const struct wr_service *service, const struct wr_stream *stream);

void wr_service_loop_ended(struct wr_service *service);

/* Fills in weir_info() of the core's table. The result may be a second old, or older if the scan takes
 * long. Blocks during a scan, so never call it in a loop. */
int wr_service_table_info(struct wr_service *service, struct wr_core *core, uint64_t now_ns,
			  struct weir_info *info);
void wr_service_forget_table_info(struct wr_service *service); /* the core was replaced */

#endif
