/* Creation, destruction and the timer of struct wr_central, and helpers for time and logging.
 * Called by the host. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "central/inner.h"

#define TIMEOUT_MIN_NS WR_MS_NS
#define TIMEOUT_MAX_NS (60000 * WR_MS_NS)

void wr_central_enter(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	central->depth++;
	central->now_ns = now_ns;
	if (mono_ns > central->mono_ns)
		central->mono_ns = mono_ns;
}

/* Called at the end of each public function. A public function can call a callback, which can call
 * another public function. So the closed connections are freed only at the end of the outermost
 * function. */
void wr_central_exit(struct wr_central *central)
{
	wr_assert(central->depth > 0);
	if (--central->depth == 0)
		wr_central_conns_free_closed(central);
}

void wr_central_wake_at(struct wr_central *central, uint64_t mono_ns)
{
	wr_assert_magic(central, WR_CENTRAL_MAGIC);
	if (mono_ns >= central->wake_ns)
		return;
	central->wake_ns = mono_ns;
	if (!central->ticking)
		central->host.wake_at(central->context, mono_ns);
}

/* Returns a pseudo-random number (xorshift64). The number varies the time of retries, so that nodes
 * do not retry at the same time. */
uint64_t wr_central_random(struct wr_central *central)
{
	central->random ^= central->random << 13;
	central->random ^= central->random >> 7;
	central->random ^= central->random << 17;
	return central->random;
}

void wr_central_log(struct wr_central *central, enum wr_central_log_level level, const char *format,
		    ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	central->host.log(central->context, level, text);
}

/* ---- creation ---- */

static int check_options(const struct wr_central_opts *opts, struct weir_error *error)
{
	if (!opts->target || opts->target->at.count == 0)
		return wr_error(error, WEIR_EINVAL, "there is no Redis to connect to");
	if (wr_redis_prefix_check(opts->prefix ? opts->prefix : "weir", error) < 0)
		return WEIR_EINVAL;
	if (opts->timeout_ns &&
	    (opts->timeout_ns < TIMEOUT_MIN_NS || opts->timeout_ns > TIMEOUT_MAX_NS))
		return wr_error(error, WEIR_EINVAL, "the timeout for Redis must be 1ms to 1m");
	return 0;
}

static void set_options(struct wr_central *central, const struct wr_central_opts *opts)
{
	central->target = opts->target;
	central->prefix_len = (size_t)snprintf(central->prefix, sizeof central->prefix,
					       "%s:1:", opts->prefix ? opts->prefix : "weir");
	snprintf(central->holder, sizeof central->holder, "%016llx%016llx",
		 (unsigned long long)opts->holder[0], (unsigned long long)opts->holder[1]);
	snprintf(central->reporter, sizeof central->reporter, "%s-%u", central->holder,
		 opts->number);
	central->timeout_ns = opts->timeout_ns ? opts->timeout_ns : WR_CENTRAL_TIMEOUT_NS;
	central->table = opts->table;
	central->owner = opts->owner;
	central->fleet_size = opts->fleet_size;
	central->chief = opts->chief;
	central->duties.read_ms = opts->read_ms;
	central->duties.read_seq = opts->read_seq;
	central->random = opts->seed | 1;
	central->batch = 1;
	central->wake_ns = UINT64_MAX;
	/* The sequence numbers of reports must be higher than those that this loop used before a
	 * restart. So they begin with the current time in µs. */
	central->reports.next_seq = central->now_ns / 1000 + 1;
	central->reports.send_at_ns = UINT64_MAX;
	central->late.check_at_ns = UINT64_MAX;
	central->duties.secret_given = opts->secret != NULL;
	if (opts->secret) {
		memcpy(central->duties.secret, opts->secret, WR_CENTRAL_SECRET);
		central->duties.secret_known = true;
	}
}

static bool make_shards(struct wr_central *central)
{
	if (central->target->kind == WR_REDIS_CLUSTER)
		return wr_central_cluster_start(central);
	if (central->target->kind == WR_REDIS_SENTINEL)
		return wr_central_sentinels_start(central);
	central->shards[0] = wr_central_shard_new(central, &central->target->at.items[0]);
	central->shard_count = central->shards[0] != NULL;
	return central->shard_count == 1;
}

