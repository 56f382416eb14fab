/* Creates, runs and ends a loop's central, which sends questions to Redis. Called by the loop and
 * by the protocols. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "net/log.h"
#include "serve/loop.h"
#include "serve/fleet/link.h"
#include "serve/service.h"
#include "net/tls.h"
#include "table/table.h"

/* ---- callbacks of the central ---- */

/* Calls wr_central_tick(), which checks timeouts. Reads replies first, because libuv runs timers
 * before it polls sockets. Otherwise, after the process was suspended, replies that have already
 * arrived would count as timed out. */
static void on_central_timer(uv_timer_t *timer)
{
	struct wr_serve_redis_loop *self = timer->data;

	wr_serve_redis_links_read(self);
	wr_central_tick(self->central, wr_loop_now_ns(self->loop), wr_loop_mono_ns(self->loop));
}

/* The time is rounded up to milliseconds, because wr_central_tick() has nothing to do before
 * mono_ns. */
void wr_serve_redis_loop_wake(void *context, uint64_t mono_ns)
{
	struct wr_serve_redis_loop *self = context;
	uint64_t now_ns = wr_loop_mono_ns(self->loop);

	if (self->closing)
		return;
	uv_update_time(&self->loop->uv);
	uv_timer_start(&self->timer, on_central_timer,
		       mono_ns > now_ns ? (mono_ns - now_ns + 999999) / 1000000 : 0, 0);
}

/* Logs a message of this loop's struct wr_central. All loops see the same servers, so only the
 * first loop logs above the debug level. */
static void log_message(void *context, enum wr_central_log_level level, const char *text)
{
	static const enum wr_log_level levels[] = {[WR_CENTRAL_LOG_ERROR] = WR_LOG_ERROR,
						   [WR_CENTRAL_LOG_WARN] = WR_LOG_WARN,
						   [WR_CENTRAL_LOG_INFO] = WR_LOG_INFO};
	struct wr_serve_redis_loop *self = context;

	self->reported = true;
	if (!self->closing)
		wr_log(self->loop->number == 0 ? levels[level] : WR_LOG_DEBUG, "redis: %s", text);
}

/* Stores the fleet's secret first, then gives it to the current engine. A thread that replaces the
 * engine installs the new engine first, then reads the stored secret. So the new engine gets the
 * secret from at least one of the two threads. */
static void on_secret(void *context, const uint8_t secret[WR_CENTRAL_SECRET])
{
	struct wr_serve_redis_loop *self = context;
	struct wr_serve_redis *redis = self->redis;
	struct wr_core *core;

	pthread_mutex_lock(&redis->lock);
	memcpy(redis->secret, secret, sizeof redis->secret);
	redis->secret_known = true;
	pthread_mutex_unlock(&redis->lock);
	core = wr_service_core(self->loop->service);
	wr_serve_redis_share_secret(redis, core->engine);
	wr_core_release(core);
}

static void on_nodes(void *context, uint32_t nodes)
{
	struct wr_serve_redis_loop *self = context;

	weir_fleet_note(wr_loop_table(self->loop), nodes, wr_loop_now_ns(self->loop));
}

static bool on_order(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	struct wr_serve_redis_loop *self = context;

	return wr_serve_order_receive(self->loop, bytes, len, age_ns, own);
}

static const struct wr_central_host host = {.open = wr_serve_redis_link_open,
					    .close = wr_serve_redis_link_close,
					    .dirty = wr_serve_redis_link_dirty,
					    .wake_at = wr_serve_redis_loop_wake,
					    .log = log_message,
					    .secret = on_secret,
					    .nodes = on_nodes,
					    .message = on_order};

/* ---- creating and ending ---- */

