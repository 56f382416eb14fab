/* Makes and runs a fleet for a scenario: see fleet.h. Its requests are in fleet_request.c, and its
 * faults in fleet_fault.c. */
#include "sim/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "rules/rules.h"
#include "sim/fleet_inner.h"

#define MS 1000000ull
#define WARM_NS (3000 * MS) /* least time from the start of the nodes to the start of the traffic */
#define FIRST_NS (1000 * MS) /* time from the first requests to the start of the traffic */
#define GAUGE_NS (5000 * MS) /* time between two readings of weir_overshoot_ratio */
#define RESEND_NS (200 * MS) /* a lost message is sent again after this time */
#define RESENDS 6u           /* most losses of one message */
/* Memory of a table for each key. A key needs 44 bytes. 1/64 of a table is for slots of leases, of
 * 128 bytes, and 1/32 is for slots of the exchange, of 384 bytes. Half of the slots stay free. */
#define KEY_BYTES 128u
#define LEASE_BYTES 16384u
#define EXCHANGE_BYTES 32768u
#define LOG_BYTES 256u /* for each entry of a log: 1/16 of a table is for logs */
#define TABLE_MIN ((uint64_t)256 << 10)
#define TABLES_MAX ((uint64_t)2 << 30) /* most memory of all tables together */

/* ---- network ---- */

uint64_t wr_sim_fleet_delay_ns(struct wr_sim_fleet *fleet, unsigned node, unsigned server)
{
	const struct wr_sim_fleet_path *path =
		&fleet->opts.paths[node * fleet->opts.server_count + server];
	struct wr_rng *rng = &fleet->sim->net_rng;
	uint64_t delay_ns = path->delay_ns;

	if (path->jitter_ns)
		delay_ns += wr_rng_below(rng, path->jitter_ns);
	for (unsigned i = 0; fleet->loss_ppm && i < RESENDS; i++) {
		if (wr_rng_below(rng, 1000000) >= fleet->loss_ppm)
			break;
		delay_ns += RESEND_NS << i;
	}
	return delay_ns;
}

/* ---- running ---- */

void wr_sim_fleet_run(struct wr_sim_fleet *fleet, uint64_t at_ns)
{
	struct wr_sim *sim = fleet->sim;
	struct wr_sim_event *event;

	at_ns += fleet->warm_ns;
	while ((event = wr_sim_event_next(sim, at_ns + 1))) {
		wr_sim_event_run(sim, event);
		free(event);
	}
	if (at_ns > sim->now_ns)
		sim->now_ns = at_ns;
}

static uint64_t sum_redis(const struct wr_sim *sim, bool calls)
{
	uint64_t sum = 0;

	for (const struct wr_sim_master *master = sim->masters; master; master = master->next)
		sum += calls ? master->redis->calls : master->redis->commands;
	return sum;
}

static void add_info(struct wr_sim_fleet *fleet, const struct wr_sim_node *node,
		     struct wr_sim_fleet_totals *totals)
{
	if (!node->home.central)
		return;
	wr_central_info(node->home.central, &fleet->info);
	totals->burnt += fleet->info.counts.units_burnt + fleet->info.counts.returns_lost;
	totals->pushes += fleet->info.counts.pushes;
}

void wr_sim_fleet_note_stop(struct wr_sim_fleet *fleet, const struct wr_sim_node *node)
{
	add_info(fleet, node, &fleet->ended);
	/* Units in the leases of a node that dies can no longer be spent. */
	fleet->ended.burnt += fleet->info.leased_units;
}

void wr_sim_fleet_totals(struct wr_sim_fleet *fleet, struct wr_sim_fleet_totals *totals)
{
	const struct wr_sim *sim = fleet->sim;

	*totals = fleet->ended;
	totals->calls = sum_redis(sim, true) - fleet->warm_calls;
	totals->commands = sum_redis(sim, false) - fleet->warm_commands;
	totals->events = sim->report->events;
	totals->failure = sim->report->failure;
	for (unsigned i = 0; i < fleet->opts.node_count; i++)
		add_info(fleet, &sim->nodes[i], totals);
	for (const struct wr_sim_master *master = sim->masters; master; master = master->next)
		if (master->redis->errors && !totals->failure[0])
			totals->failure = master->redis->error;
}

