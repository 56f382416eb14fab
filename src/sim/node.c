/* Simulates a node of the fleet: its clocks, table and rules, and its `weir serve`. sim.c, fault.c
 * and renew.c start and stop nodes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "sim/sim_inner.h"
#include "limiter/engine.h"
#include "rules/rules.h"
#include "table/table.h"

#define TABLE_BYTES ((uint64_t)256 << 10)

/* ---- clocks ---- */

uint64_t wr_sim_node_now(const struct wr_sim_node *node)
{
	return (uint64_t)((int64_t)(wr_sim_epoch_ns(node->sim->plan) + node->sim->now_ns) +
			  node->skew_ns);
}

uint64_t wr_sim_node_mono(const struct wr_sim_node *node)
{
	int64_t now_ns = (int64_t)node->sim->now_ns;

	return (uint64_t)(1000000000ll * (node->number + 1) + now_ns +
			  now_ns / 1000000 * node->drift_ppm);
}

/* ---- rules ---- */

_Noreturn static void stop_simulator(const char *what, const char *why)
{
	fprintf(stderr, "sim: %s: %s\n", what, why);
	abort();
}

static struct weir_rules *load_rules(const struct wr_buf *text)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;
	char path[64], error[1024];
	int fd = memfd_create("rules", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text->ptr, text->len) != (ssize_t)text->len)
		stop_simulator("rules", "cannot write a file in memory");
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (weir_rules_load(path, &rules, &errors) != 0) {
		for (size_t i = 0; i < errors.count; i++) {
			weir_diagnostic_text(&errors.items[i], error, sizeof error);
			fputs(error, stderr);
		}
		stop_simulator("rules", "the generated rules have errors");
	}
	weir_errors_free(&errors);
	close(fd);
	return rules;
}

/* Appends the beginning of a limit in YAML. The caller appends the period and the other
 * settings. */
static void append_limit(struct wr_buf *text, const struct wr_sim_plan *plan, uint32_t limit,
			 uint32_t algorithm)
{
	static const char *const consistencies[] = {
#define NAME(enum, number, name) [enum] = (name),
		WR_CONSISTENCIES(NAME)};
	static const char *const failures[] = {WR_STORE_FAILURES(NAME)
#undef NAME
	};

	wr_buf_printf(text,
		      "      - {requests_per_unit: %u, algorithm: %s, consistency: %s, "
		      "on_store_failure: %s, ",
		      limit, weir_algorithm_name((int)algorithm), consistencies[plan->consistency],
		      failures[plan->on_store_failure]);
}

static void append_period(struct wr_buf *text, uint64_t period_ns)
{
	wr_buf_printf(text, "period: %llums", (unsigned long long)(period_ns / 1000000));
}

/* Appends a limit on concurrent requests, which is always strict. */
static void append_slots(struct wr_buf *text, const struct wr_sim_plan *plan)
{
	static const char *const failures[] = {
#define NAME(enum, number, name) [enum] = (name),
		WR_STORE_FAILURES(NAME)
#undef NAME
	};

	wr_buf_printf(text,
		      "      - {concurrent: %u, max_hold: %llums, consistency: strict, "
		      "on_store_failure: %s}\n",
		      plan->second_limit, (unsigned long long)(plan->second_period_ns / 1000000),
		      failures[plan->on_store_failure]);
}

static struct weir_rules *make_rules(const struct wr_sim_plan *plan, uint32_t limit)
{
	char memory[1024];
	struct wr_buf text;

	wr_buf_init_fixed(&text, memory, sizeof memory);
	wr_buf_add_str(&text, WR_STR("domain: " WR_SIM_DOMAIN
				     "\ndescriptors:\n  - key: user\n    rate_limits:\n"));
	append_limit(&text, plan, limit, plan->algorithm);
	if (plan->calendar)
		wr_sim_calendar_text(plan, &text);
	else
		append_period(&text, plan->period_ns);
	if (plan->queue_size)
		wr_buf_printf(&text, ", queue_size: %u", plan->queue_size);
	else if (plan->burst)
		wr_buf_printf(&text, ", burst: %u", plan->burst);
	if (plan->soft_percent)
		wr_buf_printf(&text, ", mode: soft, soft: {overshoot: %u%%, for: %llums}",
			      plan->soft_percent, (unsigned long long)(plan->period_ns / 2000000));
	if (plan->settles && plan->max_debt >= 0)
		wr_buf_printf(&text, ", max_debt: %lld", (long long)plan->max_debt);
	wr_buf_printf(&text, "%s}\n", plan->count_rejected ? ", count_rejected: true" : "");
	if (plan->second_limit && plan->second_algorithm == WEIR_CONCURRENT) {
		append_slots(&text, plan);
	} else if (plan->second_limit) {
		append_limit(&text, plan, plan->second_limit, plan->second_algorithm);
		append_period(&text, plan->second_period_ns);
		wr_buf_add_str(&text, WR_STR("}\n"));
	}
	wr_assert(!wr_buf_failed(&text));
	return load_rules(&text);
}

