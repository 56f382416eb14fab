/* A simulated primary with replicas, and Sentinels that name the primary. net.c and fault.c call
 * these functions.
 *
 * Replicas copy the primary with a delay, so a promoted replica lacks the latest writes. As in
 * Redis 7.0, a primary that was down during an election restarts as a primary and accepts writes
 * until a Sentinel makes it a replica. After that, the old primary refuses writes with READONLY,
 * and its connections are closed or stay open. A Sentinel that is disconnected from the other
 * Sentinels still names the primary that it knew before.
 *
 * An instance is a Redis server, and a term is the time in which one instance is primary. A term
 * begins when the instance is promoted, with the counts that the instance had copied from an
 * earlier term. A term ends when the instance becomes a replica. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/oracle.h"

#define MS 1000000ull
#define WATCH_NS (20 * MS)

static struct wr_sim_master *instance_of(const struct wr_sim *sim, unsigned server)
{
	return sim->servers[server].master;
}

static bool is_down(const struct wr_sim *sim, unsigned endpoint)
{
	return sim->servers[endpoint].down_until_ns > sim->now_ns;
}

static uint64_t random_ns(struct wr_sim *sim, uint64_t low_ns, uint64_t high_ns)
{
	return wr_rng_scale(&sim->fault_rng, low_ns, high_ns);
}

/* ---- replies to clients ---- */

static void reply_role(const struct wr_sim_master *master, struct wr_buf *out)
{
	if (master->redis->replica) {
		wr_sim_reply_array(out, 5);
		wr_sim_reply_bulk(out, WR_STR("slave"));
		wr_sim_reply_bulk(out, WR_STR("10.0.0.1"));
		wr_sim_reply_int(out, WR_SIM_PORT + master->sim->sentinels->primary);
		wr_sim_reply_bulk(out, WR_STR("connected"));
		wr_sim_reply_int(out, 7);
		return;
	}
	wr_sim_reply_array(out, 3);
	wr_sim_reply_bulk(out, WR_STR("master"));
	wr_sim_reply_int(out, 7);
	wr_sim_reply_array(out, 0);
}

/* If the command is a script call that gives units back, marks the current term of this master. The
 * oracle does not check a marked term: if Redis had lost these units before, the call subtracts
 * them from the units of other requests. */
static void record_return(struct wr_sim_master *master, const struct weir_str *argv, size_t argc)
{
	int64_t keys, cost;

	if (!wr_sim_redis_word_is(argv[0], "EVAL") && !wr_sim_redis_word_is(argv[0], "EVALSHA"))
		return;
	if (argc > 3 && wr_sim_redis_parse_int(argv[2], &keys) && argc > 4 + (size_t)keys &&
	    wr_sim_redis_parse_int(argv[4 + keys], &cost) && cost < 0)
		master->sim->sentinels->terms[master->term].returned = true;
}

static bool intercept_data(void *context, const struct weir_str *argv, size_t argc,
			   struct wr_buf *out)
{
	struct wr_sim_master *master = context;

	if (wr_sim_redis_word_is(argv[0], "ROLE")) {
		reply_role(master, out);
		return true;
	}
	record_return(master, argv, argc);
	return false;
}

/* Replies to the command SENTINEL sentinels with all Sentinels except the Sentinel that got the
 * command. */
static void reply_sentinels(const struct wr_sim *sim, unsigned asked, struct wr_buf *out)
{
	wr_sim_reply_array(out, sim->plan->sentinels - 1);
	for (unsigned i = 0; i < sim->plan->sentinels; i++) {
		char port[8];

		if (WR_SIM_SERVERS + i == asked)
			continue;
		snprintf(port, sizeof port, "%u", WR_SIM_PORT + WR_SIM_SERVERS + i);
		wr_sim_reply_array(out, 6);
		wr_sim_reply_bulk(out, WR_STR("name"));
		wr_sim_reply_bulk(out, wr_str(port));
		wr_sim_reply_bulk(out, WR_STR("ip"));
		wr_sim_reply_bulk(out, WR_STR("10.0.0.1"));
		wr_sim_reply_bulk(out, WR_STR("port"));
		wr_sim_reply_bulk(out, wr_str(port));
	}
}

static bool intercept_sentinel(void *context, const struct weir_str *argv, size_t argc,
			       struct wr_buf *out)
{
	const struct wr_sim_master *master = context;
	const struct wr_sim *sim = master->sim;
	uint8_t named = sim->sentinels->view[master->server - WR_SIM_SERVERS];

