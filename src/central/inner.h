/* The state of a loop: its servers, its connections and the tasks of the chief loop, and the
 * functions that the files of this folder call in each other. call.h has the parts and calls.
 *
 *   ask ──► parts (one per limit) ──► calls (one per command) ──► shard ──► connection ──► Redis
 *
 * Prefixes: wr_central_ for the folder, wr_call_ for calls, wr_lease_ for borrowed units,
 * wr_refusals_ for refusals.h, and wr_exchange_ for exchange.h. */
#ifndef WR_CENTRAL_INNER_H
#define WR_CENTRAL_INNER_H

#include "central/breaker.h"
#include "central/call.h"
#include "central/central.h"
#include "central/exchange.h"
#include "central/lease.h"
#include "central/pool.h"
#include "central/refusals.h"
#include "redis/command.h"
#include "redis/reply.h"
#include "redis/topology.h"

/* Maximum number of calls of one shard without a reply, written or not. */
#define WR_IN_FLIGHT_MAX 8192u
#define WR_CENTRAL_OUTPUT_MAX (8u << 20) /* maximum number of unwritten bytes of one connection */
#define WR_SHARDS_MAX 256u
#define WR_MERGE_ENTRIES 1024u
#define WR_SILENCE_NS 1000000000ull /* minimum time without a reply until a connection is closed */
#define WR_MS_NS 1000000ull

#define WR_CENTRAL_MAGIC 0x63656e74u
#define WR_CENTRAL_CONN_MAGIC 0x636f6e6eu

/* ---- connections and servers ---- */

enum wr_central_conn_state {
	WR_CONN_OPENING,
	WR_CONN_HANDSHAKE, /* connected, but the commands of handshake.c are not answered yet */
	WR_CONN_READY,
	WR_CONN_CLOSED, /* freed as soon as no public function is running */
};

struct wr_central_conn {
	/* Must be the first field: conn.c converts the host's pointer to the link into a pointer to
	 * the connection. */
	struct wr_central_link link;
	uint32_t magic; /* WR_CENTRAL_CONN_MAGIC */
	struct wr_central *central;
	struct wr_central_shard *shard; /* NULL: the connection goes to a Sentinel */
	enum wr_central_conn_state state;
	bool dirty;  /* the host has been notified of output */
	bool served; /* the server has answered a question on this connection */
	bool late;   /* true while the reply to a call that has timed out is handled */
	uint64_t opened_mono_ns;
	uint64_t written; /* wr_call.number of the call written last */
	/* For each script, wr_call.number of the latest call that contains the script's text
	 * (EVAL). */
	uint64_t evals[WR_SCRIPT_NAMES];
	struct wr_commands out;
	struct wr_redis_replies in;
	struct wr_call_queue waiting; /* written calls without a reply, in the order of writing */
	struct wr_call *due;          /* the first call in `waiting` that has not timed out */
	struct wr_central_conn *next; /* next connection in central->closed */
};

/* A Redis server to which questions are sent. Without a cluster there is one shard. */
struct wr_central_shard {
	struct wr_central *central;
	/* The server's address. WR_ENDPOINT_ANY: Sentinel has not named the master yet. */
	struct wr_endpoint at;
	struct wr_central_conn *conn; /* NULL: not connected */
	struct wr_breaker breaker;
	struct wr_call_queue unwritten;
	/* Deadline for connecting, monotonic; 0: no deadline. If the connection is not established
	 * by then, the breaker opens. */
	uint64_t connect_by_ns;
	uint64_t down_since_ns; /* when `down` became true, monotonic */
	uint32_t slots;
	/* One bit for each enum wr_fault. A bit is set if this kind of error was logged since the
	 * shard was last up. */
	uint32_t logged_faults;
	bool down;        /* the breaker has opened, and no recovery was logged since */
	bool probing;     /* a PING is in flight */
	int64_t clock_us; /* the server's clock minus this node's clock, in µs */
	char trouble[160], version[24], policy[24];
	int8_t aof;
	struct wr_central_counts counts;
};

/* ---- topology and the chief loop's tasks ---- */

