/* Requests: how they arrive at a node and ask Redis, and how their decisions are recorded. node.c
 * and sim.c schedule the events that start requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/sim_inner.h"
#include "limiter/ask.h"
#include "rules/rules.h"

#define LEAVE_PERCENT 20u
#define OWE_PERCENT 20u /* percentage of settled requests that use more than they reserved */

/* ---- memory ---- */

static struct wr_sim_request *request_new(struct wr_sim_node *node)
{
	struct wr_sim_request *request = node->requests;

	while (request && request->number)
		request = request->next;
	if (!request) {
		request = wr_sim_alloc(1, sizeof *request);
		request->memory = aligned_alloc(64, WEIR_ASK_BYTES);
		if (!request->memory)
			abort();
		request->node = node;
		request->next = node->requests;
		node->requests = request;
	}
	request->number = ++node->sim->request_number;
	request->begun_ns = node->sim->now_ns;
	return request;
}

static void request_end(struct wr_sim_request *request)
{
	weir_ask_done(request->ask);
	request->ask = NULL;
	request->number = 0;
	request->asking = request->client_leaves = request->serving = false;
}

void wr_sim_requests_end(struct wr_sim_node *node)
{
	for (struct wr_sim_request *request = node->requests; request; request = request->next) {
		if (!request->number)
			continue;
		if (request->asking)
			wr_central_cancel(node->home.central, &request->question);
		if (request->serving)
			wr_sim_admission_end(node->sim, request->number);
		request_end(request);
	}
}

void wr_sim_requests_free(struct wr_sim_node *node)
{
	while (node->requests) {
		struct wr_sim_request *request = node->requests;

		node->requests = request->next;
		free(request->memory);
		free(request);
	}
}

/* ---- the record of decisions ---- */

/* Converts at_us, a time by the clock of an unknown master, to true time. The right master is the
 * master whose clock gives a true time between the start of the request and now. */
static uint64_t true_time(const struct wr_sim *sim, const struct wr_sim_request *request,
			  uint64_t at_us)
{
	for (const struct wr_sim_master *master = sim->masters; master; master = master->next) {
		int64_t at_ns =
			(int64_t)(at_us * 1000 - wr_sim_epoch_ns(sim->plan)) - master->skew_ns;

		if (at_ns + 1000 >= (int64_t)request->begun_ns && at_ns <= (int64_t)sim->now_ns)
			return at_ns > 0 ? (uint64_t)at_ns : 0;
	}
	return request->node->reply_ns;
}

/* Sets the time at which Redis counted the units: at_us by the clock of the master, at_ns as true
 * time. The reply contains this time as decided_us, but its use depends on the algorithm:
 *
 *   Sliding log, sliding counter, slots: at_us is decided_us. at_ns is decided_us as true time.
 *
 *   Fixed window: at_us is decided_us, which is only some time in the right window
 *   (redis/script.c). So at_ns is the time of the reply.
 *
 *   Buckets: at_us and at_ns are the time of the reply. */
static void set_time(const struct wr_sim_request *request, const struct wr_ask_need *need,
		     struct wr_sim_admission *admission)
{
	const struct wr_sim *sim = request->node->sim;

	admission->at_us = need->decided_us;
	admission->at_ns = request->node->reply_ns;
	switch (need->need.limit->algorithm) {
	case WEIR_FIXED_WINDOW:
		break;
	case WEIR_SLIDING_LOG:
	case WEIR_SLIDING_COUNTER:
	case WEIR_CONCURRENT:
		admission->at_ns = true_time(sim, request, admission->at_us);
		break;
	default:
		admission->at_us = request->node->reply_us;
	}
}

enum wr_sim_admitted_by wr_sim_admitted_by(const struct wr_ask_need *need)
{
	if (need->decided_by == WR_NEED_CENTRAL)
		return WR_SIM_BY_REDIS;
	if (need->decided_by == WR_NEED_LEASED)
		return WR_SIM_BY_LEASE;
	if (need->decided_by == WR_NEED_TABLE && need->eventual && !need->failed)
		return WR_SIM_BY_NODE;
	return need->decided_by == WR_NEED_TABLE ? WR_SIM_BY_SHARE : WR_SIM_BY_ALLOW;
}

/* Returns the number under which the admissions of a limit are recorded. For the first limit of a
 * key, the number is the key. For the second limit, the number is key + plan->keys. */
static uint8_t counter_of(const struct wr_sim_request *request, const struct wr_ask_need *need)
{
	const struct weir_ask *ask = request->ask;
	unsigned nth =
		(unsigned)(need - ask->needs) - ask->descriptors[need->descriptor].first_need;

	return (uint8_t)(request->keys[need->descriptor] + nth * request->node->sim->plan->keys);
}