	if (!wr_sim_redis_word_is(argv[0], "SENTINEL"))
		return false;
	if (argc != 3 || !wr_str_equal(argv[2], WR_STR(WR_SIM_MASTER))) {
		wr_sim_redis_unexpected(master->redis,
					"a Sentinel got a question about an unknown master");
		wr_sim_reply_error(out, "ERR No such master with that name");
	} else if (wr_sim_redis_word_is(argv[1], "get-master-addr-by-name")) {
		char port[8];

		snprintf(port, sizeof port, "%u", WR_SIM_PORT + named);
		wr_sim_reply_array(out, 2);
		wr_sim_reply_bulk(out, WR_STR("10.0.0.1"));
		wr_sim_reply_bulk(out, wr_str(port));
	} else {
		reply_sentinels(sim, master->server, out);
	}
	return true;
}

/* ---- copies ---- */

/* Event: a replica copies the primary, unless the replica or the primary is down or the primary is
 * isolated. */
static void replicate(struct wr_sim *sim, void *object, uint64_t server)
{
	unsigned primary = sim->sentinels->primary;
	struct wr_sim_master *to = instance_of(sim, (unsigned)server);
	const struct wr_sim_master *from = instance_of(sim, primary);

	(void)object;
	if (to->redis->replica && !is_down(sim, (unsigned)server) && !is_down(sim, primary) &&
	    !sim->sentinels->isolated[primary]) {
		wr_sim_redis_copy(to->redis, from->redis);
		to->copied_term = from->term;
		to->copied_ns = sim->now_ns;
	}
	if (sim->now_ns < sim->plan->length_ns)
		wr_sim_schedule(sim, sim->now_ns + random_ns(sim, MS, 300 * MS), NULL, replicate,
				NULL, server);
}

/* ---- elections ---- */

/* Counts Sentinels that are up. If `right` is true, counts those that name the primary. Otherwise
 * counts those that name another instance. */
static unsigned count_sentinels(const struct wr_sim *sim, bool right)
{
	const struct wr_sim_sentinel_state *sentinels = sim->sentinels;
	unsigned count = 0;

	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		count += (sentinels->view[i] == sentinels->primary) == right &&
			 !is_down(sim, WR_SIM_SERVERS + i);
	return count;
}

/* Event: records whether nodes can find the primary, and whether all Sentinels name the primary.
 * Nodes can find the primary if it is up, a Sentinel names it, and no change of roles is
 * scheduled. */
static void watch_primary(struct wr_sim *sim, void *object, uint64_t arg)
{
	struct wr_sim_sentinel_state *sentinels = sim->sentinels;
	unsigned right = count_sentinels(sim, true);

	(void)object;
	(void)arg;
	if (right == 0 || sentinels->pending || is_down(sim, sentinels->primary))
		sentinels->unfindable_ns = sim->now_ns;
	if (right < sim->plan->sentinels)
		sentinels->disagreed_ns = sim->now_ns;
	wr_sim_schedule(sim, sim->now_ns + WATCH_NS, NULL, watch_primary, NULL, 0);
}

/* Event: a Sentinel learns of the latest election. A stale Sentinel learns of the election only
 * after stale_until_ns. */
static void learn_primary(struct wr_sim *sim, void *object, uint64_t sentinel)
{
	struct wr_sim_sentinel_state *sentinels = sim->sentinels;

	(void)object;
	if (sentinels->stale_until_ns[sentinel] > sim->now_ns) {
		wr_sim_schedule(sim, sentinels->stale_until_ns[sentinel], NULL, learn_primary, NULL,
				sentinel);
		return;
	}
	if (sentinels->view[sentinel] != sentinels->primary)
		wr_sim_trace(sim, NULL, "Sentinel %llu names %u", (unsigned long long)sentinel,
			     sentinels->primary);
	sentinels->view[sentinel] = sentinels->primary;
}

/* Makes an old primary a replica. In 60 % of the cases its clients are disconnected. */
static void make_replica(struct wr_sim *sim, unsigned server)
{
	struct wr_sim_master *master = instance_of(sim, server);

	sim->sentinels->isolated[server] = false;
	if (server == sim->sentinels->primary || master->redis->replica)
		return;
	wr_sim_trace(sim, NULL, "%u is a replica now", server);
	master->redis->replica = true;
	master->copied_term = master->term;
	master->copied_ns = sim->now_ns;
	if (wr_rng_percent(&sim->fault_rng, 60))
		wr_sim_disconnect(sim, server, NULL, 100);
}

