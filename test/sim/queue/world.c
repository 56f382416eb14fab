/* Runs a plan: events, clients, the API server, faults, and the checks at the end. main.c and the
 * tests call qs_run(). */
#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "serve/deliver/deliver.h"

#define SETTLE_US                                                                                  \
	(3600 * SECOND) /* virtual time after the last fault in which all requests must be done */

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
	plan->orders = (unsigned)wr_rng_between(&rng, 20, QS_ORDERS);
	plan->connections = (unsigned)wr_rng_between(&rng, 1, 4);
	plan->length_us = wr_rng_between(&rng, 20, 120) * SECOND;
	plan->gap_us = plan->length_us / plan->orders;
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
		text, cap, "seed %" PRIu64 ": %u nodes, %u lines, %u orders in %" PRIu64 " s;",
		plan->seed, plan->nodes, plan->lines, plan->orders, plan->length_us / SECOND);

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

void qs_schedule(struct qs_world *world, uint64_t at_us, struct qs_node *node, qs_event_fn *run,
		 void *object, uint64_t arg)
{
	struct qs_event *event = wr_sim_alloc(1, sizeof *event);

	*event = (struct qs_event){.at_us = at_us > world->now_us ? at_us : world->now_us,
				   .number = world->event_number++,
				   .node = node,
				   .incarnation = node ? node->incarnation : 0,
				   .run = run,
				   .object = object,
				   .arg = arg};
	if (!wr_heap_add(&world->events, &event->heap))
		wr_sim_no_memory();
}

/* Runs and frees the next event. The event is dropped if its node has died since it was
 * scheduled. */
static void run_next_event(struct qs_world *world)
{
	struct qs_event *event =
		wr_container_of(wr_heap_first(&world->events), struct qs_event, heap);
	struct qs_node *node = event->node;

	wr_heap_remove(&world->events, &event->heap);
	world->now_us = event->at_us;
	if (node && node->incarnation != event->incarnation) {
		free(event);
		return;
	}
	if (node && node->paused_until_us > world->now_us) {
		qs_schedule(world, node->paused_until_us, node, event->run, event->object,
			    event->arg);
	} else {
		world->report->events++;
		event->run(world, event->object, event->arg);
	}
	free(event);
}

void qs_trace(struct qs_world *world, const char *format, ...)
{
	char text[300];
	int len = snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64 " ", world->now_us / SECOND,
			   world->now_us % SECOND);
	va_list args;

	va_start(args, format);
	vsnprintf(text + len, sizeof text - (size_t)len, format, args);
	va_end(args);
	world->report->trace = XXH3_64bits_withSeed(text, strlen(text), world->report->trace);
	if (world->trace)
		fprintf(world->trace, "%s\n", text);
}

void qs_fail(struct qs_world *world, const char *format, ...)
{
	char text[sizeof world->report->failure];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!world->report->failure[0])
		memcpy(world->report->failure, text, sizeof text);
	if (world->trace)
		fprintf(world->trace, "FAILED %s\n", text);
}

/* ---- the API server ---- */

const struct qs_send *qs_api_by_fence(const struct qs_world *world, unsigned order, uint64_t fence)
{
	for (size_t i = world->send_count; i-- > 0;)
		if (world->sends[i].order == order && world->sends[i].fence == fence)
			return &world->sends[i];
	return NULL;
}

/* Returns the status of the API's answer, or 0 if the API does not answer. *unsent tells whether
 * the API could not be reached. */
static unsigned status_of(struct qs_world *world, unsigned order, bool *unsent)
{
	static const unsigned mixed[] = {200, 201, 302, 404, 422, 500, 503, 429, 408, 0, 200, 200};

	*unsent = world->api_mode == QS_API_DOWN;
	switch (world->api_mode) {
	case QS_API_FINE:
		/* One request in 16 crashes the API each time, until the faults end. */
		return world->quiet || order % 16 != 15 || !(world->plan->faults & 1u << QS_API)
			       ? 200
			       : 502;
	case QS_API_MIXED:
		return mixed[wr_rng_below(&world->api_rng, sizeof mixed / sizeof *mixed)];
	case QS_API_ABSENT:
		return 503;
	default:
		return 0;
	}
}

