/* The list of bans. */
#include "table_test.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "table/ban.h"
#include "table/note.h"
#include "table/override.h"

#define NOW_S 1000u

/* Returns a ban of key number n whose fields all depend on n. */
static struct wr_ban ban_nth(uint64_t n, uint32_t until_s)
{
	struct wr_ban ban = {.key = {XXH3_64bits(&n, sizeof n)},
			     .rule = n * 3 + 1,
			     .since_s = NOW_S - 1,
			     .until_s = until_s,
			     .address = {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n},
			     .family = 4,
			     .prefix_bits = 32,
			     .flags = WR_BAN_AUTOMATIC | WR_BAN_SHIELD,
			     .level = (uint8_t)(1 + n % 8)};

	return ban;
}

static void assert_ban(const struct wr_ban *is, const struct wr_ban *wanted)
{
	assert_int_equal(is->key.tag, wanted->key.tag);
	assert_int_equal(is->rule, wanted->rule);
	assert_int_equal(is->since_s, wanted->since_s);
	assert_int_equal(is->until_s, wanted->until_s);
	assert_memory_equal(is->address, wanted->address, 16);
	assert_int_equal(is->family, wanted->family);
	assert_int_equal(is->prefix_bits, wanted->prefix_bits);
	assert_int_equal(is->flags, wanted->flags);
	assert_int_equal(is->level, wanted->level);
}

static int count_ban(void *context, const struct wr_ban *ban)
{
	(void)ban;
	++*(unsigned *)context;
	return 0;
}

static unsigned listed(const struct weir_table *table, uint32_t now_s)
{
	unsigned count = 0;

	assert_int_equal(wr_bans_each(table, now_s, count_ban, &count), 0);
	return count;
}

static struct wr_ban_cell_bytes {
	uint64_t words[8];
} * cell_of(struct weir_table *table, struct wr_key key)
{
	struct wr_ban_cell_bytes *cells =
		(void *)((uint8_t *)wr_section(table, WR_SECTION_BANS) + 256);
	uint64_t count = (table->header.sections[WR_SECTION_BANS].bytes - 256) / 64;

	for (uint64_t i = 0; i < count; i++)
		if (cells[i].words[0] == key.tag)
			return &cells[i];
	fail_msg("no cell of the key");
	return NULL;
}

static void written_read_and_forgotten(void **unused)
{
	struct weir_table *table = table_open("list", MIB, 0);
	struct wr_ban first = ban_nth(1, NOW_S + 10), second = ban_nth(2, WR_FOR_GOOD), seen;
	uint64_t changes = wr_ban_changes(table);

	(void)unused;
	assert_false(wr_ban_read(table, first.key, NOW_S, &seen));
	assert_true(wr_ban_write(table, &first, NOW_S));
	assert_int_equal(wr_ban_changes(table), changes + 1);
	assert_true(wr_ban_write(table, &second, NOW_S));
	assert_true(wr_ban_read(table, first.key, NOW_S + 9, &seen));
	assert_ban(&seen, &first);
	assert_false(wr_ban_read(table, first.key, NOW_S + 10, &seen));
	assert_int_equal(listed(table, NOW_S + 9), 2);
	assert_int_equal(listed(table, NOW_S + 10), 1);
	first.until_s += 5;
	first.flags = WR_BAN_SHADOW;
	assert_true(wr_ban_write(table, &first, NOW_S));
	assert_true(wr_ban_read(table, first.key, NOW_S + 14, &seen));
	assert_ban(&seen, &first);
	assert_int_equal(listed(table, NOW_S), 2);
	wr_ban_forget(table, first.key);
	assert_int_equal(wr_ban_changes(table), changes + 4);
	wr_ban_forget(table, first.key); /* changes nothing */
	assert_int_equal(wr_ban_changes(table), changes + 4);
	assert_false(wr_ban_read(table, first.key, NOW_S, &seen));
	assert_int_equal(listed(table, UINT32_MAX - 1), 1);
	table_drop(table);
}

/* Two writers have made two cells for a key. The next write leaves one cell, which is the only one
 * that a later ban of another key could bring back. A removal leaves no cell. */
