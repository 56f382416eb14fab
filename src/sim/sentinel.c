/* A primary with replicas, and Sentinels that say who it is.
 *
 * Replicas copy the primary some moments later, so one that is promoted lacks the last writes. As
 * in Redis 7.0: a primary that was away while another one was elected comes back as what it was,
 * and takes writes until a Sentinel makes it a replica; then it refuses writes with READONLY, its
 * connections are closed or stay. A Sentinel that is cut off from the others names the primary it
 * knew.
 *
 * A life is what one primary counted: it begins when an instance is promoted, with what that one
 * had copied of an earlier life, and ends when it is made a replica. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/oracle.h"

#define MS 1000000ull
#define LOOK_NS (20 * MS)

static struct wr_sim_master *instance(const struct wr_sim *sim, unsigned server)
{
	return sim->servers[server].master;
}

static bool is_away(const struct wr_sim *sim, unsigned place)
{
	return sim->servers[place].away_until_ns > sim->now_ns;
}

static uint64_t roll(struct wr_sim *sim, uint64_t low_ns, uint64_t high_ns)
{
	return wr_dice_scale(&sim->fate, low_ns, high_ns);
}

/* ---- what clients are told ---- */

static void tell_role(const struct wr_sim_master *master, struct wr_bytes *out)
{
	if (master->mini->replica) {
		wr_mini_array(out, 5);
		wr_mini_bulk(out, WR_STR("slave"));
		wr_mini_bulk(out, WR_STR("10.0.0.1"));
		wr_mini_int(out, WR_SIM_PORT + master->sim->watch->primary);
		wr_mini_bulk(out, WR_STR("connected"));
		wr_mini_int(out, 7);
		return;
	}
	wr_mini_array(out, 3);
	wr_mini_bulk(out, WR_STR("master"));
	wr_mini_int(out, 7);
	wr_mini_array(out, 0);
}

/* A give-back lowers a count. If what it gives back was lost, it lowers what others took. */
static void note_return(struct wr_sim_master *master, const struct weir_str *argv, size_t argc)
{
	int64_t keys, cost;

	if (!wr_mini_is(argv[0], "EVAL") && !wr_mini_is(argv[0], "EVALSHA"))
		return;
	if (argc > 3 && wr_mini_number(argv[2], &keys) && argc > 4 + (size_t)keys &&
	    wr_mini_number(argv[4 + keys], &cost) && cost < 0)
		master->sim->watch->lives[master->life].returned = true;
}

static bool data_gate(void *context, const struct weir_str *argv, size_t argc, struct wr_bytes *out)
{
	struct wr_sim_master *master = context;

	if (wr_mini_is(argv[0], "ROLE")) {
		tell_role(master, out);
		return true;
	}
	note_return(master, argv, argc);
	return false;
}

static void put_place(struct wr_bytes *out, unsigned place)
{
	char port[8];

	snprintf(port, sizeof port, "%u", WR_SIM_PORT + place);
	wr_mini_bulk(out, WR_STR("10.0.0.1"));
	wr_mini_bulk(out, wr_str(port));
}

/* SENTINEL sentinels: all but the one that is asked. */
static void tell_sentinels(const struct wr_sim *sim, unsigned asked, struct wr_bytes *out)
{
	wr_mini_array(out, sim->plan->sentinels - 1);
	for (unsigned i = 0; i < sim->plan->sentinels; i++) {
		char port[8];

		if (WR_SIM_SERVERS + i == asked)
			continue;
		snprintf(port, sizeof port, "%u", WR_SIM_PORT + WR_SIM_SERVERS + i);
		wr_mini_array(out, 6);
		wr_mini_bulk(out, WR_STR("name"));
		wr_mini_bulk(out, wr_str(port));
		wr_mini_bulk(out, WR_STR("ip"));
		wr_mini_bulk(out, WR_STR("10.0.0.1"));
		wr_mini_bulk(out, WR_STR("port"));
		wr_mini_bulk(out, wr_str(port));
	}
}

