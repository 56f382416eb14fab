/* Resets, grants and bans: carried out here, and told to all other nodes by way of Redis.
 *
 *   message   head · domain · limit · { key · value · source }*     each text: u16 length, bytes
 *
 * An end is told as the time that is left, for clocks of nodes may differ; how old a message is,
 * Redis knows. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "limiter/text.h"
#include "serve/log.h"
#include "serve/loop.h"
#include "serve/redis.h"
#include "serve/service.h"

#define VERSION 1u
#define ENTRIES_MAX 32u
#define FOR_EVER UINT64_MAX
#define RESET_LATE_NS 10000000000ull /* older resets have been carried out long ago */
#define SECOND_NS 1000000000ull

struct head {
	uint8_t version;
	uint8_t verb; /* enum wr_order_verb */
	uint16_t entries;
	uint32_t extra;
	uint64_t left_ns; /* FOR_EVER; 0: lifted */
};

_Static_assert(sizeof(struct head) == 16, "as in Redis");

/* ---- carrying out ---- */

static int carry_out(struct weir_engine *engine, const struct wr_order *order, uint64_t now_ns,
		     struct weir_error *error)
{
	switch (order->verb) {
	case WR_ORDER_RESET:
		return weir_control_reset(engine, order->target, now_ns, error);
	case WR_ORDER_GRANT:
		return weir_control_grant(engine, order->target, order->extra,
					  order->extra ? order->until_ns : now_ns + SECOND_NS,
					  now_ns, error);
	default:
		return weir_control_ban(engine, order->target, order->until_ns, now_ns, error);
	}
}

/* Refusals are remembered for up to a second in every loop, and this may have ended them. */
static void forget_refusals(struct wr_loop *loop)
{
	struct wr_service *service = loop->service;

	for (unsigned i = 0; i < service->loops_ready; i++)
		wr_loop_tell(&service->loops[i], WR_LOOP_FORGET);
}

/* ---- writing ---- */

struct writer {
	uint8_t *at;
	size_t cap, len; /* len may be more than there is room for */
};

static void put(struct writer *out, const void *bytes, size_t len)
{
	if (len && out->len + len <= out->cap)
		memcpy(out->at + out->len, bytes, len);
	out->len += len;
}

static void put_text(struct writer *out, struct weir_str text)
{
	uint16_t len = (uint16_t)text.len;

	if (text.len > UINT16_MAX)
		out->len = out->cap + 1;
	put(out, &len, sizeof len);
	put(out, text.ptr, text.len);
}

static size_t write_message(const struct wr_order *order, uint64_t now_ns, uint8_t *bytes,
			    size_t cap)
{
	const struct weir_target *target = order->target;
	struct writer out = {bytes, cap, 0};
	struct head head = {.version = VERSION,
			    .verb = (uint8_t)order->verb,
			    .entries = (uint16_t)target->count,
			    .extra = order->extra,
			    .left_ns = order->until_ns == WEIR_NEVER ? FOR_EVER
				       : order->until_ns > now_ns    ? order->until_ns - now_ns
								     : 0};

	put(&out, &head, sizeof head);
	put_text(&out, target->domain);
	put_text(&out, target->limit);
	for (size_t i = 0; i < target->count; i++) {
		put_text(&out, target->entries[i].key);
		put_text(&out, target->entries[i].value);
		put_text(&out, target->entries[i].source);
	}
	return out.len;
}

static void publish(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns)
{
	uint8_t bytes[WR_CENTRAL_MESSAGE_MAX];
	size_t len = write_message(order, now_ns, bytes, sizeof bytes);

	if (len > sizeof bytes || order->target->count > ENTRIES_MAX)
		wr_log(WR_LOG_WARN,
		       "redis: this order is for this node alone: its descriptor is too long to "
		       "be told to others");
	else if (wr_central_publish(loop->redis->central, bytes, len, wr_loop_mono_ns(loop)) < 0)
		wr_log(WR_LOG_WARN, "redis: this order is for this node alone: too many are "
				    "waiting for Redis to come back; give it again later");
}

static void reset_there(struct wr_loop *loop, const struct weir_target *target, uint64_t now_ns)
{
	uint8_t question[WEIR_QUESTION_MAX];
	int len = weir_control_question(wr_loop_engine(loop), target, question, sizeof question,
					now_ns, NULL);

	if (len > 0)
		wr_redis_tell(loop, question, (size_t)len, now_ns);
}

int wr_order_run(struct wr_loop *loop, const struct wr_order *order, uint64_t now_ns,
		 struct weir_error *error)
{
	int rc = carry_out(wr_loop_engine(loop), order, now_ns, error);