static void answer_send(struct qs_world *world, void *object, uint64_t arg)
{
	const struct qs_send *send = &world->sends[arg];

	(void)object;
	qs_trace(world, "order %u: the API answers %u%s", send->order, send->status,
		 send->unsent ? ", no connection" : "");
	qs_node_answered(send->node, arg, send->status, send->unsent);
}

/* Checks that a node begins a delivery only while it owns the line. Not checked after a jump of
 * Redis' clock or a loss of data, which may end the ownership without the node's knowledge. */
static void check_owner(struct qs_world *world, const struct wr_deferred *request, uint64_t stepped)
{
	const struct qs_line *line = &world->model.lines[request->key[0]];

	if (stepped != world->server.stepped || world->server.lost ||
	    (line->fence == request->fence && line->id == request->id))
		return;
	qs_fail(world,
		"request %" PRIu64 " is sent with fence %" PRIu64 "; its line has fence %" PRIu64,
		request->id, request->fence, line->fence);
}

uint64_t qs_api_send(struct qs_node *node, const struct wr_deferred *request, uint64_t stepped)
{
	struct qs_world *world = node->world;
	unsigned order = (unsigned)strtoul(request->body.ptr, NULL, 10);
	uint64_t wait_us = wr_rng_scale(&world->api_rng, MS, 2 * world->plan->answer_us);
	struct qs_send *send;
	bool unsent;

	world->sends = wr_sim_grow(world->sends, world->send_count, &world->send_cap, sizeof *send);
	if (qs_api_by_fence(world, order, request->fence) && world->server.stepped == stepped &&
	    !(world->plan->faults & 1u << QS_LOSS))
		qs_fail(world, "order %u is sent twice by one owner", order);
	check_owner(world, request, stepped);
	send = &world->sends[world->send_count];
	*send = (struct qs_send){.order = order, .fence = request->fence, .node = node};
	send->status = status_of(world, order, &unsent);
	send->unsent = unsent;
	if (send->status == 0 && !unsent)
		wait_us = wr_rng_percent(&world->api_rng, 50) ? wait_us : world->plan->deliver_us;
	if (wait_us >= world->plan->deliver_us) {
		wait_us = world->plan->deliver_us;
		send->status = 0;
	}
	world->report->sends += !unsent;
	if (wr_deliver_is_final(send->status))
		world->orders[order].answers++;
	qs_trace(world, "node%u sends order %u", node->number, order);
	qs_schedule(world, world->now_us + wait_us, node, answer_send, NULL, world->send_count);
	return world->send_count++;
}

/* ---- clients ---- */

static void post_next_order(struct qs_world *world, void *object, uint64_t arg)
{
	const struct qs_plan *plan = world->plan;

	(void)object;
	(void)arg;
	if (world->next_order == plan->orders)
		return;
	qs_node_put(&world->nodes[wr_rng_below(&world->traffic_rng, plan->nodes)],
		    world->next_order++);
	if (wr_rng_percent(&world->traffic_rng, 30) && world->next_order > 1) {
		unsigned order = (unsigned)wr_rng_below(&world->traffic_rng, world->next_order);

		if (world->orders[order].done && world->orders[order].reason == WR_QUEUE_OK)
			qs_node_ask(&world->nodes[wr_rng_below(&world->traffic_rng, plan->nodes)],
				    order);
	}
	qs_schedule(world, world->now_us + wr_rng_below(&world->traffic_rng, 2 * plan->gap_us),
		    NULL, post_next_order, NULL, 0);
}

/* ---- faults ---- */

