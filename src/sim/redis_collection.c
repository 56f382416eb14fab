/* Commands for hashes and sorted sets. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/redis.h"

struct wr_sim_redis_value *wr_sim_redis_find_typed(const struct wr_sim_redis_call *call,
						   enum wr_sim_redis_type type, bool make,
						   bool *wrong)
{
	struct wr_sim_redis_value *value =
		make ? wr_sim_redis_find_or_add(call->redis, call->argv[1], type)
		     : wr_sim_redis_find(call->redis, call->argv[1]);

	*wrong = value && value->type != type;
	if (!*wrong)
		return value;
	wr_sim_redis_refuse(call,
			    "WRONGTYPE Operation against a key holding the wrong kind of value");
	return NULL;
}

static void remove_if_empty(const struct wr_sim_redis_call *call,
			    const struct wr_sim_redis_value *value)
{
	if (value && value->count == 0)
		wr_sim_redis_remove(call->redis, call->argv[1]);
}

/* ---- hashes ---- */

static void set_fields(const struct wr_sim_redis_call *call, bool status)
{
	bool wrong;
	struct wr_sim_redis_value *hash;
	int64_t added = 0;

	if (call->argc % 2) {
		wr_sim_redis_refuse(call, "ERR wrong number of arguments for 'hset' command");
		return;
	}
	hash = wr_sim_redis_find_typed(call, WR_SIM_REDIS_HASH, true, &wrong);
	if (wrong)
		return;
	for (size_t i = 2; i < call->argc; i += 2) {
		added += wr_sim_redis_entry_find(hash, call->argv[i]) == NULL;
		wr_sim_buf_set(&wr_sim_redis_entry_add(hash, call->argv[i])->text,
			       call->argv[i + 1]);
	}
	if (status)
		wr_sim_reply_status(call->out, "OK");
	else
		wr_sim_reply_int(call->out, added);
}

static void cmd_hset(const struct wr_sim_redis_call *call)
{
	set_fields(call, false);
}

static void cmd_hmset(const struct wr_sim_redis_call *call)
{
	set_fields(call, true);
}

static void reply_field(const struct wr_sim_redis_call *call,
			const struct wr_sim_redis_entry *entry)
{
	if (entry)
		wr_sim_reply_bulk(call->out, wr_buf_str(&entry->text));
	else
		wr_sim_reply_nil(call->out);
}

static void cmd_hget(const struct wr_sim_redis_call *call)
{
	bool wrong;
	const struct wr_sim_redis_value *hash =
		wr_sim_redis_find_typed(call, WR_SIM_REDIS_HASH, false, &wrong);

	if (!wrong)
		reply_field(call, wr_sim_redis_entry_find(hash, call->argv[2]));
}

static void cmd_hmget(const struct wr_sim_redis_call *call)
{
	bool wrong;
	const struct wr_sim_redis_value *hash =
		wr_sim_redis_find_typed(call, WR_SIM_REDIS_HASH, false, &wrong);

	if (wrong)
		return;
	wr_sim_reply_array(call->out, call->argc - 2);
	for (size_t i = 2; i < call->argc; i++)
		reply_field(call, wr_sim_redis_entry_find(hash, call->argv[i]));
}

static void cmd_hgetall(const struct wr_sim_redis_call *call)
{
	bool wrong;
	const struct wr_sim_redis_value *hash =
		wr_sim_redis_find_typed(call, WR_SIM_REDIS_HASH, false, &wrong);

	if (wrong)
		return;
	wr_sim_reply_array(call->out, hash ? 2 * hash->count : 0);
	for (size_t i = 0; hash && i < hash->count; i++) {
		wr_sim_reply_bulk(call->out, wr_buf_str(&hash->entries[i].name));
		wr_sim_reply_bulk(call->out, wr_buf_str(&hash->entries[i].text));
	}
}

static void remove_entries(const struct wr_sim_redis_call *call, enum wr_sim_redis_type type)
{
	bool wrong;
	struct wr_sim_redis_value *set = wr_sim_redis_find_typed(call, type, false, &wrong);
	int64_t removed = 0;

	if (wrong)
		return;
	for (size_t i = 2; set && i < call->argc; i++) {
		struct wr_sim_redis_entry *entry = wr_sim_redis_entry_find(set, call->argv[i]);

		removed += entry != NULL;
		if (entry)
			wr_sim_redis_entry_remove(set, entry);
	}
	remove_if_empty(call, set);
	wr_sim_reply_int(call->out, removed);
}