static void end_old_primary(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	sim->sentinels->pending--;
	make_replica(sim, (unsigned)server);
}

static void begin_term(struct wr_sim *sim, struct wr_sim_master *master, uint32_t parent,
		       uint64_t until_ns)
{
	struct wr_sim_sentinel_state *sentinels = sim->sentinels;

	if (sentinels->term_count == WR_SIM_TERMS) {
		wr_sim_fail(sim, "more failovers than the simulator counts");
		return;
	}
	master->term = sentinels->term_count;
	sentinels->terms[sentinels->term_count++] = (struct wr_sim_term){parent, until_ns, false};
}

/* Returns a random replica that is up, or the primary if no replica is up. */
static unsigned pick_replica(struct wr_sim *sim)
{
	unsigned first = (unsigned)wr_rng_below(&sim->fault_rng, sim->plan->instances);

	for (unsigned i = 0; i < sim->plan->instances; i++) {
		unsigned server = (first + i) % sim->plan->instances;

		if (server != sim->sentinels->primary && !is_down(sim, server) &&
		    instance_of(sim, server)->redis->replica)
			return server;
	}
	return sim->sentinels->primary;
}

/* Promotes a replica. The old primary accepts writes until old_until_ns. Returns false if there is
 * no replica to promote. */
static bool promote_replica(struct wr_sim *sim, uint64_t old_until_ns)
{
	struct wr_sim_sentinel_state *sentinels = sim->sentinels;
	unsigned server = pick_replica(sim);
	struct wr_sim_master *master = instance_of(sim, server);
	unsigned leader = (unsigned)wr_rng_below(&sim->fault_rng, sim->plan->sentinels);

	if (server == sentinels->primary || sentinels->term_count == WR_SIM_TERMS)
		return false;
	wr_sim_trace(sim, NULL, "%u is promoted, with its copy of %llu.%06llu ms", server,
		     (unsigned long long)(master->copied_ns / MS),
		     (unsigned long long)(master->copied_ns % MS));
	begin_term(sim, master, master->copied_term, master->copied_ns);
	if (sim->plan->hide_losses)
		wr_sim_redis_flush(master->redis, true);
	master->redis->replica = false;
	sentinels->primary = (uint8_t)server;
	sentinels->unfindable_ns = sentinels->disagreed_ns = sim->now_ns;
	wr_sim_loss_add(sim, old_until_ns, false);
	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		wr_sim_schedule(sim,
				sim->now_ns + (i == leader ? 0 : random_ns(sim, MS, 1000 * MS)),
				NULL, learn_primary, NULL, i);
	return true;
}

/* ---- faults ---- */

/* Event: an instance that was primary restarts after the election of another instance. The
 * restarted instance is a primary, with or without its data, until a Sentinel makes it a
 * replica. */
static void return_old_primary(struct wr_sim *sim, void *object, uint64_t server)
{
	struct wr_sim_master *master = instance_of(sim, (unsigned)server);
	uint64_t until_ns = sim->now_ns + random_ns(sim, MS, 2000 * MS);

	(void)object;
	if (server == sim->sentinels->primary || sim->now_ns >= sim->plan->length_ns) {
		sim->sentinels->pending--;
		return;
	}
	wr_sim_trace(sim, NULL, "%llu is back as a second primary", (unsigned long long)server);
	memset(master->redis->cached, 0, sizeof master->redis->cached);
	wr_sim_loss_add(sim, until_ns, false);
	if (wr_rng_percent(&sim->fault_rng, 30)) {
		wr_sim_redis_flush(master->redis, true);
		begin_term(sim, master, WR_SIM_TERMS, 0);
	}
	wr_sim_schedule(sim, until_ns, NULL, end_old_primary, NULL, server);
}

/* Event: the Sentinels agree that the primary is down. If the primary is still down, the Sentinels
 * elect another primary. */
static void agree_on_failure(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	sim->sentinels->pending--;
	if (server == sim->sentinels->primary && is_down(sim, (unsigned)server) &&
	    sim->now_ns < sim->plan->length_ns)
		promote_replica(sim, sim->now_ns);
}

