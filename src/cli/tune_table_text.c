/* Prints the result of weir tune --from-table for people, and writes the proposed changes. */
#include <stdio.h>

#include "base/duration.h"
#include "base/str.h"
#include "cli/columns.h"
#include "cli/replay.h"
#include "cli/show.h"
#include "cli/tune_table.h"
#include "cli/watch/key.h"

#define KEYS_SHOWN 5u

/* ---- what was seen ---- */

void wr_cli_tune_table_head(const struct wr_cli_watch *watch,
			    const struct wr_cli_tune_table_opts *opts)
{
	size_t selected = wr_cli_tune_table_selected(watch, opts->names), unused = 0;

	for (size_t i = 0; i < watch->rule_count; i++)
		unused += wr_cli_watch_selects(opts->names, watch->rules[i].stat.rule) &&
			  wr_cli_watch_all(&watch->rules[i].stat) == 0;
	printf("table      %s\n", watch->name ? watch->name : "default");
	printf("rules      %zu with requests, %zu without\n", selected - unused, unused);
	printf("untouched  %.10g %% of the requests; the table does not count the clients that a "
	       "limit refuses\n",
	       opts->untouched_ppm / 1e4);
}

/* Prints "785 of 6,995, 11.2 %". */
static void print_part(uint64_t part, uint64_t whole)
{
	char some[WR_NUMBER_WORDS], all[WR_NUMBER_WORDS], percent[WR_REPLAY_WORDS];

	wr_number_words(part, some);
	wr_number_words(whole, all);
	wr_cli_replay_percent(part, whole, percent);
	printf("%s of %s, %s", some, all, percent);
}

static void print_peak(const struct wr_cli_tune_table_peak *peak, const char *one, const char *many)
{
	char most[WR_NUMBER_WORDS], refused[WR_NUMBER_WORDS];

	wr_number_words(peak->most, most);
	wr_number_words(peak->refused, refused);
	printf("%s requests and %s refusals in one %s; the history has %zu %s\n", most, refused,
	       one, peak->known, peak->known == 1 ? one : many);
}

static void print_seen(const struct wr_cli_tune_table_rule *tuned)
{
	const struct weir_stat *stat = &tuned->rule->stat;
	char since[WR_REPLAY_WORDS];

	fputs("  refused    ", stdout);
	print_part(tuned->refused, tuned->requests);
	puts(stat->flags & WEIR_STAT_SHADOW
		     ? ", since the table was made; the rule is in shadow mode and admits them"
		     : ", since the table was made");
	if (stat->since_ns) {
		wr_cli_replay_time(stat->since_ns, since);
		printf("  limit      in force since %s UTC\n", since);
	}
	if (tuned->second.known == 0)
		puts("  peak       not known, because the table has no history of this rule");
	if (tuned->second.known) {
		fputs("  peak       ", stdout);
		print_peak(&tuned->second, "second", "seconds");
	}
	if (tuned->minute.known) {
		fputs("             ", stdout);
		print_peak(&tuned->minute, "minute", "minutes");
	}
}

/* Writes how often requests of the key were refused; "-": not known, because the list of refused keys
 * is full and does not have the key. */
static void refused_text(const struct wr_cli_tune_table_rule *tuned, uint64_t hash,
			 char text[WR_NUMBER_WORDS])
{
	snprintf(text, WR_NUMBER_WORDS, "%s",
		 tuned->most_refused_count < WEIR_TOP_KEYS ? "0" : "-");
	for (size_t i = 0; i < tuned->most_refused_count; i++)
		if (tuned->most_refused[i].hash == hash)
			wr_number_words(tuned->most_refused[i].count, text);
}

static void print_keys(const struct wr_cli_tune_table_rule *tuned, bool utf8)
{
	if (tuned->hot_count == 0) {
		puts("  keys       not known, because the table has no list of keys of this rule");
		return;
	}
	puts("  keys       the busiest; counts are estimates, and recent requests weigh more");
	printf("  %11s  %7s  %9s  KEY\n", "REQUESTS", "SHARE", "REFUSED");
	for (size_t i = 0; i < tuned->hot_count && i < KEYS_SHOWN; i++) {
		const struct weir_top_key *key = &tuned->hot[i];
		char count[WR_NUMBER_WORDS], refused[WR_NUMBER_WORDS], share[WR_REPLAY_WORDS];
		char text[4 * WR_KEY_COLUMNS + 1];

		wr_number_words(key->count, count);
		refused_text(tuned, key->hash, refused);
		wr_cli_replay_percent(key->count, tuned->hot_total, share);
		wr_cli_watch_key_text(key, WR_KEY_COLUMNS, utf8, text, sizeof text);
		printf("  %11s  %7s  %9s  %s\n", count, share, refused, text);
	}
}

/* ---- the trade-off ---- */

