/* A node: the loop of the queue's thread around the real store, and a deliverer. Both do what
 * queue/thread.c and src/serve/deliver do. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "serve/deliver/deliver.h"
#include "sim.h"

#define STACK ((size_t)1 << 20)
#define EPOCH_US 1700000000000000ull
#define REOPEN_US SECOND
#define LOOK_US SECOND      /* others may have put something */
#define FAILED_US SECOND    /* the queue: tried again */
#define HOLD_MOST_US SECOND /* a wait of the limiter that is waited out here */
#define RELEASE_MOST_US (60 * SECOND)
#define REST_MOST_US (30 * SECOND)
#define BATCH 64u

/* ---- the thread: waiting ---- */

static void resume(struct qs_world *world, void *object, uint64_t word)
{
	struct qs_node *node = object;

	if (!node->running || word != node->naps)
		return;
	node->naps++;
	swapcontext(&world->main, &node->here);
}

void qs_node_nap(struct qs_node *node, uint64_t until_us)
{
	if (node->dead)
		return;
	qs_at(node->world, until_us, node, resume, node, node->naps);
	swapcontext(&node->here, &node->world->main);
}

void qs_node_wake(struct qs_node *node)
{
	qs_at(node->world, node->world->now_us, node, resume, node, node->naps);
}

static struct wr_queue_moment moment(const struct qs_node *node)
{
	uint64_t now_us = node->world->now_us;

	return (struct wr_queue_moment){EPOCH_US + now_us + (uint64_t)node->wall_ahead_us,
					SECOND + now_us};
}

/* ---- the thread: queue/thread.c ---- */

static void try_open(struct qs_node *node)
{
	struct weir_error why = {0};
	uint64_t now_us = node->world->now_us;

	if (node->open || (node->tried_us && now_us - node->tried_us < REOPEN_US))
		return;
	node->tried_us = now_us | 1;
	node->reason = node->store->ops->open(node->store, moment(node), &why);
	node->open = node->reason == WR_QUEUE_OK;
}

static void look_at_store(struct qs_node *node)
{
	if (node->store->failed == WR_QUEUE_OK)
		return;
	node->reason = node->store->failed;
	node->store->ops->close(node->store);
	node->store->failed = WR_QUEUE_OK;
	node->open = false;
	node->tried_us = node->world->now_us | 1;
}

static size_t fetch(struct qs_node *node, struct wr_queue_job **batch)
{
	size_t count = 0;

	while (node->first && count < BATCH) {
		batch[count++] = node->first;
		node->first = node->first->next;
	}
	if (!node->first)
		node->tail = &node->first;
	return count;
}

static void do_batch(struct qs_node *node, struct wr_queue_job **batch, size_t count)
{
	if (node->open)
		node->store->ops->run(node->store, batch, count, moment(node));
	else
		for (size_t i = 0; i < count; i++)
			batch[i]->reason = node->reason;
	if (node->dead) {
		for (size_t i = 0; i < count; i++)
			wr_queue_job_reset(batch[i]);
		return;
	}
	look_at_store(node);
	for (size_t i = 0; i < count; i++)
		batch[i]->done(batch[i]);
}

static void turn(struct qs_node *node)
{
	struct wr_queue_job *batch[BATCH];
	uint64_t tick_us = node->open ? node->store->tick_us : REOPEN_US / 4;
	size_t count;

	try_open(node);
	if (!node->first)
		qs_node_nap(node, node->world->now_us + tick_us);
	count = node->dead ? 0 : fetch(node, batch);
	if (count)
		do_batch(node, batch, count);
	if (node->dead || !node->open ||
	    node->world->now_us - node->ticked_us < node->store->tick_us)
		return;
	node->ticked_us = node->world->now_us;
	node->store->ops->tick(node->store, moment(node));
	look_at_store(node);
}

static struct qs_node *beginning;

static void thread(void)
{
	struct qs_node *node = beginning;

	while (!node->dead)
		turn(node);
	node->running = false;
	swapcontext(&node->here, &node->world->main);
}

