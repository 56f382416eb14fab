/* The parts of a simulated fleet. Only files of src/sim and test/sim include this header.
 *
 * "True time" is sim->now_ns, which starts at 0. The clocks of nodes and masters may be ahead of or
 * behind the true time. */
#ifndef WR_SIM_SIM_INNER_H
#define WR_SIM_SIM_INNER_H

#include <weir/host.h>
#include <weir/weir.h>

#include "base/heap.h"
#include "central/central.h"
#include "sim/rng.h"
#include "sim/sim.h"
#include "redis/slot.h"

/* Unix time in ns that a clock without skew shows at true time 0; the start of a minute */
#define WR_SIM_EPOCH_NS 1700000040000000000ull
#define WR_SIM_DOMAIN "sim"
#define WR_SIM_PORT 7000u
#define WR_SIM_MASTER "mymaster" /* name under which the Sentinels know the primary */
/* Number of servers that nodes can connect to. The ports start at WR_SIM_PORT: first the ports of
 * the Redis servers, then the ports of the Sentinels. */
#define WR_SIM_ENDPOINTS (WR_SIM_SERVERS + WR_SIM_SENTINELS)

struct wr_ask_need;
struct wr_sim;
struct wr_sim_fleet;
struct wr_sim_node;
struct wr_sim_conn;

/* ---- events ---- */

typedef void wr_sim_event_fn(struct wr_sim *sim, void *object, uint64_t arg);

/* Events run in the order of at_ns. Events with the same at_ns run in the order of `number`. */
struct wr_sim_event {
	struct wr_heap_node heap;
	uint64_t at_ns, number;
	/* the event waits while this node is paused; NULL: the event never waits */
	struct wr_sim_node *node;
	wr_sim_event_fn *run;
	void *object;
	uint64_t arg;
};

/* ---- Redis ---- */

/* A Redis process or a Sentinel. */
struct wr_sim_master {
	struct wr_sim_master *next; /* list of all masters of the run, including former masters */
	struct wr_sim_redis *redis;
	int64_t skew_ns; /* the master's clock minus the true time */
	struct wr_sim *sim;
	unsigned server;
	uint32_t term; /* with Sentinels: index of the term in which this server is primary */
	/* Only for a replica, which has the data of an earlier or current primary: copied_term is
	 * the index of the primary's term (the time in which one server is primary), and copied_ns
	 * is the true time of the copy. */
	uint32_t copied_term;
	uint64_t copied_ns;
};

struct wr_sim_server {
	struct wr_sim_master *master;    /* the current master */
	struct wr_sim_redis *replica;    /* the data that a promoted replica would have */
	uint64_t down_until_ns;          /* the server refuses connections until this time */
	uint64_t slow_until_ns, slow_ns; /* until slow_until_ns, replies take slow_ns longer */
};

/* A ban or a grant that an operator ordered. */
struct wr_sim_order {
	/* True times. If end_ns is WEIR_NEVER, the ban or grant has no end. If end_ns is 0, the
	 * order lifts a ban or grant. */
	uint64_t at_ns, end_ns;
	uint32_t extra;
	uint8_t key, verb; /* `verb` is an enum wr_order_verb */
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
	/* view[i][s]: the owner of slot s, as server i knows it */
	uint8_t view[WR_SIM_SERVERS][WR_REDIS_SLOTS];
	uint16_t number[WR_REDIS_SLOTS]; /* how often the owner of each slot has changed */
	struct wr_sim_move moves[WR_SIM_MOVES];
	uint64_t moved; /* number of moves that have begun */
	uint64_t clusterdown_until_ns[WR_SIM_SERVERS];
};

#define WR_SIM_TERMS 128u

/* A term is the time in which one Redis server is primary (sentinel.c). */
struct wr_sim_term {
	/* the term whose counts this term began with; WR_SIM_TERMS: this term began without
	 * counts */
	uint32_t parent;
	/* this term began with the counts that the term `parent` had at until_ns */
	uint64_t until_ns;
	bool returned; /* in this term the primary got calls that give units back */
};

