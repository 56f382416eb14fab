/* weir_ask_decide and weir_ask_cancel: takes units for the needs of an ask in a fixed order, and
 * gives them back after a refusal.
 *
 *   1. Look at the enforced limits in the table. If one refuses, the request is refused at once.
 *   2. Spend units of leases. Ask the central store, in one question, about all other limits that
 *      it decides.
 *   3. Take from the enforced limits in the table, then from quotas, then from limits that are only
 *      counted. Then give back the units of needs with negative costs.
 *
 * If any step refuses, the units that were taken in earlier steps are given back. */
#include "limiter/defer.h"
#include "limiter/lease.h"
#include "limiter/settle.h"
#include "limiter/share.h"

struct need_list {
	struct wr_need *needs[WEIR_NEEDS_MAX];
	size_t count;
};

/* Lists the needs of a class that are decided in the table, one need per counter. If `descriptor`
 * is not -1, lists only the needs of this descriptor. */
static void list_needs(struct weir_ask *ask, enum wr_ask_need_class class, int descriptor,
		       struct need_list *list)
{
	list->count = 0;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->class == class && need->decided_by == WR_NEED_TABLE &&
		    need->same_as == i && need->need.cost >= 0 &&
		    (descriptor < 0 || need->descriptor == descriptor))
			wr_needs_add(list->needs, &list->count, &need->need);
	}
}

static void mark_taken(const struct need_list *list, bool taken)
{
	for (size_t i = 0; i < list->count; i++)
		((struct wr_ask_need *)list->needs[i])->taken = taken;
}

/* Returns whether a quota of the descriptor refuses. Sets *has_quota if the descriptor has a quota.
 */
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

/* Returns whether the quotas refuse the request. They do if there are quotas, and if each
 * descriptor with quotas has a quota that refuses. */
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

		if (need->class == WR_ENFORCED && need->decided_by != WR_NEED_TABLE &&
		    need->same_as == i && need->need.cost >= 0 && !need->need.decision.admitted)
			return false;
	}
	return true;
}

/* Called for a refused request. Computes the decisions on the needs of a class without taking
 * units, because the status of the request shows these decisions. Then wr_needs_refuse stores the
 * refusal in the table: limits with `count_rejected` count it. A delivery skips this step. */
static void look_and_refuse(struct weir_ask *ask, enum wr_ask_need_class class)
{
	struct weir_table *table = ask->engine->table;
	struct need_list list;

	list_needs(ask, class, -1, &list);
	wr_needs_look(table, list.needs, list.count, ask->now_ns);
	if (!ask->is_delivery) /* a deferred request was counted when it was deferred */
		wr_needs_refuse(table, list.needs, list.count, ask->now_ns);
}

/* Computes the decisions of needs with negative costs for a refused request. Nothing is given back.
 * These needs did not refuse the request, so they count as admitted. */
static void look_at_returns(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_need *need = &ask->needs[i].need;

		if (need->cost >= 0)
			continue;
		if (ask->needs[i].decided_by == WR_NEED_TABLE)
			wr_store_decide(ask->engine->table, need->limit, need->key, 0, ask->now_ns,
					WR_LOOK, &need->decision);
		need->decision.admitted = 1;
	}
}

static int finish_refusal(struct weir_ask *ask)
{
	look_at_returns(ask);
	wr_ask_unspend(ask);
	wr_ask_return_to_central(ask);
	return wr_ask_set_verdict(ask, false);
}

static int refuse_all(struct weir_ask *ask)
{
	look_and_refuse(ask, WR_ENFORCED);
	look_and_refuse(ask, WR_QUOTA_CLASS);
	look_and_refuse(ask, WR_COUNTED);
	return finish_refusal(ask);
}

/* Takes units from the quotas. Each descriptor takes from all of its quotas or from none. */
static void take_quotas(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		struct need_list list;

		list_needs(ask, WR_QUOTA_CLASS, i, &list);
		if (list.count)
			mark_taken(&list, wr_needs_take(ask->engine->table, list.needs, list.count,
							ask->now_ns));
	}
}

/* Takes units from the limits that are only counted, from each independently of the others. */
static void take_counted(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct wr_need *one = &need->need;

		if (need->class == WR_COUNTED && need->decided_by == WR_NEED_TABLE &&
		    one->cost >= 0)
			need->taken = wr_needs_take(ask->engine->table, &one, 1, ask->now_ns);
	}
}

