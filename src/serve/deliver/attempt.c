/* Makes one delivery: asks the limiter, sends the request, and reports the outcome to the queue. */
#include <string.h>

#include "base/assert.h"
#include "base/container.h"
#include "base/str.h"
#include "net/log.h"
#include "serve/deliver/deliver_impl.h"

/* A request that the limiter refuses for longer than this is returned to the queue. */
#define HOLD_MOST_US 1000000u
#define REST_MOST_US 30000000u /* longest time between two trials of an unreachable target */

static void settle_delivery(struct wr_delivery *delivery);

static uint64_t us_to_ms(uint64_t us)
{
	return us / 1000 + (us % 1000 != 0);
}

/* ---- slots ---- */

struct wr_delivery *wr_deliver_take_slot(struct wr_deliverer *deliverer)
{
	struct wr_list *first = wr_list_pop(&deliverer->free);
	struct wr_delivery *delivery;

	wr_assert(first && deliverer->used < deliverer->slot_count);
	delivery = wr_container_of(first, struct wr_delivery, link);
	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(delivery->stage == WR_DELIVERY_FREE && !delivery->request);
	deliverer->used++;
	return delivery;
}

static void free_slot(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;

	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(deliverer->used > 0 && deliverer->bytes >= delivery->bytes);
	wr_queue_request_free(delivery->request);
	delivery->request = NULL;
	deliverer->bytes -= delivery->bytes;
	delivery->stage = WR_DELIVERY_FREE;
	wr_list_add_first(&deliverer->free, &delivery->link);
	deliverer->used--;
	if (deliverer->stopped)
		return;
	if (deliverer->starved)
		wr_deliver_take(deliverer);
	wr_loop_check_drained(deliverer->own->loop);
}

/* ---- reporting the outcome to the queue ---- */

static void on_settle_timer(uv_timer_t *timer)
{
	settle_delivery(timer->data);
}

static void count_settled(struct wr_deliverer *deliverer, const struct wr_queue_job *job)
{
	struct wr_serve_queue_tally *tally = &deliverer->own->host->tally;

	if (job->settle.state == WR_QUEUE_REQUEST_DEAD)
		wr_serve_queue_count(&tally->dead, 1);
	else if (job->settle.outcome == WR_QUEUE_DELIVERED)
		wr_serve_queue_count(&tally->delivered, 1);
	else if (job->settle.outcome == WR_QUEUE_AGAIN || job->settle.outcome == WR_QUEUE_ABSENT)
		wr_serve_queue_count(&tally->retried, 1);
}

static void log_lost(const struct wr_queue_job *job)
{
	static struct wr_log_gate gate;

	if (job->reason != WR_QUEUE_ENDING)
		wr_log_limited(&gate, WR_LOG_WARN,
			       "queue: request %llu was delivered, but the queue could not record "
			       "the result: %s",
			       (unsigned long long)job->settle.id,
			       wr_queue_reason_text(job->reason));
}

static void on_settled(struct wr_queue_job *job)
{
	struct wr_delivery *delivery = job->context;
	struct wr_deliverer *deliverer = delivery->deliverer;
	bool final = job->reason == WR_QUEUE_LOST || job->reason == WR_QUEUE_UNKNOWN ||
		     job->reason == WR_QUEUE_ENDING;

	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(delivery->stage == WR_DELIVERY_SETTLING);
	if (job->reason == WR_QUEUE_OK) {
		count_settled(deliverer, job);
	} else if (!deliverer->stopped && !final) {
		uv_timer_start(&delivery->timer, on_settle_timer,
			       us_to_ms(WR_DELIVER_FAILED_WAIT_US), 0);
		return;
	} else if (job->settle.outcome == WR_QUEUE_DELIVERED) {
		log_lost(job);
	}
	free_slot(delivery);
}

/* Submits the job that stores the outcome, then the job that takes the next requests. The queue
 * performs jobs in order, so the second job can already get the next request of this key. */
static void settle_delivery(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	struct wr_queue_job *job = &delivery->job;

	delivery->stage = WR_DELIVERY_SETTLING;
	job->verb = WR_QUEUE_SETTLE;
	job->done = on_settled;
	job->context = delivery;
	job->settle.id = delivery->request->id;
	job->settle.fence = delivery->request->fence;
	memcpy(job->settle.key, delivery->request->key, sizeof job->settle.key);
	wr_queue_submit(deliverer->own->port, job);
	wr_deliver_take(deliverer);
}

/* Gives back the units that the limits charged for this delivery. Called if the delivery does not
 * count as an attempt. */
