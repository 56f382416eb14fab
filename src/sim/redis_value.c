/* Stores the keys and values of a simulated server. Collections are small, so their entries are
 * searched one by one. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "sim/redis.h"

static struct wr_sim_redis_value **bucket_of(struct wr_sim_redis *redis, uint64_t hash)
{
	return &redis->buckets[hash & (redis->bucket_count - 1)];
}

static void entry_free(struct wr_sim_redis_entry *entry)
{
	wr_buf_free(&entry->name);
	wr_buf_free(&entry->text);
}

static void value_free(struct wr_sim_redis_value *value)
{
	for (size_t i = 0; i < value->count; i++)
		entry_free(&value->entries[i]);
	free(value->entries);
	wr_buf_free(&value->string);
	wr_buf_free(&value->key);
	free(value);
}

static void unlink_value(struct wr_sim_redis *redis, struct wr_sim_redis_value **at)
{
	struct wr_sim_redis_value *value = *at;

	*at = value->next;
	redis->key_total--;
	value_free(value);
}

static bool is_expired(const struct wr_sim_redis *redis, const struct wr_sim_redis_value *value)
{
	return value->expires_ms && redis->now_us / 1000 > value->expires_ms;
}

/* Removes all expired keys. If many keys remain, doubles the number of buckets. */
static void grow_buckets(struct wr_sim_redis *redis)
{
	size_t old_count = redis->bucket_count;
	struct wr_sim_redis_value **old = redis->buckets;

	for (size_t i = 0; i < old_count; i++)
		for (struct wr_sim_redis_value **at = &old[i]; *at;)
			if (is_expired(redis, *at))
				unlink_value(redis, at);
			else
				at = &(*at)->next;
	if (redis->key_total <= 2 * old_count)
		return;
	redis->bucket_count *= 2;
	redis->buckets = wr_sim_alloc(redis->bucket_count, sizeof(void *));
	for (size_t i = 0; i < old_count; i++)
		while (old[i]) {
			struct wr_sim_redis_value *value = old[i], **to;

			old[i] = value->next;
			to = bucket_of(redis, value->hash);
			value->next = *to;
			*to = value;
		}
	free(old);
}

/* Returns the address of the pointer to the key's value in the list of its bucket, or NULL if the
 * key does not exist. Removes the value if it has expired. */
static struct wr_sim_redis_value **find_link(struct wr_sim_redis *redis, struct weir_str key)
{
	uint64_t hash = XXH3_64bits(key.ptr, key.len);
	struct wr_sim_redis_value **at = bucket_of(redis, hash);

	while (*at) {
		struct wr_sim_redis_value *value = *at;

		if (value->hash != hash || !wr_str_equal(wr_buf_str(&value->key), key)) {
			at = &value->next;
			continue;
		}
		if (!is_expired(redis, value))
			return at;
		unlink_value(redis, at);
		return NULL;
	}
	return NULL;
}

struct wr_sim_redis_value *wr_sim_redis_find(struct wr_sim_redis *redis, struct weir_str key)
{
	struct wr_sim_redis_value **at = find_link(redis, key);

	return at ? *at : NULL;
}

struct wr_sim_redis_value *wr_sim_redis_find_or_add(struct wr_sim_redis *redis, struct weir_str key,
						    enum wr_sim_redis_type type)
{
	struct wr_sim_redis_value *value = wr_sim_redis_find(redis, key);
	struct wr_sim_redis_value **bucket;

	if (value)
		return value;
	if (redis->key_total >= 4 * redis->bucket_count)
		grow_buckets(redis);
	redis->key_total++;
	value = wr_sim_alloc(1, sizeof *value);
	value->hash = XXH3_64bits(key.ptr, key.len);
	value->type = type;
	value->key = value->string = WR_SIM_BUF;
	wr_sim_buf_set(&value->key, key);
	bucket = bucket_of(redis, value->hash);
	value->next = *bucket;
	*bucket = value;
	return value;
}

bool wr_sim_redis_remove(struct wr_sim_redis *redis, struct weir_str key)
{
	struct wr_sim_redis_value **at = find_link(redis, key);

	if (at)
		unlink_value(redis, at);
	return at != NULL;
}

struct wr_sim_redis_entry *wr_sim_redis_entry_find(const struct wr_sim_redis_value *value,
						   struct weir_str name)
{
	for (size_t i = 0; value && i < value->count; i++)
		if (wr_str_equal(wr_buf_str(&value->entries[i].name), name))
			return &value->entries[i];
	return NULL;
}

struct wr_sim_redis_entry *wr_sim_redis_entry_add(struct wr_sim_redis_value *value,
						  struct weir_str name)
{
	struct wr_sim_redis_entry *entry = wr_sim_redis_entry_find(value, name);

	if (entry)
		return entry;
	value->entries = wr_sim_grow(value->entries, value->count, &value->cap, sizeof *entry);
	entry = &value->entries[value->count++];
	*entry = (struct wr_sim_redis_entry){.name = WR_SIM_BUF, .text = WR_SIM_BUF};
	wr_sim_buf_set(&entry->name, name);
	return entry;
}

void wr_sim_redis_entry_remove(struct wr_sim_redis_value *value, struct wr_sim_redis_entry *entry)
{
	size_t behind = value->count - (size_t)(entry - value->entries) - 1;

	entry_free(entry);
	memmove(entry, entry + 1, behind * sizeof *entry);
	value->count--;
}

void wr_sim_redis_flush(struct wr_sim_redis *redis, bool scripts)
{
	for (size_t i = 0; i < redis->bucket_count; i++)
		while (redis->buckets[i])
			unlink_value(redis, &redis->buckets[i]);
	if (scripts)
		memset(redis->cached, 0, sizeof redis->cached);
}

static void copy_value(struct wr_sim_redis *to, const struct wr_sim_redis_value *from)
{
	struct wr_sim_redis_value *value =
		wr_sim_redis_find_or_add(to, wr_buf_str(&from->key), from->type);

	value->expires_ms = from->expires_ms;
	wr_sim_buf_set(&value->string, wr_buf_str(&from->string));
	for (size_t i = 0; i < from->count; i++) {
		const struct wr_sim_redis_entry *entry = &from->entries[i];
		struct wr_sim_redis_entry *copy =
			wr_sim_redis_entry_add(value, wr_buf_str(&entry->name));

		wr_sim_buf_set(&copy->text, wr_buf_str(&entry->text));
		copy->score = entry->score;
	}
}

void wr_sim_redis_copy(struct wr_sim_redis *to, const struct wr_sim_redis *from)
{
	wr_sim_redis_flush(to, true);
	for (size_t i = 0; i < from->bucket_count; i++)
		for (const struct wr_sim_redis_value *value = from->buckets[i]; value;
		     value = value->next)
			copy_value(to, value);
}

void wr_sim_redis_drop_value(struct wr_sim_redis *redis, const struct wr_sim_redis_value *value)
{
	struct wr_sim_redis_value **at = bucket_of(redis, value->hash);

	while (*at != value)
		at = &(*at)->next;
	unlink_value(redis, at);
}

void wr_sim_redis_move_value(struct wr_sim_redis *to, struct wr_sim_redis *from,
			     const struct wr_sim_redis_value *value)
{
	wr_sim_redis_remove(to, wr_buf_str(&value->key));
	copy_value(to, value);
	wr_sim_redis_drop_value(from, value);
}
