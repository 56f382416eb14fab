/* The functions of exchange.h that the owner of the slots calls: they read the counts of this node
 * for Redis, and add the units of other nodes to the cells. Called by central once per turn. */
#include "store/exchange_slot.h"

#include <string.h>

#include "algo/counter.h"
#include "algo/fixed.h"
#include "base/assert.h"

/* An owner that has not renewed its ownership for this long counts as dead. */
#define HELD_NS 2000000000ull
#define SWEPT 64u /* number of slots that one turn checks, to free expired ones */

/* ---- the owner of the slots ---- */

static bool is_owner(const struct wr_store_exchange_section *in, uint64_t owner)
{
	return in->count && owner && wr_slot_load(&in->head->owner.lo) == owner;
}

/* Sets the bits of the slots whose counts the previous owner has not sent to Redis or to all
 * peers. */
static void mark_unfinished(const struct wr_store_exchange_section *in)
{
	for (uint32_t i = 0; i < in->count; i++) {
		const struct wr_store_exchange_slot *slot = &in->slots[i];

		if (wr_slot_load(&slot->pending_mono_ns) || wr_slot_load(&slot->sent_mono_ns))
			wr_slot_mark(in->used, i);
		if (__atomic_load_n(&slot->peers_due, __ATOMIC_ACQUIRE))
			wr_slot_mark(in->owing, i);
	}
}

/* Returns true if the counter of an unused slot has expired. A calendar window has expired when it
 * has ended. Any other counter has expired when two times are at least 2 · span_ns ago: the last
 * use of the slot, and the start of its newest window or fill interval. span_ns is the length of a
 * window or fill interval. */
static bool is_over(const struct wr_store_exchange_slot *slot, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_pair window = wr_pair_load(&slot->window);
	uint64_t span_ns = wr_slot_load(&slot->span_ns);
	uint64_t newest_ns = 0;

	if (window.hi)
		return now_ns >= window.hi;
	if (mono_ns < wr_slot_load(&slot->used_mono_ns) + 2 * span_ns)
		return false;
	for (int i = 0; i < 2; i++) {
		uint64_t own_ns = wr_slot_load(&slot->own[i].lo);
		uint64_t charged_ns = wr_slot_load(&slot->charged[i].lo);

		newest_ns = own_ns > newest_ns ? own_ns : newest_ns;
		newest_ns = charged_ns > newest_ns ? charged_ns : newest_ns;
	}
	return now_ns >= newest_ns + 2 * span_ns;
}

/* Closes an expired slot, so that new requests do not find it. The slot is checked again many turns
 * later, and is then freed. But if a thread that had found the slot before it was closed has
 * counted in it meanwhile, the slot is not freed, and requests find it again (WR_SLOT_LIVE). */
static void sweep_slot(struct wr_store_exchange_slot *slot, uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_pair who = wr_pair_load(&slot->who);
	uint64_t incarnation = who.hi & ~3ull;
	struct wr_pair hidden = {who.lo, incarnation | WR_SLOT_CLOSING};
	struct wr_pair shown = {who.lo, incarnation | WR_SLOT_LIVE};
	struct wr_pair none = {0};
	bool over = !wr_slot_load(&slot->pending_mono_ns) && !wr_slot_load(&slot->sent_mono_ns) &&
		    !__atomic_load_n(&slot->peers_due, __ATOMIC_ACQUIRE) &&
		    is_over(slot, now_ns, mono_ns);

	if (wr_slot_state(who) == WR_SLOT_LIVE && over)
		wr_pair_cas(&slot->who, &who, hidden);
	else if (wr_slot_state(who) == WR_SLOT_CLOSING)
		wr_pair_cas(&slot->who, &who, over ? none : shown);
}

bool wr_store_exchange_own(struct weir_table *table, uint64_t owner, uint64_t sync_ns,
			   uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_pair seen, mine = {owner, mono_ns + HELD_NS};

	if (in.count == 0 || owner == 0 || sync_ns == 0)
		return false;
	if (mine.hi < mono_ns + 10 * sync_ns)
		mine.hi = mono_ns + 10 * sync_ns;
	seen = wr_pair_load(&in.head->owner);
	if ((seen.lo != owner && seen.lo && seen.hi > mono_ns) ||
	    !wr_pair_cas(&in.head->owner, &seen, mine))
		return false;
	wr_slot_store(&in.head->sync_ns, sync_ns);
	if (seen.lo != owner)
		mark_unfinished(&in);
	return true;
}

