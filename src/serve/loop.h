/* A thread with a libuv loop: its listening sockets, connections and pending requests. Loops share the
 * service's settings, table and engine, and nothing else. */
#ifndef WR_SERVE_LOOP_H
#define WR_SERVE_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include <weir/engine.h>

#include "net/net.h"
#include "serve/core.h"
#include "serve/settings.h"
#include "serve/decide/waiting.h"

struct wr_service;
struct wr_queue_loop;
struct wr_redis_loop;

enum wr_health {
	WR_HEALTH_SERVING = 1,
	WR_HEALTH_NOT_SERVING = 2, /* shutting down, or Redis is unavailable and all rules deny */
};

/* ---- for protocols, called in the loop's thread ---- */

uv_loop_t *wr_loop_uv(struct wr_loop *loop);
const struct wr_settings *wr_loop_settings(const struct wr_loop *loop);
struct wr_service *wr_loop_service(const struct wr_loop *loop);

/* The wall clock, wr_clock_wall_ns(). */
uint64_t wr_loop_now_ns(const struct wr_loop *loop);

/* The clock of leases and timeouts, wr_clock_boot_ns(). */
uint64_t wr_loop_mono_ns(const struct wr_loop *loop);

/* Valid until the caller returns to the loop: a resize replaces both. A request that takes longer holds
 * a core reference (struct wr_pending). */
struct weir_engine *wr_loop_engine(const struct wr_loop *loop);
struct weir_table *wr_loop_table(const struct wr_loop *loop);

enum wr_health wr_loop_health(const struct wr_loop *loop);

/* `changed` is called at each change of health. The caller owns the memory, which is in use until
 * wr_loop_unwatch_health. */
struct wr_health_watch {
	void (*changed)(struct wr_health_watch *watch, enum wr_health health);
	struct wr_health_watch *next, **back;
};

void wr_loop_watch_health(struct wr_loop *loop, struct wr_health_watch *watch);
void wr_loop_unwatch_health(struct wr_health_watch *watch);

/* ---- for the service ---- */

enum wr_loop_message {
	WR_LOOP_CORE = 1,       /* the core was replaced */
	WR_LOOP_HEALTH = 2,     /* the health has changed */
	WR_LOOP_DRAIN = 4,      /* close the listening sockets and drain the streams */
	WR_LOOP_STOP = 8,       /* end at once */
	WR_LOOP_TURN_AWAY = 16, /* drop new connections: the listening sockets close soon */
	WR_LOOP_FORGET = 32,    /* forget the refusals remembered from Redis */
};

#define WR_LOOP_SWEEP_MS 250

struct wr_loop {
	uv_loop_t uv;
	uv_async_t wake;
	uv_timer_t sweep;
	uv_prepare_t flush;
	pthread_t thread;
	struct wr_service *service;
	unsigned number;
	bool started, draining, stopping;
	unsigned messages; /* bits of enum wr_loop_message, set by other threads */
	uint64_t beats;    /* number of sweeps; the watchdog reads it */
	unsigned ended;    /* the drain is complete; the service reads it */

	struct wr_net net; /* listening sockets and streams */
	struct wr_health_watch *health_watches;
	struct wr_core_refs refs;
	struct wr_waiting waiting;
	struct wr_decision_lane *decisions; /* the log of them, or NULL */
	struct wr_redis_loop *redis;        /* NULL: there is no central store */
	struct wr_queue_loop *queue;        /* NULL: there is no queue for deferred requests */
	struct wr_grpc_loop *grpc;          /* made with the first connection */
};

int wr_loop_init(struct wr_loop *loop, struct wr_service *service, unsigned number);
int wr_loop_start(struct wr_loop *loop);
void wr_loop_notify(struct wr_loop *loop, enum wr_loop_message message);
void wr_loop_join(struct wr_loop *loop); /* after WR_LOOP_STOP */
void wr_loop_free(struct wr_loop *loop); /* one that was never started, or joined */

/* Called when a stream, a delivery or a lease return has ended: ends the drain if it was the last. */
void wr_loop_check_drained(struct wr_loop *loop);

#endif
