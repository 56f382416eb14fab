/* Writes, reads and erases notes, which are the rule and the key of an override as text. Called by
 * operators' commands and by the list of overrides. */
#include "table/note.h"

#include <string.h>

#include "base/assert.h"
#include "table/override.h"

#define PROBES 16u /* number of array elements in which the note of a key can be */
#define WORDS ((sizeof(struct wr_note) - sizeof(struct wr_pair)) / 8)

/* The two texts of a note (rule and key) and their lengths, as 64-bit words. Each of these words is
 * read and written atomically. */
union note_text {
	uint64_t words[WORDS];
	struct {
		uint8_t rule_len, key_len;
		char rule[WR_NOTE_TEXT], key[WR_NOTE_TEXT];
	} part;
};

static uint64_t *words_of(struct wr_note *note)
{
	return (uint64_t *)&note->rule_len;
}

static struct wr_note *note_at(const struct weir_table *table, struct wr_key key, unsigned probe)
{
	return &table->notes[(key.tag + probe) % table->note_count];
}

static unsigned probes_in(const struct weir_table *table)
{
	return table->note_count < PROBES ? table->note_count : PROBES;
}

static struct wr_note *find_note(const struct weir_table *table, struct wr_key key)
{
	for (unsigned i = 0; i < probes_in(table); i++) {
		struct wr_note *note = note_at(table, key, i);

		if (__atomic_load_n(&note->head.lo, __ATOMIC_ACQUIRE) == key.tag)
			return note;
	}
	return NULL;
}

/* Returns the array element with the key's note. If the key has no note, returns the first element
 * that is free, or if none is free, the first one whose note belongs to an override that has ended or
 * to a ban in shadow mode. Returns NULL if there is no such element. */
static struct wr_note *find_room(struct weir_table *table, struct wr_key key, uint32_t now_s)
{
	struct wr_note *room = find_note(table, key);

	for (unsigned i = 0; !room && i < probes_in(table); i++)
		if (__atomic_load_n(&note_at(table, key, i)->head.lo, __ATOMIC_ACQUIRE) == 0)
			room = note_at(table, key, i);
	for (unsigned i = 0; !room && i < probes_in(table); i++) {
		struct wr_note *note = note_at(table, key, i);
		struct wr_key other = {__atomic_load_n(&note->head.lo, __ATOMIC_ACQUIRE)};

		if (!wr_override_any(wr_override_find(table, other, now_s)))
			room = note;
	}
	return room;
}

static uint32_t text_checksum(const union note_text *text)
{
	return (uint32_t)XXH3_64bits(text->words, sizeof text->words);
}

static uint8_t cut_text(size_t len)
{
	return (uint8_t)(len < WR_NOTE_TEXT ? len : WR_NOTE_TEXT);
}

void wr_note_text(struct wr_table_text_note *text, const void *rule, size_t rule_len,
		  const void *key, size_t key_len, uint32_t now_s)
{
	wr_assert((rule || rule_len == 0) && (key || key_len == 0));
	*text = (struct wr_table_text_note){
		.changed_s = now_s, .rule_len = cut_text(rule_len), .key_len = cut_text(key_len)};
	if (rule_len)
		memcpy(text->rule, rule, text->rule_len);
	if (key_len)
		memcpy(text->key, key, text->key_len);
}

void wr_note_write(struct weir_table *table, struct wr_key key,
		   const struct wr_table_text_note *text, uint32_t now_s)
{
	wr_assert(table && text);
	struct wr_note *note = find_room(table, key, now_s);
	union note_text next = {{0}};
	struct wr_pair seen, head;

	if (!note || key.tag == 0)
		return;
	next.part.rule_len = text->rule_len;
	next.part.key_len = text->key_len;
	memcpy(next.part.rule, text->rule, sizeof next.part.rule);
	memcpy(next.part.key, text->key, sizeof next.part.key);
	seen = wr_pair_load(&note->head);
	head = (struct wr_pair){key.tag, (uint64_t)text->changed_s << 32 | text_checksum(&next)};
	if (!wr_pair_cas(&note->head, &seen, head))
		/* Another command has changed the note meanwhile; its text stays in the note. */
		return;
	for (size_t i = 0; i < WORDS; i++)
		__atomic_store_n(&words_of(note)[i], next.words[i], __ATOMIC_RELEASE);
}

bool wr_note_read(const struct weir_table *table, struct wr_key key,
		  struct wr_table_text_note *text)
{
	struct wr_note *note = find_note(table, key);
	struct wr_pair head;
	union note_text seen;

	if (!note)
		return false;
	head = wr_pair_load(&note->head);
	for (size_t i = 0; i < WORDS; i++)
		seen.words[i] = __atomic_load_n(&words_of(note)[i], __ATOMIC_ACQUIRE);
	if (head.lo != key.tag || (uint32_t)head.hi != text_checksum(&seen))
		return false;
	wr_note_text(text, seen.part.rule, cut_text(seen.part.rule_len), seen.part.key,
		     cut_text(seen.part.key_len), (uint32_t)(head.hi >> 32));
	return true;
}

/* The text contains a client's key, so the text is erased before note->head is cleared: if the
 * process is killed in between, the client's key is already erased. */
void wr_note_forget(struct weir_table *table, struct wr_key key)
{
	struct wr_note *note = find_note(table, key);
	struct wr_pair seen, none = {0};

	wr_assert_magic(table, WR_TABLE_MAGIC);
	if (!note)
		return;
	seen = wr_pair_load(&note->head);
	if (seen.lo != key.tag)
		return;
	for (size_t i = 0; i < WORDS; i++)
		__atomic_store_n(&words_of(note)[i], 0, __ATOMIC_RELEASE);
	wr_pair_cas(&note->head, &seen, none);
}