void wr_store_exchange_leave(struct weir_table *table, uint64_t owner)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_pair seen;

	if (!is_owner(&in, owner))
		return;
	seen = wr_pair_load(&in.head->owner);
	if (seen.lo == owner)
		wr_pair_cas(&in.head->owner, &seen, (struct wr_pair){0});
}

void wr_store_exchange_answered(struct weir_table *table, uint64_t owner, uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);

	if (is_owner(&in, owner))
		wr_slot_store(&in.head->answered_mono_ns, mono_ns);
}

/* ---- publishing ---- */

static void read_name(const struct wr_store_exchange_slot *slot,
		      struct wr_store_exchange_name *name)
{
	struct wr_pair window = wr_pair_load(&slot->window);
	uint64_t numbers = wr_slot_load(&slot->numbers);
	uint32_t id_len = __atomic_load_n(&slot->id_len, __ATOMIC_ACQUIRE);

	*name = (struct wr_store_exchange_name){
		.fleet_key = {wr_slot_load(&slot->fleet_key[0]), wr_slot_load(&slot->fleet_key[1])},
		.algorithm = __atomic_load_n(&slot->algorithm, __ATOMIC_ACQUIRE),
		.limit = (uint32_t)numbers,
		.burst = (uint32_t)(numbers >> 32),
		.granted = __atomic_load_n(&slot->granted, __ATOMIC_ACQUIRE),
		.period_ns = wr_slot_load(&slot->period_ns),
		.window_start_ns = window.lo,
		.window_end_ns = window.hi,
		.id_len = id_len < WR_EXCHANGE_ID ? id_len : WR_EXCHANGE_ID,
	};
	memcpy(name->id, slot->id, name->id_len);
}

static void read_counts(const struct wr_store_exchange_slot *slot,
			struct wr_store_exchange_count counts[2])
{
	struct wr_pair own[2] = {wr_pair_load(&slot->own[0]), wr_pair_load(&slot->own[1])};
	bool swapped = own[1].lo > own[0].lo;

	for (int i = 0; i < 2; i++) {
		struct wr_pair at = own[swapped ? 1 - i : i];

		counts[i] = (struct wr_store_exchange_count){at.lo, (uint32_t)at.hi, at.hi >> 32};
	}
}

/* Returns the number of units that this node admitted in the latest window since the owner last
 * read the slot. Units of the earlier window are not included, even if they were admitted since
 * then. */
static uint64_t admitted_since(struct wr_store_exchange_slot *slot,
			       const struct wr_store_exchange_count *latest)
{
	bool same = wr_slot_load(&slot->viewed_start_ns) == latest->start_ns;
	uint64_t before = same ? wr_slot_load(&slot->viewed_plus) : 0;

	wr_slot_store(&slot->viewed_start_ns, latest->start_ns);
	wr_slot_store(&slot->viewed_plus, latest->plus);
	return latest->plus > before ? latest->plus - before : 0;
}

/* Clears pending_mono_ns. Called before the counts are read, so that a decision that uses the slot
 * after this call sets the slot's bit for the next turn. */
static void visit_slot(struct wr_store_exchange_slot *slot, bool used, uint64_t mono_ns)
{
	uint64_t pending_ns = __atomic_exchange_n(&slot->pending_mono_ns, 0, __ATOMIC_SEQ_CST);

	if (pending_ns && wr_slot_load(&slot->sent_mono_ns) == 0)
		wr_slot_store(&slot->sent_mono_ns, pending_ns);
	if (used)
		wr_slot_store(&slot->used_mono_ns, mono_ns);
}

static bool view_slot(struct wr_store_exchange_slot *slot, bool used, uint64_t mono_ns,
		      struct wr_store_exchange_view *view)
{
	struct wr_pair who = wr_pair_load(&slot->who);

