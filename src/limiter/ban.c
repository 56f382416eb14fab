/* Counts refusals of keys and decides when a key is banned, and for how long. The ban itself is
 * written by ban_write.c. */
#include "limiter/ban.h"

#include "base/assert.h"
#include "store/store.h"

#define SECOND_NS 1000000000ull
#define DAY_S 86400u
#define LEVEL_MOST 255u

/* A cell with the last ban of a key is evicted later than the cells of most keys, but earlier than
 * a ban in force: without the cell, the next ban has level 1. */
#define HARM (WR_HARM_REFUSED | WR_HARM_MOST / 2)

static const uint64_t history_bits = 0x6c6173742062616e, shadow_bits = 0x73686164206f776e;

/* `span` is the start and the end of the last ban, as they are in its cell, or 0. So the refusals
 * before and after a ban have different keys, and the count begins at 0 when a ban starts. A process
 * that counts a refusal while another process starts a ban counts it under the old key. */
static struct wr_key refusals_key(const struct wr_rules_ban *ban, struct wr_key key, bool shadow,
				  uint64_t span)
{
	return (struct wr_key){key.tag ^ ban->refusals.checked ^ span * 0x9e3779b97f4a7c15 ^
			       (shadow ? shadow_bits : 0)};
}

static struct wr_key last_key(struct wr_key key, bool shadow)
{
	return (struct wr_key){key.tag ^ history_bits ^ (shadow ? shadow_bits : 0)};
}

uint64_t wr_limiter_ban_duration(const struct wr_rules_ban *ban, uint32_t level)
{
	uint64_t ns = ban->for_ns;

	wr_assert(level > 0);
	/* No overflow: rules/ban.c limits max_ns to a year and `grow` to 100. */
	for (uint32_t i = 1; i < level && ns < ban->max_ns && ban->grow > 1; i++)
		ns *= ban->grow;
	return ns < ban->max_ns ? ns : ban->max_ns;
}

/* s0 of the cell contains start and end, 32 bits each, and s1 the level. */
static struct wr_limiter_ban_last last_of(struct wr_pair hot, uint32_t now_s)
{
	struct wr_limiter_ban_last last = {(uint32_t)(hot.lo >> 32), (uint32_t)hot.lo,
					   wr_hot_s1(hot)};

	if (last.level == 0 || last.level > LEVEL_MOST ||
	    (last.until_s < now_s && now_s - last.until_s >= DAY_S))
		return (struct wr_limiter_ban_last){0};
	return last;
}

/* Returns the content of the cell of the key's last ban, or zeros. */
static struct wr_pair read_last(struct weir_table *table, struct wr_key key, bool shadow)
{
	struct wr_spot spot;

	if (!wr_table_find_any(table, last_key(key, shadow), &spot))
		return (struct wr_pair){0};
	return spot.hot;
}

struct wr_limiter_ban_last wr_limiter_ban_last(struct weir_table *table, struct wr_key key,
					       bool shadow, uint32_t now_s)
{
	return last_of(read_last(table, key, shadow), now_s);
}

static struct wr_limiter_ban_last next_ban(const struct wr_rules_ban *ban,
					   struct wr_limiter_ban_last last, uint64_t now_ns)
{
	struct wr_limiter_ban_last next = {.since_s = wr_seconds(now_ns)};

	next.level = last.level < LEVEL_MOST ? last.level + 1 : LEVEL_MOST;
	next.until_s = wr_seconds_up(now_ns + wr_limiter_ban_duration(ban, next.level));
	if (next.until_s == WR_FOR_GOOD)
		next.until_s--;
	return next;
}

static void raise_expiry(struct wr_cell *cell, uint32_t until_s)
{
	wr_cell_raise_fresh_s(cell, until_s < UINT32_MAX - DAY_S ? until_s + DAY_S : UINT32_MAX);
}

/* Writes the next ban to the cell of the key's last ban. The compare-and-swap decides which of
 * several racing refusals starts the ban. If the cell does not contain `span` any more, the refusals
 * were counted before another ban or before a release, and start no ban. */
