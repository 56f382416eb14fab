/* Shows the progress of a long command on a terminal. Called by replay, tune and simulate. */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/show.h"

#define COLUMNS 24u
#define EVERY_NS 100000000u /* time between two updates */
#define LINE 256u

void wr_cli_progress_begin(struct wr_cli_progress *progress)
{
	*progress = (struct wr_cli_progress){.shown = isatty(STDERR_FILENO) == 1,
					     .utf8 = wr_cli_show_setup(),
					     .began_ns = wr_clock_mono_ns()};
	progress->next_ns = progress->began_ns + EVERY_NS;
}

static size_t put_bar(double part, bool utf8, char *text, size_t cap)
{
	unsigned full = (unsigned)(part * COLUMNS);
	size_t len = 0;

	for (unsigned i = 0; i < COLUMNS; i++)
		len += (size_t)snprintf(text + len, cap - len, "%s",
					i < full ? (utf8 ? "█" : "#") : (utf8 ? "·" : "."));
	return len;
}

/* Writes the line of the bar. If `part` is below 0, the end of the work is not known. */
static void put_line(double part, uint64_t count, const char *unit, uint64_t took_ns, bool utf8,
		     char *text, size_t cap)
{
	double seconds = (double)took_ns / 1e9;
	char done[WR_SHOW_RATE], rate[WR_SHOW_RATE];
	size_t len = 0;

	part = part < 1 ? part : 1;
	wr_cli_show_count(count, done);
	wr_cli_show_count(seconds > 0 ? (uint64_t)((double)count / seconds) : 0, rate);
	if (part >= 0) {
		len = put_bar(part, utf8, text, cap);
		len += (size_t)snprintf(text + len, cap - len, " %3.0f %%  ", part * 100);
	}
	len += (size_t)snprintf(text + len, cap - len, "%s %s  %s/s", done, unit, rate);
	if (part > 0) {
		double left_s = seconds / part - seconds;

		snprintf(text + len, cap - len, left_s < 100 ? "  %.0f s left" : "  %.0f min left",
			 left_s < 100 ? left_s : left_s / 60);
	}
}

static double part_of(const struct wr_lab_log_totals *totals)
{
	return totals->bytes_all ? (double)totals->bytes / (double)totals->bytes_all : -1;
}

void wr_cli_progress_text(const struct wr_lab_log_totals *totals, uint64_t took_ns, bool utf8,
			  char *text, size_t cap)
{
	put_line(part_of(totals), totals->lines, "lines", took_ns, utf8, text, cap);
}

void wr_cli_progress_part(struct wr_cli_progress *progress, double part, uint64_t count,
			  const char *unit)
{
	uint64_t now_ns;
	char text[LINE];

	if (!progress->shown)
		return;
	now_ns = wr_clock_mono_ns();
	if (now_ns < progress->next_ns)
		return;
	progress->next_ns = now_ns + EVERY_NS;
	put_line(part, count, unit, now_ns - progress->began_ns, progress->utf8, text, sizeof text);
	fprintf(stderr, "\r%s\033[K", text);
	fflush(stderr);
}

void wr_cli_progress_show(void *context, const struct wr_lab_log_totals *totals)
{
	wr_cli_progress_part(context, part_of(totals), totals->lines, "lines");
}

void wr_cli_progress_end(struct wr_cli_progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
}
