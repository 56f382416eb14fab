/* Late takes: takes that Redis executed after their asks had timed out. Called by take.c and
 * report.c.
 *
 * After the timeout, on_store_failure of the rule decides. If it admits the request, the node sends
 * a report, and Redis would count the request twice: in the late take and in the report. So the
 * late take is deducted from a report of the same counter and window. If on_store_failure refuses
 * the request, no report comes, and the units of the late take would be lost. So they are given
 * back if no report comes within 200 ms. Slots of concurrent limits are never reported, so they are
 * given back at once. If that fails, they are given back again, until max_hold has passed.
 *
 *   20 ms  an ask for 1 unit times out; the node admits the request from its share of the limit;
 *          a report of 1 unit waits to be sent
 *   30 ms  Redis replies that it took the unit. The report is dropped: the unit is counted once */
#include <string.h>

#include "central/inner.h"

#include "base/assert.h"

/* How long a late take waits for a matching report. The report can come from another process of the
 * node, so it can come after the late take. */
#define REPORT_WAIT_NS (200 * WR_MS_NS)
#define LATE_MAX 16384u

static struct wr_central_part **late_list(struct wr_central *central, const uint64_t key[2])
{
	return &central->late.lists[key[0] % WR_REPORT_LISTS];
}

static void check_at(struct wr_central *central, uint64_t mono_ns)
{
	if (mono_ns < central->late.check_at_ns)
		central->late.check_at_ns = mono_ns;
	wr_central_wake_at(central, central->late.check_at_ns);
}

/* The time of a report is by this node's clock, and the time of a late take is by the clock of
 * Redis. So shard->clock_us is added to the time of the report. */
bool wr_central_late_matches(struct wr_central *central, const struct wr_central_part *late,
			     const struct wr_call *call, const struct wr_central_part *part)
{
	const struct wr_central_shard *shard = wr_central_key_shard(central, late->key);
	const struct wr_take *take = &part->take;

	wr_assert_magic(call, WR_CALL_MAGIC);
	if (!wr_central_same_key(late->key, call->key) || late->leased != call->leased ||
	    !wr_central_same_id(late, part) || late->take.cost > take->cost || !shard)
		return false;
	if (take->window_end_us)
		return late->taken_us >= take->window_start_us &&
		       late->taken_us < take->window_end_us;
	return late->taken_us / take->period_us ==
	       (take->decided_us + (uint64_t)shard->clock_us) / take->period_us;
}

/* Removes the part from its list, and returns it. */
static struct wr_central_part *unlink_late(struct wr_central *central, struct wr_central_part **at)
{
	struct wr_central_part *part = *at;

	*at = part->next;
	part->next = NULL;
	central->late.count--;
	return part;
}

/* Gives the units back. A limit with count_rejected keeps the units, because it counts refused
 * requests. */
static void settle_late(struct wr_central *central, struct wr_central_part *part)
{
	if (part->take.flags & WEIR_COUNT_REJECTED)
		wr_central_part_free(central, part);
	else
		wr_central_give_back(central, part);
}

static void link_late(struct wr_central *central, struct wr_central_part *part, uint64_t at_ns)
{
	struct wr_central_part **list = late_list(central, part->key);

	part->give_back_ns = at_ns;
	part->next = *list;
	*list = part;
	central->late.count++;
	check_at(central, at_ns);
}

bool wr_central_late_keep(struct wr_central *central, struct wr_central_part *part)
{
	wr_assert(!part->ask);
	if (central->late.count == LATE_MAX)
		return false;
	link_late(central, part, central->mono_ns + REPORT_WAIT_NS);
	return true;
}

void wr_central_late_add(struct wr_central *central, struct wr_central_part *part)
{
	bool slot = part->take.algorithm == WEIR_CONCURRENT;

	wr_assert(!part->ask && central->late.count <= LATE_MAX);
	if (wr_central_reports_deduct(central, part)) {
		wr_central_part_free(central, part);
		return;
	}
	if (central->late.count == LATE_MAX) {
		settle_late(central, part);
		return;
	}
	link_late(central, part, central->mono_ns + (slot ? 0 : REPORT_WAIT_NS));
}

void wr_central_late_deduct(struct wr_central *central, const struct wr_call *call,
			    struct wr_central_part *part)
{
	struct wr_central_part **at = late_list(central, call->key);

	wr_assert_magic(call, WR_CALL_MAGIC);
	while (*at && part->take.cost > 0) {
		if (!wr_central_late_matches(central, *at, call, part)) {
			at = &(*at)->next;
			continue;
		}
		part->take.cost -= (*at)->take.cost;
		wr_central_part_free(central, unlink_late(central, at));
	}
}

void wr_central_late_forget(struct wr_central *central, const uint64_t key[2])
{
	struct wr_central_part **at = late_list(central, key);

	while (*at)
		if (wr_central_same_key((*at)->key, key))
			wr_central_part_free(central, unlink_late(central, at));
		else
			at = &(*at)->next;
}

/* Checks a late take that matched no report so far. Before give_back_ns, leaves it in its list.
 * Afterwards, if its units can no longer influence a decision, drops the take. Otherwise gives the
 * units back, as soon as the shard is up. Returns true if the take was removed from its list. */
static bool check_late(struct wr_central *central, struct wr_central_part **at)
{
	const struct wr_central_part *part = *at;
	const struct wr_central_shard *shard = wr_central_key_shard(central, part->key);
	struct wr_take since = part->take;
	bool slot = part->take.algorithm == WEIR_CONCURRENT;

	if (central->mono_ns < part->give_back_ns) {
		check_at(central, part->give_back_ns);
		return false;
	}
	since.decided_us = central->now_ns / 1000 - (central->mono_ns - part->give_back_ns) / 1000;
	if (slot)
		since.decided_us = part->taken_us;
	if (wr_central_report_is_stale(central, &since)) {
		wr_central_part_free(central, unlink_late(central, at));
		return true;
	}
	/* A give-back of units that fails is not sent again. So it is sent only while the breaker
	 * is closed, and not as one of the trial calls of a half-open breaker. */
	if (!shard || !(slot ? wr_central_shard_answers(shard) : wr_central_shard_is_up(shard))) {
		check_at(central, central->mono_ns + REPORT_WAIT_NS);
		return false;
	}
	settle_late(central, unlink_late(central, at));
	return true;
}

void wr_central_late_tick(struct wr_central *central)
{
	if (central->late.count == 0)
		return;
	if (central->mono_ns < central->late.check_at_ns) {
		wr_central_wake_at(central, central->late.check_at_ns);
		return;
	}
	central->late.check_at_ns = UINT64_MAX;
	for (size_t i = 0; i < WR_REPORT_LISTS; i++)
		for (struct wr_central_part **at = &central->late.lists[i]; *at;)
			if (!check_late(central, at))
				at = &(*at)->next;
}

void wr_central_late_free(struct wr_central *central)
{
	for (size_t i = 0; i < WR_REPORT_LISTS; i++)
		while (central->late.lists[i])
			wr_central_part_free(central,
					     unlink_late(central, &central->late.lists[i]));
}
