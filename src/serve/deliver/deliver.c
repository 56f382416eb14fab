/* Takes requests from the queue when they are due; see deliver.h. */
#include <stdlib.h>
#include <sys/random.h>

#include "serve/deliver/deliver_impl.h"
#include "base/assert.h"
#include "serve/service.h"
#include "table/deferred.h"

/* Interval at which a shared queue is checked for requests that other processes have queued. */
#define SHARED_LOOK_US 1000000u
#define LATE_MOST_US 3600000000u /* longest time for which take_timer is set */
#define HELD_MAX 256u            /* number of slots for requests in the stage HELD */
/* Requests are taken from the queue before a connection is free for them: at most AHEAD_EACH
 * requests per connection, and at most AHEAD_MAX in total. */
#define AHEAD_EACH 8u
#define AHEAD_MAX 256u
#define LOOK_MS 1000

uint64_t wr_deliver_mono_us(const struct wr_deliverer *deliverer)
{
	return wr_loop_mono_ns(deliverer->own->loop) / 1000;
}

/* Returns a random number (splitmix64), used for jitter only. */
uint64_t wr_deliver_random(struct wr_deliverer *deliverer)
{
	uint64_t z = deliverer->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* ---- taking requests from the queue ---- */

static void on_take_timer(uv_timer_t *timer)
{
	struct wr_deliverer *deliverer = timer->data;

	deliverer->deadline_us = UINT64_MAX;
	wr_deliver_take(deliverer);
}

/* Sets take_timer to the time at_us, at which requests are taken from the queue. Does nothing if
 * the timer is already set for an earlier time. */
static void take_at(struct wr_deliverer *deliverer, uint64_t at_us)
{
	uint64_t now_us = wr_deliver_mono_us(deliverer), wait_us;

	if (at_us >= deliverer->deadline_us)
		return;
	deliverer->deadline_us = at_us;
	if (deliverer->stopped || deliverer->ending)
		return;
	wait_us = at_us > now_us ? at_us - now_us : 0;
	uv_timer_start(&deliverer->take_timer, on_take_timer,
		       wait_us / 1000 + (wait_us % 1000 != 0), 0);
}

static void take_in(struct wr_deliverer *deliverer, uint64_t wait_us)
{
	take_at(deliverer,
		wr_deliver_mono_us(deliverer) + (wait_us < LATE_MOST_US ? wait_us : LATE_MOST_US));
}

static void begin_delivery(struct wr_deliverer *deliverer, struct wr_queue_request *request)
{
	struct wr_delivery *delivery = wr_deliver_take_slot(deliverer);
	uint64_t bytes = sizeof *request + request->body.len + request->uri.len;

	for (size_t i = 0; i < request->field_count; i++)
		bytes += request->fields[i].name.len + request->fields[i].value.len;
	delivery->request = request;
	delivery->bytes = bytes;
	delivery->taken_us = deliverer->asked_us;
	deliverer->bytes += bytes;
	if (bytes > deliverer->large)
		deliverer->large = bytes;
	if (deliverer->ending)
		wr_deliver_release(delivery, 0);
	else
		wr_deliver_ask(delivery);
}

static void on_taken(struct wr_queue_job *job)
{
	struct wr_deliverer *deliverer = job->context;
	struct wr_queue_request *next;

	deliverer->taking = false;
	if (deliverer->stopped) {
		wr_queue_request_free(job->take.first);
		return;
	}
	if (job->reason != WR_QUEUE_OK) {
		take_in(deliverer, WR_DELIVER_FAILED_WAIT_US);
		return;
	}
	wr_serve_queue_count(&deliverer->own->host->tally.dead, job->take.expired);
	if (job->take.next_us != UINT64_MAX)
		take_in(deliverer, job->take.next_us);
	if (deliverer->own->host->shared)
		take_in(deliverer, SHARED_LOOK_US);
	if (job->take.count == job->take.max)
		deliverer->take_again = true;
	deliverer->large -= deliverer->large / 8; /* `large` falls slowly after a large request */
	for (struct wr_queue_request *each = job->take.first; each; each = next) {
		next = each->next;
		each->next = NULL;
		begin_delivery(deliverer, each);
	}
	if (deliverer->take_again)
		wr_deliver_take(deliverer);
}

/* Returns the number of requests that the next take job is to return. A take job can last long
 * because of a disk sync, so each take job returns enough requests to keep the connections busy
 * during the following take job. The requests have to fit into the free memory. Their sizes are not
 * known beforehand, so they are estimated from recent requests. While the target is unreachable, at
 * most one request is taken, as a trial. */
static unsigned room_for(const struct wr_deliverer *deliverer)
{
	unsigned most = deliverer->connections + deliverer->ahead_max;
	unsigned busy = deliverer->sending + deliverer->ready_count;
	unsigned free = deliverer->slot_count - deliverer->used;
	unsigned room = busy < most ? most - busy : 0;
	uint64_t bytes = deliverer->bytes < WR_DELIVER_BYTES_MAX
				 ? WR_DELIVER_BYTES_MAX - deliverer->bytes
				 : 0;

	if (deliverer->down)
		return deliverer->used == deliverer->held ? 1 : 0;
	if (deliverer->large * room > bytes)
		room = (unsigned)(bytes / deliverer->large);
	if (room == 0 && deliverer->used == 0)
		room = 1;
	return room < free ? room : free;
}

void wr_deliver_take(struct wr_deliverer *deliverer)
{
	unsigned room = room_for(deliverer);

	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	deliverer->take_again = true;
	if (deliverer->taking || deliverer->ending || deliverer->stopped || !deliverer->delivers)
		return;
	if (wr_deliver_is_resting(deliverer)) {
		take_in(deliverer, deliverer->rest_until_us - wr_deliver_mono_us(deliverer));
		return;
	}
	deliverer->starved = room == 0;
	if (room == 0)
		return;
	deliverer->take_again = false;
	deliverer->taking = true;
	deliverer->asked_us = wr_deliver_mono_us(deliverer);
	deliverer->take = (struct wr_queue_job){.verb = WR_QUEUE_TAKE,
						.done = on_taken,
						.context = deliverer,
						.take = {.max = room}};
	wr_queue_submit(deliverer->own->port, &deliverer->take);
}

/* ---- notifications ---- */

void wr_deliver_due(struct wr_serve_queue_host *host, uint64_t wait_us)
{
	struct wr_serve_queue_loop *own = host->loops[0];
	uint64_t now_us, at_us, before;

	if (!own || !own->deliverer)
		return;
	now_us = wr_deliver_mono_us(own->deliverer);
	at_us = now_us + (wait_us < LATE_MOST_US ? wait_us : LATE_MOST_US);
	before = atomic_load_explicit(&host->due_us, memory_order_relaxed);
	while (at_us < before &&
	       !atomic_compare_exchange_weak_explicit(&host->due_us, &before, at_us,
						      memory_order_relaxed, memory_order_relaxed))
		;
	if (at_us < before)
		wr_serve_queue_loop_wake(own);
}

void wr_deliver_wake(struct wr_deliverer *deliverer)
{
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	take_at(deliverer, atomic_exchange_explicit(&deliverer->own->host->due_us, UINT64_MAX,
						    memory_order_relaxed));
}

static void on_recounted(struct wr_queue_job *job)
{
	struct wr_deliverer *deliverer = job->context;

	deliverer->recounting = false;
	if (deliverer->stopped)
		return;
	if (job->reason == WR_QUEUE_OK) {
		wr_deferred_sweep(wr_loop_table(deliverer->own->loop),
				  deliverer->own->host->began_s);
		deliverer->swept = true;
	}
	if (deliverer->recount_again)
		wr_deliver_recount(deliverer);
}

void wr_deliver_recount(struct wr_deliverer *deliverer)
{
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	deliverer->recount_again = deliverer->recounting;
	if (deliverer->recounting)
		return;
	deliverer->recounting = true;
	deliverer->recount = (struct wr_queue_job){
		.verb = WR_QUEUE_RECOUNT, .done = on_recounted, .context = deliverer};
	wr_queue_submit(deliverer->own->port, &deliverer->recount);
}

void wr_deliver_end(struct wr_deliverer *deliverer)
{
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	deliverer->ending = true;
	wr_deliver_release_ready(deliverer, 0);
	for (unsigned i = 0; i < deliverer->slot_count; i++) {
		struct wr_delivery *delivery = &deliverer->slots[i];

		if (delivery->stage != WR_DELIVERY_HELD)
			continue;
		uv_timer_stop(&delivery->timer);
		deliverer->held--;
		wr_deliver_release(delivery, 0);
	}
}

size_t wr_deliver_busy(const struct wr_deliverer *deliverer)
{
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	return deliverer->used + deliverer->taking;
}

/* ---- statistics ---- */

static void on_stats(struct wr_queue_job *job)
{
	struct wr_deliverer *deliverer = job->context;
	struct wr_serve_queue_host *host = deliverer->own->host;

	deliverer->looking = false;
	if (job->reason != WR_QUEUE_OK || deliverer->stopped)
		return;
	pthread_mutex_lock(&host->lock);
	host->seen.known = true;
	host->seen.at_ns = wr_loop_now_ns(deliverer->own->loop);
	host->seen.stats = job->stats;
	host->seen.sending = deliverer->sending;
	host->seen.down_for_ns =
		deliverer->down
			? (wr_deliver_mono_us(deliverer) - deliverer->down_since_us) * 1000 + 1
			: 0;
	pthread_mutex_unlock(&host->lock);
	wr_serve_queue_set_gauges(host, wr_loop_table(deliverer->own->loop), host->seen.at_ns);
	if (!deliverer->swept)
		wr_deliver_recount(deliverer);
}

static void on_look_timer(uv_timer_t *timer)
{
	struct wr_deliverer *deliverer = timer->data;

	if (deliverer->looking)
		return;
	deliverer->looking = true;
	deliverer->look = (struct wr_queue_job){
		.verb = WR_QUEUE_STATS, .done = on_stats, .context = deliverer};
	wr_queue_submit(deliverer->own->port, &deliverer->look);
}

/* ---- creating and ending ---- */

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void make_slots(struct wr_deliverer *deliverer)
{
	uv_loop_t *uv = wr_loop_uv(deliverer->own->loop);

	for (unsigned i = deliverer->slot_count; i-- > 0;) {
		struct wr_delivery *delivery = &deliverer->slots[i];

		delivery->magic = WR_DELIVERY_MAGIC;
		delivery->deliverer = deliverer;
		uv_timer_init(uv, &delivery->timer);
		delivery->timer.data = delivery;
		wr_list_add_first(&deliverer->free, &delivery->link);
	}
}

static void make_timers(struct wr_deliverer *deliverer)
{
	uv_loop_t *uv = wr_loop_uv(deliverer->own->loop);

	uv_timer_init(uv, &deliverer->take_timer);
	uv_timer_init(uv, &deliverer->look_timer);
	deliverer->take_timer.data = deliverer->look_timer.data = deliverer;
	uv_timer_start(&deliverer->look_timer, on_look_timer, 0, LOOK_MS);
	take_in(deliverer, 0);
}

struct wr_deliverer *wr_deliver_new(struct wr_serve_queue_loop *own)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct wr_serve_queue_settings *settings = &own->host->settings->queue;
	struct wr_deliverer *deliverer = calloc(1, sizeof *deliverer);
	struct weir_error ignored;
	unsigned each;

	wr_assert(own->host && !own->deliverer);
	if (!deliverer)
		return NULL;
	pthread_once(&once, start_curl);
	deliverer->magic = WR_DELIVERER_MAGIC;
	deliverer->own = own;
	wr_list_init(&deliverer->free);
	wr_list_init(&deliverer->ready);
	wr_list_init(&deliverer->watches);
	deliverer->deadline_us = UINT64_MAX;
	deliverer->connections = (unsigned)settings->connections;
	/* Take fewer requests in advance from a shared queue, because no other process can deliver
	 * a request that this process has taken. */
	each = own->host->shared ? 1 : AHEAD_EACH;
	deliverer->ahead_max = deliverer->connections * each < AHEAD_MAX
				       ? deliverer->connections * each
				       : AHEAD_MAX;
	deliverer->slot_count = deliverer->connections + deliverer->ahead_max + HELD_MAX;
	deliverer->slots = calloc(deliverer->slot_count, sizeof *deliverer->slots);
	deliverer->easies = calloc(deliverer->connections, sizeof *deliverer->easies);
	if (getrandom(&deliverer->random, sizeof deliverer->random, GRND_NONBLOCK) < 0)
		deliverer->random = wr_deliver_mono_us(deliverer);
	deliverer->delivers =
		settings->target &&
		wr_deliver_target_read(settings->target, &deliverer->target, &ignored) == 0;
	if (!deliverer->slots || !deliverer->easies || wr_deliver_multi_init(deliverer) < 0) {
		wr_deliver_free(deliverer);
		return NULL;
	}
	make_slots(deliverer);
	make_timers(deliverer);
	return deliverer;
}

