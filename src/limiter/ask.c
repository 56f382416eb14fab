/* Begins and ends an ask, and adds descriptors: each limit that applies to a descriptor becomes a
 * need. Every host calls these functions for each request. */
#include "limiter/ask.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/versioned.h"
#include "base/str.h"
#include "limiter/ban.h"
#include "limiter/defer.h"
#include "limiter/fleet.h"
#include "limiter/log_text.h"
#include "limiter/lease.h"
#include "limiter/refund.h"
#include "limiter/sample.h"
#include "rules/http.h"
#include "rules/key.h"
#include "store/exchange.h"

#define KEY_DIRECT 1024u /* a key with more bytes is replaced by its digest */
#define DIGEST_BYTES 28u
#define SHARE_ALL 1000000u

/* The bytes that identify the counters of a descriptor. They are hashed with a secret. A long key
 * is first replaced by its digest, which is computed with the same secret. */
struct key_bytes {
	size_t len; /* length of the whole key, even if its digest is in `bytes` */
	struct weir_str here;
	const struct wr_node *domain, *node;
	const struct weir_entry *entries;
	size_t count;
	/* The secret with which the hash in `fleet` was computed. NULL: the hash is not computed
	 * yet. */
	const uint8_t *fleet_secret;
	uint64_t fleet[2];
	char bytes[KEY_DIRECT];
};

size_t weir_ask_size(void)
{
	return sizeof(struct weir_ask);
}

int weir_ask_init(void *memory, size_t size, struct weir_engine *engine, struct weir_str domain,
		  struct weir_ask **out)
{
	struct weir_ask *ask = memory;
	const struct weir_rules *rules;

	if (!memory || !engine || !out || (!domain.ptr && domain.len) ||
	    (uintptr_t)memory % _Alignof(struct weir_ask) != 0)
		return WEIR_EINVAL;
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	if (size < sizeof *ask)
		return WEIR_EROOM;
	memset(ask, 0, offsetof(struct weir_ask, descriptors));
	ask->magic = WR_ASK_MAGIC;
	ask->engine = engine;
	ask->hits = 1;
	ask->plain = ask->leased = true;
	ask->shard = (uint8_t)wr_limiter_shard_mine();
	ask->generation = wr_generation_hold(engine, ask->shard);
	rules = ask->generation->rules;
	ask->domain = rules ? wr_rules_domain(rules, domain) : NULL;
	*out = ask;
	return 0;
}

void weir_ask_done(struct weir_ask *ask)
{
	if (!wr_ask_ok(ask))
		return;
	wr_assert(ask->generation);
	ask->magic = 0;
	wr_generation_release(ask->engine, ask->generation, ask->shard);
}

int weir_ask_hits(struct weir_ask *ask, int64_t hits)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN || hits == WEIR_HITS_UNSET)
		return WEIR_EINVAL;
	ask->hits = hits;
	return 0;
}

int weir_ask_dry_run(struct weir_ask *ask)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	ask->dry_run = true;
	return 0;
}

int weir_ask_taken_at(struct weir_ask *ask, uint64_t taken_ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_OPEN || taken_ns == 0 ||
	    (taken_ns > INT64_MAX && taken_ns != WEIR_TAKEN_UNKNOWN))
		return WEIR_EINVAL;
	ask->taken_ns = taken_ns;
	return 0;
}

bool wr_ask_lacks_time(const struct weir_ask *ask)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	return ask->gives_back && ask->taken_ns == 0;
}

bool wr_ask_gives_back(const struct weir_ask *ask)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	return ask->gives_back;
}

static void feed_digest(void *state, const void *bytes, size_t len)
{
	XXH3_128bits_update(state, bytes, len);
}

static void feed_share(void *state, const void *bytes, size_t len)
{
	XXH3_64bits_update(state, bytes, len);
}

