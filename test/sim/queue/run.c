/* Runs a plan: events, clients, the API server, faults, and the checks at the end. main.c and the
 * tests call qs_run(). */
#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "serve/deliver/deliver.h"

/* virtual time after the last fault within which all requests must be finished */
#define SETTLE_US (3600 * SECOND)

/* ---- the plan ---- */

static void plan_bounds(struct qs_plan *plan, struct wr_rng *rng)
{
	bool tight = wr_rng_percent(rng, 40);
	struct wr_queue_opts *opts = &plan->opts;

	*opts = (struct wr_queue_opts){
		.url = "redis://127.0.0.1:6379",
		.prefix = "weir",
		.assume_durable = plan->faults & 1u << QS_LOSS,
		.max_requests = tight ? wr_rng_between(rng, 3, 20) : 1000,
		.max_bytes = tight ? wr_rng_between(rng, 4000, 30000) : 1u << 30,
		.max_line_bytes = tight ? wr_rng_between(rng, 2000, 9000) : 1u << 30,
		.max_dead = wr_rng_percent(rng, 30) ? 3 : 1000,
		.max_dead_bytes = wr_rng_percent(rng, 30) ? 4000 : 1u << 30,
		.max_tickets = wr_rng_percent(rng, 20) ? 10 : 1000000,
		.keep_us = WR_QUEUE_DAY_US,
		.keep_dead_us = 30 * WR_QUEUE_DAY_US,
		.lease_us = plan->deliver_us + WR_DELIVER_LEASE_US,
		.timeout_us = wr_rng_between(rng, SECOND, 5 * SECOND),
		.free_bytes_min = 1,
		.max_jobs = 4096,
		.poll_us = 500 * MS};
	plan->max_waiting = tight ? (uint32_t)wr_rng_between(rng, 2, 10) : 1000;
}

void qs_plan_make(struct qs_plan *plan, uint64_t seed)
{
	struct wr_rng rng = {seed * 0x9e3779b97f4a7c15u + 1};

	*plan = (struct qs_plan){.seed = seed};
	plan->faults = (unsigned)wr_rng_next(&rng) & ((1u << QS_FAULT_COUNT) - 1);
	if (wr_rng_percent(&rng, 70))
		plan->faults &= ~(1u << QS_LOSS);
	if (wr_rng_percent(&rng, 60))
		plan->faults &= ~(1u << QS_STEP);
	plan->nodes = (unsigned)wr_rng_between(&rng, 1, QS_NODES);
	plan->lines = (unsigned)wr_rng_between(&rng, 1, QS_LINES);
	plan->posts = (unsigned)wr_rng_between(&rng, 20, QS_POSTS);
	plan->connections = (unsigned)wr_rng_between(&rng, 1, 4);
	plan->length_us = wr_rng_between(&rng, 20, 120) * SECOND;
	plan->gap_us = plan->length_us / plan->posts;
	plan->fault_gap_us = wr_rng_scale(&rng, 500 * MS, 20 * SECOND);
	plan->pace_us = wr_rng_scale(&rng, 10 * MS, 3 * SECOND);
	plan->answer_us = wr_rng_scale(&rng, MS, 3 * SECOND);
	plan->deliver_us = wr_rng_between(&rng, 2, 20) * SECOND;
	plan->delay_us = wr_rng_scale(&rng, 200, 100 * MS);
	plan->max_tries = (uint32_t)wr_rng_between(&rng, 1, 6);
	plan->max_age_us =
		wr_rng_percent(&rng, 25) ? wr_rng_between(&rng, 5, 60) * SECOND : WR_QUEUE_DAY_US;
	plan_bounds(plan, &rng);
}

static const char *const fault_names[] = {
#define QS_NAME(name, text) text,
	QS_FAULTS(QS_NAME)
#undef QS_NAME
};

