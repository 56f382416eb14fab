/* One rule: its counts and history, who meets it, what candidates would have said, and advice. */
#include <stdlib.h>

#include "stats/advice.h"
#include "wire/json.h"
#include "serve/admin/rules_json.h"
#include "serve/admin/watch_json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define CANDIDATES_MAX 8u

/* All that is known of a rule; allocated, for it is large. */
struct known {
	struct weir_stat stat;
	char name[WEIR_STAT_NAME_BYTES];
	struct weir_point seconds[WEIR_HISTORY_SECONDS];
	struct weir_point points[WEIR_HISTORY_MINUTES];
	int second_count;
	struct weir_top_key hot[WEIR_TOP_KEYS], refused[WEIR_TOP_KEYS];
	int hot_count, refused_count;
	struct weir_top_info hot_info, refused_info;
	struct weir_candidate candidates[CANDIDATES_MAX];
	char texts[CANDIDATES_MAX][WEIR_STAT_NAME_BYTES];
	size_t candidate_count;
};

/* ---- gathering ---- */

/* Those that were loaded with the rule as it is; others are of rules that are gone. */
static int on_candidate(void *context, const struct weir_candidate *candidate)
{
	struct known *known = context;
	char *text = known->texts[known->candidate_count];
	size_t len = candidate->text.len < WEIR_STAT_NAME_BYTES ? candidate->text.len
								: WEIR_STAT_NAME_BYTES;

	if (candidate->rule_slot != known->stat.slot ||
	    candidate->loaded_ns < known->stat.loaded_ns)
		return 0;
	known->candidates[known->candidate_count] = *candidate;
	memcpy(text, candidate->text.ptr, len);
	known->candidates[known->candidate_count].text = (struct weir_str){text, len};
	return ++known->candidate_count == CANDIDATES_MAX;
}

static int gather(struct weir_table *table, uint32_t slot, struct known *known)
{
	uint64_t end_s;
	int rc;

	known->stat.size = sizeof known->stat;
	known->hot_info.size = known->refused_info.size = sizeof known->hot_info;
	rc = weir_stats_slot(table, slot, known->name, &known->stat);
	if (rc < 0)
		return rc;
	known->second_count = weir_history(table, slot, WEIR_SECONDS, known->seconds,
					   WEIR_HISTORY_SECONDS, &end_s);
	known->hot_count =
		weir_top(table, slot, WEIR_TOP_HOT, known->hot, WEIR_TOP_KEYS, &known->hot_info);
	known->refused_count = weir_top(table, slot, WEIR_TOP_REFUSED, known->refused,
					WEIR_TOP_KEYS, &known->refused_info);
	weir_candidates_each(table, on_candidate, known);
	return 0;
}

static size_t at_least_none(int count)
{
	return count > 0 ? (size_t)count : 0;
}

/* ---- writing ---- */

static void put_history(struct wr_text *out, struct weir_table *table, uint32_t slot,
			enum weir_span span, struct known *known)
{
	uint64_t end_s = 0;
	int count = weir_history(table, slot, span, known->points,
				 span == WEIR_SECONDS ? WEIR_HISTORY_SECONDS : WEIR_HISTORY_MINUTES,
				 &end_s);

	PUT(out, ",\"history\":");
	if (count < 0) {
		PUT(out, "null");
		return;
	}
	PUT(out, "{");
	wr_watch_put_history(out, span, end_s, known->points, (size_t)count);
	PUT(out, "}");
}

static void put_keys(struct wr_text *out, struct weir_str name, const struct weir_top_key *keys,
		     int count, const struct weir_top_info *info)
{
	wr_text_char(out, ',');
	wr_json_put_text(out, name);
	if (count < 0) {
		PUT(out, ":null");
		return;
	}
	PUT(out, ":{");
	wr_watch_put_number(out, "total", info->total);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "every", info->every);
	PUT(out, ",\"keys\":[");
	for (int i = 0; i < count; i++) {
		if (i)
			wr_text_char(out, ',');
		wr_watch_put_key(out, &keys[i]);
	}
	PUT(out, "]}");
}

