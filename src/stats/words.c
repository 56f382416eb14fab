/* Writes limits as words and as YAML of a rule file. Called by advice.c, weir top and the admin
 * API. */
#include "stats/words.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/duration.h"

#define RATE_S 10 /* number of seconds over which the current rate of a rule is averaged */

static const char *algorithm_name(uint32_t algorithm)
{
	switch (algorithm) {
#define NAME_CASE(name, number, text)                                                              \
	case number:                                                                               \
		return text;
		WEIR_ALGORITHMS(NAME_CASE)
#undef NAME_CASE
	default:
		return "unknown";
	}
}

void wr_number_words(uint64_t number, char text[WR_NUMBER_WORDS])
{
	char digits[24];
	int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
	size_t at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
}

static const char *slot_words(const struct wr_stats_limit_view *limit, char *text, size_t cap)
{
	char number[WR_NUMBER_WORDS], max_hold[WR_DURATION_TEXT];

	wr_number_words(limit->limit, number);
	wr_duration_text(limit->period_ns, max_hold);
	snprintf(text, cap, "%s concurrent, max_hold %s", number, max_hold);
	return text;
}

const char *wr_stats_limit_words(const struct wr_stats_limit_view *limit,
				 const struct wr_stats_limit_view *like, char *text, size_t cap)
{
	bool same = like && like->limit == limit->limit && like->period_ns == limit->period_ns &&
		    like->algorithm != WEIR_CONCURRENT;
	char number[WR_NUMBER_WORDS], period[WR_DURATION_TEXT] = "calendar window", rate[96] = "",
				      burst[48] = "";

	wr_assert(cap > 0);
	if (limit->algorithm == WEIR_CONCURRENT)
		return slot_words(limit, text, cap);
	wr_number_words(limit->limit, number);
	if (limit->period_ns)
		wr_duration_text(limit->period_ns, period);
	if (!same)
		snprintf(rate, sizeof rate, ", %s per %s", number, period);
	wr_number_words(limit->burst, number);
	if (limit->algorithm == WEIR_TOKEN_BUCKET)
		snprintf(burst, sizeof burst, ", burst %s", number);
	else if (limit->algorithm == WEIR_LEAKY_BUCKET)
		snprintf(burst, sizeof burst, ", queue %s", number);
	snprintf(text, cap, "%s%s%s", algorithm_name(limit->algorithm), rate, burst);
	return text;
}

const char *wr_stats_candidate_words(const struct weir_candidate *candidate, char *text, size_t cap)
{
	uint64_t fewer = candidate->admits_more, more = candidate->refuses_more;
	char a[WR_NUMBER_WORDS], b[WR_NUMBER_WORDS];

	wr_assert(cap > 0);
	wr_number_words(fewer, a);
	wr_number_words(more, b);
	if (candidate->would_admit + candidate->would_refuse == 0)
		snprintf(text, cap, "no request yet");
	else if (fewer == 0 && more == 0)
		snprintf(text, cap, "no difference");
	else if (more == 0)
		snprintf(text, cap, "%s fewer refusal%s, none more", a, fewer == 1 ? "" : "s");
	else if (fewer == 0)
		snprintf(text, cap, "%s more refusal%s, none fewer", b, more == 1 ? "" : "s");
	else
		snprintf(text, cap, "%s fewer refusals, %s more", a, b);
	return text;
}

/* Writes the period for a rule file: as `unit: minute` if the period is a unit of the rate limit
 * service (RLS), otherwise as `period: 90s`. */
static void period_yaml(uint64_t period_ns, char *text, size_t cap)
{
	static const struct {
		uint64_t s;
		const char *name;
	} units[] = {{1, "second"},    {60, "minute"},     {3600, "hour"},    {86400, "day"},
		     {604800, "week"}, {2592000, "month"}, {31536000, "year"}};
	char duration[WR_DURATION_TEXT];

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (period_ns == units[i].s * 1000000000) {
			snprintf(text, cap, "unit: %s, ", units[i].name);
			return;
		}
	wr_duration_text(period_ns, duration);
	snprintf(text, cap, "period: %s, ", duration);
}

