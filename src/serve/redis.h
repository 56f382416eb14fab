/* The central store on libuv loops: what src/central says is done with sockets, TLS, names and
 * timers, one central for each loop, and what is known of it is kept for the whole service.
 *
 *   service   struct wr_redis        settings as read, the fleet's secret, how each loop fares
 *   loop      struct wr_redis_loop   its central, connections, timer
 */
#ifndef WR_SERVE_REDIS_H
#define WR_SERVE_REDIS_H

#include <pthread.h>
#include <uv.h>

#include <weir/control.h>
#include <weir/host.h>

#include "central/central.h"
#include "limiter/order.h"
#include "serve/names.h"
#include "serve/settings.h"
#include "store/exchange.h"

struct wr_loop;
struct wr_service;
struct wr_redis_link;

/* ---- of the service ---- */

/* How it fares, as a loop sees it. */
struct wr_redis_seen {
	struct wr_central_info *info; /* as of its last sweep; NULL: not yet */
	uint64_t rtt_ns;              /* an answer takes, smoothed; 0: none has come */
};

struct wr_redis {
	const struct wr_redis_settings *settings;
	struct wr_redis_target target;                   /* as it was at the start */
	char text[WR_REDIS_TEXT];                        /* the URL, without secrets */
	bool secret_set;                                 /* by --key-secret */
	struct wr_redis_target peers[WR_EXCHANGE_PEERS]; /* of the other regions */
	char peer_text[WR_EXCHANGE_PEERS][WR_REDIS_TEXT];
	bool peer_password[WR_EXCHANGE_PEERS]; /* in its URL */
	uint32_t peer_count;

	pthread_mutex_t lock; /* of all below */
	bool secret_known;
	uint8_t secret[WEIR_SECRET_BYTES];
	struct wr_redis_seen *seen; /* of each loop */
	unsigned loop_count;
};

/* Reads settings and files, before rights are given up. *made is NULL without --redis. WEIR_EINVAL,
 * WEIR_ESYS, WEIR_EMEMORY */
int wr_redis_new(const struct wr_redis_settings *settings, unsigned loops, struct wr_redis **made,
		 struct weir_error *error);
void wr_redis_free(struct wr_redis *redis); /* NULL is fine; loops have ended */

/* How a new engine is to be made; `secret` is where the fleet's may be put. */
void wr_redis_engine_opts(struct wr_redis *redis, struct weir_engine_opts *opts,
			  uint8_t secret[WEIR_SECRET_BYTES]);

/* Whether no loop reaches any server, and each has had the time to. */
bool wr_redis_is_away(struct wr_redis *redis);

/* What the rules in force want of it: how many limits there are, how many it decides, how many of
 * those refuse without it, and how many are leased and eventual. */
struct wr_redis_rules {
	uint32_t limits, there, deny, leased, eventual;
};

struct wr_redis_rules wr_redis_rules(struct weir_engine *engine);

/* How it fares, all loops together: counts added up, the state of each shard as the loop that sees
 * it worst has it. Memory to be freed, or NULL. */
struct wr_central_info *wr_redis_info(struct wr_redis *redis);

/* The same as gauges in the table. */
void wr_redis_set_gauges(struct wr_redis *redis, struct weir_table *table, uint64_t now_ns);

/* Reads the password's file into the target. WEIR_EINVAL, WEIR_ESYS */
int wr_redis_password_read(const struct wr_redis_settings *settings, struct wr_redis_target *target,
			   struct weir_error *error);

/* --region and --peer into redis->peers, after all else was read: serve/redis_regions.c.
 * WEIR_EINVAL, WEIR_ESYS */
int wr_redis_regions_read(struct wr_redis *redis, struct weir_error *error);

/* The fleet's secret as the engine knows it, or NULL. */
const uint8_t *wr_redis_secret(const struct weir_engine *engine);

/* The engine learns the fleet's secret, if it is known. */
void wr_redis_teach(struct wr_redis *redis, struct weir_engine *engine);