void wr_serve_redis_loop_password(struct wr_serve_redis_loop *self)
{
	const struct wr_serve_redis_settings *settings = self->redis->settings;
	uint64_t seen = wr_tls_fingerprint(settings->password_file, 0);
	struct weir_error error;

	if (!settings->password_file || self->own_password || seen == self->password_seen)
		return;
	self->password_seen = seen;
	if (wr_serve_redis_password_read(settings, &self->target, &error) < 0)
		log_message(self, WR_CENTRAL_LOG_ERROR, error.text);
}

/* Returns a random number other than 0. The number serves as the id of an owner, or as a seed. */
static uint64_t new_owner(const struct wr_loop *loop)
{
	uint64_t owner;

	if (getrandom(&owner, sizeof owner, 0) != sizeof owner)
		owner = wr_loop_mono_ns(loop) * 0x9e3779b97f4a7c15u ^ loop->number;
	return owner | 1;
}

static int make_central(struct wr_serve_redis_loop *self, struct weir_error *error)
{
	struct wr_loop *loop = self->loop;
	const struct wr_serve_redis_settings *settings = self->redis->settings;
	const struct wr_header *table = &wr_loop_table(loop)->header;
	struct wr_ban_place place = wr_serve_bans_place(self->redis, wr_loop_table(loop));
	struct wr_central_opts opts = {.target = &self->target,
				       .prefix = settings->prefix,
				       .secret =
					       self->redis->secret_set ? self->redis->secret : NULL,
				       .timeout_ns = settings->timeout_ns,
				       .holder = {table->table_id[0], table->table_id[1]},
				       .number = loop->number,
				       .chief = loop->number == 0,
				       .seed = new_owner(loop),
				       .table = wr_loop_table(loop),
				       .owner = new_owner(loop),
				       .read_ms = place.ms,
				       .read_seq = place.seq,
				       .fleet_size = (uint32_t)settings->fleet_size,
				       .sync_ns = settings->sync_ns,
				       .region = settings->region};

	return wr_central_new(&opts, &host, self, wr_loop_now_ns(loop), wr_loop_mono_ns(loop),
			      &self->central, error);
}

int wr_serve_redis_loop_init(struct wr_loop *loop)
{
	struct wr_serve_redis *redis = loop->service->redis;
	struct wr_serve_redis_loop *self;
	struct weir_error error;
	int rc = 0;

	wr_assert(!loop->redis);
	if (!redis)
		return 0;
	self = calloc(1, sizeof *self);
	if (!self)
		return WEIR_EMEMORY;
	loop->redis = self;
	wr_list_init(&self->links);
	wr_list_init(&self->dirty);
	self->loop = loop;
	self->redis = redis;
	self->target = redis->target;
	self->password_seen = wr_tls_fingerprint(redis->settings->password_file, 0);
	uv_timer_init(&loop->uv, &self->timer);
	self->timer.data = self;
	self->names = wr_names_new(&loop->uv);
	self->info = calloc(1, sizeof *self->info);
	if (!self->names || !self->info)
		return WEIR_EMEMORY;
	if (redis->target.tls)
		rc = wr_serve_redis_tls_new(redis->settings, &self->tls, &error);
	if (rc == 0)
		rc = make_central(self, &error);
	if (rc == 0)
		rc = wr_serve_redis_peers_init(self, &error);
	if (rc < 0)
		wr_log(WR_LOG_ERROR, "redis: %s", error.text);
	return rc;
}

void wr_serve_redis_loop_core(struct wr_loop *loop)
{
	if (loop->redis && loop->redis->central)
		wr_central_set_table(loop->redis->central, wr_loop_table(loop), new_owner(loop));
}

bool wr_serve_redis_loop_return_leases(struct wr_loop *loop)
{
	return !loop->redis || !loop->redis->central ||
	       wr_central_shut_down(loop->redis->central, wr_loop_now_ns(loop),
				    wr_loop_mono_ns(loop)) == 0;
}

