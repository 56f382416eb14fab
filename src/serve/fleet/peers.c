/* Connects the first loop to the Redis of other regions. The loop has a struct wr_central for each
 * other region, which only sends reports. */
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "base/assert.h"
#include "serve/loop.h"
#include "serve/fleet/link.h"
#include "net/tls.h"
#include "net/tls_client.h"
#include "table/table.h"

/* The timeout is long, because other regions are far away and no request waits for them. */
#define PEER_TIMEOUT_NS 2000000000u

static void log_message(void *context, enum wr_central_log_level level, const char *text)
{
	static const enum wr_log_level levels[] = {[WR_CENTRAL_LOG_ERROR] = WR_LOG_ERROR,
						   [WR_CENTRAL_LOG_WARN] = WR_LOG_WARN,
						   [WR_CENTRAL_LOG_INFO] = WR_LOG_INFO};
	const struct wr_serve_redis_loop *self = context;

	if (!self->home->closing)
		wr_log(levels[level], "peer %s: %s", self->peer_text, text);
}

/* The struct wr_central of a peer gets no callbacks for the secret, the node count and orders. */
static const struct wr_central_host host = {.open = wr_serve_redis_link_open,
					    .close = wr_serve_redis_link_close,
					    .dirty = wr_serve_redis_link_dirty,
					    .wake_at = wr_serve_redis_loop_wake,
					    .log = log_message};

static int make_central(struct wr_serve_redis_loop *self, struct weir_error *error)
{
	struct wr_loop *loop = self->loop;
	const struct wr_serve_redis_settings *settings = self->redis->settings;
	const struct wr_header *table = &wr_loop_table(loop)->header;
	struct wr_central_opts opts = {.target = &self->target,
				       .prefix = settings->prefix,
				       .secret = self->redis->secret,
				       .timeout_ns = settings->timeout_ns < PEER_TIMEOUT_NS
							     ? PEER_TIMEOUT_NS
							     : settings->timeout_ns,
				       .holder = {table->table_id[0], table->table_id[1]},
				       .seed = wr_loop_mono_ns(loop) ^ table->table_id[0]};
	int rc = wr_central_new(&opts, &host, self, wr_loop_now_ns(loop), wr_loop_mono_ns(loop),
				&self->central, error);

	if (rc == 0)
		wr_central_add_region(self->home->central, self->central);
	return rc;
}

/* Adds peer number `i` of the command line at the end of the list. The list keeps the order of the
 * command line, because the table identifies a region by its number in the list. */
static int add_peer(struct wr_serve_redis_loop *home, struct wr_serve_redis_loop **at, uint32_t i,
		    struct weir_error *error)
{
	const struct wr_serve_redis *redis = home->redis;
	struct wr_serve_redis_loop *self = calloc(1, sizeof *self);
	int rc = 0;

	if (!self)
		return WEIR_EMEMORY;
	*at = self;
	wr_list_init(&self->links);
	wr_list_init(&self->dirty);
	self->home = home;
	self->loop = home->loop;
	self->redis = home->redis;
	self->names = home->names;
	self->target = redis->peers[i];
	self->peer_text = redis->peer_text[i];
	self->own_password = redis->peer_password[i];
	self->password_seen = wr_tls_fingerprint(redis->settings->password_file, 0);
	uv_timer_init(&home->loop->uv, &self->timer);
	self->timer.data = self;
	if (self->target.tls)
		rc = wr_serve_redis_tls_new(redis->settings, &self->tls, error);
	return rc == 0 ? make_central(self, error) : rc;
}

int wr_serve_redis_peers_init(struct wr_serve_redis_loop *home, struct weir_error *error)
{
	struct wr_serve_redis_loop **at = &home->peers;
	int rc = 0;

	wr_assert(!home->peers && home->redis->peer_count <= WR_EXCHANGE_PEERS);
	if (home->loop->number != 0)
		return 0;
	for (uint32_t i = 0; i < home->redis->peer_count && rc == 0; i++) {
		rc = add_peer(home, at, i, error);
		if (*at)
			at = &(*at)->next;
	}
	return rc;
}

void wr_serve_redis_peers_stop(struct wr_serve_redis_loop *home)
{
	for (struct wr_serve_redis_loop *self = home->peers; self; self = self->next) {
		self->closing = true;
		wr_central_free(self->central);
		self->central = NULL;
		uv_close((uv_handle_t *)&self->timer, NULL);
	}
}

void wr_serve_redis_peers_free(struct wr_serve_redis_loop *home)
{
	while (home->peers) {
		struct wr_serve_redis_loop *self = home->peers;

		home->peers = self->next;
		wr_tls_client_free(self->tls);
		explicit_bzero(self, sizeof *self);
		free(self);
	}
}
