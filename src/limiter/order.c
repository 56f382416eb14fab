/* Writes orders of operators as messages to other nodes, reads such messages, and carries out
 * orders. Called by the admin API and the handler of messages.
 *
 * A message begins with a struct head. Then follow these texts: the domain, the limit and, for each
 * entry of the descriptor, its key, value and source. Each text is its length (16 bits) and its
 * bytes.
 *
 * A message contains the time that remains until the order ends, because the clocks of nodes
 * may differ. Redis provides the age of the message. */
#include "limiter/order.h"

#include <string.h>

#include "base/assert.h"
#include "limiter/ban.h"
#include "limiter/engine.h"

#define VERSION 1u
#define FOR_EVER UINT64_MAX
#define SECOND_NS 1000000000ull

struct head {
	uint8_t version;
	uint8_t verb; /* enum wr_order_verb */
	uint16_t entries;
	/* GRANT: granted units. BAN: level << 8 | flags. Earlier versions write 0 and ignore the
	 * value. */
	uint32_t extra;
	uint64_t left_ns; /* time until the ban or grant ends, or FOR_EVER; 0 lifts a ban */
};

_Static_assert(sizeof(struct head) == 16, "as in Redis");

/* ---- carrying out ---- */

int wr_order_apply(struct weir_engine *engine, const struct wr_order *order, uint64_t now_ns,
		   struct weir_error *error)
{
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	wr_assert(order->target);
	switch (order->verb) {
	case WR_ORDER_RESET:
		return weir_control_reset(engine, order->target, now_ns, error);
	case WR_ORDER_GRANT:
		return weir_control_grant(engine, order->target, order->extra,
					  order->extra ? order->until_ns : now_ns + SECOND_NS,
					  now_ns, error);
	default:
		return wr_limiter_ban_order(engine, order, now_ns, error);
	}
}

/* ---- writing ---- */

struct writer {
	uint8_t *at;
	size_t cap, len; /* `len` is the length of the whole message, even if it is above `cap` */
};

static void append_to_order(struct writer *out, const void *bytes, size_t len)
{
	if (len && out->len + len <= out->cap)
		memcpy(out->at + out->len, bytes, len);
	out->len += len;
}

static void append_text(struct writer *out, struct weir_str text)
{
	uint16_t len = (uint16_t)text.len;

	if (text.len > UINT16_MAX)
		out->len = out->cap + 1;
	append_to_order(out, &len, sizeof len);
	append_to_order(out, text.ptr, text.len);
}

size_t wr_order_write(const struct wr_order *order, uint64_t now_ns, uint8_t *bytes, size_t cap)
{
	const struct weir_target *target = order->target;
	struct writer out = {bytes, cap, 0};
	struct head head = {.version = VERSION,
			    .verb = (uint8_t)order->verb,
			    .entries = (uint16_t)target->count,
			    .extra = order->verb == WR_ORDER_BAN
					     ? order->level << 8 | (order->flags & 0xff)
					     : order->extra,
			    .left_ns = order->until_ns == WEIR_NEVER ? FOR_EVER
				       : order->until_ns > now_ns    ? order->until_ns - now_ns
								     : 0};

	if (target->count > WR_ORDER_ENTRIES)
		return 0;
	append_to_order(&out, &head, sizeof head);
	append_text(&out, target->domain);
	append_text(&out, target->limit);
	for (size_t i = 0; i < target->count; i++) {
		append_text(&out, target->entries[i].key);
		append_text(&out, target->entries[i].value);
		append_text(&out, target->entries[i].source);
	}
	return out.len <= cap ? out.len : 0;
}

/* ---- reading ---- */

struct order_reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static const uint8_t *read_bytes(struct order_reader *in, size_t len)
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

static struct weir_str read_order_text(struct order_reader *in)
{
	const uint8_t *at = read_bytes(in, sizeof(uint16_t));
	uint16_t len = 0;

	if (at)
		memcpy(&len, at, sizeof len);
	at = read_bytes(in, len);
	return at ? (struct weir_str){(const char *)at, len} : (struct weir_str){"", 0};
}

static bool read_message(struct order_reader *in, struct head *head, struct weir_target *target,
			 struct weir_entry entries[WR_ORDER_ENTRIES])
{
	const uint8_t *at = read_bytes(in, sizeof *head);

	if (!at)
		return false;
	memcpy(head, at, sizeof *head);
	if (head->version != VERSION || head->verb < WR_ORDER_RESET || head->verb > WR_ORDER_BAN ||
	    head->entries == 0 || head->entries > WR_ORDER_ENTRIES)
		return false;
	*target = (struct weir_target){.size = sizeof *target};
	target->domain = read_order_text(in);
	target->limit = read_order_text(in);
	for (size_t i = 0; i < head->entries; i++) {
		entries[i].key = read_order_text(in);
		entries[i].value = read_order_text(in);
		entries[i].source = read_order_text(in);
	}
	target->entries = entries;
	target->count = head->entries;
	return !in->bad && in->left == 0;
}

bool wr_order_read(const void *bytes, size_t len, struct wr_order_text *text)
{
	struct order_reader in = {bytes, len, false};
	struct head head;

	if (!read_message(&in, &head, &text->target, text->entries))
		return false;
	text->order =
		(struct wr_order){.verb = head.verb, .target = &text->target, .extra = head.extra};
	if (head.verb == WR_ORDER_BAN) {
		text->order.extra = 0;
		text->order.level = head.extra >> 8 & 0xff;
		text->order.flags = head.extra & (WR_BAN_AUTOMATIC | WR_BAN_SHIELD);
	}
	text->left_ns = head.left_ns;
	return true;
}

bool wr_order_end(struct wr_order_text *text, uint64_t age_ns, uint64_t now_ns)
{
	uint64_t *until_ns = &text->order.until_ns;

	if (text->order.verb == WR_ORDER_RESET)
		return age_ns < WR_ORDER_RESET_LATE_NS;
	*until_ns = text->left_ns == FOR_EVER ? WEIR_NEVER : 0;
	if (text->left_ns == FOR_EVER || text->left_ns == 0)
		return true;
	if (text->left_ns <= age_ns || text->left_ns > INT64_MAX)
		return false;
	*until_ns = now_ns + (text->left_ns - age_ns);
	return true;
}