static void end_network(struct qs_world *world, void *object, uint64_t arg)
{
	(void)object;
	world->faults &= ~(unsigned)arg;
}

static void end_error(struct qs_world *world, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	world->server.redis->error_reply = NULL;
}

static void end_api_mode(struct qs_world *world, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	world->api_mode = QS_API_FINE;
}

static void restart_node(struct qs_world *world, void *object, uint64_t arg)
{
	const struct qs_node *node = object;

	if (!node->running)
		qs_node_start(world, node->number, arg);
}

static void begin_error(struct qs_world *world)
{
	static const char *const troubles[] = {
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script.",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Errors writing to the AOF file"};
	unsigned which = (unsigned)wr_rng_below(&world->fault_rng, 5);

	world->server.redis->error_reply = troubles[which];
	world->server.redis->error_for_reads = which < 2;
	qs_schedule(world, world->now_us + wr_rng_scale(&world->fault_rng, 100 * MS, 30 * SECOND),
		    NULL, end_error, NULL, 0);
}

static void begin_api(struct qs_world *world)
{
	world->api_mode = (enum qs_api_mode)(1 + wr_rng_below(&world->fault_rng, QS_API_MODES - 1));
	qs_schedule(world, world->now_us + wr_rng_scale(&world->fault_rng, 100 * MS, 60 * SECOND),
		    NULL, end_api_mode, NULL, 0);
}

static void save_data(struct qs_world *world, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	if (world->server.up)
		qs_server_save(world);
	qs_schedule(world, world->now_us + 2 * SECOND, NULL, save_data, NULL, 0);
}

static int64_t random_step_us(struct qs_world *world)
{
	int64_t step = (int64_t)wr_rng_scale(&world->fault_rng, MS, 90 * SECOND);

	return wr_rng_percent(&world->fault_rng, 50) ? step : -step;
}

static void begin_fault(struct qs_world *world, enum qs_fault fault)
{
	struct wr_rng *fault_rng = &world->fault_rng;
	struct qs_node *node = &world->nodes[wr_rng_below(fault_rng, world->plan->nodes)];
	uint64_t for_us = wr_rng_scale(fault_rng, 100 * MS, 20 * SECOND);
	int64_t step;

	qs_trace(world, "fault: %s", fault_names[fault]);
	world->report->faults++;
	switch (fault) {
	case QS_CALL:
	case QS_REPLY:
	case QS_LATE:
		world->faults |= 1u << fault;
		qs_schedule(world, world->now_us + for_us, NULL, end_network, NULL, 1u << fault);
		return; /* fault_happens() sets the bit in report->seen */
	case QS_STALL:
		world->server.paused_until_us = world->now_us + for_us;
		break;
	case QS_RESTART:
	case QS_LOSS:
		qs_server_stop(world, fault == QS_LOSS);
		break;
	case QS_KILL:
		qs_trace(world, "node%u dies", node->number);
		qs_node_kill(node);
		qs_schedule(world, world->now_us + for_us, NULL, restart_node, node,
			    wr_rng_below(fault_rng, 2));
		break;
	case QS_PAUSE:
		node->paused_until_us =
			world->now_us +
			wr_rng_scale(fault_rng, 100 * MS, 2 * world->plan->opts.lease_us);
		break;
	case QS_SKEW:
		node->wall_skew_us += random_step_us(world);
		break;
	case QS_STEP:
		step = random_step_us(world);
		world->server.skew_us += step;
		world->server.stepped += step > 0;
		break;
	case QS_ERROR:
		begin_error(world);
		break;
	case QS_API:
		begin_api(world);
		break;
	default:
		qs_node_operate(node);
	}
	world->report->seen |= 1u << fault;
}

static void inject_next_fault(struct qs_world *world, void *object, uint64_t arg)
{
	enum qs_fault fault = (enum qs_fault)wr_rng_below(&world->fault_rng, QS_FAULT_COUNT);

	(void)object;
	(void)arg;
	if (world->quiet)
		return;
	if (world->plan->faults & 1u << fault)
		begin_fault(world, fault);
	qs_schedule(world,
		    world->now_us + wr_rng_below(&world->fault_rng, world->plan->fault_gap_us),
		    NULL, inject_next_fault, NULL, 0);
}