void qs_node_submit(struct qs_node *node, struct wr_queue_job *job)
{
	job->next = NULL;
	*node->tail = job;
	node->tail = &job->next;
	qs_node_wake(node);
}

static void tell(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count)
{
	struct qs_node *node = context;

	if (!node->dead && key[0] < QS_LINES)
		node->told[key[0]] = count;
}

/* ---- deliveries: serve/deliver/deliver.c and deliver/attempt.c ---- */

static void take(struct qs_node *node);
static void ask(struct qs_slot *slot);

static void on_deadline(struct qs_world *world, void *object, uint64_t word)
{
	struct qs_node *node = object;

	(void)world;
	if (word != node->deadline_number)
		return;
	node->deadline_us = UINT64_MAX;
	take(node);
}

static void due_in(struct qs_node *node, uint64_t wait_us)
{
	uint64_t now_us = node->world->now_us;

	if (wait_us >= UINT64_MAX - now_us || now_us + wait_us >= node->deadline_us)
		return;
	node->deadline_us = now_us + wait_us;
	qs_at(node->world, node->deadline_us, node, on_deadline, node, ++node->deadline_number);
}

static unsigned count_stage(const struct qs_node *node, enum qs_stage stage)
{
	unsigned count = 0;

	for (unsigned i = 0; i < QS_SLOTS; i++)
		count += node->slots[i].stage == stage;
	return count;
}

static bool is_resting(const struct qs_node *node)
{
	return node->down && node->world->now_us < node->rest_until_us;
}

/* The lease is longer than what a delivery may take; so it begins in time, or not at all. */
static bool is_late(const struct qs_slot *slot)
{
	return slot->node->world->now_us - slot->asked_us > WR_DELIVER_BEGIN_US;
}

static void free_slot(struct qs_slot *slot)
{
	wr_deferred_free(slot->request);
	slot->request = NULL;
	slot->stage = QS_FREE;
	take(slot->node);
}

static void settle(struct qs_slot *slot);

static void settle_again(struct qs_world *world, void *object, uint64_t word)
{
	(void)world;
	(void)word;
	settle(object);
}

static void on_settled(struct wr_queue_job *job)
{
	struct qs_slot *slot = job->context;
	struct qs_world *world = slot->node->world;

	if (job->reason != WR_QUEUE_OK && job->reason != WR_QUEUE_LOST &&
	    job->reason != WR_QUEUE_UNKNOWN) {
		qs_at(world, world->now_us + FAILED_US, slot->node, settle_again, slot, 0);
		return;
	}
	free_slot(slot);
}

static void settle(struct qs_slot *slot)
{
	struct wr_queue_job *job = &slot->job;

	slot->stage = QS_SETTLING;
	job->verb = WR_QUEUE_SETTLE;
	job->done = on_settled;
	job->context = slot;
	job->reason = WR_QUEUE_OK;
	job->settle.id = slot->request->id;
	job->settle.fence = slot->request->fence;
	memcpy(job->settle.key, slot->request->key, sizeof job->settle.key);
	qs_node_submit(slot->node, job);
	take(slot->node);
}

static void release(struct qs_slot *slot, uint64_t wait_us)
{
	slot->job.settle.outcome = WR_QUEUE_RELEASE;
	slot->job.settle.status = 0;
	slot->job.settle.reason = WR_STR("");
	slot->job.settle.wait_us = wait_us < RELEASE_MOST_US ? wait_us : RELEASE_MOST_US;
	settle(slot);
}

static void send_now(struct qs_slot *slot)
{
	struct qs_node *node = slot->node;

	if (is_late(slot)) {
		release(slot, 0);
		return;
	}
	slot->stage = QS_SENDING;
	node->sending++;
	slot->send = qs_api_send(node, slot->request, slot->stepped);
}

static void send_or_wait(struct qs_slot *slot)
{
	struct qs_node *node = slot->node;

	if (is_resting(node))
		release(slot, node->rest_until_us - node->world->now_us);
	else if (node->sending < node->world->plan->connections)
		send_now(slot);
	else
		slot->stage = QS_READY;
}