static void two_cells_of_a_key(void **unused)
{
	struct weir_table *table = table_open("twice", MIB, 0);
	struct wr_ban ban = ban_nth(1, NOW_S + 100), seen;
	struct wr_ban_cell_bytes *first;

	(void)unused;
	for (unsigned round = 0; round < 2; round++) {
		assert_true(wr_ban_write(table, &ban, NOW_S));
		first = cell_of(table, ban.key);
		first[1] = first[0];
		assert_int_equal(listed(table, NOW_S), 1);
		if (round == 0) {
			ban.until_s = NOW_S + 10;
			assert_true(wr_ban_write(table, &ban, NOW_S));
			assert_int_equal(first[1].words[0], 0);
			assert_int_equal(first[1].words[4], 0);
		} else {
			wr_ban_forget(table, ban.key);
		}
		memset(first, 0, sizeof *first);
		assert_int_equal(listed(table, NOW_S), 0);
		assert_false(wr_ban_read(table, ban.key, NOW_S, &seen));
	}
	table_drop(table);
}

/* A table of 1 MiB has 1020 cells of bans. */
static void full_list(void **unused)
{
	struct weir_table *table = table_open("full", MIB, 0);
	unsigned written = 0;
	struct wr_ban ban, seen;

	(void)unused;
	for (uint64_t n = 0; n < 1500; n++) {
		ban = ban_nth(n, NOW_S + 10);
		written += wr_ban_write(table, &ban, NOW_S);
	}
	assert_in_range(written, 900, 1020);
	assert_int_equal(listed(table, NOW_S), written);
	assert_int_equal(table->tallies->ban_unlisted, 1500 - written);
	for (uint64_t n = 0; n < 1500; n++) {
		ban = ban_nth(n, NOW_S + 10);
		if (wr_ban_read(table, ban.key, NOW_S, &seen))
			assert_ban(&seen, &ban);
	}
	/* Bans that have ended make room. */
	for (uint64_t n = 5000; n < 5500; n++) {
		ban = ban_nth(n, NOW_S + 100);
		assert_true(wr_ban_write(table, &ban, NOW_S + 10));
	}
	assert_int_equal(listed(table, NOW_S + 10), 500);
	table_drop(table);
}

/* No ban is lost before 95 % of the cells are in use. */
static void room_without_loss(void **unused)
{
	static const struct {
		uint64_t mib;
		unsigned bans;
	} sizes[] = {{1, 960}, {64, 62000}};

	(void)unused;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct weir_table *table = table_open("room", sizes[i].mib * MIB, 0);

		for (uint64_t n = 0; n < sizes[i].bans; n++) {
			struct wr_ban ban = ban_nth(n, NOW_S + 10);

			assert_true(wr_ban_write(table, &ban, NOW_S));
		}
		assert_int_equal(table->tallies->ban_unlisted, 0);
		assert_int_equal(listed(table, NOW_S), sizes[i].bans);
		for (uint64_t n = 0; n < sizes[i].bans; n++) {
			struct wr_ban ban = ban_nth(n, 0), seen;

			assert_true(wr_ban_read(table, ban.key, NOW_S, &seen));
			wr_ban_forget(table, ban.key);
		}
		assert_int_equal(listed(table, NOW_S), 0);
		table_drop(table);
	}
}

/* In a full list, a ban replaces one that ends earlier, so short bans do not keep longer ones out. */
static void longer_bans_replace_shorter(void **unused)
{
	struct weir_table *table = table_open("displaced", MIB, 0);
	struct wr_ban ban, seen;
	uint64_t before;

	(void)unused;
	for (uint64_t n = 0; n < 3000; n++) {
		ban = ban_nth(n, NOW_S + 10);
		wr_ban_write(table, &ban, NOW_S);
	}
	assert_int_equal(listed(table, NOW_S), 1020);
	before = table->tallies->ban_unlisted;
	assert_int_equal(before, 1980);
	ban = ban_nth(5000, NOW_S + 10);
	assert_false(wr_ban_write(table, &ban, NOW_S)); /* ends at the same time */
	ban = ban_nth(5000, NOW_S + 11);
	ban.flags |= WR_BAN_SHADOW;
	assert_false(wr_ban_write(table, &ban, NOW_S));
	for (uint64_t n = 5000; n < 5100; n++) {
		ban = ban_nth(n, NOW_S + 11);
		assert_true(wr_ban_write(table, &ban, NOW_S));
		assert_true(wr_ban_read(table, ban.key, NOW_S, &seen));
		assert_ban(&seen, &ban);
	}
	/* The longer bans stay. */
	for (uint64_t n = 6000; n < 9000; n++) {
		ban = ban_nth(n, NOW_S + 10);
		assert_false(wr_ban_write(table, &ban, NOW_S));
	}
	assert_int_equal(listed(table, NOW_S + 10), 100);
	assert_int_equal(listed(table, NOW_S), 1020);
	assert_int_equal(table->tallies->ban_unlisted, before + 2 + 100 + 3000);
	table_drop(table);
}

