/* The parts of a simulated fleet. */
#ifndef WR_SIM_SIM_INNER_H
#define WR_SIM_SIM_INNER_H

#include <weir/engine.h>
#include <weir/weir.h>

#include "central/central.h"
#include "sim/dice.h"
#include "sim/sim.h"
#include "redis/slot.h"

#define WR_SIM_EPOCH_NS 1700000040000000000ull /* what clocks say at the beginning: a minute */
#define WR_SIM_DOMAIN "sim"
#define WR_SIM_PORT 7000u
#define WR_SIM_MASTER "mymaster"                          /* as Sentinels call it */
#define WR_SIM_PLACES (WR_SIM_SERVERS + WR_SIM_SENTINELS) /* Sentinels are behind servers */

struct wr_sim;
struct wr_sim_node;
struct wr_sim_conn;

/* ---- events ---- */

typedef void wr_sim_fn(struct wr_sim *sim, void *object, uint64_t word);

struct wr_sim_event {
	uint64_t at_ns, number;
	struct wr_sim_node *node; /* whose processor it takes; it waits while that stands still */
	wr_sim_fn *run;
	void *object;
	uint64_t word;
};

/* ---- Redis ---- */

/* One life of a master. */
struct wr_sim_master {
	struct wr_sim_master *next; /* of all there were */
	struct wr_mini *mini;
	int64_t skew_ns; /* its clock less the true time */
	struct wr_sim *sim;
	unsigned server;
	uint32_t life;        /* Sentinels: of the lives that primaries had */
	uint32_t copied_life; /* a replica: the primary's life that it copied, up to copied_ns */
	uint64_t copied_ns;
};

struct wr_sim_server {
	struct wr_sim_master *master; /* who is master now */
	struct wr_mini *replica;      /* what a replica has got of it */
	uint64_t away_until_ns;       /* refuses connections */
};

/* A ban or a grant that an operator ordered. */
struct wr_sim_order {
	uint64_t at_ns, end_ns; /* true time; WEIR_NEVER: for good; 0: something is lifted */
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
	uint8_t view[WR_SIM_SERVERS][WR_REDIS_SLOTS]; /* who serves a slot, as a server knows it */
	uint16_t number[WR_REDIS_SLOTS];              /* +1 with each new owner */
	struct wr_sim_move moves[WR_SIM_MOVES];
	uint64_t moved; /* that began */
	uint64_t down_until_ns[WR_SIM_SERVERS];
};

#define WR_SIM_LIVES 128u

/* What one primary counted. */
struct wr_sim_life {
	uint32_t parent;   /* whose counts it began with; WR_SIM_LIVES: none */
	uint64_t until_ns; /* … those up to then */
	bool returned;     /* it got give-backs */
};

struct wr_sim_watch {
	uint8_t primary;                           /* that was elected last */
	uint8_t view[WR_SIM_SENTINELS];            /* whom a Sentinel names */
	uint64_t stale_until_ns[WR_SIM_SENTINELS]; /* it hears nothing of the others */
	uint64_t blind_until_ns;                   /* some node reaches no Sentinel */
	bool isolated[WR_SIM_SERVERS];             /* nothing copies it */
	unsigned pending;                          /* things that are about to happen */
	uint64_t lost_ns;                          /* when the primary could last not be found */
	uint64_t torn_ns;                          /* when Sentinels last disagreed */
	struct wr_sim_life lives[WR_SIM_LIVES];
	uint32_t life_count;
};

/* A time in which Redis' data was lost, in which there were two masters, or in which nodes had
 * different limits. */
struct wr_sim_loss {
	uint64_t from_ns, to_ns;
	uint64_t felt_ns; /* leases from before are spent up to then */
	bool changed;     /* it was the limit */
};

#define WR_SIM_LOSSES 256u
#define WR_SIM_SETTLED_NS 1000000000ull

/* ---- nodes ---- */

