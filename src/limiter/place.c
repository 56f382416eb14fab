/* Places in the queues of leaky buckets. */
#include "limiter/ask.h"

static bool waits(const struct weir_ask *ask)
{
	return wr_ask_ok(ask) && ask->verdict == WEIR_DELAY && !ask->cancelled;
}

/* Who else waits in the same queue, at this node, can be told by the key alone. It is the first
 * member of a struct wr_ask_need that is called a place here. */
static bool is_place(const struct weir_ask *ask, uint8_t i)
{
	const struct wr_ask_need *need = &ask->needs[i];

	return need->class != WR_COUNTED && need->same_as == i && need->taken &&
	       need->need.limit->algorithm == WEIR_LEAKY_BUCKET;
}

/* The place that lets the request go last, or NULL. */
static const struct wr_need *last_place(const struct weir_ask *ask)
{
	const struct wr_need *last = NULL;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_need *need = &ask->needs[i].need;

		if (is_place(ask, i) &&
		    (!last || need->decision.delay_ns > last->decision.delay_ns))
			last = need;
	}
	return last;
}

static struct wr_need *place_in(struct weir_ask *ask, const struct wr_need *like)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_place(ask, i) && ask->needs[i].need.key.tag == like->key.tag)
			return &ask->needs[i].need;
	return NULL;
}

int weir_ask_queue_position(const struct weir_ask *ask, struct weir_queue_position *place)
{
	const struct wr_need *last;

	if (!waits(ask) || !place || place->size != sizeof *place)
		return WEIR_EINVAL;
	last = last_place(ask);
	if (!last)
		return WEIR_EINVAL;
	place->queue = last->key.tag;
	place->due_ns = ask->now_ns + last->decision.delay_ns;
	return 0;
}

/* When a place that the store keeps leaves, by the store's clock. */
static uint64_t leaves_us(const struct wr_need *place)
{
	return ((const struct wr_ask_need *)place)->decided_us + place->decision.delay_ns / 1000;
}

static void go_at(struct weir_ask *ask, struct wr_need *place, uint64_t due_ns, uint64_t leaves_us)
{
	place->decision.delay_ns = due_ns - ask->now_ns;
	place->decision.charged_ns = due_ns;
	((struct wr_ask_need *)place)->decided_us = leaves_us - place->decision.delay_ns / 1000;
	ask->delay_ns = last_place(ask)->decision.delay_ns;
}

int weir_ask_swap_positions(struct weir_ask *leaving, struct weir_ask *staying)
{
	const struct wr_need *from;
	struct wr_need *to, *place;
	uint64_t early_ns, late_ns, early_us, late_us;

	if (!waits(leaving) || !waits(staying) || leaving == staying)
		return WEIR_EINVAL;
	from = last_place(leaving);
	to = from ? place_in(staying, from) : NULL;
	if (!to || to->cost != from->cost)
		return WEIR_EINVAL;
	early_ns = leaving->now_ns + from->decision.delay_ns;
	late_ns = staying->now_ns + to->decision.delay_ns;
	if (early_ns >= late_ns || early_ns < staying->now_ns)
		return WEIR_EINVAL;
	place = place_in(leaving, from);
	early_us = leaves_us(place);
	late_us = leaves_us(to);
	go_at(leaving, place, late_ns, late_us);
	go_at(staying, to, early_ns, early_us);
	return 0;
}