/* ---- of a loop ---- */

struct wr_redis_loop {
	struct wr_loop *loop;
	struct wr_redis *redis;
	struct wr_central *central;
	struct wr_redis_target target; /* its own: the password may change */
	uint64_t password_seen;        /* fingerprint of its file */
	struct wr_redis_tls *tls;      /* NULL: not spoken */
	struct wr_names *names;
	uv_timer_t timer;
	struct wr_redis_link *links, *next_link; /* connections; the next one to be read */
	struct wr_redis_link *dirty;             /* those with something to write */
	unsigned attempts;                       /* to connect to a name */
	struct wr_central_info *info;
	uint64_t rtt_ns;
	struct wr_redis_loop *home;  /* of a region: the loop's own */
	struct wr_redis_loop *peers; /* of the loop's own: other regions, the first one */
	struct wr_redis_loop *next;  /* … of the same home */
	const char *peer_text;       /* … without secrets */
	bool own_password;           /* it is in the URL, whatever a file says */
	bool taking;                 /* in wr_redis_take: an answer now did not come from Redis */
	bool said;                   /* something about the servers */
	bool up_said;                /* … that they answer */
	bool closing;
};

/* Before the loop runs. 0 without --redis; the memory is in loop->redis. */
int wr_redis_loop_init(struct wr_loop *loop);

/* The loop has another table. */
void wr_redis_loop_world(struct wr_loop *loop);

/* The loop is about to end: what was borrowed goes back. True: all of it has, or never will. */
bool wr_redis_loop_drain(struct wr_loop *loop);

/* The loop ends: whoever waits is told that nobody will answer, handles are closed. */
void wr_redis_loop_stop(struct wr_loop *loop);
void wr_redis_loop_free(struct wr_loop *loop); /* its handles have been closed */

/* Asks for a tick of self->central; `context` is a struct wr_redis_loop. */
void wr_redis_loop_wake(void *context, uint64_t mono_ns);

/* The other regions' stores, which the chief loop tells what is admitted here: redis_peers.c. */
int wr_redis_peers_init(struct wr_redis_loop *home, struct weir_error *error);
void wr_redis_peers_stop(struct wr_redis_loop *home);
void wr_redis_peers_free(struct wr_redis_loop *home);

/* Before each connection: the password may have become another one. */
void wr_redis_loop_password(struct wr_redis_loop *self);

/* Writes what was asked for since: one write for each connection. */
void wr_redis_flush(struct wr_loop *loop);

/* Notes how it fares, for others to read. */
void wr_redis_sweep(struct wr_loop *loop);

/* ---- asking; loop->redis is not NULL ---- */

void wr_redis_take(struct wr_loop *loop, struct wr_central_ask *ask, const void *question,
		   size_t len, uint64_t now_ns);
/* An answer took so long. */
void wr_redis_note_rtt(struct wr_loop *loop, uint64_t took_ns);

void wr_redis_leave(struct wr_loop *loop, struct wr_central_ask *ask);
void wr_redis_tell(struct wr_loop *loop, const void *message, size_t len, uint64_t now_ns);

/* Tells what an ask that was decided or cancelled has to say, if anything. */
void wr_redis_tell_of(struct wr_loop *loop, struct weir_ask *ask, uint64_t now_ns);

/* ---- orders of operators: serve/redis_control.c ---- */

/* Carries it out here and, if there is a store, there and on all other nodes. As the
 * weir_control_… of this verb. */
int wr_order_run(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns,
		 struct weir_error *error);

/* "api user=7 ip=10.0.0.1", as far as there is room, for logs. */
void wr_order_whom(const struct weir_target *target, char *text, size_t cap);

/* A message of a node. An order of our own comes back too: what others ordered before it may have
 * been heard after it was carried out, and the last word in Redis is the last one everywhere. */
void wr_order_heard(struct wr_loop *loop, const void *bytes, size_t len, uint64_t age_ns, bool own);

#endif
