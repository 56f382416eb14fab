/* A thread with a libuv loop, its listening sockets, its connections and its pending requests.
 * Loops share only the service's settings, table and engine. */
#ifndef WR_SERVE_LOOP_H
#define WR_SERVE_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include <weir/engine.h>

#include "base/list.h"
#include "net/net.h"
#include "serve/core.h"
#include "serve/settings.h"
#include "serve/decide/expiry.h"
#include "serve/decide/waiting.h"
#include "serve/fleet/bans.h"

struct wr_service;
struct wr_serve_queue_loop;
struct wr_serve_redis_loop;

enum wr_health {
	WR_HEALTH_SERVING = 1,
	/* The service shuts down, or Redis is unavailable and every rule has
	 * on_store_failure: deny. */
	WR_HEALTH_NOT_SERVING = 2,
};

/* ---- functions for protocols, called in the loop's thread ---- */

uv_loop_t *wr_loop_uv(struct wr_loop *loop);
const struct wr_settings *wr_loop_settings(const struct wr_loop *loop);
struct wr_service *wr_loop_service(const struct wr_loop *loop);

/* Returns the time of the wall clock, wr_clock_wall_ns(). */
uint64_t wr_loop_now_ns(const struct wr_loop *loop);

/* Returns the time of the clock for leases and timeouts, wr_clock_boot_ns(). */
uint64_t wr_loop_mono_ns(const struct wr_loop *loop);

/* Return the engine and the table of the loop. The pointers are valid until the caller returns to
 * the loop, because a resize of the table replaces engine and table. A request that takes longer
 * holds a reference to its core (struct wr_pending). */
struct weir_engine *wr_loop_engine(const struct wr_loop *loop);
struct weir_table *wr_loop_table(const struct wr_loop *loop);

enum wr_health wr_loop_health(const struct wr_loop *loop);

/* A callback for changes of health. While the struct is in the list loop->health_watches, `changed`
 * is called at each change. */
struct wr_health_watch {
	void (*changed)(struct wr_health_watch *watch);
	struct wr_list link;
};

/* ---- functions and types for the service ---- */

enum wr_loop_message {
	WR_LOOP_CORE = 1,       /* the service has replaced its core */
	WR_LOOP_HEALTH = 2,     /* the health of the service has changed */
	WR_LOOP_DRAIN = 4,      /* close the listening sockets and drain the streams */
	WR_LOOP_STOP = 8,       /* end the loop at once */
	WR_LOOP_TURN_AWAY = 16, /* let the kernel drop new connections before the sockets close */
	WR_LOOP_FORGET = 32,    /* forget refusals of Redis that the loop remembers */
};

#define WR_LOOP_SWEEP_MS 250 /* interval of the timer `sweep`, which checks timeouts of streams */

#define WR_LOOP_MAGIC 0x6c6f6f70u

struct wr_loop {
	uint32_t magic; /* WR_LOOP_MAGIC from wr_loop_init() to wr_loop_free() */
	uv_loop_t uv;
	uv_async_t wake;
	uv_timer_t sweep;
	uv_prepare_t flush;
	pthread_t thread;
	struct wr_service *service;
	unsigned number;
	bool started, draining, stopping;
	unsigned messages; /* bits of enum wr_loop_message that other threads have set */
	uint64_t beats;    /* number of times `sweep` has fired; the housekeeping thread reads it */
	unsigned ended;    /* not 0: the drain is complete; the housekeeping thread reads it */

	struct wr_net net;             /* listening sockets and streams */
	struct wr_list health_watches; /* list of struct wr_health_watch */
	struct wr_core_refs refs;
	struct wr_waiting waiting;
	struct wr_expiries expiries;
	struct wr_serve_decision_lane
		*decisions;                /* this loop's part of the decision log, or NULL */
	struct wr_serve_redis_loop *redis; /* NULL: there is no central store */
	struct wr_serve_bans bans;         /* used by the first loop only */
	struct wr_serve_queue_loop *queue; /* NULL: there is no queue for deferred requests */
	struct wr_serve_grpc_loop *grpc;   /* NULL before the first gRPC connection */
};

int wr_loop_init(struct wr_loop *loop, struct wr_service *service, unsigned number);
int wr_loop_start(struct wr_loop *loop);
void wr_loop_notify(struct wr_loop *loop, enum wr_loop_message message);
void wr_loop_join(struct wr_loop *loop); /* called after WR_LOOP_STOP was sent */
void wr_loop_free(struct wr_loop *loop); /* called for a loop that is not running */

/* Ends the drain of the loop if no stream is open, no delivery is in flight, and all leases were
 * returned. Called when a stream, a delivery or a lease return has ended. */
void wr_loop_check_drained(struct wr_loop *loop);

#endif