static void add_limit(struct wr_cli_columns *table, const struct wr_cli_tune_table_rule *tuned,
		      size_t i)
{
	const struct wr_cli_tune_table_limit *limit = &tuned->limits[i];
	char words[160], percent[WR_REPLAY_WORDS];

	wr_cli_columns_cell(table, "%s%s%s", i == tuned->chosen ? "> " : "  ",
			    wr_stats_limit_words(&limit->limit, NULL, words, sizeof words),
			    i == 0 ? " (in force)" : "");
	if (limit->per_key == UINT64_MAX)
		wr_cli_columns_cell(table, "-");
	else
		wr_cli_columns_number(table, limit->per_key);
	wr_cli_columns_number(table, limit->requests);
	wr_cli_columns_number(table, limit->would_refuse);
	wr_cli_replay_percent(limit->would_refuse, limit->requests, percent);
	wr_cli_columns_cell(table, "%s", limit->requests ? percent : "-");
	wr_cli_columns_number(table, limit->rule_refused);
}

static void print_limits(const struct wr_cli_tune_table_rule *tuned, bool utf8)
{
	char period[WR_DURATION_TEXT] = "window", title[WR_DURATION_TEXT + 16];
	struct wr_cli_columns table;

	if (tuned->candidate_count == 0)
		return;
	if (tuned->rule->stat.period_ns)
		wr_duration_text(tuned->rule->stat.period_ns, period);
	snprintf(title, sizeof title, "#1 KEY PER %s", period);
	wr_cli_columns_begin(&table, utf8, "  LIMIT", title, "#REQUESTS", "#WOULD REFUSE", "#%",
			     "#THE RULE REFUSED", NULL);
	for (size_t i = 0; i < tuned->limit_count; i++)
		add_limit(&table, tuned, i);
	wr_cli_columns_print(&table, 2);
}

static void print_result(const struct wr_cli_tune_table_rule *tuned, double percent)
{
	fputs("  result     ", stdout);
	switch (tuned->result) {
	case WR_TUNE_NO_REQUESTS:
		puts("no request so far");
		break;
	case WR_TUNE_NO_LIMIT:
		puts("no limit on requests per period, so there is nothing to tune");
		break;
	case WR_TUNE_NO_CANDIDATES:
		puts("no candidates; add candidates to the limit to compare other limits");
		break;
	case WR_TUNE_FEW_REQUESTS:
		printf("too few requests for a choice, which needs %u\n", WR_ADVICE_REQUESTS);
		break;
	case WR_TUNE_KEEP:
		printf("the limit in force is the smallest of these limits that leaves %.10g %% "
		       "untouched\n",
		       percent);
		break;
	case WR_TUNE_CHANGE:
		printf("the limit at > is the smallest of these limits that leaves %.10g %% "
		       "untouched\n",
		       percent);
		break;
	case WR_TUNE_NONE_FITS:
		printf("none of these limits leaves %.10g %% untouched; add a larger candidate\n",
		       percent);
		break;
	}
}

/* ---- a rule ---- */

void wr_cli_tune_table_print_advice(const struct wr_cli_tune_table_rule *tuned, bool utf8)
{
	for (size_t i = 0; i < tuned->advice_count; i++) {
		const struct wr_advice *advice = &tuned->advice[i];

		printf("  %s: %s\n", wr_advice_names[advice->kind], advice->text);
		if (advice->key) {
			char text[4 * WR_KEY_COLUMNS + 1];

			wr_cli_watch_key_text(advice->key, WR_KEY_COLUMNS, utf8, text, sizeof text);
			printf("    the client: %s\n", text);
		}
		if (advice->yaml[0])
			printf("    %s\n", advice->yaml);
	}
}

void wr_cli_tune_table_print(const struct wr_cli_tune_table_rule *tuned,
			     const struct wr_cli_tune_table_opts *opts, bool utf8)
{
	struct wr_stats_limit_view own = wr_stat_limit(&tuned->rule->stat);
	char words[160];

	putchar('\n');
	wr_cli_show_print(tuned->rule->stat.rule, utf8);
	if (own.algorithm && !(tuned->rule->stat.flags & WEIR_STAT_UNLIMITED))
		printf(" (%s)", wr_stats_limit_words(&own, NULL, words, sizeof words));
	putchar('\n');
	if (tuned->requests) {
		print_seen(tuned);
		print_keys(tuned, utf8);
		print_limits(tuned, utf8);
	}
	print_result(tuned, opts->untouched_ppm / 1e4);
	wr_cli_tune_table_print_advice(tuned, utf8);
}

/* ---- the proposed changes ---- */

void wr_cli_tune_table_yaml(const struct wr_cli_tune_table_rule *tuned, struct wr_buf *yaml)
{
	struct wr_stats_limit_view own = wr_stat_limit(&tuned->rule->stat);
	struct weir_str name = tuned->rule->stat.rule;
	char words[160], period[WR_DURATION_TEXT];

	wr_buf_printf(yaml, "%s# %.*s, now %s\n# %s\n", yaml->len ? "\n" : "", (int)name.len,
		      name.ptr, wr_stats_limit_words(&own, NULL, words, sizeof words),
		      tuned->reason);
	if (tuned->proposed < tuned->limit_count && tuned->limits[tuned->proposed].may_start) {
		wr_duration_text(tuned->limits[tuned->proposed].limit.period_ns, period);
		wr_buf_printf(yaml,
			      "# The candidate may have counted for less than its period, %s. Then "
			      "the refusals are too few.\n",
			      period);
	}
	wr_buf_printf(yaml, "%s\n", tuned->change);
}