static void crash_primary(struct wr_sim *sim)
{
	unsigned server = sim->sentinels->primary;
	uint64_t back_ns = sim->now_ns + random_ns(sim, 100 * MS, 5000 * MS);

	sim->servers[server].down_until_ns = back_ns;
	sim->sentinels->unfindable_ns = sim->now_ns;
	wr_sim_disconnect(sim, server, NULL, 100);
	sim->sentinels->pending += 2;
	wr_sim_schedule(sim, sim->now_ns + random_ns(sim, 50 * MS, 3000 * MS), NULL,
			agree_on_failure, NULL, server);
	wr_sim_schedule(sim, back_ns, NULL, return_old_primary, NULL, server);
}

/* Promotes a replica while the old primary is up, like SENTINEL FAILOVER. The old primary becomes a
 * replica later, after at most most_ns. */
static void start_failover(struct wr_sim *sim, uint64_t most_ns)
{
	unsigned server = sim->sentinels->primary;
	uint64_t until_ns = sim->now_ns + random_ns(sim, MS, most_ns);

	if (promote_replica(sim, until_ns)) {
		sim->sentinels->pending++;
		wr_sim_schedule(sim, until_ns, NULL, end_old_primary, NULL, server);
	}
}

/* Event: the Sentinels replace a primary that neither Sentinels nor replicas can reach. Clients can
 * still reach this primary. */
static void replace_isolated(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	sim->sentinels->pending--;
	if (server == sim->sentinels->primary && sim->now_ns < sim->plan->length_ns)
		start_failover(sim, 10000 * MS);
	if (server == sim->sentinels->primary)
		sim->sentinels->isolated[server] = false;
}

/* Injects WR_SIM_WATCH for a while, in one of four ways: a Sentinel is down, a Sentinel learns of
 * no elections, a Sentinel names a random instance, or a node reaches no Sentinel. */
static void disturb_sentinel(struct wr_sim *sim)
{
	unsigned sentinel = (unsigned)wr_rng_below(&sim->fault_rng, sim->plan->sentinels);
	uint64_t until_ns = sim->now_ns + random_ns(sim, 200 * MS, 15000 * MS);
	struct wr_sim_node *node = &sim->nodes[wr_rng_below(&sim->fault_rng, sim->plan->nodes)];
	uint64_t kind = wr_rng_below(&sim->fault_rng, 6);

	wr_sim_trace(sim, NULL, "Sentinel %u: trouble %llu until %llu ms", sentinel,
		     (unsigned long long)kind, (unsigned long long)(until_ns / MS));
	switch (kind) {
	case 0:
		sim->servers[WR_SIM_SERVERS + sentinel].down_until_ns = until_ns;
		wr_sim_disconnect(sim, WR_SIM_SERVERS + sentinel, NULL, 100);
		if (count_sentinels(
			    sim,
			    false)) /* a Sentinel that nodes can still ask names a wrong primary */
			sim->sentinels->unfindable_ns = sim->now_ns;
		break;
	case 1:
		for (unsigned i = 0; i < sim->plan->sentinels; i++)
			node->cut_until_ns[WR_SIM_SERVERS + i] = until_ns;
		if (until_ns > sim->sentinels->unreachable_until_ns)
			sim->sentinels->unreachable_until_ns = until_ns;
		break;
	case 2:
		sim->sentinels->view[sentinel] =
			(uint8_t)wr_rng_below(&sim->fault_rng, sim->plan->instances);
		sim->sentinels->unfindable_ns = sim->sentinels->disagreed_ns = sim->now_ns;
		/* fallthrough */
	default:
		sim->sentinels->stale_until_ns[sentinel] = until_ns;
		wr_sim_schedule(sim, until_ns, NULL, learn_primary, NULL, sentinel);
	}
}

void wr_sim_sentinel_fault(struct wr_sim *sim, enum wr_sim_fault fault)
{
	unsigned primary = sim->sentinels->primary;

	wr_sim_trace(sim, NULL, "%s of %u", wr_sim_fault_name(fault), primary);
	if (fault == WR_SIM_WATCH) {
		disturb_sentinel(sim);
		return;
	}
	if (sim->sentinels->pending || is_down(sim, primary))
		return;
	if (fault == WR_SIM_SPLIT) {
		sim->sentinels->isolated[primary] = true;
		sim->sentinels->pending++;
		wr_sim_schedule(sim, sim->now_ns + random_ns(sim, 50 * MS, 3000 * MS), NULL,
				replace_isolated, NULL, primary);
		return;
	}
	if (wr_rng_percent(&sim->fault_rng, 60))
		crash_primary(sim);
	else
		start_failover(sim, 500 * MS);
}

