#include <stdlib.h>
#include <sys/random.h>

#include "serve/deliver/deliver_impl.h"
#include "serve/service.h"
#include "table/deferred.h"

#define SHARED_LOOK_US 1000000u  /* others may have put something */
#define LATE_MOST_US 3600000000u /* of a timer */
#define HELD_MAX 256u            /* that the limiter refused for a moment */
#define AHEAD_EACH 8u            /* for each connection … */
#define AHEAD_MAX 256u           /* … and in all */
#define LOOK_MS 1000

uint64_t wr_drain_mono_us(const struct wr_drain *drain)
{
	return wr_loop_mono_ns(drain->own->loop) / 1000;
}

/* splitmix64: for jitter, nothing more. */
uint64_t wr_drain_random(struct wr_drain *drain)
{
	uint64_t z = drain->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* ---- taking ---- */

static void on_take_timer(uv_timer_t *timer)
{
	struct wr_drain *drain = timer->data;

	drain->deadline_us = UINT64_MAX;
	wr_drain_take(drain);
}

static void set_take_timer(struct wr_drain *drain)
{
	uint64_t now_us = wr_drain_mono_us(drain);
	uint64_t wait_us = drain->deadline_us > now_us ? drain->deadline_us - now_us : 0;

	if (drain->deadline_us == UINT64_MAX || drain->stopped || drain->ending)
		return;
	if (wait_us > LATE_MOST_US)
		wait_us = LATE_MOST_US;
	uv_timer_start(&drain->take_timer, on_take_timer, wait_us / 1000 + (wait_us % 1000 != 0),
		       0);
}

static void due_in(struct wr_drain *drain, uint64_t wait_us)
{
	uint64_t at_us =
		wr_drain_mono_us(drain) + (wait_us < LATE_MOST_US ? wait_us : LATE_MOST_US);

	if (at_us >= drain->deadline_us)
		return;
	drain->deadline_us = at_us;
	set_take_timer(drain);
}

static uint64_t size_of(const struct wr_deferred *request)
{
	uint64_t bytes = sizeof *request + request->body.len + request->uri.len;

	for (size_t i = 0; i < request->field_count; i++)
		bytes += request->fields[i].name.len + request->fields[i].value.len;
	return bytes;
}

static void put_in_place(struct wr_drain *drain, struct wr_deferred *request)
{
	struct wr_delivery *delivery = wr_drain_place(drain);
	uint64_t bytes = size_of(request);

	delivery->request = request;
	delivery->bytes = bytes;
	delivery->taken_us = drain->asked_us;
	drain->bytes += bytes;
	if (bytes > drain->large)
		drain->large = bytes;
	if (drain->ending)
		wr_drain_release(delivery, 0);
	else
		wr_drain_ask(delivery);
}

static void on_taken(struct wr_queue_job *job)
{
	struct wr_drain *drain = job->context;
	struct wr_deferred *next;

	drain->taking = false;
	if (drain->stopped) {
		wr_deferred_free(job->take.first);
		return;
	}
	if (job->reason != WR_QUEUE_OK) {
		due_in(drain, WR_DRAIN_FAILED_WAIT_US);
		return;
	}
	wr_queue_count(&drain->own->host->tally.dead, job->take.expired);
	if (job->take.next_us != UINT64_MAX)
		due_in(drain, job->take.next_us);
	if (drain->own->host->shared)
		due_in(drain, SHARED_LOOK_US);
	if (job->take.count == job->take.max)
		drain->take_again = true;
	drain->large -= drain->large / 8; /* it may have been the only one */
	for (struct wr_deferred *each = job->take.first; each; each = next) {
		next = each->next;
		each->next = NULL;
		put_in_place(drain, each);
	}
	if (drain->take_again)
		wr_drain_take(drain);
}

/* As many as can be sent until the queue gives more, which may be after a sync of its disk: then
 * what was sent before can be settled by one. How large they are is known when they are there, so
 * those before them have to tell. While the target is away, one to try it with. */
static unsigned room_for(const struct wr_drain *drain)
{
	unsigned most = drain->connections + drain->ahead_max;
	unsigned busy = drain->sending + drain->ready_count;
	unsigned free = drain->slot_count - drain->used;
	unsigned room = busy < most ? most - busy : 0;
	uint64_t bytes = drain->bytes < WR_DRAIN_BYTES_MAX ? WR_DRAIN_BYTES_MAX - drain->bytes : 0;

	if (drain->down)
		return drain->used == drain->held ? 1 : 0;
	if (drain->large * room > bytes)
		room = (unsigned)(bytes / drain->large);
	if (room == 0 && drain->used == 0)
		room = 1;
	return room < free ? room : free;
}

void wr_drain_take(struct wr_drain *drain)
{
	unsigned room = room_for(drain);

	drain->take_again = true;
	if (drain->taking || drain->ending || drain->stopped || !drain->delivers)
		return;
	if (wr_drain_is_resting(drain)) {
		due_in(drain, drain->rest_until_us - wr_drain_mono_us(drain));
		return;
	}
	drain->starved = room == 0;
	if (room == 0)
		return;
	drain->take_again = false;
	drain->taking = true;
	drain->asked_us = wr_drain_mono_us(drain);
	drain->take = (struct wr_queue_job){
		.verb = WR_QUEUE_TAKE, .done = on_taken, .context = drain, .take = {.max = room}};
	wr_queue_submit(drain->own->port, &drain->take);
}

/* ---- being told ---- */

void wr_drain_due(struct wr_queue_host *host, uint64_t wait_us)
{
	struct wr_queue_loop *own = host->loops[0];
	uint64_t now_us, at_us, before;

	if (!own || !own->drain)
		return;
	now_us = wr_drain_mono_us(own->drain);
	at_us = now_us + (wait_us < LATE_MOST_US ? wait_us : LATE_MOST_US);
	before = atomic_load_explicit(&host->due_us, memory_order_relaxed);
	while (at_us < before &&
	       !atomic_compare_exchange_weak_explicit(&host->due_us, &before, at_us,
						      memory_order_relaxed, memory_order_relaxed))
		;
	if (at_us < before)
		wr_queue_loop_wake(own);
}

void wr_drain_wake(struct wr_drain *drain)
{
	uint64_t at_us = atomic_exchange_explicit(&drain->own->host->due_us, UINT64_MAX,
						  memory_order_relaxed);

	if (at_us >= drain->deadline_us)
		return;
	drain->deadline_us = at_us;
	set_take_timer(drain);
}

static void on_recounted(struct wr_queue_job *job)
{
	struct wr_drain *drain = job->context;

	drain->recounting = false;
	if (drain->stopped)
		return;
	if (job->reason == WR_QUEUE_OK) {
		wr_deferred_sweep(wr_loop_table(drain->own->loop), drain->own->host->began_s);
		drain->swept = true;
	}
	if (drain->recount_again)
		wr_drain_recount(drain);
}

void wr_drain_recount(struct wr_drain *drain)
{
	drain->recount_again = drain->recounting;
	if (drain->recounting)
		return;
	drain->recounting = true;
	drain->recount = (struct wr_queue_job){
		.verb = WR_QUEUE_RECOUNT, .done = on_recounted, .context = drain};
	wr_queue_submit(drain->own->port, &drain->recount);
}

void wr_drain_end(struct wr_drain *drain)
{
	drain->ending = true;
	wr_drain_release_ready(drain, 0);
	for (unsigned i = 0; i < drain->slot_count; i++) {
		struct wr_delivery *delivery = &drain->slots[i];

		if (delivery->stage != WR_DELIVERY_HELD)
			continue;
		uv_timer_stop(&delivery->timer);
		drain->held--;
		wr_drain_release(delivery, 0);
	}
}

size_t wr_drain_busy(const struct wr_drain *drain)
{
	return drain->used + drain->taking;
}

/* ---- looking ---- */

static void on_looked(struct wr_queue_job *job)
{
	struct wr_drain *drain = job->context;
	struct wr_queue_host *host = drain->own->host;

	drain->looking = false;
	if (job->reason != WR_QUEUE_OK || drain->stopped)
		return;
	pthread_mutex_lock(&host->lock);
	host->seen.known = true;
	host->seen.at_ns = wr_loop_now_ns(drain->own->loop);
	host->seen.stats = job->stats;
	host->seen.sending = drain->sending;
	host->seen.down_for_ns =
		drain->down ? (wr_drain_mono_us(drain) - drain->down_since_us) * 1000 + 1 : 0;
	pthread_mutex_unlock(&host->lock);
	wr_queue_set_gauges(host, wr_loop_table(drain->own->loop), host->seen.at_ns);
	if (!drain->swept)
		wr_drain_recount(drain);
}

static void on_look_timer(uv_timer_t *timer)
{
	struct wr_drain *drain = timer->data;

	if (drain->looking)
		return;
	drain->looking = true;
	drain->look =
		(struct wr_queue_job){.verb = WR_QUEUE_STATS, .done = on_looked, .context = drain};
	wr_queue_submit(drain->own->port, &drain->look);
}

/* ---- beginning and end ---- */

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void make_slots(struct wr_drain *drain)
{
	uv_loop_t *uv = wr_loop_uv(drain->own->loop);

	for (unsigned i = drain->slot_count; i-- > 0;) {
		struct wr_delivery *delivery = &drain->slots[i];

		delivery->drain = drain;
		uv_timer_init(uv, &delivery->timer);
		delivery->timer.data = delivery;
		delivery->next = drain->free;
		drain->free = delivery;
	}
}

static void make_timers(struct wr_drain *drain)
{
	uv_loop_t *uv = wr_loop_uv(drain->own->loop);

	uv_timer_init(uv, &drain->take_timer);
	uv_timer_init(uv, &drain->look_timer);
	drain->take_timer.data = drain->look_timer.data = drain;
	uv_timer_start(&drain->look_timer, on_look_timer, 0, LOOK_MS);
	due_in(drain, 0);
}

struct wr_drain *wr_drain_new(struct wr_queue_loop *own)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct wr_queue_settings *settings = &own->host->settings->queue;
	struct wr_drain *drain = calloc(1, sizeof *drain);
	struct weir_error ignored;
	unsigned each;

	if (!drain)
		return NULL;
	pthread_once(&once, start_curl);
	drain->own = own;
	drain->ready_last = &drain->ready;
	drain->deadline_us = UINT64_MAX;
	drain->connections = (unsigned)settings->connections;
	/* Those that are taken here can not be delivered by others meanwhile. */
	each = own->host->shared ? 1 : AHEAD_EACH;
	drain->ahead_max =
		drain->connections * each < AHEAD_MAX ? drain->connections * each : AHEAD_MAX;
	drain->slot_count = drain->connections + drain->ahead_max + HELD_MAX;
	drain->slots = calloc(drain->slot_count, sizeof *drain->slots);
	drain->easies = calloc(drain->connections, sizeof *drain->easies);
	if (getrandom(&drain->random, sizeof drain->random, GRND_NONBLOCK) < 0)
		drain->random = wr_drain_mono_us(drain);
	drain->delivers = settings->target &&
			  wr_drain_target_read(settings->target, &drain->target, &ignored) == 0;
	if (!drain->slots || !drain->easies || wr_drain_multi_init(drain) < 0) {
		wr_drain_free(drain);
		return NULL;
	}
	make_slots(drain);
	make_timers(drain);
	return drain;
}

