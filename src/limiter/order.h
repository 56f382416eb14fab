/* Orders: resets, grants and bans of an operator, and automatic bans, sent from one node to all others as messages
 * (wr_central_publish). */
#ifndef WR_LIMITER_ORDER_H
#define WR_LIMITER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/control.h>

#define WR_ORDER_ENTRIES 32u /* maximum number of entries of a descriptor */
/* A message that is older than this does not reset counters any more. */
#define WR_ORDER_RESET_LATE_NS 10000000000ull

enum wr_order_verb {
	WR_ORDER_RESET = 1,
	WR_ORDER_GRANT = 2,
	WR_ORDER_BAN = 3,
};

struct wr_order {
	enum wr_order_verb verb;
	const struct weir_target *target;
	uint32_t extra; /* GRANT: units added to the limit */
	/* GRANT, BAN: when the grant or ban ends, or WEIR_NEVER; 0 lifts a ban. */
	uint64_t until_ns;
	uint32_t level; /* BAN: level of an automatic ban, see struct wr_ban */
	uint32_t flags; /* BAN: WR_BAN_AUTOMATIC, WR_BAN_SHIELD (table/ban.h) */
};

/* Carries out the order on this node with a weir_control_… function, and returns its result. */
int wr_order_apply(struct weir_engine *engine, const struct wr_order *order, uint64_t now_ns,
		   struct weir_error *error);

/* Writes the order as a message. Returns the length of the message, or 0 if it does not fit. */
size_t wr_order_write(const struct wr_order *order, uint64_t now_ns, uint8_t *bytes, size_t cap);

/* An order that was read. It contains pointers into itself and into the message. */
struct wr_order_text {
	struct wr_order order;
	struct weir_target target;
	struct weir_entry entries[WR_ORDER_ENTRIES];
	uint64_t left_ns; /* time from the writing of the message to the end of the order */
};

/* Reads a message. Returns false if it is not a valid order of this version. */
bool wr_order_read(const void *bytes, size_t len, struct wr_order_text *text);

/* Sets order.until_ns, by this node's clock, from left_ns and the age of the message. Returns false
 * if the ban or grant has already ended, or if the order is a reset older than
 * WR_ORDER_RESET_LATE_NS. */
bool wr_order_end(struct wr_order_text *text, uint64_t age_ns, uint64_t now_ns);

#endif
