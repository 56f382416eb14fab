/* Carries out the orders of operators (reset, grant, ban) in this table, and publishes them to all
 * other nodes through Redis. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "limiter/text.h"
#include "net/log.h"
#include "serve/fleet/bans.h"
#include "serve/fleet/redis.h"
#include "serve/loop.h"
#include "serve/open.h"
#include "serve/service.h"
#include "table/ban.h"

/* Makes every loop forget the refusals of Redis. A loop remembers a refusal for up to a second, but
 * an order of an operator can end the refusal sooner. */
static void forget_refusals(struct wr_loop *loop)
{
	struct wr_service *service = loop->service;

	for (unsigned i = 0; i < service->loops_ready; i++)
		wr_loop_notify(&service->loops[i], WR_LOOP_FORGET);
}

/* ---- orders of this node ---- */

void wr_serve_order_publish(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns)
{
	uint8_t bytes[WR_CENTRAL_MESSAGE_MAX];
	size_t len = wr_order_write(order, now_ns, bytes, sizeof bytes);

	wr_assert(order->target);
	if (!loop->redis || !loop->redis->central)
		return;
	if (len == 0)
		wr_log(WR_LOG_WARN, "redis: the reset, grant or ban applies to this node only: its "
				    "descriptor is too long to be sent to other nodes");
	else if (wr_central_publish(loop->redis->central, bytes, len, wr_loop_mono_ns(loop)) < 0)
		wr_log(WR_LOG_WARN, "redis: the reset, grant or ban applies to this node only: too "
				    "many others wait for Redis; repeat it when Redis is back");
}

int wr_serve_order_run(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns,
		       struct weir_error *error)
{
	int rc = wr_order_apply(wr_loop_engine(loop), order, now_ns, error);

	wr_assert(order->target);
	if (rc < 0 || !loop->redis || !loop->redis->central)
		return rc;
	if (order->verb == WR_ORDER_RESET) {
		uint8_t question[WEIR_QUESTION_MAX];
		int len = weir_control_question(wr_loop_engine(loop), order->target, question,
						sizeof question, now_ns, NULL);

		if (len > 0)
			wr_serve_redis_send(loop, question, (size_t)len, now_ns);
	}
	wr_serve_order_publish(loop, order, now_ns);
	forget_refusals(loop);
	return rc;
}

/* ---- orders received from Redis ---- */

void wr_serve_order_whom(const struct weir_target *target, char *text, size_t cap)
{
	struct wr_limiter_text out = {text, cap - 1, 0};

	wr_assert(cap > 0);
	wr_limiter_text_put(&out, target->domain);
	for (size_t i = 0; i < target->count; i++) {
		wr_limiter_text_char(&out, ' ');
		wr_limiter_text_put(&out, target->entries[i].key);
		wr_limiter_text_char(&out, '=');
		wr_limiter_text_put(&out, target->entries[i].value);
	}
	text[wr_limiter_text_fits(&out) ? out.len : out.cap] = '\0';
}

void wr_serve_order_release_text(const struct weir_target *conditions, char *text, size_t cap)
{
	char which[256];

	wr_assert(cap > 0);
	if (conditions->count == 1 && wr_str_equal(conditions->entries[0].key, WR_STR("all"))) {
		snprintf(text, cap, "release all bans");
		return;
	}
	wr_serve_order_whom(conditions, which, sizeof which);
	snprintf(text, cap, "release bans:%s", which);
}

/* An automatic ban is logged as in bans.c: at most WR_BAN_LOG_LINES in a minute, and its key only
 * with --keys text. `count` is the number of counters, or of bans that a release has ended. */
static void log_order(struct wr_loop *loop, const struct wr_order *order, uint64_t age_ns,
		      int count)
{
	static const char *const verbs[] = {
		[WR_ORDER_RESET] = "reset", [WR_ORDER_GRANT] = "grant", [WR_ORDER_BAN] = "ban"};
	bool lifts = order->verb == WR_ORDER_BAN && order->until_ns == 0;
	bool automatic = order->verb == WR_ORDER_BAN && order->flags & WR_BAN_AUTOMATIC;
	bool late = age_ns >= WR_ORDER_RESET_LATE_NS, is_release = order->verb == WR_ORDER_RELEASE;
	char whom[256] = "a key", text[288];

	if (automatic && !late && !wr_serve_bans_may_log(loop))
		return;
	if (!automatic || wr_settings_keys(wr_loop_settings(loop)) == WEIR_KEYS_TEXT)
		wr_serve_order_whom(order->target, whom, sizeof whom);
	if (is_release)
		wr_serve_order_release_text(order->target, text, sizeof text);
	else
		snprintf(text, sizeof text, "%s %s", lifts ? "release" : verbs[order->verb], whom);
	wr_log(late ? WR_LOG_DEBUG : WR_LOG_INFO, "redis: from another node: %s: %d %s%s", text,
	       count, is_release ? "ban" : "counter", count == 1 ? "" : "s");
}

bool wr_serve_order_receive(struct wr_loop *loop, const void *bytes, size_t len, uint64_t age_ns,
			    bool own)
{
	static struct wr_log_gate gate;
	struct wr_order_text text;
	struct weir_error error = {0};
	uint64_t now_ns = wr_loop_now_ns(loop);
	int rc;

	if (!wr_order_read(bytes, len, &text)) {
		wr_log_limited(&gate, WR_LOG_WARN,
			       "redis: cannot read a message of another node: that node may run "
			       "another version of weir");
		return false;
	}
	if (!wr_order_end(&text, age_ns, now_ns) || (own && text.order.verb == WR_ORDER_RESET))
		return false;
	rc = wr_order_apply(wr_loop_engine(loop), &text.order, now_ns, &error);
	if (rc < 0 || own)
		wr_log(rc == WEIR_ENOENT || own ? WR_LOG_DEBUG : WR_LOG_WARN,
		       "redis: a reset, grant or ban of %s: %s", own ? "this node" : "another node",
		       rc < 0 ? error.text : "carried out");
	else
		log_order(loop, &text.order, age_ns, rc);
	forget_refusals(loop);
	return text.order.verb == WR_ORDER_RELEASE;
}