	if (wr_slot_state(who) != WR_SLOT_LIVE && wr_slot_state(who) != WR_SLOT_CLOSING)
		return false;
	visit_slot(slot, used, mono_ns);
	read_name(slot, &view->name);
	read_counts(slot, view->counts);
	view->incarnation = who.hi & ~3ull;
	view->used = used;
	view->admitted = admitted_since(slot, &view->counts[0]);
	view->peers_due = __atomic_load_n(&slot->peers_due, __ATOMIC_ACQUIRE);
	return true;
}

/* Clears a bit. Returns whether it was set. */
static bool take_bit(uint64_t *bits, uint32_t number)
{
	uint64_t bit = 1ull << number % 64;

	return wr_slot_load(&bits[number / 64]) & bit &&
	       __atomic_fetch_and(&bits[number / 64], ~bit, __ATOMIC_SEQ_CST) & bit;
}

static bool owes_peer(const struct wr_store_exchange_section *in, uint32_t number, uint32_t peers)
{
	return wr_slot_load(&in->owing[number / 64]) >> number % 64 & 1 &&
	       __atomic_load_n(&in->slots[number].peers_due, __ATOMIC_ACQUIRE) & peers;
}

/* If `at` is the first of a group of 64 slots and no slot of the group has a bit set, skips the
 * group, and all following groups without set bits. Returns the number of the slot to check
 * next. */
static uint32_t skip_quiet(const struct wr_store_exchange_section *in, uint32_t at, uint32_t peers)
{
	while (at < in->count && at % 64 == 0 && !wr_slot_load(&in->used[at / 64]) &&
	       !(peers && wr_slot_load(&in->owing[at / 64])))
		at += 64;
	return at;
}

int wr_store_exchange_next(struct weir_table *table, uint64_t owner, uint32_t *cursor,
			   uint32_t peers, uint64_t now_ns, uint64_t mono_ns,
			   struct wr_store_exchange_view *view)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	uint32_t at;

	wr_assert(cursor && view);
	if (!is_owner(&in, owner))
		return -1;
	if (*cursor == 0)
		for (uint32_t i = 0; i < SWEPT; i++) {
			in.head->swept = (in.head->swept + 1) % in.count;
			sweep_slot(&in.slots[in.head->swept], now_ns, mono_ns);
		}
	for (at = *cursor; (at = skip_quiet(&in, at, peers)) < in.count; at++) {
		bool used = take_bit(in.used, at);

		if ((used || owes_peer(&in, at, peers)) &&
		    view_slot(&in.slots[at], used, mono_ns, view)) {
			*cursor = at + 1;
			return (int)at;
		}
	}
	*cursor = in.count;
	return -1;
}

void wr_store_exchange_failed(struct weir_table *table, int number, uint64_t owner)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);

	if (is_owner(&in, owner) && wr_store_exchange_at(table, number))
		wr_slot_mark(in.used, (uint32_t)number);
}

void wr_store_exchange_owe(struct weir_table *table, int number, uint64_t owner, uint32_t peers)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_store_exchange_slot *slot = wr_store_exchange_at(table, number);

	if (!slot || !is_owner(&in, owner) || !peers)
		return;
	__atomic_fetch_or(&slot->peers_due, peers, __ATOMIC_SEQ_CST);
	wr_slot_mark(in.owing, (uint32_t)number);
}

void wr_store_exchange_paid(struct weir_table *table, int number, uint64_t owner,
			    uint64_t incarnation, unsigned peer)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct wr_store_exchange_slot *slot = wr_store_exchange_at(table, number);

	if (!slot || !is_owner(&in, owner) || peer >= WR_EXCHANGE_PEERS ||
	    (wr_slot_load(&slot->who.hi) & ~3ull) != incarnation)
		return;
	if ((__atomic_and_fetch(&slot->peers_due, ~(1u << peer), __ATOMIC_SEQ_CST)) == 0)
		take_bit(in.owing, (uint32_t)number);
}

/* ---- charging the use of other nodes ---- */

