/* Redis in the service: the sockets, TLS, name lookups and timers that src/central needs. Each loop
 * has its own struct wr_central, here called its central. The service collects the status of all
 * centrals.
 *
 *   service   struct wr_serve_redis        parsed settings, the fleet's secret, each loop's status
 *   loop      struct wr_serve_redis_loop   its central, connections, timer */
#ifndef WR_SERVE_FLEET_REDIS_H
#define WR_SERVE_FLEET_REDIS_H

#include <pthread.h>
#include <uv.h>

#include <weir/control.h>
#include <weir/host.h>

#include "base/list.h"
#include "central/central.h"
#include "limiter/order.h"
#include "net/resolve.h"
#include "net/tls_client.h"
#include "serve/settings.h"
#include "store/exchange.h"

struct wr_loop;
struct wr_service;
struct wr_serve_redis_link;

/* ---- Redis in the service ---- */

/* The status of Redis as one loop sees it. */
struct wr_serve_redis_status {
	struct wr_central_info *info; /* the latest status that the loop published; NULL: none */
	uint64_t rtt_ns;              /* smoothed round-trip time; 0: no reply so far */
};

struct wr_serve_redis {
	const struct wr_serve_redis_settings *settings;
	struct wr_redis_target target;                   /* the URL as parsed at the start */
	char text[WR_REDIS_TEXT];                        /* the URL without secrets */
	bool secret_set;                                 /* --key-secret is given */
	struct wr_redis_target peers[WR_EXCHANGE_PEERS]; /* the Redis of the other regions */
	char peer_text[WR_EXCHANGE_PEERS][WR_REDIS_TEXT];
	bool peer_password[WR_EXCHANGE_PEERS]; /* the peer's URL contains a password */
	uint32_t peer_count;

	pthread_mutex_t lock; /* protects the fields below */
	bool secret_known;
	uint8_t secret[WEIR_SECRET_BYTES];
	struct wr_serve_redis_status *status; /* one entry per loop */
	unsigned loop_count;
};

/* Reads settings and files. Called before the change of user. Sets *made, which is NULL without
 * --redis. Returns 0. On failure, returns WEIR_EINVAL, WEIR_ESYS or WEIR_EMEMORY. */
int wr_serve_redis_new(const struct wr_serve_redis_settings *settings, unsigned loops,
		       struct wr_serve_redis **made, struct weir_error *error);
void wr_serve_redis_free(
	struct wr_serve_redis *redis); /* called after the loops have ended; NULL is allowed */

/* Sets the options of a new engine that concern Redis. `secret` is memory for the fleet's secret.
 * The caller keeps that memory until the engine has been created. */
void wr_serve_redis_engine_opts(struct wr_serve_redis *redis, struct weir_engine_opts *opts,
				uint8_t secret[WEIR_SECRET_BYTES]);

/* Returns true if every loop has tried to connect, and no loop reaches any server. */
bool wr_serve_redis_is_away(struct wr_serve_redis *redis);

/* Numbers of limits in force. `limits`: all limits. `there`: limits that Redis decides. The other
 * numbers are parts of `there`: limits that deny while Redis is unavailable, limits for which loops
 * get leases, and limits with `consistency: eventual`. */
struct wr_serve_redis_rules {
	uint32_t limits, there, deny, leased, eventual;
};

struct wr_serve_redis_rules wr_serve_redis_rules(struct weir_engine *engine);

/* Returns the status over all loops: counts are added up, and each shard has the worst state that a
 * loop sees. The caller frees the result. Returns NULL if there is no memory. */
struct wr_central_info *wr_serve_redis_info(struct wr_serve_redis *redis);

/* Writes the status over all loops into the table as gauges. */
void wr_serve_redis_set_gauges(struct wr_serve_redis *redis, struct weir_table *table,
			       uint64_t now_ns);

/* Reads the password in --redis-password-file into `target`. Returns 0. On failure, returns an
 * error code and sets `error`. */
int wr_serve_redis_password_read(const struct wr_serve_redis_settings *settings,
				 struct wr_redis_target *target, struct weir_error *error);

/* Reads the files of --redis-ca, --redis-cert and --redis-key; see wr_tls_client_new. */
int wr_serve_redis_tls_new(const struct wr_serve_redis_settings *settings,
			   struct wr_tls_client **made, struct weir_error *error);

/* Parses --region and --peer into redis->peers. Called after the other settings were read. Returns
 * 0. On failure, returns WEIR_EINVAL or WEIR_ESYS. Defined in serve/fleet/regions.c. */
int wr_serve_redis_regions_read(struct wr_serve_redis *redis, struct weir_error *error);

/* Returns the fleet's secret that the engine has, or NULL. */
const uint8_t *wr_serve_redis_secret(const struct weir_engine *engine);

/* Gives the fleet's secret to the engine. Does nothing while the secret is not known. */
void wr_serve_redis_share_secret(struct wr_serve_redis *redis, struct weir_engine *engine);

/* ---- Redis in a loop ---- */