static void record_admission(struct wr_sim_request *request, const struct wr_ask_need *need)
{
	struct wr_sim_node *node = request->node;
	struct wr_sim *sim = node->sim;
	enum wr_sim_admitted_by how = wr_sim_admitted_by(need);
	uint32_t nodes = weir_fleet_nodes(node->table, NULL);
	/* True if the request can make two calls: it has two keys, or it has two limits in a run in
	 * which slots move. For a bucket, at_ns is the time of the last reply. But Redis can have
	 * counted the units of the other call at any time since the request began, so slack_ns is
	 * the time since then. */
	bool parts = request->key_count > 1 ||
		     (sim->plan->second_limit && wr_sim_has_fault(sim, WR_SIM_MOVE));
	struct wr_sim_admission admission = {
		.at_ns = sim->now_ns,
		.at_us = wr_sim_master_us(sim, sim->servers[node->server].master),
		.decided_ns = sim->now_ns,
		.request = request->number,
		.cost = request->cost,
		.nodes = nodes ? nodes : sim->plan->nodes,
		.key = counter_of(request, need),
		.delay_ns = need->need.decision.delay_ns,
		.slack_ns = parts ? sim->now_ns - request->begun_ns : 0,
		.taken_ns = node->reply_ns,
		.term = node->reply_term,
		.node = (uint8_t)node->number,
		.how = (uint8_t)how,
	};

	if (how == WR_SIM_BY_REDIS) {
		set_time(request, need, &admission);
		wr_sim_sentinel_check_admission(request);
	}
	if (wr_sim_is_slots(sim->plan, admission.key))
		admission.cost = 1;
	if (how == WR_SIM_BY_SHARE && wr_sim_is_slots(sim->plan, admission.key))
		wr_sim_check_slots_share(request, &admission);
	else if (how == WR_SIM_BY_SHARE)
		wr_sim_check_known_share(request, &admission);
	if (sim->plan->consistency == WR_EVENTUAL) /* the node's clock determines the window */
		admission.at_us = wr_sim_node_now(node) / 1000;
	if (how == WR_SIM_BY_LEASE) { /* units are spent when the request begins */
		admission.at_us -= (sim->now_ns - request->begun_ns) / 1000;
		admission.at_ns = request->begun_ns;
		node->spent += request->cost;
	}
	wr_sim_trace(sim, node, "admits %llu: key %u, %u, how %u, at %llu",
		     (unsigned long long)request->number, admission.key, admission.cost, how,
		     (unsigned long long)admission.at_us);
	wr_sim_admission_add(sim, admission);
}

static void record_reading(struct wr_sim_request *request)
{
	struct wr_sim *sim = request->node->sim;
	struct wr_sim_reading *reading =
		request->early ? &sim->early[request->keys[0]]
			       : &sim->readings[request->node->number][request->keys[0]];
	struct weir_status status = {.size = sizeof status};

	if (weir_ask_status(request->ask, 0, &status) != 0 || status.flags & WEIR_STATUS_FAILED)
		return;
	/* A probe records the first limit. If there is a second limit, weir_ask_status() perhaps
	 * describes the second one, so the numbers of the first one are read from the ask. */
	if (sim->plan->second_limit) {
		status.limit = request->ask->needs[0].need.decision.limit;
		status.remaining = request->ask->needs[0].need.decision.remaining;
	}
	if (!request->early)
		wr_sim_check_slots_free(request);
	*reading = (struct wr_sim_reading){true,
					   status.limit,
					   status.remaining,
					   sim->now_ns,
					   wr_sim_node_now(request->node) / 1000,
					   request->node->reply_us};
	wr_sim_trace(sim, request->node, "reads %u of %u left for key %u", reading->remaining,
		     reading->limit, request->keys[0]);
}

static void record_verdict(struct wr_sim_request *request, int verdict)
{
	struct wr_sim *sim = request->node->sim;
	const struct weir_ask *ask = request->ask;

	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].decided_by == WR_NEED_CENTRAL)
			wr_sim_known_update(request, &ask->needs[i].need.decision,
					    counter_of(request, &ask->needs[i]));
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].failed) {
			sim->report->failed++;
			break;
		}
	wr_sim_check_debt(request);
	if (request->probe) {
		record_reading(request);
		return;
	}
	if (verdict != WEIR_ADMIT && verdict != WEIR_DELAY) {
		sim->report->refused++;
		wr_sim_trace(sim, request->node, "refuses %llu",
			     (unsigned long long)request->number);
		return;
	}
	sim->report->admitted++;
	if (request->banned)
		wr_sim_fail(sim, "node %u admits request %llu of a banned key",
			    request->node->number, (unsigned long long)request->number);
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].same_as == i)
			record_admission(request, &ask->needs[i]);
}

