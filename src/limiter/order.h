/* What an operator orders on one node, as it is told to all others (wr_central_publish). */
#ifndef WR_LIMITER_ORDER_H
#define WR_LIMITER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/control.h>

#define WR_ORDER_ENTRIES 32u                  /* of a descriptor */
#define WR_ORDER_RESET_LATE_NS 10000000000ull /* older resets have been carried out long ago */

enum wr_order_verb {
	WR_ORDER_RESET = 1,
	WR_ORDER_GRANT = 2,
	WR_ORDER_BAN = 3,
};

struct wr_order {
	enum wr_order_verb verb;
	const struct weir_target *target;
	uint32_t extra;    /* GRANT */
	uint64_t until_ns; /* GRANT, BAN: WEIR_NEVER, or 0 lifts a ban */
};

/* As the calls of weir/control.h return. */
int wr_order_carry_out(struct weir_engine *engine, const struct wr_order *order, uint64_t now_ns,
		       struct weir_error *error);

/* How many bytes; 0: there is no room. */
size_t wr_order_write(const struct wr_order *order, uint64_t now_ns, uint8_t *bytes, size_t cap);

/* An order that was read; it points into itself and into the bytes. */
struct wr_order_text {
	struct wr_order order;
	struct weir_target target;
	struct weir_entry entries[WR_ORDER_ENTRIES];
	uint64_t left_ns; /* when it was written */
};

/* False: it is of another version, or none. */
bool wr_order_read(const void *bytes, size_t len, struct wr_order_text *text);

/* Sets when a message so old ends by our clock. False: it is over. */
bool wr_order_end(struct wr_order_text *text, uint64_t age_ns, uint64_t now_ns);

#endif