int wr_central_new(const struct wr_central_opts *opts, const struct wr_central_host *host,
		   void *context, uint64_t now_ns, uint64_t mono_ns, struct wr_central **out,
		   struct weir_error *error)
{
	struct wr_central *central;
	int rc = check_options(opts, error);

	if (rc < 0)
		return rc;
	wr_assert(host->open && host->close && host->dirty && host->wake_at && host->log);
	central = calloc(1, sizeof *central);
	if (!central)
		return wr_error(error, WEIR_EMEMORY, "out of memory for the central store");
	central->magic = WR_CENTRAL_MAGIC;
	wr_list_init(&central->asks);
	wr_list_init(&central->duties.messages);
	central->host = *host;
	central->context = context;
	central->now_ns = now_ns;
	central->mono_ns = mono_ns;
	set_options(central, opts);
	central->refusals = calloc(1, sizeof *central->refusals);
	central->holds = wr_central_lease_holds_new();
	if (!central->refusals || !central->holds || !make_shards(central) ||
	    !wr_central_exchanges_start(central, opts)) {
		wr_central_free(central);
		return wr_error(error, WEIR_EMEMORY, "out of memory for the central store");
	}
	*out = central;
	wr_central_enter(central, now_ns, mono_ns);
	if (!central->cluster)
		wr_central_shard_connect(central->shards[0]);
	wr_central_wake_at(central, mono_ns);
	wr_central_exit(central);
	return 0;
}

/* ---- destruction ---- */

void wr_central_free(struct wr_central *central)
{
	if (!central)
		return;
	wr_assert(central->magic == WR_CENTRAL_MAGIC && central->depth == 0);
	central->freeing = true;
	central->depth++;
	wr_central_asks_fail(central);
	wr_call_queue_fail(central, &central->again, WR_FAULT_LOST);
	if (central->sentinels && central->sentinels->conn)
		wr_central_conn_close(central->sentinels->conn);
	for (uint32_t i = 0; i < central->shard_count; i++)
		wr_central_shard_close(central->shards[i]);
	wr_central_cluster_free(central);
	wr_central_reports_free(central);
	wr_central_late_free(central);
	wr_central_control_free(central);
	wr_central_conns_free_closed(central);
	for (uint32_t i = 0; i < central->shard_count; i++)
		free(central->shards[i]);
	wr_central_pool_free(&central->parts);
	wr_central_pool_free(&central->calls);
	free(central->sentinels);
	free(central->refusals);
	wr_central_lease_holds_free(central->holds);
	wr_central_exchanges_free(central);
	central->magic = 0;
	free(central);
}

/* ---- timer ---- */

static void retry_due_calls(struct wr_central *central)
{
	struct wr_call_queue *again = &central->again;

	while (again->first && again->first->mono_ns <= central->mono_ns)
		wr_call_send(central, wr_call_queue_pop(again));
	if (again->first)
		wr_central_wake_at(central, again->first->mono_ns);
}

void wr_central_tick(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	wr_central_enter(central, now_ns, mono_ns);
	central->wake_ns = UINT64_MAX;
	central->ticking = true;
	wr_central_asks_expire(central);
	retry_due_calls(central);
	for (uint32_t i = 0; i < central->shard_count; i++)
		wr_central_shard_tick(central->shards[i]);
	if (central->cluster)
		wr_central_cluster_tick(central);
	if (central->sentinels)
		wr_central_sentinels_tick(central);
	wr_central_duties_tick(central);
	wr_central_control_tick(central);
	wr_central_late_tick(central);
	wr_central_reports_tick(central);
	wr_central_lease_holds_tick(central);
	wr_central_exchanges_tick(central);
	central->ticking = false;
	if (central->wake_ns != UINT64_MAX)
		central->host.wake_at(central->context, central->wake_ns);
	wr_central_exit(central);
}