static void put_candidate(struct wr_text *out, const struct weir_candidate *candidate,
			  const struct wr_limit_view *like)
{
	struct wr_limit_view limit = wr_candidate_limit(candidate);
	char text[256];

	wr_watch_put_number(out, "slot", candidate->slot);
	PUT(out, ",\"text\":");
	wr_json_put_bytes(out, candidate->text);
	PUT(out, ",\"short\":");
	wr_json_put_text(out, wr_str(wr_limit_words(&limit, like, text, sizeof text)));
	PUT(out, ",\"words\":");
	wr_json_put_text(out, wr_str(wr_candidate_words(candidate, text, sizeof text)));
	PUT(out, ",");
	wr_watch_put_number(out, "would_admit", candidate->would_admit);
	PUT(out, ",");
	wr_watch_put_number(out, "would_refuse", candidate->would_refuse);
	PUT(out, ",");
	wr_watch_put_number(out, "admits_more", candidate->admits_more);
	PUT(out, ",");
	wr_watch_put_number(out, "refuses_more", candidate->refuses_more);
	PUT(out, ",");
	wr_watch_put_number(out, "would_delay", candidate->would_delay);
}

static void put_candidates(struct wr_text *out, struct weir_table *table, enum weir_span span,
			   struct known *known)
{
	struct wr_limit_view like = wr_stat_limit(&known->stat);

	PUT(out, ",\"candidates\":[");
	for (size_t i = 0; i < known->candidate_count; i++) {
		wr_text_put(out, i ? WR_STR(",{") : WR_STR("{"));
		put_candidate(out, &known->candidates[i], &like);
		put_history(out, table, known->candidates[i].slot, span, known);
		PUT(out, "}");
	}
	PUT(out, "]");
}

static void put_one_advice(struct wr_text *out, const struct wr_advice *advice)
{
	PUT(out, "{\"kind\":");
	wr_json_put_text(out, wr_str(wr_advice_names[advice->kind]));
	PUT(out, ",\"text\":");
	wr_json_put_text(out, wr_str(advice->text));
	PUT(out, ",\"yaml\":");
	wr_json_put_text_or_null(out, wr_str(advice->yaml));
	PUT(out, ",\"key\":");
	if (advice->key)
		wr_watch_put_key(out, advice->key);
	else
		PUT(out, "null");
	PUT(out, ",\"numbers\":{");
	for (size_t i = 0; i < advice->number_count; i++) {
		if (i)
			wr_text_char(out, ',');
		wr_watch_put_number(out, advice->numbers[i].name, advice->numbers[i].value);
	}
	PUT(out, "}}");
}

static void put_advice(struct wr_text *out, const struct known *known, uint64_t now_ns)
{
	struct wr_advice_view view = {.stat = &known->stat,
				      .now_ns = now_ns,
				      .seconds = known->seconds,
				      .second_count = at_least_none(known->second_count),
				      .hot = known->hot,
				      .refused = known->refused,
				      .hot_count = at_least_none(known->hot_count),
				      .refused_count = at_least_none(known->refused_count),
				      .refused_total = known->refused_info.total,
				      .candidates = known->candidates,
				      .candidate_count = known->candidate_count};
	struct wr_advice advice[WR_ADVICE_MAX];
	size_t count = wr_advise(&view, advice);

	PUT(out, ",\"advice\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			wr_text_char(out, ',');
		put_one_advice(out, &advice[i]);
	}
	PUT(out, "]");
}

int wr_rule_json(const struct wr_watch_view *view, const struct wr_watch_query *query,
		 struct wr_text *out)
{
	struct known *known = calloc(1, sizeof *known);
	int rc = known ? gather(view->table, query->slot, known) : WEIR_EMEMORY;

	if (rc == 0) {
		wr_watch_put_stat(out, view->table, &known->stat);
		PUT(out, ",\"in_force\":");
		wr_rules_json_one(view->engine, known->stat.rule, out);
		put_history(out, view->table, query->slot, query->span, known);
		put_keys(out, WR_STR("hot"), known->hot, known->hot_count, &known->hot_info);
		put_keys(out, WR_STR("refused_keys"), known->refused, known->refused_count,
			 &known->refused_info);
		put_candidates(out, view->table, query->span, known);
		put_advice(out, known, view->now_ns);
		PUT(out, ",\"latency\":");
		wr_latency_json(view, out);
	}
	free(known);
	return rc;
}
