/* The event loops of the service. Called by service.c, housekeeping.c and the protocols. */
#include "serve/loop.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/decide/log.h"
#include "serve/grpc/grpc.h"
#include "serve/deliver/queue_host.h"
#include "serve/fleet/redis.h"
#include "serve/resp/resp.h"
#include "serve/service.h"

#define FLUSH_ROUNDS 8 /* maximum number of rounds of on_flush() in one turn of the loop */

/* ---- functions for protocols ---- */

uv_loop_t *wr_loop_uv(struct wr_loop *loop)
{
	return &loop->uv;
}

const struct wr_settings *wr_loop_settings(const struct wr_loop *loop)
{
	return &loop->service->settings;
}

struct wr_service *wr_loop_service(const struct wr_loop *loop)
{
	return loop->service;
}

uint64_t wr_loop_now_ns(const struct wr_loop *loop)
{
	(void)loop;
	return wr_clock_wall_ns();
}

uint64_t wr_loop_mono_ns(const struct wr_loop *loop)
{
	(void)loop;
	return wr_clock_boot_ns();
}

struct weir_engine *wr_loop_engine(const struct wr_loop *loop)
{
	return loop->refs.current->core->engine;
}

struct weir_table *wr_loop_table(const struct wr_loop *loop)
{
	return loop->refs.current->core->table;
}

enum wr_health wr_loop_health(const struct wr_loop *loop)
{
	return wr_service_health(loop->service);
}

/* ---- messages ---- */

static void report_health(struct wr_loop *loop)
{
	struct wr_list *next;

	for (struct wr_list *link = wr_list_first(&loop->health_watches); link; link = next) {
		struct wr_health_watch *watch = wr_container_of(link, struct wr_health_watch, link);

		next = wr_list_after(&loop->health_watches, link);
		watch->changed(watch);
	}
}

void wr_loop_check_drained(struct wr_loop *loop)
{
	wr_assert_magic(loop, WR_LOOP_MAGIC);
	if (!loop->draining || loop->ended || loop->net.stream_count > 0 ||
	    wr_serve_queue_loop_busy(loop) > 0 || !wr_serve_redis_loop_return_leases(loop))
		return;
	__atomic_store_n(&loop->ended, 1, __ATOMIC_RELEASE);
	wr_service_wake(loop->service, NULL);
}

static void begin_draining(struct wr_loop *loop)
{
	if (loop->draining)
		return;
	loop->draining = true;
	wr_acceptors_empty(&loop->net);
	wr_acceptors_close(&loop->net);
	wr_streams_drain(&loop->net);
	wr_serve_queue_loop_end_deliveries(loop);
	wr_loop_check_drained(loop);
}

