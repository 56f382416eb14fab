/* Stores the number of deferred requests of each key. The deliverer writes the numbers. The limiter
 * reads them when it decides on limits that can defer requests. */
#include "table/deferred.h"

#include <string.h>

#include "base/assert.h"

struct deferred_section {
	struct wr_pair *entries;
	uint64_t count;
};

static struct deferred_section section_of(const struct weir_table *table)
{
	struct wr_extent at = table->header.sections[WR_SECTION_DEFERRED];

	return (struct deferred_section){(struct wr_pair *)(table->base + at.offset),
					 at.bytes / sizeof(struct wr_pair)};
}

/* Returns the tag of a key. It is never 0, because 0 marks an entry that was never used. */
static uint64_t tag_of(const uint8_t key[WR_DEFERRED_KEY])
{
	uint64_t tag;

	memcpy(&tag, key, sizeof tag);
	return tag ? tag : 1;
}

static struct wr_pair *near_home(struct deferred_section in, uint64_t tag, uint64_t i)
{
	uint64_t home = (uint64_t)((unsigned __int128)tag * in.count >> 64);

	return in.entries + (home + i) % in.count;
}

static uint64_t neighbours_of(struct deferred_section in)
{
	return in.count < WR_DEFERRED_NEAR ? in.count : WR_DEFERRED_NEAR;
}

/* Returns the entry with this tag, or NULL. */
static struct wr_pair *find_entry(struct deferred_section in, uint64_t tag)
{
	for (uint64_t i = 0; i < neighbours_of(in); i++) {
		struct wr_pair *entry = near_home(in, tag, i);

		/* Acquire: paired with the swaps in insert_entry() and set_entry(), so that the
		 * count that is read next is not older than the tag. */
		if (__atomic_load_n(&entry->lo, __ATOMIC_ACQUIRE) == tag)
			return entry;
	}
	return NULL;
}

/* Takes over an entry whose count is 0. Returns false if none of the WR_DEFERRED_NEAR entries of
 * the key has the count 0. */
static bool insert_entry(struct deferred_section in, struct wr_pair wanted)
{
	for (uint64_t i = 0; i < neighbours_of(in); i++) {
		struct wr_pair *entry = near_home(in, wanted.lo, i);
		struct wr_pair seen = wr_pair_load(entry);

		while ((uint32_t)seen.hi == 0)
			if (wr_pair_cas(entry, &seen, wanted))
				return true;
	}
	return false;
}

static bool set_entry(struct deferred_section in, uint64_t tag, uint32_t count, uint32_t now_s)
{
	struct wr_pair wanted = {tag, (uint64_t)now_s << 32 | count};
	struct wr_pair *entry = find_entry(in, tag);
	struct wr_pair seen;

	if (!entry)
		return count == 0 || insert_entry(in, wanted);
	seen = wr_pair_load(entry);
	while (seen.lo == tag)
		if (wr_pair_cas(entry, &seen, wanted))
			return true;
	/* Another key took the entry over meanwhile. */
	return count == 0 || insert_entry(in, wanted);
}

bool wr_deferred_set(struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY], uint32_t count,
		     uint32_t now_s)
{
	wr_assert_magic(table, WR_TABLE_MAGIC);
	return set_entry(section_of(table), tag_of(key), count, now_s);
}

static uint32_t count_of(struct deferred_section in, uint64_t tag)
{
	const struct wr_pair *entry = find_entry(in, tag);
	struct wr_pair seen = entry ? wr_pair_load(entry) : (struct wr_pair){0, 0};

	return seen.lo == tag ? (uint32_t)seen.hi : 0;
}

uint32_t wr_deferred_count(const struct weir_table *table, const uint8_t key[WR_DEFERRED_KEY])
{
	return count_of(section_of(table), tag_of(key));
}

void wr_deferred_sweep(struct weir_table *table, uint32_t before_s)
{
	struct deferred_section in = section_of(table);

	wr_assert_magic(table, WR_TABLE_MAGIC);
	for (uint64_t i = 0; i < in.count; i++) {
		struct wr_pair seen = wr_pair_load(&in.entries[i]);

		while ((uint32_t)seen.hi && (uint32_t)(seen.hi >> 32) < before_s &&
		       !wr_pair_cas(&in.entries[i], &seen, (struct wr_pair){seen.lo, 0}))
			;
	}
}

void wr_deferred_import(struct weir_table *to, const struct weir_table *from)
{
	struct deferred_section target = section_of(to), source = section_of(from);

	wr_assert(to != from);
	wr_assert_magic(to, WR_TABLE_MAGIC);
	wr_assert_magic(from, WR_TABLE_MAGIC);
	for (uint64_t i = 0; i < target.count; i++) {
		struct wr_pair seen = wr_pair_load(&target.entries[i]);

		if ((uint32_t)seen.hi && count_of(source, seen.lo) == 0)
			set_entry(target, seen.lo, 0, 0);
	}
	for (uint64_t i = 0; i < source.count; i++) {
		struct wr_pair seen = wr_pair_load(&source.entries[i]);

		if ((uint32_t)seen.hi)
			set_entry(target, seen.lo, (uint32_t)seen.hi, (uint32_t)(seen.hi >> 32));
	}
}
