/* Splits a header field that is a list of items with parameters:
 *
 *   "a";q=100;w=60, "b";q=9      100, 10;w=1;name="ip"      limit=100, remaining=50
 *
 * Reads structured fields (RFC 9651), and the fields of servers that are similar to them. Does not
 * check what is not needed to find the pieces. */
#ifndef WR_CLIENT_ITEMS_H
#define WR_CLIENT_ITEMS_H

#include <stdbool.h>

#include <weir/rules.h>

struct wr_items {
	const char *at, *end;
};

/* A piece of the field: an item of the list, or a parameter of the latest item. */
struct wr_items_piece {
	bool item;             /* an item; otherwise a parameter */
	bool quoted;           /* `value` was in quotes; it is without the quotes */
	struct weir_str key;   /* "w" of w=60; empty if there is no '=' */
	struct weir_str value; /* "60"; of a piece without '=': the whole piece */
};

/* Returns the pieces of `text` one after the other, and false at its end. A text in quotes without
 * an end ends the list. */
bool wr_items_next(struct wr_items *items, struct wr_items_piece *piece);

static inline struct wr_items wr_items_of(struct weir_str text)
{
	return (struct wr_items){text.ptr, text.len ? text.ptr + text.len : text.ptr};
}

#endif
