/* Runs the commands that read sorted sets, and HEXISTS. The scripts of the queue and of concurrent
 * limits use these commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/redis.h"

/* One end of a range of scores. */
struct score_bound {
	double score;
	bool open; /* `score` itself is not in the range */
};

static void cmd_hexists(const struct wr_sim_redis_call *call)
{
	wr_sim_reply_int(call->out, wr_sim_redis_entry_find(call->value, call->argv[2]) != NULL);
}

/* Compares for qsort(): by score, and if the scores are equal by the bytes of the member. */
static int compare_entries(const void *a, const void *b)
{
	const struct wr_sim_redis_entry *one = *(const struct wr_sim_redis_entry *const *)a;
	const struct wr_sim_redis_entry *two = *(const struct wr_sim_redis_entry *const *)b;
	size_t len = one->name.len < two->name.len ? one->name.len : two->name.len;
	int order;

	if (one->score != two->score)
		return one->score < two->score ? -1 : 1;
	order = len ? memcmp(one->name.ptr, two->name.ptr, len) : 0;
	if (order != 0)
		return order;
	return one->name.len < two->name.len ? -1 : one->name.len > two->name.len;
}

/* Returns the entries of a sorted set in the order of scores. The caller frees the list. */
static const struct wr_sim_redis_entry **sort_entries(const struct wr_sim_redis_value *set)
{
	size_t count = set ? set->count : 0;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): a list of pointers */
	const struct wr_sim_redis_entry **list = wr_sim_alloc(count + 1, sizeof *list);

	for (size_t i = 0; i < count; i++)
		list[i] = &set->entries[i];
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): a list of pointers */
	qsort(list, count, sizeof *list, compare_entries);
	return list;
}

static void cmd_zrank(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *set = call->value;
	const struct wr_sim_redis_entry *entry = wr_sim_redis_entry_find(set, call->argv[2]);
	int64_t rank = 0;

	if (!entry) {
		wr_sim_reply_nil(call->out);
		return;
	}
	for (size_t i = 0; i < set->count; i++) {
		const struct wr_sim_redis_entry *other = &set->entries[i];

		rank += compare_entries(&other, &entry) < 0;
	}
	wr_sim_reply_int(call->out, rank);
}

static void reply_entries(const struct wr_sim_redis_call *call,
			  const struct wr_sim_redis_entry *const *list, size_t count, bool scores)
{
	char text[40];

	wr_sim_reply_array(call->out, scores ? 2 * count : count);
	for (size_t i = 0; i < count; i++) {
		wr_sim_reply_bulk(call->out, wr_buf_str(&list[i]->name));
		if (!scores)
			continue;
		snprintf(text, sizeof text, "%.17g", list[i]->score);
		wr_sim_reply_bulk(call->out, wr_str(text));
	}
}

/* Runs ZRANGE key start stop [WITHSCORES]. */
static void cmd_zrange(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *set = call->value;
	const struct wr_sim_redis_entry **list;
	int64_t start, stop, count = set ? (int64_t)set->count : 0;

	if (!wr_sim_redis_parse_int(call->argv[2], &start) ||
	    !wr_sim_redis_parse_int(call->argv[3], &stop) ||
	    (call->argc == 5 && !wr_sim_redis_word_is(call->argv[4], "WITHSCORES")) ||
	    call->argc > 5) {
		wr_sim_redis_refuse(call, "ERR syntax error");
		return;
	}
	start = start < 0 ? start + count : start;
	start = start < 0 ? 0 : start;
	stop = stop < 0 ? stop + count : stop;
	stop = stop >= count ? count - 1 : stop;
	list = sort_entries(set);
	reply_entries(call, list + (start < count ? start : count),
		      start <= stop ? (size_t)(stop - start + 1) : 0, call->argc == 5);
	free(list);
}

static void cmd_zscore(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_entry *entry =
		wr_sim_redis_entry_find(call->value, call->argv[2]);
	char text[40];

	if (!entry) {
		wr_sim_reply_nil(call->out);
		return;
	}
	snprintf(text, sizeof text, "%.17g", entry->score);
	wr_sim_reply_bulk(call->out, wr_str(text));
}

static bool read_bound(struct weir_str text, struct score_bound *bound)
{
	bound->open = wr_str_begins(text, WR_STR("("));
	return wr_sim_redis_parse_score(wr_str_from(text, bound->open), &bound->score);
}

/* Reads the options [WITHSCORES] [LIMIT offset count]. Returns false for any other word. */
static bool read_range_options(const struct wr_sim_redis_call *call, bool *scores, int64_t *offset,
			       int64_t *most)
{
	*scores = false;
	*offset = 0;
	*most = -1;
	for (size_t i = 4; i < call->argc; i++) {
		if (wr_sim_redis_word_is(call->argv[i], "WITHSCORES")) {
			*scores = true;
		} else if (wr_sim_redis_word_is(call->argv[i], "LIMIT") && i + 2 < call->argc &&
			   wr_sim_redis_parse_int(call->argv[i + 1], offset) &&
			   wr_sim_redis_parse_int(call->argv[i + 2], most)) {
			i += 2;
		} else {
			return false;
		}
	}
	return true;
}

static bool is_between(double score, struct score_bound low, struct score_bound high)
{
	return (low.open ? score > low.score : score >= low.score) &&
	       (high.open ? score < high.score : score <= high.score);
}

static void cmd_zcount(const struct wr_sim_redis_call *call)
{
	const struct wr_sim_redis_value *set = call->value;
	struct score_bound low, high;
	int64_t found = 0;

	if (!read_bound(call->argv[2], &low) || !read_bound(call->argv[3], &high)) {
		wr_sim_redis_refuse(call, "ERR min or max is not a float");
		return;
	}
	for (size_t i = 0; set && i < set->count; i++)
		found += is_between(set->entries[i].score, low, high);
	wr_sim_reply_int(call->out, found);
}

static void cmd_zrangebyscore(const struct wr_sim_redis_call *call)
{
	bool scores;
	const struct wr_sim_redis_value *set = call->value;
	const struct wr_sim_redis_entry **list;
	int64_t offset, most;
	size_t found = 0, count;
	struct score_bound low, high;

	if (!read_bound(call->argv[2], &low) || !read_bound(call->argv[3], &high) ||
	    !read_range_options(call, &scores, &offset, &most)) {
		wr_sim_redis_refuse(call, "ERR syntax error");
		return;
	}
	list = sort_entries(set);
	for (size_t i = 0; set && i < set->count; i++)
		if (is_between(list[i]->score, low, high))
			list[found++] = list[i];
	count = offset < 0 || (size_t)offset > found ? 0 : found - (size_t)offset;
	if (most >= 0 && count > (size_t)most)
		count = (size_t)most;
	reply_entries(call, list + (count ? offset : 0), count, scores);
	free(list);
}

const struct wr_sim_redis_op wr_sim_redis_range_ops[] = {
	{"HEXISTS", cmd_hexists, 3, true, false, WR_SIM_REDIS_HASH},
	{"ZSCORE", cmd_zscore, 3, true, false, WR_SIM_REDIS_ZSET},
	{"ZCOUNT", cmd_zcount, 4, true, false, WR_SIM_REDIS_ZSET},
	{"ZRANK", cmd_zrank, 3, true, false, WR_SIM_REDIS_ZSET},
	{"ZRANGE", cmd_zrange, -4, true, false, WR_SIM_REDIS_ZSET},
	{"ZRANGEBYSCORE", cmd_zrangebyscore, -4, true, false, WR_SIM_REDIS_ZSET},
	{0}};
