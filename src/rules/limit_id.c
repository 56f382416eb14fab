/* Gives limits their names: wr_rules_limit.id for counters in the table and in Redis, and
 * wr_rules_limit.stat for statistics. Neither name depends on the number of requests that a limit
 * admits, on its position in the file, or on the generation of the rules. */
#include "rules/read.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/hash.h"
#include "rules/path_text.h"

#define SPAN_TEXT (WR_DURATION_TEXT + WR_ZONE_NAME_MAX + 16)

static bool same_span(const struct wr_rules_limit *a, const struct wr_rules_limit *b)
{
	return a->calendar == b->calendar && a->limit.period_ns == b->limit.period_ns &&
	       (a->zone == b->zone ||
		(a->zone && b->zone && wr_str_equal(a->zone->name, b->zone->name)));
}

/* Writes the period, the max_hold or the calendar of a limit: "1m", "month@Asia/Seoul". */
static void span_text(const struct wr_rules_limit *limit, char text[SPAN_TEXT])
{
	const struct wr_rules_word *word = wr_calendar_words;

	if (!limit->calendar) {
		wr_duration_text(limit->limit.period_ns, text);
		return;
	}
	while (word->number != limit->calendar)
		word++;
	snprintf(text, SPAN_TEXT, "%s@%s", word->text.ptr,
		 limit->zone ? limit->zone->name.ptr : "UTC");
}

/* Sets the identity of the log of refusals. The log belongs to the id of the limit, so limits of one
 * key have logs of their own. The settings of `ban` are no part of the identity, except `within`,
 * which is the period of the log. */
static void name_refusals(struct wr_load *load, struct wr_rules_limit *limit)
{
	/* `ban` is const, because rules are not changed after loading. The cast is safe, because
	 * the rules are still being loaded. */
	struct wr_rules_ban *ban = (struct wr_rules_ban *)limit->ban;
	const char *name;

	if (!ban || ban->refusals.limit == 0)
		return;
	name = wr_load_print(load, &load->tree, "ban:%s", limit->id.ptr);
	ban->refusals.identity = XXH3_64bits(name, strlen(name));
	weir_limit_check(&ban->refusals, NULL);
}

static void name_limit(struct wr_load *load, struct wr_rules_limit *limit, bool has_twin)
{
	struct wr_arena *arena = &load->rules->arena;
	char span[SPAN_TEXT];
	char *rest;

	span_text(limit, span);
	rest = wr_load_print(load, &load->tree, "%s%s%s%s", limit->candidate ? "?" : "",
			     limit->calendar ? span : "", has_twin ? "#" : "",
			     has_twin ? limit->name.ptr : "");
	/* Limits with different algorithms or periods have different counters anyway.
	 * limit.identity is a hash of the other differences between limits: candidate or not,
	 * calendar, zone and name. */
	limit->limit.identity = *rest ? XXH3_64bits(rest, strlen(rest)) : 0;
	limit->id = wr_str(wr_load_print(load, arena, "%s%s/%s%s%s", limit->candidate ? "?" : "",
					 weir_algorithm_name((int)limit->limit.algorithm), span,
					 has_twin ? "#" : "", has_twin ? limit->name.ptr : ""));
	if (limit->limit.checked)
		/* Sets `checked` again: it is a hash that includes the identity, which is new. */
		weir_limit_check(&limit->limit, NULL);
	name_refusals(load, limit);
}

static struct weir_str limit_name(const struct wr_rules_limit *limit)
{
	return limit->name.ptr ? limit->name : WR_STR("");
}

/* The id of a candidate begins with `?`, which a reader of the rules has never seen. So the message
 * does not contain the id. */
static void report_alike(struct wr_load *load, const struct wr_rules_limit *limit,
			 const struct wr_yaml *mark)
{
	char span[SPAN_TEXT];
	const char *text;

	span_text(limit, span);
	text = wr_load_print(load, &load->tree, "%s/%s",
			     weir_algorithm_name((int)limit->limit.algorithm), span);
	wr_rules_report(load, WR_D_alike_limits, mark, WR_ARGS(wr_str(text)));
}

/* Gives each limit of a descriptor its id. If two limits have the same algorithm, period and zone,
 * the id also contains the name of the limit. The names must differ, because otherwise the two
 * limits would share a counter. */
static void name_all(struct wr_load *load, struct wr_rules_limit *limits, uint32_t count,
		     const struct wr_yaml *const *marks)
{
	for (uint32_t i = 0; i < count; i++) {
		bool has_twin = false, clash = false;

		if (limits[i].unlimited || !limits[i].limit.period_ns)
			continue;
		for (uint32_t j = 0; j < count; j++) {
			if (i == j || limits[j].unlimited ||
			    limits[i].limit.algorithm != limits[j].limit.algorithm ||
			    !same_span(&limits[i], &limits[j]))
				continue;
			has_twin = true;
			clash |= j < i &&
				 (limits[i].name.len == 0 || limits[j].name.len == 0 ||
				  wr_str_equal(limit_name(&limits[i]), limit_name(&limits[j])));
		}
		limits[i].name = limit_name(&limits[i]);
		name_limit(load, &limits[i], has_twin && limits[i].name.len);
		if (clash)
			report_alike(load, &limits[i], marks[i]);
	}
}

static struct weir_str below_path(struct wr_load *load, const struct wr_node *node,
				  const char *tail)
{
	size_t len = wr_path_text(node, NULL, 0);
	char *text = wr_load_alloc(load, &load->rules->arena, len + strlen(tail) + 2);

	wr_path_text(node, text, len + 1);
	text[len] = '/';
	memcpy(text + len + 1, tail, strlen(tail) + 1);
	return wr_str(text);
}

static bool is_concurrent(const struct wr_rules_limit *limit)
{
	return limit->limit.algorithm == WEIR_CONCURRENT;
}

/* Makes the name of a limit in statistics. It consists of the path of the tree node (path_text.h)
 * and the period. If another limit of the node has the same period, the id of the limit is used
 * instead of the period. A limit on concurrent requests has no period, so its id is used too. */
static void name_stat(struct wr_load *load, const struct wr_node *node,
		      struct wr_rules_limit *limits, uint32_t count, uint32_t at)
{
	char span[SPAN_TEXT];
	const char *tail = span;

	if (limits[at].unlimited) {
		tail = "unlimited";
	} else if (is_concurrent(&limits[at])) {
		tail = limits[at].id.ptr;
	} else {
		span_text(&limits[at], span);
		for (uint32_t i = 0; i < count; i++)
			if (i != at && !is_concurrent(&limits[i]) &&
			    same_span(&limits[at], &limits[i]))
				tail = limits[at].id.ptr;
	}
	limits[at].stat = below_path(load, node, tail);
}

void wr_rules_name_limits(struct wr_load *load, const struct wr_node *node,
			  struct wr_rules_limit *limits, uint32_t count,
			  const struct wr_yaml *const *marks)
{
	wr_assert(count <= WR_LIMITS_MAX);
	name_all(load, limits, count, marks);
	for (uint32_t i = 0; i < count; i++)
		if (limits[i].unlimited || limits[i].limit.period_ns)
			name_stat(load, node, limits, count, i);
}

void wr_rules_name_candidates(struct wr_load *load, const struct wr_node *node,
			      struct wr_rules_limit *candidates, uint32_t count,
			      const struct wr_yaml *const *marks)
{
	wr_assert(candidates || count == 0);
	name_all(load, candidates, count, marks);
	for (uint32_t i = 0; i < count; i++)
		if (candidates[i].limit.period_ns)
			candidates[i].stat = below_path(load, node, candidates[i].id.ptr);
}
