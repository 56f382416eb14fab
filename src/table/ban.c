/* Writes, reads and removes the bans of the list. Called by the limiter when it bans a key, by
 * operators' commands, by weir shield, and by the import of a table.
 *
 * The list is a hash table. A cell is claimed by a compare-and-swap of its head, which contains the
 * tag of the key and a checksum of the words that follow. Then the words are written one by one. So
 * a half-written cell has a wrong checksum and counts as no ban. Another key can take such a cell
 * after TORN_S seconds, because its writer was killed. */
#include "table/ban.h"

#include <string.h>

#include "base/assert.h"
#include "table/note.h"
#include "table/override.h"

/* Number of cells in which the ban of a key can be: first a row of neighbours, then cells all over
 * the list. A list with only a row would be full for some keys at two thirds of its cells; with the
 * other cells it is at more than 95 %. The row comes first, because its cells are read faster. */
#define ROW 64u
#define PLACES 256u
#define TRIES 64u /* number of times that a write starts anew because of other writers */
#define TORN_S 60u
#define WORDS 6u

struct wr_bans_head {
	uint64_t changes; /* see wr_ban_changes() */
	uint64_t spare[7];
	struct wr_shield_state shield;
	uint64_t reserved[14];
};

/* lo: tag of the key, or 0 if the cell is free; hi: time of the write in seconds, and checksum of
 * the words, 32 bits each. */
struct wr_ban_cell {
	struct wr_pair head;
	uint64_t words[WORDS];
};

_Static_assert(sizeof(struct wr_bans_head) == 256, "four cache lines, with room for more fields");
_Static_assert(sizeof(struct wr_ban_cell) == 64, "one cache line");

struct list {
	struct wr_bans_head *head; /* NULL if the section has no room for it */
	struct wr_ban_cell *cells;
	uint64_t count;
};

static struct list list_of(const struct weir_table *table)
{
	uint64_t bytes = table->header.sections[WR_SECTION_BANS].bytes;
	uint8_t *at = wr_section(table, WR_SECTION_BANS);
	struct list list = {0};

	if (bytes < sizeof *list.head)
		return list;
	list.head = (struct wr_bans_head *)at;
	list.cells = (struct wr_ban_cell *)(at + sizeof *list.head);
	list.count = (bytes - sizeof *list.head) / sizeof *list.cells;
	return list;
}

static uint64_t place_count(struct list in)
{
	return in.count < ROW ? in.count : PLACES;
}

static uint64_t scale(uint64_t hash, uint64_t count)
{
	return (uint64_t)((unsigned __int128)hash * count >> 64);
}

/* Returns the cell number i in which the ban of the key can be. Two numbers can have the same
 * cell. */
static struct wr_ban_cell *place(struct list in, uint64_t tag, uint64_t i)
{
	uint64_t mixed = (tag ^ i * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

	if (i < ROW)
		return in.cells + (scale(tag, in.count) + i) % in.count;
	return in.cells + scale(mixed ^ mixed >> 32, in.count);
}

static void to_words(const struct wr_ban *ban, uint64_t words[WORDS])
{
	words[0] = ban->rule;
	words[1] = (uint64_t)ban->since_s << 32 | ban->until_s;
	memcpy(words + 2, ban->address, sizeof ban->address);
	words[4] = (uint64_t)ban->family | (uint64_t)ban->prefix_bits << 8 |
		   (uint64_t)ban->flags << 16 | (uint64_t)ban->level << 24;
	words[5] = ban->limit;
}

/* Returns the ban, whose fields have any values if the words are damaged. */
static struct wr_ban from_words(uint64_t tag, const uint64_t words[WORDS])
{
	struct wr_ban ban = {.key = {tag},
			     .rule = words[0],
			     .limit = words[5],
			     .since_s = (uint32_t)(words[1] >> 32),
			     .until_s = (uint32_t)words[1],
			     .family = (uint8_t)words[4],
			     .prefix_bits = (uint8_t)(words[4] >> 8),
			     .flags = (uint8_t)(words[4] >> 16),
			     .level = (uint8_t)(words[4] >> 24)};