static void end_faults(struct qs_world *world, void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	world->quiet = true;
	world->faults = 0;
	world->api_mode = QS_API_FINE;
	world->server.redis->error_reply = NULL;
	world->next_order = world->plan->orders;
	qs_trace(world, "all is well from here on");
}

/* ---- checks at the end ---- */

/* Returns whether the node knows how many requests wait in the line. After Redis has lost data, the
 * node's number may be too high until the next request of the line's key. */
static bool knows_line(const struct qs_world *world, const struct qs_node *node, unsigned line)
{
	uint64_t waiting = qs_model_waiting(&world->model, line);

	return node->known_waiting[line] == waiting ||
	       (world->plan->faults & 1u << QS_LOSS && node->known_waiting[line] > waiting);
}

static bool is_over(const struct qs_world *world)
{
	for (unsigned i = 0; i < QS_LINES; i++)
		if (qs_model_waiting(&world->model, i))
			return false;
	for (unsigned i = 0; i < world->plan->nodes; i++) {
		const struct qs_node *node = &world->nodes[i];

		if (!node->running || !node->open)
			return false;
		for (unsigned line = 0; line < QS_LINES; line++)
			if (!knows_line(world, node, line))
				return false;
		for (unsigned k = 0; k < QS_PUTS; k++)
			if (node->puts[k].busy)
				return false;
	}
	return true;
}

static void check_order(struct qs_world *world, unsigned number)
{
	const struct qs_order *order = &world->orders[number];
	const struct qs_row *row = qs_model_order(&world->model, number);
	bool refused = order->done && order->reason != WR_QUEUE_OK &&
		       order->reason != WR_QUEUE_AWAY && order->reason != WR_QUEUE_FAILED;

	if (order->done && order->reason == WR_QUEUE_OK && !row && !order->vanished)
		qs_fail(world, "order %u was accepted and is lost", number);
	if (refused && row)
		qs_fail(world, "order %u was refused (%s) and is stored", number,
			wr_queue_reason_name(order->reason));
	if (row && row->state == QS_DELIVERED && order->answers == 0)
		qs_fail(world, "order %u is delivered without an answer of the API", number);
	if (row && row->state == QS_WAITING)
		qs_fail(world, "order %u still waits", number);
	if (order->answers > 1)
		world->report->again += order->answers - 1;
}

/* Checks the order of each line: if one order was accepted before another order of the line began,
 * it is before the other order in the line. */
static void check_sequence(struct qs_world *world)
{
	for (unsigned a = 0; a < world->plan->orders; a++) {
		const struct qs_row *first = qs_model_order(&world->model, a);

		for (unsigned b = 0; first && b < world->plan->orders; b++) {
			const struct qs_row *second = qs_model_order(&world->model, b);
			const struct qs_order *one = &world->orders[a];

			if (second && second->line == first->line && one->done &&
			    one->reason == WR_QUEUE_OK && !one->vanished &&
			    !world->orders[b].vanished && !one->copied &&
			    one->done_us < world->orders[b].begun_us && first->id > second->id)
				qs_fail(world, "order %u came before %u and is behind it", a, b);
		}
	}
}

static void count_results(struct qs_world *world)
{
	struct qs_report *report = world->report;

	for (unsigned i = 0; i < world->plan->orders; i++) {
		const struct qs_order *order = &world->orders[i];
		bool unknown = order->begun && (!order->done || order->reason == WR_QUEUE_AWAY ||
						order->reason == WR_QUEUE_FAILED);

		report->orders += order->begun;
		report->accepted += order->done && order->reason == WR_QUEUE_OK;
		report->unknown += unknown;
		report->refused += order->done && order->reason != WR_QUEUE_OK && !unknown;
		report->lost += order->done && order->reason == WR_QUEUE_OK && order->vanished;
	}
	for (size_t i = 0; i < world->model.count; i++) {
		report->delivered += world->model.rows[i].state == QS_DELIVERED;
		report->dead += world->model.rows[i].state == QS_DEAD;
		report->dropped += world->model.rows[i].state == QS_DROPPED;
	}
}