static struct wr_pair *charged_in(struct wr_store_exchange_slot *slot, uint64_t start_ns)
{
	if (wr_slot_load(&slot->charged[0].lo) == start_ns)
		return &slot->charged[0];
	if (wr_slot_load(&slot->charged[1].lo) == start_ns)
		return &slot->charged[1];
	return NULL;
}

/* Records how many units of other nodes the cell counts in a window. A new window replaces the
 * older of the two stored windows. */
static void note_charged(struct wr_store_exchange_slot *slot, uint64_t start_ns, uint64_t sum)
{
	struct wr_pair *at = charged_in(slot, start_ns);
	struct wr_pair seen;

	if (!at)
		at = &slot->charged[wr_slot_load(&slot->charged[1].lo) <
				    wr_slot_load(&slot->charged[0].lo)];
	seen = wr_pair_load(at);
	wr_pair_cas(at, &seen, (struct wr_pair){start_ns, sum});
}

struct charging {
	struct weir_table *table;
	struct wr_store_exchange_slot *slot;
	struct wr_key key;
	struct weir_limit limit;
	/* Start of the window that contains now_ns or, for a token bucket, of the fill interval
	 * that contains now_ns (exchange.h). */
	uint64_t start_ns;
	uint64_t span_ns;
	uint64_t now_ns;
	bool first; /* true if no reply of Redis was applied to this slot before */
};

static uint64_t net_of(const struct wr_store_exchange_count *count)
{
	return count->plus > count->minus ? count->plus - count->minus : 0;
}

/* Returns the number of units that this node took in the window. */
static uint64_t own_in(const struct charging *to, uint64_t start_ns)
{
	struct wr_store_exchange_count counts[2];

	read_counts(to->slot, counts);
	for (int i = 0; i < 2; i++)
		if (counts[i].start_ns == start_ns)
			return net_of(&counts[i]);
	return 0;
}

/* Returns the number of units that the key's cell counts in the window of now_ns or, if `before` is
 * true, in the window before that. */
static uint64_t counted_units(const struct charging *to, bool before)
{
	struct weir_state state;
	struct wr_counter counter;
	struct wr_spot spot;

	if (!wr_table_find_any(to->table, to->key, &spot))
		return 0;
	state = (struct weir_state){spot.hot.lo, wr_hot_s1(spot.hot)};
	if (to->limit.algorithm == WEIR_FIXED_WINDOW)
		return before ? 0 : wr_fixed_load(&to->limit, &state, to->now_ns).count;
	counter = wr_counter_load(&to->limit, &state, to->now_ns);
	return before ? counter.previous : counter.current;
}

/* Adds units to the window of now_ns, or takes them from the bucket, even if the key is banned. If
 * this were put off until the ban ends, units could be lost: the slot is exchanged again only after
 * a request of the key was admitted, and by then the fill interval of a bucket may have ended. */
static void charge_now(const struct charging *to, uint64_t units)
{
	wr_store_impose(to->table, &to->limit, to->key, (int64_t)units, to->now_ns);
}

/* Adds units to the window before the current one, which a sliding counter still counts in part.
 * Returns false if the key has no cell. The units are then added in a later turn, when the key has
 * a cell. */
static bool charge_before(const struct charging *to, uint64_t units)
{
	struct wr_spot spot;
	struct wr_pair before;

	if (!wr_table_find_any(to->table, to->key, &spot))
		return false;
	before = spot.hot;
	do {
		struct weir_state state = {spot.hot.lo, wr_hot_s1(spot.hot)};
		struct wr_counter counter = wr_counter_load(&to->limit, &state, to->now_ns);

		counter.previous = wr_add_saturated(counter.previous, units);
		wr_counter_store(&counter, &state);
		wr_cell_raise_fresh(spot.cell, to->now_ns + counter.left_ns, to->now_ns);
		if (wr_pair_cas(&spot.cell->hot, &spot.hot,
				wr_hot_with(spot.hot, state.s0, state.s1, wr_hot_harm(spot.hot))))
			return true;
	} while (wr_spot_still(&spot, before));
	return false;
}