static bool sentinel_gate(void *context, const struct weir_str *argv, size_t argc,
			  struct wr_bytes *out)
{
	const struct wr_sim_master *master = context;
	const struct wr_sim *sim = master->sim;
	uint8_t named = sim->watch->view[master->server - WR_SIM_SERVERS];

	if (!wr_mini_is(argv[0], "SENTINEL"))
		return false;
	if (argc != 3 || !wr_str_equal(argv[2], WR_STR(WR_SIM_MASTER))) {
		wr_mini_fault(master->mini, "a Sentinel is asked for another master");
		wr_mini_error(out, "ERR No such master with that name");
	} else if (wr_mini_is(argv[1], "get-master-addr-by-name")) {
		wr_mini_array(out, 2);
		put_place(out, named);
	} else {
		tell_sentinels(sim, master->server, out);
	}
	return true;
}

/* ---- copies ---- */

static void copy(struct wr_sim *sim, unsigned server)
{
	struct wr_sim_master *to = instance(sim, server);
	const struct wr_sim_master *from = instance(sim, sim->watch->primary);

	wr_mini_copy(to->mini, from->mini);
	to->copied_life = from->life;
	to->copied_ns = sim->now_ns;
}

static void replicate(struct wr_sim *sim, void *object, uint64_t server)
{
	unsigned primary = sim->watch->primary;

	(void)object;
	if (instance(sim, (unsigned)server)->mini->replica && !is_away(sim, (unsigned)server) &&
	    !is_away(sim, primary) && !sim->watch->isolated[primary])
		copy(sim, (unsigned)server);
	if (sim->now_ns < sim->plan->length_ns)
		wr_sim_at(sim, sim->now_ns + roll(sim, MS, 300 * MS), NULL, replicate, NULL,
			  server);
}

/* ---- elections ---- */

/* Whether the fleet can find the primary: it is there, nothing is about to happen to it, and some
 * Sentinel names it. */
static bool is_findable(const struct wr_sim *sim)
{
	const struct wr_sim_watch *watch = sim->watch;
	bool named = false;

	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		named |= watch->view[i] == watch->primary && !is_away(sim, WR_SIM_SERVERS + i);
	return named && !watch->pending && !is_away(sim, watch->primary);
}

/* Whether all say so. */
static bool is_agreed(const struct wr_sim *sim)
{
	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		if (sim->watch->view[i] != sim->watch->primary || is_away(sim, WR_SIM_SERVERS + i))
			return false;
	return true;
}

static void look(struct wr_sim *sim, void *object, uint64_t word)
{
	struct wr_sim_watch *watch = sim->watch;

	(void)object;
	(void)word;
	if (!is_findable(sim))
		watch->lost_ns = sim->now_ns;
	if (!is_agreed(sim))
		watch->torn_ns = sim->now_ns;
	wr_sim_at(sim, sim->now_ns + LOOK_NS, NULL, look, NULL, 0);
}

/* A Sentinel hears of the last election, unless it is cut off. */
static void hear(struct wr_sim *sim, void *object, uint64_t sentinel)
{
	struct wr_sim_watch *watch = sim->watch;

	(void)object;
	if (watch->stale_until_ns[sentinel] > sim->now_ns) {
		wr_sim_at(sim, watch->stale_until_ns[sentinel], NULL, hear, NULL, sentinel);
		return;
	}
	if (watch->view[sentinel] != watch->primary)
		wr_sim_note(sim, NULL, "Sentinel %llu names %u", (unsigned long long)sentinel,
			    watch->primary);
	watch->view[sentinel] = watch->primary;
}

/* It is a replica from now on. Its clients are disconnected by the Sentinel, or not. */
static void demote(struct wr_sim *sim, unsigned server)
{
	struct wr_sim_master *master = instance(sim, server);

	sim->watch->isolated[server] = false;
	if (server == sim->watch->primary || master->mini->replica)
		return;
	wr_sim_note(sim, NULL, "%u is a replica now", server);
	master->mini->replica = true;
	master->copied_life = master->life;
	master->copied_ns = sim->now_ns;
	if (wr_dice_percent(&sim->fate, 60))
		wr_sim_cut(sim, server, NULL, 100);
}