static void send_next(struct qs_node *node)
{
	for (unsigned i = 0; i < QS_SLOTS; i++)
		if (node->slots[i].stage == QS_READY &&
		    node->sending < node->world->plan->connections)
			send_now(&node->slots[i]);
}

static void on_hold(struct qs_world *world, void *object, uint64_t word)
{
	(void)world;
	(void)word;
	ask(object);
}

/* The limiter: one delivery of a line each pace_us. */
static void ask(struct qs_slot *slot)
{
	struct qs_world *world = slot->node->world;
	uint64_t *next_us = &world->paced_us[slot->request->key[0]];
	uint64_t wait_us = *next_us > world->now_us ? *next_us - world->now_us : 0;

	if (wait_us == 0) {
		*next_us = world->now_us + world->plan->pace_us;
		send_or_wait(slot);
	} else if (wait_us > HOLD_MOST_US || is_late(slot)) {
		release(slot, wait_us);
	} else {
		slot->stage = QS_HELD;
		qs_at(world, world->now_us + wait_us, slot->node, on_hold, slot, 0);
	}
}

static void put_in_place(struct qs_node *node, struct wr_deferred *request)
{
	struct qs_slot *slot = node->slots;

	while (slot->stage != QS_FREE)
		slot++;
	slot->node = node;
	slot->request = request;
	slot->asked_us = node->asked_us;
	slot->stepped = node->asked_stepped;
	ask(slot);
}

static void on_taken(struct wr_queue_job *job)
{
	struct qs_node *node = job->context;
	struct wr_deferred *next;

	node->taking = false;
	if (job->reason != WR_QUEUE_OK) {
		wr_deferred_free(job->take.first);
		due_in(node, FAILED_US);
		return;
	}
	due_in(node, job->take.next_us);
	due_in(node, LOOK_US);
	node->take_again |= job->take.count == job->take.max;
	for (struct wr_deferred *each = job->take.first; each; each = next) {
		next = each->next;
		each->next = NULL;
		put_in_place(node, each);
	}
	if (node->take_again)
		take(node);
}

static void take(struct qs_node *node)
{
	const struct qs_plan *plan = node->world->plan;
	unsigned free = count_stage(node, QS_FREE);
	unsigned busy = node->sending + count_stage(node, QS_READY);
	unsigned room = busy < 2 * plan->connections ? 2 * plan->connections - busy : 0;

	node->take_again = true;
	if (node->taking)
		return;
	if (is_resting(node)) {
		due_in(node, node->rest_until_us - node->world->now_us);
		return;
	}
	if (node->down)
		room = free == QS_SLOTS ? 1 : 0;
	room = room < free ? room : free;
	if (room == 0)
		return;
	node->take_again = false;
	node->taking = true;
	node->asked_us = node->world->now_us;
	node->asked_stepped = node->world->server.stepped;
	node->take = (struct wr_queue_job){
		.verb = WR_QUEUE_TAKE, .done = on_taken, .context = node, .take = {.max = room}};
	qs_node_submit(node, &node->take);
}

/* ---- answers: serve/deliver/send.c ---- */

static void note_down(struct qs_slot *slot)
{
	struct qs_node *node = slot->node;
	uint64_t now_us = node->world->now_us, rest_us;

	if (node->down == 0 || now_us >= node->rest_until_us) {
		rest_us = wr_deliver_backoff_us(node->down, wr_dice_roll(&node->world->api));
		node->down++;
		node->rest_until_us = now_us + (rest_us < REST_MOST_US ? rest_us : REST_MOST_US);
	}
	rest_us = node->rest_until_us - now_us;
	for (unsigned i = 0; i < QS_SLOTS; i++)
		if (node->slots[i].stage == QS_READY)
			release(&node->slots[i], rest_us);
	release(slot, rest_us);
}