void wr_stats_limit_yaml(const struct wr_stats_limit_view *limit, char *text, size_t cap)
{
	const char *note = limit->period_ns ? "" : "  # keep calendar and timezone";
	char period[64] = "", algorithm[48] = "", burst[48] = "", max_hold[WR_DURATION_TEXT];

	wr_assert(cap > 0);
	if (limit->algorithm == WEIR_CONCURRENT) {
		wr_duration_text(limit->period_ns, max_hold);
		snprintf(text, cap, "{concurrent: %u, max_hold: %s}", limit->limit, max_hold);
		return;
	}
	if (limit->period_ns)
		period_yaml(limit->period_ns, period, sizeof period);
	if (limit->algorithm != WEIR_FIXED_WINDOW)
		snprintf(algorithm, sizeof algorithm, ", algorithm: %s",
			 algorithm_name(limit->algorithm));
	if (limit->algorithm == WEIR_TOKEN_BUCKET && limit->burst != limit->limit)
		snprintf(burst, sizeof burst, ", burst: %u", limit->burst);
	else if (limit->algorithm == WEIR_LEAKY_BUCKET)
		snprintf(burst, sizeof burst, ", queue_size: %u", limit->burst);
	snprintf(text, cap, "{%srequests_per_unit: %u%s%s}%s", period, limit->limit, algorithm,
		 burst, note);
}

struct wr_rate wr_rate_now(struct weir_table *table, const struct weir_stat *stat)
{
	struct weir_point points[RATE_S];
	uint64_t end_s, all = 0, refused = 0, known = 0;
	int count = weir_history(table, stat->slot, WEIR_SECONDS, points, RATE_S, &end_s);

	for (int i = 0; i < count; i++) {
		if (!points[i].known)
			continue;
		known++;
		refused += points[i].refused + points[i].shadowed;
		all += points[i].admitted + points[i].refused + points[i].shadowed;
	}
	if (!known)
		return (struct wr_rate){stat->recent_milli, 0};
	return (struct wr_rate){all * 1000 / known, refused * 1000 / known};
}

uint64_t wr_stats_cost_count(const struct weir_point *point, enum wr_history_cost_line line)
{
	const uint64_t counts[WR_HISTORY_LINES] = {
		[WR_LINE_ADMITTED] = point->admitted,
		[WR_LINE_REFUSED] = point->refused,
		[WR_LINE_SHADOWED] = point->shadowed,
		[WR_LINE_DELAYED] = point->delayed,
	};

	return counts[line];
}

const char *wr_stats_cost_name(const struct weir_cost *cost, enum wr_history_cost_line line)
{
	static const char *const units[WR_HISTORY_LINES] = {
		[WR_COST_LINE_RESERVED] = "reserved",
		[WR_COST_LINE_ACTUAL] = "actual",
		[WR_COST_LINE_REFUNDED] = "refunded",
		[WR_COST_LINE_OWED] = "owed",
	};

	if (cost->algorithm != WEIR_CONCURRENT)
		return units[line];
	return line == WR_SLOT_LINE_SECONDS ? "slots_in_use"
	       : line == WR_SLOT_LINE_LOST  ? "lost"
					    : units[line];
}

struct wr_rate_costs wr_rate_costs_now(struct weir_table *table, const struct weir_cost *cost)
{
	struct wr_rate_costs rates = {{0}};
	struct weir_point points[RATE_S];
	uint64_t end_s, known = 0;
	int count = weir_history(table, cost->history_slot, WEIR_SECONDS, points, RATE_S, &end_s);

	for (int i = 0; i < count; i++)
		known += points[i].known;
	for (int line = 0; known && line < WR_HISTORY_LINES; line++) {
		uint64_t sum = 0;

		for (int i = 0; i < count; i++)
			sum += wr_stats_cost_count(&points[i], (enum wr_history_cost_line)line);
		rates.milli[line] = sum * 1000 / known;
	}
	return rates;
}
