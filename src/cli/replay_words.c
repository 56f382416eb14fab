/* Texts of the result of weir replay: waits, times, percentages, keys and limits. */
#include <stdio.h>
#include <string.h>

#include <weir/stats.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/replay.h"
#include "base/civil.h"
#include "rules/limit_text.h"
#include "stats/words.h"

#define DAY_S 86400u

static uint64_t divide_up(uint64_t number, uint64_t by)
{
	return number / by + (number % by != 0);
}

void wr_cli_replay_wait(uint64_t ns, char text[WR_REPLAY_WORDS])
{
	static const struct {
		uint64_t below_s, unit_s;
		const char *unit;
	} units[] = {
		{120, 1, "s"},
		{7200, 60, "min"},
		{2 * DAY_S, 3600, "h"},
		{UINT64_MAX, DAY_S, "days"},
	};
	uint64_t seconds = divide_up(ns, WR_SECOND_NS);
	size_t i = 0;

	if (ns < WR_SECOND_NS) {
		snprintf(text, WR_REPLAY_WORDS, "%llu ms",
			 (unsigned long long)divide_up(ns, 1000000));
		return;
	}
	while (seconds > units[i].below_s)
		i++;
	snprintf(text, WR_REPLAY_WORDS, "%llu %s",
		 (unsigned long long)divide_up(seconds, units[i].unit_s), units[i].unit);
}

void wr_cli_replay_longest(const struct wr_lab_replay_limit *limit, char text[WR_REPLAY_WORDS])
{
	if (limit->refused + limit->deferred + limit->would_refuse == 0)
		snprintf(text, WR_REPLAY_WORDS, "-");
	else if (limit->longest_wait_ns == 0 && limit->never)
		snprintf(text, WR_REPLAY_WORDS, "never");
	else
		wr_cli_replay_wait(limit->longest_wait_ns, text);
}

void wr_cli_replay_time(uint64_t ns, char text[WR_REPLAY_WORDS])
{
	uint64_t seconds = ns / WR_SECOND_NS;
	struct wr_date date = wr_date_from_days((int64_t)(seconds / DAY_S));
	unsigned clock_s = (unsigned)(seconds % DAY_S);

	snprintf(text, WR_REPLAY_WORDS, "%04lld-%02d-%02d %02u:%02u:%02u", (long long)date.year,
		 date.month, date.day, clock_s / 3600, clock_s / 60 % 60, clock_s % 60);
}

void wr_cli_replay_percent(uint64_t part, uint64_t whole, char text[WR_REPLAY_WORDS])
{
	double percent = whole ? 100.0 * (double)part / (double)whole : 0;

	if (part == 0)
		snprintf(text, WR_REPLAY_WORDS, "0 %%");
	else if (part == whole)
		snprintf(text, WR_REPLAY_WORDS, "100 %%");
	else if (percent < 0.0001)
		snprintf(text, WR_REPLAY_WORDS, "< 0.0001 %%");
	else
		snprintf(text, WR_REPLAY_WORDS, "%.*f %%",
			 percent >= 1      ? 1
			 : percent >= 0.01 ? 3
					   : 4,
			 percent);
}

void wr_cli_replay_estimate(uint64_t number, bool exact, char text[WR_REPLAY_WORDS])
{
	char digits[WR_NUMBER_WORDS];

	wr_number_words(number, digits);
	snprintf(text, WR_REPLAY_WORDS, "%s%s", exact ? "" : "about ", digits);
}

void wr_cli_replay_key(const struct wr_lab_top_key *key, char text[WR_REPLAY_KEY])
{
	size_t len = 0;

	if (key->text_len == 0) {
		snprintf(text, WR_REPLAY_KEY, "(all requests)");
		return;
	}
	for (size_t i = 0; i < key->text_len; i++) {
		if (key->text[i] == WEIR_TOP_BETWEEN) {
			text[len++] = ' ';
			text[len++] = '|';
			text[len++] = ' ';
		} else {
			text[len++] = key->text[i] ? key->text[i] : '?';
		}
	}
	snprintf(text + len, WR_REPLAY_KEY - len, "%s", key->cut ? "..." : "");
}

_Static_assert(WR_REPLAY_KEY > 3 * WR_LAB_TOP_TEXT + 4, "a key with separators only");

const char *wr_cli_replay_limit(const struct wr_rules_limit *rule, char *text, size_t cap)
{
	struct wr_stats_limit_view view = {.algorithm = rule->limit.algorithm,
					   .limit = rule->limit.limit,
					   .burst = rule->limit.algorithm == WEIR_LEAKY_BUCKET
							    ? rule->limit.queue_size
							    : rule->limit.burst,
					   .period_ns = rule->limit.period_ns};

	if (rule->calendar) {
		wr_rules_limit_text(rule, text, cap);
		return text;
	}
	if (view.algorithm == WEIR_TOKEN_BUCKET && view.burst == 0)
		view.burst = view.limit;
	return wr_stats_limit_words(&view, NULL, text, cap);
}

const struct wr_lab_replay_limit *wr_cli_replay_same(const struct wr_lab_replay_report *report,
						     const struct wr_rules_limit *rule)
{
	for (size_t i = 0; i < report->limit_count; i++)
		if (wr_str_equal(report->limits[i].rule->stat, rule->stat))
			return &report->limits[i];
	return NULL;
}