struct wr_sim_sentinel_state {
	uint8_t primary;                /* index of the server that won the latest election */
	uint8_t view[WR_SIM_SENTINELS]; /* view[i]: index of the primary that Sentinel i names */
	/* stale_until_ns[i]: until this time, Sentinel i learns of no elections */
	uint64_t stale_until_ns[WR_SIM_SENTINELS];
	uint64_t unreachable_until_ns; /* until this time, at least one node reaches no Sentinel */
	bool isolated[WR_SIM_SERVERS]; /* isolated[i]: no replica copies server i */
	unsigned pending;              /* number of scheduled changes of roles */
	uint64_t unfindable_ns;        /* latest time at which nodes could not find the primary */
	uint64_t disagreed_ns;         /* latest time at which Sentinels disagreed */
	struct wr_sim_term terms[WR_SIM_TERMS];
	uint32_t term_count;
};

/* A time in which Redis lost data, two masters existed, or nodes had different limits. */
struct wr_sim_loss {
	uint64_t from_ns, to_ns;
	uint64_t lease_end_ns; /* when all leases that were granted before to_ns have expired */
	bool limit_changed;    /* nodes had different limits, and no data was lost */
};

#define WR_SIM_LOSSES 256u
/* requests that have the old limit are decided within this time after a change of the limit */
#define WR_SIM_SETTLED_NS 1000000000ull

/* ---- nodes ---- */

/* A request in flight. */
struct wr_sim_request {
	struct wr_sim_request *next;
	struct wr_sim_node *node;
	struct wr_central_ask question;
	struct weir_ask *ask;
	/* number of the request, unique in the run; 0: this object is not in use */
	uint64_t number;
	uint64_t begun_ns;
	bool asking;        /* the request waits for a reply of Redis */
	bool client_leaves; /* the client will disconnect, before or after the decision */
	bool serving;       /* the request was admitted, and its response is not sent yet */
	bool probe;         /* the request only reads counters, at the end of the run */
	bool banned;        /* the node knew of a ban of the key when the request arrived */
	bool early; /* the request goes to one node, before the final requests of all nodes */
	uint8_t keys[2], key_count;
	uint32_t cost;
	void *memory;
};

/* The central layer of a node for one Redis: for the Redis of its own region, or for the Redis of
 * another region. */
struct wr_sim_client {
	struct wr_sim_node *node;
	struct wr_central *central; /* NULL while `weir serve` does not run */
	struct wr_redis_target target;
	/* number of the latest timer; earlier timers do nothing when they fire */
	uint64_t wake_number;
};

struct wr_sim_node {
	struct wr_sim *sim;
	unsigned number;
	unsigned server;
	struct weir_table *table;
	struct weir_engine *engine;
	struct wr_sim_client home;
	struct wr_sim_client
		*peers; /* one for each other region; allocated by wr_sim_node_init() */
	struct wr_rng rng;
	int64_t skew_ns;   /* the node's clock minus the true time */
	int64_t drift_ppm; /* by how much the node's monotonic clock is too fast */
	uint64_t paused_until_ns;
	/* From slow_from_ns to slow_until_ns, replies of Redis take slow_ns longer. */
	uint64_t slow_from_ns, slow_until_ns, slow_ns;
	uint32_t timeouts; /* number of requests in a row that waited for Redis until the timeout */
	/* when `timeouts` reached the number that must open a circuit breaker */
	uint64_t timeouts_since_ns;
	/* how often the node's circuit breakers had opened when `timeouts` was still 0 */
	uint64_t opened_before;
	/* cut_until_ns[i]: until this time, no bytes pass between the node and server i (a Redis
	 * server or a Sentinel). Allocated by wr_sim_node_init(). */
	uint64_t *cut_until_ns;
	uint32_t limit; /* limit of the node's current rules */
	/* The latest reply of Redis that the node received: reply_term is the term in which the
	 * reply was sent; reply_ns and reply_us are the time of sending, as true time and by the
	 * clock of Redis. */
	uint32_t reply_term;
	uint64_t reply_ns, reply_us;
	uint32_t incarnation; /* how often the node has died or was replaced */
	uint64_t started_ns;  /* true time at which `weir serve` started */
	bool freeing;         /* `weir serve` is being killed, so its output is dropped */
	bool leaving;         /* the node is being replaced */
	/* banned_until_ns[k]: end of the ban of key k that the node knows, by the node's clock */
	uint64_t banned_until_ns[WR_SIM_KEYS];
	/* units of leases that requests spent; units of cancelled requests are subtracted */
	uint64_t spent;
	/* The latest reply of Redis about each key. */
	struct {
		bool known;
		uint32_t remaining, nodes;
		uint64_t at_us; /* time of the reply by Redis' clock */
		uint64_t since; /* cost admitted without Redis since the reply */
	} known[WR_SIM_KEYS];
	/* all request objects; an unused object has the number 0 */
	struct wr_sim_request *requests;
	struct wr_sim_conn *dirty;      /* list of connections with unsent output */
	bool queued;                    /* the node is in the list sim->dirty */
	struct wr_sim_node *dirty_next; /* in the list sim->dirty */
};