static enum wr_limiter_ban_step start_ban(struct weir_table *table, const struct wr_rules_ban *ban,
					  struct wr_key key, bool shadow, uint64_t span,
					  uint64_t now_ns, struct wr_limiter_ban_last *last)
{
	uint32_t now_s = wr_seconds(now_ns);
	struct wr_limiter_ban_last next;
	struct wr_spot spot;

	do {
		wr_table_claim(table, last_key(key, shadow), WR_KIND_RESET, now_s, &spot);
		*last = last_of(spot.hot, now_s);
		if (last->until_s > now_s)
			return WR_BAN_RUNNING;
		if (spot.hot.lo != span)
			return WR_BAN_NOT_YET;
		next = next_ban(ban, *last, now_ns);
		raise_expiry(spot.cell, next.until_s);
	} while (!wr_pair_cas(&spot.cell->hot, &spot.hot,
			      wr_hot_with(spot.hot, (uint64_t)next.since_s << 32 | next.until_s,
					  next.level, HARM)));
	*last = next;
	return WR_BAN_STARTED;
}

enum wr_limiter_ban_step wr_limiter_ban_count(struct weir_table *table,
					      const struct wr_rules_ban *ban, struct wr_key key,
					      bool shadow, uint64_t now_ns,
					      struct wr_limiter_ban_last *last)
{
	struct wr_pair before = read_last(table, key, shadow);
	struct weir_decision decision;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	*last = last_of(before, wr_seconds(now_ns));
	if (last->until_s > wr_seconds(now_ns))
		return WR_BAN_RUNNING;
	if (ban->after > 1) {
		wr_store_take(table, &ban->refusals, refusals_key(ban, key, shadow, before.lo), 1,
			      now_ns, &decision);
		/* A log that does not fit in the table refuses too, but the client is not the
		 * cause. */
		if (decision.admitted || decision.full)
			return WR_BAN_NOT_YET;
	}
	return start_ban(table, ban, key, shadow, before.lo, now_ns, last);
}

uint32_t wr_limiter_ban_refusals(struct weir_table *table, const struct wr_rules_ban *ban,
				 struct wr_key key, bool shadow, uint64_t now_ns)
{
	uint64_t span = read_last(table, key, shadow).lo;
	struct weir_decision decision;

	if (ban->after <= 1)
		return 0;
	wr_store_decide(table, &ban->refusals, refusals_key(ban, key, shadow, span), 0, now_ns,
			WR_LOOK, &decision);
	return decision.limit - decision.remaining;
}

/* Writes the last ban to its cell, unless a ban that ends later is there already. The level 0 clears
 * the cell. */
static void write_last(struct weir_table *table, struct wr_key key, bool shadow,
		       const struct wr_limiter_ban_last *last, uint32_t now_s)
{
	struct wr_pair hot;
	struct wr_spot spot;

	do {
		if (last->level)
			wr_table_claim(table, last_key(key, shadow), WR_KIND_RESET, now_s, &spot);
		else if (!wr_table_find_any(table, last_key(key, shadow), &spot))
			return;
		if (last->level && last_of(spot.hot, now_s).until_s > last->until_s)
			return;
		raise_expiry(spot.cell, last->until_s);
		hot = wr_hot_with(spot.hot, (uint64_t)last->since_s << 32 | last->until_s,
				  last->level, last->level ? HARM : 0);
	} while (!wr_pair_cas(&spot.cell->hot, &spot.hot, hot));
}

void wr_limiter_ban_note_last(struct weir_table *table, struct wr_key key,
			      const struct wr_limiter_ban_last *last, uint32_t now_s)
{
	write_last(table, key, false, last, now_s);
}

/* The last ban is cleared first, so that the refusals from before the first ban are cleared, which
 * count again without a last ban. */
void wr_limiter_ban_clear(struct weir_table *table, const struct wr_rules_ban *ban,
			  struct wr_key key, bool shadow, uint64_t now_ns)
{
	uint64_t span;

	write_last(table, key, shadow, &(struct wr_limiter_ban_last){0}, wr_seconds(now_ns));
	span = read_last(table, key, shadow).lo;
	if (ban && ban->after > 1)
		wr_store_reset(table, &ban->refusals, refusals_key(ban, key, shadow, span), now_ns);
}