static void judge(struct qs_slot *slot, unsigned status)
{
	struct qs_node *node = slot->node;
	struct wr_queue_job *job = &slot->job;
	uint64_t now_us = moment(node).wall_us, mono_us = moment(node).mono_us;
	uint64_t left_us =
		slot->request->expires_us > now_us ? slot->request->expires_us - now_us : 0;
	uint32_t before = slot->request->tries;
	bool counts = true;

	if (status && !wr_deliver_is_absent(status))
		wr_deliver_absent_present(&node->absent, slot->request->rule, mono_us);
	job->settle.status = (uint16_t)status;
	snprintf(slot->reason, sizeof slot->reason, "HTTP status %u", status);
	job->settle.reason = wr_str(slot->reason);
	job->settle.outcome = WR_QUEUE_DELIVERED;
	if (status && wr_deliver_is_final(status))
		return;
	if (wr_deliver_is_absent(status))
		before += wr_deliver_absent_note(&node->absent, slot->request->id,
						 slot->request->rule, mono_us, &counts);
	job->settle.outcome = counts ? WR_QUEUE_AGAIN : WR_QUEUE_ABSENT;
	job->settle.wait_us = wr_deliver_wait_us(
		wr_deliver_backoff_us(before, wr_dice_roll(&node->world->api)), 0, left_us);
}

void qs_node_answered(struct qs_node *node, uint64_t send, unsigned status, bool unsent)
{
	struct qs_slot *slot = node->slots;

	while (slot->stage != QS_SENDING || slot->send != send)
		slot++;
	node->sending--;
	if (unsent) {
		note_down(slot);
		return;
	}
	node->down = 0;
	judge(slot, status);
	settle(slot);
	send_next(node);
}

/* ---- clients ---- */

static void on_put(struct wr_queue_job *job)
{
	struct qs_put *put = job->context;
	struct qs_world *world = put->node->world;
	struct qs_order *order = &world->orders[put->order];

	put->busy = false;
	order->done = true;
	order->done_us = world->now_us;
	order->reason = job->reason;
	memcpy(order->ticket, job->put.ticket, sizeof order->ticket);
	qs_note(world, "order %u: %s", put->order, wr_queue_reason_name(job->reason));
	if (job->reason == WR_QUEUE_OK)
		due_in(put->node, 0);
}

void qs_node_put(struct qs_node *node, unsigned number)
{
	struct qs_world *world = node->world;
	struct qs_order *order = &world->orders[number];
	struct qs_put *put = node->puts;

	while (put < node->puts + QS_PUTS && put->busy)
		put++;
	if (!node->running || put == node->puts + QS_PUTS)
		return;
	*put = (struct qs_put){.node = node, .busy = true, .order = number};
	snprintf(put->body, sizeof put->body, "%u ", number);
	order->begun = true;
	order->begun_us = world->now_us;
	put->request = (struct wr_deferred){.key = {(uint8_t)order->line},
					    .rule = WR_STR("orders"),
					    .domain = WR_STR("api"),
					    .method = WR_STR("POST"),
					    .uri = WR_STR("/orders"),
					    .max_tries = world->plan->max_tries,
					    .body = {put->body, order->body_len}};
	put->job = (struct wr_queue_job){
		.verb = WR_QUEUE_PUT,
		.done = on_put,
		.context = put,
		.put = {.request = &put->request,
			.max_waiting = world->plan->max_waiting,
			.max_age_us = world->plan->max_age_us,
			.wait_us = wr_dice_below(&world->traffic, 2 * world->plan->pace_us)}};
	qs_node_submit(node, &put->job);
}

static void on_ticket(struct wr_queue_job *job)
{
	struct qs_node *node = job->context;
	struct qs_world *world = node->world;
	const struct qs_row *row = qs_model_order(&world->model, node->asked_order);

	node->asking = false;
	if (world->over && job->reason == WR_QUEUE_OK &&
	    (!row || (unsigned)job->ticket.found->state != (unsigned)row->state))
		qs_fail(world, "the ticket of order %u says %s", node->asked_order,
			wr_deferred_state_name(job->ticket.found->state));
	wr_deferred_free(job->ticket.found);
	job->ticket.found = NULL;
}