void wr_sim_node_rules(struct wr_sim_node *node, uint32_t limit)
{
	node->limit = limit;
	/* Requests in flight keep the old limit until they are decided. During this time nodes have
	 * different limits, so the time is recorded as a loss. */
	wr_sim_loss_add(node->sim, node->sim->now_ns + WR_SIM_SETTLED_NS, true);
	if (!node->engine)
		return;
	wr_sim_trace(node->sim, node, "limit %u", limit);
	if (weir_engine_swap(node->engine, make_rules(node->sim->plan, limit),
			     wr_sim_node_now(node)) != 0)
		stop_simulator("rules", "no memory");
}

/* ---- serve ---- */

static void client_start(struct wr_sim_client *client, struct wr_sim_node *node, unsigned server)
{
	static const uint8_t secret[WR_CENTRAL_SECRET] = "the fleet's";
	static const char *const names[] = {"eu", "us", "asia"};
	bool home = client == &node->home;
	char region[16];
	struct wr_central_opts opts = {
		.target = &client->target,
		.secret = secret,
		.timeout_ns = node->sim->plan->timeout_ns,
		.holder = {node->table->header.table_id[0], node->table->header.table_id[1]},
		.chief = home,
		.seed = wr_rng_next(&node->rng),
		.table = home ? node->table : NULL,
		.owner = wr_rng_next(&node->rng) | 1,
		.fleet_size = node->sim->plan->nodes,
		.sync_ns = home ? node->sim->plan->sync_ns : 0,
		.region = region,
	};
	struct weir_error error;
	char url[64];

	client->node = node;
	if (node->server < sizeof names / sizeof *names)
		snprintf(region, sizeof region, "%s", names[node->server]);
	else
		snprintf(region, sizeof region, "r%u", node->server);
	/* the node learns the addresses of the other Sentinels from the first Sentinel */
	if (node->sim->sentinels)
		snprintf(url, sizeof url, "redis+sentinel://10.0.0.1:%u/" WR_SIM_MASTER,
			 WR_SIM_PORT + WR_SIM_SERVERS);
	else
		snprintf(url, sizeof url, "redis%s://10.0.0.1:%u",
			 node->sim->cluster ? "+cluster" : "", WR_SIM_PORT + server);
	if (wr_redis_target_parse(wr_str(url), &client->target, &error) != 0)
		stop_simulator("url", error.text);
	if (wr_central_new(&opts, &wr_sim_host, client, wr_sim_node_now(node),
			   wr_sim_node_mono(node), &client->central, &error) != 0)
		stop_simulator("central", error.text);
}

static void client_stop(struct wr_sim_client *client)
{
	if (!client->central)
		return;
	wr_central_free(client->central);
	client->central = NULL;
	client->wake_number++;
}

void wr_sim_serve_start(struct wr_sim_node *node)
{
	if (node->sim->plan->consistency == WR_LOCAL) /* such a limit needs no Redis */
		return;
	wr_sim_trace(node->sim, node, "serve starts");
	node->started_ns = node->sim->now_ns;
	node->timeouts = 0; /* a new `weir serve` starts with a closed circuit breaker */
	client_start(&node->home, node, node->server);
	for (unsigned i = 0, other = 0; i < node->sim->plan->regions; i++) {
		if (i == node->server)
			continue;
		client_start(&node->peers[other], node, i);
		wr_central_add_region(node->home.central, node->peers[other++].central);
	}
}

void wr_sim_serve_stop(struct wr_sim_node *node)
{
	if (!node->home.central)
		return;
	wr_sim_trace(node->sim, node, "serve dies");
	node->freeing = true;
	if (node->sim->fleet)
		wr_sim_fleet_note_stop(node->sim->fleet, node);
	for (unsigned i = 0; i + 1 < node->sim->plan->regions; i++)
		client_stop(&node->peers[i]);
	client_stop(&node->home);
	wr_sim_node_send(node);
	node->freeing = false;
}

/* ---- machines ---- */