static void demote_old(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	sim->watch->pending--;
	demote(sim, (unsigned)server);
}

static void begin_life(struct wr_sim *sim, struct wr_sim_master *master, uint32_t parent,
		       uint64_t until_ns)
{
	struct wr_sim_watch *watch = sim->watch;

	if (watch->life_count == WR_SIM_LIVES) {
		wr_sim_fail(sim, "more failovers than the simulator counts");
		return;
	}
	master->life = watch->life_count;
	watch->lives[watch->life_count++] = (struct wr_sim_life){parent, until_ns, false};
}

/* One of the replicas that are there; the primary itself if there is none. */
static unsigned pick_replica(struct wr_sim *sim)
{
	unsigned first = (unsigned)wr_dice_below(&sim->fate, sim->plan->instances);

	for (unsigned i = 0; i < sim->plan->instances; i++) {
		unsigned server = (first + i) % sim->plan->instances;

		if (server != sim->watch->primary && !is_away(sim, server) &&
		    instance(sim, server)->mini->replica)
			return server;
	}
	return sim->watch->primary;
}

/* The old primary takes writes until old_until_ns. False: there is no replica to promote. */
static bool elect(struct wr_sim *sim, uint64_t old_until_ns)
{
	struct wr_sim_watch *watch = sim->watch;
	unsigned server = pick_replica(sim);
	struct wr_sim_master *master = instance(sim, server);
	unsigned leader = (unsigned)wr_dice_below(&sim->fate, sim->plan->sentinels);

	if (server == watch->primary || watch->life_count == WR_SIM_LIVES)
		return false;
	wr_sim_note(sim, NULL, "%u is promoted, with what it had at %llu.%06llu ms", server,
		    (unsigned long long)(master->copied_ns / MS),
		    (unsigned long long)(master->copied_ns % MS));
	begin_life(sim, master, master->copied_life, master->copied_ns);
	if (sim->plan->secretly)
		wr_mini_flush(master->mini, true);
	master->mini->replica = false;
	watch->primary = (uint8_t)server;
	watch->lost_ns = watch->torn_ns = sim->now_ns;
	wr_sim_lost(sim, old_until_ns, false);
	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		wr_sim_at(sim, sim->now_ns + (i == leader ? 0 : roll(sim, MS, 1000 * MS)), NULL,
			  hear, NULL, i);
	return true;
}

/* ---- what happens ---- */

/* A primary that was away comes back while another one is elected: as a primary, until a Sentinel
 * notices, with its data or without. */
static void come_back(struct wr_sim *sim, void *object, uint64_t server)
{
	struct wr_sim_master *master = instance(sim, (unsigned)server);
	uint64_t until_ns = sim->now_ns + roll(sim, MS, 2000 * MS);

	(void)object;
	if (server == sim->watch->primary || sim->now_ns >= sim->plan->length_ns) {
		sim->watch->pending--;
		return;
	}
	wr_sim_note(sim, NULL, "%llu is back, and believes to be the primary",
		    (unsigned long long)server);
	memset(master->mini->knows, 0, sizeof master->mini->knows);
	wr_sim_lost(sim, until_ns, false);
	if (wr_dice_percent(&sim->fate, 30)) {
		wr_mini_flush(master->mini, true);
		begin_life(sim, master, WR_SIM_LIVES, 0);
	}
	wr_sim_at(sim, until_ns, NULL, demote_old, NULL, server);
}

/* The Sentinels agree that the primary is away, if it still is. */
static void agree(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	sim->watch->pending--;
	if (server == sim->watch->primary && is_away(sim, (unsigned)server) &&
	    sim->now_ns < sim->plan->length_ns)
		elect(sim, sim->now_ns);
}

static void crash(struct wr_sim *sim)
{
	unsigned server = sim->watch->primary;
	uint64_t back_ns = sim->now_ns + roll(sim, 100 * MS, 5000 * MS);

	sim->servers[server].away_until_ns = back_ns;
	sim->watch->lost_ns = sim->now_ns;
	wr_sim_cut(sim, server, NULL, 100);
	sim->watch->pending += 2;
	wr_sim_at(sim, sim->now_ns + roll(sim, 50 * MS, 3000 * MS), NULL, agree, NULL, server);
	wr_sim_at(sim, back_ns, NULL, come_back, NULL, server);
}