	if (rc < 0 || !loop->redis || !loop->redis->central)
		return rc;
	if (order->verb == WR_ORDER_RESET)
		reset_there(loop, order->target, now_ns);
	publish(loop, order, now_ns);
	forget_refusals(loop);
	return rc;
}

/* ---- reading ---- */

struct reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static const uint8_t *take(struct reader *in, size_t len)
{
	const uint8_t *at = in->at;

	if (len > in->left) {
		in->bad = true;
		return NULL;
	}
	in->at += len;
	in->left -= len;
	return at;
}

static struct weir_str take_text(struct reader *in)
{
	const uint8_t *at = take(in, sizeof(uint16_t));
	uint16_t len = 0;

	if (at)
		memcpy(&len, at, sizeof len);
	at = take(in, len);
	return at ? (struct weir_str){(const char *)at, len} : (struct weir_str){"", 0};
}

static bool read_message(struct reader *in, struct head *head, struct weir_target *target,
			 struct weir_entry entries[ENTRIES_MAX])
{
	const uint8_t *at = take(in, sizeof *head);

	if (!at)
		return false;
	memcpy(head, at, sizeof *head);
	if (head->version != VERSION || head->verb < WR_ORDER_RESET || head->verb > WR_ORDER_BAN ||
	    head->entries == 0 || head->entries > ENTRIES_MAX)
		return false;
	*target = (struct weir_target){.size = sizeof *target};
	target->domain = take_text(in);
	target->limit = take_text(in);
	for (size_t i = 0; i < head->entries; i++) {
		entries[i].key = take_text(in);
		entries[i].value = take_text(in);
		entries[i].source = take_text(in);
	}
	target->entries = entries;
	target->count = head->entries;
	return !in->bad && in->left == 0;
}

/* When it ends by our clock. False: it is over. */
static bool end_of(const struct head *head, uint64_t age_ns, uint64_t now_ns, uint64_t *until_ns)
{
	if (head->verb == WR_ORDER_RESET)
		return age_ns < RESET_LATE_NS;
	*until_ns = head->left_ns == FOR_EVER ? WEIR_NEVER : 0;
	if (head->left_ns == FOR_EVER || head->left_ns == 0)
		return true;
	if (head->left_ns <= age_ns || head->left_ns > INT64_MAX)
		return false;
	*until_ns = now_ns + (head->left_ns - age_ns);
	return true;
}

void wr_order_whom(const struct weir_target *target, char *text, size_t cap)
{
	struct wr_text out = {text, cap - 1, 0};

	wr_text_put(&out, target->domain);
	for (size_t i = 0; i < target->count; i++) {
		wr_text_char(&out, ' ');
		wr_text_put(&out, target->entries[i].key);
		wr_text_char(&out, '=');
		wr_text_put(&out, target->entries[i].value);
	}
	text[wr_text_fits(&out) ? out.len : out.cap] = '\0';
}

static void log_order(const struct wr_order *order, uint64_t age_ns, int counters)
{
	static const char *const verbs[] = {
		[WR_ORDER_RESET] = "reset", [WR_ORDER_GRANT] = "grant", [WR_ORDER_BAN] = "ban"};
	char text[256];

	wr_order_whom(order->target, text, sizeof text);
	wr_log(age_ns < RESET_LATE_NS ? WR_LOG_INFO : WR_LOG_DEBUG,
	       "redis: another node: %s %s: %d counters", verbs[order->verb], text, counters);
}

void wr_order_heard(struct wr_loop *loop, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	struct reader in = {bytes, len, false};
	struct weir_entry entries[ENTRIES_MAX];
	struct weir_target target;
	struct wr_order order = {.target = &target};
	struct weir_error error = {0};
	struct head head;
	uint64_t now_ns = wr_loop_now_ns(loop);
	int rc;

	if (!read_message(&in, &head, &target, entries)) {
		wr_log(WR_LOG_WARN, "redis: a message of another node was not understood: is it of "
				    "another version?");
		return;
	}
	order.verb = head.verb;
	order.extra = head.extra;
	if (!end_of(&head, age_ns, now_ns, &order.until_ns) ||
	    (own && order.verb == WR_ORDER_RESET))
		return;
	rc = carry_out(wr_loop_engine(loop), &order, now_ns, &error);
	if (rc < 0 || own)
		wr_log(rc == WEIR_ENOENT || own ? WR_LOG_DEBUG : WR_LOG_WARN,
		       "redis: an order of %s: %s", own ? "this node" : "another node",
		       rc < 0 ? error.text : "carried out");
	else
		log_order(&order, age_ns, rc);
	forget_refusals(loop);
}