/* ---- questions to Redis ---- */

void wr_sim_send_messages(struct wr_sim_node *node, struct weir_ask *ask)
{
	uint8_t message[WEIR_QUESTION_MAX];
	int len;

	while ((len = weir_ask_question(ask, message, sizeof message)) > 0)
		if (node->home.central && !node->freeing)
			wr_central_send(node->home.central, message, (size_t)len,
					wr_sim_node_now(node), wr_sim_node_mono(node));
}

/* Returns the number of units that a request used. */
static uint32_t random_actual(struct wr_sim *sim, const struct wr_sim_request *request)
{
	if (wr_rng_percent(&sim->traffic_rng, OWE_PERCENT))
		return request->cost +
		       (uint32_t)wr_rng_between(&sim->traffic_rng, 1, sim->plan->cost_max);
	return (uint32_t)wr_rng_below(&sim->traffic_rng, request->cost + 1u);
}

/* Event: the response of a request has been sent. */
static void settle_request(struct wr_sim *sim, void *object, uint64_t number)
{
	struct wr_sim_request *request = object;
	uint32_t actual;

	if (request->number != number)
		return;
	actual = random_actual(sim, request);
	wr_sim_trace(sim, request->node, "settles %llu: %u of %u", (unsigned long long)number,
		     actual, request->cost);
	if (weir_ask_settle(request->ask, actual, wr_sim_node_now(request->node)) != 0)
		wr_sim_fail(sim, "request %llu cannot be settled", (unsigned long long)number);
	wr_sim_admission_settle(sim, number, actual);
	wr_sim_send_messages(request->node, request->ask);
	request_end(request);
}

static void finish_decision(struct wr_sim_request *request, int verdict)
{
	struct wr_sim *sim = request->node->sim;
	bool admitted = verdict == WEIR_ADMIT || verdict == WEIR_DELAY;

	request->asking = false;
	record_verdict(request, verdict);
	wr_sim_send_messages(request->node, request->ask);
	request->serving = sim->plan->settles && admitted && !request->probe;
	if (request->client_leaves)
		return;
	if (!request->serving) {
		request_end(request);
		return;
	}
	wr_sim_schedule(sim, sim->now_ns + wr_rng_scale(&sim->traffic_rng, 1, sim->plan->hold_ns),
			request->node, settle_request, request, request->number);
}

static void on_reply(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct wr_sim_request *request = wr_container_of(question, struct wr_sim_request, question);
	uint64_t now_ns = wr_sim_node_now(request->node);
	int verdict = len ? weir_ask_answer(request->ask, answer, len, now_ns) : WEIR_EFORMAT;
	bool failed = verdict == WEIR_EFORMAT;

	if (verdict == WEIR_EFORMAT)
		verdict = weir_ask_store_failed(request->ask, now_ns);
	for (uint8_t i = 0; i < request->ask->need_count; i++)
		failed |= request->ask->needs[i].failed;
	wr_sim_check_wait(request, failed);
	if (failed)
		wr_sim_sentinel_check_failure(request);
	finish_decision(request, verdict);
}

static void ask_redis(struct wr_sim_request *request)
{
	struct wr_sim_node *node = request->node;
	uint8_t question[WEIR_QUESTION_MAX];
	int len = weir_ask_question(request->ask, question, sizeof question);

	if (!node->home.central || len <= 0) {
		finish_decision(request,
				weir_ask_store_failed(request->ask, wr_sim_node_now(node)));
		return;
	}
	request->asking = true;
	request->question = (struct wr_central_ask){.done = on_reply};
	wr_central_take(node->home.central, &request->question, question, (size_t)len,
			wr_sim_node_now(node), wr_sim_node_mono(node));
}

/* Event: the client disconnects. */
static void client_leave(struct wr_sim *sim, void *object, uint64_t number)
{
	struct wr_sim_request *request = object;
	bool asked = request->asking;

	if (request->number != number)
		return;
	wr_sim_trace(sim, request->node, "client of %llu leaves", (unsigned long long)number);
	if (asked)
		wr_central_cancel(request->node->home.central, &request->question);
	request->asking = false;
	if (weir_ask_cancel(request->ask, wr_sim_node_now(request->node)) == 0 && !asked)
		wr_sim_send_messages(request->node, request->ask);
	wr_sim_admission_cancel(sim, number);
	request_end(request);
}

