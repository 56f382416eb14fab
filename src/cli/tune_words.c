/* Texts of the result of weir tune: rates, limits, reasons and warnings. */
#include <stdarg.h>
#include <stdio.h>

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
}