/* Writes the digest of a long key: a mark, the length of the key and its hash. A short key never
 * begins with the mark, because it begins with the length of the domain, and no domain has 2^32 - 1
 * bytes. */
static struct weir_str digest_key(const struct key_bytes *key, const uint8_t *secret,
				  char digest[DIGEST_BYTES])
{
	static const uint8_t mark[4] = {0xff, 0xff, 0xff, 0xff};
	XXH3_state_t state;
	XXH128_hash_t hash;
	uint64_t len = key->len;

	XXH3_128bits_reset_withSecret(&state, secret, WR_SECRET_BYTES);
	wr_rules_key_feed(key->domain, key->node, key->entries, key->count, feed_digest, &state);
	hash = XXH3_128bits_digest(&state);
	memcpy(digest, mark, 4);
	memcpy(digest + 4, &len, 8);
	memcpy(digest + 12, &hash, 16);
	return (struct weir_str){digest, DIGEST_BYTES};
}

static void make_key(const struct weir_ask *ask, const struct wr_node *node,
		     const struct weir_entry *entries, size_t count, struct key_bytes *key)
{
	key->domain = ask->domain;
	key->node = node;
	key->entries = entries;
	key->count = count;
	key->fleet_secret = NULL;
	key->len = wr_rules_key_write(ask->domain, node, entries, count, key->bytes,
				      sizeof key->bytes);
	key->here = key->len <= sizeof key->bytes
			    ? (struct weir_str){key->bytes, key->len}
			    : digest_key(key, ask->engine->table->secret, key->bytes);
}

/* Computes the key's hash with the fleet's secret, which is equal on all nodes. Returns false if
 * the secret is not known. */
static bool name_in_fleet(const struct weir_ask *ask, struct key_bytes *key)
{
	char digest[DIGEST_BYTES];
	struct weir_str name = key->here;
	XXH128_hash_t hash;

	if (key->fleet_secret)
		return true;
	key->fleet_secret = wr_fleet_secret(ask->engine);
	if (!key->fleet_secret)
		return false;
	if (key->len > sizeof key->bytes)
		name = digest_key(key, key->fleet_secret, digest);
	hash = XXH3_128bits_withSecret(name.ptr, name.len, key->fleet_secret, WR_SECRET_BYTES);
	key->fleet[0] = hash.low64;
	key->fleet[1] = hash.high64;
	return true;
}

/* Returns a hash of the key. A limit with `enforce` is enforced for a fraction of all keys, and
 * this hash decides whether the key is one of them. The hash is computed without a secret, so that
 * every node and every future table chooses the same keys. */
static uint64_t share_hash(const struct key_bytes *key)
{
	XXH3_state_t state;

	if (key->len <= sizeof key->bytes)
		return XXH3_64bits(key->bytes, key->len);
	XXH3_64bits_reset(&state);
	wr_rules_key_feed(key->domain, key->node, key->entries, key->count, feed_share, &state);
	return XXH3_64bits_digest(&state);
}

/* Returns the class of a limit. Quotas admit a request if the quotas of one descriptor admit it,
 * even if those of other descriptors are exhausted. A descriptor that only some readings of the
 * request make (rules/http.h) must not have this effect, so its quotas are enforced like ordinary
 * limits. */
static enum wr_ask_need_class class_of(const struct wr_node *node,
				       const struct wr_rules_limit *limit,
				       const struct key_bytes *key, bool certain)
{
	bool in_share = limit->enforce_ppm >= SHARE_ALL ||
			((share_hash(key) >> 32) * SHARE_ALL >> 32) < limit->enforce_ppm;

	if (node->flags & WR_SHADOW || !in_share)
		return WR_COUNTED;
	return node->flags & WR_QUOTA && certain ? WR_QUOTA_CLASS : WR_ENFORCED;
}