void qs_plan_text(const struct qs_plan *plan, char *text, size_t cap)
{
	size_t len = (size_t)snprintf(
		text, cap, "seed %" PRIu64 ": %u nodes, %u lines, %u posts in %" PRIu64 " s;",
		plan->seed, plan->nodes, plan->lines, plan->posts, plan->length_us / SECOND);

	for (unsigned i = 0; i < QS_FAULT_COUNT && len < cap; i++)
		if (plan->faults & 1u << i)
			len += (size_t)snprintf(text + len, cap - len, " %s", fault_names[i]);
}

/* ---- events ---- */

static bool is_event_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	const struct qs_event *x = wr_container_of(a, const struct qs_event, heap);
	const struct qs_event *y = wr_container_of(b, const struct qs_event, heap);

	return x->at_us != y->at_us ? x->at_us < y->at_us : x->number < y->number;
}

void qs_schedule(struct qs_sim *sim, uint64_t at_us, struct qs_node *node, qs_event_fn *run,
		 void *object, uint64_t arg)
{
	struct qs_event *event = wr_sim_alloc(1, sizeof *event);

	*event = (struct qs_event){.at_us = at_us > sim->now_us ? at_us : sim->now_us,
				   .number = sim->event_number++,
				   .node = node,
				   .incarnation = node ? node->incarnation : 0,
				   .run = run,
				   .object = object,
				   .arg = arg};
	if (!wr_heap_add(&sim->events, &event->heap))
		wr_sim_no_memory();
}

/* Runs and frees the next event. The event is dropped if its node has died since it was
 * scheduled. */
static void run_next_event(struct qs_sim *sim)
{
	struct qs_event *event = wr_container_of(wr_heap_pop(&sim->events), struct qs_event, heap);
	struct qs_node *node = event->node;

	sim->now_us = event->at_us;
	if (node && node->incarnation != event->incarnation) {
		free(event);
		return;
	}
	if (node && node->paused_until_us > sim->now_us) {
		qs_schedule(sim, node->paused_until_us, node, event->run, event->object,
			    event->arg);
	} else {
		sim->report->events++;
		event->run(sim, event->object, event->arg);
	}
	free(event);
}

void qs_trace(struct qs_sim *sim, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	wr_sim_trace_add(sim->trace, &sim->report->trace, sim->now_us, "", format, args);
	va_end(args);
}

void qs_fail(struct qs_sim *sim, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	wr_sim_failure_add(sim->trace, sim->report->failure, format, args);
	va_end(args);
}

/* ---- the API server ---- */

const struct qs_send *qs_api_by_fence(const struct qs_sim *sim, unsigned post, uint64_t fence)
{
	for (size_t i = sim->send_count; i-- > 0;)
		if (sim->sends[i].post == post && sim->sends[i].fence == fence)
			return &sim->sends[i];
	return NULL;
}

/* Returns the status of the API's answer, or 0 if the API does not answer. *unsent is set if the
 * API cannot be reached. */
static unsigned status_of(struct qs_sim *sim, unsigned post, bool *unsent)
{
	static const unsigned mixed[] = {200, 201, 302, 404, 422, 500, 503, 429, 408, 0, 200, 200};

	*unsent = sim->api_mode == QS_API_DOWN;
	switch (sim->api_mode) {
	case QS_API_FINE:
		/* One request in 16 gets the status 502 at each attempt, until the faults end. */
		return sim->quiet || post % 16 != 15 || !(sim->plan->faults & 1u << QS_API) ? 200
											    : 502;
	case QS_API_MIXED:
		return mixed[wr_rng_below(&sim->api_rng, sizeof mixed / sizeof *mixed)];
	case QS_API_ABSENT:
		return 503;
	default:
		return 0;
	}
}

static void answer_send(struct qs_sim *sim, void *object, uint64_t arg)
{
	const struct qs_send *send = &sim->sends[arg];

	(void)object;
	qs_trace(sim, "post %u: the API answers %u%s", send->post, send->status,
		 send->unsent ? ", no connection" : "");
	qs_node_answered(send->node, arg, send->status, send->unsent);
}

