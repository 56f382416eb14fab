/* The parts of a simulated fleet. Only files of src/sim and its tests include this header.
 *
 * "True time" is sim->now_ns, which starts at 0. Clocks of nodes and masters differ from it. */
#ifndef WR_SIM_SIM_INNER_H
#define WR_SIM_SIM_INNER_H

#include <weir/host.h>
#include <weir/weir.h>

#include "base/heap.h"
#include "central/central.h"
#include "sim/rng.h"
#include "sim/sim.h"
#include "redis/slot.h"

#define WR_SIM_EPOCH_NS 1700000040000000000ull /* the clocks at true time 0: a whole minute */
#define WR_SIM_DOMAIN "sim"
#define WR_SIM_PORT 7000u
#define WR_SIM_MASTER "mymaster" /* the master's name in Sentinel */
/* Instances have the first ports, Sentinels the ports behind them. */
#define WR_SIM_ENDPOINTS (WR_SIM_SERVERS + WR_SIM_SENTINELS)

struct wr_sim;
struct wr_sim_node;
struct wr_sim_conn;

/* ---- events ---- */

typedef void wr_sim_event_fn(struct wr_sim *sim, void *object, uint64_t arg);

/* Events run in the order of at_ns, then of their numbers. */
struct wr_sim_event {
	struct wr_heap_node heap;
	uint64_t at_ns, number;
	struct wr_sim_node *node; /* the event waits while this node is paused; may be NULL */
	wr_sim_event_fn *run;
	void *object;
	uint64_t arg;
};

/* ---- Redis ---- */

/* A process of Redis or a Sentinel. */
struct wr_sim_master {
	struct wr_sim_master *next; /* all masters of the run, former ones included */
	struct wr_sim_redis *redis;
	int64_t skew_ns; /* its clock minus the true time */
	struct wr_sim *sim;
	unsigned server;
	uint32_t term;        /* with Sentinels: index of its term as primary */
	uint32_t copied_term; /* a replica: the primary's term that it copied, up to copied_ns */
	uint64_t copied_ns;
};

struct wr_sim_server {
	struct wr_sim_master *master; /* the current one */
	struct wr_sim_redis *replica; /* the replica's copy of the master's data */
	uint64_t down_until_ns;       /* refuses connections */
};

/* A ban or a grant that an operator ordered. */
struct wr_sim_order {
	uint64_t at_ns, end_ns; /* true time; WEIR_NEVER: has no end; 0: lifts a ban or grant */
	uint32_t extra;
	uint8_t key, verb; /* enum wr_order_verb */
};

#define WR_SIM_ORDERS 64u
#define WR_SIM_MOVES 4u

/* A slot that moves from one master to another. */
struct wr_sim_move {
	bool active;
	uint8_t from, to;
	uint16_t slot;
	uint64_t number, end_ns;
};

struct wr_sim_cluster {
	uint8_t view[WR_SIM_SERVERS]
		    [WR_REDIS_SLOTS];    /* the owner of a slot, as each server knows it */
	uint16_t number[WR_REDIS_SLOTS]; /* +1 with each new owner */
	struct wr_sim_move moves[WR_SIM_MOVES];
	uint64_t moved; /* moves that began */
	uint64_t clusterdown_until_ns[WR_SIM_SERVERS];
};

#define WR_SIM_TERMS 128u

/* The time in which one instance is the primary and counts. */
struct wr_sim_term {
	uint32_t parent;   /* the term whose counts it began with; WR_SIM_TERMS: none */
	uint64_t until_ns; /* counts of the parent up to this time */
	bool returned;     /* the primary got calls that give units back */
};

struct wr_sim_sentinel_state {
	uint8_t primary;                           /* the instance that was elected last */
	uint8_t view[WR_SIM_SENTINELS];            /* the primary that each Sentinel names */
	uint64_t stale_until_ns[WR_SIM_SENTINELS]; /* the Sentinel learns of no election */
	uint64_t unreachable_until_ns;             /* some node reaches no Sentinel */
	bool isolated[WR_SIM_SERVERS];             /* no replica copies this instance */
	unsigned pending;                          /* scheduled changes of the primary */
	uint64_t unfindable_ns; /* last time at which nodes could not find the primary */
	uint64_t disagreed_ns;  /* last time at which Sentinels disagreed */
	struct wr_sim_term terms[WR_SIM_TERMS];
	uint32_t term_count;
};

/* A time in which Redis lost data, two masters existed, or nodes had different limits. */
struct wr_sim_loss {
	uint64_t from_ns, to_ns;
	uint64_t lease_end_ns; /* leases granted before to_ns are spent by then */
	bool limit_changed;    /* nodes had different limits, and no data was lost */
};

