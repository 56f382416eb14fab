/* The queue of deferred requests in virtual time: several nodes on one Redis, an API server, and
 * faults, all decided by one seed.
 *
 *   struct qs_plan plan;
 *   qs_plan_make(&plan, seed);
 *   qs_run(&plan, lua, NULL, NULL, &report);
 *   if (report.failure[0]) … run it again with a FILE to see what went before
 *
 * What is real: the store of src/queue (remote*.c with its calls, replies, retries and checks of
 * Redis' settings), the scripts, the rules of deliveries (serve/deliver/policy.c,
 * serve/deliver/absent.c). What is made up:
 * time, the network (link->wire), Redis' commands (sim/mini.h), and the API server.
 *
 * Two parts of weir wait for real clocks and sockets, so a thin driver does here what they do, with
 * the same calls in the same order: the queue's thread (queue/thread.c) is a loop on a stack of its
 * own that is switched away from where the real one would block, and the deliverer
 * (serve/deliver/deliver.c, deliver/attempt.c) is node.c. A limit is a pace for each line that all
 * nodes share; that limits hold is the subject of the fleet's simulation (sim/sim.h).
 *
 * The oracle (model.c) is a second queue, written plainly in C. It sees every call of the script
 * that Redis carries out, says what the answer has to be, and knows at any time who owns which line
 * and what waits there. world.c compares that with what clients, nodes and the API server saw. */
#ifndef TEST_SIM_QUEUE_SIM_H
#define TEST_SIM_QUEUE_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#include <hiredis/hiredis.h>

#include "sim/dice.h"
#include "sim/mini.h"
#include "queue/redis_backend.h"
#include "serve/deliver/absent.h"
#include "serve/deliver/policy.h"

#define QS_NODES 5u
#define QS_LINES 4u
#define QS_ORDERS 160u /* requests of clients */
#define QS_OWNERS 512u
#define QS_SLOTS 12u /* deliveries of a node */
#define QS_PUTS 8u   /* requests that a node is storing at a time */

#define MS UINT64_C(1000)
#define SECOND UINT64_C(1000000)

/* X(enum, name) */
#define QS_FAULTS(X)                                                                               \
	X(QS_CALL, "call")       /* calls are lost on their way to Redis, whole or in part */      \
	X(QS_REPLY, "reply")     /* Redis does it, and its answer is lost */                       \
	X(QS_LATE, "late")       /* Redis does it after the caller has given up */                 \
	X(QS_STALL, "stall")     /* Redis stands still for a while */                              \
	X(QS_RESTART, "restart") /* Redis is away for a while, and keeps its data */               \
	X(QS_LOSS, "loss")       /* … and loses the last seconds: --queue-assume-durable */      \
	X(QS_KILL, "kill")       /* a node dies and comes back, by its name or by another one */   \
	X(QS_PAUSE, "pause")     /* a node stands still, up to longer than it owns a line */       \
	X(QS_SKEW, "skew")       /* clocks of nodes disagree, and are set */                       \
	X(QS_STEP, "step")       /* the clock of Redis is set */                                   \
	X(QS_ERROR, "error")     /* Redis answers LOADING, BUSY, READONLY or OOM for a while */    \
	X(QS_API, "api")         /* the API answers 4xx, 5xx, 503 or nothing, or is away */        \
	X(QS_ORDER, "order")     /* an operator retries and drops */

enum qs_fault {
#define QS_ENUM(name, text) name,
	QS_FAULTS(QS_ENUM)
#undef QS_ENUM
		QS_FAULT_COUNT
};

struct qs_plan {
	uint64_t seed;
	unsigned faults; /* a bit for each that may happen */
	unsigned nodes, lines, orders;
	unsigned connections;  /* deliveries of a node at once */
	uint64_t length_us;    /* orders and faults end */
	uint64_t gap_us;       /* between orders, on average */
	uint64_t fault_gap_us; /* between faults, on average */
	uint64_t pace_us;      /* between deliveries of a line */
	uint64_t answer_us;    /* of the API, usually */
	uint64_t deliver_us;   /* --queue-timeout */
	uint64_t delay_us;     /* to Redis, one way, at most */
	uint32_t max_tries, max_waiting;
	uint64_t max_age_us;
	struct wr_queue_opts opts; /* bounds and times, as all nodes have them */
};