static void stop_delivery(struct wr_delivery *delivery)
{
	if (delivery->stage == WR_DELIVERY_SENDING) {
		wr_drain_multi_remove(delivery);
		wr_drain_unprepare(delivery);
	}
	if (delivery->pending.ask) {
		if (delivery->stage != WR_DELIVERY_SENDING)
			wr_pending_cancel(&delivery->pending);
		wr_pending_end(&delivery->pending);
	}
	if (delivery->stage != WR_DELIVERY_SETTLING) {
		wr_deferred_free(delivery->request);
		delivery->request = NULL;
	}
	uv_close((uv_handle_t *)&delivery->timer, NULL);
}

void wr_drain_stop(struct wr_drain *drain)
{
	drain->stopped = true;
	for (unsigned i = 0; i < drain->slot_count; i++)
		stop_delivery(&drain->slots[i]);
	while (drain->easy_count)
		curl_easy_cleanup(drain->easies[--drain->easy_count]);
	wr_drain_multi_stop(drain);
	uv_close((uv_handle_t *)&drain->take_timer, NULL);
	uv_close((uv_handle_t *)&drain->look_timer, NULL);
}

/* A request whose settling was cut short has no job any more. */
void wr_drain_free(struct wr_drain *drain)
{
	if (!drain)
		return;
	for (unsigned i = 0; drain->slots && i < drain->slot_count; i++)
		wr_deferred_free(drain->slots[i].request);
	free(drain->slots);
	free(drain->easies);
	wr_drain_absent_free(&drain->absent);
	free(drain);
}