#define WR_SIM_LOSSES 256u
#define WR_SIM_SETTLED_NS 1000000000ull

/* ---- nodes ---- */

/* A request in flight. */
struct wr_sim_request {
	struct wr_sim_request *next;
	struct wr_sim_node *node;
	struct wr_central_ask store;
	struct weir_ask *ask;
	uint64_t number; /* unique in the run; 0: not in use */
	uint64_t begun_ns;
	bool asking;        /* waits for a reply of Redis */
	bool client_leaves; /* its client disconnects later, maybe after the decision */
	bool probe;         /* reads the counters at the end and takes nothing */
	bool banned;        /* its node knew of a ban when the request arrived */
	bool early;         /* a probe of one node before the last requests of the others */
	uint8_t keys[2], key_count;
	uint32_t cost;
	void *memory;
};

/* A node's central store: that of its own region, or one that exchanges with another region. */
struct wr_sim_client {
	struct wr_sim_node *node;
	struct wr_central *central; /* NULL: serve does not run */
	struct wr_redis_target target;
	uint64_t wake_number; /* number of the valid timer */
};

struct wr_sim_node {
	struct wr_sim *sim;
	unsigned number;
	unsigned server;
	struct weir_table *table;
	struct weir_engine *engine;
	struct wr_sim_client home, peers[WR_SIM_SERVERS];
	struct wr_rng rng;
	int64_t skew_ns;   /* its clock minus the true time */
	int64_t drift_ppm; /* of its monotonic clock */
	uint64_t paused_until_ns;
	uint64_t slow_from_ns, slow_until_ns, slow_ns; /* replies of Redis take slow_ns longer */
	uint32_t timeouts;          /* requests in a row that waited for Redis until the timeout */
	uint64_t timeouts_since_ns; /* when there were enough of them to open a breaker */
	uint64_t opened_before;     /* openings of breakers before the first of these timeouts */
	uint64_t cut_until_ns[WR_SIM_ENDPOINTS]; /* no bytes pass between node and endpoint */
	uint32_t limit;                          /* of its current rules */
	/* The reply of Redis that the node is handling: the primary's term, the true time at which
	 * Redis sent it, and the same by the clock of Redis. */
	uint32_t reply_term;
	uint64_t reply_ns, reply_us;
	uint32_t incarnation;                  /* +1 with each death of its machine */
	uint64_t started_ns;                   /* start of serve; true time */
	bool freeing;                          /* serve is being killed: its output is dropped */
	bool leaving;                          /* the node is being replaced */
	uint64_t banned_until_ns[WR_SIM_KEYS]; /* bans that the node knows, by its own clock */
	uint64_t spent; /* units of leases spent by admitted requests, less cancelled ones */
	/* The last reply of Redis about a key, and the cost admitted without Redis since then. */
	struct {
		bool known;
		uint32_t remaining, nodes;
		uint64_t at_us; /* by Redis' clock */
		uint64_t since;
	} known[WR_SIM_KEYS];
	struct wr_sim_request *requests; /* all allocated ones; those in use have a number */
	struct wr_sim_conn *dirty;       /* connections with output */
};

/* ---- admissions ---- */

enum wr_sim_admitted_by {
	WR_SIM_BY_STORE, /* Redis */
	WR_SIM_BY_LEASE, /* a lease in the node's table */
	WR_SIM_BY_NODE,  /* the node's table, to be exchanged with other nodes */
	WR_SIM_BY_SHARE, /* the node's share, because Redis was unavailable */
	WR_SIM_BY_ALLOW, /* on_store_failure: allow */
};

struct wr_sim_admission {
	uint64_t at_ns;      /* true time at which the units were taken */
	uint64_t at_us;      /* the same by the master's clock */
	uint64_t request;    /* its number */
	uint64_t decided_ns; /* true time of the decision */
	uint32_t cost;       /* 0: cancelled */
	uint32_t returned;   /* the cost of a cancelled one */
	uint32_t nodes;      /* size of the fleet as its node knew it */
	uint64_t delay_ns;   /* leaky bucket: until the request proceeds */
	uint64_t slack_ns;   /* the units may have been taken this much earlier */
	uint64_t taken_ns;   /* true time at which the primary of `term` took them */
	uint32_t term;
	uint8_t key, node, how; /* the second limit of key k is key k + plan->keys */
};

/* A request that arrived. Recorded only in runs without faults and in calendar runs. */
struct wr_sim_arrival {
	uint64_t at_ns;
	uint32_t cost;
	uint8_t key;
};