static struct wr_ask_need *add_need(struct weir_ask *ask, const struct weir_limit *limit,
				    const struct key_bytes *key, int64_t cost)
{
	struct wr_ask_need *need = &ask->needs[ask->need_count];
	struct weir_table *table = ask->engine->table;

	bool counts = cost > 0 || (cost == 0 && !ask->asks_only && (ask->request || ask->reserves));

	if (limit->algorithm == WEIR_CONCURRENT) {
		cost = counts; /* each request takes one slot */
		ask->settles = true;
	}

	*need = (struct wr_ask_need){.need = {.limit = limit,
					      .key = wr_hash_key(table->secret, key->here.ptr,
								 key->here.len, limit->checked),
					      .cost = cost},
				     .own_cost = cost,
				     .counts = counts,
				     .descriptor = ask->descriptor_count,
				     .same_as = ask->need_count++};
	/* Loads the cache line of the key now, because the decision will need it soon. */
	__builtin_prefetch(&wr_row_first(table, need->need.key)->cell[wr_home(need->need.key)], 1);
	return need;
}

/* Determines whether the table or the central store decides the need. */
static void choose_decider(struct weir_ask *ask, struct wr_ask_need *need, struct key_bytes *key)
{
	if (!ask->engine->central || (need->rule && need->rule->consistency == WR_LOCAL))
		return;
	if (need->rule && need->rule->consistency == WR_EVENTUAL) {
		need->eventual = ask->eventual = true;
		need->exchange = wr_store_exchange_find(ask->engine->table, need->need.key);
		/* If the counter already has an exchange slot (store/exchange.h), fleet_key is not
		 * computed, because a limit with `eventual` needs it only to claim a slot. */
		if (need->exchange < 0 && name_in_fleet(ask, key))
			memcpy(need->fleet_key, key->fleet, sizeof need->fleet_key);
		return;
	}
	need->decided_by = WR_NEED_CENTRAL;
	ask->plain = false;
	if (name_in_fleet(ask, key))
		memcpy(need->fleet_key, key->fleet, sizeof need->fleet_key);
	else
		ask->no_secret = true;
}

/* Returns whether the current entry of `requests:` has already made a need on the same counter,
 * from another reading of the request. */
static bool is_repeated(const struct weir_ask *ask, const struct wr_ask_need *need)
{
	for (const struct wr_ask_need *other = &ask->needs[ask->sibling]; other < need; other++)
		if (other->need.key.tag == need->need.key.tag)
			return true;
	return false;
}

static void add_limits(struct weir_ask *ask, const struct wr_match *match, struct key_bytes *key,
		       int64_t cost, bool certain)
{
	const struct wr_generation *generation = ask->generation;
	uint32_t first = generation->first[match->node->id];
	const struct wr_rules_ban *ban = NULL;

	for (size_t i = 0; i < match->limit_count; i++) {
		const struct wr_rules_limit *limit = &match->limits[i];
		struct wr_ask_need *need = add_need(ask, &limit->limit, key, cost);

		if (__builtin_expect(is_repeated(ask, need), 0)) {
			need->need.cost = need->own_cost = 0;
			need->counts = false;
			ask->plain = ask->leased = false;
		}
		need->rule = limit;
		need->slot = generation->slots[first + i];
		need->policy = first + (uint32_t)i;
		need->class = (uint8_t)class_of(match->node, limit, key, certain);
		ask->plain &= need->class == WR_ENFORCED && cost > 0;
		ask->leased &=
			need->class == WR_ENFORCED && cost > 0 && wr_limiter_lease_fits(limit);
		ask->leases |= wr_limiter_lease_fits(limit);
		ask->has_calendar |= limit->calendar != 0;
		ask->has_replaces |= certain && limit->replace_count;
		choose_decider(ask, need, key);
		if (__builtin_expect(limit->ban != NULL, 0)) {
			if (!ban)
				wr_ask_keep_entries(ask, limit->ban, key->entries, key->count);
			ban = limit->ban;
			ask->bans = true;
		}
		if (__builtin_expect(limit->on_limit == WR_DEFER, 0))
			wr_limiter_defer_set_key(ask, need, key->entries, key->count);
	}
}