/* Checks that a node begins a delivery only while it owns the line. This is not checked after the
 * clock of Redis has jumped or Redis has lost data, because the lease may then end without the
 * node's knowledge. */
static void check_owner(struct qs_sim *sim, const struct wr_queue_request *request,
			uint64_t stepped)
{
	const struct qs_line *line = &sim->model.lines[request->key[0]];

	if (stepped != sim->server.stepped || sim->server.lost ||
	    (line->fence == request->fence && line->id == request->id))
		return;
	qs_fail(sim,
		"request %" PRIu64 " is sent with fence %" PRIu64 "; its line has fence %" PRIu64,
		request->id, request->fence, line->fence);
}

uint64_t qs_api_send(struct qs_node *node, const struct wr_queue_request *request, uint64_t stepped)
{
	struct qs_sim *sim = node->sim;
	unsigned post = (unsigned)strtoul(request->body.ptr, NULL, 10);
	uint64_t wait_us = wr_rng_scale(&sim->api_rng, MS, 2 * sim->plan->answer_us);
	struct qs_send *send;
	bool unsent;

	sim->sends = wr_sim_grow(sim->sends, sim->send_count, &sim->send_cap, sizeof *send);
	if (qs_api_by_fence(sim, post, request->fence) && sim->server.stepped == stepped &&
	    !(sim->plan->faults & 1u << QS_LOSS))
		qs_fail(sim, "post %u is sent twice by one owner", post);
	check_owner(sim, request, stepped);
	send = &sim->sends[sim->send_count];
	*send = (struct qs_send){.post = post, .fence = request->fence, .node = node};
	send->status = status_of(sim, post, &unsent);
	send->unsent = unsent;
	if (send->status == 0 && !unsent)
		wait_us = wr_rng_percent(&sim->api_rng, 50) ? wait_us : sim->plan->deliver_us;
	if (wait_us >= sim->plan->deliver_us) {
		wait_us = sim->plan->deliver_us;
		send->status = 0;
	}
	sim->report->sends += !unsent;
	if (wr_deliver_is_final(send->status))
		sim->posts[post].answers++;
	qs_trace(sim, "node%u sends post %u", node->number, post);
	qs_schedule(sim, sim->now_us + wait_us, node, answer_send, NULL, sim->send_count);
	return sim->send_count++;
}

/* ---- clients ---- */

static void send_next_post(struct qs_sim *sim, void *object, uint64_t arg)
{
	const struct qs_plan *plan = sim->plan;

	(void)object;
	(void)arg;
	if (sim->next_post == plan->posts)
		return;
	qs_node_put(&sim->nodes[wr_rng_below(&sim->traffic_rng, plan->nodes)], sim->next_post++);
	if (wr_rng_percent(&sim->traffic_rng, 30) && sim->next_post > 1) {
		unsigned post = (unsigned)wr_rng_below(&sim->traffic_rng, sim->next_post);

		if (sim->posts[post].done && sim->posts[post].reason == WR_QUEUE_OK)
			qs_node_ask(&sim->nodes[wr_rng_below(&sim->traffic_rng, plan->nodes)],
				    post);
	}
	qs_schedule(sim, sim->now_us + wr_rng_below(&sim->traffic_rng, 2 * plan->gap_us), NULL,
		    send_next_post, NULL, 0);
}

/* ---- faults ---- */

static void end_network(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	sim->faults &= ~(unsigned)arg;
}

static void end_error(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	sim->server.redis->error_reply = NULL;
}

static void end_api_mode(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	sim->api_mode = QS_API_FINE;
}

static void restart_node(struct qs_sim *sim, void *object, uint64_t arg)
{
	const struct qs_node *node = object;

	if (!node->running)
		qs_node_start(sim, node->number, arg);
}