static void check_run(struct qs_world *world, bool over)
{
	for (unsigned i = 0; i < world->plan->nodes && !over; i++)
		for (unsigned line = 0; line < QS_LINES; line++)
			if (!knows_line(world, &world->nodes[i], line))
				qs_fail(world, "node%u counts in line %u %" PRIu64, i, line,
					world->nodes[i].known_waiting[line]);
	for (unsigned i = 0; i < world->plan->orders; i++)
		check_order(world, i);
	check_sequence(world);
	if (!over)
		qs_fail(world, "requests still wait an hour after the last fault");
	count_results(world);
}

/* Asks node 0 for the ticket of each accepted order, one after the other. */
static void ask_tickets(struct qs_world *world)
{
	struct qs_node *node = &world->nodes[0];

	world->over = true;
	for (unsigned i = 0; i < world->plan->orders; i++) {
		if (!world->orders[i].done || world->orders[i].reason != WR_QUEUE_OK)
			continue;
		qs_node_ask(node, i);
		while (node->asking && world->events.count)
			run_next_event(world);
	}
}

/* ---- a run ---- */

static void start_run(struct qs_world *world, const struct qs_mutation *mutation)
{
	const struct qs_plan *plan = world->plan;
	struct wr_rng rng = {plan->seed};

	world->traffic_rng = wr_rng_fork(&rng);
	world->net_rng = wr_rng_fork(&rng);
	world->fault_rng = wr_rng_fork(&rng);
	world->api_rng = wr_rng_fork(&rng);
	wr_heap_init(&world->events, is_event_before, SIZE_MAX);
	qs_server_start(world, mutation);
	for (unsigned i = 0; i < plan->orders; i++) {
		world->orders[i].line = (unsigned)wr_rng_below(&world->traffic_rng, plan->lines);
		world->orders[i].body_len = wr_rng_scale(&world->traffic_rng, 8, 1190);
	}
	for (unsigned i = 0; i < plan->nodes; i++)
		qs_node_start(world, i, true);
	save_data(world, NULL, 0);
	qs_schedule(world, SECOND, NULL, post_next_order, NULL, 0);
	qs_schedule(world, 2 * SECOND, NULL, inject_next_fault, NULL, 0);
	qs_schedule(world, plan->length_us, NULL, end_faults, NULL, 0);
}

static void end_run(struct qs_world *world)
{
	for (unsigned i = 0; i < world->plan->nodes; i++)
		qs_node_kill(&world->nodes[i]);
	qs_server_free(world);
	for (size_t i = 0; i < world->events.count; i++)
		free(wr_container_of(world->events.nodes[i], struct qs_event, heap));
	wr_heap_free(&world->events);
	free(world->sends);
	free(world);
}

void qs_run(const struct qs_plan *plan, struct wr_sim_lua *lua, const struct qs_mutation *mutation,
	    FILE *trace, struct qs_report *report)
{
	struct qs_world *world = wr_sim_alloc(1, sizeof *world);
	bool over = false;

	*report = (struct qs_report){0};
	world->plan = plan;
	world->report = report;
	world->lua = lua;
	world->trace = trace;
	start_run(world, mutation);
	while (!report->failure[0] && !over && world->now_us < plan->length_us + SETTLE_US) {
		run_next_event(world);
		over = world->quiet && is_over(world);
	}
	if (!report->failure[0])
		ask_tickets(world);
	if (!report->failure[0])
		check_run(world, over);
	end_run(world);
}