static void refund_limits(struct wr_delivery *delivery)
{
	if (!delivery->pending.ask)
		return;
	wr_pending_cancel(&delivery->pending);
	wr_pending_end(&delivery->pending);
}

void wr_deliver_release(struct wr_delivery *delivery, uint64_t wait_us)
{
	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(delivery->request && delivery->stage != WR_DELIVERY_FREE);
	wr_assert(delivery->stage != WR_DELIVERY_SETTLING);
	refund_limits(delivery);
	delivery->job.settle.outcome = WR_QUEUE_RELEASE;
	delivery->job.settle.status = 0;
	delivery->job.settle.reason = WR_STR("");
	delivery->job.settle.wait_us =
		wait_us < WR_DELIVER_RELEASE_MOST_US ? wait_us : WR_DELIVER_RELEASE_MOST_US;
	settle_delivery(delivery);
}

/* ---- an unreachable target ---- */

bool wr_deliver_is_resting(const struct wr_deliverer *deliverer)
{
	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	return deliverer->down && wr_deliver_mono_us(deliverer) < deliverer->rest_until_us;
}

void wr_deliver_release_ready(struct wr_deliverer *deliverer, uint64_t wait_us)
{
	struct wr_list *first;

	wr_assert_magic(deliverer, WR_DELIVERER_MAGIC);
	while ((first = wr_list_pop(&deliverer->ready))) {
		deliverer->ready_count--;
		wr_deliver_release(wr_container_of(first, struct wr_delivery, link), wait_us);
	}
}

/* Records that the target was unreachable. If several requests were in flight, their failures count
 * as one failed trial. */
static void note_down(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	uint64_t now_us = wr_deliver_mono_us(deliverer);
	uint64_t rest_us;

	if (deliverer->down == 0) {
		deliverer->down_since_us = now_us;
		wr_log(WR_LOG_WARN,
		       "queue: %s is unreachable (%s); deliveries wait until it is back",
		       deliverer->own->host->settings->queue.target, delivery->reason);
	}
	if (deliverer->down == 0 || now_us >= deliverer->rest_until_us) {
		rest_us = wr_deliver_backoff_us(deliverer->down, wr_deliver_random(deliverer));
		deliverer->down++;
		deliverer->rest_until_us =
			now_us + (rest_us < REST_MOST_US ? rest_us : REST_MOST_US);
	}
	rest_us = deliverer->rest_until_us - now_us;
	wr_deliver_release_ready(deliverer, rest_us);
	wr_deliver_release(delivery, rest_us);
}

/* ---- sending ---- */

static void log_locked(const struct wr_delivery *delivery)
{
	static struct wr_log_gate gate;

	wr_log_limited(
		&gate, WR_LOG_ERROR,
		"queue: request %llu has a header field that no key of --queue-key decrypts; it "
		"stays in the queue",
		(unsigned long long)delivery->request->id);
}

/* Returns whether it is too late to begin the delivery. In a shared queue, this process owns the
 * request for a limited time only (WR_DELIVER_LEASE_US). If the delivery began too late, that time
 * could end before the delivery does, and another process could deliver the request again. */
static bool is_late(const struct wr_delivery *delivery)
{
	const struct wr_deliverer *deliverer = delivery->deliverer;

	return deliverer->own->host->shared &&
	       wr_deliver_mono_us(deliverer) - delivery->taken_us > WR_DELIVER_BEGIN_US;
}

static void send_now(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	int rc;

	if (is_late(delivery)) {
		wr_deliver_release(delivery, 0);
		return;
	}
	rc = wr_deliver_prepare(delivery);
	if (rc == 0)
		rc = wr_deliver_multi_add(delivery);
	if (rc == 0) {
		delivery->stage = WR_DELIVERY_SENDING;
		deliverer->sending++;
		return;
	}
	wr_deliver_unprepare(delivery);
	if (rc == WEIR_EACCESS)
		log_locked(delivery);
	wr_deliver_release(delivery, rc == WEIR_EACCESS ? WR_DELIVER_RELEASE_MOST_US
							: WR_DELIVER_FAILED_WAIT_US);
}

static void send_or_wait(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;

	if (wr_deliver_is_resting(deliverer)) {
		wr_deliver_release(delivery,
				   deliverer->rest_until_us - wr_deliver_mono_us(deliverer));
		return;
	}
	if (deliverer->sending < deliverer->connections) {
		send_now(delivery);
		return;
	}
	delivery->stage = WR_DELIVERY_READY;
	wr_list_add_last(&deliverer->ready, &delivery->link);
	deliverer->ready_count++;
}