/* Gives back units of a need with a negative cost to its counter in the table, and fills
 * *decision. */
static void give_back_in_table(struct weir_ask *ask, struct wr_need *need,
			       struct weir_decision *decision)
{
	struct weir_table *table = ask->engine->table;

	if (ask->taken_ns == WEIR_TAKEN_UNKNOWN) {
		wr_store_take(table, need->limit, need->key, need->cost, ask->now_ns, decision);
		return;
	}
	need->cost = -(int64_t)wr_store_return_at(table, need->limit, need->key, -need->cost,
						  ask->taken_ns, ask->now_ns);
	wr_store_decide(table, need->limit, need->key, 0, ask->now_ns, WR_LOOK, decision);
}

/* Gives back the units of needs with negative costs. If the central store counts the limit, the
 * units are also given back to this node's own counter in the table (share.c). */
static void give_back_units(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct wr_need *one = &need->need, booked = *one;

		if (one->cost >= 0)
			continue;
		if (need->decided_by == WR_NEED_TABLE)
			give_back_in_table(ask, one, &one->decision);
		if (need->decided_by == WR_NEED_CENTRAL)
			give_back_in_table(ask, &booked, &booked.decision);
		if (need->decided_by == WR_NEED_CENTRAL && !ask->no_secret)
			need->message = WR_MESSAGE_RETURN;
		if (ask->taken_ns != WEIR_TAKEN_UNKNOWN)
			need->decided_us = ask->taken_ns / 1000;
		one->decision.admitted = 1;
		one->decision.retry_after_ns = 0;
	}
}

/* Decides an ask in the common case, in which all limits are enforced and in the table. */
static int decide_in_table(struct weir_ask *ask)
{
	struct need_list list;
	bool admitted;

	list_needs(ask, WR_ENFORCED, -1, &list);
	admitted = wr_needs_take(ask->engine->table, list.needs, list.count, ask->now_ns);
	mark_taken(&list, admitted);
	if (admitted && ask->eventual)
		wr_ask_exchange_note(ask);
	return wr_ask_set_verdict(ask, admitted);
}

int wr_ask_decide_rest(struct weir_ask *ask)
{
	struct weir_table *table = ask->engine->table;
	struct need_list enforced, quotas;

	if (!central_admits(ask))
		return refuse_all(ask);
	list_needs(ask, WR_QUOTA_CLASS, -1, &quotas);
	wr_needs_look(table, quotas.needs, quotas.count, ask->now_ns);
	if (quotas_refuse(ask))
		return refuse_all(ask);
	list_needs(ask, WR_ENFORCED, -1, &enforced);
	if (!wr_needs_take(table, enforced.needs, enforced.count, ask->now_ns)) {
		look_and_refuse(ask, WR_QUOTA_CLASS);
		look_and_refuse(ask, WR_COUNTED);
		return finish_refusal(ask);
	}
	take_quotas(ask);
	if (quotas_refuse(ask)) { /* other requests used the quotas up after wr_needs_look() */
		wr_needs_undo(table, enforced.needs, enforced.count, ask->now_ns);
		look_and_refuse(ask, WR_COUNTED);
		return finish_refusal(ask);
	}
	mark_taken(&enforced, true);
	take_counted(ask);
	give_back_units(ask);
	wr_ask_book(ask);
	if (ask->eventual)
		wr_ask_exchange_note(ask);
	return wr_ask_set_verdict(ask, true);
}

/* Returns whether an enforced limit in the table refuses the request. The central store need not be
 * asked then. */
static bool table_refuses(struct weir_ask *ask)
{
	struct need_list list;

	list_needs(ask, WR_ENFORCED, -1, &list);
	return !wr_needs_look(ask->engine->table, list.needs, list.count, ask->now_ns);
}

static bool asks_central(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (wr_ask_need_is_asked(&ask->needs[i]))
			return true;
	return false;
}

/* Refuses without asking the central store. The status shows the limits of the central store as
 * unused. */
