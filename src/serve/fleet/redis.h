/* Redis in the service: the sockets, TLS, name lookups and timers that src/central needs. Each loop has
 * its own central; their status is collected for the whole service.
 *
 *   service   struct wr_redis        parsed settings, the fleet's secret, the status of each loop
 *   loop      struct wr_redis_loop   its central, connections, timer
 */
#ifndef WR_SERVE_FLEET_REDIS_H
#define WR_SERVE_FLEET_REDIS_H

#include <pthread.h>
#include <uv.h>

#include <weir/control.h>
#include <weir/host.h>

#include "central/central.h"
#include "limiter/order.h"
#include "net/resolve.h"
#include "serve/settings.h"
#include "store/exchange.h"

struct wr_loop;
struct wr_service;
struct wr_redis_link;

/* ---- the service's part ---- */

/* The status of Redis as one loop sees it. */
struct wr_redis_status {
	struct wr_central_info *info; /* from its last sweep; NULL: none yet */
	uint64_t rtt_ns;              /* smoothed round trip time; 0: no reply yet */
};

struct wr_redis {
	const struct wr_redis_settings *settings;
	struct wr_redis_target target;                   /* as parsed at the start */
	char text[WR_REDIS_TEXT];                        /* the URL without secrets */
	bool secret_set;                                 /* --key-secret is given */
	struct wr_redis_target peers[WR_EXCHANGE_PEERS]; /* the Redis of the other regions */
	char peer_text[WR_EXCHANGE_PEERS][WR_REDIS_TEXT];
	bool peer_password[WR_EXCHANGE_PEERS]; /* the peer's URL contains a password */
	uint32_t peer_count;

	pthread_mutex_t lock; /* protects the fields below */
	bool secret_known;
	uint8_t secret[WEIR_SECRET_BYTES];
	struct wr_redis_status *status; /* one per loop */
	unsigned loop_count;
};

/* Reads settings and files; call it before the change of user. *made is NULL without --redis. Returns
 * WEIR_EINVAL, WEIR_ESYS or WEIR_EMEMORY on failure. */
int wr_redis_new(const struct wr_redis_settings *settings, unsigned loops, struct wr_redis **made,
		 struct weir_error *error);
void wr_redis_free(struct wr_redis *redis); /* after the loops have ended; NULL is allowed */

/* Sets the options of a new engine that concern Redis. `secret` is memory for the fleet's secret, which
 * must live until the engine has been created. */
void wr_redis_engine_opts(struct wr_redis *redis, struct weir_engine_opts *opts,
			  uint8_t secret[WEIR_SECRET_BYTES]);

/* Whether every loop has tried and no loop reaches any server. */
bool wr_redis_is_away(struct wr_redis *redis);

/* Counts of the limits in force: all, decided by Redis, denying without Redis, leased, eventual. */
struct wr_redis_rules {
	uint32_t limits, there, deny, leased, eventual;
};

struct wr_redis_rules wr_redis_rules(struct weir_engine *engine);

/* The status over all loops: counts are added up, and each shard has the worst state that a loop sees.
 * The caller frees the result. NULL: no memory. */
struct wr_central_info *wr_redis_info(struct wr_redis *redis);

/* Writes the same status into the table as gauges. */
void wr_redis_set_gauges(struct wr_redis *redis, struct weir_table *table, uint64_t now_ns);

/* Reads --redis-password-file into the target. Returns WEIR_EINVAL or WEIR_ESYS on failure. */
int wr_redis_password_read(const struct wr_redis_settings *settings, struct wr_redis_target *target,
			   struct weir_error *error);

/* Parses --region and --peer into redis->peers, after the other settings: serve/fleet/regions.c.
 * Returns WEIR_EINVAL or WEIR_ESYS on failure. */
int wr_redis_regions_read(struct wr_redis *redis, struct weir_error *error);

/* The fleet's secret in the engine, or NULL. */
const uint8_t *wr_redis_secret(const struct weir_engine *engine);

/* Gives the fleet's secret to the engine, if it is known. */
void wr_redis_share_secret(struct wr_redis *redis, struct weir_engine *engine);