/* ---- admissions ---- */

enum wr_sim_admitted_by {
	WR_SIM_BY_REDIS, /* admitted by Redis */
	WR_SIM_BY_LEASE, /* admitted by a lease in the node's table */
	WR_SIM_BY_NODE,  /* admitted by the node's table (eventual limits) */
	WR_SIM_BY_SHARE, /* admitted by the node's share, because Redis was unavailable */
	WR_SIM_BY_ALLOW, /* admitted by `on_store_failure: allow`, because Redis was unavailable */
};

struct wr_sim_admission {
	uint64_t at_ns; /* true time at which the units were counted */
	/* The time at_ns by another clock: by the node's clock for an eventual limit, otherwise by
	 * the master's clock. */
	uint64_t at_us;
	uint64_t request;    /* number of the request */
	uint64_t decided_ns; /* true time of the decision */
	/* cost of the request; 0: the admission was cancelled, because the client disconnected */
	uint32_t cost;
	uint32_t returned; /* cost of a cancelled admission; 0: the admission was not cancelled */
	/* Units that the request used beyond its reservation. They were sent to Redis at
	 * ended_ns. */
	uint32_t owed;
	/* When the request was settled or cancelled, or its node died; 0: never. */
	uint64_t ended_ns;
	uint32_t nodes;    /* number of nodes of the fleet that the admitting node knew of */
	uint64_t delay_ns; /* leaky bucket: time from at_ns until the request proceeds */
	uint64_t slack_ns; /* the units were counted between at_ns - slack_ns and at_ns */
	/* The latest reply that the node had received from Redis: the true time at which it was
	 * sent, and the term in which it was sent. */
	uint64_t taken_ns;
	uint32_t term;
	uint8_t key, node, how; /* for the second limit of key k, `key` is k + plan->keys */
};

/* A request that arrived. Arrivals are recorded only in runs without faults and in calendar
 * runs. */
struct wr_sim_arrival {
	uint64_t at_ns;
	uint32_t cost;
	uint8_t key;
};

/* The values of a counter that a probe read. */
struct wr_sim_reading {
	bool valid;
	uint32_t limit, remaining;
	uint64_t at_ns;
	uint64_t at_us;    /* at_ns by the node's clock */
	uint64_t redis_us; /* time of Redis' reply, by Redis' clock */
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

	struct wr_sim_node *nodes; /* plan->nodes elements */
	struct wr_sim_node *dirty; /* nodes with unsent output, in the order of their numbers */
	struct wr_sim_server *servers;
	unsigned endpoints; /* number of elements of `servers` */
	/* The fleet of a scenario, which replaces the delays and the traffic of the plan. NULL: a
	 * run of a plan. */
	struct wr_sim_fleet *fleet;
	struct wr_sim_master *masters;
	struct wr_sim_cluster *cluster;          /* NULL: no cluster */
	struct wr_sim_sentinel_state *sentinels; /* NULL: no Sentinels */
	struct wr_sim_conn *conns;
	uint64_t request_number;

