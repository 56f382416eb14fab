#include "serve/admin/watch_json.h"

#include <stddef.h>
#include <stdio.h>

#include "stats/words.h"
#include "wire/json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

void wr_watch_put_number(struct wr_text *out, const char *name, uint64_t number)
{
	wr_json_put_text(out, wr_str(name));
	wr_text_char(out, ':');
	wr_text_number(out, number);
}

void wr_watch_put_milli(struct wr_text *out, const char *name, uint64_t milli)
{
	char text[48];

	snprintf(text, sizeof text, "\"%s\":%llu.%03u", name, (unsigned long long)(milli / 1000),
		 (unsigned)(milli % 1000));
	wr_text_put(out, wr_str(text));
}

/* ---- history ---- */

static void put_series(struct wr_text *out, const char *name, const struct weir_point *points,
		       size_t count, size_t offset)
{
	wr_text_char(out, ',');
	wr_json_put_text(out, wr_str(name));
	PUT(out, ":[");
	for (size_t i = 0; i < count; i++) {
		uint64_t number;

		if (i)
			wr_text_char(out, ',');
		memcpy(&number, (const char *)&points[i] + offset, sizeof number);
		if (points[i].known)
			wr_text_number(out, number);
		else
			PUT(out, "null");
	}
	PUT(out, "]");
}

void wr_watch_put_history(struct wr_text *out, enum weir_span span, uint64_t end_s,
			  const struct weir_point *points, size_t count)
{
	wr_watch_put_number(out, "span", span);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "end", end_s);
	put_series(out, "admitted", points, count, offsetof(struct weir_point, admitted));
	put_series(out, "refused", points, count, offsetof(struct weir_point, refused));
	put_series(out, "shadowed", points, count, offsetof(struct weir_point, shadowed));
	put_series(out, "delayed", points, count, offsetof(struct weir_point, delayed));
}

/* ---- keys ---- */

/* "exact": the text is the whole value, so a key can be looked up by it. */
void wr_watch_put_key(struct wr_text *out, const struct weir_top_key *key)
{
	char hash[20];
	bool same = true;

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)key->hash);
	PUT(out, "{\"hash\":");
	wr_json_put_text(out, wr_str(hash));
	PUT(out, ",\"text\":");
	if (key->text_kind == WEIR_TOP_NO_TEXT)
		PUT(out, "null");
	else
		same = wr_json_put_bytes(out, (struct weir_str){key->text, key->text_len});
	PUT(out, ",\"exact\":");
	wr_text_put(out,
		    same && key->text_kind == WEIR_TOP_WHOLE ? WR_STR("true") : WR_STR("false"));
	wr_text_char(out, ',');
	wr_watch_put_number(out, "count", key->count);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "over", key->over);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "noise", key->noise);
	PUT(out, "}");
}

/* ---- a rule ---- */

static void put_limit(struct wr_text *out, const struct weir_stat *stat)
{
	struct wr_limit_view limit = wr_stat_limit(stat);
	const char *algorithm = weir_algorithm_name((int)stat->algorithm);
	char words[128];

	PUT(out, ",\"algorithm\":");
	wr_json_put_text_or_null(out, wr_str(algorithm ? algorithm : ""));
	PUT(out, ",\"words\":");
	if (stat->flags & WEIR_STAT_UNLIMITED)
		PUT(out, "\"unlimited\"");
	else if (!algorithm)
		PUT(out, "null");
	else
		wr_json_put_text(out, wr_str(wr_limit_words(&limit, NULL, words, sizeof words)));
	wr_text_char(out, ',');
	wr_watch_put_number(out, "limit", stat->limit);
	wr_text_char(out, ',');
	wr_watch_put_number(out, "burst", stat->burst);
	PUT(out, ",\"period\":");
	wr_json_put_seconds(out, stat->period_ns);
}

void wr_watch_put_stat(struct wr_text *out, struct weir_table *table, const struct weir_stat *stat)
{
	wr_watch_put_number(out, "slot", stat->slot);
	PUT(out, ",\"rule\":");
	wr_json_put_bytes(out, stat->rule);
	put_limit(out, stat);
	wr_json_put_flag(out, "watched", stat->flags & WEIR_STAT_HISTORY);
	wr_json_put_flag(out, "shadow", stat->flags & WEIR_STAT_SHADOW);
	wr_json_put_flag(out, "quota", stat->flags & WEIR_STAT_QUOTA);
	wr_json_put_flag(out, "central", stat->flags & WEIR_STAT_CENTRAL);
#define PUT_COUNT(field, what)                                                                     \
	wr_text_char(out, ',');                                                                    \
	wr_watch_put_number(out, #field, stat->field);
	WEIR_STATS(PUT_COUNT)
#undef PUT_COUNT
	wr_text_char(out, ',');
	wr_watch_put_milli(out, "per_second", wr_rate_now(table, stat).all_milli);
	PUT(out, ",\"loaded_at\":");
	wr_json_put_seconds(out, stat->loaded_ns);
}
