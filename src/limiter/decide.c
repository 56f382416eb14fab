/* The decision: which needs take, in which order, and what is undone when one refuses.
 *
 *   1. enforced limits in the table are looked at; a refusal ends it before anyone else is asked
 *   2. what was leased from the central store is spent; it is asked for its other limits at once
 *   3. enforced limits in the table are taken, then quotas, then what is only counted, then what
 *      is given back
 *
 * A refusal at any point returns what was taken before it. */
#include "limiter/defer.h"
#include "limiter/exchange.h"
#include "limiter/lease.h"
#include "limiter/share.h"

struct list {
	struct wr_need *needs[WEIR_NEEDS_MAX];
	size_t count;
};

/* The needs of a class that the table decides; those that only take for another one are left out.
 * `descriptor` below 0: of all. */
static void list_of(struct weir_ask *ask, enum wr_class class, int descriptor, struct list *list)
{
	list->count = 0;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->class == class && need->part == WR_HERE && need->same_as == i &&
		    need->need.cost >= 0 && (descriptor < 0 || need->descriptor == descriptor))
			wr_needs_add(list->needs, &list->count, &need->need);
	}
}

static void mark_taken(const struct list *list, bool taken)
{
	for (size_t i = 0; i < list->count; i++)
		((struct wr_ask_need *)list->needs[i])->taken = taken;
}

/* A descriptor in quota mode is over when one of its limits is. */
static bool quota_over(const struct weir_ask *ask, const struct wr_ask_descriptor *descriptor,
		       bool *has_quota)
{
	bool over = false;

	for (uint8_t i = 0; i < descriptor->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[descriptor->first_need + i];

		if (need->class != WR_QUOTA_CLASS || need->replaced)
			continue;
		*has_quota = true;
		over |= !need->need.decision.admitted;
	}
	return over;
}

/* Whether quotas refuse: there are some, and all are over. */
static bool quotas_refuse(const struct weir_ask *ask)
{
	bool any = false, all_over = true;

	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		bool has_quota = false;
		bool over = quota_over(ask, &ask->descriptors[i], &has_quota);

		any |= has_quota;
		all_over &= over || !has_quota;
	}
	return any && all_over;
}

static bool central_admits(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->class == WR_ENFORCED && need->part != WR_HERE && need->same_as == i &&
		    need->need.cost >= 0 && !need->need.decision.admitted)
			return false;
	}
	return true;
}

/* Looks at what a refused request does not take, so that its statuses say something, and lets those
 * that count rejected requests count it. */
static void look_and_refuse(struct weir_ask *ask, enum wr_class class)
{
	struct weir_table *table = ask->engine->table;
	struct list list;

	list_of(ask, class, -1, &list);
	wr_needs_look(table, list.needs, list.count, ask->now_ns);
	if (!ask->drains) /* its first refusal counted */
		wr_needs_refuse(table, list.needs, list.count, ask->now_ns);
}

/* What a refused request wanted to give back stays where it is; giving back is never refused. */
static void look_at_returns(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_need *need = &ask->needs[i].need;

		if (need->cost >= 0)
			continue;
		if (ask->needs[i].part == WR_HERE)
			wr_store_decide(ask->engine->table, need->limit, need->key, 0, ask->now_ns,
					WR_LOOK, &need->decision);
		need->decision.admitted = 1;
	}
}

static int refuse(struct weir_ask *ask)
{
	look_at_returns(ask);
	wr_ask_unspend(ask);
	wr_ask_return_central(ask);
	return wr_ask_conclude(ask, false);
}

static int refuse_all(struct weir_ask *ask)
{
	look_and_refuse(ask, WR_ENFORCED);
	look_and_refuse(ask, WR_QUOTA_CLASS);
	look_and_refuse(ask, WR_COUNTED);
	return refuse(ask);
}

static void look_at_quotas(struct weir_ask *ask)
{
	struct list list;

	list_of(ask, WR_QUOTA_CLASS, -1, &list);
	wr_needs_look(ask->engine->table, list.needs, list.count, ask->now_ns);
}

/* Each descriptor for itself: from all of its limits or from none. */
static void take_quotas(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		struct list list;

		list_of(ask, WR_QUOTA_CLASS, i, &list);
		if (list.count)
			mark_taken(&list, wr_needs_take(ask->engine->table, list.needs, list.count,
							ask->now_ns));
	}
}

/* What is only counted counts as if it were alone. */
static void take_counted(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct wr_need *one = &need->need;

		if (need->class == WR_COUNTED && need->part == WR_HERE && one->cost >= 0)
			need->taken = wr_needs_take(ask->engine->table, &one, 1, ask->now_ns);
	}
}

/* What the store keeps is booked in the table too. */
static void give_back(struct weir_ask *ask)
{
	struct weir_table *table = ask->engine->table;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct wr_need *one = &need->need;
		struct weir_decision booked;

		if (one->cost >= 0)
			continue;
		if (need->part == WR_HERE)
			wr_store_take(table, one->limit, one->key, one->cost, ask->now_ns,
				      &one->decision);
		if (need->part == WR_THERE)
			wr_store_take(table, one->limit, one->key, one->cost, ask->now_ns, &booked);
		if (need->part == WR_THERE && !ask->strayed)
			need->tell = WR_TELL_RETURN;
		one->decision.admitted = 1;
	}
}

