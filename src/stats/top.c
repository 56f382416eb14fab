/* Counts keys in lists of top keys, halves the counts, and reads the lists. The threads that decide
 * count keys, and the tick halves the counts. */
#include "stats/top.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/versioned.h"
#include "stats/history.h"
#include "stats/stats.h"

#define TRIES 4 /* a sample is dropped after this many failed compare-and-swaps */

static uint32_t count_of(uint64_t hi)
{
	return (uint32_t)(hi >> 32);
}

static uint32_t over_of(uint64_t hi)
{
	return (uint32_t)hi;
}

static uint64_t counts(uint32_t count, uint32_t over)
{
	return (uint64_t)count << 32 | over;
}

static uint32_t add_saturated(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* ---- texts ---- */

static uint64_t seal_of(const uint64_t words[WEIR_TOP_TEXT / 8], uint64_t hash, unsigned kind,
			unsigned len)
{
	uint64_t checksum = XXH3_64bits_withSeed(words, WEIR_TOP_TEXT, hash ^ kind << 8 ^ len);

	return (checksum & UINT32_MAX) << 32 | kind << 8 | len;
}

static void write_text(struct wr_top_text *at, uint64_t hash, const struct wr_stats_key_text *text)
{
	uint64_t words[WEIR_TOP_TEXT / 8] = {0};

	memcpy(words, text->bytes, text->len);
	wr_stats_store(&at->hash, 0);
	for (size_t i = 0; i < WEIR_TOP_TEXT / 8; i++)
		wr_stats_store(&at->words[i], words[i]);
	wr_stats_store(&at->seal, seal_of(words, hash, text->kind, text->len));
	__atomic_store_n(&at->hash, hash, __ATOMIC_RELEASE);
}

/* Copies a text into `key`. Returns false if the text does not match its checksum, because it is
 * half written, or because two writers wrote it at the same time. */
static bool read_key_text(const struct wr_top_text *at, uint64_t hash, struct weir_top_key *key)
{
	uint64_t words[WEIR_TOP_TEXT / 8];
	uint64_t seal = wr_stats_load(&at->seal);
	unsigned kind = seal >> 8 & 0xff, len = seal & 0xff;

	for (size_t i = 0; i < WEIR_TOP_TEXT / 8; i++)
		words[i] = wr_stats_load(&at->words[i]);
	if (len > WEIR_TOP_TEXT || kind > WEIR_TOP_CUT || seal != seal_of(words, hash, kind, len))
		return false;
	key->text_kind = kind;
	key->text_len = len;
	memcpy(key->text, words, len);
	return true;
}

static void wipe_text(struct wr_top_text *at)
{
	wr_stats_store(&at->hash, 0);
	wr_stats_store(&at->seal, 0);
	for (size_t i = 0; i < WEIR_TOP_TEXT / 8; i++)
		wr_stats_store(&at->words[i], 0);
}

static struct wr_top_text *find_text(struct wr_top_list *list, uint64_t hash)
{
	for (unsigned i = 0; i < WR_TOP_TEXTS; i++)
		if (__atomic_load_n(&list->text[i].hash, __ATOMIC_ACQUIRE) == hash)
			return &list->text[i];
	return NULL;
}

static uint32_t count_in(const struct wr_top_list *list, uint64_t hash)
{
	for (unsigned i = 0; hash && i < WEIR_TOP_KEYS; i++)
		if (wr_stats_load(&list->entry[i].lo) == hash)
			return count_of(wr_stats_load(&list->entry[i].hi));
	return 0;
}

/* Stores the text of a key; `count` is the count of the key. A list has room for ten texts. If the
 * list is full, the new text replaces the text of the key with the smallest count. If that count is
 * not smaller than `count`, the new text is not stored. */
static void store_text(struct wr_top_list *list, uint64_t hash, uint32_t count,
		       const struct wr_stats_key_text *text)
{
	struct wr_top_text *at = find_text(list, hash);
	struct weir_top_key seen;
	uint32_t least = count;

	if (at) {
		if (!read_key_text(at, hash, &seen))
			write_text(at, hash, text);
		return;
	}
	for (unsigned i = 0; i < WR_TOP_TEXTS && least; i++) {
		uint32_t its = count_in(list, wr_stats_load(&list->text[i].hash));

		if (its < least) {
			least = its;
			at = &list->text[i];
		}
	}
	if (at)
		write_text(at, hash, text);
}

/* ---- counting ---- */

/* Returns the entry of the key. If the key has no entry, returns the entry with the smallest
 * count. */
static struct wr_pair *find_entry(struct wr_top_list *list, uint64_t hash)
{
	struct wr_pair *smallest = &list->entry[0];
	uint32_t least = UINT32_MAX;

	for (unsigned i = 0; i < WEIR_TOP_KEYS; i++) {
		struct wr_pair *entry = &list->entry[i];
		uint32_t count = count_of(wr_stats_load(&entry->hi));

		if (wr_stats_load(&entry->lo) == hash)
			return entry;
		if (count < least) {
			least = count;
			smallest = entry;
		}
	}
	return smallest;
}

void wr_top_add(struct wr_top *top, enum weir_top_list which, uint64_t hash, uint32_t weight,
		const struct wr_stats_key_text *text)
{
	struct wr_top_list *list = &top->list[which];

	wr_assert(which <= WEIR_TOP_REFUSED);
	hash |= hash == 0;
	for (int i = 0; i < TRIES; i++) {
		struct wr_pair *entry = find_entry(list, hash);
		struct wr_pair seen = wr_pair_load(entry);
		uint32_t before = count_of(seen.hi);
		uint32_t over = seen.lo == hash ? over_of(seen.hi) : before;
		struct wr_pair next = {hash, counts(add_saturated(before, weight), over)};

		if (!wr_pair_cas(entry, &seen, next))
			continue;
		__atomic_fetch_add(&top->total[which], weight, __ATOMIC_RELAXED);
		if (text && text->kind != WEIR_TOP_NO_TEXT)
			store_text(list, hash, count_of(next.hi), text);
		return;
	}
}

/* ---- halving and removing ---- */

/* Halves the counts of a list. Returns the amount by which the sum of the counts became smaller. */
static uint64_t fade_list(struct wr_top_list *list)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < WEIR_TOP_KEYS; i++) {
		struct wr_pair seen = wr_pair_load(&list->entry[i]);

		for (int try = 0; try < TRIES; try++) {
			uint32_t count = count_of(seen.hi) / 2;
			struct wr_pair next = {count ? seen.lo : 0,
					       counts(count, over_of(seen.hi) / 2)};
			uint32_t before = count_of(seen.hi);

			if (wr_pair_cas(&list->entry[i], &seen, next)) {
				lost += before - count;
				break;
			}
		}
	}
	for (unsigned i = 0; i < WR_TOP_TEXTS; i++)
		if (count_in(list, wr_stats_load(&list->text[i].hash)) == 0)
			wipe_text(&list->text[i]);
	return lost;
}

