/* Automatic bans that other nodes of the fleet are to carry out, in WR_SECTION_BAN_ORDERS.
 *
 * Any process of the table may ban a key: nginx's workers, the service, a program with libweir. Only
 * the service has a connection to Redis. So the process that bans a key appends an order to this
 * ring, and the service publishes the orders of the ring. The bytes of an order are those of
 * limiter/order.h. The newest order overwrites the oldest. */
#ifndef WR_TABLE_BAN_ORDER_H
#define WR_TABLE_BAN_ORDER_H

#include "table/table.h"

#define WR_BAN_ORDER_BYTES 480u /* maximum length of an order */

/* Appends an order. Returns false if it is longer than WR_BAN_ORDER_BYTES, or if the table has no
 * ring. */
bool wr_ban_order_append(struct weir_table *table, const void *bytes, size_t len);

/* The number of the next order that will be appended. */
uint64_t wr_ban_order_end(const struct weir_table *table);

/* Copies order number *at and raises *at. If the ring has overwritten the order, *at first becomes
 * the number of the oldest order, and the skipped orders are added to *lost. Returns the order's
 * length, or 0 if there is no such order yet. An order that is only half written is not there yet:
 * its writer will finish it, or was killed. After WR_BAN_ORDER_PATIENCE calls that found the same
 * order half written, it is skipped and added to *lost, so that a killed writer does not stop the
 * orders behind it. If *at is after the end of the ring, as after a resize, it becomes the end. */
#define WR_BAN_ORDER_PATIENCE 20u
size_t wr_ban_order_read(const struct weir_table *table, uint64_t *at, uint64_t *lost,
			 uint8_t bytes[WR_BAN_ORDER_BYTES]);

/* Copies the orders that were not published yet, with their numbers, to a table that is not used
 * yet (resize, checkpoint, restore). Orders that are half written are left out. */
void wr_ban_orders_import(struct weir_table *to, const struct weir_table *from);

/* Appends the orders of `from` with the number `at` and higher to `to`, after a resize. `at` is the
 * end of `to` after wr_ban_orders_import(). */
void wr_ban_orders_hand_over(struct weir_table *to, const struct weir_table *from, uint64_t at);

/* The number of orders that the ring keeps. */
uint64_t wr_ban_orders_room(const struct weir_table *table);

/* The number of the first order that the service has not published yet. It is in the table, so that
 * a restarted service continues there. Setting it to a lower number has no effect. */
uint64_t wr_ban_orders_published(const struct weir_table *table);
void wr_ban_orders_set_published(struct weir_table *table, uint64_t at);

/* The position of the service in the fleet's stream of control messages (central/control.c). */
struct wr_ban_place {
	uint64_t fleet;   /* identifies the Redis and the names of its keys */
	uint64_t ms, seq; /* id of the latest message that was carried out */
};

/* The place is in the table, because a table that survives a restart contains the effects of the
 * messages that were read. Only the service writes it. If the service is killed during a write, the
 * place is of no fleet. */
struct wr_ban_place wr_ban_place_read(const struct weir_table *table);
void wr_ban_place_write(struct weir_table *table, struct wr_ban_place place);

#endif