/* ---- a loop's part ---- */

struct wr_redis_loop {
	struct wr_loop *loop;
	struct wr_redis *redis;
	struct wr_central *central;
	struct wr_redis_target target; /* a copy, because the password may change */
	uint64_t password_seen;        /* fingerprint of the password file */
	struct wr_redis_tls *tls;      /* NULL: no TLS */
	struct wr_names *names;
	uv_timer_t timer;
	struct wr_redis_link *links, *next_link; /* connections; the next one to read */
	struct wr_redis_link *dirty;             /* connections with unsent output */
	unsigned attempts;                       /* number of connections to a name so far */
	struct wr_central_info *info;
	uint64_t rtt_ns;
	/* Other regions: `home` is this region's entry, which lists the others in `peers`. */
	struct wr_redis_loop *home; /* NULL: this entry is the home */
	struct wr_redis_loop *peers, *next;
	const char *peer_text; /* the peer's URL without secrets */
	bool own_password;     /* the URL has a password, so the password file does not apply */
	bool taking;           /* in wr_redis_take: a result now did not come from Redis */
	bool reported;         /* a problem with the servers has been logged */
	bool up_reported;      /* the log says that the servers answer */
	bool closing;
};

/* Call it before the loop runs. Sets loop->redis. Returns 0 without --redis. */
int wr_redis_loop_init(struct wr_loop *loop);

/* The loop's core was replaced. */
void wr_redis_loop_core(struct wr_loop *loop);

/* Returns the leases of this loop before it ends. Returns true when none is left to return. */
bool wr_redis_loop_drain(struct wr_loop *loop);

/* The loop ends: pending questions fail and the handles are closed. */
void wr_redis_loop_stop(struct wr_loop *loop);
void wr_redis_loop_free(struct wr_loop *loop); /* after libuv has closed the handles */

/* Calls wr_central_tick at this time; `context` is a struct wr_redis_loop. */
void wr_redis_loop_wake(void *context, uint64_t mono_ns);

/* The Redis of the other regions. The first loop reports this region's admissions to them: peers.c. */
int wr_redis_peers_init(struct wr_redis_loop *home, struct weir_error *error);
void wr_redis_peers_stop(struct wr_redis_loop *home);
void wr_redis_peers_free(struct wr_redis_loop *home);

/* Rereads the password file if it has changed. Called before each connection. */
void wr_redis_loop_password(struct wr_redis_loop *self);

/* Sends the commands of this turn, with one write per connection. */
void wr_redis_flush(struct wr_loop *loop);

/* Publishes the loop's status in wr_redis->status. */
void wr_redis_sweep(struct wr_loop *loop);

/* ---- questions; loop->redis must not be NULL ---- */

void wr_redis_take(struct wr_loop *loop, struct wr_central_ask *ask, const void *question,
		   size_t len, uint64_t now_ns);
/* Records the round trip time of a reply. */
void wr_redis_note_rtt(struct wr_loop *loop, uint64_t took_ns);

void wr_redis_leave(struct wr_loop *loop, struct wr_central_ask *ask);
void wr_redis_send(struct wr_loop *loop, const void *message, size_t len, uint64_t now_ns);

/* Sends the messages that a decided or cancelled ask still has for Redis. */
void wr_redis_send_rest(struct wr_loop *loop, struct weir_ask *ask, uint64_t now_ns);

/* ---- orders of operators: serve/fleet/control.c ---- */

/* Carries the order out in this table and, with Redis, there and on all other nodes. Returns as the
 * weir_control_… function of this verb. */
int wr_order_run(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns,
		 struct weir_error *error);

/* Writes "api user=7 ip=10.0.0.1" for logs, truncated to `cap`. */
void wr_order_whom(const struct weir_target *target, char *text, size_t cap);

/* Carries out an order received from Redis. Orders of this node come back as well (`own`) and are
 * carried out again: an older order of another node may have arrived in between, and the order of
 * Redis must hold on all nodes. */
void wr_order_heard(struct wr_loop *loop, const void *bytes, size_t len, uint64_t age_ns, bool own);

#endif