	struct wr_sim_loss losses[WR_SIM_LOSSES];
	unsigned loss_count;
	struct wr_sim_admission *admissions;
	size_t admission_count, admission_cap;
	/* results of the final probes of all nodes */
	struct wr_sim_reading readings[WR_SIM_NODES][WR_SIM_KEYS];
	struct wr_sim_reading early[WR_SIM_KEYS]; /* results of the early probe of one node */
	uint64_t burnt;   /* units of leases that expired or were lost before they were spent */
	unsigned crashes; /* number of machines that died by WR_SIM_CRASH */
	uint64_t last_request_ns; /* when all nodes got their last requests, one for each key */
	struct wr_sim_arrival *arrivals;
	size_t arrival_count, arrival_cap;
};

static inline bool wr_sim_has_fault(const struct wr_sim *sim, enum wr_sim_fault fault)
{
	return sim->plan->faults >> fault & 1;
}

/* event.c */

/* Schedules run(sim, object, arg) at at_ns, or now if at_ns is in the past. If `node` is not NULL,
 * the event waits while this node is paused. */
void wr_sim_schedule(struct wr_sim *sim, uint64_t at_ns, struct wr_sim_node *node,
		     wr_sim_event_fn *run, void *object, uint64_t arg);
/* Removes and returns the next event. Returns NULL if no event is due before end_ns. The caller
 * frees the event. */
struct wr_sim_event *wr_sim_event_next(struct wr_sim *sim, uint64_t end_ns);
void wr_sim_events_init(struct wr_sim *sim);
/* Sends the unsent output of all nodes. */
void wr_sim_output_send(struct wr_sim *sim);
/* Runs an event. If the node of the event is paused, schedules the event again instead. */
void wr_sim_event_run(struct wr_sim *sim, const struct wr_sim_event *event);
void wr_sim_events_free(struct wr_sim *sim);
/* Writes a line about an event to the trace and adds the line to the hash of the trace. `node` is
 * the node that the event concerns, or NULL. */
__attribute__((format(printf, 3, 4))) void
wr_sim_trace(struct wr_sim *sim, const struct wr_sim_node *node, const char *format, ...);
/* Reports a violated invariant. The report keeps the text of the first call only. */
__attribute__((format(printf, 2, 3))) void wr_sim_fail(struct wr_sim *sim, const char *format, ...);

/* net.c */

/* Allocates sim->servers. */
void wr_sim_servers_init(struct wr_sim *sim, unsigned endpoints);
void wr_sim_servers_start(struct wr_sim *sim);
void wr_sim_net_free(struct wr_sim *sim);
/* Sends the unsent output of all connections of the node. */
void wr_sim_node_send(struct wr_sim_node *node);
/* Breaks each connection to the server with a probability of `percent`. If `only` is not NULL, only
 * the connections of that node break. */
void wr_sim_disconnect(struct wr_sim *sim, unsigned server, struct wr_sim_node *only,
		       unsigned percent);
/* Breaks the connections to former masters of the server. */
void wr_sim_disconnect_old_master(struct wr_sim *sim, unsigned server);
/* Returns the time of the master's clock. */
uint64_t wr_sim_master_us(const struct wr_sim *sim, const struct wr_sim_master *master);
struct wr_sim_master *wr_sim_master_new(struct wr_sim *sim, unsigned server, int64_t skew_ns);
extern const struct wr_central_host wr_sim_host; /* its context is a struct wr_sim_client */

/* node.c */