/* Adds to a window the units of other nodes that were not added before. When Redis replies for
 * a slot for the first time, it is not known how many were added before: an earlier slot or an
 * earlier table may have added some to the cell. In addition, units that this node counted in an
 * earlier slot look like units of another node. So for the first reply, the units of the other
 * nodes and of this slot are summed up. If the cell counts fewer units than this sum, the
 * difference is added. */
static void charge_window(const struct charging *to, const struct wr_store_exchange_count *others)
{
	bool before = others->start_ns != to->start_ns;
	const struct wr_pair *charged = charged_in(to->slot, others->start_ns);
	uint64_t sum = net_of(others), known = charged ? wr_slot_load(&charged->hi) : 0;
	uint64_t due = sum > known ? sum - known : 0;

	if (to->first) {
		uint64_t all = sum + own_in(to, others->start_ns), has = counted_units(to, before);

		due = all > has ? all - has : 0;
	}
	if (due && before && !charge_before(to, due))
		return;
	if (due && !before)
		charge_now(to, due);
	if (sum > known || !charged)
		note_charged(to->slot, others->start_ns, sum);
}

/* Takes from a bucket the units of other nodes that were not taken before. Takes nothing when a
 * slot gets its first reply of Redis. */
static void charge_bucket(const struct charging *to, const struct wr_store_exchange_count *others)
{
	const struct wr_pair *charged = charged_in(to->slot, others->start_ns);
	uint64_t sum = net_of(others), known = charged ? wr_slot_load(&charged->hi) : 0;

	if (sum > known && !to->first)
		charge_now(to, sum - known);
	if (sum > known || !charged)
		note_charged(to->slot, others->start_ns, sum);
}

static bool prepare_charge(struct charging *to)
{
	struct wr_store_exchange_name name;

	read_name(to->slot, &name);
	to->limit = (struct weir_limit){
		.size = sizeof to->limit,
		.algorithm = name.algorithm,
		.limit = name.limit,
		.burst = name.burst,
		.period_ns = name.period_ns,
		.window_start_ns = name.window_start_ns,
		.window_end_ns = name.window_end_ns,
	};
	to->span_ns = wr_slot_load(&to->slot->span_ns);
	to->start_ns = wr_store_exchange_start_ns(&name, to->now_ns);
	return weir_limit_check(&to->limit, NULL) == 0;
}

/* Adds the units of other nodes to both windows. The older window is handled first: if
 * note_charged() stores both windows in the same element, the later window stays. */
static void charge_all(const struct charging *to, const struct wr_store_exchange_totals *others)
{
	for (int i = 1; i >= 0; i--) {
		const struct wr_store_exchange_count *count = &others->counts[i];
		bool now = count->start_ns == to->start_ns;
		bool before = to->span_ns && count->start_ns + to->span_ns == to->start_ns;

		if (count->start_ns == 0 || (!now && !before))
			continue;
		if (to->limit.algorithm == WEIR_TOKEN_BUCKET)
			charge_bucket(to, count);
		else if (now || to->limit.algorithm == WEIR_SLIDING_COUNTER)
			charge_window(to, count);
	}
}

void wr_store_exchange_apply(struct weir_table *table, int number, uint64_t owner,
			     uint64_t incarnation, const struct wr_store_exchange_totals *others,
			     uint64_t now_ns, uint64_t mono_ns)
{
	struct wr_store_exchange_section in = wr_store_exchange_section(table);
	struct charging to = {.table = table, .slot = wr_store_exchange_at(table, number)};
	struct wr_pair who;

	wr_assert(others);
	if (!to.slot || !is_owner(&in, owner))
		return;
	who = wr_pair_load(&to.slot->who);
	if ((who.hi & ~3ull) != incarnation || wr_slot_state(who) < WR_SLOT_LIVE)
		return;
	to.key.tag = who.lo;
	to.now_ns = now_ns;
	to.first = __atomic_load_n(&to.slot->applied, __ATOMIC_ACQUIRE) == 0;
	if (prepare_charge(&to)) {
		charge_all(&to, others);
		__atomic_store_n(&to.slot->applied, 1, __ATOMIC_RELEASE);
	}
	wr_slot_store(&to.slot->sent_mono_ns, 0);
	wr_slot_store(&in.head->answered_mono_ns, mono_ns);
}
