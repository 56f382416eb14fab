/* Stores the pauses of rules in the table. Called by operators' commands. pause.h describes the
 * order of the writes. */
#include "table/pause.h"

#include "base/assert.h"

static bool swap_word(struct weir_table *table, uint64_t *seen, uint64_t flags)
{
	uint64_t next = ((*seen | 3) + 1) | flags;

	return __atomic_compare_exchange_n(&table->control->pausing, seen, next, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint64_t load_word(const struct weir_table *table)
{
	return __atomic_load_n(&table->control->pausing, __ATOMIC_ACQUIRE);
}

static uint64_t load_hash(const struct weir_table *table, unsigned i)
{
	return __atomic_load_n(&table->control->paused[i], __ATOMIC_ACQUIRE);
}

/* Sets the bit WR_PAUSING_SOME. Changes the word `pausing` even if the bit is set already, so that
 * the swap of a thread that is about to clear the bit fails. */
static void raise_word(struct weir_table *table)
{
	uint64_t seen = load_word(table);

	while (!swap_word(table, &seen, (seen & WR_PAUSING_ALL) | WR_PAUSING_SOME))
		;
}

static bool is_empty(const struct weir_table *table)
{
	for (unsigned i = 0; i < WR_PAUSES; i++)
		if (load_hash(table, i))
			return false;
	return true;
}

/* Clears the bit WR_PAUSING_SOME if the table contains no hashes of paused rules. The word
 * `pausing`, which contains the bit, is read before the hashes. If another thread sets the bit
 * after that, the swap fails. If another thread adds a hash after the hashes were read, that thread
 * then sets the bit once more (pause.h). */
static void lower_word(struct weir_table *table)
{
	uint64_t seen = load_word(table);

	while (is_empty(table) && !swap_word(table, &seen, seen & WR_PAUSING_ALL))
		;
}

bool wr_pause_has(const struct weir_table *table, uint64_t hash)
{
	wr_assert(hash != 0);
	for (unsigned i = 0; i < WR_PAUSES; i++)
		if (load_hash(table, i) == hash)
			return true;
	return false;
}

size_t wr_pause_next_part(struct weir_str name, size_t len)
{
	if (len >= name.len)
		return 0;
	do
		len++;
	while (len < name.len && name.ptr[len] != '/');
	return len;
}

bool wr_pause_covers(const struct weir_table *table, struct weir_str name)
{
	for (size_t len = wr_pause_next_part(name, 0); len; len = wr_pause_next_part(name, len))
		if (wr_pause_has(table, wr_pause_hash(name.ptr, len)))
			return true;
	return false;
}

uint64_t wr_pause_stamp(const struct weir_table *table)
{
	uint64_t words[WR_PAUSES + 1] = {load_word(table)};

	for (unsigned i = 0; i < WR_PAUSES; i++)
		words[i + 1] = load_hash(table, i);
	return XXH3_64bits(words, sizeof words);
}

static bool insert_hash(struct weir_table *table, uint64_t hash)
{
	for (unsigned i = 0; i < WR_PAUSES; i++) {
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&table->control->paused[i], &none, hash, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* Two threads that add a hash at the same time may add it twice; wr_pause_drop() removes both
 * copies. */
bool wr_pause_add(struct weir_table *table, uint64_t hash)
{
	bool there;

	wr_assert(hash != 0); /* 0 marks a free slot */
	wr_assert_magic(table, WR_TABLE_MAGIC);
	raise_word(table);
	there = wr_pause_has(table, hash) || insert_hash(table, hash);
	if (there)
		raise_word(table);
	else
		lower_word(table);
	return there;
}

bool wr_pause_drop(struct weir_table *table, uint64_t hash)
{
	bool dropped = false;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	for (unsigned i = 0; i < WR_PAUSES; i++) {
		uint64_t seen = hash;

		dropped |= __atomic_compare_exchange_n(&table->control->paused[i], &seen, 0, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
	lower_word(table);
	return dropped;
}

bool wr_pause_all(struct weir_table *table, bool paused)
{
	uint64_t seen = load_word(table);
	uint64_t flag = paused ? WR_PAUSING_ALL : 0;

	wr_assert_magic(table, WR_TABLE_MAGIC);
	do
		if ((seen & WR_PAUSING_ALL) == flag)
			return false;
	while (!swap_word(table, &seen, (seen & WR_PAUSING_SOME) | flag));
	return true;
}

static bool had_hash(const struct wr_control *then, uint64_t hash)
{
	for (unsigned i = 0; i < WR_PAUSES; i++)
		if (then->paused[i] == hash)
			return true;
	return false;
}

void wr_pauses_hand_over(struct weir_table *to, const struct weir_table *from,
			 const struct wr_control *then)
{
	uint64_t all = load_word(from) & WR_PAUSING_ALL;

	wr_assert(to != from);
	wr_assert_magic(to, WR_TABLE_MAGIC);
	wr_assert_magic(from, WR_TABLE_MAGIC);
	for (unsigned i = 0; i < WR_PAUSES; i++)
		if (then->paused[i] && !wr_pause_has(from, then->paused[i]))
			wr_pause_drop(to, then->paused[i]);
	for (unsigned i = 0; i < WR_PAUSES; i++) {
		uint64_t hash = load_hash(from, i);

		if (hash && !had_hash(then, hash))
			wr_pause_add(to, hash);
	}
	if (all != (then->pausing & WR_PAUSING_ALL))
		wr_pause_all(to, all);
}