/* A request under way. */
struct wr_sim_request {
	struct wr_sim_request *next;
	struct wr_sim_node *node;
	struct wr_central_ask store;
	struct weir_ask *ask;
	uint64_t number; /* of the run; 0: not in use */
	uint64_t begun_ns;
	bool asking;    /* the store */
	bool lingering; /* decided, and the client may yet leave */
	bool looking;   /* how it stands at the end, and takes nothing */
	bool banned;    /* its node had heard of a ban when it came */
	bool early;     /* … before the others have said anything more */
	uint8_t keys[2], key_count;
	uint32_t cost;
	void *memory;
};

/* The central store of a node's serve, or one it tells other regions with. */
struct wr_sim_seat {
	struct wr_sim_node *node;
	struct wr_central *central; /* NULL: serve does not run */
	struct wr_redis_target target;
	uint64_t wake_number; /* of the tick that is valid */
};

struct wr_sim_node {
	struct wr_sim *sim;
	unsigned number;
	unsigned server;
	struct weir_table *table;
	struct weir_engine *engine;
	struct wr_sim_seat home, others[WR_SIM_SERVERS];
	struct wr_dice dice;
	int64_t skew_ns;   /* its clock less the true time */
	int64_t drift_ppm; /* of its monotonic clock */
	uint64_t still_until_ns;
	uint64_t slow_from_ns, slow_until_ns, slow_ns; /* answers of Redis take so much longer */
	uint32_t in_vain;      /* requests in a row that waited for Redis until the timeout */
	uint64_t vain_from_ns; /* when enough of them had for a breaker to open */
	uint64_t opened;       /* … breakers that had opened before the first */
	uint64_t cut_until_ns[WR_SIM_PLACES]; /* nothing passes between it and this server */
	uint32_t limit;                       /* by the rules it has */
	uint32_t heard_life;                  /* of the primary that it hears now */
	uint64_t heard_ns, heard_us; /* when Redis said what it hears now: true time, and its own */
	uint32_t life;               /* +1 with each death of its machine */
	uint64_t started_ns;         /* serve; true time */
	bool freeing;                /* dying: nothing it does matters */
	bool leaving;                /* it is about to be replaced */
	uint64_t banned_until_ns[WR_SIM_KEYS]; /* by its own clock, as it has heard */
	uint64_t spent; /* units of leases, by requests that were admitted and stayed */
	/* What Redis said last of a key, and what was admitted since then without it. */
	struct {
		bool known;
		uint32_t remaining, nodes;
		uint64_t at_us; /* by Redis' clock */
		uint64_t since;
	} known[WR_SIM_KEYS];
	struct wr_sim_request *requests; /* all that were made; those in use have a number */
	struct wr_sim_conn *dirty;
};

/* ---- what was admitted ---- */

enum wr_sim_how {
	WR_SIM_BY_STORE,  /* Redis took it */
	WR_SIM_BY_LEASE,  /* spent from the table */
	WR_SIM_BY_NODE,   /* in its table, and told to others */
	WR_SIM_BY_SHARE,  /* by the node alone, for want of Redis */
	WR_SIM_BY_NOBODY, /* on_store_failure: allow */
};

struct wr_sim_admission {
	uint64_t at_ns;   /* true time at which it was taken */
	uint64_t at_us;   /* the same by the master's clock */
	uint64_t request; /* number; 0: taken back */
	uint64_t told_ns; /* true time of the verdict */
	uint32_t cost;
	uint32_t returned; /* the cost of one that was taken back */
	uint32_t nodes;    /* how many its node thought there were */
	uint64_t delay_ns; /* leaky bucket: until it goes on */
	uint64_t slack_ns; /* it may have been taken as much earlier */
	uint64_t taken_ns; /* true time at which the primary of this life took it */
	uint32_t life;
	uint8_t key, node, how; /* the second limit of a key is another key, behind all first */
};

/* A request that came, for runs in which nothing happens but requests. */
struct wr_sim_arrival {
	uint64_t at_ns;
	uint32_t cost;
	uint8_t key;
};

