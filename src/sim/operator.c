/* An operator gives orders to random nodes: bans of keys, and grants, which raise the limit of a
 * key. The node publishes an order to the other nodes through Redis (limiter/order.h).
 *
 * These conditions are checked:
 *
 *   A node that knows of a ban admits no requests of the key until the ban ends or is lifted.
 *
 *   While a grant lasts, nodes admit at most the limit plus the grant.
 *
 *   Without faults, an order is in force on all nodes after one second plus the delay of messages.
 *
 *   At the end of the run the same orders are in force on all nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "limiter/order.h"
#include "sim/oracle.h"
#include "rules/rules.h"

#define MS 1000000ull
#define SECOND_NS (1000 * MS)
/* time between check_same() and the final probes, which read all counters */
#define SETTLE_NS (1000 * MS)

static void make_target(unsigned key, char value[8], struct weir_entry *entry,
			struct weir_target *target)
{
	*entry = (struct weir_entry){.key = WR_STR("user"), .value = {value, 0}};
	entry->value.len = (size_t)snprintf(value, 8, "u%u", key);
	*target = (struct weir_target){.size = sizeof *target,
				       .domain = WR_STR(WR_SIM_DOMAIN),
				       .entries = entry,
				       .count = 1};
}

/* ---- orders on a node ---- */

static void apply_order(struct wr_sim_node *node, const struct wr_order *order)
{
	struct weir_str user = order->target->entries[0].value;
	unsigned key = (unsigned)(user.ptr[1] - '0');
	struct weir_error error = {0};

	if (!node->engine)
		return;
	if (wr_order_apply(node->engine, order, wr_sim_node_now(node), &error) < 0)
		wr_sim_fail(node->sim, "node %u: an order failed: %s", node->number, error.text);
	if (order->verb == WR_ORDER_BAN)
		node->banned_until_ns[key] = order->until_ns;
	if (node->home.central)
		wr_central_forget(node->home.central, NULL);
}

void wr_sim_order_received(struct wr_sim_node *node, const void *bytes, size_t len, uint64_t age_ns)
{
	struct wr_order_text text;

	if (!wr_order_read(bytes, len, &text)) {
		wr_sim_fail(node->sim, "node %u cannot parse an order", node->number);
		return;
	}
	if (!wr_order_end(&text, age_ns, wr_sim_node_now(node)))
		return;
	wr_sim_trace(node->sim, node, "receives an order: %u, %u for %.*s, until %llu",
		     text.order.verb, text.order.extra, (int)text.entries[0].value.len,
		     text.entries[0].value.ptr, (unsigned long long)text.order.until_ns);
	apply_order(node, &text.order);
}

bool wr_sim_is_banned(const struct wr_sim_node *node, unsigned key)
{
	return node->banned_until_ns[key] > wr_sim_node_now(node);
}

/* ---- checks ---- */

struct override_state {
	bool banned;
	uint32_t granted;
};

struct override_search {
	char key[32]; /* the key, written like `key` of struct weir_override */
	struct override_state found;
};

static int match_override(void *context, const struct weir_override *override)
{
	struct override_search *search = context;

	if (!wr_str_equal(override->key, wr_str(search->key)))
		return 0;
	search->found = (struct override_state){override->banned_until_ns != 0, override->granted};
	return 1;
}

/* Returns the ban and the grant of the key that are in force on the node. */
static struct override_state node_state(const struct wr_sim_node *node, unsigned key)
{
	struct override_search search = {.found = {0}};

	snprintf(search.key, sizeof search.key, WR_SIM_DOMAIN "|user=u%u", key);
	weir_control_overrides(node->engine, wr_sim_node_now(node), match_override, &search);
	return search.found;
}

/* Returns the latest order with this verb for the key, or NULL if there is no such order. */
static const struct wr_sim_order *last_order(const struct wr_sim *sim, unsigned key, unsigned verb)
{
	for (unsigned i = sim->order_count; i > 0; i--)
		if (sim->orders[i - 1].key == key && sim->orders[i - 1].verb == verb)
			return &sim->orders[i - 1];
	return NULL;
}