void wr_serve_redis_loop_stop(struct wr_loop *loop)
{
	struct wr_serve_redis_loop *self = loop->redis;

	if (!self || self->closing)
		return;
	self->closing = true;
	wr_serve_redis_peers_stop(self);
	if (self->central)
		wr_central_free(self->central);
	self->central = NULL;
	uv_close((uv_handle_t *)&self->timer, NULL);
	if (self->names)
		wr_names_stop(self->names);
	self->names = NULL;
}

void wr_serve_redis_loop_free(struct wr_loop *loop)
{
	struct wr_serve_redis_loop *self = loop->redis;

	if (!self)
		return;
	wr_serve_redis_peers_free(self);
	wr_tls_client_free(self->tls);
	free(self->info);
	explicit_bzero(self, sizeof *self);
	free(self);
	loop->redis = NULL;
}

/* ---- questions ---- */

void wr_serve_redis_take(struct wr_loop *loop, struct wr_central_ask *ask, const void *question,
			 size_t len, uint64_t now_ns)
{
	struct wr_serve_redis_loop *self = loop->redis;
	bool taking = self->taking;

	wr_assert(self && ask->done);
	self->taking = true;
	if (self->central)
		wr_central_take(self->central, ask, question, len, now_ns, wr_loop_mono_ns(loop));
	else
		ask->done(ask, NULL, 0);
	self->taking = taking;
}

void wr_serve_redis_leave(struct wr_loop *loop, struct wr_central_ask *ask)
{
	wr_assert(loop->redis);
	if (loop->redis->central)
		wr_central_cancel(loop->redis->central, ask);
}

void wr_serve_redis_send(struct wr_loop *loop, const void *message, size_t len, uint64_t now_ns)
{
	wr_assert(loop->redis);
	if (loop->redis->central)
		wr_central_send(loop->redis->central, message, len, now_ns, wr_loop_mono_ns(loop));
}

void wr_serve_redis_send_rest(struct wr_loop *loop, struct weir_ask *ask, uint64_t now_ns)
{
	uint8_t message[WEIR_QUESTION_MAX];
	int len;

	if (!loop->redis)
		return;
	while ((len = weir_ask_question(ask, message, sizeof message)) > 0) {
		wr_assert(message[offsetof(struct wr_question_head, kind)] != WR_QUESTION_TAKE);
		wr_serve_redis_send(loop, message, (size_t)len, now_ns);
	}
}

/* ---- status ---- */

void wr_serve_redis_note_rtt(struct wr_loop *loop, uint64_t took_ns)
{
	struct wr_serve_redis_loop *self = loop->redis;

	wr_assert(self);
	if (self->taking)
		return;
	self->rtt_ns = self->rtt_ns ? self->rtt_ns - self->rtt_ns / 8 + took_ns / 8 : took_ns;
}

/* Logs once, in the first loop, that all servers answer. Logs nothing if this loop's struct
 * wr_central has logged a message before, because struct wr_central then reports the state of the
 * servers itself. */
static void report_servers_up(struct wr_serve_redis_loop *self)
{
	const struct wr_central_info *info = self->info;

	if (self->up_reported || !info->all_up || !info->secret_known)
		return;
	self->up_reported = true;
	if (!self->reported && self->loop->number == 0)
		wr_log(WR_LOG_INFO, "redis: %u server%s answer%s", info->shard_count,
		       info->shard_count == 1 ? "" : "s", info->shard_count == 1 ? "s" : "");
}

void wr_serve_redis_sweep(struct wr_loop *loop)
{
	struct wr_serve_redis_loop *self = loop->redis;
	struct wr_central_info *before;

	if (!self || !self->central || !self->info)
		return;
	wr_central_info(self->central, self->info);
	report_servers_up(self);
	wr_assert(loop->number < self->redis->loop_count);
	pthread_mutex_lock(&self->redis->lock);
	before = self->redis->status[loop->number].info;
	self->redis->status[loop->number] =
		(struct wr_serve_redis_status){self->info, self->rtt_ns};
	pthread_mutex_unlock(&self->redis->lock);
	self->info = before ? before : calloc(1, sizeof *self->info);
}
