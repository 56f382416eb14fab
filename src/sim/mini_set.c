/* Hashes and sorted sets. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/mini.h"

struct wr_mini_value *wr_mini_collection(const struct wr_mini_call *call, enum wr_mini_type type,
					 bool make, bool *wrong)
{
	struct wr_mini_value *value = make ? wr_mini_make(call->mini, call->argv[1], type)
					   : wr_mini_find(call->mini, call->argv[1]);

	*wrong = value && value->type != type;
	if (!*wrong)
		return value;
	wr_mini_fault(call->mini, "%.*s is of another type", (int)call->argv[1].len,
		      call->argv[1].ptr);
	wr_mini_error(call->out,
		      "WRONGTYPE Operation against a key holding the wrong kind of value");
	return NULL;
}

static void drop_empty(const struct wr_mini_call *call, const struct wr_mini_value *value)
{
	if (value && value->count == 0)
		wr_mini_remove(call->mini, call->argv[1]);
}

/* ---- hashes ---- */

static void put_fields(const struct wr_mini_call *call, bool status)
{
	bool wrong;
	struct wr_mini_value *hash;
	int64_t fresh = 0;

	if (call->argc % 2) {
		wr_mini_fault(call->mini, "HSET of a field without a value");
		wr_mini_error(call->out, "ERR wrong number of arguments for 'hset' command");
		return;
	}
	hash = wr_mini_collection(call, WR_MINI_HASH, true, &wrong);
	if (wrong)
		return;
	for (size_t i = 2; i < call->argc; i += 2) {
		fresh += wr_mini_entry(hash, call->argv[i]) == NULL;
		wr_bytes_set(&wr_mini_entry_make(hash, call->argv[i])->text, call->argv[i + 1].ptr,
			     call->argv[i + 1].len);
	}
	if (status)
		wr_mini_status(call->out, "OK");
	else
		wr_mini_int(call->out, fresh);
}

static void hset(const struct wr_mini_call *call)
{
	put_fields(call, false);
}

static void hmset(const struct wr_mini_call *call)
{
	put_fields(call, true);
}

static void put_field(const struct wr_mini_call *call, const struct wr_mini_entry *entry)
{
	if (entry)
		wr_mini_bulk(call->out, wr_bytes_str(&entry->text));
	else
		wr_mini_nil(call->out);
}

static void hget(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *hash = wr_mini_collection(call, WR_MINI_HASH, false, &wrong);

	if (!wrong)
		put_field(call, wr_mini_entry(hash, call->argv[2]));
}

static void hmget(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *hash = wr_mini_collection(call, WR_MINI_HASH, false, &wrong);

	if (wrong)
		return;
	wr_mini_array(call->out, call->argc - 2);
	for (size_t i = 2; i < call->argc; i++)
		put_field(call, wr_mini_entry(hash, call->argv[i]));
}

static void hgetall(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *hash = wr_mini_collection(call, WR_MINI_HASH, false, &wrong);

	if (wrong)
		return;
	wr_mini_array(call->out, hash ? 2 * hash->count : 0);
	for (size_t i = 0; hash && i < hash->count; i++) {
		wr_mini_bulk(call->out, wr_bytes_str(&hash->entries[i].name));
		wr_mini_bulk(call->out, wr_bytes_str(&hash->entries[i].text));
	}
}

static void drop_entries(const struct wr_mini_call *call, enum wr_mini_type type)
{
	bool wrong;
	struct wr_mini_value *set = wr_mini_collection(call, type, false, &wrong);
	int64_t gone = 0;

	if (wrong)
		return;
	for (size_t i = 2; set && i < call->argc; i++) {
		struct wr_mini_entry *entry = wr_mini_entry(set, call->argv[i]);

		gone += entry != NULL;
		if (entry)
			wr_mini_entry_drop(set, entry);
	}
	drop_empty(call, set);
	wr_mini_int(call->out, gone);
}

static void hdel(const struct wr_mini_call *call)
{
	drop_entries(call, WR_MINI_HASH);
}