/* A counter as a probe read it. */
struct wr_sim_reading {
	bool valid;
	uint32_t limit, remaining;
	uint64_t at_ns;
	uint64_t at_us;    /* by the node's clock */
	uint64_t redis_us; /* when Redis replied, by its own clock */
};

struct wr_sim {
	const struct wr_sim_plan *plan;
	struct wr_sim_report *report;
	struct wr_sim_lua *lua;
	FILE *trace;
	uint64_t now_ns; /* true time */
	struct wr_rng traffic_rng, net_rng, fault_rng, order_rng;
	struct wr_sim_order orders[WR_SIM_ORDERS];
	unsigned order_count;

	struct wr_heap events;
	uint64_t event_number;

	struct wr_sim_node nodes[WR_SIM_NODES];
	struct wr_sim_server servers[WR_SIM_ENDPOINTS];
	struct wr_sim_master *masters;
	struct wr_sim_cluster *cluster;          /* NULL: no cluster */
	struct wr_sim_sentinel_state *sentinels; /* NULL: no Sentinels */
	struct wr_sim_conn *conns;
	uint64_t request_number;

	struct wr_sim_loss losses[WR_SIM_LOSSES];
	unsigned loss_count;
	struct wr_sim_admission *admissions;
	size_t admission_count, admission_cap;
	struct wr_sim_reading readings[WR_SIM_NODES][WR_SIM_KEYS]; /* at the end */
	struct wr_sim_reading early[WR_SIM_KEYS];                  /* of one node, before that */
	uint64_t burnt;                                            /* units of leases */
	unsigned crashes;                                          /* of machines */
	uint64_t last_request_ns; /* when each node got its last request, one for each key */
	struct wr_sim_arrival *arrivals;
	size_t arrival_count, arrival_cap;
};

static inline bool wr_sim_has_fault(const struct wr_sim *sim, enum wr_sim_fault fault)
{
	return sim->plan->faults >> fault & 1;
}

/* event.c */

/* Schedules an event. A time in the past means now. */
void wr_sim_schedule(struct wr_sim *sim, uint64_t at_ns, struct wr_sim_node *node,
		     wr_sim_event_fn *run, void *object, uint64_t arg);
/* Removes and returns the next event, or NULL if none is due before end_ns. The caller frees it. */
struct wr_sim_event *wr_sim_event_next(struct wr_sim *sim, uint64_t end_ns);
void wr_sim_events_init(struct wr_sim *sim);
void wr_sim_events_free(struct wr_sim *sim);
/* Adds a line to the trace and to its hash. `node` may be NULL. */
__attribute__((format(printf, 3, 4))) void
wr_sim_trace(struct wr_sim *sim, const struct wr_sim_node *node, const char *format, ...);
/* Reports a violated invariant. The report keeps the first one. */
__attribute__((format(printf, 2, 3))) void wr_sim_fail(struct wr_sim *sim, const char *format, ...);

/* net.c */

void wr_sim_servers_start(struct wr_sim *sim);
void wr_sim_net_free(struct wr_sim *sim);
/* Sends the pending output of all links of the node. */
void wr_sim_node_send(struct wr_sim_node *node);
/* Breaks each connection to the server with this probability; those of `only` if it is set. */
void wr_sim_disconnect(struct wr_sim *sim, unsigned server, struct wr_sim_node *only,
		       unsigned percent);
/* Breaks the connections to former masters of the server. */
void wr_sim_disconnect_old_master(struct wr_sim *sim, unsigned server);
/* The master's clock. */
uint64_t wr_sim_master_us(const struct wr_sim *sim, const struct wr_sim_master *master);
struct wr_sim_master *wr_sim_master_new(struct wr_sim *sim, unsigned server, int64_t skew_ns);
extern const struct wr_central_host wr_sim_host; /* context: a struct wr_sim_client */

/* node.c */

uint64_t wr_sim_node_now(const struct wr_sim_node *node);
uint64_t wr_sim_node_mono(const struct wr_sim_node *node);
void wr_sim_node_init(struct wr_sim *sim, unsigned number);
void wr_sim_node_start(struct wr_sim *sim, unsigned number);
void wr_sim_node_stop(struct wr_sim_node *node); /* the machine dies */
void wr_sim_serve_start(struct wr_sim_node *node);
void wr_sim_serve_stop(struct wr_sim_node *node); /* serve is killed */
/* Loads rules with this limit. */
void wr_sim_node_rules(struct wr_sim_node *node, uint32_t limit);

/* request.c */