/* What weir shield add has banned is in no other place, so it stays. A ban in shadow mode gives way. */
static void bare_bans_stay(void **unused)
{
	struct weir_table *table = table_open("bare", MIB, 0);
	struct wr_ban ban, seen;
	uint64_t before;

	(void)unused;
	for (uint64_t n = 0; n < 3000; n++) {
		ban = ban_nth(n, NOW_S + 10);
		ban.flags = n < 200 ? WR_BAN_BARE : WR_BAN_SHADOW;
		wr_ban_write(table, &ban, NOW_S);
	}
	before = table->tallies->ban_unlisted;
	for (uint64_t n = 5000; n < 5100; n++) {
		ban = ban_nth(n, NOW_S + 5);
		assert_true(wr_ban_write(table, &ban, NOW_S));
	}
	/* A replaced ban in shadow mode refuses nothing, so it does not count. */
	assert_int_equal(table->tallies->ban_unlisted, before);
	for (uint64_t n = 6000; n < 9000; n++) {
		ban = ban_nth(n, NOW_S + 100);
		wr_ban_write(table, &ban, NOW_S);
	}
	assert_int_equal(listed(table, NOW_S), 1020);
	for (uint64_t n = 0; n < 200; n++)
		assert_true(wr_ban_read(table, ban_nth(n, 0).key, NOW_S, &seen));
	table_drop(table);
}

/* A ban whose fields are invalid is not written. */
static void unsound_bans(void **unused)
{
	static const uint8_t bad[][2] = {{4, 33}, {4, 128}, {6, 129}, {0, 1}, {5, 0}};
	struct weir_table *table = table_open("unsound", MIB, 0);
	struct wr_ban ban = ban_nth(7, NOW_S + 10);

	(void)unused;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ban.family = bad[i][0];
		ban.prefix_bits = bad[i][1];
		assert_false(wr_ban_write(table, &ban, NOW_S));
	}
	assert_int_equal(listed(table, NOW_S), 0);
	table_drop(table);
}

/* A cell whose words do not fit its checksum is no ban. Its own key can write it at once, another
 * key after a minute. */
static void torn_cells(void **unused)
{
	struct weir_table *table = table_open("torn", MIB, 0);
	struct wr_ban ban = ban_nth(7, NOW_S + 1000), other, seen;

	(void)unused;
	assert_true(wr_ban_write(table, &ban, NOW_S));
	cell_of(table, ban.key)->words[4] ^= 1;
	assert_false(wr_ban_read(table, ban.key, NOW_S, &seen));
	assert_int_equal(listed(table, NOW_S), 0);
	assert_true(wr_ban_write(table, &ban, NOW_S));
	assert_true(wr_ban_read(table, ban.key, NOW_S, &seen));
	cell_of(table, ban.key)->words[4] ^= 1;
	other = ban;
	other.key.tag ^= 1; /* its place is the same cell */
	assert_true(wr_ban_write(table, &other, NOW_S + 60));
	assert_int_equal(cell_of(table, ban.key)->words[0], ban.key.tag);
	wr_ban_forget(table, other.key);
	assert_true(wr_ban_write(table, &other, NOW_S + 61));
	assert_true(wr_ban_read(table, other.key, NOW_S + 61, &seen));
	assert_false(wr_ban_read(table, ban.key, NOW_S + 61, &seen));
	table_drop(table);
}

/* Any bytes in the section: nothing crashes, and readers get only sound bans. */
static int check_sound(void *context, const struct wr_ban *ban)
{
	(void)context;
	assert_true(ban->family == 0 || ban->family == 4 || ban->family == 6);
	assert_true(ban->prefix_bits <= 128);
	return 0;
}

static void random_bytes(void **unused)
{
	struct weir_table *table = table_open("random", 256 * KIB, 0);
	uint64_t *words = wr_section(table, WR_SECTION_BANS), seed = 1;
	size_t count = table->header.sections[WR_SECTION_BANS].bytes / 8;
	struct wr_ban ban = ban_nth(1, NOW_S + 5), seen;

	(void)unused;
	for (size_t i = 0; i < count; i++, seed++)
		words[i] = XXH3_64bits(&seed, sizeof seed);
	wr_bans_each(table, NOW_S, check_sound, NULL);
	assert_true(wr_ban_write(table, &ban, NOW_S));
	assert_true(wr_ban_read(table, ban.key, NOW_S, &seen));
	assert_ban(&seen, &ban);
	table_drop(table);
}

