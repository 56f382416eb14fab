/* Texts of the result of weir tune: rates, limits, reasons and warnings. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/replay.h"
#include "cli/tune.h"

void wr_cli_tune_rate(const struct wr_lab_rate *rate, char text[WR_TUNE_RATE])
{
	char number[WR_NUMBER_WORDS];
	const char *unit = "second";

	for (unsigned i = 0; i < WR_LAB_UNIT_COUNT; i++)
		if (wr_lab_unit_ns(i) == rate->period_ns)
			unit = wr_lab_unit_name(i);
	wr_number_words(rate->limit, number);
	snprintf(text, WR_TUNE_RATE, "%s per %s", number, unit);
}

void wr_cli_tune_limit(const struct wr_lab_tune_report *report,
		       const struct wr_lab_tune_limit *limit, char text[WR_TUNE_LIMIT])
{
	char rate[WR_TUNE_RATE], number[WR_NUMBER_WORDS];

	wr_cli_tune_rate(&report->rates[limit->rate], rate);
	wr_number_words(limit->burst, number);
	snprintf(text, WR_TUNE_LIMIT, "%s, burst %s", rate, number);
}

uint64_t wr_cli_tune_cost(const struct wr_lab_tune_report *report,
			  const struct wr_lab_tune_limit *limit)
{
	return wr_lab_tune_cost(&report->rates[limit->rate], limit->burst, report->horizon_ns);
}

const char *wr_cli_tune_reason(enum wr_lab_tune_reason reason)
{
	switch (reason) {
	case WR_LAB_PROPOSED:
		return "";
	case WR_LAB_FEW_CLIENTS:
		return "too few clients for a limit of its own";
	case WR_LAB_NOT_TIGHTER:
		return "the limit for all requests is tight enough";
	case WR_LAB_NO_LIMIT:
		return "no limit fits";
	}
	return "";
}

/* ---- warnings ---- */

static void warn(struct wr_cli_tune *result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void warn(struct wr_cli_tune *result, const char *format, ...)
{
	va_list args;

	if (result->warning_count == WR_TUNE_WARNINGS)
		return;
	va_start(args, format);
	vsnprintf(result->warnings[result->warning_count++], WR_TUNE_WARNING, format, args);
	va_end(args);
}

/* Warns of requests that are far before or after the others. One with a wrong time is enough to
 * stretch the time of the log over years. */
static void warn_of_strays(struct wr_cli_tune *result, const struct wr_lab_strays *strays,
			   bool early)
{
	char number[WR_NUMBER_WORDS], first[WR_REPLAY_WORDS], last[WR_REPLAY_WORDS];
	char rest[WR_REPLAY_WORDS], until[WR_REPLAY_WORDS + 4] = "";
	const char *cut = early ? rest : first;
	bool one = strays->requests == 1;

	if (strays->requests == 0)
		return;
	wr_number_words(strays->requests, number);
	wr_cli_replay_time(strays->first_ns, first);
	wr_cli_replay_time(strays->last_ns, last);
	wr_cli_replay_time(strays->rest_ns, rest);
	if (strcmp(first, last) != 0)
		snprintf(until, sizeof until, " to %s", last);
	/* A time is "2026-03-01 14:30:05"; the options take it with a T and a zone. */
	warn(result,
	     "%s %s of %s%s UTC %s far %s the others, which %s at %s UTC: %s may be wrong; "
	     "%s %.10sT%sZ leaves %s out",
	     number, one ? "request" : "requests", first, until, one ? "is" : "are",
	     early ? "before" : "after", early ? "begin" : "end", rest,
	     one ? "its time" : "their times", early ? "--from" : "--to", cut, cut + 11,
	     one ? "it" : "them");
}

void wr_cli_tune_warn(struct wr_cli_tune *result)
{
	const struct wr_lab_log_totals *log = result->totals;

	if (log->unreadable * 100 > log->lines * WR_REPLAY_UNREADABLE)
		warn(result,
		     "%.1f %% of the lines could not be read: the log may have another --format",
		     100.0 * (double)log->unreadable / (double)log->lines);
	if (log->damaged)
		warn(result, "%s", log->damage);
	for (uint32_t i = 0; i < log->note_count; i++)
		warn(result, "%s", log->notes[i]);
	warn_of_strays(result, &result->report->early, true);
	warn_of_strays(result, &result->report->late, false);
}