/* Event: a batch of requests arrives at the node, and the next batch is scheduled. */
void wr_sim_requests_arrive(struct wr_sim *sim, void *at, uint64_t incarnation);
/* Events: one request for each key at all nodes, or at the node `number`. */
void wr_sim_request_all(struct wr_sim *sim, void *object, uint64_t arg);
void wr_sim_request_one(struct wr_sim *sim, void *object, uint64_t number);
/* Events: read all counters at all nodes, or at the node `number` into sim->early. */
void wr_sim_probe_all(struct wr_sim *sim, void *object, uint64_t arg);
void wr_sim_probe_one(struct wr_sim *sim, void *object, uint64_t number);
/* Ends all requests in flight. */
void wr_sim_requests_end(struct wr_sim_node *node);
void wr_sim_requests_free(struct wr_sim_node *node);

/* wait.c */

/* Checks that the breaker opens. Called when Redis has decided the request or failed to. */
void wr_sim_check_wait(struct wr_sim_request *request, bool failed);
/* Records a reply of Redis about a key. */
void wr_sim_known_update(struct wr_sim_request *request, const struct weir_decision *decision,
			 uint8_t key);
/* Checks an admission without Redis against the last reply about the key. */
void wr_sim_check_known_share(struct wr_sim_request *request,
			      const struct wr_sim_admission *admission);

/* cluster.c */

/* Number of servers with data. */
unsigned wr_sim_server_count(const struct wr_sim_plan *plan);
void wr_sim_cluster_start(struct wr_sim *sim);
void wr_sim_cluster_add_instance(struct wr_sim *sim, struct wr_sim_master *master, unsigned server);
void wr_sim_cluster_move(struct wr_sim *sim);
void wr_sim_cluster_down(struct wr_sim *sim, unsigned server);
bool wr_sim_cluster_is_moving(const struct wr_sim *sim, unsigned server);
/* Drops the keys of slots that other servers own. Called after a replica was promoted. */
void wr_sim_cluster_take_over(struct wr_sim *sim, unsigned server);
void wr_sim_cluster_heal(struct wr_sim *sim);

/* calendar.c */

/* The clocks at true time 0. */
uint64_t wr_sim_epoch_ns(const struct wr_sim_plan *plan);
/* Returns the number of the fixed window that contains at_us. */
uint64_t wr_sim_window_of(const struct wr_sim_plan *plan, uint64_t at_us);
/* The true time of a session's window edge. */
uint64_t wr_sim_edge_ns(const struct wr_sim_plan *plan, unsigned session);
/* Appends the calendar window in the form of a rule file. */
void wr_sim_calendar_text(const struct wr_sim_plan *plan, struct wr_buf *out);
/* Returns at_ns, or a time shortly after the pause if all machines are paused at at_ns. */
uint64_t wr_sim_active_ns(const struct wr_sim_plan *plan, uint64_t at_ns);
void wr_sim_calendar_start(struct wr_sim *sim);

/* sentinel.c */

void wr_sim_sentinel_init(struct wr_sim *sim);
void wr_sim_sentinel_start(struct wr_sim *sim); /* after the servers have started */
void wr_sim_sentinel_add_instance(struct wr_sim *sim, struct wr_sim_master *master);
void wr_sim_sentinel_fault(struct wr_sim *sim, enum wr_sim_fault fault);
void wr_sim_sentinel_heal(struct wr_sim *sim);
/* Checks that a request decided without Redis came while the primary could not be found. */
void wr_sim_sentinel_check_failure(const struct wr_sim_request *request);
/* Checks that Redis' admission came from the primary, once the node had time to find it. */
void wr_sim_sentinel_check_admission(const struct wr_sim_request *request);

/* operator.c */

void wr_sim_orders_start(struct wr_sim *sim);
/* The node received an order that another node published. */
void wr_sim_order_received(struct wr_sim_node *node, const void *bytes, size_t len,
			   uint64_t age_ns);
bool wr_sim_is_banned(const struct wr_sim_node *node, unsigned key);
/* Returns the largest grant to the key that may be in force on some node between these times. */
uint64_t wr_sim_grant_max(const struct wr_sim *sim, unsigned key, uint64_t from_ns, uint64_t to_ns);

/* fault.c */

/* Records a loss from now until to_ns, which the oracle allows for. */
void wr_sim_loss_add(struct wr_sim *sim, uint64_t to_ns, bool limit_changed);
void wr_sim_faults_start(struct wr_sim *sim);

/* renew.c */
void wr_sim_renewals_start(struct wr_sim *sim);

/* record.c */
void wr_sim_admission_add(struct wr_sim *sim, struct wr_sim_admission admission);
void wr_sim_admission_cancel(struct wr_sim *sim, uint64_t request);
void wr_sim_arrival_add(struct wr_sim *sim, uint8_t key, uint32_t cost);

/* oracle.c: checks all invariants at the end of a run. */
void wr_sim_check(struct wr_sim *sim);

#endif
