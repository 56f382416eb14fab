/* Makes reservations of admitted asks, and settles them later. reservation_claim.c makes sure that a
 * reservation is settled only once. Called by serve. */
#include "limiter/reservation.h"

#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/hash.h"
#include "limiter/fleet.h"
#include "limiter/lease.h"
#include "limiter/log_text.h"
#include "limiter/message.h"
#include "limiter/reservation_token.h"
#include "limiter/settle.h"
#include "limiter/share.h"

#define VERSION 2u
/* bytes of a token before its charges, without the key of the marker, the domain and the record */
#define HEAD_BYTES (1 + 1 + 8 + 8 + 8 + 2 + 2)
#define KEY_BYTES 16    /* bytes of the key of the marker, if the token has one */
#define FLAG_FLEET 1u   /* the token is authenticated with the fleet's secret */
#define FLAG_REFUNDS 2u /* some charge has WR_CHARGE_REFUND */

/* ---- making ---- */

int wr_reservation_begin(struct weir_ask *ask, void *memory)
{
	int rc = weir_ask_record(ask, memory, WR_RESERVATION_BYTES_MAX);

	if (rc == 0)
		rc = weir_ask_no_defer(ask);
	if (rc == 0)
		ask->reserves = ask->settles = true;
	return rc;
}

static bool is_central(const struct wr_ask_need *need)
{
	return need->decided_by == WR_NEED_CENTRAL;
}

/* Returns a hash that identifies the counter of the need on all nodes of the fleet. */
static uint64_t fleet_name(const struct wr_ask_need *need)
{
	char id[WR_QUESTION_ID + 1];
	size_t len = wr_ask_need_id(need, id);

	return XXH3_64bits_withSeed(id, len, need->fleet_key[0] ^ need->fleet_key[1]);
}

static struct wr_reservation_charge charge_of(const struct weir_ask *ask, uint8_t i)
{
	const struct wr_ask_need *need = &ask->needs[i];
	const struct weir_decision *decision = &need->need.decision;
	struct wr_reservation_charge charge = {.tag = need->need.key.tag,
					       .own_cost = (uint64_t)need->own_cost,
					       .cost = (uint64_t)need->need.cost,
					       .charged_ns = decision->charged_ns,
					       .candidates = need->candidates,
					       .decided_us = need->decided_us,
					       .delay_ns = decision->delay_ns,
					       .used = wr_ask_need_used_after(need),
					       .given = need->given,
					       .booked = need->booked,
					       .lease_grant = need->lease_grant};

	if (need->same_as != i) {
		charge.flags = WR_CHARGE_MERGED;
		return charge;
	}
	if (is_central(need)) {
		charge.flags |= WR_CHARGE_CENTRAL;
		charge.fleet_name = fleet_name(need);
	}
	if (need->decided_by == WR_NEED_LEASED)
		charge.flags |= WR_CHARGE_LEASED;
	if (need->failed)
		charge.flags |= WR_CHARGE_SHARE;
	if (need->rule && need->rule->on_expiry == WR_EXPIRY_REFUND)
		charge.flags |= WR_CHARGE_REFUND;
	return charge;
}

/* Returns whether the token contains a charge of need `i`. A request that reserves 0 units has
 * charges of 0 units, because a commit charges its actual cost. */
static bool is_charged(const struct weir_ask *ask, uint8_t i)
{
	return wr_ask_need_is_taken(ask, &ask->needs[i]);
}

/* Returns the time to live if the client asks for none: slots can be released as long as they are
 * held. */
static uint64_t default_ttl_ns(const struct weir_ask *ask)
{
	uint64_t ttl_ns = WR_RESERVATION_TTL_NS;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct weir_limit *limit = ask->needs[i].need.limit;

		if (is_charged(ask, i) && limit->algorithm == WEIR_CONCURRENT &&
		    limit->period_ns > ttl_ns)
			ttl_ns = limit->period_ns;
	}
	return ttl_ns < WR_RESERVATION_TTL_MAX_NS ? ttl_ns : WR_RESERVATION_TTL_MAX_NS;
}

/* Returns the domain of the ask, or an empty text if the rules have no such domain. */
static struct weir_str domain_of(const struct weir_ask *ask)
{
	return ask->domain ? ask->domain->key : (struct weir_str){"", 0};
}