/* Event: reads weir_overshoot_ratio of all nodes. */
static void read_gauges(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct wr_sim_fleet *fleet = object;

	(void)arg;
	for (unsigned i = 0; i < fleet->opts.node_count; i++) {
		if (!sim->nodes[i].home.central)
			continue;
		wr_central_info(sim->nodes[i].home.central, &fleet->info);
		if (fleet->info.overshoot_ppm > fleet->ended.overshoot_ppm)
			fleet->ended.overshoot_ppm = fleet->info.overshoot_ppm;
	}
	wr_sim_schedule(sim, sim->now_ns + GAUGE_NS, NULL, read_gauges, fleet, 0);
}

/* ---- making and freeing ---- */

static uint64_t longest_delay_ns(const struct wr_sim_fleet_opts *opts)
{
	uint64_t most = 0;

	for (size_t i = 0; i < (size_t)opts->node_count * opts->server_count; i++) {
		uint64_t delay_ns = opts->paths[i].delay_ns + opts->paths[i].jitter_ns;

		most = delay_ns > most ? delay_ns : most;
	}
	return most;
}

/* Returns the size of a table. If there are very many keys, the tables are too small for all slots,
 * as they can be in production. */
static uint64_t table_bytes(const struct wr_sim_fleet_opts *opts)
{
	uint64_t key_bytes = opts->consistency == WR_EVENTUAL ? EXCHANGE_BYTES
			     : opts->consistency == WR_LEASE  ? LEASE_BYTES
							      : KEY_BYTES;
	uint64_t bytes = opts->keys * key_bytes, most = TABLES_MAX / opts->node_count;

	if (opts->algorithm == WEIR_SLIDING_LOG)
		bytes += (uint64_t)opts->keys * opts->limit * LOG_BYTES;
	bytes = bytes < most ? bytes : most;
	return bytes > TABLE_MIN ? bytes : TABLE_MIN;
}

