/* A node: a loop that replaces the queue's thread and calls the real backend, and a deliverer. The
 * loop makes the same calls as queue/thread.c, and the deliverer makes the same calls as
 * serve/deliver. The loop and the deliverer run in events of run.c. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "serve/deliver/deliver.h"
#include "sim.h"

#define STACK ((size_t)1 << 20)
#define EPOCH_US 1700000000000000ull
#define REOPEN_US SECOND
#define LOOK_US SECOND /* maximum time between two takes, because other nodes may store requests */
#define FAILED_US SECOND    /* time until a failed job of the queue is retried */
#define HOLD_MOST_US SECOND /* a request that must wait longer is released to the queue */
#define RELEASE_MOST_US (60 * SECOND)
#define REST_MOST_US (30 * SECOND)
#define BATCH 64u

/* ---- the thread: waiting ---- */

static void resume_thread(struct qs_sim *sim, void *object, uint64_t arg)
{
	struct qs_node *node = object;

	if (!node->running || arg != node->blocks)
		return;
	node->blocks++;
	swapcontext(&sim->main, &node->here);
}

void qs_node_block(struct qs_node *node, uint64_t until_us)
{
	if (node->dead)
		return;
	qs_schedule(node->sim, until_us, node, resume_thread, node, node->blocks);
	swapcontext(&node->here, &node->sim->main);
}

void qs_node_wake(struct qs_node *node)
{
	qs_schedule(node->sim, node->sim->now_us, node, resume_thread, node, node->blocks);
}

static struct wr_queue_moment node_moment(const struct qs_node *node)
{
	uint64_t now_us = node->sim->now_us;

	return (struct wr_queue_moment){EPOCH_US + now_us + (uint64_t)node->wall_skew_us,
					SECOND + now_us};
}

/* ---- the thread: queue/thread.c ---- */

static void try_open(struct qs_node *node)
{
	struct weir_error why = {0};
	uint64_t now_us = node->sim->now_us;

	if (node->open || (node->tried_us && now_us - node->tried_us < REOPEN_US))
		return;
	node->tried_us = now_us | 1;
	node->reason = node->store->ops->open(node->store, node_moment(node), &why);
	node->open = node->reason == WR_QUEUE_OK;
}

static void close_failed_store(struct qs_node *node)
{
	if (node->store->failed == WR_QUEUE_OK)
		return;
	node->reason = node->store->failed;
	node->store->ops->close(node->store);
	node->store->failed = WR_QUEUE_OK;
	node->open = false;
	node->tried_us = node->sim->now_us | 1;
}

static size_t fetch_jobs(struct qs_node *node, struct wr_queue_job **batch)
{
	struct wr_list *link;
	size_t count = 0;

	while (count < BATCH && (link = wr_list_pop(&node->pending)))
		batch[count++] = wr_container_of(link, struct wr_queue_job, link);
	return count;
}

static void run_batch(struct qs_node *node, struct wr_queue_job **batch, size_t count)
{
	if (node->open)
		node->store->ops->run(node->store, batch, count, node_moment(node));
	else
		for (size_t i = 0; i < count; i++)
			batch[i]->reason = node->reason;
	if (node->dead) {
		for (size_t i = 0; i < count; i++)
			wr_queue_job_reset(batch[i]);
		return;
	}
	close_failed_store(node);
	for (size_t i = 0; i < count; i++)
		batch[i]->done(batch[i]);
}

static void thread_turn(struct qs_node *node)
{
	struct wr_queue_job *batch[BATCH];
	uint64_t tick_us = node->open ? node->store->tick_us : REOPEN_US / 4;
	size_t count;

	try_open(node);
	if (wr_list_is_empty(&node->pending))
		qs_node_block(node, node->sim->now_us + tick_us);
	count = node->dead ? 0 : fetch_jobs(node, batch);
	if (count)
		run_batch(node, batch, count);
	if (node->dead || !node->open || node->sim->now_us - node->ticked_us < node->store->tick_us)
		return;
	node->ticked_us = node->sim->now_us;
	node->store->ops->tick(node->store, node_moment(node));
	close_failed_store(node);
}

static struct qs_node *starting_node;

static void run_thread(void)
{
	struct qs_node *node = starting_node;

	while (!node->dead)
		thread_turn(node);
	node->running = false;
	swapcontext(&node->here, &node->sim->main);
}

void qs_node_submit(struct qs_node *node, struct wr_queue_job *job)
{
	job->link = (struct wr_list){0};
	wr_list_add_last(&node->pending, &job->link);
	qs_node_wake(node);
}