struct qs_report {
	uint64_t trace; /* hash of all that happened */
	uint64_t events, calls, faults;
	uint64_t orders, accepted, refused, unknown; /* unknown: no answer, and it may be stored */
	uint64_t sends, delivered, dead, dropped;
	uint64_t again; /* sent once more though the API had answered: that was not noted */
	uint64_t
		copies; /* stored once more, as a ticket was forgotten before the call came again */
	uint64_t stale; /* takes of connections that were replaced meanwhile */
	uint64_t takeover; /* lines that another owner got after a lease had ended */
	uint64_t lost;     /* accepted requests that went with Redis' data */
	unsigned seen;     /* faults that happened */
	char failure[512]; /* the first thing that did not hold; "": all did */
};

/* A change of the script, to see that the oracle finds it. NULL: none. */
struct qs_mutation {
	const char *from, *to;
};

void qs_plan_make(struct qs_plan *plan, uint64_t seed);
void qs_plan_text(const struct qs_plan *plan, char *text, size_t cap);
void qs_run(const struct qs_plan *plan, struct wr_lua *lua, const struct qs_mutation *mutation,
	    FILE *trace, struct qs_report *report);

/* ---- the oracle's queue: model.c ---- */

enum qs_state { QS_WAITING = 0, QS_DELIVERED = 2, QS_DEAD = 3, QS_DROPPED = 4, QS_FORGOTTEN = 5 };

struct qs_row {
	uint64_t id;
	unsigned order; /* of a client */
	unsigned line;
	enum qs_state state;
	uint64_t tries, max_tries, status, bytes;
	uint64_t at_us, age_us, due_us, expires_us, gone_us; /* Redis' time */
	uint64_t fence;                                      /* of its last settle */
	uint8_t hash[WR_TICKET_HASH_BYTES];
};

struct qs_line {
	uint64_t fence; /* 0: nobody has it */
	uint64_t id;
	uint64_t until_us;
	char owner[WR_QUEUE_OWNER_TEXT];
};

struct qs_owner {
	char name[WR_QUEUE_OWNER_TEXT];
	uint64_t link;
};

struct qs_model {
	struct qs_row rows[2 * QS_ORDERS];
	struct qs_owner owners[QS_OWNERS];
	size_t count;
	struct qs_line lines[QS_LINES];
	uint64_t last_id, fences, last_us;
	uint64_t put, delivered, retried, dead, dropped;
};

struct qs_world;

/* Redis has carried out this call of the script, with this answer. */
void qs_model_call(struct qs_world *world, const struct weir_str *argv, size_t argc,
		   const redisReply *reply);
const struct qs_row *qs_model_order(const struct qs_model *model, unsigned order);
size_t qs_model_waiting(const struct qs_model *model, unsigned line);

/* ---- events: world.c ---- */

struct qs_node;
typedef void qs_fn(struct qs_world *world, void *object, uint64_t word);

struct qs_event {
	uint64_t at_us, number;
	struct qs_node *node; /* whose; NULL: of the world */
	uint64_t life;        /* of the node: what was to come dies with it */
	qs_fn *run;
	void *object;
	uint64_t word;
};

/* `run` at that time. An event of a node waits while the node stands still. */
void qs_at(struct qs_world *world, uint64_t at_us, struct qs_node *node, qs_fn *run, void *object,
	   uint64_t word);
__attribute__((format(printf, 2, 3))) void qs_note(struct qs_world *world, const char *format, ...);
__attribute__((format(printf, 2, 3))) void qs_fail(struct qs_world *world, const char *format, ...);

/* ---- Redis and connections to it: server.c ---- */

struct qs_connection {
	struct qs_connection *next;
	struct qs_node *node; /* NULL: it was closed */
	struct wr_bytes to_server, to_node;
	uint64_t last_us; /* when the last bytes arrive that are on their way */
	bool broken;      /* for the node */
	bool dead;        /* nothing that is sent from now on arrives */
};

struct qs_server {
	struct wr_mini *mini, *saved; /* saved: what it has after it lost the last seconds */
	struct qs_model saved_model;
	struct wr_bytes script;
	bool knows; /* the script */
	bool up;
	bool tells; /* its settings */
	uint64_t still_until_us;
	int64_t ahead_us; /* its clock */
	uint64_t run;     /* which process */
	bool lost;        /* data, so that fences are given twice */
	uint64_t stepped; /* how often its clock was set forward, or its data went back */
	struct qs_connection *connections;
};

extern const struct wr_queue_redis_wire qs_wire; /* context: a node */