static int refuse_early(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (wr_ask_need_is_asked(need)) {
			need->decided_by = WR_NEED_DECIDED;
			need->need.decision =
				(struct weir_decision){.admitted = 1,
						       .limit = need->need.limit->capacity,
						       .remaining = need->need.limit->capacity};
		}
	}
	return refuse_all(ask);
}

/* Applies bans and grants of this table to needs that the central store decides. If the key of a
 * need is banned, the need is refused without asking the central store. Granted units become part
 * of the question. Returns whether an enforced need is refused. */
static bool bans_refuse(struct weir_ask *ask)
{
	struct weir_table *table = ask->engine->table;
	bool refused = false;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];
		struct wr_override override;

		if (!wr_ask_need_is_asked(need) || need->same_as != i)
			continue;
		override = wr_override_find(table, need->need.key, wr_seconds(ask->now_ns));
		need->granted = override.granted;
		if (!override.banned_until_s)
			continue;
		need->decided_by = WR_NEED_DECIDED;
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
		return wr_ask_decide_rest(ask);
	ask->state = WR_ASK_WAITING;
	ask->waited = true;
	if (ask->no_secret)
		return weir_ask_store_failed(ask, ask->now_ns);
	return WEIR_WAIT;
}

static int choose_path(struct weir_ask *ask)
{
	wr_ask_prepare(ask);
	if (ask->eventual)
		wr_ask_exchange_begin(ask);
	if (__builtin_expect(ask->defer_need && wr_limiter_defer_is_behind(ask), 0)) {
		bans_refuse(ask);
		return refuse_early(ask);
	}
	if (__builtin_expect(ask->is_delivery, 0) && table_refuses(ask))
		return refuse_early(ask);
	if (ask->plain)
		return decide_in_table(ask);
	if (ask->leased && wr_ask_spend_quickly(ask))
		return wr_ask_set_verdict(ask, true);
	return asks_central(ask) ? decide_centrally(ask) : wr_ask_decide_rest(ask);
}

int weir_ask_decide(struct weir_ask *ask, uint64_t now_ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	if (ask->gives_back && ask->taken_ns == 0)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	ask->now_ns = now_ns;
	ask->state = WR_ASK_DECIDED;
	if (ask->allowed || ask->denied || ask->unreadable || ask->crowded) {
		/* The verdict does not depend on counters: an exempt request (`allowed`) is
		 * admitted, any other request is refused. */
		ask->need_count = 0;
		for (uint8_t i = 0; i < ask->descriptor_count; i++)
			ask->descriptors[i] = (struct wr_ask_descriptor){
				.outcome = WR_NO_RULE, .crowded = ask->descriptors[i].crowded};
		return wr_ask_set_verdict(ask, ask->allowed);
	}
	return choose_path(ask);
}

/* Notes that a need was given `returned` units back. */
static void note_cancelled(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t returned,
			   uint64_t now_ns)
{
	if (!wr_ask_need_is_slot(need) && returned > ask->returned)
		ask->returned = returned;
	wr_ask_count_cancelled(ask, need, returned, now_ns);
}

/* Gives back the units that a need took in the table. Units that were reported to the central store
 * stay charged there, so they do not count as given back. */
static void cancel_in_table(struct weir_ask *ask, struct wr_ask_need *need, uint64_t now_ns)
{
	uint64_t returned = wr_need_return(ask->engine->table, &need->need, now_ns);

	wr_ask_need_exchange_undo(ask, need, returned);
	note_cancelled(ask, need, wr_ask_need_is_reported(ask, need) ? 0 : returned, now_ns);
}

int weir_ask_cancel(struct weir_ask *ask, uint64_t now_ns)
{
	if (!wr_ask_ok(ask) || ask->state == WR_ASK_OPEN || ask->cancelled || ask->settled)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	ask->cancelled = true;
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].taken && ask->needs[i].decided_by != WR_NEED_TABLE)
			note_cancelled(ask, &ask->needs[i], (uint64_t)ask->needs[i].need.cost,
				       now_ns);
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->decided_by != WR_NEED_TABLE)
			continue;
		if (need->taken)
			cancel_in_table(ask, need, now_ns);
		need->taken = false;
	}
	wr_ask_unbook(ask, now_ns); /* also drops reports, which cancel_in_table() looks at */
	wr_ask_unspend(ask);
	wr_ask_return_to_central(ask);
	return 0;
}
