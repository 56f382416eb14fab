/* Logs the automatic bans of this machine, and publishes them to the other nodes. An order that
 * waits for Redis stays in the ring of the table, which survives a restart of the service. */
#include "serve/fleet/bans.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"
#include "net/log.h"
#include "serve/fleet/redis.h"
#include "serve/loop.h"
#include "serve/open.h"
#include "serve/service.h"
#include "table/ban.h"
#include "table/ban_order.h"

#define MINUTE_MS 60000u
#define LOG_AT_ONCE 256u     /* maximum number of orders that a sweep reads for the log */
#define PUBLISH_AT_ONCE 512u /* maximum number of orders that a sweep publishes */
/* While this many messages wait for Redis, orders stay in the ring. The remaining room is for the
 * orders of operators. */
#define WAITING_MAX (WR_MESSAGES_MAX - 256u)

/* ---- the log ---- */

bool wr_serve_bans_may_log(struct wr_loop *loop)
{
	struct wr_serve_bans *bans = &loop->bans;
	uint64_t now_ms = uv_now(&loop->uv);

	if (now_ms - bans->minute_ms >= MINUTE_MS) {
		if (bans->held)
			wr_log(WR_LOG_INFO, "%" PRIu64 " more bans were not logged", bans->held);
		bans->minute_ms = now_ms;
		bans->lines = 0;
		bans->held = 0;
	}
	if (bans->lines < WR_BAN_LOG_LINES) {
		bans->lines++;
		return true;
	}
	bans->held++;
	return false;
}

static void log_ban(struct wr_loop *loop, const struct wr_order_text *text)
{
	bool hidden = wr_settings_keys(wr_loop_settings(loop)) != WEIR_KEYS_TEXT;
	struct weir_str rule = text->target.limit;
	char whom[256], until[32], level[48] = "";
	time_t end_s = (time_t)((wr_loop_now_ns(loop) + text->left_ns) / WR_SECOND_NS);
	struct tm utc;

	wr_serve_order_whom(&text->target, whom, sizeof whom);
	gmtime_r(&end_s, &utc);
	strftime(until, sizeof until, "%F %T UTC", &utc);
	if (text->order.level > 1)
		snprintf(level, sizeof level, ", ban %u within a day", (unsigned)text->order.level);
	wr_log(WR_LOG_INFO, "rule %.*s banned %s until %s%s", (int)rule.len, rule.ptr,
	       hidden ? "a key" : whom, until, level);
}

static void log_orders(struct wr_loop *loop)
{
	struct wr_serve_bans *bans = &loop->bans;
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	struct wr_order_text text;
	uint64_t overwritten = 0;
	size_t len;

	for (unsigned i = 0; i < LOG_AT_ONCE; i++) {
		len = wr_ban_order_read(wr_loop_table(loop), &bans->log_at, &overwritten, bytes);
		if (len == 0)
			break;
		if (wr_order_read(bytes, len, &text) && text.left_ns <= INT64_MAX &&
		    wr_serve_bans_may_log(loop))
			log_ban(loop, &text);
	}
	bans->held += overwritten;
}

/* ---- publishing ---- */

struct order_ban {
	uint32_t level;
	uint64_t until_ns; /* end of the ban; 0: it is not in force any more */
};

static int find_ban(void *context, const struct weir_counter *counter)
{
	struct order_ban *search = context;

	if (counter->banned_until_ns && counter->ban_flags & WEIR_BAN_AUTOMATIC &&
	    counter->ban_level == search->level)
		search->until_ns = counter->banned_until_ns;
	return 0;
}

/* Publishes the order if its ban is still in force. The end of the ban is that of the table: the
 * order may have waited in the ring for a long time. */