void qs_server_start(struct qs_world *world, const struct qs_mutation *mutation);
void qs_server_free(struct qs_world *world);
void qs_server_save(struct qs_world *world);
void qs_server_stop(struct qs_world *world, bool loses);
uint64_t qs_server_time(const struct qs_world *world);

/* ---- nodes: node.c ---- */

enum qs_stage { QS_FREE, QS_HELD, QS_READY, QS_SENDING, QS_SETTLING };

struct qs_slot {
	struct qs_node *node;
	enum qs_stage stage;
	struct wr_deferred *request;
	uint64_t asked_us;
	uint64_t stepped; /* server.stepped when it was asked for */
	uint64_t send;    /* number of what is under way */
	struct wr_queue_job job;
	char reason[40];
};

struct qs_put {
	struct qs_node *node;
	bool busy;
	unsigned order;
	struct wr_deferred request;
	char body[1200];
	struct wr_queue_job job;
};

struct qs_node {
	struct qs_world *world;
	unsigned number;
	unsigned names; /* how many it went by */
	uint64_t life;
	uint64_t still_until_us;
	int64_t wall_ahead_us;

	/* the queue's thread */
	ucontext_t here;
	char *stack;
	bool running, dead;
	uint64_t naps;
	struct wr_queue_opts opts;
	struct wr_queue_backend *store;
	bool open;
	enum wr_queue_reason reason;
	uint64_t tried_us, ticked_us;
	struct wr_queue_job *first, **tail;
	struct qs_connection *connection;
	uint64_t told[QS_LINES];

	/* the deliverer */
	struct qs_slot slots[QS_SLOTS];
	struct wr_queue_job take;
	uint64_t asked_us, asked_stepped, deadline_us, deadline_number;
	bool taking, take_again;
	unsigned sending, down;
	uint64_t rest_until_us;
	struct wr_deliver_absent absent;

	/* clients and operators */
	struct qs_put puts[QS_PUTS];
	struct wr_queue_job page, ticket;
	bool paging, asking;
	unsigned asked_order;
};

void qs_node_start(struct qs_world *world, unsigned number, bool new_name);
void qs_node_kill(struct qs_node *node);
void qs_node_nap(struct qs_node *node, uint64_t until_us); /* of the thread */
void qs_node_wake(struct qs_node *node);
void qs_node_submit(struct qs_node *node, struct wr_queue_job *job);
void qs_node_put(struct qs_node *node, unsigned number);
void qs_node_answered(struct qs_node *node, uint64_t send, unsigned status, bool unsent);
void qs_node_operate(struct qs_node *node);
void qs_node_ask(struct qs_node *node, unsigned order);

/* ---- clients and the API: world.c ---- */

struct qs_order {
	unsigned line;
	size_t body_len;
	bool begun, done;
	enum wr_queue_reason reason;
	uint64_t begun_us, done_us;
	uint8_t ticket[WR_TICKET_BYTES];
	unsigned answers; /* final ones of the API */
	bool vanished;    /* with Redis' data */
	bool copied;      /* stored once more, behind others */
};

struct qs_send {
	unsigned order;
	uint64_t fence;
	unsigned status; /* 0: none */
	bool unsent;
	struct qs_node *node;
	uint64_t life;
};

/* A node begins to send; returns the number of that. */
uint64_t qs_api_send(struct qs_node *node, const struct wr_deferred *request, uint64_t stepped);
/* The send that was made by this ownership, or NULL. */
const struct qs_send *qs_api_by_fence(const struct qs_world *world, unsigned order, uint64_t fence);

enum qs_mood { QS_FINE, QS_MIXED, QS_ABSENT, QS_AWAY, QS_SILENT, QS_MOODS };

struct qs_world {
	const struct qs_plan *plan;
	struct qs_report *report;
	struct wr_lua *lua;
	FILE *trace;
	struct wr_dice traffic, net, fate, api;
	uint64_t now_us;
	struct qs_event *events;
	size_t event_count, event_cap;
	uint64_t event_number;
	ucontext_t main;
	struct qs_server server;
	struct qs_model model;
	struct qs_node nodes[QS_NODES];
	struct qs_order orders[QS_ORDERS];
	unsigned next_order;
	uint64_t paced_us[QS_LINES]; /* when the limit of a line admits the next */
	struct qs_send *sends;
	size_t send_count, send_cap;
	enum qs_mood mood;
	unsigned faults; /* of the network, now */
	bool quiet;      /* no more faults */
	bool over;       /* all is delivered or given up: tickets are asked for */
};

#endif