static struct wr_ask_descriptor *begin_descriptor(struct weir_ask *ask)
{
	struct wr_ask_descriptor *descriptor = &ask->descriptors[ask->descriptor_count];

	*descriptor = (struct wr_ask_descriptor){.request = ask->request,
						 .outcome = WR_NO_RULE,
						 .first_need = ask->need_count,
						 .certain = true};
	return descriptor;
}

/* Marks the request to be refused, because the limits of a descriptor do not fit into the ask. If
 * the request were admitted, a client could avoid its limits by adding descriptors. */
static int refuse_crowded(struct weir_ask *ask, struct wr_ask_descriptor *descriptor,
			  const struct wr_rules_limit *limit)
{
	ask->crowded = descriptor->crowded = true;
	if (!ask->crowding)
		ask->crowding = limit;
	ask->descriptor_count++;
	return 0;
}

static int add_override(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			const struct weir_limit *override, int64_t cost)
{
	struct wr_ask_descriptor *descriptor = begin_descriptor(ask);
	struct weir_limit *limit = &ask->own[ask->own_count];
	struct wr_ask_need *need;
	struct key_bytes key;

	if (override->size != sizeof *override)
		return WEIR_ELIMIT;
	if (ask->need_count == WEIR_NEEDS_MAX)
		return refuse_crowded(ask, descriptor, NULL);
	*limit = *override;
	if (weir_limit_check(limit, NULL) != 0)
		return WEIR_ELIMIT;
	make_key(ask, NULL, entries, count, &key);
	need = add_need(ask, limit, &key, cost);
	need->slot = ask->generation->slots[ask->generation->first[ask->domain->id]];
	ask->plain &= cost > 0;
	ask->leased = false;
	choose_decider(ask, need, &key);
	ask->own_count++;
	descriptor->outcome = WR_LIMITED;
	descriptor->override = true;
	descriptor->need_count = 1;
	wr_ask_sample(ask, descriptor, entries, count);
	ask->descriptor_count++;
	return 0;
}

static int add_rule(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
		    int64_t cost, bool certain)
{
	struct wr_ask_descriptor *descriptor = begin_descriptor(ask);
	struct key_bytes key;
	struct wr_match match;

	wr_rules_match(ask->generation->rules, ask->domain, entries, count, &match);
	descriptor->node = match.node;
	descriptor->outcome = (uint8_t)match.outcome;
	descriptor->certain = certain;
	if (match.outcome == WR_LIMITED) {
		if (match.limit_count > WEIR_NEEDS_MAX - (size_t)ask->need_count)
			return refuse_crowded(ask, descriptor, match.limits);
		make_key(ask, match.node, entries, count, &key);
		add_limits(ask, &match, &key, cost, certain);
		descriptor->need_count = (uint8_t)match.limit_count;
		wr_ask_sample(ask, descriptor, entries, count);
	} else if (match.outcome == WR_UNLIMITED) {
		ask->has_replaces |= certain && match.limits[0].replace_count;
		ask->plain = ask->leased = false;
	}
	ask->descriptor_count++;
	return 0;
}

/* Adds a descriptor to the record of the ask. A record does not tell whether a descriptor is
 * certain, but this matters to rules with quotas and to rules that replace limits. So a request is
 * not recorded if such a rule matches a descriptor that is not certain. */
static void record_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			      const struct weir_limit *override, int64_t hits, bool certain)
{
	const struct wr_ask_descriptor *added = &ask->descriptors[ask->descriptor_count - 1];
	const struct wr_rules_request *request = ask->request;

	ask->unrecorded |= !certain && added->node && wr_node_exempts(added->node);
	ask->unrecorded |= hits < 0; /* a record does not tell when the units were taken */
	if (added->need_count && !ask->needs[added->first_need].counts) {
		/* If several readings of the request use one counter, own_cost is the cost for the
		 * first of them and 0 for the others. So the delivery, too, counts the cost only
		 * once, and settles it once. */
		hits = 0;
		ask->request = NULL;
	}
	wr_ask_record_descriptor(ask, entries, count, override, hits);
	ask->request = request;
}