bool wr_reservation_fits(const struct weir_ask *ask)
{
	size_t len;
	uint64_t costs = 0;
	bool central = false;

	wr_assert_magic(ask, WR_ASK_MAGIC);
	if (!ask->record || ask->unrecorded)
		return false;
	len = HEAD_BYTES + domain_of(ask).len + ask->record_len;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		costs += (uint64_t)ask->needs[i].own_cost;
		central |= is_central(&ask->needs[i]);
	}
	len += central ? KEY_BYTES : 0;
	for (uint8_t i = 0; i < ask->need_count; i++)
		len += wr_reservation_token_charge_max((uint64_t)ask->needs[i].own_cost, costs,
						       is_central(&ask->needs[i]));
	return len <= WR_RESERVATION_BYTES_MAX - WR_RESERVATION_CODE_BYTES;
}

static void put_text(struct wr_reservation_token *token, const void *bytes, size_t len)
{
	uint16_t short_len = (uint16_t)len;

	if (len > WR_RESERVATION_BYTES_MAX)
		token->failed = true;
	wr_reservation_token_put(token, &short_len, sizeof short_len);
	wr_reservation_token_put(token, bytes, len);
}

/* Returns the flags of the token of this ask. */
static uint8_t token_flags(const struct weir_ask *ask)
{
	uint8_t flags = 0;

	for (uint8_t i = 0; i < ask->need_count; i++) {
		uint8_t charge = is_charged(ask, i) ? charge_of(ask, i).flags : 0;

		flags |= (charge & WR_CHARGE_CENTRAL) ? FLAG_FLEET : 0;
		flags |= (charge & WR_CHARGE_REFUND) ? FLAG_REFUNDS : 0;
	}
	return flags;
}

/* Returns the first need whose units the central store took, or NULL. The marker of the reservation
 * is stored beside its counter. */
static const struct wr_ask_need *first_central(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_charged(ask, i) && charge_of(ask, i).flags & WR_CHARGE_CENTRAL)
			return &ask->needs[i];
	return NULL;
}

static void put_marker_key(struct wr_reservation_token *token, const struct weir_ask *ask,
			   uint64_t id, const uint8_t *secret)
{
	const struct wr_ask_need *need = first_central(ask);
	uint64_t key[2];

	if (!need)
		return;
	_Static_assert(sizeof key == KEY_BYTES, "wr_reservation_fits knows the length of the key");
	memcpy(key, need->fleet_key, sizeof key);
	wr_reservation_token_mask(key, id, secret);
	wr_reservation_token_put(token, key, sizeof key);
}

static void put_charges(struct wr_reservation_token *token, const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_charged(ask, i)) {
			struct wr_reservation_charge charge = charge_of(ask, i);

			wr_reservation_token_put_charge(token, &charge);
		}
}

/* Sets the times of a reservation. */
static void set_times(struct wr_reservation *r, uint64_t made_ns, uint64_t ttl_ns)
{
	r->made_ns = made_ns;
	r->expires_ns = made_ns + ttl_ns;
	r->ends_ns =
		r->expires_ns + (ttl_ns > WR_RESERVATION_TTL_NS ? ttl_ns : WR_RESERVATION_TTL_NS);
}

/* Returns whether the token contains a charge that is not in the central store. The marker in this
 * node's table protects these charges. */
static bool charges_this_table(const struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_charged(ask, i) && !is_central(&ask->needs[ask->needs[i].same_as]))
			return true;
	return false;
}

