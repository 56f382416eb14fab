/* The warnings of weir simulate: faults, traffic and parts of logs after the end of the run, and
 * lines of logs that were left out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "cli/replay.h"
#include "cli/simulate.h"
#include "lab/log/example.h"
#include "stats/words.h"

static const char *const fault_kinds[] = {
#define NAME(enum, name) [enum] = (name),
	WR_LAB_FAULT_KINDS(NAME)
#undef NAME
};

static const char *const traffic_kinds[] = {
#define NAME(enum, name) [enum] = (name),
	WR_LAB_TRAFFIC_KINDS(NAME)
#undef NAME
};

/* Adds text to the last warning. Text that does not fit is cut. */
__attribute__((format(printf, 2, 3))) static void
add_text(struct wr_cli_simulate_warnings *warnings, const char *format, ...)
{
	char *text = warnings->texts[warnings->count - 1];
	size_t len = strnlen(text, WR_SIMULATE_WARNING - 1);
	va_list args;

	va_start(args, format);
	vsnprintf(text + len, WR_SIMULATE_WARNING - len, format, args);
	va_end(args);
}

/* Adds one kind and its time to the list of a warning. The first one begins the warning. */
static void add_missed(struct wr_cli_simulate_warnings *warnings, bool first, const char *what,
		       uint64_t end_ns, const char *kind, uint64_t at_ns)
{
	char at[WR_DURATION_TEXT];

	if (first) {
		warnings->count++;
		add_text(warnings, "%s, because the run ends after %.6g s: ", what,
			 (double)end_ns / 1e9);
	}
	wr_duration_text(at_ns, at);
	add_text(warnings, "%s%s at %s", first ? "" : ", ", kind, at);
}

static void warn_of_the_end(const struct wr_lab_simulation *simulation,
			    struct wr_cli_simulate_warnings *warnings)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	uint64_t end_ns = simulation->end_ns;
	bool first = true;

	for (uint32_t i = 0; i < scenario->fault_count; i++) {
		const struct wr_lab_fault *fault = &scenario->faults[i];

		if (fault->at_ns < end_ns)
			continue;
		add_missed(warnings, first, "these faults do not happen", end_ns,
			   fault_kinds[fault->kind], fault->at_ns);
		first = false;
	}
	first = true;
	for (uint32_t i = 0; i < scenario->traffic_count; i++) {
		const struct wr_lab_traffic *traffic = &scenario->traffic[i];

		if (traffic->start_ns < end_ns)
			continue;
		add_missed(warnings, first, "this traffic does not begin", end_ns,
			   traffic_kinds[traffic->kind], traffic->start_ns);
		first = false;
	}
}

/* Warns of logs that have further requests after the end of the run. */
static void warn_of_unread(const struct wr_lab_simulation *simulation,
			   struct wr_cli_simulate_warnings *warnings)
{
	const struct wr_lab_scenario *scenario = simulation->scenario;
	uint32_t logs = simulation->unread_logs;
	const char *remedy = "";

	if (!logs)
		return;
	if (scenario->requests_max && simulation->end_ns < scenario->duration_ns)
		remedy = " instead of --requests";
	else if (scenario->duration_ns == WR_LAB_DURATION_MAX_NS)
		remedy = ", which is at most a week, or `speed`";
	warnings->count++;
	add_text(warnings, "the run ends after %.6g s, and ", (double)simulation->end_ns / 1e9);
	for (uint32_t i = 0; i < scenario->traffic_count; i++)
		if (logs >> i & 1)
			add_text(warnings, "%s%s", logs & ((1u << i) - 1) ? ", " : "",
				 wr_lab_show_path(scenario->traffic[i].path).text);
	add_text(warnings, " %s on; set `duration`%s", logs & (logs - 1) ? "go" : "goes", remedy);
}

static void warn_of_logs(const struct wr_lab_log_totals *log,
			 struct wr_cli_simulate_warnings *warnings)
{
	char count[WR_NUMBER_WORDS];

	if (log->unreadable * 100 > log->lines * WR_REPLAY_UNREADABLE) {
		warnings->count++;
		add_text(warnings,
			 "%.1f %% of the lines of the log could not be read: the path may name "
			 "files that are not access logs",
			 100.0 * (double)log->unreadable / (double)log->lines);
	}
	if (log->damaged) {
		warnings->count++;
		add_text(warnings, "%s", log->damage);
	}
	if (log->late) {
		wr_number_words(log->late, count);
		warnings->count++;
		add_text(warnings,
			 "%s lines of the log are left out: they came later than the reordering "
			 "window of 1,000 lines and 5 minutes allows",
			 count);
	}
}

void wr_cli_simulate_warn(const struct wr_lab_simulation *simulation,
			  struct wr_cli_simulate_warnings *warnings)
{
	*warnings = (struct wr_cli_simulate_warnings){0};
	warn_of_the_end(simulation, warnings);
	warn_of_unread(simulation, warnings);
	warn_of_logs(&simulation->log, warnings);
	for (uint32_t i = 0; i < simulation->log_notes.count; i++) {
		warnings->count++;
		add_text(warnings, "%s", simulation->log_notes.texts[i]);
	}
}
