/* A fleet in virtual time whose traffic and faults the caller makes, for the scenarios of src/lab.
 *
 *   wr_sim_fleet_new(&opts, lua, &fleet, &error);
 *   for each request, in the order of time:
 *           wr_sim_fleet_run(fleet, at_ns);                     // runs all events up to at_ns
 *           wr_sim_fleet_request(fleet, node, key, cost);       // calls opts.decided once
 *   wr_sim_fleet_run(fleet, end_ns);
 *   wr_sim_fleet_totals(fleet, &totals);
 *   wr_sim_fleet_free(fleet);
 *
 * Nodes, network and Redis are those of sim.h. A fleet has any number of nodes. It keeps no
 * admissions and has no oracle, so that its memory does not grow with the number of requests. Times
 * are in ns since the start of the traffic. Before that, the nodes have some seconds to connect to
 * Redis and to count each other. The traffic starts at the start of a window. */
#ifndef WR_SIM_FLEET_H
#define WR_SIM_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/error.h>

struct wr_sim_fleet;
struct wr_sim_lua;

#define WR_SIM_FLEET_KEYS UINT32_MAX /* keys are below this number */

/* The path of messages between a node and a Redis server. A message takes delay_ns plus a random
 * time below jitter_ns, in each direction. */
struct wr_sim_fleet_path {
	uint64_t delay_ns, jitter_ns;
};

/* The parts of the system that decide a request. */
enum wr_sim_fleet_decider {
	WR_SIM_FLEET_TABLE,   /* the node's table, under a local or eventual limit */
	WR_SIM_FLEET_LEASE,   /* the node's table, from a lease */
	WR_SIM_FLEET_REDIS,   /* Redis, or a refusal of Redis that the node remembers */
	WR_SIM_FLEET_FAILURE, /* `on_store_failure`, because Redis was unavailable */
	WR_SIM_FLEET_NONE,    /* the node died before it decided the request */
};

struct wr_sim_fleet_verdict {
	unsigned node;
	uint32_t key, cost;
	bool admitted;
	enum wr_sim_fleet_decider decider;
	uint64_t begun_ns; /* arrival of the request */
	/* The time to which the decision applies: when Redis decided, or when the node decided. */
	uint64_t counted_ns;
	uint64_t decided_ns; /* when the node had the verdict */
};

struct wr_sim_fleet_opts {
	uint64_t seed;
	uint8_t consistency;      /* enum wr_consistency */
	uint8_t on_store_failure; /* enum wr_rules_store_failure */
	uint32_t algorithm;       /* enum weir_algorithm */
	uint32_t limit, burst, queue_size;
	uint64_t period_ns;
	uint64_t sync_ns;    /* for eventual limits: time between two exchanges of a node */
	uint64_t timeout_ns; /* time after which a node stops waiting for Redis */
	unsigned node_count;
	/* Number of Redis servers, one for each region. Nodes exchange eventual limits between the
	 * regions. At most WR_EXCHANGE_PEERS + 1. */
	unsigned server_count;
	const uint16_t *node_servers;          /* the Redis of each node */
	const struct wr_sim_fleet_path *paths; /* paths[node * server_count + server] */
	uint32_t keys;                         /* number of different keys */
	/* Called once for each request, possibly before wr_sim_fleet_request() returns. Must not
	 * call functions of this header. */
	void (*decided)(void *context, const struct wr_sim_fleet_verdict *verdict);
	void *context;
};

/* What happened since the start of the traffic. */
struct wr_sim_fleet_totals {
	uint64_t calls;    /* script calls that Redis received */
	uint64_t commands; /* all commands that Redis received */
	/* Units of leases that could not be spent: they expired or their node died. */
	uint64_t burnt;
	uint64_t pushes;        /* counters pushed to other regions */
	uint32_t overshoot_ppm; /* largest overshoot that a node reported (weir_overshoot_ratio) */
	uint64_t events;
	const char *failure; /* an error of the simulation itself; "": none */
};

/* Makes a fleet, and runs it until the start of the traffic. The caller keeps what `opts` points to
 * until wr_sim_fleet_free(). Returns 0, or WEIR_ENOSPACE if there is no room for the tables. */
int wr_sim_fleet_new(const struct wr_sim_fleet_opts *opts, struct wr_sim_lua *lua,
		     struct wr_sim_fleet **out, struct weir_error *error);
void wr_sim_fleet_free(struct wr_sim_fleet *fleet);

/* Runs all events up to and including at_ns. */
void wr_sim_fleet_run(struct wr_sim_fleet *fleet, uint64_t at_ns);

/* A request of the key arrives at the node now. Returns false if the node is down. */
bool wr_sim_fleet_request(struct wr_sim_fleet *fleet, unsigned node, uint32_t key, uint32_t cost);

/* Returns the arrival of the oldest request that still waits for Redis, or the present time if none
 * waits. Later calls of opts.decided have a counted_ns that is not earlier. */
uint64_t wr_sim_fleet_oldest_ns(const struct wr_sim_fleet *fleet);

/* Returns how many units of the key the node believes to be used. The result is at most the limit.
 * Returns UINT32_MAX if the node is down, or if the limit is not decided in the node's table. */
uint32_t wr_sim_fleet_used(struct wr_sim_fleet *fleet, unsigned node, uint32_t key);

void wr_sim_fleet_totals(struct wr_sim_fleet *fleet, struct wr_sim_fleet_totals *totals);

/* ---- faults: UINT64_MAX as until_ns means that the fault does not end ---- */

/* No bytes pass between the node and the server until until_ns. They arrive afterwards. */
void wr_sim_fleet_cut(struct wr_sim_fleet *fleet, unsigned node, unsigned server,
		      uint64_t until_ns);
/* All connections to the server break, and it accepts no connections until until_ns. It keeps its
 * data. */
void wr_sim_fleet_redis_stop(struct wr_sim_fleet *fleet, unsigned server, uint64_t until_ns);
void wr_sim_fleet_redis_flush(struct wr_sim_fleet *fleet, unsigned server);
/* Replies of the server take slow_ns longer until until_ns. */
void wr_sim_fleet_redis_slow(struct wr_sim_fleet *fleet, unsigned server, uint64_t slow_ns,
			     uint64_t until_ns);
/* The replica copies the data of the server. The next failover promotes the replica, which has only
 * this data. */
void wr_sim_fleet_replicate(struct wr_sim_fleet *fleet, unsigned server);
void wr_sim_fleet_failover(struct wr_sim_fleet *fleet, unsigned server);
/* From now on, a message is lost with this probability, in millionths. As with TCP, a lost message
 * is sent again after 200 ms, 400 ms and so on, and later messages wait for it. */
void wr_sim_fleet_lose(struct wr_sim_fleet *fleet, uint32_t loss_ppm);
/* The machine dies. Its table and its requests in flight are lost. */
void wr_sim_fleet_crash(struct wr_sim_fleet *fleet, unsigned node);
/* A machine that died starts again with an empty table. */
void wr_sim_fleet_restart(struct wr_sim_fleet *fleet, unsigned node);
/* Sets by how much the node's clock is ahead of the true time. */
void wr_sim_fleet_skew(struct wr_sim_fleet *fleet, unsigned node, int64_t skew_ns);

#endif