/* State of cluster.c, which knows which shard owns which slot. */
struct wr_central_cluster {
	bool known;         /* a slot map has been read at least once */
	bool unreachable;   /* every known server of the cluster was tried without success */
	bool asking;        /* CLUSTER SLOTS is in flight */
	bool logged;        /* it was logged that CLUSTER SLOTS returned no slot map */
	uint32_t next_node; /* index of the shard to ask next for the slot map */
	uint32_t tried;     /* number of connection attempts since the last slot map */
	uint64_t refresh_at_ns, refreshed_ns;
	struct wr_call_queue unrouted; /* calls that wait for the first slot map */
	/* For each slot the index of its shard, or WR_CLUSTER_NO_OWNER. */
	uint16_t owner[WR_REDIS_SLOTS];
	struct wr_redis_cluster_map map; /* the slot map as it was last read */
};

/* State of sentinels.c, which knows which server is the master. */
struct wr_central_sentinels {
	struct wr_endpoint_list list;
	uint32_t at;    /* index of the Sentinel in use */
	uint32_t tried; /* number of Sentinels that failed since the last answer */
	struct wr_central_conn *conn;
	bool asking;
	bool logged; /* it was logged that no Sentinel names the master */
	uint32_t polls;
	uint64_t polled_ns, poll_at_ns;
	/* Deadline for connecting to the Sentinel and for its answer, monotonic; 0: no answer is
	 * expected. */
	uint64_t answer_by_ns;
};

/* A control message that waits to be published. */
struct wr_central_message {
	struct wr_list link;
	size_t len;
	uint8_t bytes[];
};

/* State of node.c and control.c: the tasks that only the chief loop of a node performs. */
struct wr_central_duties {
	/* Each flag is true while a command of one task is in flight: sending a heartbeat, reading
	 * control messages, publishing one, or agreeing on the secret. */
	bool beating, listening, publishing, agreeing;
	bool secret_known, secret_given, secret_logged;
	uint8_t secret[WR_CENTRAL_SECRET], proposed[WR_CENTRAL_SECRET];
	uint32_t nodes;
	/* When the next heartbeat, the next read of control messages and the next attempt to
	 * publish messages are due, monotonic. */
	uint64_t beat_at_ns, listen_at_ns, publish_at_ns;
	uint64_t redis_us;          /* time in the latest reply to TIME, in µs since the epoch */
	uint64_t read_ms, read_seq; /* id of the latest message that was read */
	struct wr_list messages;    /* messages to be published */
	uint32_t message_count;
};

#define WR_REPORT_LISTS 1024u
/* The value of wr_call.step in a TIME command that precedes a read of the Redis stream with the
 * control messages. */
#define WR_TIME_FOR_STREAM 1u

/* State of report.c: the units that this node admitted while a shard was unavailable. */
struct wr_central_reports {
	/* Lists of reports by hash of the key. Each list begins with the oldest report. Reports
	 * that were sent stay in the list until Redis confirms them. */
	struct wr_call *lists[WR_REPORT_LISTS];
	uint32_t calls, parts;
	uint32_t in_flight;
	bool full_logged; /* it was logged that there is no room for reports */
	uint64_t next_seq;
	uint64_t send_at_ns; /* when to send reports, monotonic; UINT64_MAX: no report waits */
};

/* State of late.c: lists, by key, of takes that Redis executed after their asks had timed out. */
struct wr_central_late {
	struct wr_central_part *lists[WR_REPORT_LISTS];
	uint32_t count;
	/* Time at which late.c next looks for takes whose units it must give back, monotonic;
	 * UINT64_MAX: there are no late takes. */
	uint64_t check_at_ns;
};

/* Entry of central->merge: a call to which takes of the same batch, counter, limit and cost can be
 * added. */
struct wr_central_merge_entry {
	uint64_t batch;
	struct wr_call *call;
};

struct wr_central {
	uint32_t magic; /* WR_CENTRAL_MAGIC */
	const struct wr_redis_target *target;
	struct wr_central_host host;
	void *context;
	char prefix[WR_REDIS_PREFIX_MAX + 4]; /* prefix of all keys in Redis, such as "weir:1:" */
	size_t prefix_len;
	char holder[48];   /* this node's name in Redis */
	char reporter[64]; /* this loop's name in reports */
	uint64_t timeout_ns;
	/* The table that stores borrowed units; NULL: this loop borrows no units. */
	struct weir_table *table;
	uint64_t owner; /* this loop's id in the table; also its name as lease holder in Redis */
	uint32_t fleet_size;
	bool chief;
	bool freeing, ticking;
	uint64_t random;

