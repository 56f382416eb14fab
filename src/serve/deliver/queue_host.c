/* Opens the queue, connects it to the loops and publishes its statistics; see queue_host.h. */
#include "serve/deliver/queue_host.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <weir/stats.h>

#include "base/assert.h"
#include "base/error.h"
#include "serve/deliver/deliver.h"
#include "net/log.h"
#include "serve/loop.h"
#include "serve/service.h"
#include "table/deferred.h"

bool wr_serve_queue_wanted(const struct wr_serve_queue_settings *settings)
{
	return settings->url && strcmp(settings->url, "off") != 0;
}

/* Checks --queue-target-ca, so that an unusable file is reported at the start and not at every
 * delivery. */
static int check_ca(const struct wr_serve_queue_settings *settings, struct weir_error *error)
{
	X509_STORE *store;
	bool good;

	if (!settings->target_ca)
		return 0;
	if (!settings->target || strncasecmp(settings->target, "https://", 8) != 0)
		return wr_error(error, WEIR_EINVAL,
				"--queue-target-ca needs a --queue-target that begins with "
				"https://");
	store = X509_STORE_new();
	good = store && X509_STORE_load_file(store, settings->target_ca) == 1;
	X509_STORE_free(store);
	ERR_clear_error();
	return good ? 0
		    : wr_error(error, WEIR_EINVAL,
			       "--queue-target-ca: %s is unreadable, or contains no certificate in "
			       "PEM form",
			       settings->target_ca);
}

int wr_serve_queue_check(const struct wr_serve_queue_settings *settings, struct weir_error *error)
{
	struct wr_deliver_target target;
	struct weir_error why;

	if (!wr_serve_queue_wanted(settings))
		return 0;
	if (wr_queue_url_check(settings->url, &why) < 0)
		return wr_error(error, WEIR_EINVAL, "--queue: %s", why.text);
	if (settings->target && wr_deliver_target_read(settings->target, &target, &why) < 0)
		return wr_error(error, WEIR_EINVAL, "--queue-target: %s", why.text);
	return check_ca(settings, error);
}

/* ---- callbacks from the queue's thread ---- */

/* Publishes the length of a line in the table, where nginx workers read the length before they
 * decide. */
static void on_waiting(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count)
{
	struct wr_serve_queue_host *host = context;
	struct wr_core *core = wr_service_core(host->service);
	uint32_t now_s = (uint32_t)time(NULL);

	wr_deferred_set(core->table, key, count < UINT32_MAX ? (uint32_t)count : UINT32_MAX,
			now_s > host->began_s ? now_s : host->began_s);
	wr_core_release(core);
}

static void log_message(void *context, enum wr_queue_level level, const char *text)
{
	static const int levels[] = {[WR_QUEUE_NOTICE] = WR_LOG_INFO,
				     [WR_QUEUE_WARN] = WR_LOG_WARN,
				     [WR_QUEUE_ERROR] = WR_LOG_ERROR};

	(void)context;
	wr_log(levels[level], "queue: %s", text);
}

void wr_serve_queue_loop_wake(struct wr_serve_queue_loop *own)
{
	pthread_mutex_lock(&own->lock);
	if (!own->closed)
		uv_async_send(&own->wake);
	pthread_mutex_unlock(&own->lock);
}

static void wake_loop(void *context)
{
	wr_serve_queue_loop_wake(context);
}

/* ---- the queue in the service ---- */

static struct wr_queue_opts make_opts(struct wr_serve_queue_host *host)
{
	const struct wr_serve_queue_settings *s = &host->settings->queue;
	const struct wr_serve_redis_settings *redis = &host->settings->redis;

	return (struct wr_queue_opts){
		.url = s->url,
		.key_file = s->key_file,
		.seals = host->service->seals,
		.password_file = s->password_file,
		.owner_file = host->owner_file[0] ? host->owner_file : NULL,
		.prefix = redis->prefix,
		.tls = {redis->ca, redis->cert, redis->key},
		.assume_durable = s->assume_durable,
		.max_requests = s->max_requests,
		.max_bytes = s->max_bytes,
		.max_line_bytes = s->max_line_bytes,
		.max_dead = s->max_dead,
		.max_dead_bytes = s->max_dead_bytes,
		.keep_us = s->keep_ns / 1000,
		.lease_us = s->timeout_ns / 1000 + WR_DELIVER_LEASE_US,
		.waiting = on_waiting,
		.log = log_message,
		.context = host,
	};
}

static void free_host(struct wr_serve_queue_host *host)
{
	pthread_mutex_destroy(&host->lock);
	free(host);
}

int wr_serve_queue_host_open(struct wr_service *service, struct weir_error *error)
{
	struct wr_serve_queue_host *host;
	struct wr_queue_opts opts;
	int rc;

	wr_assert(!service->queue);
	if (!wr_serve_queue_wanted(&service->settings.queue))
		return 0;
	host = calloc(1, sizeof *host);
	if (!host)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	host->service = service;
	host->settings = &service->settings;
	host->due_us = UINT64_MAX;
	host->shared = strncmp(host->settings->queue.url, "file:", 5) != 0;
	pthread_mutex_init(&host->lock, NULL);
	wr_queue_url_text(host->settings->queue.url, host->text, sizeof host->text);
	if (host->shared && service->core->table->path[0])
		snprintf(host->owner_file, sizeof host->owner_file, "%s.queue",
			 service->core->table->path);
	opts = make_opts(host);
	host->began_s = (uint32_t)time(NULL) + 1;
	rc = wr_queue_open(&opts, &host->queue, error);
	wr_serve_queue_forget_seals(service);
	if (rc < 0) {
		free_host(host);
		return rc;
	}
	service->queue = host;
	wr_log(WR_LOG_INFO, "deferred requests are stored in %s and delivered %s%s", host->text,
	       host->settings->queue.target ? "to " : "by other processes",
	       host->settings->queue.target ? host->settings->queue.target : "");
	return 0;
}

