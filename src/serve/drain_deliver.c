/* One delivery: asking the limiter, sending, telling the queue. */
#include <string.h>

#include "base/str.h"
#include "serve/drain_impl.h"
#include "serve/log.h"

#define HOLD_MOST_US 1000000u  /* a wait of the limiter that is waited out here */
#define REST_MOST_US 30000000u /* between tries of a target that is away */

static void settle(struct wr_delivery *delivery);

static uint64_t ms_of(uint64_t us)
{
	return us / 1000 + (us % 1000 != 0);
}

/* ---- places ---- */

struct wr_delivery *wr_drain_place(struct wr_drain *drain)
{
	struct wr_delivery *delivery = drain->free;

	drain->free = delivery->next;
	delivery->next = NULL;
	drain->used++;
	return delivery;
}

static void free_slot(struct wr_delivery *delivery)
{
	struct wr_drain *drain = delivery->drain;

	wr_deferred_free(delivery->request);
	delivery->request = NULL;
	drain->bytes -= delivery->bytes;
	delivery->stage = WR_DELIVERY_FREE;
	delivery->next = drain->free;
	drain->free = delivery;
	drain->used--;
	if (drain->stopped)
		return;
	if (drain->starved)
		wr_drain_take(drain);
	wr_loop_check_drained(drain->own->loop);
}

/* ---- telling the queue ---- */

static void on_settle_timer(uv_timer_t *timer)
{
	settle(timer->data);
}

static void count_settled(struct wr_drain *drain, const struct wr_queue_job *job)
{
	struct wr_queue_tally *tally = &drain->own->host->tally;

	if (job->settle.state == WR_DEFERRED_DEAD)
		wr_queue_count(&tally->dead, 1);
	else if (job->settle.outcome == WR_QUEUE_DELIVERED)
		wr_queue_count(&tally->delivered, 1);
	else if (job->settle.outcome == WR_QUEUE_AGAIN || job->settle.outcome == WR_QUEUE_ABSENT)
		wr_queue_count(&tally->retried, 1);
}

/* Whether it makes sense to say it once more: the queue is away for now. */
static bool is_passing(enum wr_queue_reason reason)
{
	return reason != WR_QUEUE_LOST && reason != WR_QUEUE_UNKNOWN && reason != WR_QUEUE_ENDING;
}

static void say_lost(const struct wr_queue_job *job)
{
	static struct wr_log_gate gate;
	uint64_t held;

	if (job->reason != WR_QUEUE_ENDING && wr_log_due(&gate, &held))
		wr_log(WR_LOG_WARN,
		       "queue: request %llu was delivered here, but %s (and %llu more)",
		       (unsigned long long)job->settle.id, wr_queue_reason_text(job->reason),
		       (unsigned long long)held);
}

static void on_settled(struct wr_queue_job *job)
{
	struct wr_delivery *delivery = job->context;
	struct wr_drain *drain = delivery->drain;

	if (job->reason == WR_QUEUE_OK) {
		count_settled(drain, job);
	} else if (!drain->stopped && is_passing(job->reason)) {
		uv_timer_start(&delivery->timer, on_settle_timer, ms_of(WR_DRAIN_FAILED_WAIT_US),
			       0);
		return;
	} else if (job->settle.outcome == WR_QUEUE_DELIVERED) {
		say_lost(job);
	}
	free_slot(delivery);
}

/* What comes behind it may be taken next: jobs are done in their order. */
static void settle(struct wr_delivery *delivery)
{
	struct wr_drain *drain = delivery->drain;
	struct wr_queue_job *job = &delivery->job;

	delivery->stage = WR_DELIVERY_SETTLING;
	job->verb = WR_QUEUE_SETTLE;
	job->done = on_settled;
	job->context = delivery;
	job->settle.id = delivery->request->id;
	job->settle.fence = delivery->request->fence;
	memcpy(job->settle.key, delivery->request->key, sizeof job->settle.key);
	wr_queue_submit(drain->own->port, job);
	wr_drain_take(drain);
}

/* The API server has not got it: what the limits took for it goes back. */
static void give_back(struct wr_delivery *delivery)
{
	if (!delivery->pending.ask)
		return;
	wr_pending_cancel(&delivery->pending);
	wr_pending_end(&delivery->pending);
}