/* Creates a table. Its ids and its secret come from the seed, so that runs can be repeated. */
static struct weir_table *table_new(struct wr_sim_node *node)
{
	static unsigned number;
	const struct wr_sim_plan *plan = node->sim->plan;
	struct weir_opts opts = {.size = sizeof opts,
				 .dir = plan->table_dir ? plan->table_dir : "/dev/shm",
				 .memory_bytes =
					 plan->table_bytes ? plan->table_bytes : TABLE_BYTES};
	struct weir_table *table;
	struct weir_error error = {0};
	char name[64];

	snprintf(name, sizeof name, "weir-sim-%d-%u", (int)getpid(), number++);
	opts.name = name;
	if (weir_open(&opts, &table, &error) != 0)
		stop_simulator("table", error.text);
	weir_remove(name, opts.dir, NULL);
	table->header.table_id[0] = wr_rng_next(&node->rng);
	table->header.table_id[1] = wr_rng_next(&node->rng);
	for (size_t i = 0; i < sizeof table->header.secret; i++)
		table->header.secret[i] = (uint8_t)wr_rng_next(&node->rng);
	return table;
}

static uint64_t read_mono(void *context)
{
	return wr_sim_node_mono(context);
}

static void engine_new(struct wr_sim_node *node)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = "the fleet's";
	struct weir_engine_opts opts = {.size = sizeof opts,
					.flags = WEIR_ENGINE_CENTRAL | WEIR_ENGINE_NO_STATS,
					.fleet_secret = secret,
					.fleet_size = node->sim->plan->nodes,
					.now_ns = wr_sim_node_now(node)};

	if (weir_engine_new(node->table, make_rules(node->sim->plan, node->limit), &opts,
			    &node->engine) != 0)
		stop_simulator("engine", "no memory");
	node->engine->mono = read_mono;
	node->engine->mono_context = node;
}

void wr_sim_node_init(struct wr_sim *sim, unsigned number, unsigned server)
{
	struct wr_sim_node *node = &sim->nodes[number];

	node->sim = sim;
	node->number = number;
	node->server = server;
	node->peers = wr_sim_alloc(sim->plan->regions, sizeof *node->peers);
	node->cut_until_ns = wr_sim_alloc(sim->endpoints, sizeof *node->cut_until_ns);
	node->rng = wr_rng_fork(&sim->fault_rng);
	node->limit = sim->plan->limit;
	node->drift_ppm = (int64_t)wr_rng_below(&node->rng, 81) - 40;
	if (wr_sim_has_fault(sim, WR_SIM_SKEW))
		node->skew_ns = (int64_t)wr_rng_below(&node->rng, 4000000000u) - 2000000000;
	/* Some nodes have a clock that is several windows ahead. This tests that the counts of the
	 * other nodes are not dropped as too old. */
	if (wr_sim_has_fault(sim, WR_SIM_SKEW) && sim->plan->consistency == WR_EVENTUAL &&
	    !sim->plan->calendar &&
	    (sim->plan->ahead ? number < sim->plan->ahead : wr_rng_percent(&node->rng, 25)))
		node->skew_ns +=
			(int64_t)(sim->plan->period_ns * wr_rng_between(&node->rng, 3, 10));
}

void wr_sim_node_free(struct wr_sim_node *node)
{
	free(node->peers);
	free(node->cut_until_ns);
}

void wr_sim_node_start(struct wr_sim *sim, unsigned number)
{
	struct wr_sim_node *node = &sim->nodes[number];
	uint64_t from_ns;

	wr_sim_trace(sim, node, "starts");
	node->table = table_new(node);
	engine_new(node);
	wr_sim_serve_start(node);
	if (sim->fleet) /* the caller of fleet.c makes the traffic */
		return;
	/* The first batch of requests arrives at a random time up to gap_ns after from_ns. */
	from_ns = sim->now_ns > sim->plan->begin_ns ? sim->now_ns : sim->plan->begin_ns;
	wr_sim_schedule(sim, from_ns + wr_rng_below(&sim->traffic_rng, sim->plan->gap_ns + 1), node,
			wr_sim_requests_arrive, node, node->incarnation);
}

void wr_sim_node_stop(struct wr_sim_node *node)
{
	if (!node->table)
		return;
	wr_sim_trace(node->sim, node, "dies");
	node->incarnation++;
	wr_sim_requests_end(node);
	wr_sim_serve_stop(node);
	weir_engine_free(node->engine);
	weir_close(node->table);
	node->engine = NULL;
	node->table = NULL;
	memset(node->known, 0, sizeof node->known);
	memset(node->banned_until_ns, 0, sizeof node->banned_until_ns);
}