/* An operator's SENTINEL FAILOVER: the old primary hears of it a moment later. */
static void switch_over(struct wr_sim *sim, uint64_t most_ns)
{
	unsigned server = sim->watch->primary;
	uint64_t until_ns = sim->now_ns + roll(sim, MS, most_ns);

	if (elect(sim, until_ns)) {
		sim->watch->pending++;
		wr_sim_at(sim, until_ns, NULL, demote_old, NULL, server);
	}
}

/* The primary does not reach the Sentinels and its replicas any more, but its clients do. */
static void give_up(struct wr_sim *sim, void *object, uint64_t server)
{
	(void)object;
	sim->watch->pending--;
	if (server == sim->watch->primary && sim->now_ns < sim->plan->length_ns)
		switch_over(sim, 10000 * MS);
	if (server == sim->watch->primary)
		sim->watch->isolated[server] = false;
}

static void isolate(struct wr_sim *sim)
{
	unsigned server = sim->watch->primary;

	sim->watch->isolated[server] = true;
	sim->watch->pending++;
	wr_sim_at(sim, sim->now_ns + roll(sim, 50 * MS, 3000 * MS), NULL, give_up, NULL, server);
}

/* Whether a Sentinel that answers names another instance than the primary. */
static bool is_misleading(const struct wr_sim *sim)
{
	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		if (sim->watch->view[i] != sim->watch->primary && !is_away(sim, WR_SIM_SERVERS + i))
			return true;
	return false;
}

/* A Sentinel is away, or knows only what it knew, or what it knew long ago; or a node reaches none
 * of them. */
static void blind(struct wr_sim *sim)
{
	unsigned sentinel = (unsigned)wr_dice_below(&sim->fate, sim->plan->sentinels);
	uint64_t until_ns = sim->now_ns + roll(sim, 200 * MS, 15000 * MS);
	struct wr_sim_node *node = &sim->nodes[wr_dice_below(&sim->fate, sim->plan->nodes)];
	uint64_t kind = wr_dice_below(&sim->fate, 6);

	wr_sim_note(sim, NULL, "Sentinel %u: trouble %llu until %llu ms", sentinel,
		    (unsigned long long)kind, (unsigned long long)(until_ns / MS));
	switch (kind) {
	case 0:
		sim->servers[WR_SIM_SERVERS + sentinel].away_until_ns = until_ns;
		wr_sim_cut(sim, WR_SIM_SERVERS + sentinel, NULL, 100);
		if (is_misleading(sim)) /* nodes that asked this one may ask that one next */
			sim->watch->lost_ns = sim->now_ns;
		break;
	case 1:
		for (unsigned i = 0; i < sim->plan->sentinels; i++)
			node->cut_until_ns[WR_SIM_SERVERS + i] = until_ns;
		if (until_ns > sim->watch->blind_until_ns)
			sim->watch->blind_until_ns = until_ns;
		break;
	case 2:
		sim->watch->view[sentinel] =
			(uint8_t)wr_dice_below(&sim->fate, sim->plan->instances);
		sim->watch->lost_ns = sim->watch->torn_ns = sim->now_ns;
		/* fallthrough */
	default:
		sim->watch->stale_until_ns[sentinel] = until_ns;
		wr_sim_at(sim, until_ns, NULL, hear, NULL, sentinel);
	}
}

void wr_sim_watch_fault(struct wr_sim *sim, enum wr_sim_fault fault)
{
	wr_sim_note(sim, NULL, "%s of %u", wr_sim_fault_name(fault), sim->watch->primary);
	if (fault == WR_SIM_WATCH)
		blind(sim);
	else if (sim->watch->pending || is_away(sim, sim->watch->primary))
		return;
	else if (fault == WR_SIM_SPLIT)
		isolate(sim);
	else if (wr_dice_percent(&sim->fate, 60))
		crash(sim);
	else
		switch_over(sim, 500 * MS);
}