int wr_reservation_write(struct weir_ask *ask, uint64_t ttl_ns, char *text, uint64_t *expires_ns,
			 bool *refunds)
{
	struct wr_reservation made;
	struct wr_reservation_token token = {.at = made.bytes, .cap = sizeof made.bytes};
	uint8_t version = VERSION, flags;
	const uint8_t *secret;

	if (!wr_ask_ok(ask) || ask->state != WR_ASK_DECIDED || !ask->record || ask->cancelled ||
	    ttl_ns > WR_RESERVATION_TTL_MAX_NS)
		return WEIR_EINVAL;
	if (ask->unrecorded)
		return WEIR_EROOM;
	if (getrandom(&made.id, sizeof made.id, 0) != sizeof made.id)
		return WEIR_ESYS;
	flags = token_flags(ask);
	secret = flags & FLAG_FLEET ? wr_fleet_secret(ask->engine) : ask->engine->table->secret;
	if (!secret)
		return WEIR_ENOENT;
	if (ttl_ns == 0)
		ttl_ns = default_ttl_ns(ask);
	set_times(&made, ask->now_ns, ttl_ns);
	*expires_ns = made.expires_ns;
	*refunds = flags & FLAG_REFUNDS;
	wr_reservation_token_put(&token, &version, sizeof version);
	wr_reservation_token_put(&token, &flags, sizeof flags);
	wr_reservation_token_put(&token, &made.id, sizeof made.id);
	wr_reservation_token_put(&token, &ask->now_ns, sizeof ask->now_ns);
	wr_reservation_token_put(&token, &ttl_ns, sizeof ttl_ns);
	put_marker_key(&token, ask, made.id, secret);
	put_text(&token, domain_of(ask).ptr, domain_of(ask).len);
	put_text(&token, ask->record, ask->record_len);
	put_charges(&token, ask);
	if (charges_this_table(ask))
		wr_reservation_open(&made, ask->engine, ask->now_ns);
	return wr_reservation_token_seal(&token, secret, text);
}

/* ---- reading ---- */

/* Reads the length of a text, skips the text, and sets its offset. */
static void get_text(struct wr_reservation_token *token, uint16_t *at, uint16_t *len)
{
	wr_reservation_token_get(token, len, sizeof *len);
	*at = (uint16_t)token->len;
	if (*len > token->cap - token->len)
		token->failed = true;
	else
		token->len += *len;
}

int wr_reservation_read(struct wr_reservation *reservation, const struct weir_engine *engine,
			struct weir_str text, uint64_t now_ns)
{
	struct wr_reservation *r = reservation;
	struct wr_reservation_token token = {.at = r->bytes,
					     .cap = wr_reservation_token_parse(text, r->bytes)};
	const uint8_t *secret;
	uint8_t version, flags;
	uint64_t ttl_ns;

	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	wr_reservation_token_get(&token, &version, sizeof version);
	wr_reservation_token_get(&token, &flags, sizeof flags);
	secret = flags & FLAG_FLEET ? wr_fleet_secret(engine) : engine->table->secret;
	if (token.failed || version != VERSION || !secret ||
	    !wr_reservation_token_is_sealed(token.at, token.cap, secret))
		return WEIR_ENOENT;
	wr_reservation_token_get(&token, &r->id, sizeof r->id);
	wr_reservation_token_get(&token, &r->made_ns, sizeof r->made_ns);
	wr_reservation_token_get(&token, &ttl_ns, sizeof ttl_ns);
	r->fleet = flags & FLAG_FLEET;
	if (r->fleet) {
		wr_reservation_token_get(&token, r->key, sizeof r->key);
		wr_reservation_token_mask(r->key, r->id, secret);
	}
	get_text(&token, &r->domain_at, &r->domain_len);
	get_text(&token, &r->record_at, &r->record_len);
	if (token.failed)
		return WEIR_ENOENT;
	r->charges_at = (uint16_t)token.len;
	r->charges_len = (uint16_t)(token.cap - token.len);
	set_times(r, r->made_ns, ttl_ns);
	r->refunds = flags & FLAG_REFUNDS;
	r->refundable = r->told = 0;
	r->read_ns = now_ns;
	r->late = now_ns >= r->expires_ns;
	return now_ns < r->ends_ns ? 0 : WEIR_ENOENT;
}

/* ---- restoring the ask ---- */

/* Returns the index of the first need on the counter of the charge that has no charge yet, or -1.
 */
static int find_need(const struct weir_ask *ask, const struct wr_reservation_charge *charge,
		     uint64_t found)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];
		bool same = charge->flags & WR_CHARGE_CENTRAL
				    ? need->decided_by == WR_NEED_CENTRAL &&
					      fleet_name(need) == charge->fleet_name
				    : need->need.key.tag == charge->tag;

		if (same && !(found >> i & 1))
			return i;
	}
	return -1;
}

/* Returns the index of the need that has the units of a merged charge, or `i`. */
static uint8_t find_first(const struct weir_ask *ask, uint8_t i, uint64_t found)
{
	for (uint8_t first = 0; first < i; first++)
		if (found >> first & 1 && ask->needs[first].same_as == first &&
		    ask->needs[first].need.key.tag == ask->needs[i].need.key.tag)
			return first;
	return i;
}