static int add_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			  const struct weir_limit *override, int64_t hits, bool certain)
{
	int rc;

	if (ask->descriptor_count == WEIR_DESCRIPTORS_MAX) {
		ask->crowded = true;
		ask->unrecorded = true; /* the record would lack this descriptor */
		return 0;
	}
	if (hits == WEIR_HITS_UNSET)
		hits = ask->hits;
	ask->gives_back |= hits < 0;
	ask->settles |= ask->request != NULL;
	if (!ask->domain) {
		begin_descriptor(ask);
		ask->descriptor_count++;
		return 0;
	}
	rc = override ? add_override(ask, entries, count, override, hits)
		      : add_rule(ask, entries, count, hits, certain);
	if (rc == 0 && __builtin_expect(ask->log_text != NULL, 0))
		wr_ask_keep_descriptor(ask, entries, count);
	if (rc == 0 && ask->record)
		record_descriptor(ask, entries, count, override, hits, certain);
	return rc;
}

int weir_ask_add(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
		 const struct weir_limit *override, int64_t hits)
{
	if (!wr_ask_ok(ask) || (!entries && count) || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	ask->sibling = ask->need_count;
	return add_descriptor(ask, entries, count, override, hits, true);
}

/* Adds a descriptor that an entry of `requests:` has made, with the cost of the entry. Hits that take
 * nothing apply instead: with 0, the host only asks whether the request would be admitted, and with
 * hits below 0, the host gives units back. */
static void add_made(struct weir_ask *ask, const struct wr_rules_descriptor *made)
{
	const struct wr_rules_request *request = made->request;
	uint8_t at = ask->descriptor_count;
	int64_t hits = request->cost && ask->hits > 0 ? made->cost : WEIR_HITS_UNSET;

	if (ask->hits >= 0 && (request->cost || request->count))
		ask->request = request;
	ask->asks_only = ask->hits == 0;
	add_descriptor(ask, made->entries, made->count, NULL, hits, made->certain);
	ask->request = NULL;
	if (ask->descriptor_count > at)
		ask->descriptors[at].cost_note = made->cost_note;
}

int weir_ask_http(struct weir_ask *ask, const struct weir_http_view *view)
{
	char memory[WR_HTTP_MEMORY];
	struct weir_http_view known;
	struct wr_rules_http http;
	int rc;

	if (!wr_ask_ok(ask) || !view || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	if (__builtin_expect(view->size != sizeof *view, 0)) {
		if (!wr_versioned_read(view, &known, sizeof known,
				       offsetof(struct weir_http_view, host)))
			return WEIR_EINVAL;
		view = &known;
	}
	if (!ask->domain)
		return 0;
	rc = wr_rules_http_read(ask->domain, view, memory, sizeof memory, &http);
	if (rc == WEIR_EINVAL)
		return rc;
	ask->allowed |= rc == 0 && http.allowed;
	ask->denied |= http.denied;
	ask->crowded |= rc == WEIR_EMANY;
	ask->unreadable |= rc != 0 && rc != WEIR_EMANY;
	for (uint32_t i = 0; rc == 0 && i < http.count; i++) {
		const struct wr_rules_descriptor *one = &http.descriptors[i];

		if (i == 0 || one->request != one[-1].request)
			ask->sibling = ask->need_count;
		add_made(ask, one);
	}
	return 0;
}

int weir_limit_per_unit(uint32_t requests, int unit, struct weir_limit *limit,
			struct weir_error *error)
{
	return limit ? wr_rules_request_limit(requests, unit, limit, error) : WEIR_EINVAL;
}
