/* Shows the progress of a long command on a terminal. Called by replay, tune and simulate. */
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/show.h"

#define BAR 24u             /* columns of the bar; less on a narrow terminal */
#define BAR_MIN 8u          /* a shorter bar is left out */
#define EVERY_NS 100000000u /* time between two updates */
#define LINE 256u
#define USUAL_COLUMNS 80u

/* A terminal without cursor movement names itself "dumb". The bar would fill it with lines. */
static bool can_overwrite(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) == 1 && term && *term && strcmp(term, "dumb") != 0;
}

static unsigned terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return USUAL_COLUMNS;
	return size.ws_col;
}

void wr_cli_progress_begin(struct wr_cli_progress *progress)
{
	*progress = (struct wr_cli_progress){.shown = can_overwrite(),
					     .utf8 = wr_cli_show_setup(),
					     .began_ns = wr_clock_mono_ns()};
	progress->next_ns = progress->began_ns + EVERY_NS;
}

static size_t put_bar(double part, unsigned columns, bool utf8, char *text, size_t cap)
{
	unsigned full = (unsigned)(part * columns);
	size_t len = 0;

	for (unsigned i = 0; i < columns; i++)
		len += (size_t)snprintf(text + len, cap - len, "%s",
					i < full ? (utf8 ? "█" : "#") : (utf8 ? "·" : "."));
	return len;
}

/* The parts of the line after the bar. On a narrow terminal the later ones of this list are left out. */
enum { PERCENT_ONLY, AND_TIME_LEFT, AND_COUNT, AND_RATE };

/* Writes " 52 %  1.2M lines  820k/s  3 s left", or only some of these parts. If `part` is below 0,
 * the end of the work is not known. Returns the length, which is also the number of columns. */
static size_t put_figures(double part, uint64_t count, const char *unit, uint64_t took_ns,
			  int parts, char *text, size_t cap)
{
	double seconds = (double)took_ns / 1e9, left_s = part > 0 ? seconds / part - seconds : 0;
	char number[WR_SHOW_RATE];
	const char *gap = "";
	size_t len = 0;

	text[0] = '\0';
	if (part >= 0) {
		/* 100 % is shown only at the end. */
		len = (size_t)snprintf(text, cap, " %3.0f %%",
				       part < 1 && part > 0.99 ? 99 : part * 100);
		gap = "  ";
	}
	if (parts >= AND_COUNT) {
		wr_cli_show_count(count, number);
		len += (size_t)snprintf(text + len, cap - len, "%s%s %s", gap, number, unit);
	}
	if (parts >= AND_RATE) {
		wr_cli_show_count(seconds > 0 ? (uint64_t)((double)count / seconds) : 0, number);
		len += (size_t)snprintf(text + len, cap - len, "  %s/s", number);
	}
	if (parts >= AND_TIME_LEFT && part > 0)
		len += (size_t)snprintf(text + len, cap - len,
					left_s < 100 ? "  %.0f s left" : "  %.0f min left",
					left_s < 100 ? left_s : left_s / 60);
	return len;
}

/* Writes the bar and the figures, in at most `columns` columns: a line that wraps cannot be
 * overwritten. */
static void put_line(double part, uint64_t count, const char *unit, uint64_t took_ns,
		     unsigned columns, bool utf8, char *text, size_t cap)
{
	char figures[LINE];
	size_t width, len = 0;
	int parts = AND_RATE;

	part = part < 1 ? part : 1;
	do
		width = put_figures(part, count, unit, took_ns, parts, figures, sizeof figures);
	while (width > columns && parts-- > PERCENT_ONLY);
	if (part >= 0 && columns >= width + BAR_MIN)
		len = put_bar(part, columns - width < BAR ? (unsigned)(columns - width) : BAR, utf8,
			      text, cap);
	snprintf(text + len, cap - len, "%s", width <= columns ? figures : "");
}

static double part_of(const struct wr_lab_log_totals *totals)
{
	return totals->bytes_all ? (double)totals->bytes / (double)totals->bytes_all : -1;
}

void wr_cli_progress_text(const struct wr_lab_log_totals *totals, uint64_t took_ns,
			  unsigned columns, bool utf8, char *text, size_t cap)
{
	put_line(part_of(totals), totals->lines, "lines", took_ns, columns, utf8, text, cap);
}

/* Appends the note. A line that would be too long leaves out the figures first, then the bar, then the
 * note. */
static void put_noted_line(const struct wr_cli_progress *progress, double part, uint64_t count,
			   const char *unit, const char *note, uint64_t took_ns, unsigned columns,
			   char *text, size_t cap)
{
	unsigned width = note[0] ? (unsigned)strlen(note) + 2 : 0;
	size_t len;

	if (width > columns)
		width = 0;
	put_line(part, count, unit, took_ns, columns - width, progress->utf8, text, cap);
	len = strlen(text);
	if (width)
		snprintf(text + len, cap - len, "  %s", note);
}

void wr_cli_progress_note(struct wr_cli_progress *progress, double part, uint64_t count,
			  const char *unit, const char *note)
{
	uint64_t now_ns;
	char text[2 * LINE];

	if (!progress->shown)
		return;
	now_ns = wr_clock_mono_ns();
	if (now_ns < progress->next_ns)
		return;
	progress->next_ns = now_ns + EVERY_NS;
	/* The last column stays empty: some terminals wrap when it is written. */
	put_noted_line(progress, part, count, unit, note, now_ns - progress->began_ns,
		       terminal_columns() - 1, text, sizeof text);
	fprintf(stderr, "\r%s\033[K", text);
	fflush(stderr);
}

void wr_cli_progress_part(struct wr_cli_progress *progress, double part, uint64_t count,
			  const char *unit)
{
	wr_cli_progress_note(progress, part, count, unit, "");
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