void wr_top_fade(struct wr_top *top)
{
	for (int i = 0; i < 2; i++) {
		uint64_t lost = fade_list(&top->list[i]);
		uint64_t total = wr_stats_load(&top->total[i]);
		uint32_t shift = __atomic_load_n(&top->noise_shift[i], __ATOMIC_RELAXED);

		__atomic_fetch_sub(&top->total[i], lost < total ? lost : total, __ATOMIC_RELAXED);
		/* If one decision in w is sampled, a count c has the variance w · c. Half of the
		 * count has a quarter of this variance: w · c / 4 = (w / 2) · (c / 2). This is the
		 * variance of the count c / 2 if one decision in w / 2 is sampled. So the shift,
		 * which is log2 of w, is reduced by 1. */
		__atomic_store_n(&top->noise_shift[i], shift ? shift - 1 : 0, __ATOMIC_RELAXED);
	}
}

void wr_top_wipe_texts(struct wr_top *top)
{
	for (int i = 0; i < 2; i++)
		for (unsigned j = 0; j < WR_TOP_TEXTS; j++)
			wipe_text(&top->list[i].text[j]);
}

void wr_stats_wipe_texts(const struct wr_stats *stats)
{
	for (uint32_t i = 1; stats->usable && i < stats->map.history.series_count; i++)
		wr_top_wipe_texts(&stats->map.history.tops[i - 1]);
}