static void cmd_hdel(const struct wr_sim_redis_call *call)
{
	remove_entries(call, WR_SIM_REDIS_HASH);
}

static void count_entries(const struct wr_sim_redis_call *call, enum wr_sim_redis_type type)
{
	bool wrong;
	const struct wr_sim_redis_value *set = wr_sim_redis_find_typed(call, type, false, &wrong);

	if (!wrong)
		wr_sim_reply_int(call->out, set ? (int64_t)set->count : 0);
}

static void cmd_hlen(const struct wr_sim_redis_call *call)
{
	count_entries(call, WR_SIM_REDIS_HASH);
}

static void cmd_hincrby(const struct wr_sim_redis_call *call)
{
	bool wrong;
	struct wr_sim_redis_value *hash =
		wr_sim_redis_find_typed(call, WR_SIM_REDIS_HASH, true, &wrong);
	struct wr_sim_redis_entry *entry;
	int64_t number = 0, by = 0;

	if (wrong)
		return;
	entry = wr_sim_redis_entry_find(hash, call->argv[2]);
	if (!wr_sim_redis_parse_int(call->argv[3], &by) ||
	    (entry && !wr_sim_redis_parse_int(wr_buf_str(&entry->text), &number))) {
		wr_sim_redis_refuse(call, "ERR value is not an integer or out of range");
		return;
	}
	entry = wr_sim_redis_entry_add(hash, call->argv[2]);
	wr_buf_clear(&entry->text);
	number += by;
	wr_buf_printf(&entry->text, "%lld", (long long)number);
	wr_sim_reply_int(call->out, number);
}

/* ---- sorted sets ---- */

static bool parse_score(struct weir_str text, double *score)
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

static void cmd_zadd(const struct wr_sim_redis_call *call)
{
	bool wrong;
	struct wr_sim_redis_value *set;
	int64_t added = 0;
	double score;

	for (size_t i = 2; i < call->argc; i += 2)
		if (i + 1 >= call->argc || !parse_score(call->argv[i], &score)) {
			wr_sim_redis_refuse(call, "ERR value is not a valid float");
			return;
		}
	set = wr_sim_redis_find_typed(call, WR_SIM_REDIS_ZSET, true, &wrong);
	if (wrong)
		return;
	for (size_t i = 2; i < call->argc; i += 2) {
		parse_score(call->argv[i], &score);
		added += wr_sim_redis_entry_find(set, call->argv[i + 1]) == NULL;
		wr_sim_redis_entry_add(set, call->argv[i + 1])->score = score;
	}
	wr_sim_reply_int(call->out, added);
}

static void cmd_zrem(const struct wr_sim_redis_call *call)
{
	remove_entries(call, WR_SIM_REDIS_ZSET);
}

static void cmd_zcard(const struct wr_sim_redis_call *call)
{
	count_entries(call, WR_SIM_REDIS_ZSET);
}

static void cmd_zremrangebyscore(const struct wr_sim_redis_call *call)
{
	bool wrong;
	struct wr_sim_redis_value *set =
		wr_sim_redis_find_typed(call, WR_SIM_REDIS_ZSET, false, &wrong);
	int64_t removed = 0;
	double low, high;

	if (wrong)
		return;
	if (!parse_score(call->argv[2], &low) || !parse_score(call->argv[3], &high)) {
		wr_sim_redis_refuse(call, "ERR value is not a valid float");
		return;
	}
	for (size_t i = 0; set && i < set->count;) {
		if (set->entries[i].score >= low && set->entries[i].score <= high) {
			wr_sim_redis_entry_remove(set, &set->entries[i]);
			removed++;
		} else {
			i++;
		}
	}
	remove_if_empty(call, set);
	wr_sim_reply_int(call->out, removed);
}

const struct wr_sim_redis_op wr_sim_redis_collection_ops[] = {
	{"HSET", cmd_hset, -4, true, true},
	{"HMSET", cmd_hmset, -4, true, true},
	{"HGET", cmd_hget, 3, true, false},
	{"HMGET", cmd_hmget, -3, true, false},
	{"HGETALL", cmd_hgetall, 2, true, false},
	{"HDEL", cmd_hdel, -3, true, true},
	{"HLEN", cmd_hlen, 2, true, false},
	{"HINCRBY", cmd_hincrby, 4, true, true},
	{"ZADD", cmd_zadd, -4, true, true},
	{"ZREM", cmd_zrem, -3, true, true},
	{"ZCARD", cmd_zcard, 2, true, false},
	{"ZREMRANGEBYSCORE", cmd_zremrangebyscore, 4, true, true},
	{0}};