/* It was not tried, and will be after a while. */
void wr_drain_release(struct wr_delivery *delivery, uint64_t wait_us)
{
	give_back(delivery);
	delivery->job.settle.outcome = WR_QUEUE_RELEASE;
	delivery->job.settle.status = 0;
	delivery->job.settle.reason = WR_STR("");
	delivery->job.settle.wait_us =
		wait_us < WR_DRAIN_RELEASE_MOST_US ? wait_us : WR_DRAIN_RELEASE_MOST_US;
	settle(delivery);
}

/* ---- a target that is away ---- */

bool wr_drain_is_resting(const struct wr_drain *drain)
{
	return drain->down && wr_drain_mono_us(drain) < drain->rest_until_us;
}

void wr_drain_release_ready(struct wr_drain *drain, uint64_t wait_us)
{
	while (drain->ready) {
		struct wr_delivery *delivery = drain->ready;

		drain->ready = delivery->next;
		drain->ready_count--;
		wr_drain_release(delivery, wait_us);
	}
	drain->ready_last = &drain->ready;
}

/* Those that were under way together are one try. */
static void note_down(struct wr_delivery *delivery)
{
	struct wr_drain *drain = delivery->drain;
	uint64_t now_us = wr_drain_mono_us(drain);
	uint64_t rest_us;

	if (drain->down == 0) {
		drain->down_since_us = now_us;
		wr_log(WR_LOG_WARN,
		       "queue: %s can not be reached (%s); deliveries wait until it can",
		       drain->own->host->settings->queue.target, delivery->reason);
	}
	if (drain->down == 0 || now_us >= drain->rest_until_us) {
		rest_us = wr_drain_backoff_us(drain->down, wr_drain_random(drain));
		drain->down++;
		drain->rest_until_us = now_us + (rest_us < REST_MOST_US ? rest_us : REST_MOST_US);
	}
	rest_us = drain->rest_until_us - now_us;
	wr_drain_release_ready(drain, rest_us);
	wr_drain_release(delivery, rest_us);
}

static void note_up(struct wr_drain *drain)
{
	if (drain->down)
		wr_log(WR_LOG_INFO, "queue: %s is reached again, after %.0f s",
		       drain->own->host->settings->queue.target,
		       (double)(wr_drain_mono_us(drain) - drain->down_since_us) / 1e6);
	drain->down = 0;
}

/* ---- sending ---- */

static void say_locked(const struct wr_delivery *delivery)
{
	static struct wr_log_gate gate;
	uint64_t held;

	if (wr_log_due(&gate, &held))
		wr_log(WR_LOG_ERROR,
		       "queue: request %llu has a field that no key of --queue-key opens; it waits "
		       "(and %llu more)",
		       (unsigned long long)delivery->request->id, (unsigned long long)held);
}

/* Whether it has been here for so long that it may soon be given to others. */
static bool is_late(const struct wr_delivery *delivery)
{
	const struct wr_drain *drain = delivery->drain;

	return drain->own->host->shared &&
	       wr_drain_mono_us(drain) - delivery->taken_us > WR_DRAIN_BEGIN_US;
}

static void send_now(struct wr_delivery *delivery)
{
	struct wr_drain *drain = delivery->drain;
	int rc;

	if (is_late(delivery)) {
		wr_drain_release(delivery, 0);
		return;
	}
	rc = wr_drain_prepare(delivery);
	if (rc == 0)
		rc = wr_drain_multi_add(delivery);
	if (rc == 0) {
		delivery->stage = WR_DELIVERY_SENDING;
		drain->sending++;
		return;
	}
	wr_drain_unprepare(delivery);
	if (rc == WEIR_EACCESS)
		say_locked(delivery);
	wr_drain_release(delivery,
			 rc == WEIR_EACCESS ? WR_DRAIN_RELEASE_MOST_US : WR_DRAIN_FAILED_WAIT_US);
}

static void send_or_wait(struct wr_delivery *delivery)
{
	struct wr_drain *drain = delivery->drain;

	if (wr_drain_is_resting(drain)) {
		wr_drain_release(delivery, drain->rest_until_us - wr_drain_mono_us(drain));
		return;
	}
	if (drain->sending < drain->connections) {
		send_now(delivery);
		return;
	}
	delivery->stage = WR_DELIVERY_READY;
	delivery->next = NULL;
	*drain->ready_last = delivery;
	drain->ready_last = &delivery->next;
	drain->ready_count++;
}