void wr_serve_queue_host_close(struct wr_serve_queue_host *host)
{
	if (!host)
		return;
	wr_queue_close(host->queue);
	for (unsigned i = 0; i < WR_LOOPS_MAX; i++) {
		struct wr_serve_queue_loop *own = host->loops[i];

		if (!own)
			continue;
		if (own->port) {
			wr_queue_port_run(own->port);
			wr_queue_port_free(own->port);
		}
		own->port = NULL;
		own->host = NULL;
	}
	wr_queue_free(host->queue);
	host->service->queue = NULL;
	free_host(host);
}

void wr_serve_queue_look(struct wr_serve_queue_host *host, struct wr_serve_queue_seen *seen)
{
	pthread_mutex_lock(&host->lock);
	*seen = host->seen;
	pthread_mutex_unlock(&host->lock);
}

void wr_serve_queue_set_gauges(struct wr_serve_queue_host *host, struct weir_table *table,
			       uint64_t now_ns)
{
	struct wr_serve_queue_seen seen;

	wr_serve_queue_look(host, &seen);
	if (!seen.known)
		return;
	weir_gauge_set(table, WEIR_GAUGE_QUEUE_DEPTH,
		       (int64_t)(seen.stats.waiting + seen.stats.delivering), now_ns);
	weir_gauge_set(table, WEIR_GAUGE_QUEUE_BYTES, (int64_t)seen.stats.bytes, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_QUEUE_OLDEST_US, (int64_t)seen.stats.oldest_us, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_QUEUE_DEAD, (int64_t)seen.stats.dead, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_QUEUE_SENDING, (int64_t)seen.sending, now_ns);
	weir_gauge_set(table, WEIR_GAUGE_QUEUE_TARGET_UP, seen.down_for_ns == 0, now_ns);
}

/* ---- the queue in a loop ---- */

static void on_wake(uv_async_t *async)
{
	struct wr_serve_queue_loop *own = async->data;

	if (own->port)
		wr_queue_port_run(own->port);
	if (own->deliverer)
		wr_deliver_wake(own->deliverer);
	wr_loop_check_drained(own->loop);
}

int wr_serve_queue_loop_init(struct wr_loop *loop)
{
	struct wr_serve_queue_host *host = loop->service->queue;
	struct wr_serve_queue_loop *own;

	wr_assert(loop->number < WR_LOOPS_MAX && !loop->queue);
	if (!host)
		return 0;
	own = calloc(1, sizeof *own);
	if (!own)
		return WEIR_EMEMORY;
	pthread_mutex_init(&own->lock, NULL);
	own->loop = loop;
	own->host = host;
	own->closed = true;
	loop->queue = own;
	host->loops[loop->number] = own;
	if (uv_async_init(&loop->uv, &own->wake, on_wake) < 0)
		return WEIR_EMEMORY;
	own->closed = false;
	own->wake.data = own;
	own->port = wr_queue_port_new(host->queue, wake_loop, own);
	if (!own->port)
		return WEIR_EMEMORY;
	if (loop->number == 0)
		own->deliverer = wr_deliver_new(own);
	return loop->number == 0 && !own->deliverer ? WEIR_EMEMORY : 0;
}

void wr_serve_queue_loop_stop(struct wr_loop *loop)
{
	struct wr_serve_queue_loop *own = loop->queue;

	if (!own || own->closed)
		return;
	if (own->deliverer)
		wr_deliver_stop(own->deliverer);
	pthread_mutex_lock(&own->lock);
	own->closed = true;
	uv_close((uv_handle_t *)&own->wake, NULL);
	pthread_mutex_unlock(&own->lock);
}

void wr_serve_queue_loop_free(struct wr_loop *loop)
{
	struct wr_serve_queue_loop *own = loop->queue;

	wr_assert(!loop->queue || loop->queue->closed);
	if (!own)
		return;
	if (own->host) { /* true only if wr_serve_queue_host_close() has not run */
		own->host->loops[loop->number] = NULL;
		if (own->port)
			wr_queue_port_free(own->port);
	}
	wr_deliver_free(own->deliverer);
	pthread_mutex_destroy(&own->lock);
	free(own);
	loop->queue = NULL;
}

void wr_serve_queue_loop_end_deliveries(struct wr_loop *loop)
{
	if (loop->queue && loop->queue->deliverer)
		wr_deliver_end(loop->queue->deliverer);
}

size_t wr_serve_queue_loop_busy(const struct wr_loop *loop)
{
	return loop->queue && loop->queue->deliverer ? wr_deliver_busy(loop->queue->deliverer) : 0;
}

void wr_serve_queue_loop_core(struct wr_loop *loop)
{
	if (loop->queue && loop->queue->deliverer)
		wr_deliver_recount(loop->queue->deliverer);
}
