/* What a server keeps: a few keys, and collections of a few entries, in the order they came. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "sim/mini.h"

static struct wr_mini_value **row_of(struct wr_mini *mini, uint64_t hash)
{
	return &mini->rows[hash % WR_MINI_ROWS];
}

static void entry_free(struct wr_mini_entry *entry)
{
	wr_bytes_free(&entry->name);
	wr_bytes_free(&entry->text);
}

static void value_free(struct wr_mini_value *value)
{
	for (size_t i = 0; i < value->count; i++)
		entry_free(&value->entries[i]);
	free(value->entries);
	wr_bytes_free(&value->string);
	wr_bytes_free(&value->key);
	free(value);
}

static void unlink_value(struct wr_mini_value **at)
{
	struct wr_mini_value *value = *at;

	*at = value->next;
	value_free(value);
}

/* Where it is linked; what has expired goes. */
static struct wr_mini_value **place_of(struct wr_mini *mini, struct weir_str key)
{
	uint64_t hash = XXH3_64bits(key.ptr, key.len);
	struct wr_mini_value **at = row_of(mini, hash);

	while (*at) {
		struct wr_mini_value *value = *at;

		if (value->hash != hash || !wr_str_equal(wr_bytes_str(&value->key), key)) {
			at = &value->next;
			continue;
		}
		if (!value->expires_ms || mini->now_us / 1000 <= value->expires_ms)
			return at;
		unlink_value(at);
		return NULL;
	}
	return NULL;
}

struct wr_mini_value *wr_mini_find(struct wr_mini *mini, struct weir_str key)
{
	struct wr_mini_value **at = place_of(mini, key);

	return at ? *at : NULL;
}

struct wr_mini_value *wr_mini_make(struct wr_mini *mini, struct weir_str key,
				   enum wr_mini_type type)
{
	struct wr_mini_value *value = wr_mini_find(mini, key);
	struct wr_mini_value **row;

	if (value)
		return value;
	value = wr_lab_alloc(1, sizeof *value);
	value->hash = XXH3_64bits(key.ptr, key.len);
	value->type = type;
	wr_bytes_set(&value->key, key.ptr, key.len);
	row = row_of(mini, value->hash);
	value->next = *row;
	*row = value;
	return value;
}

bool wr_mini_remove(struct wr_mini *mini, struct weir_str key)
{
	struct wr_mini_value **at = place_of(mini, key);

	if (at)
		unlink_value(at);
	return at != NULL;
}

struct wr_mini_entry *wr_mini_entry(const struct wr_mini_value *value, struct weir_str name)
{
	for (size_t i = 0; value && i < value->count; i++)
		if (wr_str_equal(wr_bytes_str(&value->entries[i].name), name))
			return &value->entries[i];
	return NULL;
}

struct wr_mini_entry *wr_mini_entry_make(struct wr_mini_value *value, struct weir_str name)
{
	struct wr_mini_entry *entry = wr_mini_entry(value, name);

	if (entry)
		return entry;
	if (value->count == value->cap) {
		size_t cap = value->cap ? value->cap * 2 : 4;
		struct wr_mini_entry *more = wr_lab_alloc(cap, sizeof *more);

		if (value->count)
			memcpy(more, value->entries, value->count * sizeof *more);
		free(value->entries);
		value->entries = more;
		value->cap = cap;
	}
	entry = &value->entries[value->count++];
	*entry = (struct wr_mini_entry){0};
	wr_bytes_set(&entry->name, name.ptr, name.len);
	return entry;
}

void wr_mini_entry_drop(struct wr_mini_value *value, struct wr_mini_entry *entry)
{
	size_t behind = value->count - (size_t)(entry - value->entries) - 1;

	entry_free(entry);
	memmove(entry, entry + 1, behind * sizeof *entry);
	value->count--;
}

void wr_mini_flush(struct wr_mini *mini, bool scripts)
{
	for (size_t i = 0; i < WR_MINI_ROWS; i++)
		while (mini->rows[i])
			unlink_value(&mini->rows[i]);
	if (scripts)
		memset(mini->knows, 0, sizeof mini->knows);
}

static void copy_value(struct wr_mini *to, const struct wr_mini_value *from)
{
	struct wr_mini_value *value = wr_mini_make(to, wr_bytes_str(&from->key), from->type);

	value->expires_ms = from->expires_ms;
	wr_bytes_set(&value->string, from->string.at, from->string.len);
	for (size_t i = 0; i < from->count; i++) {
		const struct wr_mini_entry *entry = &from->entries[i];
		struct wr_mini_entry *copy = wr_mini_entry_make(value, wr_bytes_str(&entry->name));

		wr_bytes_set(&copy->text, entry->text.at, entry->text.len);
		copy->score = entry->score;
	}
}

void wr_mini_copy(struct wr_mini *to, const struct wr_mini *from)
{
	wr_mini_flush(to, true);
	for (size_t i = 0; i < WR_MINI_ROWS; i++)
		for (const struct wr_mini_value *value = from->rows[i]; value; value = value->next)
			copy_value(to, value);
}

void wr_mini_drop(struct wr_mini *mini, const struct wr_mini_value *value)
{
	struct wr_mini_value **at = row_of(mini, value->hash);

	while (*at != value)
		at = &(*at)->next;
	unlink_value(at);
}

void wr_mini_move(struct wr_mini *to, struct wr_mini *from, const struct wr_mini_value *value)
{
	wr_mini_remove(to, wr_bytes_str(&value->key));
	copy_value(to, value);
	wr_mini_drop(from, value);
}