static void send_next(struct wr_drain *drain)
{
	while (drain->ready && drain->sending < drain->connections) {
		struct wr_delivery *delivery = drain->ready;

		drain->ready = delivery->next;
		drain->ready_count--;
		if (!drain->ready)
			drain->ready_last = &drain->ready;
		send_now(delivery);
	}
}

void wr_drain_sent(struct wr_delivery *delivery, CURLcode result)
{
	struct wr_drain *drain = delivery->drain;
	bool reached = wr_drain_judge(delivery, result, wr_loop_now_ns(drain->own->loop) / 1000,
				      wr_drain_random(drain));

	drain->sending--;
	wr_drain_unprepare(delivery);
	if (!reached) {
		note_down(delivery);
		return;
	}
	note_up(drain);
	if (delivery->job.settle.outcome == WR_QUEUE_ABSENT)
		give_back(delivery);
	wr_pending_end(&delivery->pending);
	settle(delivery);
	send_next(drain);
}

/* ---- asking ---- */

static void on_hold_timer(uv_timer_t *timer)
{
	struct wr_delivery *delivery = timer->data;

	delivery->drain->held--;
	wr_drain_ask(delivery);
}

static void hold_or_release(struct wr_delivery *delivery, uint64_t wait_us)
{
	struct wr_drain *drain = delivery->drain;
	unsigned most = drain->slot_count - drain->connections - drain->ahead_max;

	if (drain->ending || wait_us > HOLD_MOST_US || drain->held >= most || is_late(delivery)) {
		wr_drain_release(delivery, wait_us);
		return;
	}
	delivery->stage = WR_DELIVERY_HELD;
	drain->held++;
	uv_timer_start(&delivery->timer, on_hold_timer, ms_of(wait_us), 0);
	wr_drain_take(drain);
}

/* How long the limits that refused want to be left alone. */
static uint64_t wait_of(const struct weir_ask *ask, int verdict)
{
	struct weir_result result = {.size = sizeof result};
	uint64_t wait_ns;

	if (weir_ask_result(ask, &result) < 0)
		return WR_DRAIN_FAILED_WAIT_US;
	wait_ns = verdict == WEIR_DELAY ? result.delay_ns : result.retry_after_ns;
	return wait_ns == WEIR_NEVER ? WR_DRAIN_RELEASE_MOST_US : wait_ns / 1000 + 1;
}

static void on_verdict(struct wr_pending *pending, int verdict)
{
	struct wr_delivery *delivery =
		(struct wr_delivery *)((char *)pending - offsetof(struct wr_delivery, pending));
	bool refused = verdict == WEIR_REFUSE || verdict == WEIR_DEFER || verdict == WEIR_DELAY;
	uint64_t wait_us = refused ? wait_of(pending->ask, verdict) : 0;

	if (refused) {
		wr_pending_end(pending);
		hold_or_release(delivery, wait_us);
	} else {
		send_or_wait(delivery);
	}
}

/* What the rules make of the descriptors now decides, whatever they were when it was deferred. */
void wr_drain_ask(struct wr_delivery *delivery)
{
	struct wr_drain *drain = delivery->drain;
	const struct wr_deferred *request = delivery->request;
	struct wr_pending *pending = &delivery->pending;

	delivery->stage = WR_DELIVERY_ASKING;
	if (request->descriptors.len == 0) {
		send_or_wait(delivery);
		return;
	}
	if (wr_pending_init(pending, drain->own->loop, request->domain) < 0) {
		wr_drain_release(delivery, WR_DRAIN_FAILED_WAIT_US);
		return;
	}
	if (weir_ask_replay(pending->ask, request->descriptors.ptr, request->descriptors.len) < 0 ||
	    weir_ask_mark_delivery(pending->ask) < 0) {
		wr_pending_end(pending);
		send_or_wait(delivery);
		return;
	}
	pending->via = "queue";
	pending->done = on_verdict;
	wr_pending_decide(pending);
}