	uint64_t now_ns, mono_ns; /* the times that the host passed in last */
	uint64_t wake_ns;         /* time at which the host was asked to call wr_central_tick */
	/* Number of public functions that are running. It can be above 1, because a public function
	 * may call a callback, which may call another public function. */
	uint32_t depth;
	struct wr_central_conn *closed;

	struct wr_list asks; /* the asks in flight, earliest deadline first */
	uint32_t waiting;    /* number of asks in `asks` */
	struct wr_central_pool parts, calls;
	struct wr_call_queue again; /* calls that wait to be retried, earliest retry first */
	/* Number of the current batch. The calls of a batch are written together and can be
	 * merged. */
	uint64_t batch;
	struct wr_central_merge_entry merge[WR_MERGE_ENTRIES];

	struct wr_central_shard *shards[WR_SHARDS_MAX];
	uint32_t shard_count;
	struct wr_central_cluster *cluster;     /* NULL: Redis is no cluster */
	struct wr_central_sentinels *sentinels; /* NULL: Redis has no Sentinels */
	struct wr_central_duties duties;
	struct wr_central_reports reports;
	struct wr_central_late late;
	struct wr_refusals *refusals;
	struct wr_central_lease_holds *holds;
	struct wr_central_exchanges *exchanges; /* NULL: this loop does not exchange counters */
	/* If this struct pushes to another region: the struct wr_central of this node's own region.
	 * Otherwise NULL. */
	struct wr_central *home;
	uint32_t region; /* index of the other region among the regions of `home` */
	uint32_t pushes; /* number of PUSH calls in flight */
	/* Numbers of events that belong to no shard. The events of removed shards are added to
	 * them. */
	struct wr_central_counts counts;
};

/* ---- central.c ---- */

/* Every public function starts with wr_central_enter and ends with wr_central_exit. */
void wr_central_enter(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);
void wr_central_exit(struct wr_central *central);
/* Makes sure that the host calls wr_central_tick at mono_ns or earlier. */
void wr_central_wake_at(struct wr_central *central, uint64_t mono_ns);
uint64_t wr_central_random(struct wr_central *central);
__attribute__((format(printf, 3, 4))) void wr_central_log(struct wr_central *central,
							  enum wr_central_log_level level,
							  const char *format, ...);

/* ---- shard.c ---- */

struct wr_central_shard *wr_central_shard_new(struct wr_central *central,
					      const struct wr_endpoint *at);
/* Closes the connection of the shard and fails all its calls. Does not free the shard. */
void wr_central_shard_close(struct wr_central_shard *shard);
void wr_central_shard_push(struct wr_central_shard *shard, struct wr_call *call);
void wr_central_shard_connect(struct wr_central_shard *shard);
/* Called when the handshake has succeeded. */
void wr_central_shard_on_ready(struct wr_central_shard *shard);
/* Called when a call was answered. A reply after the timeout does not count as a success. */
void wr_central_shard_on_success(struct wr_central_shard *shard);
/* Called when a call has failed. `text` is the error reply, or "" if there was no reply. */
void wr_central_shard_on_fault(struct wr_central_shard *shard, enum wr_fault fault,
			       struct weir_str text);
/* Logs an error that has no effect on the breaker. */
void wr_central_shard_warn(struct wr_central_shard *shard, enum wr_fault fault,
			   struct weir_str text);
/* Called when the connection was lost. `served` is true if the server had answered questions on the
 * connection, or if the connection had been ready for at least WR_SILENCE_NS. */
void wr_central_shard_on_lost(struct wr_central_shard *shard, bool served, enum wr_fault fault,
			      const char *why);
/* Gives the shard another address, and connects to it. */
void wr_central_shard_move(struct wr_central_shard *shard, const struct wr_endpoint *at);
/* Called when the reply to the call contains the server's time. Estimates the difference between
 * the server's clock and this node's clock. */
