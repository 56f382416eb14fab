/* Notes: the rule and the key of an override as text. A table stores only hashes of keys, but an
 * operator needs to read which key was banned. Only weir_control_overrides() and the import of a
 * table read notes. */
#ifndef WR_TABLE_NOTE_H
#define WR_TABLE_NOTE_H

#include "table/table.h"

struct wr_table_text_note {
	uint32_t changed_s;
	uint8_t rule_len;
	uint8_t key_len;
	char rule[WR_NOTE_TEXT];
	char key[WR_NOTE_TEXT];
};

/* Fills *text with the name of a rule and a key. Texts of more than WR_NOTE_TEXT bytes are cut. */
void wr_note_text(struct wr_table_text_note *text, const void *rule, size_t rule_len,
		  const void *key, size_t key_len, uint32_t now_s);

/* Writes the note of a key over the earlier note of the key. If the key has no note, writes to a
 * free array element, or over a note whose override has ended. If there is neither, writes
 * nothing. */
void wr_note_write(struct weir_table *table, struct wr_key key,
		   const struct wr_table_text_note *text, uint32_t now_s);

bool wr_note_read(const struct weir_table *table, struct wr_key key,
		  struct wr_table_text_note *text);
void wr_note_forget(struct weir_table *table, struct wr_key key);

#endif