/* ---- arrival ---- */

static void start_decision(struct wr_sim_request *request)
{
	int verdict = weir_ask_decide(request->ask, wr_sim_node_now(request->node));

	if (verdict == WEIR_WAIT)
		ask_redis(request);
	else
		finish_decision(request, verdict);
}

static void add_key(struct wr_sim_request *request, uint8_t key)
{
	struct wr_sim *sim = request->node->sim;
	char value[8];
	struct weir_entry entry = {.key = WR_STR("user"), .value = {value, 0}};

	entry.value.len = (size_t)snprintf(value, sizeof value, "u%u", key);
	request->keys[request->key_count++] = key;
	request->banned |= wr_sim_is_banned(request->node, key);
	if (weir_ask_add(request->ask, &entry, 1, NULL, (int64_t)request->cost) != 0)
		wr_sim_fail(sim, "the limiter refused a descriptor");
	wr_sim_arrival_add(sim, key, request->cost);
}

static struct wr_sim_request *request_begin(struct wr_sim_node *node, uint32_t cost)
{
	struct wr_sim_request *request = request_new(node);

	request->cost = cost;
	request->key_count = 0;
	request->probe = request->early = request->banned = request->serving = false;
	if (weir_ask_init(request->memory, WEIR_ASK_BYTES, node->engine, wr_str(WR_SIM_DOMAIN),
			  &request->ask) != 0)
		abort();
	return request;
}

static void request_arrive(struct wr_sim_node *node)
{
	struct wr_sim *sim = node->sim;
	const struct wr_sim_plan *plan = sim->plan;
	uint8_t key = (uint8_t)wr_rng_below(&sim->traffic_rng, plan->keys);
	struct wr_sim_request *request =
		request_begin(node, (uint32_t)wr_rng_between(&sim->traffic_rng, 1, plan->cost_max));

	sim->report->requests++;
	add_key(request, key);
	if (plan->keys > 1 && wr_rng_percent(&sim->traffic_rng, plan->pairs_percent))
		add_key(request, (uint8_t)((key + 1) % plan->keys));
	if (wr_sim_has_fault(sim, WR_SIM_LEAVE) &&
	    wr_rng_percent(&sim->traffic_rng, LEAVE_PERCENT)) {
		uint64_t most_ns = plan->calendar ? plan->half_ns : plan->period_ns;
		uint64_t stay_ns = wr_rng_scale(&sim->traffic_rng, 1000, most_ns / 2);

		request->client_leaves = true;
		wr_sim_schedule(sim, sim->now_ns + stay_ns, node, client_leave, request,
				request->number);
	}
	start_decision(request);
}

/* Begins a request for each key at the node `number`, or at all nodes if `number` is WR_SIM_NODES.
 * A request without cost is a probe: it only reads counters. */
static void request_keys(struct wr_sim *sim, uint64_t number, uint32_t cost)
{
	bool all = number == WR_SIM_NODES;

	for (unsigned i = 0; i < sim->plan->nodes * sim->plan->keys; i++) {
		struct wr_sim_request *request;

		if (!all && i / sim->plan->keys != number)
			continue;
		request = request_begin(&sim->nodes[i / sim->plan->keys], cost);
		sim->report->requests += cost > 0;
		request->probe = cost == 0;
		request->early = !all;
		add_key(request, (uint8_t)(i % sim->plan->keys));
		start_decision(request);
	}
}

void wr_sim_final_requests(struct wr_sim *sim, void *object, uint64_t number)
{
	(void)object;
	if (number == WR_SIM_NODES)
		sim->last_request_ns = sim->now_ns;
	request_keys(sim, number, 1);
}

void wr_sim_probe(struct wr_sim *sim, void *object, uint64_t number)
{
	(void)object;
	request_keys(sim, number, 0);
}

void wr_sim_requests_arrive(struct wr_sim *sim, void *at, uint64_t incarnation)
{
	struct wr_sim_node *node = at;
	uint64_t batch;

	if (node->incarnation != incarnation || sim->now_ns >= sim->plan->length_ns)
		return;
	batch = wr_rng_between(&sim->traffic_rng, 1, sim->plan->batch_max);
	for (uint64_t i = 0; i < batch; i++)
		request_arrive(node);
	wr_sim_schedule(sim,
			sim->now_ns + 1 + wr_rng_below(&sim->traffic_rng, 2 * sim->plan->gap_ns),
			node, wr_sim_requests_arrive, node, incarnation);
}
