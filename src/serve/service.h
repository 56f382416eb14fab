/* The service as a component: `weir serve` is little else, and `weir gateway` runs it beside nginx.
 *
 *   wr_service_init(&service, &settings, &error);    // rules, table, certificates, ports
 *   wr_service_report(&service);                     // says what was opened
 *   service.ended = …;
 *   wr_service_start(&service, &error);              // threads; returns at once
 *   wr_service_reload(&service);                     // on HUP
 *   wr_service_drain(&service);                      // on TERM; `ended` is called when done
 *   wr_service_stop(&service);                       // now; drained or not
 *   wr_service_free(&service);
 *
 * A process has one service at a time: the RESP port's users and log settings are the process's. */
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

#define WR_ADMIN_SOCKET_CONNECTIONS 32u /* of its Unix socket, which no flood of a port takes */
#define WR_ADMIN_CONNECTIONS 256u       /* places of the admin port, whatever the others do */

enum wr_service_stage {
	WR_SERVICE_RUNNING,
	WR_SERVICE_DELAY,     /* not healthy, still accepting */
	WR_SERVICE_LAST_CALL, /* nobody new is let in */
	WR_SERVICE_DRAINING,
	WR_SERVICE_ENDED,
};

/* The file that a core's table is in. */
struct wr_table_file {
	const struct wr_core *core; /* NULL: not noted yet */
	char path[512];
	uint64_t number; /* its inode */
	unsigned missed; /* looks in a row that did not find it */
};

/* What a table holds, as it was last read. Reading goes through all of it, so it is done away from
 * loops, and again only when some time has passed. */
struct wr_reading {
	pthread_mutex_t lock;       /* of all below */
	pthread_mutex_t reader;     /* held while the table is read */
	const struct wr_core *core; /* whose table it was; NULL: none yet */
	uint64_t at_ns, took_ns;    /* CLOCK_MONOTONIC */
	struct weir_info info;
};

struct wr_service {
	struct wr_settings settings;
	/* Called once, by a thread of the service, when draining is done. May be NULL. */
	void (*ended)(void *context);
	void *context;

	struct wr_tls *tls;
	struct wr_decision_log *decision_log;   /* NULL: none */
	struct wr_redis *redis;                 /* NULL: there is no central store */
	struct wr_queue_host *queue;            /* NULL: there is none for deferred requests */
	struct wr_networks refunds;             /* --refunds */
	struct wr_quota quota;                  /* of all ports but admin */
	struct wr_client_counts *client_counts; /* the addresses they come from */
	struct wr_quota *port_quotas;           /* of each, as wr_ports has them */
	struct wr_quota admin_socket_quota;
	char table_folder[512]; /* of settings.table_dir, when rights were given up */
	struct wr_seals *seals; /* of --queue-key, read before rights were given up; or NULL */
	struct wr_listener *listeners;
	struct wr_loop *loops;
	unsigned loop_count, loops_ready;
	struct wr_notify notify;

	pthread_t housekeeping;
	bool housekeeping_started;
	bool refunds_unix;    /* --refunds names the peers of Unix sockets, too */
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t woken;
	struct wr_core *core;
	const struct weir_rules *first_rules; /* until the watch has been started */
	struct weir_watch *watch;
	enum wr_service_stage stage;
	uint64_t stage_until_ms;
	bool drain_asked, reload_asked, stop_asked;
	bool unready;              /* the store is away, and without it every rule refuses */
	struct wr_reading reading; /* has its own lock */
	struct wr_metrics_choice metrics;
	unsigned admin_works;        /* answers that are being written away from loops */
	uint32_t admin_longest;      /* bytes of the longest of them so far */
	unsigned admin_lives;        /* pages that follow something */
	struct wr_changes *changes;  /* what the admin API was told to do; has its own lock */
	struct wr_guard admin_guard; /* of wrong tokens; has its own lock */
	bool full_said;              /* owned by the housekeeping thread, and what follows */
	struct wr_table_file table_file;
	unsigned moves;       /* to a table that was resized; for any thread, by __atomic */
	uint64_t moved_bytes; /* the size of the last one, set before */
};

/* Loads the rules (errors are printed as `weir check` does), opens the table, reads certificates,
 * binds the ports and raises the limit of open files. Starts nothing. */
int wr_service_init(struct wr_service *service, const struct wr_settings *settings,
		    struct weir_error *error);

/* Gives the Unix sockets to a user and checks that it can read what is read again later. */
int wr_service_give(struct wr_service *service, const struct wr_user *user,
		    struct weir_error *error);

/* Table, rules and ports, a log line each. */
void wr_service_report(struct wr_service *service);

/* Where the counters are that machines share, if there is such a place. */
void wr_service_report_store(const struct wr_service *service);

int wr_service_start(struct wr_service *service, struct weir_error *error);

/* Rules and certificates are read again, logs opened again. Any thread. */
void wr_service_reload(struct wr_service *service);

/* Health turns to NOT_SERVING, after drain_delay the ports are closed and streams end; those that
 * have not after drain are cut. Any thread; once. */
void wr_service_drain(struct wr_service *service);

void wr_service_stop(struct wr_service *service);
void wr_service_free(struct wr_service *service);

/* ---- for loops and protocols ---- */

bool wr_service_is_ending(const struct wr_service *service);
enum wr_health wr_service_health(const struct wr_service *service);
struct wr_core *wr_service_core(struct wr_service *service); /* held */
/* Whether a client may give hits back and reset counters: by --refunds, or on a Unix socket as root
 * or as our own user. */
bool wr_service_refunds(const struct wr_service *service, const struct wr_stream *stream);

void wr_service_loop_ended(struct wr_service *service);

/* Fills in what the table holds; the keys may have been counted a second ago, or longer where
 * counting takes long. Not for a loop. */
int wr_service_read_table(struct wr_service *service, struct wr_core *core, uint64_t now_ns,
			  struct weir_info *info);
void wr_service_forget_reading(struct wr_service *service); /* there is another core */

#endif