/* A table of an earlier version has no section, or one that is too small for a cell. */
static void no_section(void **unused)
{
	static const uint64_t sizes[] = {0, 8, 255, 256, 319};
	struct weir_table *table = table_open("none", MIB, 0);
	struct wr_shield_state state = {.pid = 7};
	struct wr_ban ban = ban_nth(1, NOW_S + 5), seen;

	(void)unused;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		table->header.sections[WR_SECTION_BANS].bytes = sizes[i];
		assert_false(wr_ban_write(table, &ban, NOW_S));
		assert_false(wr_ban_read(table, ban.key, NOW_S, &seen));
		wr_ban_forget(table, ban.key);
		assert_int_equal(listed(table, NOW_S), 0);
		assert_int_equal(wr_ban_changes(table), 0);
		wr_shield_state_write(table, &state);
		wr_shield_state_read(table, &state);
		assert_int_equal(state.pid, sizes[i] >= 256 ? 7 : 0);
		state.pid = 7;
	}
	assert_int_equal(table->tallies->ban_unlisted, 5);
	table_drop(table);
}

static void shield_state(void **unused)
{
	struct weir_table *table = table_open("state", MIB, 0);
	struct wr_shield_state state, set = {.pid = 3, .elements_v4 = 5, .failures = 9};

	(void)unused;
	wr_shield_state_read(table, &state);
	assert_int_equal(state.pid, 0);
	wr_shield_state_write(table, &set);
	wr_shield_state_read(table, &state);
	assert_memory_equal(&state, &set, sizeof set);
	table_drop(table);
}

static void bare_keys(void **unused)
{
	struct weir_table *table = table_open("bare", MIB, 0);
	uint8_t a[16] = {192, 0, 2, 1}, b[16] = {192, 0, 2, 1, 99};

	(void)unused;
	assert_int_equal(wr_ban_bare_key(table, a, 4, 32).tag,
			 wr_ban_bare_key(table, b, 4, 32).tag);
	assert_true(wr_ban_bare_key(table, a, 4, 32).tag != wr_ban_bare_key(table, a, 4, 24).tag);
	assert_true(wr_ban_bare_key(table, a, 6, 64).tag != wr_ban_bare_key(table, b, 6, 64).tag);
	table_drop(table);
}

/* Bans the key of a ban in the table, as an operator does. */
static void enforce(struct weir_table *table, const struct wr_ban *ban)
{
	struct wr_override_change change = {.ban = true, .to = {.banned_until_s = ban->until_s}};

	wr_override_change(table, ban->key, 0, &change, NOW_S);
	assert_true(wr_ban_write(table, ban, NOW_S));
}

/* A resize copies bans in force. */
static void carried_over(void **unused)
{
	struct weir_table *old = table_open("carry", MIB, 0), *fresh;
	struct weir_opts opts = opts_of("carry", 4 * MIB, 0);
	struct wr_table_text_note note;
	struct wr_ban ban, seen;

	(void)unused;
	for (uint64_t n = 0; n < 50; n++) {
		ban = ban_nth(n, NOW_S + 10 + (uint32_t)n);
		enforce(old, &ban);
	}
	ban = ban_nth(60, NOW_S + 100);
	ban.flags = WR_BAN_SHADOW;
	assert_true(wr_ban_write(old, &ban, NOW_S));
	wr_note_text(&note, "d/quiet/1h", 10, "d|quiet=1", 9, NOW_S);
	wr_note_write(old, ban.key, &note, NOW_S);
	ban = ban_nth(61, NOW_S + 100); /* its override has gone */
	assert_true(wr_ban_write(old, &ban, NOW_S));
	assert_int_equal(weir_resize(&opts, (NOW_S + 20) * SECOND, NULL), 0);
	fresh = table_open("carry", 4 * MIB, 0);
	assert_int_equal(listed(fresh, NOW_S + 20), 39 + 1);
	for (uint64_t n = 11; n < 50; n++) {
		ban = ban_nth(n, NOW_S + 10 + (uint32_t)n);
		assert_true(wr_ban_read(fresh, ban.key, NOW_S + 20, &seen));
		assert_ban(&seen, &ban);
	}
	ban = ban_nth(60, NOW_S + 100);
	assert_true(wr_note_read(fresh, ban.key, &note));
	assert_memory_equal(note.key, "d|quiet=1", note.key_len);
	weir_close(old);
	table_drop(fresh);
}