static void record_waiting(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count)
{
	struct qs_node *node = context;

	if (!node->dead && key[0] < QS_LINES)
		node->known_waiting[key[0]] = count;
}

/* ---- deliveries: serve/deliver/deliver.c and deliver/attempt.c ---- */

static void take_requests(struct qs_node *node);
static void ask_limiter(struct qs_slot *slot);

static void on_deadline(struct qs_sim *sim, void *object, uint64_t arg)
{
	struct qs_node *node = object;

	(void)sim;
	if (arg != node->deadline_number)
		return;
	node->deadline_us = UINT64_MAX;
	take_requests(node);
}

static void wake_deliverer_in(struct qs_node *node, uint64_t wait_us)
{
	uint64_t now_us = node->sim->now_us;

	if (wait_us >= UINT64_MAX - now_us || now_us + wait_us >= node->deadline_us)
		return;
	node->deadline_us = now_us + wait_us;
	qs_schedule(node->sim, node->deadline_us, node, on_deadline, node, ++node->deadline_number);
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
	return node->down && node->sim->now_us < node->rest_until_us;
}

/* Returns whether it is too late to begin the delivery, because the delivery might not end within
 * the lease. */
static bool is_late(const struct qs_slot *slot)
{
	return slot->node->sim->now_us - slot->asked_us > WR_DELIVER_BEGIN_US;
}

static void free_slot(struct qs_slot *slot)
{
	wr_queue_request_free(slot->request);
	slot->request = NULL;
	slot->stage = QS_FREE;
	take_requests(slot->node);
}

static void settle_slot(struct qs_slot *slot);

static void retry_settle(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)sim;
	(void)arg;
	settle_slot(object);
}

static void on_settled(struct wr_queue_job *job)
{
	struct qs_slot *slot = job->context;
	struct qs_sim *sim = slot->node->sim;

	if (job->reason != WR_QUEUE_OK && job->reason != WR_QUEUE_LOST &&
	    job->reason != WR_QUEUE_UNKNOWN) {
		qs_schedule(sim, sim->now_us + FAILED_US, slot->node, retry_settle, slot, 0);
		return;
	}
	free_slot(slot);
}

static void settle_slot(struct qs_slot *slot)
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
	take_requests(slot->node);
}

static void release_slot(struct qs_slot *slot, uint64_t wait_us)
{
	slot->job.settle.outcome = WR_QUEUE_RELEASE;
	slot->job.settle.status = 0;
	slot->job.settle.reason = WR_STR("");
	slot->job.settle.wait_us = wait_us < RELEASE_MOST_US ? wait_us : RELEASE_MOST_US;
	settle_slot(slot);
}

static void send_now(struct qs_slot *slot)
{
	struct qs_node *node = slot->node;

	if (is_late(slot)) {
		release_slot(slot, 0);
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
		release_slot(slot, node->rest_until_us - node->sim->now_us);
	else if (node->sending < node->sim->plan->connections)
		send_now(slot);
	else
		slot->stage = QS_READY;
}

static void send_next(struct qs_node *node)
{
	for (unsigned i = 0; i < QS_SLOTS; i++)
		if (node->slots[i].stage == QS_READY &&
		    node->sending < node->sim->plan->connections)
			send_now(&node->slots[i]);
}

static void on_hold(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)sim;
	(void)arg;
	ask_limiter(object);
}

/* Simulates the limiter, which admits one delivery of a line per pace_us. */
static void ask_limiter(struct qs_slot *slot)
{
	struct qs_sim *sim = slot->node->sim;
	uint64_t *next_us = &sim->paced_us[slot->request->key[0]];
	uint64_t wait_us = *next_us > sim->now_us ? *next_us - sim->now_us : 0;

	if (wait_us == 0) {
		*next_us = sim->now_us + sim->plan->pace_us;
		send_or_wait(slot);
	} else if (wait_us > HOLD_MOST_US || is_late(slot)) {
		release_slot(slot, wait_us);
	} else {
		slot->stage = QS_HELD;
		qs_schedule(sim, sim->now_us + wait_us, slot->node, on_hold, slot, 0);
	}
}

static void start_slot(struct qs_node *node, struct wr_queue_request *request)
{
	struct qs_slot *slot = node->slots;

	while (slot->stage != QS_FREE)
		slot++;
	slot->node = node;
	slot->request = request;
	slot->asked_us = node->asked_us;
	slot->stepped = node->asked_stepped;
	ask_limiter(slot);
}