static void begin_error(struct qs_sim *sim)
{
	static const char *const troubles[] = {
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script.",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Errors writing to the AOF file"};
	unsigned which = (unsigned)wr_rng_below(&sim->fault_rng, 5);

	sim->server.redis->error_reply = troubles[which];
	sim->server.redis->error_for_reads = which < 2;
	qs_schedule(sim, sim->now_us + wr_rng_scale(&sim->fault_rng, 100 * MS, 30 * SECOND), NULL,
		    end_error, NULL, 0);
}

static void begin_api(struct qs_sim *sim)
{
	sim->api_mode = (enum qs_api_mode)(1 + wr_rng_below(&sim->fault_rng, QS_API_MODES - 1));
	qs_schedule(sim, sim->now_us + wr_rng_scale(&sim->fault_rng, 100 * MS, 60 * SECOND), NULL,
		    end_api_mode, NULL, 0);
}

static void save_data(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	if (sim->server.up)
		qs_server_save(sim);
	qs_schedule(sim, sim->now_us + 2 * SECOND, NULL, save_data, NULL, 0);
}

static int64_t random_step_us(struct qs_sim *sim)
{
	int64_t step = (int64_t)wr_rng_scale(&sim->fault_rng, MS, 90 * SECOND);

	return wr_rng_percent(&sim->fault_rng, 50) ? step : -step;
}

static void begin_fault(struct qs_sim *sim, enum qs_fault fault)
{
	struct wr_rng *fault_rng = &sim->fault_rng;
	struct qs_node *node = &sim->nodes[wr_rng_below(fault_rng, sim->plan->nodes)];
	uint64_t for_us = wr_rng_scale(fault_rng, 100 * MS, 20 * SECOND);
	int64_t step;

	qs_trace(sim, "fault: %s", fault_names[fault]);
	sim->report->faults++;
	switch (fault) {
	case QS_CALL:
	case QS_REPLY:
	case QS_LATE:
		sim->faults |= 1u << fault;
		qs_schedule(sim, sim->now_us + for_us, NULL, end_network, NULL, 1u << fault);
		return; /* fault_happens() sets the bit in report->seen */
	case QS_STALL:
		sim->server.paused_until_us = sim->now_us + for_us;
		break;
	case QS_RESTART:
	case QS_LOSS:
		qs_server_stop(sim, fault == QS_LOSS);
		break;
	case QS_KILL:
		qs_trace(sim, "node%u dies", node->number);
		qs_node_kill(node);
		qs_schedule(sim, sim->now_us + for_us, NULL, restart_node, node,
			    wr_rng_below(fault_rng, 2));
		break;
	case QS_PAUSE:
		node->paused_until_us = sim->now_us + wr_rng_scale(fault_rng, 100 * MS,
								   2 * sim->plan->opts.lease_us);
		break;
	case QS_SKEW:
		node->wall_skew_us += random_step_us(sim);
		break;
	case QS_STEP:
		step = random_step_us(sim);
		sim->server.skew_us += step;
		sim->server.stepped += step > 0;
		break;
	case QS_ERROR:
		begin_error(sim);
		break;
	case QS_API:
		begin_api(sim);
		break;
	default:
		qs_node_operate(node);
	}
	sim->report->seen |= 1u << fault;
}

static void inject_next_fault(struct qs_sim *sim, void *object, uint64_t arg)
{
	enum qs_fault fault = (enum qs_fault)wr_rng_below(&sim->fault_rng, QS_FAULT_COUNT);

	(void)object;
	(void)arg;
	if (sim->quiet)
		return;
	if (sim->plan->faults & 1u << fault)
		begin_fault(sim, fault);
	qs_schedule(sim, sim->now_us + wr_rng_below(&sim->fault_rng, sim->plan->fault_gap_us), NULL,
		    inject_next_fault, NULL, 0);
}