uint64_t wr_sim_node_now(const struct wr_sim_node *node);
uint64_t wr_sim_node_mono(const struct wr_sim_node *node);
/* Sets up a node that does not run yet. Its region is `server`, the index of the region's Redis. */
void wr_sim_node_init(struct wr_sim *sim, unsigned number, unsigned server);
void wr_sim_node_free(struct wr_sim_node *node);
void wr_sim_node_start(struct wr_sim *sim, unsigned number);
void wr_sim_node_stop(struct wr_sim_node *node); /* the node dies and loses its table */
void wr_sim_serve_start(struct wr_sim_node *node);
void wr_sim_serve_stop(struct wr_sim_node *node); /* `weir serve` is killed */
/* Replaces the node's rules by rules with this limit. */
void wr_sim_node_rules(struct wr_sim_node *node, uint32_t limit);

/* request.c */

/* Event: a batch of requests arrives at the node, and the next batch is scheduled. */
void wr_sim_requests_arrive(struct wr_sim *sim, void *at, uint64_t incarnation);
/* Event: the node `number`, or each node if `number` is WR_SIM_NODES, gets one request for each
 * key. */
void wr_sim_final_requests(struct wr_sim *sim, void *object, uint64_t number);
/* Event: reads counters. If `number` is WR_SIM_NODES, reads all counters of all nodes into
 * sim->readings. Otherwise reads all counters of the node `number` into sim->early. */
void wr_sim_probe(struct wr_sim *sim, void *object, uint64_t number);
/* Returns which part of the system admitted a request under this limit. */
enum wr_sim_admitted_by wr_sim_admitted_by(const struct wr_ask_need *need);
/* Sends the messages, such as reports, that the limiter has for Redis after the verdict. */
void wr_sim_send_messages(struct wr_sim_node *node, struct weir_ask *ask);
/* Cancels all requests of the node that are in flight. */
void wr_sim_requests_end(struct wr_sim_node *node);
void wr_sim_requests_free(struct wr_sim_node *node);

/* wait.c */

/* Checks that the circuit breaker opens after timeouts. Called when a request no longer waits for
 * Redis. `failed` is true if at least one limit was decided without Redis. */
void wr_sim_check_wait(struct wr_sim_request *request, bool failed);
/* Records the reply of Redis about a key. */
void wr_sim_known_update(struct wr_sim_request *request, const struct weir_decision *decision,
			 uint8_t key);
/* Checks an admission without Redis. Since the latest reply of Redis about the key, the node must
 * have admitted at most its share of the amount that remained in that reply. */
void wr_sim_check_known_share(struct wr_sim_request *request,
			      const struct wr_sim_admission *admission);

/* settle.c */

/* Checks that no counter in Redis has a larger debt than allowed. */
void wr_sim_check_debt(const struct wr_sim_request *request);
/* Checks an admission by the node's share of a limit on concurrent requests: the node's requests
 * hold no more slots than its share. */
void wr_sim_check_slots_share(const struct wr_sim_request *request,
			      const struct wr_sim_admission *admission);
/* Called for a probe at the end. All slots must be free. */
void wr_sim_check_slots_free(const struct wr_sim_request *request);
/* Called at the end of a run with settled requests. */
void wr_sim_check_settled(struct wr_sim *sim);

/* cluster.c */

/* Returns the number of Redis servers, Sentinels not included. */
unsigned wr_sim_server_count(const struct wr_sim_plan *plan);
void wr_sim_cluster_start(struct wr_sim *sim);
void wr_sim_cluster_add_instance(struct wr_sim *sim, struct wr_sim_master *master);
void wr_sim_cluster_move(struct wr_sim *sim);
void wr_sim_cluster_down(struct wr_sim *sim, unsigned server);
bool wr_sim_cluster_is_moving(const struct wr_sim *sim, unsigned server);
/* Drops the keys of slots that other servers own. Called after a replica was promoted. */
void wr_sim_cluster_take_over(struct wr_sim *sim, unsigned server);
void wr_sim_cluster_heal(struct wr_sim *sim);

/* calendar.c */