	memcpy(ban.address, words + 2, sizeof ban.address);
	return ban;
}

static uint32_t checksum_of(uint64_t tag, const uint64_t words[WORDS])
{
	return (uint32_t)XXH3_64bits_withSeed(words, WORDS * sizeof *words, tag);
}

/* A family and a prefix length that a reader can use without a check of its own. */
static bool is_sound(const struct wr_ban *ban)
{
	unsigned most = ban->family == 4 ? 32 : ban->family == 6 ? 128 : 0;

	return (ban->family == 0 || most != 0) && ban->prefix_bits <= most;
}

/* Copies the cell. Returns true if its ban is whole. *head is the head that belongs to the copy. */
static bool read_cell(const struct wr_ban_cell *cell, struct wr_pair *head, struct wr_ban *ban)
{
	uint64_t words[WORDS];

	*head = wr_pair_load(&cell->head);
	/* Acquire: paired with the release in write_words(). */
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = __atomic_load_n(&cell->words[i], __ATOMIC_ACQUIRE);
	*ban = from_words(head->lo, words);
	return head->lo != 0 && (uint32_t)head->hi == checksum_of(head->lo, words) && is_sound(ban);
}

static void write_words(struct wr_ban_cell *cell, const uint64_t words[WORDS])
{
	for (unsigned i = 0; i < WORDS; i++)
		__atomic_store_n(&cell->words[i], words[i], __ATOMIC_RELEASE);
}

static void raise_changes(struct list in)
{
	__atomic_fetch_add(&in.head->changes, 1, __ATOMIC_RELEASE);
}

/* Returns the first cell with this tag, or NULL. */
static struct wr_ban_cell *find_cell(struct list in, uint64_t tag)
{
	for (uint64_t i = 0; i < place_count(in); i++) {
		struct wr_ban_cell *cell = place(in, tag, i);

		if (__atomic_load_n(&cell->head.lo, __ATOMIC_ACQUIRE) == tag)
			return cell;
	}
	return NULL;
}

/* Returns true if another key may take the cell. */
static bool is_free(struct wr_pair head, const struct wr_ban *ban, bool whole, uint32_t now_s)
{
	uint32_t written_s = (uint32_t)(head.hi >> 32);

	if (whole)
		return ban->until_s <= now_s;
	return head.lo == 0 || (written_s < now_s ? now_s - written_s : written_s - now_s) > TORN_S;
}

/* Returns whether a new ban may take the entry of an older ban that is in force. An entry of weir
 * shield add is the ban itself, so it stays. Bans in shadow mode refuse nothing, so they give way. */
static bool gives_way(const struct wr_ban *old, const struct wr_ban *to)
{
	bool old_shadow = old->flags & WR_BAN_SHADOW, to_shadow = to->flags & WR_BAN_SHADOW;

	if (old->flags & WR_BAN_BARE)
		return false;
	return old_shadow != to_shadow ? old_shadow : old->until_s < to->until_s;
}

/* A cell that a ban can be written to. */
struct room {
	struct wr_ban_cell *cell; /* NULL: there is none */
	struct wr_pair head;
	struct wr_ban ban; /* if `displaces` is true: the ban that the new ban replaces */
	bool displaces;
};

/* Returns the cell for a ban: the cell with the ban of its key, or the first cell that is free, or
 * the cell whose ban ends first among those that give way. */
static struct room find_room(struct list in, const struct wr_ban *to, uint32_t now_s)
{
	struct room room = {.cell = find_cell(in, to->key.tag)}, other = {0};

