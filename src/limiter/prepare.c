/* Prepares the needs of an ask for the decision: applies pauses and `replaces`, sets calendar
 * windows, and merges needs that name the same counter. Called by weir_ask_decide. */
#include "limiter/ask.h"

#include "rules/calendar.h"
#include "store/returned.h"
#include "table/pause.h"

/* Marks the needs of paused rules, so that their limits are counted but not enforced. */
static void apply_pauses(struct weir_ask *ask, unsigned pausing)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (!wr_ask_need_is_paused(ask, need, pausing))
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
			need->decided_by = WR_NEED_DECIDED;
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

/* Calendar windows depend on the time, so they are set in a copy of the limit. The copy already
 * exists if the function is called again after an answer of the central store. */
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

/* Merges two needs on the same counter, so that the first need takes both costs. The limits of the
 * needs may differ, because an override may have the same counter as a rule. Then the smaller limit
 * applies. */
static void merge_need(struct wr_ask_need *first, struct wr_ask_need *again)
{
	if (wr_ask_need_is_slot(first))
		first->need.cost |= again->need.cost; /* a request takes one slot */
	else if (__builtin_add_overflow(first->need.cost, again->need.cost, &first->need.cost))
		first->need.cost = INT64_MAX;
	if (again->need.limit->capacity < first->need.limit->capacity)
		first->need.limit = again->need.limit;
}

static void merge_same_counters(struct weir_ask *ask)
{
	for (uint8_t i = 1; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->class != WR_ENFORCED || need->decided_by == WR_NEED_DECIDED ||
		    need->need.cost < 0)
			continue;
		for (uint8_t j = 0; j < i; j++) {
			struct wr_ask_need *first = &ask->needs[j];

			if (first->class == WR_ENFORCED && first->same_as == j &&
			    first->need.cost >= 0 && first->decided_by == need->decided_by &&
			    first->need.key.tag == need->need.key.tag) {
				merge_need(first, need);
				need->same_as = j;
				break;
			}
		}
	}
}

/* Notes, before units are taken, how many tokens were given back to the buckets of the ask. */
static void read_given(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->need.limit->algorithm == WEIR_TOKEN_BUCKET &&
		    need->decided_by == WR_NEED_TABLE)
			need->given = wr_returned_read(ask->engine->table, need->need.key);
	}
}

void wr_ask_prepare(struct weir_ask *ask)
{
	unsigned pausing = wr_pause_state(ask->engine->table);

	if (__builtin_expect(pausing != 0, 0))
		apply_pauses(ask, pausing);
	if (ask->has_replaces) {
		ask->plain = ask->leased = false;
		drop_replaced(ask);
	}
	if (ask->has_calendar)
		wr_ask_open_windows(ask);
	merge_same_counters(ask);
	if (__builtin_expect(ask->settles, 0))
		read_given(ask);
}