/* Returns the longest time that an order needs to arrive at all nodes in a run without faults. */
static uint64_t max_arrival_ns(const struct wr_sim *sim)
{
	return SECOND_NS + wr_sim_max_reply_ns(sim->plan);
}

/* Returns true if an order for the key may still be in flight, or if the end of an order is near.
 * The end of an order is not exact, because a node computes the end from the age of the message and
 * rounds the end to a second. */
static bool is_changing(const struct wr_sim *sim, unsigned key, uint64_t arrival_ns)
{
	for (unsigned i = 0; i < sim->order_count; i++) {
		const struct wr_sim_order *order = &sim->orders[i];

		if (order->key == key &&
		    (order->at_ns + arrival_ns > sim->now_ns ||
		     (order->end_ns != WEIR_NEVER && order->end_ns < sim->now_ns + SECOND_NS &&
		      order->end_ns + 2 * SECOND_NS + arrival_ns > sim->now_ns)))
			return true;
	}
	return false;
}

static void check_node(struct wr_sim *sim, unsigned node, unsigned key,
		       struct override_state wanted)
{
	struct override_state state = node_state(&sim->nodes[node], key);

	if (state.banned != wanted.banned || state.granted != wanted.granted)
		wr_sim_fail(sim,
			    "key %u: node %u has banned %d, granted %u; expected %d, %u at %llu ms",
			    key, node, state.banned, state.granted, wanted.banned, wanted.granted,
			    (unsigned long long)(sim->now_ns / MS));
}

/* Event in runs without faults: checks that the latest orders for the key are in force on all
 * nodes. */
static void check_arrived(struct wr_sim *sim, void *object, uint64_t key)
{
	const struct wr_sim_order *ban = last_order(sim, (unsigned)key, WR_ORDER_BAN);
	const struct wr_sim_order *grant = last_order(sim, (unsigned)key, WR_ORDER_GRANT);
	struct override_state expected = {ban && ban->end_ns > sim->now_ns,
					  grant && grant->end_ns > sim->now_ns ? grant->extra : 0};

	(void)object;
	if (is_changing(sim, (unsigned)key, max_arrival_ns(sim)))
		return;
	for (unsigned i = 0; i < sim->plan->nodes; i++)
		if (sim->nodes[i].table)
			check_node(sim, i, (unsigned)key, expected);
}

/* Event at the end: checks that all nodes have the same bans and grants. Then lifts all bans and
 * grants on all nodes, because the final probes must read counters without grants. */
static void check_same(struct wr_sim *sim, void *object, uint64_t arg)
{
	unsigned gone = 1u << WR_SIM_KILL | 1u << WR_SIM_CRASH;
	/* If all replies take longer than the timeout, central never reaches Redis. An order then
	 * stays on the node that got it, so the nodes are not compared. */
	bool reachable = sim->plan->timeout_ns > 2 * sim->plan->delay_ns;

	(void)object;
	(void)arg;
	for (unsigned key = 0; key < sim->plan->keys; key++) {
		if (sim->loss_count || sim->plan->faults & gone || !reachable ||
		    is_changing(sim, key, 5 * SECOND_NS))
			continue;
		for (unsigned i = 1; i < sim->plan->nodes; i++)
			check_node(sim, i, key, node_state(&sim->nodes[0], key));
	}
	for (unsigned i = 0; i < sim->plan->nodes * sim->plan->keys; i++) {
		struct weir_entry entry;
		struct weir_target target;
		char value[8];

		make_target(i % sim->plan->keys, value, &entry, &target);
		apply_order(&sim->nodes[i / sim->plan->keys],
			    &(struct wr_order){.verb = WR_ORDER_BAN, .target = &target});
		apply_order(&sim->nodes[i / sim->plan->keys],
			    &(struct wr_order){.verb = WR_ORDER_GRANT, .target = &target});
	}
}