static void on_taken(struct wr_queue_job *job)
{
	struct qs_node *node = job->context;
	struct wr_queue_request *next;

	node->taking = false;
	if (job->reason != WR_QUEUE_OK) {
		wr_queue_request_free(job->take.first);
		wake_deliverer_in(node, FAILED_US);
		return;
	}
	wake_deliverer_in(node, job->take.next_us);
	wake_deliverer_in(node, LOOK_US);
	node->take_again |= job->take.count == job->take.max;
	for (struct wr_queue_request *each = job->take.first; each; each = next) {
		next = each->next;
		each->next = NULL;
		start_slot(node, each);
	}
	if (node->take_again)
		take_requests(node);
}

static void take_requests(struct qs_node *node)
{
	const struct qs_plan *plan = node->sim->plan;
	unsigned free = count_stage(node, QS_FREE);
	unsigned busy = node->sending + count_stage(node, QS_READY);
	unsigned room = busy < 2 * plan->connections ? 2 * plan->connections - busy : 0;

	node->take_again = true;
	if (node->taking)
		return;
	if (is_resting(node)) {
		wake_deliverer_in(node, node->rest_until_us - node->sim->now_us);
		return;
	}
	if (node->down)
		room = free == QS_SLOTS ? 1 : 0;
	room = room < free ? room : free;
	if (room == 0)
		return;
	node->take_again = false;
	node->taking = true;
	node->asked_us = node->sim->now_us;
	node->asked_stepped = node->sim->server.stepped;
	node->take = (struct wr_queue_job){
		.verb = WR_QUEUE_TAKE, .done = on_taken, .context = node, .take = {.max = room}};
	qs_node_submit(node, &node->take);
}

/* ---- answers: serve/deliver/send.c ---- */

static void handle_api_down(struct qs_slot *slot)
{
	struct qs_node *node = slot->node;
	uint64_t now_us = node->sim->now_us, rest_us;

	if (node->down == 0 || now_us >= node->rest_until_us) {
		rest_us = wr_deliver_backoff_us(node->down, wr_rng_next(&node->sim->api_rng));
		node->down++;
		node->rest_until_us = now_us + (rest_us < REST_MOST_US ? rest_us : REST_MOST_US);
	}
	rest_us = node->rest_until_us - now_us;
	for (unsigned i = 0; i < QS_SLOTS; i++)
		if (node->slots[i].stage == QS_READY)
			release_slot(&node->slots[i], rest_us);
	release_slot(slot, rest_us);
}

static void set_outcome(struct qs_slot *slot, unsigned status)
{
	struct qs_node *node = slot->node;
	struct wr_queue_job *job = &slot->job;
	uint64_t now_us = node_moment(node).wall_us, mono_us = node_moment(node).mono_us;
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
		wr_deliver_backoff_us(before, wr_rng_next(&node->sim->api_rng)), 0, left_us);
}

void qs_node_answered(struct qs_node *node, uint64_t send, unsigned status, bool unsent)
{
	struct qs_slot *slot = node->slots;

	while (slot->stage != QS_SENDING || slot->send != send)
		slot++;
	node->sending--;
	if (unsent) {
		handle_api_down(slot);
		return;
	}
	node->down = 0;
	set_outcome(slot, status);
	settle_slot(slot);
	send_next(node);
}

/* ---- clients ---- */

static void on_put(struct wr_queue_job *job)
{
	struct qs_put *put = job->context;
	struct qs_sim *sim = put->node->sim;
	struct qs_post *post = &sim->posts[put->post];

	put->busy = false;
	post->done = true;
	post->done_us = sim->now_us;
	post->reason = job->reason;
	memcpy(post->ticket, job->put.ticket, sizeof post->ticket);
	qs_trace(sim, "post %u: %s", put->post, wr_queue_reason_name(job->reason));
	if (job->reason == WR_QUEUE_OK)
		wake_deliverer_in(put->node, 0);
}

void qs_node_put(struct qs_node *node, unsigned number)
{
	struct qs_sim *sim = node->sim;
	struct qs_post *post = &sim->posts[number];
	struct qs_put *put = node->puts;

	while (put < node->puts + QS_PUTS && put->busy)
		put++;
	if (!node->running || put == node->puts + QS_PUTS)
		return;
	*put = (struct qs_put){.node = node, .busy = true, .post = number};
	snprintf(put->body, sizeof put->body, "%u ", number);
	post->begun = true;
	post->begun_us = sim->now_us;
	put->request = (struct wr_queue_request){.key = {(uint8_t)post->line},
						 .rule = WR_STR("orders"),
						 .domain = WR_STR("api"),
						 .method = WR_STR("POST"),
						 .uri = WR_STR("/orders"),
						 .max_tries = sim->plan->max_tries,
						 .body = {put->body, post->body_len}};
	put->job = (struct wr_queue_job){
		.verb = WR_QUEUE_PUT,
		.done = on_put,
		.context = put,
		.put = {.request = &put->request,
			.max_waiting = sim->plan->max_waiting,
			.max_age_us = sim->plan->max_age_us,
			.wait_us = wr_rng_below(&sim->traffic_rng, 2 * sim->plan->pace_us)}};
	qs_node_submit(node, &put->job);
}