static void send_next(struct wr_deliverer *deliverer)
{
	struct wr_list *first;

	while (deliverer->sending < deliverer->connections &&
	       (first = wr_list_pop(&deliverer->ready))) {
		deliverer->ready_count--;
		send_now(wr_container_of(first, struct wr_delivery, link));
	}
}

void wr_deliver_sent(struct wr_delivery *delivery, CURLcode result)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	bool reached =
		wr_deliver_judge(delivery, result, wr_loop_now_ns(deliverer->own->loop) / 1000,
				 wr_deliver_random(deliverer));

	wr_assert(delivery->stage == WR_DELIVERY_SENDING && deliverer->sending > 0);
	deliverer->sending--;
	if (reached && delivery->job.settle.outcome != WR_QUEUE_ABSENT)
		wr_deliver_settle(delivery);
	wr_deliver_unprepare(delivery);
	if (!reached) {
		note_down(delivery);
		return;
	}
	if (deliverer->down)
		wr_log(WR_LOG_INFO, "queue: %s is reachable again after %.0f s",
		       deliverer->own->host->settings->queue.target,
		       (double)(wr_deliver_mono_us(deliverer) - deliverer->down_since_us) / 1e6);
	deliverer->down = 0;
	if (delivery->job.settle.outcome == WR_QUEUE_ABSENT)
		refund_limits(delivery);
	wr_pending_end(&delivery->pending);
	settle_delivery(delivery);
	send_next(deliverer);
}

/* ---- asking the limiter ---- */

static void on_hold_timer(uv_timer_t *timer)
{
	struct wr_delivery *delivery = timer->data;

	wr_assert(delivery->stage == WR_DELIVERY_HELD && delivery->deliverer->held > 0);
	delivery->deliverer->held--;
	wr_deliver_ask(delivery);
}

static void hold_or_release(struct wr_delivery *delivery, uint64_t wait_us)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	unsigned most = deliverer->slot_count - deliverer->connections - deliverer->ahead_max;

	if (deliverer->ending || wait_us > HOLD_MOST_US || deliverer->held >= most ||
	    is_late(delivery)) {
		wr_deliver_release(delivery, wait_us);
		return;
	}
	delivery->stage = WR_DELIVERY_HELD;
	deliverer->held++;
	uv_timer_start(&delivery->timer, on_hold_timer, us_to_ms(wait_us), 0);
	wr_deliver_take(deliverer);
}

/* Returns the time in microseconds after which the limiter is asked about the request again. */
static uint64_t wait_after(const struct weir_ask *ask, int verdict)
{
	struct weir_result result = {.size = sizeof result};
	uint64_t wait_ns;

	if (weir_ask_result(ask, &result) < 0)
		return WR_DELIVER_FAILED_WAIT_US;
	wait_ns = verdict == WEIR_DELAY ? result.delay_ns : result.retry_after_ns;
	return wait_ns == WEIR_NEVER ? WR_DELIVER_RELEASE_MOST_US : wait_ns / 1000 + 1;
}

static void on_verdict(struct wr_pending *pending, int verdict)
{
	struct wr_delivery *delivery = wr_container_of(pending, struct wr_delivery, pending);
	bool refused = verdict == WEIR_REFUSE || verdict == WEIR_DEFER || verdict == WEIR_DELAY;
	uint64_t wait_us = refused ? wait_after(pending->ask, verdict) : 0;

	if (refused) {
		wr_pending_end(pending);
		hold_or_release(delivery, wait_us);
	} else {
		send_or_wait(delivery);
	}
}

/* Asks the limiter about a request. The current rules decide, even if they have changed since the
 * request was deferred. */
void wr_deliver_ask(struct wr_delivery *delivery)
{
	struct wr_deliverer *deliverer = delivery->deliverer;
	const struct wr_queue_request *request = delivery->request;
	struct wr_pending *pending = &delivery->pending;

	wr_assert_magic(delivery, WR_DELIVERY_MAGIC);
	wr_assert(request && !pending->ask);
	wr_assert(delivery->stage == WR_DELIVERY_FREE || delivery->stage == WR_DELIVERY_HELD);
	delivery->stage = WR_DELIVERY_ASKING;
	if (request->descriptors.len == 0) {
		send_or_wait(delivery);
		return;
	}
	if (wr_pending_init(pending, deliverer->own->loop, request->domain) < 0) {
		wr_deliver_release(delivery, WR_DELIVER_FAILED_WAIT_US);
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