uint64_t wr_sim_grant_max(const struct wr_sim *sim, unsigned key, uint64_t from_ns, uint64_t to_ns)
{
	/* Time for which a grant can have an effect after its end, because the end is rounded to a
	 * second, a fault can delay the message, and units of a lease are spent later. */
	uint64_t late_ns = (sim->plan->faults ? 8 : 3) * SECOND_NS + wr_sim_max_reply_ns(sim->plan);
	uint64_t most = 0;

	for (unsigned i = 0; i < sim->order_count; i++) {
		const struct wr_sim_order *order = &sim->orders[i];

		if (order->verb == WR_ORDER_GRANT && key % sim->plan->keys == order->key &&
		    order->at_ns <= to_ns &&
		    (order->end_ns == WEIR_NEVER || order->end_ns + late_ns >= from_ns) &&
		    order->extra > most)
			most = order->extra;
	}
	return most;
}

/* ---- issuing orders ---- */

static void give_order(struct wr_sim *sim, struct wr_sim_node *node,
		       const struct wr_sim_order *given)
{
	struct weir_entry entry;
	struct weir_target target;
	struct wr_order order = {.verb = given->verb, .target = &target, .extra = given->extra};
	uint8_t bytes[WR_CENTRAL_MESSAGE_MAX];
	uint64_t now_ns = wr_sim_node_now(node);
	char value[8];
	size_t len;

	make_target(given->key, value, &entry, &target);
	if (given->end_ns == WEIR_NEVER)
		order.until_ns = WEIR_NEVER;
	else if (given->end_ns > sim->now_ns)
		order.until_ns = now_ns + (given->end_ns - sim->now_ns);
	wr_sim_trace(sim, node, "gets an order: %u, %u for key %u until %llu ms", given->verb,
		     given->extra, given->key, (unsigned long long)(given->end_ns / MS));
	apply_order(node, &order);
	len = wr_order_write(&order, now_ns, bytes, sizeof bytes);
	if (wr_central_publish(node->home.central, bytes, len, wr_sim_node_mono(node)) < 0)
		wr_sim_fail(sim, "node %u cannot publish an order", node->number);
}

static void issue_order(struct wr_sim *sim, void *object, uint64_t arg)
{
	const struct wr_sim_plan *plan = sim->plan;
	struct wr_sim_node *node = &sim->nodes[wr_rng_below(&sim->order_rng, plan->nodes)];
	struct wr_sim_order *one = &sim->orders[sim->order_count];
	bool lifts = wr_rng_percent(&sim->order_rng, 25);

	(void)object;
	(void)arg;
	if (sim->now_ns >= plan->length_ns || sim->order_count == WR_SIM_ORDERS)
		return;
	*one = (struct wr_sim_order){
		.at_ns = sim->now_ns,
		.end_ns = sim->now_ns + wr_rng_scale(&sim->order_rng, 500 * MS, plan->length_ns),
		.key = (uint8_t)wr_rng_below(&sim->order_rng, plan->keys),
		.verb = WR_ORDER_BAN,
	};
	if (plan->consistency != WR_EVENTUAL && wr_rng_percent(&sim->order_rng, 50))
		one->verb = WR_ORDER_GRANT;
	if (one->verb == WR_ORDER_GRANT)
		one->extra = (uint32_t)wr_rng_between(&sim->order_rng, 1, plan->limit);
	if (wr_rng_percent(&sim->order_rng, 20))
		one->end_ns = WEIR_NEVER;
	if (lifts) {
		one->extra = 0;
		one->end_ns = 0;
	}
	if (node->table && node->home.central && node->paused_until_ns <= sim->now_ns) {
		sim->order_count++;
		give_order(sim, node, one);
		if (!plan->faults)
			wr_sim_schedule(sim, sim->now_ns + max_arrival_ns(sim), NULL, check_arrived,
					NULL, one->key);
	}
	wr_sim_schedule(sim,
			sim->now_ns + 1 + wr_rng_below(&sim->order_rng, 2 * plan->order_gap_ns),
			NULL, issue_order, NULL, 0);
}

void wr_sim_orders_start(struct wr_sim *sim)
{
	const struct wr_sim_plan *plan = sim->plan;

	if (!plan->order_gap_ns)
		return;
	sim->order_rng = (struct wr_rng){plan->seed ^ 0x6f70657261746f72u};
	wr_sim_schedule(sim, SECOND_NS / 2, NULL, issue_order, NULL, 0);
	wr_sim_schedule(sim, plan->length_ns + plan->quiet_ns - SETTLE_NS, NULL, check_same, NULL,
			0);
}