	if (room.cell) {
		room.head = wr_pair_load(&room.cell->head);
		if (room.head.lo == to->key.tag)
			return room;
	}
	room.cell = NULL;
	for (uint64_t i = 0; i < place_count(in); i++) {
		bool whole;

		other.cell = place(in, to->key.tag, i);
		whole = read_cell(other.cell, &other.head, &other.ban);
		if (is_free(other.head, &other.ban, whole, now_s))
			return other;
		if (whole && gives_way(&other.ban, to) &&
		    (!room.cell || gives_way(&other.ban, &room.ban)))
			room = other;
	}
	room.displaces = room.cell != NULL;
	return room;
}

/* The address is erased before the head: the head of a killed process must not free a cell that
 * still contains an address. */
static void erase_cell(struct wr_ban_cell *cell, struct wr_pair seen)
{
	static const uint64_t zeros[WORDS];
	struct wr_pair none = {0};

	write_words(cell, zeros);
	wr_pair_cas(&cell->head, &seen, none);
}

/* Erases the cells with this tag behind `after`, or all cells with it if `after` is NULL. Returns
 * whether there was one. */
static bool erase_behind(struct list in, uint64_t tag, const struct wr_ban_cell *after)
{
	bool behind = after == NULL, found = false;

	for (uint64_t i = 0; i < place_count(in); i++) {
		struct wr_ban_cell *cell = place(in, tag, i);
		struct wr_pair seen = wr_pair_load(&cell->head);

		if (behind && cell != after && seen.lo == tag) {
			erase_cell(cell, seen);
			found = true;
		}
		behind |= cell == after;
	}
	return found;
}

/* Returns true if the cell has a whole ban of the key, of this or of another writer. */
static bool is_whole(const struct wr_ban_cell *cell, uint64_t tag)
{
	struct wr_pair head;
	struct wr_ban ban;

	return read_cell(cell, &head, &ban) && head.lo == tag;
}

/* Two writers that race can make two cells for a new key. The first cell is the one that readers
 * find. So each writer writes until its ban is in the first cell, and then erases the other one. */
bool wr_ban_write(struct weir_table *table, const struct wr_ban *ban, uint32_t now_s)
{
	struct list in = list_of(table);
	uint64_t words[WORDS], tag = ban->key.tag;
	struct wr_pair head;
	bool done = false;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	/* A text of another node or of a client may have led to this ban. */
	if (!is_sound(ban))
		return false;
	to_words(ban, words);
	head = (struct wr_pair){tag, (uint64_t)now_s << 32 | checksum_of(tag, words)};
	for (unsigned i = 0; i < TRIES && tag != 0 && !done; i++) {
		struct room room = find_room(in, ban, now_s);
		struct wr_ban_cell *cell = room.cell;

		if (!cell)
			break;
		if (!wr_pair_cas(&cell->head, &room.head, head))
			continue;
		if (room.displaces && !(room.ban.flags & WR_BAN_SHADOW))
			wr_tally(&table->tallies->ban_unlisted);
		write_words(cell, words);
		/* Another writer may have changed the words between the two steps. The last writer
		 * sees what it left behind, and writes again if that is not a whole ban. */
		done = is_whole(cell, tag) && find_cell(in, tag) == cell;
		if (done)
			erase_behind(in, tag, cell);
	}
	if (!done)
		wr_tally(&table->tallies->ban_unlisted);
	else
		raise_changes(in);
	return done;
}

bool wr_ban_read(const struct weir_table *table, struct wr_key key, uint32_t now_s,
		 struct wr_ban *ban)
{
	const struct wr_ban_cell *cell = key.tag ? find_cell(list_of(table), key.tag) : NULL;
	struct wr_pair head;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	return cell && read_cell(cell, &head, ban) && head.lo == key.tag && ban->until_s > now_s;
}

/* Two writers that raced can have made two cells for a key, so all places of the key are looked
 * at. */
void wr_ban_forget(struct weir_table *table, struct wr_key key)
{
	struct list in = list_of(table);

	wr_assert_magic(table, WR_TABLE_MAGIC);
	if (key.tag && erase_behind(in, key.tag, NULL))
		raise_changes(in);
}

uint64_t wr_ban_changes(const struct weir_table *table)
{
	struct list in = list_of(table);

	/* Acquire: paired with raise_changes(), so that the reader sees the changes it counts. */
	return in.head ? __atomic_load_n(&in.head->changes, __ATOMIC_ACQUIRE) : 0;
}

int wr_bans_each(const struct weir_table *table, uint32_t now_s, wr_ban_fn fn, void *context)
{
	struct list in = list_of(table);
	int rc = 0;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	for (uint64_t i = 0; i < in.count && rc == 0; i++) {
		struct wr_pair head;
		struct wr_ban ban;

		/* Most cells are free, and reading their heads is enough. */
		if (__atomic_load_n(&in.cells[i].head.lo, __ATOMIC_RELAXED) == 0 ||
		    !read_cell(&in.cells[i], &head, &ban) || ban.until_s <= now_s)
			continue;
		/* Only the first of two cells of a key counts, and only at a place of the key. */
		if (find_cell(in, head.lo) == &in.cells[i])
			rc = fn(context, &ban);
	}
	return rc;
}

struct ban_journey {
	struct weir_table *from, *to;
	uint32_t now_s;
};

/* The notes of bans in force were copied with their overrides. A ban in shadow mode has none. */
static void carry_shadow_note(const struct ban_journey *journey, struct wr_key key)
{
	struct wr_table_text_note note;

	if (wr_note_read(journey->from, key, &note))
		wr_note_write(journey->to, key, &note, journey->now_s);
}

static int carry_ban(void *context, const struct wr_ban *ban)
{
	const struct ban_journey *journey = context;
	struct wr_override now = wr_override_find(journey->to, ban->key, journey->now_s);
	struct wr_ban there;

	if (wr_ban_read(journey->to, ban->key, journey->now_s, &there))
		return 0;
	if (ban->flags & (WR_BAN_BARE | WR_BAN_SHADOW) || now.banned_until_s == ban->until_s)
		wr_ban_write(journey->to, ban, journey->now_s);
	if (ban->flags & WR_BAN_SHADOW)
		carry_shadow_note(journey, ban->key);
	return 0;
}

void wr_bans_import(struct weir_table *to, struct weir_table *from, uint32_t now_s)
{
	struct ban_journey journey = {from, to, now_s};

	wr_assert(to != from);
	wr_assert_magic(to, WR_TABLE_MAGIC);
	wr_bans_each(from, now_s, carry_ban, &journey);
}

uint64_t wr_ban_rule_hash(struct weir_str name)
{
	uint64_t hash = XXH3_64bits(name.ptr, name.len);

	return hash ? hash : 1;
}

void wr_ban_set_address(struct wr_ban *ban, const struct wr_address *address, unsigned bits)
{
	bool v4 = wr_address_is_v4(address);

	ban->family = v4 ? 4 : 6;
	ban->prefix_bits = (uint8_t)bits;
	memcpy(ban->address, address->bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
}

size_t wr_ban_address_text(const struct wr_ban *ban, char text[WR_ADDRESS_TEXT])
{
	struct wr_address address;

	if (ban->family == 0)
		return 0;
	address = wr_address_from(ban->address, ban->family == 4 ? 4 : 16);
	return wr_address_text(&address, ban->prefix_bits, text);
}

struct wr_key wr_ban_bare_key(const struct weir_table *table, const uint8_t address[16],
			      unsigned family, unsigned prefix_bits)
{
	static const uint64_t identity = 0x6261726562616e73;
	uint8_t bytes[18] = {(uint8_t)family, (uint8_t)prefix_bits};

	wr_assert_magic(table, WR_TABLE_MAGIC);
	memcpy(bytes + 2, address, family == 4 ? 4 : 16);
	return wr_hash_key(table->secret, bytes, sizeof bytes, identity);
}

/* The fields of the state are only numbers, so that they can be copied one by one. */
#define STATE_WORDS (sizeof(struct wr_shield_state) / sizeof(uint64_t))

void wr_shield_state_write(struct weir_table *table, const struct wr_shield_state *state)
{
	struct list in = list_of(table);
	const uint64_t *from = (const uint64_t *)state;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	for (size_t i = 0; i < STATE_WORDS && in.head; i++)
		__atomic_store_n((uint64_t *)&in.head->shield + i, from[i], __ATOMIC_RELAXED);
}

void wr_shield_state_read(const struct weir_table *table, struct wr_shield_state *state)
{
	struct list in = list_of(table);
	uint64_t *to = (uint64_t *)state;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	*state = (struct wr_shield_state){0};
	for (size_t i = 0; i < STATE_WORDS && in.head; i++)
		to[i] = __atomic_load_n((uint64_t *)&in.head->shield + i, __ATOMIC_RELAXED);
}