static void close_handle(uv_handle_t *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* Closes all handles of the loop. uv_run returns when libuv has closed the last handle. */
static void stop_loop(struct wr_loop *loop)
{
	if (loop->stopping)
		return;
	loop->stopping = true;
	wr_acceptors_close(&loop->net);
	wr_streams_cut(&loop->net);
	wr_streams_flush(&loop->net);
	wr_servers_stop(&loop->net);
	wr_serve_queue_loop_stop(loop);
	wr_serve_redis_loop_return_leases(loop);
	wr_serve_redis_flush(loop); /* sends the lease returns */
	wr_serve_redis_loop_stop(loop);
	close_handle((uv_handle_t *)&loop->sweep);
	close_handle((uv_handle_t *)&loop->flush);
	close_handle((uv_handle_t *)&loop->wake);
	close_handle((uv_handle_t *)&loop->waiting.timer);
}

static void on_message(uv_async_t *async)
{
	struct wr_loop *loop = async->data;
	unsigned messages = __atomic_exchange_n(&loop->messages, 0, __ATOMIC_ACQUIRE);

	if (messages & WR_LOOP_CORE &&
	    wr_core_refs_move(&loop->refs, wr_service_core(loop->service)) == 0) {
		wr_serve_redis_loop_core(loop);
		wr_serve_queue_loop_core(loop);
	}
	if (messages & WR_LOOP_HEALTH)
		report_health(loop);
	if (messages & WR_LOOP_FORGET && loop->redis && loop->redis->central)
		wr_central_forget(loop->redis->central, NULL);
	if (messages & WR_LOOP_TURN_AWAY)
		wr_acceptors_turn_away(&loop->net);
	if (messages & WR_LOOP_DRAIN)
		begin_draining(loop);
	if (messages & WR_LOOP_STOP)
		stop_loop(loop);
}

/* The release pairs with the acquire in on_message(), which then sees all writes that the caller
 * made before this call. */
void wr_loop_notify(struct wr_loop *loop, enum wr_loop_message message)
{
	wr_assert_magic(loop, WR_LOOP_MAGIC);
	wr_assert(message);
	__atomic_fetch_or(&loop->messages, message, __ATOMIC_RELEASE);
	uv_async_send(&loop->wake);
}

/* ---- running ---- */

static void on_sweep(uv_timer_t *timer)
{
	struct wr_loop *loop = timer->data;

	__atomic_fetch_add(&loop->beats, 1, __ATOMIC_RELAXED);
	wr_acceptors_wake(&loop->net);
	wr_streams_sweep(&loop->net, uv_now(&loop->uv));
	wr_serve_redis_sweep(loop);
	if (loop->number == 0 && !loop->stopping)
		wr_serve_bans_sweep(loop);
	wr_expiries_sweep(loop);
}

/* Flushes output in rounds, because each step can cause work for another step: replies to clients
 * let waiting commands run, these commands send questions to Redis, and a lost connection to Redis
 * causes new replies. */
static void on_flush(uv_prepare_t *prepare)
{
	struct wr_loop *loop = prepare->data;

	wr_loop_check_drained(loop); /* the final lease return can have ended in this turn */
	for (int i = 0; i < FLUSH_ROUNDS; i++) {
		wr_serve_resp_go_on(loop);
		wr_streams_flush(&loop->net);
		if (!loop->redis || wr_list_is_empty(&loop->redis->dirty))
			return;
		wr_serve_redis_flush(loop);
	}
	uv_async_send(&loop->wake);
}

static void wake_loop(struct wr_loop *loop)
{
	uv_async_send(&loop->wake);
}

static void init_net(struct wr_loop *loop)
{
	const struct wr_settings *settings = wr_loop_settings(loop);

	loop->net.uv = &loop->uv;
	loop->net.loop = loop;
	loop->net.number = loop->number;
	loop->net.wake = wake_loop;
	loop->net.stream_ended = wr_loop_check_drained;
	wr_net_init(&loop->net);
	loop->net.times = (struct wr_net_times){
		.idle_ms = settings->idle_ns / 1000000,
		.max_age_ms = settings->max_age_ns / 1000000,
		.slow_ms = settings->slow_ns / 1000000,
		.drain_ms = settings->drain_ns / 1000000,
	};
}

int wr_loop_init(struct wr_loop *loop, struct wr_service *service, unsigned number)
{
	int rc;

	wr_assert(number < WR_LOOPS_MAX);
	memset(loop, 0, sizeof *loop);
	loop->magic = WR_LOOP_MAGIC;
	loop->service = service;
	loop->number = number;
	wr_list_init(&loop->health_watches);
	init_net(loop);
	loop->decisions = wr_serve_decision_lane(service->decision_log, number);
	if (uv_loop_init(&loop->uv) < 0)
		return WEIR_EMEMORY;
	if (uv_async_init(&loop->uv, &loop->wake, on_message) < 0) {
		uv_loop_close(&loop->uv);
		return WEIR_EMEMORY;
	}
	uv_timer_init(&loop->uv, &loop->sweep);
	uv_prepare_init(&loop->uv, &loop->flush);
	wr_waiting_init(&loop->waiting, &loop->uv);
	wr_expiries_init(&loop->expiries);
	loop->wake.data = loop->sweep.data = loop->flush.data = loop;
	uv_timer_start(&loop->sweep, on_sweep, WR_LOOP_SWEEP_MS, WR_LOOP_SWEEP_MS);
	uv_prepare_start(&loop->flush, on_flush);
	if (wr_core_refs_move(&loop->refs, wr_service_core(service)) < 0)
		return WEIR_EMEMORY;
	if (number == 0)
		wr_serve_bans_begin(loop);
	rc = wr_serve_redis_loop_init(loop);
	if (rc == 0)
		rc = wr_serve_queue_loop_init(loop);
	if (rc < 0)
		wr_loop_free(loop);
	return rc;
}

static void *run_loop(void *argument)
{
	struct wr_loop *loop = argument;

	uv_run(&loop->uv, UV_RUN_DEFAULT);
	return NULL;
}

int wr_loop_start(struct wr_loop *loop)
{
	wr_assert_magic(loop, WR_LOOP_MAGIC);
	wr_assert(!loop->started && !loop->stopping);
	loop->started = wr_thread_start(&loop->thread, "weir-loop", run_loop, loop) == 0;
	return loop->started ? 0 : WEIR_ESYS;
}

void wr_loop_join(struct wr_loop *loop)
{
	wr_assert_magic(loop, WR_LOOP_MAGIC);
	if (loop->started)
		pthread_join(loop->thread, NULL);
	loop->started = false;
}

void wr_loop_free(struct wr_loop *loop)
{
	wr_assert_magic(loop, WR_LOOP_MAGIC);
	wr_assert(!loop->started);
	stop_loop(loop);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	uv_loop_close(&loop->uv);
	wr_serve_queue_loop_free(loop);
	wr_serve_redis_loop_free(loop);
	wr_core_refs_free(&loop->refs);
	wr_waiting_free(&loop->waiting);
	wr_expiries_free(&loop->expiries);
	wr_output_blocks_free(&loop->net.blocks);
	wr_serve_grpc_loop_free(loop->grpc);
	loop->magic = 0;
}