struct wr_serve_redis_loop {
	struct wr_loop *loop;
	struct wr_serve_redis *redis;
	struct wr_central *central;
	/* The Redis to connect to. Each loop has its own copy of the parsed URL, because each loop
	 * reads a changed password by itself. */
	struct wr_redis_target target;
	uint64_t password_seen;    /* fingerprint of the password file when it was last read */
	struct wr_tls_client *tls; /* NULL: no TLS */
	struct wr_names *names;
	uv_timer_t timer;
	/* `links` is the list of all connections. `next_link` is the next connection to read, while
	 * wr_serve_redis_links_read() runs. */
	struct wr_list links, *next_link;
	struct wr_list dirty; /* connections with unsent output */
	unsigned attempts;    /* number of connection attempts to host names so far */
	struct wr_central_info *info;
	uint64_t rtt_ns;
	/* A loop has a struct for this region. The first loop also has a struct for each other
	 * region: the list `peers`, linked by `next`. In the structs of other regions, `home`
	 * points to the struct of this region. In the struct of this region, `home` is NULL. */
	struct wr_serve_redis_loop *home;
	struct wr_serve_redis_loop *peers, *next;
	const char *peer_text; /* the peer's URL without secrets */
	bool own_password;     /* the URL has a password, so the password file is not used */
	/* True while wr_serve_redis_take() runs. An answer that comes during this call was made
	 * without Redis, because a reply of Redis comes only later. */
	bool taking;
	/* True if `central` has logged any message. Then report_servers_up() logs nothing. */
	bool reported;
	bool up_reported; /* the log says that the servers answer */
	bool closing;
};

/* Creates loop->redis. Without --redis, does nothing. Called before the loop runs. Returns 0 or
 * WEIR_E…. */
int wr_serve_redis_loop_init(struct wr_loop *loop);

/* Gives the loop's central the new table, and a new id of the loop in that table. Called when the
 * loop's core was replaced. */
void wr_serve_redis_loop_core(struct wr_loop *loop);

/* Gives the leases of this loop back to Redis, before the loop ends. Returns true if no lease
 * remains. */
bool wr_serve_redis_loop_return_leases(struct wr_loop *loop);

/* Called when the loop ends. Pending questions fail, and the handles are closed. */
void wr_serve_redis_loop_stop(struct wr_loop *loop);
void wr_serve_redis_loop_free(struct wr_loop *loop); /* called after libuv has closed the handles */

/* Makes the loop call wr_central_tick at this time. `context` is a struct wr_serve_redis_loop. */
void wr_serve_redis_loop_wake(void *context, uint64_t mono_ns);

/* The connections to the Redis of other regions. The first loop reports this region's admissions to
 * that Redis. Defined in peers.c. */
int wr_serve_redis_peers_init(struct wr_serve_redis_loop *home, struct weir_error *error);
void wr_serve_redis_peers_stop(struct wr_serve_redis_loop *home);
void wr_serve_redis_peers_free(struct wr_serve_redis_loop *home);

/* Reads the password file again if it has changed. Called before each connection. */
void wr_serve_redis_loop_password(struct wr_serve_redis_loop *self);

/* Sends the commands that were written since the last call, with one write per connection. */
void wr_serve_redis_flush(struct wr_loop *loop);

/* Publishes the loop's status in `status` of struct wr_serve_redis. */
void wr_serve_redis_sweep(struct wr_loop *loop);

/* ---- questions to Redis; the caller makes sure that loop->redis is not NULL ---- */

/* Sends a question of the limiter. ask->done() is called once, possibly before this function
 * returns. */
void wr_serve_redis_take(struct wr_loop *loop, struct wr_central_ask *ask, const void *question,
			 size_t len, uint64_t now_ns);

/* Abandons a question. ask->done() is not called afterwards. */
void wr_serve_redis_leave(struct wr_loop *loop, struct wr_central_ask *ask);

/* Sends a message that gets no answer. */
void wr_serve_redis_send(struct wr_loop *loop, const void *message, size_t len, uint64_t now_ns);

/* Records the round-trip time of a question to Redis. Records nothing while wr_serve_redis_take()
 * runs, because an answer that comes during that call was made without Redis. */
void wr_serve_redis_note_rtt(struct wr_loop *loop, uint64_t took_ns);

/* Sends the messages that a decided or cancelled ask still has for Redis. */
void wr_serve_redis_send_rest(struct wr_loop *loop, struct weir_ask *ask, uint64_t now_ns);

/* ---- orders of operators, in serve/fleet/control.c ---- */

/* Carries the order out in this table and, if there is a Redis, in Redis and on all other nodes.
 * Returns the result of weir_control_reset(), weir_control_grant() or weir_control_ban(). */
int wr_serve_order_run(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns,
		       struct weir_error *error);

/* Sends an order to the other nodes, if there is a Redis. The order is not carried out here. */
void wr_serve_order_publish(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns);

/* Writes a struct weir_target as text for logs, such as "api user=7 ip=10.0.0.1", truncated to
 * `cap` bytes. */
void wr_serve_order_whom(const struct weir_target *target, char *text, size_t cap);

/* Writes the conditions of a WR_ORDER_RELEASE as text for logs: "release all bans", or "release bans:
 * rule=api/ip/1m kind=automatic". The text is truncated to `cap` bytes. */
void wr_serve_order_release_text(const struct weir_target *conditions, char *text, size_t cap);

/* Carries out an order that was received from Redis. If `own` is true, the order is one of this
 * node, which has already carried it out. This node carries the order out again, because an older
 * order of another node can have arrived in between, and all nodes must carry out orders in the
 * sequence of Redis. But a reset of this node is not repeated: that would delete what was counted
 * since. Returns true if the order took some milliseconds, because it read the whole list of bans. */
bool wr_serve_order_receive(struct wr_loop *loop, const void *bytes, size_t len, uint64_t age_ns,
			    bool own);

#endif