static void count_entries(const struct wr_mini_call *call, enum wr_mini_type type)
{
	bool wrong;
	const struct wr_mini_value *set = wr_mini_collection(call, type, false, &wrong);

	if (!wrong)
		wr_mini_int(call->out, set ? (int64_t)set->count : 0);
}

static void hlen(const struct wr_mini_call *call)
{
	count_entries(call, WR_MINI_HASH);
}

static void hincrby(const struct wr_mini_call *call)
{
	bool wrong;
	struct wr_mini_value *hash = wr_mini_collection(call, WR_MINI_HASH, true, &wrong);
	struct wr_mini_entry *entry;
	int64_t number = 0, by = 0;

	if (wrong)
		return;
	entry = wr_mini_entry(hash, call->argv[2]);
	if (!wr_mini_number(call->argv[3], &by) ||
	    (entry && !wr_mini_number(wr_bytes_str(&entry->text), &number))) {
		wr_mini_fault(call->mini, "HINCRBY of what is no number");
		wr_mini_error(call->out, "ERR value is not an integer or out of range");
		return;
	}
	entry = wr_mini_entry_make(hash, call->argv[2]);
	entry->text.len = 0;
	number += by;
	wr_bytes_print(&entry->text, "%lld", (long long)number);
	wr_mini_int(call->out, number);
}

/* ---- sorted sets ---- */

static bool read_score(struct weir_str text, double *score)
{
	char copy[64];
	char *end;

	if (text.len == 0 || text.len >= sizeof copy)
		return false;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	*score = strtod(copy, &end);
	return *end == '\0' && !isnan(*score);
}

static void bad_score(const struct wr_mini_call *call)
{
	wr_mini_fault(call->mini, "a score that is no number");
	wr_mini_error(call->out, "ERR value is not a valid float");
}

static void zadd(const struct wr_mini_call *call)
{
	bool wrong;
	struct wr_mini_value *set;
	int64_t fresh = 0;
	double score;

	for (size_t i = 2; i < call->argc; i += 2)
		if (i + 1 >= call->argc || !read_score(call->argv[i], &score)) {
			bad_score(call);
			return;
		}
	set = wr_mini_collection(call, WR_MINI_ZSET, true, &wrong);
	if (wrong)
		return;
	for (size_t i = 2; i < call->argc; i += 2) {
		read_score(call->argv[i], &score);
		fresh += wr_mini_entry(set, call->argv[i + 1]) == NULL;
		wr_mini_entry_make(set, call->argv[i + 1])->score = score;
	}
	wr_mini_int(call->out, fresh);
}

static void zrem(const struct wr_mini_call *call)
{
	drop_entries(call, WR_MINI_ZSET);
}

static void zcard(const struct wr_mini_call *call)
{
	count_entries(call, WR_MINI_ZSET);
}

static void zremrangebyscore(const struct wr_mini_call *call)
{
	bool wrong;
	struct wr_mini_value *set = wr_mini_collection(call, WR_MINI_ZSET, false, &wrong);
	int64_t gone = 0;
	double low, high;

	if (wrong)
		return;
	if (!read_score(call->argv[2], &low) || !read_score(call->argv[3], &high)) {
		bad_score(call);
		return;
	}
	for (size_t i = 0; set && i < set->count;) {
		if (set->entries[i].score >= low && set->entries[i].score <= high) {
			wr_mini_entry_drop(set, &set->entries[i]);
			gone++;
		} else {
			i++;
		}
	}
	drop_empty(call, set);
	wr_mini_int(call->out, gone);
}

const struct wr_mini_op wr_mini_sets[] = {{"HSET", hset, -4, true, true},
					  {"HMSET", hmset, -4, true, true},
					  {"HGET", hget, 3, true, false},
					  {"HMGET", hmget, -3, true, false},
					  {"HGETALL", hgetall, 2, true, false},
					  {"HDEL", hdel, -3, true, true},
					  {"HLEN", hlen, 2, true, false},
					  {"HINCRBY", hincrby, 4, true, true},
					  {"ZADD", zadd, -4, true, true},
					  {"ZREM", zrem, -3, true, true},
					  {"ZCARD", zcard, 2, true, false},
					  {"ZREMRANGEBYSCORE", zremrangebyscore, 4, true, true},
					  {0}};