void wr_central_shard_note_clock(struct wr_central_shard *shard, const struct wr_call *call,
				 uint64_t now_us);
void wr_central_shard_tick(struct wr_central_shard *shard);
/* Returns how long the server can leave a call without a reply before the connection is closed: one
 * second, or the timeout if the timeout is longer. */
uint64_t wr_central_silence_ns(const struct wr_central *central);
/* Returns whether the connection is ready. Calls can then be written to it directly. */
bool wr_central_shard_is_ready(const struct wr_central_shard *shard);
/* Returns whether the connection is ready and the breaker is closed. */
bool wr_central_shard_is_up(const struct wr_central_shard *shard);
/* Returns whether the connection is ready and the breaker is closed or half open. */
bool wr_central_shard_answers(const struct wr_central_shard *shard);

/* ---- conn.c ---- */

/* Opens a connection to a shard, or to a Sentinel if `shard` is NULL. Returns NULL if there is no
 * memory. */
struct wr_central_conn *wr_central_conn_open(struct wr_central *central,
					     const struct wr_endpoint *at,
					     struct wr_central_shard *shard);
/* Writes the call at once, without the shard's queue. */
void wr_central_conn_write(struct wr_central_conn *conn, struct wr_call *call);
/* Makes a call of this kind and writes it at once. If `busy` is not NULL, *busy is true until the
 * call is freed. Does nothing if there is no memory. */
void wr_central_conn_send(struct wr_central_conn *conn, enum wr_call_kind kind, bool *busy);
/* Notifies the host that the connection has output. */
void wr_central_conn_mark_dirty(struct wr_central_conn *conn);
/* Closes the connection and fails its calls. The caller must have dropped its own pointer to the
 * connection before. */
void wr_central_conn_close(struct wr_central_conn *conn);
/* Closes the connection because of an error. Notifies its shard or, if it has no shard,
 * sentinels.c. */
void wr_central_conn_fail(struct wr_central_conn *conn, enum wr_fault fault, const char *why);
void wr_central_conns_free_closed(struct wr_central *central);
/* handshake.c: sends the first commands of a connection. */
void wr_central_handshake(struct wr_central_conn *conn);

/* ---- cluster.c ---- */

/* Returns the shard that owns the slot, or NULL if no shard is known to own it. Without a cluster,
 * returns the only shard. */
struct wr_central_shard *wr_central_slot_shard(struct wr_central *central, uint16_t slot);
bool wr_central_cluster_start(struct wr_central *central);
void wr_central_cluster_free(struct wr_central *central);
void wr_central_cluster_tick(struct wr_central *central);
/* Plans to read the slot map again soon, because it may be out of date. */
void wr_central_cluster_refresh_soon(struct wr_central *central);
void wr_central_cluster_on_ready(struct wr_central *central, struct wr_central_shard *shard);
/* Called when a connection to a server of the cluster has failed. */
void wr_central_cluster_on_failure(struct wr_central *central);
/* Follows MOVED or ASK to the address `at`. Returns the shard of this address, or NULL if there are
 * too many shards. */
struct wr_central_shard *wr_central_cluster_redirect(struct wr_central *central,
						     const struct wr_endpoint *at, uint16_t slot,
						     bool moved);

/* ---- sentinels.c ---- */

bool wr_central_sentinels_start(struct wr_central *central);
void wr_central_sentinels_tick(struct wr_central *central);
/* Asks a Sentinel for the master's address now. */
void wr_central_sentinels_poll(struct wr_central *central);
/* Plans to poll a Sentinel soon, because the master may have changed. */
void wr_central_sentinels_poll_soon(struct wr_central *central);
void wr_central_sentinels_on_lost(struct wr_central *central, const char *why);

/* ---- node.c, control.c: the chief loop's tasks ---- */

void wr_central_duties_on_ready(struct wr_central *central, const struct wr_central_shard *shard);
void wr_central_duties_tick(struct wr_central *central);
void wr_central_control_tick(struct wr_central *central);
void wr_central_control_free(struct wr_central *central);

/* ---- info.c ---- */

void wr_central_counts_add(struct wr_central_counts *sum, const struct wr_central_counts *part);

#endif