/* Returns false if the need cannot be settled any more. */
static bool restore_need(struct weir_ask *ask, struct wr_ask_need *need,
			 const struct wr_reservation_charge *charge)
{
	bool home = need->need.key.tag == charge->tag; /* this table's counter was charged */

	if (charge->flags & WR_CHARGE_SHARE) {
		wr_ask_need_store_failed(ask, need);
		if (need->decided_by != WR_NEED_TABLE)
			return false;
	} else {
		need->decided_by = charge->flags & WR_CHARGE_CENTRAL  ? WR_NEED_CENTRAL
				   : charge->flags & WR_CHARGE_LEASED ? WR_NEED_LEASED
								      : WR_NEED_TABLE;
	}
	need->taken = true;
	need->need.cost = (int64_t)charge->cost;
	need->need.decision = (struct weir_decision){
		.admitted = 1, .charged_ns = charge->charged_ns, .delay_ns = charge->delay_ns};
	need->candidates = home ? (uint8_t)charge->candidates : 0;
	need->decided_us = charge->decided_us;
	need->used = charge->used < UINT32_MAX ? (uint32_t)charge->used : UINT32_MAX;
	need->given = charge->given;
	need->booked = home ? (uint32_t)charge->booked : 0;
	need->lease_grant = (uint32_t)charge->lease_grant;
	return true;
}

/* Restores the charge of the need at this index. `found` has a bit for each need that has a charge.
 * Returns false if the need cannot be settled any more. */
static bool restore_charge(struct wr_reservation *r, struct weir_ask *ask,
			   const struct wr_reservation_charge *charge, uint8_t at, uint64_t found)
{
	struct wr_ask_need *need = &ask->needs[at];

	need->own_cost = (int64_t)charge->own_cost;
	need->counts = true;
	if (charge->flags & WR_CHARGE_REFUND)
		r->refundable |= 1ull << at;
	if (!(charge->flags & WR_CHARGE_MERGED))
		return restore_need(ask, need, charge);
	need->same_as = find_first(ask, at, found);
	return true;
}

/* Restores the charges whose limits the rules still have, and sets r->gone. */
static void restore_charges(struct wr_reservation *r, struct weir_ask *ask)
{
	struct wr_reservation_token token = {.at = r->bytes + r->charges_at, .cap = r->charges_len};
	struct wr_reservation_charge charge;
	uint64_t found = 0;
	bool some_lost = false, some_kept = false;

	r->refundable = r->told = 0;
	while (wr_reservation_token_get_charge(&token, &charge)) {
		int at = find_need(ask, &charge, found);

		if (at < 0 || charge.own_cost > INT64_MAX || charge.cost > INT64_MAX ||
		    !restore_charge(r, ask, &charge, (uint8_t)at, found)) {
			some_lost = true;
			continue;
		}
		some_kept |= !wr_ask_need_is_slot(&ask->needs[at]);
		found |= 1ull << at;
	}
	r->gone = some_lost && !some_kept;
}

/* Begins an ask with the descriptors of the reservation. */
static int replay(const struct wr_reservation *r, void *memory, size_t size,
		  struct weir_engine *engine, struct weir_ask **ask)
{
	struct weir_str domain = {(const char *)r->bytes + r->domain_at, r->domain_len};
	int rc = weir_ask_init(memory, size, engine, domain, ask);

	if (rc < 0)
		return rc;
	if (size > sizeof **ask)
		wr_ask_set_log_memory(*ask, (char *)(*ask + 1), (uint16_t)(size - sizeof **ask));
	rc = weir_ask_replay(*ask, r->bytes + r->record_at, r->record_len);
	if (rc < 0)
		weir_ask_done(*ask);
	return rc;
}

int wr_reservation_restore(struct wr_reservation *reservation, void *memory, size_t size,
			   struct weir_engine *engine, struct weir_ask **ask)
{
	struct wr_reservation *r = reservation;
	struct weir_ask *made;
	int rc = replay(r, memory, size, engine, &made);

	if (rc < 0)
		return rc;
	made->now_ns = r->made_ns;
	made->state = WR_ASK_DECIDED;
	made->verdict = WEIR_ADMIT;
	made->reserves = made->settles = true;
	if (made->has_calendar)
		wr_ask_open_windows(made);
	if (made->eventual)
		wr_ask_read_mono(made);
	for (uint8_t i = 0; i < made->need_count; i++) {
		made->needs[i].need.cost = made->needs[i].own_cost = 0;
		made->needs[i].counts = false;
		wr_ask_need_find_grant(made, &made->needs[i], r->read_ns);
	}
	restore_charges(r, made);
	*ask = made;
	return 0;
}

