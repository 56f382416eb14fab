/* Which table and engine a loop works on, and which its requests began with.
 *
 * A world is a table with its engine. When the table has been resized there is a new world;
 * requests end in the one they began in. Each loop holds a world it uses (its seat there) and
 * counts its own requests, so that no word is shared on the way of a request. */
#ifndef WR_SERVE_CORE_H
#define WR_SERVE_CORE_H

#include <stddef.h>

#include <weir/engine.h>
#include <weir/weir.h>

struct wr_world {
	struct weir_table *table;
	struct weir_engine *engine;
	unsigned refs;
};

/* Owns both from here on; held once. NULL: no memory. */
struct wr_world *wr_world_make(struct weir_table *table, struct weir_engine *engine);
void wr_world_hold(struct wr_world *world);
void wr_world_release(struct wr_world *world); /* the last one frees table and engine */

struct wr_seat {
	struct wr_world *world;
	size_t asks; /* requests under way */
};

struct wr_seats {
	struct wr_seat *current;
};

/* Takes over the caller's hold on the world. Below 0: no memory, and the hold is released. */
int wr_seats_move(struct wr_seats *seats, struct wr_world *world);

struct wr_seat *wr_seat_enter(struct wr_seats *seats);
void wr_seat_leave(struct wr_seats *seats, struct wr_seat *seat);

/* No request is under way any more. */
void wr_seats_free(struct wr_seats *seats);

#endif
