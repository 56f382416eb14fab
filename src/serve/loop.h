/* A thread with its libuv loop: listening sockets, streams and requests that wait. Loops share the
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
	WR_HEALTH_NOT_SERVING = 2, /* shutting down, or the store is away and all rules deny */
};

/* ---- for protocols; in the loop's own thread ---- */

uv_loop_t *wr_loop_uv(struct wr_loop *loop);
const struct wr_settings *wr_loop_settings(const struct wr_loop *loop);
struct wr_service *wr_loop_service(const struct wr_loop *loop);

/* CLOCK_REALTIME, now. */
uint64_t wr_loop_now_ns(const struct wr_loop *loop);

/* The clock of leases and of every wait, base/mono.h. */
uint64_t wr_loop_mono_ns(const struct wr_loop *loop);

/* Valid until the caller returns to the loop: the table may be resized and both replaced. Requests
 * that take longer are held by struct wr_pending. */
struct weir_engine *wr_loop_engine(const struct wr_loop *loop);
struct weir_table *wr_loop_table(const struct wr_loop *loop);

enum wr_health wr_loop_health(const struct wr_loop *loop);

/* Told of each change of health. The memory is the caller's until wr_loop_unwatch_health. */
struct wr_health_watch {
	void (*changed)(struct wr_health_watch *watch, enum wr_health health);
	struct wr_health_watch *next, **back;
};

void wr_loop_watch_health(struct wr_loop *loop, struct wr_health_watch *watch);
void wr_loop_unwatch_health(struct wr_health_watch *watch);

/* ---- for the service ---- */

enum wr_loop_message {
	WR_LOOP_CORE = 1,       /* another table or engine */
	WR_LOOP_HEALTH = 2,     /* the health has changed */
	WR_LOOP_DRAIN = 4,      /* close the listening sockets, drain the streams */
	WR_LOOP_STOP = 8,       /* end at once */
	WR_LOOP_TURN_AWAY = 16, /* the listening sockets will be closed in a moment */
	WR_LOOP_FORGET = 32,    /* remembered refusals of the central store */
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
	unsigned messages; /* enum wr_loop_message, set by others */
	uint64_t beats;    /* sweeps so far; read by the watchdog */
	unsigned ended;    /* draining is done; read by the service */

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
void wr_loop_tell(struct wr_loop *loop, enum wr_loop_message message);
void wr_loop_join(struct wr_loop *loop); /* after WR_LOOP_STOP */
void wr_loop_free(struct wr_loop *loop); /* one that was never started, or joined */

/* Called when a stream, a delivery or a lease return has ended: ends the drain if it was the last. */
void wr_loop_check_drained(struct wr_loop *loop);

#endif
