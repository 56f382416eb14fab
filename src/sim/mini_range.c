/* Sorted sets in their order, and what else the queue's script asks of collections. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim/mini.h"

/* One end of a range of scores. */
struct end {
	double score;
	bool open; /* the score itself is not in the range */
};

static void refuse(const struct wr_mini_call *call, const char *text)
{
	wr_mini_fault(call->mini, "%.*s: %s", (int)call->argv[0].len, call->argv[0].ptr, text);
	wr_mini_error(call->out, text);
}

static void hexists(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *hash = wr_mini_collection(call, WR_MINI_HASH, false, &wrong);

	if (!wrong)
		wr_mini_int(call->out, wr_mini_entry(hash, call->argv[2]) != NULL);
}

/* By score, then by the bytes of the member. */
static int compare(const void *a, const void *b)
{
	const struct wr_mini_entry *one = *(const struct wr_mini_entry *const *)a;
	const struct wr_mini_entry *two = *(const struct wr_mini_entry *const *)b;
	size_t len = one->name.len < two->name.len ? one->name.len : two->name.len;
	int order;

	if (one->score != two->score)
		return one->score < two->score ? -1 : 1;
	order = len ? memcmp(one->name.at, two->name.at, len) : 0;
	if (order != 0)
		return order;
	return one->name.len < two->name.len ? -1 : one->name.len > two->name.len;
}

/* The entries in their order; the caller frees the list. */
static const struct wr_mini_entry **sort(const struct wr_mini_value *set)
{
	size_t count = set ? set->count : 0;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): a list of pointers */
	const struct wr_mini_entry **list = wr_lab_alloc(count + 1, sizeof *list);

	for (size_t i = 0; i < count; i++)
		list[i] = &set->entries[i];
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): a list of pointers */
	qsort(list, count, sizeof *list, compare);
	return list;
}

static void zrank(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *set = wr_mini_collection(call, WR_MINI_ZSET, false, &wrong);
	const struct wr_mini_entry *entry = wr_mini_entry(set, call->argv[2]);
	int64_t rank = 0;

	if (wrong)
		return;
	if (!entry) {
		wr_mini_nil(call->out);
		return;
	}
	for (size_t i = 0; i < set->count; i++) {
		const struct wr_mini_entry *other = &set->entries[i];

		rank += compare(&other, &entry) < 0;
	}
	wr_mini_int(call->out, rank);
}

static void put_entries(const struct wr_mini_call *call, const struct wr_mini_entry *const *list,
			size_t count, bool scores)
{
	char text[40];

	wr_mini_array(call->out, scores ? 2 * count : count);
	for (size_t i = 0; i < count; i++) {
		wr_mini_bulk(call->out, wr_bytes_str(&list[i]->name));
		if (!scores)
			continue;
		snprintf(text, sizeof text, "%.17g", list[i]->score);
		wr_mini_bulk(call->out, wr_str(text));
	}
}

/* ZRANGE key start stop [WITHSCORES] */
static void zrange(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *set = wr_mini_collection(call, WR_MINI_ZSET, false, &wrong);
	const struct wr_mini_entry **list;
	int64_t start, stop, count = set ? (int64_t)set->count : 0;

	if (wrong)
		return;
	if (!wr_mini_number(call->argv[2], &start) || !wr_mini_number(call->argv[3], &stop) ||
	    (call->argc == 5 && !wr_mini_is(call->argv[4], "WITHSCORES")) || call->argc > 5) {
		refuse(call, "ERR syntax error");
		return;
	}
	start = start < 0 ? start + count : start;
	start = start < 0 ? 0 : start;
	stop = stop < 0 ? stop + count : stop;
	stop = stop >= count ? count - 1 : stop;
	list = sort(set);
	put_entries(call, list + (start < count ? start : count),
		    start <= stop ? (size_t)(stop - start + 1) : 0, call->argc == 5);
	free(list);
}

static bool read_end(struct weir_str text, struct end *end)
{
	char copy[64], *rest;

	end->open = text.len && text.ptr[0] == '(';
	if (end->open)
		text = wr_str_from(text, 1);
	if (text.len == 0 || text.len >= sizeof copy)
		return false;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	end->score = strtod(copy, &rest);
	return *rest == '\0' && !isnan(end->score);
}

/* [WITHSCORES] [LIMIT offset count] */
static bool read_words(const struct wr_mini_call *call, bool *scores, int64_t *offset,
		       int64_t *most)
{
	*scores = false;
	*offset = 0;
	*most = -1;
	for (size_t i = 4; i < call->argc; i++) {
		if (wr_mini_is(call->argv[i], "WITHSCORES")) {
			*scores = true;
		} else if (wr_mini_is(call->argv[i], "LIMIT") && i + 2 < call->argc &&
			   wr_mini_number(call->argv[i + 1], offset) &&
			   wr_mini_number(call->argv[i + 2], most)) {
			i += 2;
		} else {
			return false;
		}
	}
	return true;
}

static bool is_within(double score, const struct end *low, const struct end *high)
{
	return (low->open ? score > low->score : score >= low->score) &&
	       (high->open ? score < high->score : score <= high->score);
}

static void zrangebyscore(const struct wr_mini_call *call)
{
	bool wrong, scores;
	const struct wr_mini_value *set = wr_mini_collection(call, WR_MINI_ZSET, false, &wrong);
	const struct wr_mini_entry **list;
	int64_t offset, most;
	size_t found = 0, count;
	struct end low, high;

	if (wrong)
		return;
	if (!read_end(call->argv[2], &low) || !read_end(call->argv[3], &high) ||
	    !read_words(call, &scores, &offset, &most)) {
		refuse(call, "ERR syntax error");
		return;
	}
	list = sort(set);
	for (size_t i = 0; set && i < set->count; i++)
		if (is_within(list[i]->score, &low, &high))
			list[found++] = list[i];
	count = offset < 0 || (size_t)offset > found ? 0 : found - (size_t)offset;
	if (most >= 0 && count > (size_t)most)
		count = (size_t)most;
	put_entries(call, list + (count ? offset : 0), count, scores);
	free(list);
}

const struct wr_mini_op wr_mini_ranges[] = {{"HEXISTS", hexists, 3, true, false},
					    {"ZRANK", zrank, 3, true, false},
					    {"ZRANGE", zrange, -4, true, false},
					    {"ZRANGEBYSCORE", zrangebyscore, -4, true, false},
					    {0}};