/* The way of most requests: limits in the table, all of them enforced. */
static int settle_plain(struct weir_ask *ask)
{
	struct list list;
	bool admitted;

	list_of(ask, WR_ENFORCED, -1, &list);
	admitted = wr_needs_take(ask->engine->table, list.needs, list.count, ask->now_ns);
	mark_taken(&list, admitted);
	if (admitted && ask->eventual)
		wr_ask_exchange_note(ask);
	return wr_ask_conclude(ask, admitted);
}

int wr_ask_settle(struct weir_ask *ask)
{
	struct weir_table *table = ask->engine->table;
	struct list enforced;

	if (!central_admits(ask))
		return refuse_all(ask);
	look_at_quotas(ask);
	if (quotas_refuse(ask))
		return refuse_all(ask);
	list_of(ask, WR_ENFORCED, -1, &enforced);
	if (!wr_needs_take(table, enforced.needs, enforced.count, ask->now_ns)) {
		look_and_refuse(ask, WR_QUOTA_CLASS);
		look_and_refuse(ask, WR_COUNTED);
		return refuse(ask);
	}
	take_quotas(ask);
	if (quotas_refuse(ask)) { /* others came in between */
		wr_needs_undo(table, enforced.needs, enforced.count, ask->now_ns);
		look_and_refuse(ask, WR_COUNTED);
		return refuse(ask);
	}
	mark_taken(&enforced, true);
	take_counted(ask);
	give_back(ask);
	wr_ask_book(ask);
	if (ask->eventual)
		wr_ask_exchange_note(ask);
	return wr_ask_conclude(ask, true);
}

/* The store need not be asked for what the table refuses. */
static bool table_refuses(struct weir_ask *ask)
{
	struct list list;

	list_of(ask, WR_ENFORCED, -1, &list);
	return !wr_needs_look(ask->engine->table, list.needs, list.count, ask->now_ns);
}

static bool asks_central(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (wr_ask_is_asked(&ask->needs[i]))
			return true;
	return false;
}

/* Refused without asking the store: its limits have nothing to say. */
static int refuse_early(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (wr_ask_is_asked(need)) {
			need->part = WR_NOWHERE;
			need->need.decision =
				(struct weir_decision){.admitted = 1,
						       .limit = need->need.limit->capacity,
						       .remaining = need->need.limit->capacity};
		}
	}
	return refuse_all(ask);
}

/* A ban in this table holds for limits of the central store too, which is not asked then; of a
 * grant the store is told. True: one that is enforced is banned. */
static bool bans_refuse(struct weir_ask *ask)
{
	struct weir_table *table = ask->engine->table;
	bool refused = false;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct wr_override override;

		if (!wr_ask_is_asked(need) || need->same_as != i)
			continue;
		override = wr_override_find(table, need->need.key, wr_seconds(ask->now_ns));
		need->granted = override.granted;
		if (!override.banned_until_s)
			continue;
		need->part = WR_NOWHERE;
		wr_store_refuse_banned(need->need.limit, &override, ask->now_ns,
				       &need->need.decision);
		refused |= need->class == WR_ENFORCED;
	}
	return refused;
}

static int decide_centrally(struct weir_ask *ask)
{
	if (bans_refuse(ask) || table_refuses(ask) || wr_ask_spend(ask))
		return refuse_early(ask);
	if (!asks_central(ask))
		return wr_ask_settle(ask);
	ask->state = WR_ASK_WAITING;
	ask->waited = true;
	if (ask->strayed)
		return weir_ask_store_failed(ask, ask->now_ns);
	return WEIR_WAIT;
}

static int decide(struct weir_ask *ask)
{
	wr_ask_arrange(ask);
	if (ask->eventual)
		wr_ask_exchange_begin(ask);
	if (__builtin_expect(ask->deferring && wr_defer_is_behind(ask), 0)) {
		bans_refuse(ask);
		return refuse_early(ask);
	}
	if (__builtin_expect(ask->drains, 0) && table_refuses(ask))
		return refuse_early(ask);
	if (ask->plain)
		return settle_plain(ask);
	if (ask->leased && wr_ask_spend_quickly(ask))
		return wr_ask_conclude(ask, true);
	return asks_central(ask) ? decide_centrally(ask) : wr_ask_settle(ask);
}

/* Limits have no say. */
static void forget_needs(struct weir_ask *ask)
{
	ask->need_count = 0;
	for (uint8_t i = 0; i < ask->descriptor_count; i++)
		ask->descriptors[i] = (struct wr_ask_descriptor){
			.outcome = WR_NO_RULE, .crowded = ask->descriptors[i].crowded};
}

int weir_ask_decide(struct weir_ask *ask, uint64_t now_ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	ask->now_ns = now_ns;
	ask->state = WR_ASK_DECIDED;
	if (ask->allowed || ask->denied || ask->unreadable || ask->crowded) {
		forget_needs(ask);
		return wr_ask_conclude(ask, ask->allowed);
	}
	return decide(ask);
}

int weir_ask_cancel(struct weir_ask *ask, uint64_t now_ns)
{
	if (!wr_ask_ok(ask) || ask->state == WR_ASK_OPEN || ask->cancelled)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	ask->cancelled = true;
	wr_ask_unbook(ask, now_ns);
	wr_ask_unspend(ask);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_need *need = &ask->needs[i].need;

		if (ask->needs[i].taken && ask->needs[i].part == WR_HERE)
			wr_ask_exchange_undo(ask, &ask->needs[i],
					     wr_need_return(ask->engine->table, need, now_ns));
		if (ask->needs[i].part == WR_HERE)
			ask->needs[i].taken = false;
	}
	wr_ask_return_central(ask);
	return 0;
}