struct wr_sim {
	const struct wr_sim_plan *plan;
	struct wr_sim_report *report;
	struct wr_lua *lua;
	FILE *trace;
	uint64_t now_ns; /* true time, from 0 */
	struct wr_dice traffic, net, fate, orderly;
	struct wr_sim_order orders[WR_SIM_ORDERS];
	unsigned order_count;

	struct wr_sim_event *events; /* a heap */
	size_t event_count, event_cap;
	uint64_t event_number;

	struct wr_sim_node nodes[WR_SIM_NODES];
	struct wr_sim_server servers[WR_SIM_PLACES];
	struct wr_sim_master *masters;
	struct wr_sim_cluster *cluster; /* NULL: there is none */
	struct wr_sim_watch *watch;     /* NULL: there are no Sentinels */
	struct wr_sim_conn *conns;
	uint64_t request_number;

	struct wr_sim_loss losses[WR_SIM_LOSSES];
	unsigned loss_count;
	struct wr_sim_admission *admissions;
	size_t admission_count, admission_cap;
	struct wr_sim_sight {
		bool seen;
		uint32_t limit, remaining;
		uint64_t at_ns;
		uint64_t at_us;                 /* by the node's clock */
		uint64_t redis_us;              /* when Redis looked, by its own clock */
	} sights[WR_SIM_NODES][WR_SIM_KEYS];    /* what nodes see at the end */
	struct wr_sim_sight early[WR_SIM_KEYS]; /* … and one of them before */
	uint64_t burnt;                         /* units of leases that nobody spent */
	unsigned crashes;                       /* machines that died */
	uint64_t poked_ns; /* when each node got its last request, one for each key */
	struct wr_sim_arrival *arrivals;
	size_t arrival_count, arrival_cap;
};

static inline bool wr_sim_may(const struct wr_sim *sim, enum wr_sim_fault fault)
{
	return sim->plan->faults >> fault & 1;
}

/* event.c */
void wr_sim_at(struct wr_sim *sim, uint64_t at_ns, struct wr_sim_node *node, wr_sim_fn *run,
	       void *object, uint64_t word);
bool wr_sim_next(struct wr_sim *sim, uint64_t end_ns, struct wr_sim_event *event);
/* One line of the trace. node may be NULL. */
__attribute__((format(printf, 3, 4))) void
wr_sim_note(struct wr_sim *sim, const struct wr_sim_node *node, const char *format, ...);
/* An invariant does not hold; the first is kept. */
__attribute__((format(printf, 2, 3))) void wr_sim_fail(struct wr_sim *sim, const char *format, ...);

/* net.c */
void wr_sim_servers_start(struct wr_sim *sim);
void wr_sim_net_free(struct wr_sim *sim);
void wr_sim_flush(struct wr_sim_node *node); /* what its links have to write goes out */
/* Who still talks to a master that is none any more is cut off. */
void wr_sim_demote(struct wr_sim *sim, unsigned server);
void wr_sim_cut(struct wr_sim *sim, unsigned server, struct wr_sim_node *only, unsigned percent);
uint64_t wr_sim_master_us(const struct wr_sim *sim, const struct wr_sim_master *master);
struct wr_sim_master *wr_sim_master_new(struct wr_sim *sim, unsigned server, int64_t skew_ns);
extern const struct wr_central_host wr_sim_host;

/* node.c */
uint64_t wr_sim_node_now(const struct wr_sim_node *node);
uint64_t wr_sim_node_mono(const struct wr_sim_node *node);
void wr_sim_node_init(struct wr_sim *sim, unsigned number);
void wr_sim_node_start(struct wr_sim *sim, unsigned number);
void wr_sim_node_stop(struct wr_sim_node *node); /* the machine dies */
void wr_sim_serve_start(struct wr_sim_node *node);
void wr_sim_serve_stop(struct wr_sim_node *node); /* killed */
void wr_sim_node_rules(struct wr_sim_node *node, uint32_t limit);