static void end_faults(struct qs_sim *sim, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	sim->quiet = true;
	sim->faults = 0;
	sim->api_mode = QS_API_FINE;
	sim->server.redis->error_reply = NULL;
	sim->next_post = sim->plan->posts;
	qs_trace(sim, "all faults have ended");
}

/* ---- checks at the end ---- */

/* Returns whether the node knows how many requests wait in the line. After Redis has lost data, the
 * node's number may be too high until the next request of this line. */
static bool knows_line(const struct qs_sim *sim, const struct qs_node *node, unsigned line)
{
	uint64_t waiting = qs_model_waiting(&sim->model, line);

	return node->known_waiting[line] == waiting ||
	       (sim->plan->faults & 1u << QS_LOSS && node->known_waiting[line] > waiting);
}

static bool is_over(const struct qs_sim *sim)
{
	for (unsigned i = 0; i < QS_LINES; i++)
		if (qs_model_waiting(&sim->model, i))
			return false;
	for (unsigned i = 0; i < sim->plan->nodes; i++) {
		const struct qs_node *node = &sim->nodes[i];

		if (!node->running || !node->open)
			return false;
		for (unsigned line = 0; line < QS_LINES; line++)
			if (!knows_line(sim, node, line))
				return false;
		for (unsigned k = 0; k < QS_PUTS; k++)
			if (node->puts[k].busy)
				return false;
	}
	return true;
}

static void check_post(struct qs_sim *sim, unsigned number)
{
	const struct qs_post *post = &sim->posts[number];
	const struct qs_row *row = qs_model_find(&sim->model, number);
	bool refused = post->done && post->reason != WR_QUEUE_OK && post->reason != WR_QUEUE_AWAY &&
		       post->reason != WR_QUEUE_FAILED;

	if (post->done && post->reason == WR_QUEUE_OK && !row && !post->vanished)
		qs_fail(sim, "post %u was accepted and is lost", number);
	if (refused && row)
		qs_fail(sim, "post %u was refused (%s) and is stored", number,
			wr_queue_reason_name(post->reason));
	if (row && row->state == QS_DELIVERED && post->answers == 0)
		qs_fail(sim, "post %u is delivered without an answer of the API", number);
	if (row && row->state == QS_WAITING)
		qs_fail(sim, "post %u still waits", number);
	if (post->answers > 1)
		sim->report->again += post->answers - 1;
}

/* Checks the order of each line. If a post was accepted before a second post of the line was sent,
 * the first post must have the lower id. */
static void check_sequence(struct qs_sim *sim)
{
	for (unsigned a = 0; a < sim->plan->posts; a++) {
		const struct qs_row *first = qs_model_find(&sim->model, a);

		for (unsigned b = 0; first && b < sim->plan->posts; b++) {
			const struct qs_row *second = qs_model_find(&sim->model, b);
			const struct qs_post *one = &sim->posts[a];

			if (second && second->line == first->line && one->done &&
			    one->reason == WR_QUEUE_OK && !one->vanished &&
			    !sim->posts[b].vanished && !one->copied &&
			    one->done_us < sim->posts[b].begun_us && first->id > second->id)
				qs_fail(sim, "post %u came before %u and is behind it", a, b);
		}
	}
}

static void count_results(struct qs_sim *sim)
{
	struct qs_report *report = sim->report;

	for (unsigned i = 0; i < sim->plan->posts; i++) {
		const struct qs_post *post = &sim->posts[i];
		bool unknown = post->begun && (!post->done || post->reason == WR_QUEUE_AWAY ||
					       post->reason == WR_QUEUE_FAILED);

		report->posts += post->begun;
		report->accepted += post->done && post->reason == WR_QUEUE_OK;
		report->unknown += unknown;
		report->refused += post->done && post->reason != WR_QUEUE_OK && !unknown;
		report->lost += post->done && post->reason == WR_QUEUE_OK && post->vanished;
	}
	for (size_t i = 0; i < sim->model.count; i++) {
		report->delivered += sim->model.rows[i].state == QS_DELIVERED;
		report->dead += sim->model.rows[i].state == QS_DEAD;
		report->dropped += sim->model.rows[i].state == QS_DROPPED;
	}
}