/* ---- settling ---- */

int64_t wr_reservation_units_used(const struct weir_ask *ask, uint8_t first,
				  const struct wr_settle_order *order)
{
	int64_t used = 0;

	if (order->action == WR_SETTLE_RELEASE)
		return ask->needs[first].need.cost;
	for (uint8_t i = first; i < ask->need_count; i++)
		if (order->action == WR_SETTLE_COMMIT && ask->needs[i].same_as == first &&
		    ask->needs[i].counts && __builtin_add_overflow(used, order->actual, &used))
			used = INT64_MAX;
	return used;
}

static void drop_charge(struct wr_ask_need *need)
{
	need->taken = false;
	need->booked = 0;
}

/* Decides what is settled of the need after the reservation has expired, or if the table has evicted
 * its marker: slots, and units that were used beyond the reserved ones. If the reserved units were
 * given back when the reservation expired, or may have been given back, a commit charges all units
 * that were used. */
static void keep_excess(const struct wr_reservation *r, const struct weir_ask *ask,
			struct wr_ask_need *need, const struct wr_settle_order *order)
{
	uint8_t i = (uint8_t)(need - ask->needs);
	bool given_back =
		(order->claim == WR_CLAIM_EXPIRED || (order->claim == WR_CLAIM_LOST && r->late)) &&
		r->refundable >> i & 1;

	if (need->same_as != i || wr_ask_need_is_slot(need))
		return;
	if (given_back && order->action == WR_SETTLE_COMMIT) {
		need->need.cost = 0;
		need->booked = 0;
		need->candidates = 0;
	} else if (given_back || wr_reservation_units_used(ask, i, order) <= need->need.cost) {
		drop_charge(need);
	}
}

/* Decides what is settled of need `i`. A charge of 0 units is needed by a commit, which charges the
 * actual cost. A cancel or a release has nothing to give back for it. */
static void prepare_need(const struct wr_reservation *r, struct weir_ask *ask, uint8_t i,
			 const struct wr_settle_order *order)
{
	struct wr_ask_need *need = &ask->needs[i];

	if (order->action != WR_SETTLE_COMMIT && need->same_as == i && need->need.cost == 0)
		need->taken = false;
	if (order->action == WR_SETTLE_EXPIRY) {
		if (!(r->refundable >> i & 1))
			drop_charge(need);
	} else if (need->taken && (r->late || order->claim != WR_CLAIM_FIRST)) {
		keep_excess(r, ask, need, order);
	}
}

/* Returns whether the caller settles. WR_SETTLE_EXPIRY without a marker gives nothing back. */
static bool is_claimed(const struct wr_settle_order *order)
{
	return order->claim != WR_CLAIM_ALREADY &&
	       !(order->claim == WR_CLAIM_LOST && order->action == WR_SETTLE_EXPIRY);
}

/* Decides what is settled of the needs that the central store decides, or of the other needs. */
static void prepare_needs(const struct wr_reservation *r, struct weir_ask *ask, bool central,
			  const struct wr_settle_order *order)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (is_central(&ask->needs[i]) != central)
			continue;
		else if (!is_claimed(order))
			drop_charge(&ask->needs[i]);
		else
			prepare_need(r, ask, i, order);
}

void wr_reservation_prepare(const struct wr_reservation *reservation, struct weir_ask *ask,
			    const struct wr_settle_order *order)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	prepare_needs(reservation, ask, true, order);
}

static bool has_charges(const struct weir_ask *ask, bool central)
{
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].taken && is_central(&ask->needs[i]) == central)
			return true;
	return false;
}

/* Claims the charges that are not in the central store. The marker in the central store does not
 * protect them: a node can be killed, or miss the answer, after the central store was settled. */
static enum wr_claim claim_here(const struct wr_reservation *r, const struct weir_ask *ask,
				const struct wr_settle_order *order, uint64_t now_ns)
{
	if (!r->fleet)
		return order->claim;
	if (!has_charges(ask, false))
		return WR_CLAIM_ALREADY;
	return wr_reservation_claim(r, ask->engine, order->action, now_ns);
}

