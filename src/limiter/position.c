/* Positions in the queues of leaky buckets: weir_ask_queue_position and weir_ask_swap_positions.
 * Called by hosts that hold delayed requests. */
#include "limiter/ask.h"

#include "base/versioned.h"

#define POSITION_LEAST (offsetof(struct weir_queue_position, due_ns) + sizeof(uint64_t))

static bool is_delayed(const struct weir_ask *ask)
{
	return wr_ask_ok(ask) && ask->verdict == WEIR_DELAY && !ask->cancelled;
}

/* Returns whether need `i` has a position in the queue of a leaky bucket. Needs with the same key
 * are in the same queue. In the other functions of this file, a pointer to a struct wr_need stands
 * for a position. The struct wr_need is the first member of a struct wr_ask_need, so leaves_us()
 * and move_to() can cast the pointer to struct wr_ask_need. */
static bool has_position(const struct weir_ask *ask, uint8_t i)
{
	const struct wr_ask_need *need = &ask->needs[i];

	return need->class != WR_COUNTED && need->same_as == i && need->taken &&
	       need->need.limit->algorithm == WEIR_LEAKY_BUCKET;
}

/* Returns the position with the longest delay, or NULL. */
static const struct wr_need *last_position(const struct weir_ask *ask)
{
	const struct wr_need *last = NULL;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_need *need = &ask->needs[i].need;

		if (has_position(ask, i) &&
		    (!last || need->decision.delay_ns > last->decision.delay_ns))
			last = need;
	}
	return last;
}

static struct wr_need *find_position(struct weir_ask *ask, const struct wr_need *like)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (has_position(ask, i) && ask->needs[i].need.key.tag == like->key.tag)
			return &ask->needs[i].need;
	return NULL;
}

int weir_ask_queue_position(const struct weir_ask *ask, struct weir_queue_position *position)
{
	struct weir_queue_position known, *out;
	const struct wr_need *last;

	if (!is_delayed(ask) || !position)
		return WEIR_EINVAL;
	out = wr_versioned_target(position, &known, sizeof known, POSITION_LEAST);
	last = last_position(ask);
	if (!out || !last)
		return WEIR_EINVAL;
	*out = (struct weir_queue_position){
		.size = sizeof *out,
		.queue = last->key.tag,
		.due_ns = ask->now_ns + last->decision.delay_ns,
	};
	wr_versioned_write(position, out, sizeof known);
	return 0;
}

/* Returns the time at which the request in this position leaves its queue in the central store, by
 * the clock of the central store. */
static uint64_t leaves_us(const struct wr_need *position)
{
	return ((const struct wr_ask_need *)position)->decided_us +
	       position->decision.delay_ns / 1000;
}

static void move_to(struct weir_ask *ask, struct wr_need *position, uint64_t due_ns,
		    uint64_t leaves_us)
{
	position->decision.delay_ns = due_ns - ask->now_ns;
	position->decision.charged_ns = due_ns;
	((struct wr_ask_need *)position)->decided_us =
		leaves_us - position->decision.delay_ns / 1000;
	ask->delay_ns = last_position(ask)->decision.delay_ns;
}

int weir_ask_swap_positions(struct weir_ask *leaving, struct weir_ask *staying)
{
	const struct wr_need *from;
	struct wr_need *to, *position;
	uint64_t early_ns, late_ns, early_us, late_us;

	if (!is_delayed(leaving) || !is_delayed(staying) || leaving == staying)
		return WEIR_EINVAL;
	from = last_position(leaving);
	to = from ? find_position(staying, from) : NULL;
	if (!to || to->cost != from->cost)
		return WEIR_EINVAL;
	early_ns = leaving->now_ns + from->decision.delay_ns;
	late_ns = staying->now_ns + to->decision.delay_ns;
	if (early_ns >= late_ns || early_ns < staying->now_ns)
		return WEIR_EINVAL;
	position = find_position(leaving, from);
	early_us = leaves_us(position);
	late_us = leaves_us(to);
	move_to(leaving, position, late_ns, late_us);
	move_to(staying, to, early_ns, early_us);
	return 0;
}