static void publish_ban(struct wr_loop *loop, struct wr_order_text *text)
{
	uint64_t now_ns = wr_loop_now_ns(loop);
	struct order_ban search = {.level = text->order.level};

	if (text->order.verb != WR_ORDER_BAN || text->order.flags & WR_BAN_SHADOW)
		return;
	weir_control_get(wr_loop_engine(loop), &text->target, now_ns, find_ban, &search);
	if (!search.until_ns)
		return;
	text->order.until_ns = search.until_ns;
	wr_serve_order_publish(loop, &text->order, now_ns);
}

static void report_lost(struct wr_serve_bans *bans, const struct weir_table *table)
{
	if (bans->lost == 0 || bans->lost_logged)
		return;
	bans->lost_logged = true;
	wr_log(WR_LOG_WARN,
	       "redis: %" PRIu64 " automatic bans apply to this node only: the table keeps %" PRIu64
	       " bans that wait for Redis; weir_ban_orders_lost_total counts further ones",
	       bans->lost, wr_ban_orders_room(table));
}

static void publish_orders(struct wr_loop *loop)
{
	struct wr_serve_bans *bans = &loop->bans;
	struct weir_table *table = wr_loop_table(loop);
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	struct wr_order_text text;
	uint64_t lost = 0;
	size_t len;

	for (unsigned i = 0; i < PUBLISH_AT_ONCE; i++) {
		if (wr_central_publishing(loop->redis->central) >= WAITING_MAX)
			break;
		len = wr_ban_order_read(table, &bans->publish_at, &lost, bytes);
		if (len == 0)
			break;
		if (wr_order_read(bytes, len, &text))
			publish_ban(loop, &text);
	}
	/* Atomic: the metrics are written by other threads. */
	__atomic_fetch_add(&bans->lost, lost, __ATOMIC_RELAXED);
	wr_ban_orders_set_published(table, bans->publish_at);
	report_lost(bans, table);
}

/* ---- the place in the fleet's stream ---- */

/* Returns the number that stands for this fleet in a struct wr_ban_place. It is never 0. */
static uint64_t fleet_number(const struct wr_serve_redis *redis)
{
	const char *prefix = redis->settings->prefix ? redis->settings->prefix : "weir";
	uint64_t number = XXH3_64bits(prefix, strlen(prefix));

	return XXH3_64bits_withSeed(redis->text, strlen(redis->text), number) | 1;
}

struct wr_ban_place wr_serve_bans_place(const struct wr_serve_redis *redis,
					const struct weir_table *table)
{
	struct wr_ban_place place = wr_ban_place_read(table);

	return place.fleet == fleet_number(redis) ? place : (struct wr_ban_place){0};
}

static void write_place(struct wr_loop *loop)
{
	struct wr_ban_place before = wr_ban_place_read(wr_loop_table(loop));
	struct wr_ban_place place = {.fleet = fleet_number(loop->redis->redis)};

	wr_central_read_place(loop->redis->central, &place.ms, &place.seq);
	if (place.ms != before.ms || place.seq != before.seq || place.fleet != before.fleet)
		wr_ban_place_write(wr_loop_table(loop), place);
}

/* ---- sweep ---- */

void wr_serve_bans_begin(struct wr_loop *loop)
{
	const struct weir_table *table = wr_loop_table(loop);
	struct wr_serve_bans *bans = &loop->bans;

	memcpy(bans->table_id, table->header.table_id, sizeof bans->table_id);
	bans->log_at = wr_ban_order_end(table);
	bans->publish_at = wr_ban_orders_published(table);
}

void wr_serve_bans_sweep(struct wr_loop *loop)
{
	const struct weir_table *table = wr_loop_table(loop);

	wr_assert_magic(loop, WR_LOOP_MAGIC);
	wr_assert(loop->number == 0);
	if (memcmp(loop->bans.table_id, table->header.table_id, sizeof loop->bans.table_id) != 0)
		wr_serve_bans_begin(loop);
	log_orders(loop);
	if (!loop->redis || !loop->redis->central)
		return;
	publish_orders(loop);
	write_place(loop);
}
