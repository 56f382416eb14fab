/* Before the decision: what is paused or replaced, which window it is, which needs are one. */
#include "limiter/ask.h"

#include "rules/calendar.h"
#include "table/pause.h"

/* What is paused counts for itself. */
static void heed_pauses(struct weir_ask *ask, unsigned pausing)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (!wr_ask_is_paused(ask, need, pausing))
			continue;
		need->paused = true;
		need->class = WR_COUNTED;
		ask->plain = ask->leased = false;
	}
}

static void drop_replaced(struct weir_ask *ask)
{
	struct wr_match matches[WEIR_DESCRIPTORS_MAX];
	size_t count = 0;

	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		const struct wr_node *node = ask->descriptors[i].node;

		if (node && node->limit_count && ask->descriptors[i].certain)
			matches[count++] = (struct wr_match){.node = node,
							     .limits = node->limits,
							     .limit_count = node->limit_count};
	}
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->rule && wr_rules_replaced(matches, count, need->rule->name)) {
			need->replaced = true;
			need->part = WR_NOWHERE;
			need->need.decision.admitted = 1;
		}
	}
	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		struct wr_ask_descriptor *descriptor = &ask->descriptors[i];

		if (descriptor->node && descriptor->outcome == WR_UNLIMITED)
			descriptor->replaced =
				wr_rules_replaced(matches, count, descriptor->node->limits[0].name);
	}
}

/* Windows of calendars depend on the time: they go into a copy of the limit, which is there already
 * when an answer comes back. */
void wr_ask_open_windows(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct weir_limit *own;

		if (!need->rule || !need->rule->calendar)
			continue;
		if (need->need.limit == &need->rule->limit) {
			need->own = ask->own_count++;
			ask->own[need->own] = need->rule->limit;
			need->need.limit = &ask->own[need->own];
		}
		own = &ask->own[need->own];
		wr_calendar_window(need->rule->zone, need->rule->calendar, ask->now_ns,
				   &own->window_start_ns, &own->window_end_ns);
	}
}

static int64_t sum(int64_t a, int64_t b)
{
	int64_t result;

	return __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

/* The same counter twice is one take of both costs, under the smaller of the limits if they differ:
 * an override may name a rule's counter. */
static void merge_into(struct wr_ask_need *first, struct wr_ask_need *again)
{
	first->need.cost = sum(first->need.cost, again->need.cost);
	if (again->need.limit->capacity < first->need.limit->capacity)
		first->need.limit = again->need.limit;
}

static bool same_counter(const struct wr_ask_need *a, const struct wr_ask_need *b)
{
	return a->need.key.tag == b->need.key.tag && a->part == b->part;
}

static void merge(struct weir_ask *ask)
{
	for (uint8_t i = 1; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->class != WR_ENFORCED || need->part == WR_NOWHERE || need->need.cost < 0)
			continue;
		for (uint8_t j = 0; j < i; j++) {
			struct wr_ask_need *first = &ask->needs[j];

			if (first->class == WR_ENFORCED && first->same_as == j &&
			    first->need.cost >= 0 && same_counter(first, need)) {
				merge_into(first, need);
				need->same_as = j;
				break;
			}
		}
	}
}

void wr_ask_arrange(struct weir_ask *ask)
{
	unsigned pausing = wr_pause_state(ask->engine->table);

	if (__builtin_expect(pausing != 0, 0))
		heed_pauses(ask, pausing);
	if (ask->has_replaces) {
		ask->plain = ask->leased = false;
		drop_replaced(ask);
	}
	if (ask->has_calendar)
		wr_ask_open_windows(ask);
	merge(ask);
}