/* Returns the time that a clock without skew shows at true time 0. */
uint64_t wr_sim_epoch_ns(const struct wr_sim_plan *plan);
/* Returns the number of the fixed window that contains at_us. */
uint64_t wr_sim_window_of(const struct wr_sim_plan *plan, uint64_t at_us);
/* Returns the true time of the window edge number `session` of a calendar run, counted from 0. */
uint64_t wr_sim_edge_ns(const struct wr_sim_plan *plan, unsigned session);
/* Appends the calendar window as rule files write it: "calendar: day, timezone: UTC". */
void wr_sim_calendar_text(const struct wr_sim_plan *plan, struct wr_buf *out);
/* If all machines are paused at at_ns, returns a time shortly after the pause. Otherwise returns
 * at_ns. */
uint64_t wr_sim_active_ns(const struct wr_sim_plan *plan, uint64_t at_ns);
void wr_sim_calendar_start(struct wr_sim *sim);

/* sentinel.c */

void wr_sim_sentinel_init(struct wr_sim *sim);
void wr_sim_sentinel_start(struct wr_sim *sim); /* called after the servers start */
void wr_sim_sentinel_add_instance(struct wr_sim *sim, struct wr_sim_master *master);
void wr_sim_sentinel_fault(struct wr_sim *sim, enum wr_sim_fault fault);
void wr_sim_sentinel_heal(struct wr_sim *sim);
/* Called for a request that was decided without Redis. Checks that the node had too little time to
 * find the primary. */
void wr_sim_sentinel_check_failure(const struct wr_sim_request *request);
/* Called for a request that Redis admitted. Checks that the primary admitted the request, if the
 * node had enough time to find the primary. */
void wr_sim_sentinel_check_admission(const struct wr_sim_request *request);

/* operator.c */

void wr_sim_orders_start(struct wr_sim *sim);
/* Applies an order to the node. The node received the order from another node through Redis. age_ns
 * is the time since the order was published. */
void wr_sim_order_received(struct wr_sim_node *node, const void *bytes, size_t len,
			   uint64_t age_ns);
bool wr_sim_is_banned(const struct wr_sim_node *node, unsigned key);
/* Returns the largest grant to the key that may be in force on some node between from_ns and
 * to_ns. */
uint64_t wr_sim_grant_max(const struct wr_sim *sim, unsigned key, uint64_t from_ns, uint64_t to_ns);

/* fault.c */

/* Records a loss of data from now until to_ns, or a change of the limit if limit_changed is set.
 * The oracle allows more admissions around this time. */
void wr_sim_loss_add(struct wr_sim *sim, uint64_t to_ns, bool limit_changed);
void wr_sim_faults_start(struct wr_sim *sim);

/* Promotes the replica of a server. If `split` is set, half of the connections still use the old
 * master for a while. */
void wr_sim_fail_over(struct wr_sim *sim, unsigned server, bool split);

/* fleet.c: the delay of a message between the node and the server, one way. */
uint64_t wr_sim_fleet_delay_ns(struct wr_sim_fleet *fleet, unsigned node, unsigned server);
/* Called when a node's `weir serve` stops. Adds up the counters of its central layer. */
void wr_sim_fleet_note_stop(struct wr_sim_fleet *fleet, const struct wr_sim_node *node);

/* renew.c */
void wr_sim_renewals_start(struct wr_sim *sim);

/* record.c */
void wr_sim_admission_add(struct wr_sim *sim, struct wr_sim_admission admission);
void wr_sim_admission_cancel(struct wr_sim *sim, uint64_t request);
/* Records that the request used `actual` units. If `actual` is less than the cost of the admission,
 * the cost is set to `actual`. */
void wr_sim_admission_settle(struct wr_sim *sim, uint64_t request, uint32_t actual);
/* Records that the request ended without being settled. */
void wr_sim_admission_end(struct wr_sim *sim, uint64_t request);
/* Returns whether `key` is the number of a limit on concurrent requests. */
bool wr_sim_is_slots(const struct wr_sim_plan *plan, unsigned key);
void wr_sim_arrival_add(struct wr_sim *sim, uint8_t key, uint32_t cost);

/* oracle.c: checks all invariants. Called at the end of a run. */
void wr_sim_check(struct wr_sim *sim);

#endif