/* ---- what must hold of a request ---- */

/* Nothing happens to the fleet but to the Sentinels and to what they watch over. */
static bool is_alone(const struct wr_sim *sim)
{
	return !(sim->plan->faults &
		 ~(1u << WR_SIM_FAILOVER | 1u << WR_SIM_SPLIT | 1u << WR_SIM_WATCH));
}

/* docs/redis.md: 2 s, and what Sentinels that do not answer cost: each of them so long. */
static uint64_t grace_ns(const struct wr_sim_plan *plan)
{
	uint64_t answer_ns = plan->timeout_ns > 250 * MS ? plan->timeout_ns : 250 * MS;

	return 2000 * MS + (plan->sentinels - 1) * answer_ns + wr_sim_late_ns(plan) + LOOK_NS;
}

/* The node has had the time to follow. */
static bool had_time(const struct wr_sim_request *request, uint64_t since_ns)
{
	const struct wr_sim *sim = request->node->sim;
	uint64_t grace = grace_ns(sim->plan);

	return is_alone(sim) && sim->plan->timeout_ns > wr_sim_late_ns(sim->plan) &&
	       request->begun_ns > request->node->started_ns + grace &&
	       request->begun_ns > sim->watch->blind_until_ns + grace &&
	       request->begun_ns > since_ns + grace;
}

void wr_sim_watch_failed(const struct wr_sim_request *request)
{
	struct wr_sim *sim = request->node->sim;

	if (sim->watch && had_time(request, sim->watch->lost_ns))
		wr_sim_fail(sim,
			    "node %u decides without Redis at %llu ms, though a Sentinel names the "
			    "primary since %llu ms",
			    request->node->number, (unsigned long long)(sim->now_ns / MS),
			    (unsigned long long)(sim->watch->lost_ns / MS));
}

void wr_sim_watch_admitted(const struct wr_sim_request *request)
{
	struct wr_sim *sim = request->node->sim;

	if (sim->watch && had_time(request, sim->watch->torn_ns) &&
	    request->node->heard_life != instance(sim, sim->watch->primary)->life)
		wr_sim_fail(sim,
			    "node %u asks an old primary at %llu ms, though all Sentinels name the "
			    "new one since %llu ms",
			    request->node->number, (unsigned long long)(sim->now_ns / MS),
			    (unsigned long long)(sim->watch->torn_ns / MS));
}

/* ---- beginning and end ---- */

void wr_sim_watch_join(struct wr_sim *sim, struct wr_sim_master *master)
{
	if (!sim->watch)
		return;
	master->mini->gate = master->server < WR_SIM_SERVERS ? data_gate : sentinel_gate;
	master->mini->gate_context = master;
	master->mini->replica =
		master->server != sim->watch->primary && master->server < WR_SIM_SERVERS;
}

void wr_sim_watch_start(struct wr_sim *sim)
{
	if (!sim->plan->sentinels)
		return;
	sim->watch = wr_lab_alloc(1, sizeof *sim->watch);
	sim->watch->life_count = 1;
	sim->watch->lives[0].parent = WR_SIM_LIVES;
}

void wr_sim_watch_go(struct wr_sim *sim)
{
	if (!sim->watch)
		return;
	for (unsigned i = 0; i < sim->plan->sentinels; i++)
		sim->servers[WR_SIM_SERVERS + i].master =
			wr_sim_master_new(sim, WR_SIM_SERVERS + i, 0);
	for (unsigned i = 0; i < sim->plan->instances; i++)
		replicate(sim, NULL, i);
	look(sim, NULL, 0);
}

void wr_sim_watch_heal(struct wr_sim *sim)
{
	struct wr_sim_watch *watch = sim->watch;

	if (!watch)
		return;
	for (unsigned i = 0; i < sim->plan->instances; i++)
		demote(sim, i);
	for (unsigned i = 0; i < sim->plan->sentinels; i++) {
		watch->stale_until_ns[i] = 0;
		watch->view[i] = watch->primary;
	}
}
