/* Runs the commands for hashes and sorted sets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/redis.h"

/* Returns the value of the key. If the key does not exist, adds an empty value of this type. */
static struct wr_sim_redis_value *value_to_change(const struct wr_sim_redis_call *call,
						  enum wr_sim_redis_type type)
{
	return wr_sim_redis_find_or_add(call->redis, call->argv[1], type);
}

static void remove_if_empty(const struct wr_sim_redis_call *call,
			    const struct wr_sim_redis_value *value)
{
	if (value && value->count == 0)
		wr_sim_redis_remove(call->redis, call->argv[1]);
}

/* ---- hashes ---- */

/* Runs HSET, or HMSET, whose reply is OK instead of the number of new fields. */
static void cmd_hset(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *hash;
	int64_t added = 0;

	if (call->argc % 2) {
		wr_sim_redis_refuse(call, "ERR wrong number of arguments for 'hset' command");
		return;
	}
	hash = value_to_change(call, WR_SIM_REDIS_HASH);
	for (size_t i = 2; i < call->argc; i += 2) {
		added += wr_sim_redis_entry_find(hash, call->argv[i]) == NULL;
		wr_sim_buf_set(&wr_sim_redis_entry_add(hash, call->argv[i])->text,
			       call->argv[i + 1]);
	}
	if (wr_sim_redis_word_is(call->argv[0], "HMSET"))
		wr_sim_reply_status(call->out, "OK");
	else
		wr_sim_reply_int(call->out, added);
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
	reply_field(call, wr_sim_redis_entry_find(call->value, call->argv[2]));
}

static void cmd_hmget(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_array(call->out, call->argc - 2);
	for (size_t i = 2; i < call->argc; i++)
		reply_field(call, wr_sim_redis_entry_find(call->value, call->argv[i]));
}

static void cmd_hgetall(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *hash = call->value;

	wr_sim_reply_array(call->out, hash ? 2 * hash->count : 0);
	for (size_t i = 0; hash && i < hash->count; i++) {
		wr_sim_reply_bulk(call->out, wr_buf_str(&hash->entries[i].name));
		wr_sim_reply_bulk(call->out, wr_buf_str(&hash->entries[i].text));
	}
}

/* Runs HDEL or ZREM. */
static void cmd_remove_entries(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *set = call->value;
	int64_t removed = 0;

	for (size_t i = 2; set && i < call->argc; i++) {
		struct wr_sim_redis_entry *entry = wr_sim_redis_entry_find(set, call->argv[i]);

		removed += entry != NULL;
		if (entry)
			wr_sim_redis_entry_remove(set, entry);
	}
	remove_if_empty(call, set);
	wr_sim_reply_int(call->out, removed);
}

/* Runs HLEN or ZCARD. */
static void cmd_count_entries(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_int(call->out, call->value ? (int64_t)call->value->count : 0);
}

static void cmd_hincrby(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_entry *entry = wr_sim_redis_entry_find(call->value, call->argv[2]);
	int64_t number = 0, by = 0;

	if (!wr_sim_redis_parse_int(call->argv[3], &by) ||
	    (entry && !wr_sim_redis_parse_int(wr_buf_str(&entry->text), &number))) {
		wr_sim_redis_refuse(call, "ERR value is not an integer or out of range");
		return;
	}
	entry = wr_sim_redis_entry_add(value_to_change(call, WR_SIM_REDIS_HASH), call->argv[2]);
	wr_buf_clear(&entry->text);
	number += by;
	wr_buf_printf(&entry->text, "%lld", (long long)number);
	wr_sim_reply_int(call->out, number);
}

/* ---- sorted sets ---- */

static void cmd_zadd(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *set;
	int64_t added = 0;
	double score;

	for (size_t i = 2; i < call->argc; i += 2)
		if (i + 1 >= call->argc || !wr_sim_redis_parse_score(call->argv[i], &score)) {
			wr_sim_redis_refuse(call, "ERR value is not a valid float");
			return;
		}
	set = value_to_change(call, WR_SIM_REDIS_ZSET);
	for (size_t i = 2; i < call->argc; i += 2) {
		wr_sim_redis_parse_score(call->argv[i], &score);
		added += wr_sim_redis_entry_find(set, call->argv[i + 1]) == NULL;
		wr_sim_redis_entry_add(set, call->argv[i + 1])->score = score;
	}
	wr_sim_reply_int(call->out, added);
}

static void cmd_zremrangebyscore(const struct wr_sim_redis_call *call)
{
	struct wr_sim_redis_value *set = call->value;
	int64_t removed = 0;
	double low, high;

	if (!wr_sim_redis_parse_score(call->argv[2], &low) ||
	    !wr_sim_redis_parse_score(call->argv[3], &high)) {
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
	{"HSET", cmd_hset, -4, true, true, WR_SIM_REDIS_HASH},
	{"HMSET", cmd_hset, -4, true, true, WR_SIM_REDIS_HASH},
	{"HGET", cmd_hget, 3, true, false, WR_SIM_REDIS_HASH},
	{"HMGET", cmd_hmget, -3, true, false, WR_SIM_REDIS_HASH},
	{"HGETALL", cmd_hgetall, 2, true, false, WR_SIM_REDIS_HASH},
	{"HDEL", cmd_remove_entries, -3, true, true, WR_SIM_REDIS_HASH},
	{"HLEN", cmd_count_entries, 2, true, false, WR_SIM_REDIS_HASH},
	{"HINCRBY", cmd_hincrby, 4, true, true, WR_SIM_REDIS_HASH},
	{"ZADD", cmd_zadd, -4, true, true, WR_SIM_REDIS_ZSET},
	{"ZREM", cmd_remove_entries, -3, true, true, WR_SIM_REDIS_ZSET},
	{"ZCARD", cmd_count_entries, 2, true, false, WR_SIM_REDIS_ZSET},
	{"ZREMRANGEBYSCORE", cmd_zremrangebyscore, 4, true, true, WR_SIM_REDIS_ZSET},
	{0}};