static void settle_ask(struct weir_ask *ask, enum wr_settle_action action, int64_t actual,
		       uint64_t now_ns)
{
	struct weir_outcome as_reserved = {.size = sizeof as_reserved};

	if (action == WR_SETTLE_COMMIT)
		weir_ask_settle(ask, actual, now_ns);
	else if (action == WR_SETTLE_RELEASE)
		weir_ask_settle_outcome(ask, &as_reserved, now_ns);
	else
		weir_ask_cancel(ask, now_ns);
}

bool wr_reservation_settle(const struct wr_reservation *reservation, struct weir_ask *ask,
			   const struct wr_settle_order *order, uint64_t now_ns)
{
	struct wr_settle_order here = *order;

	wr_assert_magic(ask, WR_ASK_MAGIC);
	here.claim = claim_here(reservation, ask, order, now_ns);
	if (!is_claimed(order))
		prepare_needs(reservation, ask, true, order);
	prepare_needs(reservation, ask, false, &here);
	if (!is_claimed(&here) && !is_claimed(order))
		return false;
	settle_ask(ask, wr_reservation_action(reservation, order), order->actual, now_ns);
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (reservation->told >> i & 1)
			ask->needs[i].message = WR_MESSAGE_NONE;
	return true;
}

uint64_t wr_ask_settled_units(const struct weir_ask *ask, uint64_t *owed)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	*owed = ask->owed;
	return ask->returned;
}

/* ---- charging ---- */

/* Prepares a need so that settling charges its cost, as if the request had reserved nothing. */
static void reserve_nothing(struct weir_ask *ask, struct wr_ask_need *need)
{
	need->need.cost = 0;
	need->taken = need->decided_by != WR_NEED_DECIDED && !wr_ask_need_is_slot(need) &&
		      need->need.limit->algorithm != WEIR_LEAKY_BUCKET && need->own_cost > 0;
	need->counts = need->taken;
	need->need.decision.charged_ns = ask->now_ns;
	wr_ask_need_find_grant(ask, need, ask->now_ns);
}

/* Fills the decisions after the charge. The counts of the central store are not known, so its
 * limits are shown as unused. The charge is not counted as a request. */
static void look_at_needs(struct weir_ask *ask)
{
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_need *need = &ask->needs[i].need;

		if (ask->needs[i].decided_by == WR_NEED_TABLE)
			wr_store_decide(ask->engine->table, need->limit, need->key, 0, ask->now_ns,
					WR_LOOK, &need->decision);
		else
			need->decision = (struct weir_decision){.limit = need->limit->capacity,
								.remaining = need->limit->capacity};
		need->decision.admitted = 1;
		need->decision.retry_after_ns = 0;
		ask->needs[i].counts = false;
	}
}

int wr_ask_charge(struct weir_ask *ask, uint64_t now_ns)
{
	struct weir_outcome as_reserved = {.size = sizeof as_reserved};

	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	ask->now_ns = now_ns;
	ask->state = WR_ASK_DECIDED;
	if (ask->allowed)
		ask->need_count = 0;
	wr_ask_prepare(ask);
	if (ask->eventual)
		wr_ask_exchange_begin(ask);
	for (uint8_t i = 0; i < ask->need_count; i++)
		reserve_nothing(ask, &ask->needs[i]);
	weir_ask_settle_outcome(ask, &as_reserved, now_ns);
	look_at_needs(ask);
	wr_ask_set_verdict(ask, true);
	return 0;
}

/* Gives the needs of a replayed ask this cost. Descriptors that were recorded with a cost of 0 repeat
 * other ones (ask.c), unless the reservation was for 0 units. */
static void set_costs(struct weir_ask *ask, int64_t cost)
{
	bool some_cost = false;

	for (uint8_t i = 0; i < ask->need_count; i++)
		some_cost |= ask->needs[i].own_cost > 0;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[i];

		if (need->own_cost > 0 || !some_cost)
			need->need.cost = need->own_cost = cost;
	}
}

int wr_reservation_charge(const struct wr_reservation *reservation, int64_t actual, void *memory,
			  size_t size, struct weir_engine *engine, uint64_t now_ns,
			  struct weir_ask **ask)
{
	int rc = replay(reservation, memory, size, engine, ask);

	if (rc < 0)
		return rc;
	set_costs(*ask, actual);
	rc = wr_ask_charge(*ask, now_ns);
	if (rc < 0)
		weir_ask_done(*ask);
	return rc;
}
