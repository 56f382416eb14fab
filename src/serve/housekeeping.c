/* The housekeeping thread: periodic checks, reloads, and the stages of a shutdown. Started by
 * service.c. */
#include "serve/service.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/decide/log.h"
#include "net/log.h"
#include "net/tls.h"
#include "serve/open.h"

#define LOOK_MS 1000     /* interval between two calls of check_service() */
#define LAST_CALL_MS 100 /* duration of the stage WR_SERVICE_LAST_CALL */
#define FILL_LOOKS 60    /* check_service() scans the whole table once in this many calls */
#define BEATS_MAX 256

struct housekeeping {
	struct wr_service *service;
	uint64_t next_look_ms, next_sign_ms;
	unsigned looks;
	uint64_t beats[BEATS_MAX]; /* `beats` of each loop at the latest notify_watchdog() */
};

static uint64_t mono_ms(void)
{
	return wr_clock_mono_ns() / 1000000;
}

/* ---- shutdown ---- */

static bool all_ended(const struct wr_service *service)
{
	for (unsigned i = 0; i < service->loops_ready; i++)
		if (!__atomic_load_n(&service->loops[i].ended, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

static void set_stage(struct wr_service *service, enum wr_service_stage stage, uint64_t until_ms)
{
	service->stage_until_ms = until_ms;
	__atomic_store_n(&service->stage, stage, __ATOMIC_RELEASE);
}

static void end_service(struct wr_service *service, bool in_time)
{
	unsigned left = __atomic_load_n(&service->quota.used, __ATOMIC_RELAXED);

	set_stage(service, WR_SERVICE_ENDED, UINT64_MAX);
	if (!in_time)
		wr_log(WR_LOG_WARN,
		       "closed %u connections that were still open at the end of --drain", left);
	if (service->ended)
		service->ended(service->context);
}

/* Moves to the next stage of the shutdown if that stage is due. Called with service->lock held. */
static void advance_shutdown(struct wr_service *service, uint64_t now_ms)
{
	const struct wr_settings *settings = &service->settings;
	bool over = now_ms >= service->stage_until_ms;

	switch (service->stage) {
	case WR_SERVICE_RUNNING:
		if (!service->drain_asked)
			break;
		set_stage(service, WR_SERVICE_DELAY, now_ms + settings->drain_delay_ns / 1000000);
		wr_notify_send(&service->notify, "STOPPING=1");
		wr_log(WR_LOG_INFO, "shutting down: health is NOT_SERVING, ports close in %.1f s",
		       (double)settings->drain_delay_ns / 1e9);
		wr_service_notify_loops(service, WR_LOOP_HEALTH);
		break;
	case WR_SERVICE_DELAY:
		if (!over)
			break;
		/* Closing a port resets connections that are being established. So the stage
		 * LAST_CALL comes first: the kernel drops new connections, and connections that
		 * began earlier can complete. */
		set_stage(service, WR_SERVICE_LAST_CALL, now_ms + LAST_CALL_MS);
		wr_service_notify_loops(service, WR_LOOP_TURN_AWAY);
		break;
	case WR_SERVICE_LAST_CALL:
		if (!over)
			break;
		set_stage(service, WR_SERVICE_DRAINING, now_ms + settings->drain_ns / 1000000);
		wr_log(WR_LOG_INFO, "ports closed, %u connections are still open",
		       __atomic_load_n(&service->quota.used, __ATOMIC_RELAXED));
		wr_service_notify_loops(service, WR_LOOP_DRAIN);
		break;
	case WR_SERVICE_DRAINING:
		if (all_ended(service) || over)
			end_service(service, all_ended(service));
		break;
	case WR_SERVICE_ENDED:
		break;
	}
}

/* ---- work once a second ---- */

static void reload_files(struct wr_service *service)
{
	wr_notify_reloading(&service->notify);
	weir_watch_poke(service->watch);
	wr_serve_decision_log_reopen(service->decision_log);
	if (service->tls)
		wr_tls_look(service->tls, true);
}

static void check_service(struct housekeeping *state)
{
	struct wr_service *service = state->service;

	wr_core_follow_resize(service);
	wr_core_check_redis(service);
	if (service->tls)
		wr_tls_look(service->tls, false);
	if (state->looks++ % FILL_LOOKS == 0)
		wr_core_check_fill(service);
}

/* Notifies the watchdog of systemd if every loop has run since the previous notification. */
static void notify_watchdog(struct housekeeping *state)
{
	struct wr_service *service = state->service;
	bool alive = true;

	for (unsigned i = 0; i < service->loops_ready && i < BEATS_MAX; i++) {
		uint64_t beats = __atomic_load_n(&service->loops[i].beats, __ATOMIC_RELAXED);

		alive = alive && beats != state->beats[i];
		state->beats[i] = beats;
	}
	if (alive)
		wr_notify_send(&service->notify, "WATCHDOG=1");
}

static void do_periodic(struct housekeeping *state, uint64_t now_ms)
{
	uint64_t watchdog_ms = state->service->notify.watchdog_ms;

	if (now_ms >= state->next_look_ms) {
		check_service(state);
		state->next_look_ms = now_ms + LOOK_MS;
	}
	if (watchdog_ms && now_ms >= state->next_sign_ms) {
		notify_watchdog(state);
		state->next_sign_ms = now_ms + watchdog_ms / 2;
	}
}

/* ---- the thread ---- */

static uint64_t next_ms(const struct housekeeping *state)
{
	const struct wr_service *service = state->service;
	uint64_t next = state->next_look_ms;

	if (service->notify.watchdog_ms && state->next_sign_ms < next)
		next = state->next_sign_ms;
	if (service->stage != WR_SERVICE_RUNNING && service->stage_until_ms < next)
		next = service->stage_until_ms;
	return next;
}

static void *run_housekeeping(void *argument)
{
	struct housekeeping state = {.service = argument};
	struct wr_service *service = argument;

	pthread_mutex_lock(&service->lock);
	while (!service->stop_asked) {
		bool reload_asked = service->reload_asked;

		service->reload_asked = false;
		pthread_mutex_unlock(&service->lock);
		if (reload_asked)
			reload_files(service);
		do_periodic(&state, mono_ms());
		pthread_mutex_lock(&service->lock);
		advance_shutdown(service, mono_ms());
		if (!service->stop_asked && !service->reload_asked &&
		    !(service->drain_asked && service->stage == WR_SERVICE_RUNNING)) {
			struct timespec until = wr_clock_timespec(next_ms(&state) * 1000000);

			pthread_cond_timedwait(&service->woken, &service->lock, &until);
		}
	}
	pthread_mutex_unlock(&service->lock);
	return NULL;
}

int wr_housekeeping_start(struct wr_service *service)
{
	wr_assert(!service->housekeeping_started);
	service->housekeeping_started = wr_thread_start(&service->housekeeping, "weir-house",
							run_housekeeping, service) == 0;
	return service->housekeeping_started ? 0 : WEIR_ESYS;
}

void wr_housekeeping_stop(struct wr_service *service)
{
	if (!service->housekeeping_started)
		return;
	wr_service_wake(service, &service->stop_asked);
	pthread_join(service->housekeeping, NULL);
	service->housekeeping_started = false;
}
