/* Ends all bans that an operator's conditions select. */
#include "limiter/release.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "limiter/ban.h"
#include "limiter/engine.h"
#include "limiter/fleet.h"
#include "table/note.h"
#include "table/override.h"

#define V4_BITS 32u
#define V6_BITS 128u
#define V4_OFFSET_BITS (V6_BITS - V4_BITS) /* IPv4 addresses are ::ffff:a.b.c.d in wr_address */

/* ---- selecting ---- */

bool wr_release_address(struct wr_release *release, struct weir_str text)
{
	struct wr_address_range range;
	unsigned bits;

	if (wr_address_prefix_parse(text, &range, &bits) == WR_ADDRESS_PREFIX_BAD)
		return false;
	release->has_address = true;
	release->address = range.low;
	release->bits = (uint8_t)bits;
	return true;
}

bool wr_release_kind(struct wr_release *release, struct weir_str text)
{
	static const struct {
		const char *name;
		uint8_t on, off;
	} kinds[] = {
		{"automatic", WR_BAN_AUTOMATIC, WR_BAN_SHADOW},
		{"operator", 0, WR_BAN_AUTOMATIC | WR_BAN_SHADOW},
		{"shadow", WR_BAN_SHADOW, 0},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (wr_str_equal(text, wr_str(kinds[i].name))) {
			release->flags_on = kinds[i].on;
			release->flags_off = kinds[i].off;
			return true;
		}
	return false;
}

static int read_condition(struct wr_release *release, const struct weir_entry *entry,
			  struct weir_error *error)
{
	if (wr_str_equal(entry->key, WR_STR("all")))
		return 0;
	if (wr_str_equal(entry->key, WR_STR("rule")) && entry->value.len) {
		release->rule = entry->value;
		return 0;
	}
	if (wr_str_equal(entry->key, WR_STR("address")))
		return wr_release_address(release, entry->value)
			       ? 0
			       : wr_error(error, WEIR_EINVAL,
					  "'%.*s' is neither an address nor a prefix such as "
					  "192.0.2.0/24",
					  (int)wr_str_first(entry->value, 64).len,
					  entry->value.ptr);
	if (wr_str_equal(entry->key, WR_STR("kind")) && wr_release_kind(release, entry->value))
		return 0;
	return wr_error(error, WEIR_EINVAL,
			"the kind of a ban has to be automatic, operator or shadow");
}

int wr_release_read(struct wr_release *release, const struct weir_target *conditions,
		    struct weir_error *error)
{
	*release = (struct wr_release){0};
	for (size_t i = 0; i < conditions->count; i++)
		if (read_condition(release, &conditions->entries[i], error) < 0)
			return WEIR_EINVAL;
	return 0;
}

/* Returns whether the first `bits` bits of both addresses are equal. */
static bool begin_alike(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

/* Two networks overlap if they are equal up to the length of the shorter prefix. */
static bool overlaps(const struct wr_release *release, const struct wr_ban *ban)
{
	bool is_v4 = wr_address_is_v4(&release->address);
	const uint8_t *bytes = release->address.bytes + (is_v4 ? V4_OFFSET_BITS / 8 : 0);
	unsigned most = is_v4 ? V4_BITS : V6_BITS;
	unsigned bits = ban->prefix_bits < release->bits ? ban->prefix_bits : release->bits;

	if (ban->family != (is_v4 ? 4 : 6))
		return false;
	return begin_alike(bytes, ban->address, bits < most ? bits : most);
}

bool wr_release_means(const struct wr_release *release, const struct wr_ban *ban)
{
	if ((ban->flags & release->flags_on) != release->flags_on ||
	    ban->flags & release->flags_off)
		return false;
	if (release->rule.len && wr_ban_rule_hash(release->rule) != ban->rule)
		return false;
	if (release->begun_s && ban->since_s > release->begun_s)
		return false;
	return !release->has_address || overlaps(release, ban);
}

/* ---- ending ---- */

/* The `ban` of a limit, by the hash of the limit's name in statistics. */
struct rule_ban {
	uint64_t rule;
	const struct wr_rules_ban *ban;
};

struct releaser {
	const struct wr_release *release;
	struct weir_table *table;
	struct rule_ban *rules; /* sorted by `rule` */
	size_t rule_count;
	uint64_t now_ns;
	int ended;
};

static int compare_rules(const void *a, const void *b)
{
	uint64_t left = ((const struct rule_ban *)a)->rule;
	uint64_t right = ((const struct rule_ban *)b)->rule;

	return left < right ? -1 : left > right;
}

/* Lists the limits with `ban` of the rules in force. Without memory the list stays empty, and the
 * refusals of released keys are not cleared. */
static void list_rules(struct releaser *releaser, const struct weir_rules *rules)
{
	size_t room = rules ? rules->limit_count : 0;
	const struct wr_node *node = rules ? rules->first_domain : NULL;
	char text[WR_STAT_NAME_MAX + 1];

	releaser->rules = room ? malloc(room * sizeof *releaser->rules) : NULL;
	for (; node && releaser->rules; node = wr_limiter_node_next(node))
		for (unsigned i = 0; i < node->limit_count && releaser->rule_count < room; i++)
			if (node->limits[i].ban)
				releaser->rules[releaser->rule_count++] =
					(struct rule_ban){wr_ban_rule_hash(wr_stats_name_of(
								  node->limits[i].stat, text)),
							  node->limits[i].ban};
	if (releaser->rule_count)
		qsort(releaser->rules, releaser->rule_count, sizeof *releaser->rules,
		      compare_rules);
}

static const struct wr_rules_ban *rule_of(const struct releaser *releaser, const struct wr_ban *ban)
{
	struct rule_ban wanted = {.rule = ban->rule};
	const struct rule_ban *found = NULL;

	if (releaser->rule_count)
		found = bsearch(&wanted, releaser->rules, releaser->rule_count,
				sizeof *releaser->rules, compare_rules);
	return found ? found->ban : NULL;
}

/* Ends the ban in the key's override cell, which decisions read. The last ban is cleared first, as
 * in wr_limiter_ban_set(). If a ban is in force, the key has a cell, so the kind of a new cell does
 * not matter. */
static void lift(const struct releaser *releaser, const struct wr_ban *ban)
{
	static const struct wr_override_change end = {.ban = true};
	struct weir_table *table = releaser->table;
	uint32_t now_s = wr_seconds(releaser->now_ns);

	wr_limiter_ban_clear(table, rule_of(releaser, ban), ban->key, false, releaser->now_ns);
	if (wr_override_find(table, ban->key, now_s).banned_until_s &&
	    !wr_override_any(wr_override_change(table, ban->key, 0, &end, now_s)))
		wr_note_forget(table, ban->key);
}

static void lift_shadow(const struct releaser *releaser, const struct wr_ban *ban)
{
	wr_limiter_ban_clear(releaser->table, rule_of(releaser, ban),
			     wr_limiter_shadow_key(ban->key), true, releaser->now_ns);
	wr_note_forget(releaser->table, ban->key);
}

static int release_one(void *context, const struct wr_ban *ban)
{
	struct releaser *releaser = context;

	if (!wr_release_means(releaser->release, ban))
		return 0;
	if (ban->flags & WR_BAN_SHADOW)
		lift_shadow(releaser, ban);
	else if (!(ban->flags & WR_BAN_BARE))
		lift(releaser, ban);
	wr_ban_forget(releaser->table, ban->key);
	releaser->ended++;
	return 0;
}

/* ---- bans that are not in the list ---- */

struct unlisted {
	struct weir_table *table;
	uint32_t now_s;
	wr_ban_fn fn;
	void *context;
};

/* Returns what the table contains about a ban besides its entry in the list. */
static struct wr_ban ban_of(const struct unlisted *in, struct wr_key key, uint32_t until_s)
{
	struct wr_limiter_ban_last last = wr_limiter_ban_last(in->table, key, false, in->now_s);
	struct wr_ban ban = {.key = key, .since_s = UINT32_MAX, .until_s = until_s};
	struct wr_table_text_note note;

	if (last.until_s == until_s) {
		ban.flags = WR_BAN_AUTOMATIC;
		ban.since_s = last.since_s;
		ban.level = (uint8_t)last.level;
	}
	if (wr_note_read(in->table, key, &note) && note.rule_len)
		ban.rule = wr_ban_rule_hash((struct weir_str){note.rule, note.rule_len});
	return ban;
}

static int pass_unlisted(void *context, struct wr_key key, struct wr_override override)
{
	const struct unlisted *in = context;
	struct wr_ban ban;

	if (override.banned_until_s == 0 || wr_ban_read(in->table, key, in->now_s, &ban))
		return 0;
	ban = ban_of(in, key, override.banned_until_s);
	return in->fn(in->context, &ban);
}

/* Calls `fn` for each ban in force that is not in the list of bans. Reads the whole table, unless
 * every ban is in the list. */
static void each_unlisted(struct weir_table *table, uint32_t now_s, wr_ban_fn fn, void *context)
{
	struct unlisted in = {table, now_s, fn, context};

	if (__atomic_load_n(&table->tallies->ban_unlisted, __ATOMIC_RELAXED))
		wr_overrides_each(table, now_s, pass_unlisted, &in);
}

static int count_one(void *context, const struct wr_ban *ban)
{
	(void)ban;
	++*(uint64_t *)context;
	return 0;
}

uint64_t wr_release_unlisted(struct weir_table *table, uint32_t now_s)
{
	uint64_t count = 0;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	each_unlisted(table, now_s, count_one, &count);
	return count;
}

int wr_release_bans(struct weir_engine *engine, const struct wr_release *release, uint64_t now_ns)
{
	struct releaser releaser = {.release = release, .table = engine->table, .now_ns = now_ns};
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *generation;

	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	if (now_ns > INT64_MAX)
		return WEIR_ETIME;
	generation = wr_generation_hold(engine, shard);
	list_rules(&releaser, generation->rules);
	wr_bans_each(engine->table, wr_seconds(now_ns), release_one, &releaser);
	each_unlisted(engine->table, wr_seconds(now_ns), release_one, &releaser);
	wr_generation_release(engine, generation, shard);
	free(releaser.rules);
	return releaser.ended;
}