static bool has_room(const char *dir, uint64_t bytes)
{
	struct statvfs fs;

	return statvfs(dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize > bytes;
}

/* Chooses the folder of the tables. A container often has a small /dev/shm. */
static int choose_dir(struct wr_sim_plan *plan, struct weir_error *error)
{
	uint64_t bytes = plan->nodes * (plan->table_bytes + plan->table_bytes / 2 + (512u << 10));

	plan->table_dir = has_room("/dev/shm", bytes) ? "/dev/shm" : "/tmp";
	if (has_room(plan->table_dir, bytes))
		return 0;
	return wr_error(error, WEIR_ENOSPACE,
			"the tables of %u nodes need %llu MB, and neither /dev/shm nor /tmp has as "
			"much room; use fewer nodes or keys",
			plan->nodes, (unsigned long long)(bytes >> 20));
}

static int make_plan(struct wr_sim_fleet *fleet, struct weir_error *error)
{
	const struct wr_sim_fleet_opts *opts = &fleet->opts;
	uint64_t start_ns = WR_SIM_EPOCH_NS + opts->period_ns - 1;

	fleet->warm_ns = WARM_NS + 2 * opts->sync_ns + 8 * longest_delay_ns(opts);
	start_ns -= start_ns % opts->period_ns;
	fleet->plan = (struct wr_sim_plan){.seed = opts->seed,
					   .consistency = opts->consistency,
					   .on_store_failure = opts->on_store_failure,
					   .algorithm = opts->algorithm,
					   .limit = opts->limit,
					   .limit_after = opts->limit,
					   .burst = opts->burst,
					   .queue_size = opts->queue_size,
					   .period_ns = opts->period_ns,
					   .nodes = opts->node_count,
					   .keys = 1,
					   .regions = opts->server_count,
					   .timeout_ns = opts->timeout_ns,
					   .sync_ns = opts->sync_ns,
					   .table_bytes = table_bytes(opts),
					   .epoch_ns = start_ns - fleet->warm_ns};
	return choose_dir(&fleet->plan, error);
}

static void start_node(struct wr_sim *sim, void *object, uint64_t number)
{
	(void)object;
	wr_sim_node_start(sim, (unsigned)number);
}

/* Event: each node gets a request of a key that the traffic does not use, so that Redis knows the
 * scripts when the traffic starts. */
static void make_first_requests(struct wr_sim *sim, void *object, uint64_t arg)
{
	(void)sim;
	(void)arg;
	for (unsigned i = 0; i < ((struct wr_sim_fleet *)object)->opts.node_count; i++)
		wr_sim_fleet_request(object, i, WR_SIM_FLEET_KEYS, 1);
}

static void start(struct wr_sim_fleet *fleet, struct wr_sim_lua *lua)
{
	const struct wr_sim_fleet_opts *opts = &fleet->opts;
	struct wr_sim *sim = wr_sim_alloc(1, sizeof *sim);
	struct wr_rng rng = {opts->seed};

	fleet->sim = sim;
	*sim = (struct wr_sim){.plan = &fleet->plan,
			       .report = &fleet->report,
			       .lua = lua,
			       .fleet = fleet,
			       .net_rng = wr_rng_fork(&rng),
			       .fault_rng = wr_rng_fork(&rng)};
	sim->nodes = wr_sim_alloc(opts->node_count, sizeof *sim->nodes);
	wr_sim_events_init(sim);
	wr_sim_servers_init(sim, opts->server_count);
	wr_sim_servers_start(sim);
	/* Nodes start at different times, so that their exchanges are not synchronized. */
	for (unsigned i = 0; i < opts->node_count; i++) {
		wr_sim_node_init(sim, i, opts->node_servers[i]);
		wr_sim_schedule(sim, wr_rng_below(&sim->fault_rng, opts->sync_ns + 100 * MS), NULL,
				start_node, NULL, i);
	}
	wr_sim_schedule(sim, fleet->warm_ns - FIRST_NS, NULL, make_first_requests, fleet, 0);
	if (opts->consistency == WR_EVENTUAL)
		wr_sim_schedule(sim, fleet->warm_ns + GAUGE_NS, NULL, read_gauges, fleet, 0);
}

int wr_sim_fleet_new(const struct wr_sim_fleet_opts *opts, struct wr_sim_lua *lua,
		     struct wr_sim_fleet **out, struct weir_error *error)
{
	struct wr_sim_fleet *fleet = wr_sim_alloc(1, sizeof *fleet);
	int rc;

	wr_assert(opts->node_count && opts->server_count && opts->period_ns && opts->decided);
	fleet->opts = *opts;
	wr_list_init(&fleet->waiting);
	rc = make_plan(fleet, error);
	if (rc != 0) {
		free(fleet);
		return rc;
	}
	start(fleet, lua);
	wr_sim_fleet_run(fleet, 0);
	fleet->warm_calls = sum_redis(fleet->sim, true);
	fleet->warm_commands = sum_redis(fleet->sim, false);
	*out = fleet;
	return 0;
}

void wr_sim_fleet_free(struct wr_sim_fleet *fleet)
{
	struct wr_sim *sim;

	if (!fleet)
		return;
	sim = fleet->sim;
	for (unsigned i = 0; i < fleet->opts.node_count; i++) {
		wr_sim_fleet_end_requests(&sim->nodes[i]);
		wr_sim_node_stop(&sim->nodes[i]);
		wr_sim_node_free(&sim->nodes[i]);
	}
	while (fleet->spare) {
		struct fleet_request *request = fleet->spare;

		fleet->spare = request->spare_next;
		free(request->memory);
		free(request);
	}
	wr_sim_net_free(sim);
	wr_sim_events_free(sim);
	free(sim->nodes);
	free(sim);
	free(fleet);
}
