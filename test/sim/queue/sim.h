/* Simulates the queue of deferred requests in virtual time. Several nodes share one Redis and
 * deliver to an API server, and faults happen. One seed decides everything.
 *
 *   struct qs_plan plan;
 *   qs_plan_make(&plan, seed);
 *   qs_run(&plan, lua, NULL, NULL, &report);
 *   if (report.failure[0]) … // run the plan again with a FILE, which gets all events as text
 *
 * These parts are the real code: the Redis backend of src/queue (redis_*.c with its calls, replies,
 * retries and checks of Redis' settings), the script, and the delivery policy
 * (serve/deliver/policy.c, serve/deliver/absent.c). These parts are simulated: time, the network
 * (link->wire), the commands of Redis (sim/redis.h), and the API server.
 *
 * Two parts of weir wait for real clocks and sockets, so node.c replaces these parts by code that
 * makes the same calls in the same order. The first is the queue's thread (queue/thread.c): node.c
 * has a loop on its own stack, and the simulator switches to another stack where the real thread
 * would block. The second is the deliverer (serve/deliver/deliver.c, deliver/attempt.c). A limit is
 * simulated as a minimum time between two deliveries of a line, by all nodes together. The
 * simulation of the fleet (sim/sim.h) checks that limits hold.
 *
 * The oracle (model.c) is a second queue in plain C. It gets every call of the script that Redis
 * runs and checks the reply. At any time it knows the owner and the requests of each line. run.c
 * compares this knowledge with the events at clients, nodes and the API server.
 *
 * A post is a request that a client sends to a node and that the node stores in the queue. The body
 * of a post begins with the number of the post. */
#ifndef TEST_SIM_QUEUE_SIM_H
#define TEST_SIM_QUEUE_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#include <hiredis/hiredis.h>

#include "base/heap.h"
#include "sim/rng.h"
#include "sim/redis.h"
#include "sim/trace.h"
#include "queue/redis_backend.h"
#include "serve/deliver/absent.h"
#include "serve/deliver/policy.h"

#define QS_NODES 5u
#define QS_LINES 4u
#define QS_POSTS 160u
#define QS_OWNERS 512u
#define QS_SLOTS 12u /* maximum number of requests that a node has taken at the same time */
#define QS_PUTS 8u   /* maximum number of puts of a node at the same time */

#define MS UINT64_C(1000)
#define SECOND UINT64_C(1000000)

/* The list of all faults: X(enum value, name). */
#define QS_FAULTS(X)                                                                               \
	X(QS_CALL, "call")       /* calls to Redis are lost, completely or partly */               \
	X(QS_REPLY, "reply")     /* Redis runs the call, and the reply is lost */                  \
	X(QS_LATE, "late")       /* Redis runs the call after the caller's timeout */              \
	X(QS_STALL, "stall")     /* Redis stops for a while */                                     \
	X(QS_RESTART, "restart") /* Redis is down for a while and keeps its data */                \
	X(QS_LOSS, "loss")   /* a restart that loses the last writes (--queue-assume-durable) */   \
	X(QS_KILL, "kill")   /* a node dies and restarts, with the same or a new owner name */     \
	X(QS_PAUSE, "pause") /* a node stops for a while, maybe longer than its leases last */     \
	X(QS_SKEW, "skew")   /* clocks of nodes disagree and jump */                               \
	X(QS_STEP, "step")   /* the clock of Redis jumps */                                        \
	X(QS_ERROR, "error") /* Redis replies LOADING, BUSY, READONLY or OOM for a while */        \
	X(QS_API, "api")     /* the API answers 4xx, 5xx, 503 or nothing, or is down */            \
	X(QS_OPERATE, "operate") /* an operator retries and drops requests */

enum qs_fault {
#define QS_ENUM(name, text) name,
	QS_FAULTS(QS_ENUM)
#undef QS_ENUM
		QS_FAULT_COUNT
};

struct qs_plan {
	uint64_t seed;
	unsigned faults; /* a bit for each enum qs_fault that may happen */
	unsigned nodes, lines, posts;
	unsigned connections;  /* maximum number of deliveries of a node at the same time */
	uint64_t length_us;    /* posts and faults end at this time */
	uint64_t gap_us;       /* mean time between two posts */
	uint64_t fault_gap_us; /* longest time until the simulator tries the next fault */
	uint64_t pace_us;      /* minimum time between two deliveries of a line */
	uint64_t answer_us;    /* the usual response time of the API */
	uint64_t deliver_us;   /* the value of --queue-timeout */
	uint64_t delay_us;     /* longest delay of a message to or from Redis */
	uint32_t max_tries, max_waiting;
	uint64_t max_age_us;
	struct wr_queue_opts opts; /* options of the queue, the same for all nodes */
};