/* request.c */
void wr_sim_arrive(struct wr_sim *sim, void *at, uint64_t life); /* a turn with requests */
/* One request for each key, everywhere. */
void wr_sim_poke(struct wr_sim *sim, void *object, uint64_t word);
void wr_sim_look(struct wr_sim *sim, void *object, uint64_t word); /* how it stands, everywhere */
/* The same at one node, while the others say nothing. */
void wr_sim_poke_one(struct wr_sim *sim, void *object, uint64_t number);
void wr_sim_look_one(struct wr_sim *sim, void *object, uint64_t number);
void wr_sim_requests_end(struct wr_sim_node *node); /* all that are under way */
void wr_sim_requests_free(struct wr_sim_node *node);

/* wait.c */
/* The store has answered the request, or failed to. */
void wr_sim_waited(struct wr_sim_request *request, bool failed);
/* What Redis said of a need of the request, or what was admitted without it. */
void wr_sim_told(struct wr_sim_request *request, const struct weir_decision *said, uint8_t key);
void wr_sim_alone(struct wr_sim_request *request, const struct wr_sim_admission *admission);

/* cluster.c */
unsigned wr_sim_server_count(const struct wr_sim_plan *plan);
void wr_sim_cluster_start(struct wr_sim *sim);
void wr_sim_cluster_join(struct wr_sim *sim, struct wr_sim_master *master, unsigned server);
void wr_sim_cluster_move(struct wr_sim *sim);
void wr_sim_cluster_down(struct wr_sim *sim, unsigned server);
bool wr_sim_cluster_is_moving(const struct wr_sim *sim, unsigned server);
void wr_sim_cluster_take_over(struct wr_sim *sim, unsigned server);
void wr_sim_cluster_heal(struct wr_sim *sim);

/* calendar.c */
uint64_t wr_sim_epoch_ns(const struct wr_sim_plan *plan); /* what clocks say at the beginning */
/* Number of the window of a fixed window that holds a time by some clock. */
uint64_t wr_sim_window(const struct wr_sim_plan *plan, uint64_t at_us);
uint64_t wr_sim_edge_ns(const struct wr_sim_plan *plan, unsigned session); /* true time */
int wr_sim_calendar_text(const struct wr_sim_plan *plan, char *text, size_t cap);
/* The time, or if all stand still then, one behind that. */
uint64_t wr_sim_awake_ns(const struct wr_sim_plan *plan, uint64_t at_ns);
void wr_sim_calendar_start(struct wr_sim *sim);

/* sentinel.c */
void wr_sim_watch_start(struct wr_sim *sim);
void wr_sim_watch_go(struct wr_sim *sim); /* … when the servers are there */
void wr_sim_watch_join(struct wr_sim *sim, struct wr_sim_master *master);
void wr_sim_watch_fault(struct wr_sim *sim, enum wr_sim_fault fault);
void wr_sim_watch_heal(struct wr_sim *sim);
/* The request is decided without Redis, or a primary took it. */
void wr_sim_watch_failed(const struct wr_sim_request *request);
void wr_sim_watch_admitted(const struct wr_sim_request *request);

/* operator.c */
void wr_sim_orders_start(struct wr_sim *sim);
void wr_sim_order_heard(struct wr_sim_node *node, const void *bytes, size_t len, uint64_t age_ns);
bool wr_sim_is_banned(const struct wr_sim_node *node, unsigned key);
/* The most that may have been granted to a key somewhere between these times. */
uint64_t wr_sim_granted(const struct wr_sim *sim, unsigned key, uint64_t from_ns, uint64_t to_ns);

/* fault.c */
void wr_sim_lost(struct wr_sim *sim, uint64_t to_ns, bool changed);
void wr_sim_faults_start(struct wr_sim *sim);

/* renew.c */
void wr_sim_renewals_start(struct wr_sim *sim);

/* oracle.c */
void wr_sim_admit(struct wr_sim *sim, struct wr_sim_admission admission);
void wr_sim_take_back(struct wr_sim *sim, uint64_t request);
void wr_sim_came(struct wr_sim *sim, uint8_t key, uint32_t cost);
void wr_sim_check(struct wr_sim *sim);

#endif
