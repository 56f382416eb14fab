#include "serve/core.h"

#include <assert.h>
#include <stdlib.h>

struct wr_world *wr_world_make(struct weir_table *table, struct weir_engine *engine)
{
	struct wr_world *world = malloc(sizeof *world);

	if (world)
		*world = (struct wr_world){.table = table, .engine = engine, .refs = 1};
	return world;
}

void wr_world_hold(struct wr_world *world)
{
	__atomic_fetch_add(&world->refs, 1, __ATOMIC_RELAXED);
}

/* Acquire and release: who frees it sees what the others did before they let go. */
void wr_world_release(struct wr_world *world)
{
	if (!world || __atomic_sub_fetch(&world->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	weir_engine_free(world->engine);
	weir_close(world->table);
	free(world);
}

static void seat_free(struct wr_seat *seat)
{
	wr_world_release(seat->world);
	free(seat);
}

int wr_seats_move(struct wr_seats *seats, struct wr_world *world)
{
	struct wr_seat *seat = malloc(sizeof *seat);
	struct wr_seat *before = seats->current;

	if (!seat) {
		wr_world_release(world);
		return -1;
	}
	*seat = (struct wr_seat){.world = world};
	seats->current = seat;
	if (before && before->asks == 0)
		seat_free(before);
	return 0;
}

struct wr_seat *wr_seat_enter(struct wr_seats *seats)
{
	seats->current->asks++;
	return seats->current;
}

void wr_seat_leave(struct wr_seats *seats, struct wr_seat *seat)
{
	assert(seat->asks > 0);
	if (--seat->asks == 0 && seat != seats->current)
		seat_free(seat);
}

void wr_seats_free(struct wr_seats *seats)
{
	if (!seats->current)
		return;
	assert(seats->current->asks == 0);
	seat_free(seats->current);
	seats->current = NULL;
}