struct qs_report {
	uint64_t trace; /* hash of all events */
	uint64_t events, calls, faults;
	uint64_t posts, accepted, refused, unknown; /* unknown: Redis has not replied to the put */
	uint64_t sends, delivered, dead, dropped;
	uint64_t again;    /* final responses of the API to a post after its first final response */
	uint64_t copies;   /* posts stored twice, because the ticket expired before a retry */
	uint64_t stale;    /* takes on a connection that the node had already replaced */
	uint64_t takeover; /* how often the lease of a line expired */
	uint64_t lost;     /* accepted posts that were lost because Redis lost data */
	unsigned seen;     /* a bit for each fault that happened */
	char failure[WR_SIM_FAILURE]; /* the first invariant that was violated, or "" */
};

/* A change of the script: the text `from` is replaced by `to`. The oracle must find the change. */
struct qs_mutation {
	const char *from, *to;
};

void qs_plan_make(struct qs_plan *plan, uint64_t seed);
void qs_plan_text(const struct qs_plan *plan, char *text, size_t cap);
void qs_run(const struct qs_plan *plan, struct wr_sim_lua *lua, const struct qs_mutation *mutation,
	    FILE *trace, struct qs_report *report);

/* ---- the oracle's queue: model.c ---- */

enum qs_state { QS_WAITING = 0, QS_DELIVERED = 2, QS_DEAD = 3, QS_DROPPED = 4, QS_FORGOTTEN = 5 };

struct qs_row {
	uint64_t id;
	unsigned post;
	unsigned line;
	enum qs_state state;
	uint64_t tries, max_tries, status, bytes;
	uint64_t at_us, age_us, due_us, expires_us, gone_us; /* by Redis' clock */
	uint64_t fence; /* fence of the last settle of the request */
	uint8_t hash[WR_TICKET_HASH_BYTES];
};

struct qs_line {
	uint64_t fence; /* 0: the line has no owner */
	uint64_t id;
	uint64_t until_us;
	char owner[WR_QUEUE_OWNER_TEXT];
};

struct qs_owner {
	char name[WR_QUEUE_OWNER_TEXT];
	uint64_t link;
};

struct qs_model {
	struct qs_row rows[2 * QS_POSTS];
	struct qs_owner owners[QS_OWNERS];
	size_t count;
	struct qs_line lines[QS_LINES];
	uint64_t last_id, fences, last_us;
	uint64_t put, delivered, retried, dead, dropped;
};

struct qs_sim;

/* Called after Redis has run a call of the script. Repeats the call on the model and checks the
 * reply. */
void qs_model_call(struct qs_sim *sim, const struct weir_str *argv, size_t argc,
		   const redisReply *reply);
/* Returns the row of a post, or NULL if the post is not stored. */
const struct qs_row *qs_model_find(const struct qs_model *model, unsigned post);
/* Returns the number of requests that wait in a line. */
size_t qs_model_waiting(const struct qs_model *model, unsigned line);

/* ---- events: run.c ---- */

struct qs_node;
typedef void qs_event_fn(struct qs_sim *sim, void *object, uint64_t arg);

struct qs_event {
	struct wr_heap_node heap;
	uint64_t at_us, number;
	struct qs_node *node; /* while this node is paused the event waits; may be NULL */
	uint64_t incarnation; /* the event is dropped if the node's incarnation has changed since */
	qs_event_fn *run;
	void *object;
	uint64_t arg;
};

/* Schedules run(sim, object, arg) at at_us, or now if at_us is in the past. If `node` is not
 * NULL, the event waits while this node is paused, and is dropped if the node dies. */
void qs_schedule(struct qs_sim *sim, uint64_t at_us, struct qs_node *node, qs_event_fn *run,
		 void *object, uint64_t arg);
__attribute__((format(printf, 2, 3))) void qs_trace(struct qs_sim *sim, const char *format, ...);
__attribute__((format(printf, 2, 3))) void qs_fail(struct qs_sim *sim, const char *format, ...);

/* ---- Redis and connections to it: server.c ---- */

struct qs_connection {
	struct qs_connection *next;
	struct qs_node *node; /* NULL: the node has closed the connection */
	struct wr_buf to_server, to_node;
	uint64_t last_us; /* when the last bytes in flight will arrive */
	bool broken;      /* the node gets an error when it uses the connection */
	bool dead;        /* bytes sent from now on are lost */
};

struct qs_server {
	struct wr_sim_redis *redis, *saved; /* saved: an older copy, for QS_LOSS */
	struct qs_model saved_model;
	struct wr_buf script;
	bool script_loaded;
	bool up;
	bool shows_config; /* Redis replies to CONFIG GET with its settings */
	uint64_t paused_until_us;
	int64_t skew_us;  /* Redis' clock minus the true time */
	uint64_t run_id;  /* number of starts of Redis */
	bool lost;        /* Redis has lost data, so fences may repeat */
	uint64_t stepped; /* how often Redis' clock has jumped forward or Redis has lost data */
	struct qs_connection *connections;
};

extern const struct wr_queue_redis_wire qs_wire; /* its context is a struct qs_node */