static void check_run(struct qs_sim *sim, bool over)
{
	for (unsigned i = 0; i < sim->plan->nodes && !over; i++)
		for (unsigned line = 0; line < QS_LINES; line++)
			if (!knows_line(sim, &sim->nodes[i], line))
				qs_fail(sim, "node%u counts in line %u %" PRIu64, i, line,
					sim->nodes[i].known_waiting[line]);
	for (unsigned i = 0; i < sim->plan->posts; i++)
		check_post(sim, i);
	check_sequence(sim);
	if (!over)
		qs_fail(sim, "requests still wait an hour after the last fault");
	count_results(sim);
}

/* Asks node 0 for the ticket of each accepted post, one after the other. */
static void ask_tickets(struct qs_sim *sim)
{
	struct qs_node *node = &sim->nodes[0];

	sim->over = true;
	for (unsigned i = 0; i < sim->plan->posts; i++) {
		if (!sim->posts[i].done || sim->posts[i].reason != WR_QUEUE_OK)
			continue;
		qs_node_ask(node, i);
		while (node->asking && sim->events.count)
			run_next_event(sim);
	}
}

/* ---- a run ---- */

static void start_run(struct qs_sim *sim, const struct qs_mutation *mutation)
{
	const struct qs_plan *plan = sim->plan;
	struct wr_rng rng = {plan->seed};

	sim->traffic_rng = wr_rng_fork(&rng);
	sim->net_rng = wr_rng_fork(&rng);
	sim->fault_rng = wr_rng_fork(&rng);
	sim->api_rng = wr_rng_fork(&rng);
	wr_heap_init(&sim->events, is_event_before, SIZE_MAX);
	qs_server_start(sim, mutation);
	for (unsigned i = 0; i < plan->posts; i++) {
		sim->posts[i].line = (unsigned)wr_rng_below(&sim->traffic_rng, plan->lines);
		sim->posts[i].body_len = wr_rng_scale(&sim->traffic_rng, 8, 1190);
	}
	for (unsigned i = 0; i < plan->nodes; i++)
		qs_node_start(sim, i, true);
	save_data(sim, NULL, 0);
	qs_schedule(sim, SECOND, NULL, send_next_post, NULL, 0);
	qs_schedule(sim, 2 * SECOND, NULL, inject_next_fault, NULL, 0);
	qs_schedule(sim, plan->length_us, NULL, end_faults, NULL, 0);
}

static void end_run(struct qs_sim *sim)
{
	for (unsigned i = 0; i < sim->plan->nodes; i++)
		qs_node_kill(&sim->nodes[i]);
	qs_server_free(sim);
	for (size_t i = 0; i < sim->events.count; i++)
		free(wr_container_of(sim->events.nodes[i], struct qs_event, heap));
	wr_heap_free(&sim->events);
	free(sim->sends);
	free(sim);
}

void qs_run(const struct qs_plan *plan, struct wr_sim_lua *lua, const struct qs_mutation *mutation,
	    FILE *trace, struct qs_report *report)
{
	struct qs_sim *sim = wr_sim_alloc(1, sizeof *sim);
	bool over = false;

	*report = (struct qs_report){0};
	sim->plan = plan;
	sim->report = report;
	sim->lua = lua;
	sim->trace = trace;
	start_run(sim, mutation);
	while (!report->failure[0] && !over && sim->now_us < plan->length_us + SETTLE_US) {
		run_next_event(sim);
		over = sim->quiet && is_over(sim);
	}
	if (!report->failure[0])
		ask_tickets(sim);
	if (!report->failure[0])
		check_run(sim, over);
	end_run(sim);
}