/* ---- checks of requests ---- */

/* Returns true if the node had enough time to find the primary between since_ns and the start of
 * the request. Always returns false if replies can take longer than the timeout, or if the run has
 * a fault other than WR_SIM_FAILOVER, WR_SIM_SPLIT and WR_SIM_WATCH. */
static bool had_time(const struct wr_sim_request *request, uint64_t since_ns)
{
	const struct wr_sim *sim = request->node->sim;
	const struct wr_sim_plan *plan = sim->plan;
	unsigned expected = 1u << WR_SIM_FAILOVER | 1u << WR_SIM_SPLIT | 1u << WR_SIM_WATCH;
	uint64_t reply_ns = plan->timeout_ns > 250 * MS ? plan->timeout_ns : 250 * MS;
	/* Nodes find a new primary within 2 s (docs/redis.md). Each Sentinel that does not reply
	 * adds a timeout. */
	uint64_t grace_ns =
		2000 * MS + (plan->sentinels - 1) * reply_ns + wr_sim_max_reply_ns(plan) + WATCH_NS;

	return !(plan->faults & ~expected) && plan->timeout_ns > wr_sim_max_reply_ns(plan) &&
	       request->begun_ns > request->node->started_ns + grace_ns &&
	       request->begun_ns > sim->sentinels->unreachable_until_ns + grace_ns &&
	       request->begun_ns > since_ns + grace_ns;
}

void wr_sim_sentinel_check_failure(const struct wr_sim_request *request)
{
	struct wr_sim *sim = request->node->sim;

	if (sim->sentinels && had_time(request, sim->sentinels->unfindable_ns))
		wr_sim_fail(sim,
			    "node %u decides without Redis at %llu ms; a Sentinel has named the "
			    "primary since %llu ms",
			    request->node->number, (unsigned long long)(sim->now_ns / MS),
			    (unsigned long long)(sim->sentinels->unfindable_ns / MS));
}

void wr_sim_sentinel_check_admission(const struct wr_sim_request *request)
{
	struct wr_sim *sim = request->node->sim;

	if (sim->sentinels && had_time(request, sim->sentinels->disagreed_ns) &&
	    request->node->reply_term != instance_of(sim, sim->sentinels->primary)->term)
		wr_sim_fail(sim,
			    "node %u asks an old primary at %llu ms; all Sentinels have named the "
			    "new one since %llu ms",
			    request->node->number, (unsigned long long)(sim->now_ns / MS),
			    (unsigned long long)(sim->sentinels->disagreed_ns / MS));
}

/* ---- start and end ---- */

void wr_sim_sentinel_add_instance(struct wr_sim *sim, struct wr_sim_master *master)
{
	if (!sim->sentinels)
		return;
	master->redis->intercept =
		master->server < WR_SIM_SERVERS ? intercept_data : intercept_sentinel;
	master->redis->intercept_context = master;
	master->redis->replica =
		master->server != sim->sentinels->primary && master->server < WR_SIM_SERVERS;
}

void wr_sim_sentinel_init(struct wr_sim *sim)
{
	if (!sim->plan->sentinels)
		return;
	sim->sentinels = wr_sim_alloc(1, sizeof *sim->sentinels);
	sim->sentinels->term_count = 1;
	sim->sentinels->terms[0].parent = WR_SIM_TERMS;
}

void wr_sim_sentinel_start(struct wr_sim *sim)
{
	if (!sim->sentinels)
		return;
	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		sim->servers[WR_SIM_SERVERS + i].master =
			wr_sim_master_new(sim, WR_SIM_SERVERS + i, 0);
	for (unsigned i = 0; i < sim->plan->instances; i++)
		replicate(sim, NULL, i);
	watch_primary(sim, NULL, 0);
}

void wr_sim_sentinel_heal(struct wr_sim *sim)
{
	struct wr_sim_sentinel_state *sentinels = sim->sentinels;

	if (!sentinels)
		return;
	for (unsigned i = 0; i < sim->plan->instances; i++)
		make_replica(sim, i);
	for (unsigned i = 0; i < sim->plan->sentinels; i++) {
		sentinels->stale_until_ns[i] = 0;
		sentinels->view[i] = sentinels->primary;
	}
}
