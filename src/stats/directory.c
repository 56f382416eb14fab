/* Contains the functions of the directory, which assigns a slot to each name. Slots are never
 * freed, so the counts of a rule continue if the rule is removed and later loaded again. Called
 * when rules are loaded and by readers. */
#include "stats/stats.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* Number of directory entries that are searched for a name. If all of them belong to other names,
 * the name gets the slot WEIR_STAT_OTHER. */
#define PROBES_MAX 128u
#define LAST_BYTE 119u
#define TAIL_BYTES 9u /* length of the end of a cut name, such as "~1f2e3d4c" */

static const char *const own_names[] = {
#define OWN_NAME(name, text, what) [name] = (text),
	WEIR_STAT_NAMES(OWN_NAME)
#undef OWN_NAME
};

/* Cuts a name that is too long, and appends a part of its hash. Without the hash, two rules whose
 * names begin alike would be one metric series in Prometheus. The name is cut between UTF-8
 * characters, because a label must be valid UTF-8. */
static size_t cut_name(struct weir_str name, uint64_t hash, char text[WR_STAT_NAME_MAX + 1])
{
	size_t len = name.len;

	if (len <= WR_STAT_NAME_MAX) {
		memcpy(text, name.ptr, len);
		return len;
	}
	len = WR_STAT_NAME_MAX - TAIL_BYTES;
	while (len && ((unsigned char)name.ptr[len] & 0xc0) == 0x80)
		len--;
	memcpy(text, name.ptr, len);
	return len + (size_t)snprintf(text + len, TAIL_BYTES + 1, "~%08x", (unsigned)(hash >> 32));
}

/* Writes the name of an entry. Several processes may do this at once, because all of them write the
 * same words. */
static void write_name(struct wr_stat_name *entry, uint64_t hash, struct weir_str name)
{
	uint64_t words[15] = {0};
	size_t len = cut_name(name, hash, (char *)words);

	for (int i = 0; i < 14; i++)
		__atomic_store_n(&entry->words[i], words[i], __ATOMIC_RELAXED);
	((char *)words)[LAST_BYTE] = (char)(len + 1);
	/* Release: paired with the acquire load in wr_stats_name(). A reader that sees the length
	 * also sees the name. */
	__atomic_store_n(&entry->words[14], words[14], __ATOMIC_RELEASE);
}

bool wr_stats_name(const struct wr_stats_map *map, uint32_t slot, char text[WR_STAT_NAME_MAX + 1],
		   struct weir_str *name)
{
	const struct wr_stat_name *entry = &map->names[slot];
	uint64_t words[15];
	uint64_t last = __atomic_load_n(&entry->words[14], __ATOMIC_ACQUIRE);
	size_t len = last >> 56;

	wr_assert(slot < map->name_count);
	if (slot < WEIR_STAT_RULES) {
		*name = (struct weir_str){own_names[slot], strlen(own_names[slot])};
		return true;
	}
	if (len == 0 || len > LAST_BYTE + 1)
		return false;
	for (int i = 0; i < 14; i++)
		words[i] = __atomic_load_n(&entry->words[i], __ATOMIC_RELAXED);
	words[14] = last;
	memcpy(text, words, WR_STAT_NAME_MAX);
	text[len - 1] = '\0';
	*name = (struct weir_str){text, len - 1};
	return true;
}

static uint64_t hash_of(enum wr_stats_name_kind kind, struct weir_str name)
{
	return (XXH3_64bits_withSeed(name.ptr, name.len, kind) & ~7ull) | kind << 1 | 1;
}

struct weir_str wr_stats_name_of(struct weir_str name, char text[WR_STAT_NAME_MAX + 1])
{
	return (struct weir_str){text, cut_name(name, hash_of(WR_NAME_RULE, name), text)};
}

/* Claims the entry if it is free. Returns whether the entry belongs to the name. */
static bool claim_entry(struct wr_stat_name *entry, uint64_t hash, struct weir_str name)
{
	uint64_t seen = __atomic_load_n(&entry->hash, __ATOMIC_ACQUIRE);

	if (seen == 0 && __atomic_compare_exchange_n(&entry->hash, &seen, hash, false,
						     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		seen = hash;
	if (seen != hash)
		return false;
	if (__atomic_load_n(&entry->words[14], __ATOMIC_ACQUIRE) >> 56 == 0) /* no name yet */
		write_name(entry, hash, name);
	return true;
}

uint32_t wr_stats_slot(const struct wr_stats *stats, struct weir_str name)
{
	return wr_stats_slot_of(stats, WR_NAME_RULE, name);
}

uint32_t wr_stats_slot_of(const struct wr_stats *stats, enum wr_stats_name_kind kind,
			  struct weir_str name)
{
	uint64_t hash = hash_of(kind, name);
	uint32_t mask = stats->map.name_count - 1;
	uint32_t probes = mask < PROBES_MAX ? mask : PROBES_MAX;

	if (!stats->usable)
		return WEIR_STAT_OTHER;
	for (uint32_t i = 0; i < probes; i++) {
		uint32_t slot = ((uint32_t)(hash >> 32) + i) & mask;

		if (slot >= WEIR_STAT_RULES && claim_entry(&stats->map.names[slot], hash, name)) {
			__atomic_fetch_or(&stats->map.history.used[slot / 64], 1ull << slot % 64,
					  __ATOMIC_RELAXED);
			return slot;
		}
	}
	return WEIR_STAT_OTHER;
}

static bool same_numbers(const struct wr_rule_numbers *at, const struct wr_rule_numbers *note)
{
	return __atomic_load_n(&at->limit, __ATOMIC_RELAXED) == note->limit &&
	       __atomic_load_n(&at->burst, __ATOMIC_RELAXED) == note->burst &&
	       __atomic_load_n(&at->flags, __ATOMIC_RELAXED) == note->flags &&
	       wr_stats_load(&at->period_ns) == note->period_ns;
}

/* Each field is written atomically, but readers may see fields of two different loads of rules. */
void wr_stats_set_numbers(const struct wr_stats *stats, uint32_t slot,
			  const struct wr_rule_numbers *note)
{
	struct wr_rule_numbers *at;

	wr_assert(!stats->usable || slot < stats->map.name_count);
	if (!stats->usable || slot < WEIR_STAT_RULES)
		return;
	at = &stats->map.history.numbers[slot];
	if (wr_stats_load(&at->since_ns) == 0 || !same_numbers(at, note))
		wr_stats_store(&at->since_ns, note->loaded_ns);
	__atomic_store_n(&at->limit, note->limit, __ATOMIC_RELAXED);
	__atomic_store_n(&at->burst, note->burst, __ATOMIC_RELAXED);
	__atomic_store_n(&at->flags, note->flags, __ATOMIC_RELAXED);
	__atomic_store_n(&at->parent, note->parent, __ATOMIC_RELAXED);
	wr_stats_store(&at->period_ns, note->period_ns);
	wr_stats_store(&at->loaded_ns, note->loaded_ns);
}