static void on_ticket(struct wr_queue_job *job)
{
	struct qs_node *node = job->context;
	struct qs_sim *sim = node->sim;
	const struct qs_row *row = qs_model_find(&sim->model, node->asked_post);

	node->asking = false;
	if (sim->over && job->reason == WR_QUEUE_OK &&
	    (!row || (unsigned)job->ticket.found->state != (unsigned)row->state))
		qs_fail(sim, "the ticket of post %u has the state %s", node->asked_post,
			wr_queue_request_state_name(job->ticket.found->state));
	wr_queue_request_free(job->ticket.found);
	job->ticket.found = NULL;
}

void qs_node_ask(struct qs_node *node, unsigned post)
{
	if (!node->running || node->asking)
		return;
	node->asking = true;
	node->asked_post = post;
	node->ticket =
		(struct wr_queue_job){.verb = WR_QUEUE_TICKET, .done = on_ticket, .context = node};
	memcpy(node->ticket.ticket.ticket, node->sim->posts[post].ticket, WR_TICKET_BYTES);
	qs_node_submit(node, &node->ticket);
}

static void on_page(struct wr_queue_job *job)
{
	struct qs_node *node = job->context;

	node->paging = false;
	wake_deliverer_in(node, 0);
}

void qs_node_operate(struct qs_node *node)
{
	struct wr_rng *rng = &node->sim->fault_rng;
	unsigned kind = (unsigned)wr_rng_below(rng, 6);

	if (!node->running || node->paging)
		return;
	node->paging = true;
	node->page = (struct wr_queue_job){.done = on_page, .context = node};
	node->page.verb = kind < 3 ? WR_QUEUE_RETRY : kind < 5 ? WR_QUEUE_DROP : WR_QUEUE_STATS;
	if (kind < 5)
		node->page.page.max = 1 + (uint32_t)wr_rng_below(rng, 20);
	if (kind < 2)
		node->page.page.filter.states = 1u << WR_QUEUE_REQUEST_DEAD;
	else if (kind < 5)
		node->page.page.filter.id = 1 + wr_rng_below(rng, node->sim->model.last_id + 1);
	qs_node_submit(node, &node->page);
}

/* ---- start and death ---- */

static void start_delivery(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)sim;
	(void)arg;
	wake_deliverer_in(object, 0);
}

void qs_node_start(struct qs_sim *sim, unsigned number, bool new_name)
{
	struct qs_node *node = &sim->nodes[number];
	struct weir_error error = {0};
	struct wr_queue_redis *remote;

	node->sim = sim;
	node->number = number;
	node->names += new_name;
	node->dead = node->open = node->taking = node->paging = node->asking = false;
	wr_list_init(&node->pending);
	node->tried_us = node->ticked_us = 0;
	node->deadline_us = UINT64_MAX;
	node->sending = node->down = 0;
	/* the service forgets these counts too when it restarts */
	memset(node->known_waiting, 0, sizeof node->known_waiting);
	node->opts = sim->plan->opts;
	node->opts.waiting = record_waiting;
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
	node->stack = wr_sim_alloc(1, STACK);
	getcontext(&node->here);
	node->here.uc_stack.ss_sp = node->stack;
	node->here.uc_stack.ss_size = STACK;
	node->here.uc_link = &sim->main;
	makecontext(&node->here, run_thread, 0);
	starting_node = node;
	node->blocks++;
	swapcontext(&sim->main, &node->here);
	qs_schedule(sim, sim->now_us + 1, node, start_delivery, node, 0);
}

/* Kills the node. The queue's thread runs to its end, but its calls to Redis fail, so the rest of
 * its work has no effect. */
void qs_node_kill(struct qs_node *node)
{
	if (!node->running)
		return;
	node->dead = true;
	while (node->running)
		swapcontext(&node->sim->main, &node->here);
	node->incarnation++;
	node->store->ops->free(node->store);
	node->store = NULL;
	for (unsigned i = 0; i < QS_SLOTS; i++) {
		wr_queue_request_free(node->slots[i].request);
		node->slots[i].request = NULL;
		node->slots[i].stage = QS_FREE;
	}
	for (unsigned i = 0; i < QS_PUTS; i++)
		node->puts[i].busy = false;
	wr_deliver_absent_free(&node->absent);
	free(node->stack);
	node->stack = NULL;
}