/* Changes that were made in the old table while it was copied are handed over. */
static void handed_over(void **unused)
{
	struct weir_table *old = table_open("old", MIB, 0), *fresh = table_open("new", MIB, 0);
	struct wr_ban released = ban_nth(1, NOW_S + 50), longer = ban_nth(2, NOW_S + 50);
	struct wr_ban later = ban_nth(3, NOW_S + 50), seen;
	struct wr_override_change none = {.ban = true};
	struct wr_override_list list;

	(void)unused;
	enforce(old, &released);
	enforce(old, &longer);
	wr_overrides_import(fresh, old, NOW_S);
	assert_int_equal(listed(fresh, NOW_S), 2);
	assert_true(wr_overrides_collect(fresh, NOW_S, &list));
	wr_override_change(old, released.key, 0, &none, NOW_S);
	wr_ban_forget(old, released.key);
	longer.until_s = NOW_S + 70;
	enforce(old, &longer);
	enforce(old, &later);
	wr_overrides_hand_over(fresh, old, &list, NOW_S);
	assert_int_equal(listed(fresh, NOW_S), 2);
	assert_true(wr_ban_read(fresh, longer.key, NOW_S, &seen));
	assert_ban(&seen, &longer);
	assert_true(wr_ban_read(fresh, later.key, NOW_S, &seen));
	free(list.items);
	table_drop(old);
	table_drop(fresh);
}

struct crowd {
	struct weir_table *table;
	uint64_t seed;
	uint32_t *rounds; /* shared memory: rounds of the child to be killed; NULL for others */
};

#define ROUNDS 20000u

/* Writes, reads and forgets bans of 200 keys that all processes share. Every ban that can be read
 * is whole: its fields belong to its key. */
static int write_and_forget(void *arg)
{
	const struct crowd *crowd = arg;

	for (uint32_t i = 1; crowd->rounds || i <= ROUNDS; i++) {
		uint64_t n = (crowd->seed + i * 7) % 200;
		struct wr_ban ban = ban_nth(n, NOW_S + 1 + i % 2), seen;

		if (i % 5 == 0)
			wr_ban_forget(crowd->table, ban.key);
		else
			wr_ban_write(crowd->table, &ban, NOW_S);
		if (wr_ban_read(crowd->table, ban.key, NOW_S, &seen))
			CHILD_CHECK(seen.rule == ban.rule && seen.level == ban.level &&
				    memcmp(seen.address, ban.address, 16) == 0 &&
				    seen.until_s - NOW_S <= 2);
		if (crowd->rounds)
			__atomic_store_n(crowd->rounds, i, __ATOMIC_RELAXED);
	}
	return 0;
}

static void several_processes(void **unused)
{
	struct weir_table *table = table_open("crowd", 256 * KIB, 0);
	uint32_t *rounds = shared_memory(sizeof *rounds);
	struct crowd crowds[4];
	struct wr_ban ban, seen;
	pid_t pids[4];

	(void)unused;
	for (unsigned i = 0; i < 4; i++) {
		crowds[i] = (struct crowd){table, i * 31, i == 3 ? rounds : NULL};
		pids[i] = spawn(write_and_forget, &crowds[i]);
	}
	while (__atomic_load_n(rounds, __ATOMIC_RELAXED) < 100)
		sched_yield();
	kill(pids[3], SIGKILL);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(reap(pids[i]), 0);
	assert_int_equal(reap(pids[3]), 256 + SIGKILL);
	shared_free(rounds, sizeof *rounds);
	/* No other key has been left in a cell for good. */
	for (uint64_t n = 0; n < 200; n++) {
		ban = ban_nth(n, NOW_S + 500);
		if (n < 40)
			assert_true(wr_ban_write(table, &ban, NOW_S + 100));
		if (n < 40)
			assert_true(wr_ban_read(table, ban.key, NOW_S + 100, &seen));
	}
	assert_int_equal(listed(table, NOW_S + 100), 40);
	table_drop(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_read_and_forgotten),
		cmocka_unit_test(two_cells_of_a_key),
		cmocka_unit_test(full_list),
		cmocka_unit_test(room_without_loss),
		cmocka_unit_test(longer_bans_replace_shorter),
		cmocka_unit_test(bare_bans_stay),
		cmocka_unit_test(unsound_bans),
		cmocka_unit_test(torn_cells),
		cmocka_unit_test(random_bytes),
		cmocka_unit_test(no_section),
		cmocka_unit_test(shield_state),
		cmocka_unit_test(bare_keys),
		cmocka_unit_test(carried_over),
		cmocka_unit_test(handed_over),
		cmocka_unit_test(several_processes),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
