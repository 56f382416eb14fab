/* The requests of a fleet: how they arrive at a node, ask Redis, and are decided. */
#include <stdlib.h>

#include "base/str.h"
#include "limiter/ask.h"
#include "sim/fleet_inner.h"

static struct fleet_request *request_new(struct wr_sim_fleet *fleet, struct wr_sim_node *node)
{
	struct fleet_request *request = fleet->spare;

	if (request) {
		fleet->spare = request->spare_next;
	} else {
		request = wr_sim_alloc(1, sizeof *request);
		request->memory = aligned_alloc(64, WEIR_ASK_BYTES);
		if (!request->memory)
			wr_sim_no_memory();
	}
	request->node = node;
	request->begun_ns = fleet->sim->now_ns;
	return request;
}

static void request_end(struct fleet_request *request)
{
	struct wr_sim_fleet *fleet = request->node->sim->fleet;

	weir_ask_done(request->ask);
	if (wr_list_holds(&request->link))
		wr_list_remove(&request->link);
	request->spare_next = fleet->spare;
	fleet->spare = request;
}

static void report(const struct fleet_request *request, bool admitted,
		   enum wr_sim_fleet_decider decider, uint64_t counted_ns)
{
	const struct wr_sim *sim = request->node->sim;
	const struct wr_sim_fleet *fleet = sim->fleet;
	struct wr_sim_fleet_verdict verdict = {.node = request->node->number,
					       .key = request->key,
					       .cost = request->cost,
					       .admitted = admitted,
					       .decider = decider,
					       .begun_ns = request->begun_ns - fleet->warm_ns,
					       .counted_ns = counted_ns - fleet->warm_ns,
					       .decided_ns = sim->now_ns - fleet->warm_ns};

	if (request->key != WR_SIM_FLEET_KEYS)
		fleet->opts.decided(fleet->opts.context, &verdict);
}

static enum wr_sim_fleet_decider decider_of(const struct wr_ask_need *need)
{
	if (need->failed)
		return WR_SIM_FLEET_FAILURE;
	switch (need->decided_by) {
	case WR_NEED_CENTRAL:
		return WR_SIM_FLEET_REDIS;
	case WR_NEED_LEASED:
		return WR_SIM_FLEET_LEASE;
	default:
		return WR_SIM_FLEET_TABLE;
	}
}

/* Reports the verdict and ends the request. If `replied` is set, the verdict comes from the reply
 * that the node has just received. */
static void finish(struct fleet_request *request, int verdict, bool replied)
{
	struct wr_sim_node *node = request->node;
	bool admitted = verdict == WEIR_ADMIT || verdict == WEIR_DELAY;
	enum wr_sim_fleet_decider decider = decider_of(&request->ask->needs[0]);

	report(request, admitted, decider,
	       replied && decider == WR_SIM_FLEET_REDIS ? node->reply_ns : node->sim->now_ns);
	if (node->home.central)
		wr_sim_send_messages(node, request->ask);
	request_end(request);
}

static void on_reply(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct fleet_request *request = wr_container_of(question, struct fleet_request, question);
	uint64_t now_ns = wr_sim_node_now(request->node);
	int verdict = len ? weir_ask_answer(request->ask, answer, len, now_ns) : WEIR_EFORMAT;

	if (verdict == WEIR_EFORMAT)
		verdict = weir_ask_store_failed(request->ask, now_ns);
	finish(request, verdict, !request->node->sim->fleet->asking);
}

static void ask_redis(struct fleet_request *request)
{
	struct wr_sim_node *node = request->node;
	struct wr_sim_fleet *fleet = node->sim->fleet;
	uint8_t question[WEIR_QUESTION_MAX];
	int len = weir_ask_question(request->ask, question, sizeof question);

	if (!node->home.central || len <= 0) {
		finish(request, weir_ask_store_failed(request->ask, wr_sim_node_now(node)), false);
		return;
	}
	wr_list_add_last(&fleet->waiting, &request->link);
	request->question = (struct wr_central_ask){.done = on_reply};
	fleet->asking = true;
	wr_central_take(node->home.central, &request->question, question, (size_t)len,
			wr_sim_node_now(node), wr_sim_node_mono(node));
	fleet->asking = false;
}

/* Writes the text of a key: 'u' and the number in decimal. Returns the length. */
static size_t key_text(uint32_t key, char text[16])
{
	char digits[10];
	size_t count = 0, len = 0;

	do {
		digits[count++] = (char)('0' + key % 10);
		key /= 10;
	} while (key);
	text[len++] = 'u';
	while (count)
		text[len++] = digits[--count];
	return len;
}

static void begin_ask(struct fleet_request *request, uint32_t key, uint32_t cost)
{
	char text[16];
	struct weir_entry entry = {.key = WR_STR("user"), .value = {text, key_text(key, text)}};

	request->key = key;
	request->cost = cost;
	if (weir_ask_init(request->memory, WEIR_ASK_BYTES, request->node->engine,
			  WR_STR(WR_SIM_DOMAIN), &request->ask) != 0 ||
	    weir_ask_add(request->ask, &entry, 1, NULL, (int64_t)cost) != 0)
		wr_sim_fail(request->node->sim, "the limiter refused a descriptor");
}

bool wr_sim_fleet_request(struct wr_sim_fleet *fleet, unsigned node, uint32_t key, uint32_t cost)
{
	struct wr_sim_node *at = &fleet->sim->nodes[node];
	struct fleet_request *request;
	int verdict;

	if (!at->table)
		return false;
	request = request_new(fleet, at);
	begin_ask(request, key, cost);
	verdict = weir_ask_decide(request->ask, wr_sim_node_now(at));
	if (verdict == WEIR_WAIT)
		ask_redis(request);
	else
		finish(request, verdict, false);
	wr_sim_output_send(fleet->sim);
	return true;
}

uint32_t wr_sim_fleet_used(struct wr_sim_fleet *fleet, unsigned node, uint32_t key)
{
	struct wr_sim_node *at = &fleet->sim->nodes[node];
	struct weir_status status = {.size = sizeof status};
	struct fleet_request *request;
	uint32_t used = UINT32_MAX;

	if (!at->table)
		return used;
	request = request_new(fleet, at);
	begin_ask(request, key, 0);
	if (weir_ask_decide(request->ask, wr_sim_node_now(at)) != WEIR_WAIT &&
	    weir_ask_status(request->ask, 0, &status) == 0)
		used = status.limit - status.remaining;
	request_end(request);
	return used;
}

uint64_t wr_sim_fleet_oldest_ns(const struct wr_sim_fleet *fleet)
{
	const struct wr_list *first = wr_list_first(&fleet->waiting);
	uint64_t oldest_ns =
		first ? wr_container_of(first, const struct fleet_request, link)->begun_ns
		      : fleet->sim->now_ns;

	return oldest_ns > fleet->warm_ns ? oldest_ns - fleet->warm_ns : 0;
}

void wr_sim_fleet_end_requests(struct wr_sim_node *node)
{
	struct wr_sim_fleet *fleet = node->sim->fleet;
	struct wr_list *next = wr_list_first(&fleet->waiting);

	while (next) {
		struct fleet_request *request = wr_container_of(next, struct fleet_request, link);

		next = wr_list_after(&fleet->waiting, next);
		if (request->node != node)
			continue;
		wr_central_cancel(node->home.central, &request->question);
		report(request, false, WR_SIM_FLEET_NONE, node->sim->now_ns);
		request_end(request);
	}
}