void qs_node_ask(struct qs_node *node, unsigned order)
{
	if (!node->running || node->asking)
		return;
	node->asking = true;
	node->asked_order = order;
	node->ticket =
		(struct wr_queue_job){.verb = WR_QUEUE_TICKET, .done = on_ticket, .context = node};
	memcpy(node->ticket.ticket.ticket, node->world->orders[order].ticket, WR_TICKET_BYTES);
	qs_node_submit(node, &node->ticket);
}

static void on_page(struct wr_queue_job *job)
{
	struct qs_node *node = job->context;

	node->paging = false;
	due_in(node, 0);
}

void qs_node_operate(struct qs_node *node)
{
	struct wr_dice *dice = &node->world->fate;
	unsigned kind = (unsigned)wr_dice_below(dice, 6);

	if (!node->running || node->paging)
		return;
	node->paging = true;
	node->page = (struct wr_queue_job){.done = on_page, .context = node};
	node->page.verb = kind < 3 ? WR_QUEUE_RETRY : kind < 5 ? WR_QUEUE_DROP : WR_QUEUE_STATS;
	if (kind < 5)
		node->page.page.max = 1 + (uint32_t)wr_dice_below(dice, 20);
	if (kind < 2)
		node->page.page.filter.states = 1u << WR_DEFERRED_DEAD;
	else if (kind < 5)
		node->page.page.filter.id = 1 + wr_dice_below(dice, node->world->model.last_id + 1);
	qs_node_submit(node, &node->page);
}

/* ---- life and death ---- */

static void start_drain(struct qs_world *world, void *object, uint64_t word)
{
	(void)world;
	(void)word;
	due_in(object, 0);
}

void qs_node_start(struct qs_world *world, unsigned number, bool new_name)
{
	struct qs_node *node = &world->nodes[number];
	struct weir_error error = {0};
	struct wr_queue_redis *remote;

	node->world = world;
	node->number = number;
	node->names += new_name;
	node->dead = node->open = node->taking = node->paging = node->asking = false;
	node->tail = &node->first;
	node->first = NULL;
	node->tried_us = node->ticked_us = 0;
	node->deadline_us = UINT64_MAX;
	node->sending = node->down = 0;
	memset(node->told, 0, sizeof node->told); /* as wr_deferred_sweep() does */
	node->opts = world->plan->opts;
	node->opts.waiting = tell;
	node->opts.context = node;
	if (wr_queue_redis_new(&node->opts, NULL, &node->store, &error) < 0) {
		fprintf(stderr, "%s\n", error.text);
		abort();
	}
	remote = (struct wr_queue_redis *)node->store;
	remote->link.wire = &qs_wire;
	remote->link.wire_context = node;
	snprintf(remote->owner.name, sizeof remote->owner.name, "node%u-%u", number, node->names);
	node->running = true;
	node->stack = wr_lab_alloc(1, STACK);
	getcontext(&node->here);
	node->here.uc_stack.ss_sp = node->stack;
	node->here.uc_stack.ss_size = STACK;
	node->here.uc_link = &world->main;
	makecontext(&node->here, thread, 0);
	beginning = node;
	node->naps++;
	swapcontext(&world->main, &node->here);
	qs_at(world, world->now_us + 1, node, start_drain, node, 0);
}

/* Calls of the wire fail from here on, so what the thread still does reaches nobody. */
void qs_node_kill(struct qs_node *node)
{
	if (!node->running)
		return;
	node->dead = true;
	while (node->running)
		swapcontext(&node->world->main, &node->here);
	node->life++;
	node->store->ops->free(node->store);
	node->store = NULL;
	for (unsigned i = 0; i < QS_SLOTS; i++) {
		wr_deferred_free(node->slots[i].request);
		node->slots[i].request = NULL;
		node->slots[i].stage = QS_FREE;
	}
	for (unsigned i = 0; i < QS_PUTS; i++)
		node->puts[i].busy = false;
	wr_deliver_absent_free(&node->absent);
	free(node->stack);
	node->stack = NULL;
}