static void stop_delivery(struct wr_delivery *delivery)
{
	if (delivery->stage == WR_DELIVERY_SENDING) {
		wr_deliver_multi_remove(delivery);
		wr_deliver_unprepare(delivery);
	}
	if (delivery->pending.ask) {
		if (delivery->stage != WR_DELIVERY_SENDING)
			wr_pending_cancel(&delivery->pending);
		wr_pending_end(&delivery->pending);
	}
	if (delivery->stage != WR_DELIVERY_SETTLING) {
		wr_queue_request_free(delivery->request);
		delivery->request = NULL;
	}
	uv_close((uv_handle_t *)&delivery->timer, NULL);
}

void wr_deliver_stop(struct wr_deliverer *deliverer)
{
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	wr_assert(!deliverer->stopped);
	deliverer->stopped = true;
	for (unsigned i = 0; i < deliverer->slot_count; i++)
		stop_delivery(&deliverer->slots[i]);
	while (deliverer->easy_count)
		curl_easy_cleanup(deliverer->easies[--deliverer->easy_count]);
	wr_deliver_multi_stop(deliverer);
	uv_close((uv_handle_t *)&deliverer->take_timer, NULL);
	uv_close((uv_handle_t *)&deliverer->look_timer, NULL);
}

/* Frees the requests that wr_deliver_stop() has not freed, which are those in the stage SETTLING.
 * The jobs that stored their outcome have ended. */
void wr_deliver_free(struct wr_deliverer *deliverer)
{
	if (!deliverer)
		return;
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	for (unsigned i = 0; deliverer->slots && i < deliverer->slot_count; i++) {
		wr_queue_request_free(deliverer->slots[i].request);
		deliverer->slots[i].magic = 0;
	}
	free(deliverer->slots);
	free(deliverer->easies);
	wr_deliver_absent_free(&deliverer->absent);
	deliverer->magic = 0;
	free(deliverer);
}