void wr_top_clear(struct wr_top *top)
{
	wr_top_wipe_texts(top);
	for (int i = 0; i < 2; i++) {
		for (unsigned j = 0; j < WEIR_TOP_KEYS; j++) {
			wr_stats_store(&top->list[i].entry[j].lo, 0);
			wr_stats_store(&top->list[i].entry[j].hi, 0);
		}
		wr_stats_store(&top->total[i], 0);
		__atomic_store_n(&top->noise_shift[i], 0, __ATOMIC_RELAXED);
	}
}

/* ---- reading ---- */

static uint64_t square_root(uint64_t n)
{
	uint64_t low = 0, high = 1ull << 32;

	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;

		if (middle * middle <= n)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Returns a bound on the sampling error of a count: three standard deviations. If one decision in w
 * is sampled and k samples were drawn, the bound is w (4.5 + 3 √(k + 2.25)). So there were at most
 * w k decisions plus the bound. */
static uint64_t noise_of(uint64_t count, uint32_t shift)
{
	uint64_t samples = count >> shift;

	return shift ? (9 + 3 * square_root(4 * samples + 9)) << shift >> 1 : 0;
}

/* Inserts a key by its count. A full list drops its last key. Returns the new length. */
static size_t insert_key(struct weir_top_key *keys, size_t count, size_t max,
			 const struct weir_top_key *key)
{
	size_t at = count < max ? count : max;

	while (at > 0 && keys[at - 1].count < key->count) {
		if (at < max)
			keys[at] = keys[at - 1];
		at--;
	}
	if (at < max)
		keys[at] = *key;
	return count < max ? count + 1 : max;
}

/* Returns entry `i` with the counts of later entries of the same key added. The count is 0 if an
 * earlier entry has the same key. */
static struct weir_top_key merge_entries(const struct wr_pair entries[WEIR_TOP_KEYS], unsigned i)
{
	struct weir_top_key key = {.hash = entries[i].lo};

	for (unsigned j = 0; j < WEIR_TOP_KEYS && key.hash; j++) {
		if (entries[j].lo != key.hash)
			continue;
		if (j < i)
			return (struct weir_top_key){0};
		key.count += count_of(entries[j].hi);
		key.over += over_of(entries[j].hi);
	}
	return key;
}

static size_t read_list(struct wr_top *top, enum weir_top_list which, struct weir_top_key *keys,
			size_t max)
{
	struct wr_pair entries[WEIR_TOP_KEYS];
	uint32_t shift = __atomic_load_n(&top->noise_shift[which], __ATOMIC_RELAXED);
	size_t count = 0;

	for (unsigned i = 0; i < WEIR_TOP_KEYS; i++)
		entries[i] = wr_pair_load(&top->list[which].entry[i]);
	for (unsigned i = 0; i < WEIR_TOP_KEYS; i++) {
		struct weir_top_key key = merge_entries(entries, i);

		key.noise = noise_of(key.count, shift < WR_TRACK_SHIFT_MAX ? shift : 0);
		if (key.count)
			count = insert_key(keys, count, max, &key);
	}
	for (size_t i = 0; i < count; i++) {
		const struct wr_top_text *text = find_text(&top->list[which], keys[i].hash);

		if (text)
			read_key_text(text, keys[i].hash, &keys[i]);
	}
	return count;
}

int weir_top(struct weir_table *table, uint32_t slot, enum weir_top_list list,
	     struct weir_top_key *keys, size_t max, struct weir_top_info *info)
{
	struct weir_top_info known, *out = NULL;
	struct wr_stats_map map;
	uint32_t track, series;
	struct wr_top *top;

	if (info)
		out = wr_versioned_target(info, &known, sizeof known,
					  offsetof(struct weir_top_info, total));
	if (!table || (!keys && max) || list > WEIR_TOP_REFUSED || (info && !out))
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	if (slot >= map.name_count)
		return WEIR_ENOENT;
	track = __atomic_load_n(&map.history.track[slot], __ATOMIC_ACQUIRE);
	series = wr_track_series(track);
	if (series == 0 || series >= map.history.series_count)
		return WEIR_ENOENT;
	top = &map.history.tops[series - 1];
	if (info) {
		*out = (struct weir_top_info){.size = sizeof *out,
					      .every = 1u << wr_track_shift(track, list),
					      .total = wr_stats_load(&top->total[list])};
		wr_versioned_write(info, out, sizeof known);
	}
	return (int)read_list(top, list, keys, max);
}