void qs_server_start(struct qs_sim *sim, const struct qs_mutation *mutation);
void qs_server_free(struct qs_sim *sim);
void qs_server_save(struct qs_sim *sim);
void qs_server_stop(struct qs_sim *sim, bool loses);
uint64_t qs_server_time(const struct qs_sim *sim);

/* ---- nodes: node.c ---- */

enum qs_stage { QS_FREE, QS_HELD, QS_READY, QS_SENDING, QS_SETTLING };

struct qs_slot {
	struct qs_node *node;
	enum qs_stage stage;
	struct wr_queue_request *request;
	uint64_t asked_us;
	uint64_t stepped; /* value of server.stepped when the node asked for requests */
	uint64_t send;    /* number of the delivery attempt in flight */
	struct wr_queue_job job;
	char reason[40];
};

struct qs_put {
	struct qs_node *node;
	bool busy;
	unsigned post;
	struct wr_queue_request request;
	char body[1200];
	struct wr_queue_job job;
};

struct qs_node {
	struct qs_sim *sim;
	unsigned number;
	unsigned names; /* number of new owner names so far */
	uint64_t incarnation;
	uint64_t paused_until_us;
	int64_t wall_skew_us;

	/* The queue's thread. */
	ucontext_t here;
	char *stack;
	bool running, dead;
	uint64_t blocks;
	struct wr_queue_opts opts;
	struct wr_queue_backend *store;
	bool open;
	enum wr_queue_reason reason;
	uint64_t tried_us, ticked_us;
	struct wr_list pending; /* submitted jobs that the thread has not fetched */
	struct qs_connection *connection;
	/* number of waiting requests of each line, as the backend reported it */
	uint64_t known_waiting[QS_LINES];

	/* The deliverer. */
	struct qs_slot slots[QS_SLOTS];
	struct wr_queue_job take;
	uint64_t asked_us, asked_stepped, deadline_us, deadline_number;
	bool taking, take_again;
	unsigned sending, down;
	uint64_t rest_until_us;
	struct wr_deliver_absent absent;

	/* Jobs of clients and operators. */
	struct qs_put puts[QS_PUTS];
	struct wr_queue_job page, ticket;
	bool paging, asking;
	unsigned asked_post;
};

void qs_node_start(struct qs_sim *sim, unsigned number, bool new_name);
void qs_node_kill(struct qs_node *node);
/* Blocks the queue's thread until until_us or until qs_node_wake(). Called only by the code that
 * runs on the stack of the thread. */
void qs_node_block(struct qs_node *node, uint64_t until_us);
void qs_node_wake(struct qs_node *node);
void qs_node_submit(struct qs_node *node, struct wr_queue_job *job);
void qs_node_put(struct qs_node *node, unsigned number);
void qs_node_answered(struct qs_node *node, uint64_t send, unsigned status, bool unsent);
void qs_node_operate(struct qs_node *node);
void qs_node_ask(struct qs_node *node, unsigned post);

/* ---- clients and the API: run.c ---- */

struct qs_post {
	unsigned line;
	size_t body_len;
	bool begun, done;
	enum wr_queue_reason reason;
	uint64_t begun_us, done_us;
	uint8_t ticket[WR_TICKET_BYTES];
	unsigned answers; /* number of final responses of the API */
	bool vanished;    /* the post was lost because Redis lost data */
	bool copied;      /* the post was stored a second time, possibly behind later posts */
};

struct qs_send {
	unsigned post;
	uint64_t fence;
	unsigned status; /* status of the response; 0: no response */
	bool unsent;
	struct qs_node *node;
};

/* Called when a node begins to send a request to the API. Returns the number of this delivery
 * attempt. */
uint64_t qs_api_send(struct qs_node *node, const struct wr_queue_request *request,
		     uint64_t stepped);
/* Returns the last delivery attempt of the post that was taken with this fence, or NULL if the post
 * was not sent with this fence. */
const struct qs_send *qs_api_by_fence(const struct qs_sim *sim, unsigned post, uint64_t fence);

enum qs_api_mode {
	QS_API_FINE,
	QS_API_MIXED,
	QS_API_ABSENT,
	QS_API_DOWN,
	QS_API_SILENT,
	QS_API_MODES
};

struct qs_sim {
	const struct qs_plan *plan;
	struct qs_report *report;
	struct wr_sim_lua *lua;
	FILE *trace;
	struct wr_rng traffic_rng, net_rng, fault_rng, api_rng;
	uint64_t now_us;
	struct wr_heap events;
	uint64_t event_number;
	ucontext_t main;
	struct qs_server server;
	struct qs_model model;
	struct qs_node nodes[QS_NODES];
	struct qs_post posts[QS_POSTS];
	unsigned next_post;
	uint64_t paced_us[QS_LINES]; /* when each line's limit admits the next delivery */
	struct qs_send *sends;
	size_t send_count, send_cap;
	enum qs_api_mode api_mode;
	unsigned faults; /* a bit for each current fault of the network */
	bool quiet;      /* no more faults happen */
	bool over;       /* no request waits, and the tickets are being checked */
};

#endif
