/* The options of commands that read access logs (--format, --fields, --window, --window-lines, --from
 * and --to), and the error of a log without readable lines. */
#ifndef WR_CLI_OPTIONS_LOG_H
#define WR_CLI_OPTIONS_LOG_H

#include "cli/cli.h"
#include "cli/options/options.h"
#include "lab/log/log.h"

struct wr_cli_log_choice {
	const char *format;
	struct wr_cli_words fields; /* one item, after wr_cli_log_read() */
	uint64_t window_lines, window_ns;
	const char *from, *to;
};

#define WR_LOG_OPTIONS 6
/* The options, which fill a struct wr_cli_log_choice. */
extern const struct wr_cli_option wr_cli_log_options[WR_LOG_OPTIONS];

/* The part of a log that --from and --to select: from_ns <= time < to_ns. */
struct wr_cli_log_span {
	uint64_t from_ns, to_ns;
};

static inline bool wr_cli_log_span_holds(const struct wr_cli_log_span *span, uint64_t time_ns)
{
	return time_ns >= span->from_ns && time_ns < span->to_ns;
}

/* Fills in the options of wr_lab_log_open() and the span of time. `paths` are the words of the
 * command and must not be empty. The caller sets opts->progress afterwards. Opens no file. Returns 0,
 * or an error that names the option. */
int wr_cli_log_read(const struct wr_cli_log_choice *choice, const struct wr_cli_words *paths,
		    struct wr_lab_log_opts *opts, struct wr_cli_log_span *span,
		    struct weir_error *error);

/* Reads a time: "2026-03-01", "2026-03-01 14:30", "2026-03-01T14:30:05Z", "…+02:00", or seconds
 * since 1970. A time without a zone is in UTC. Returns 0, or -1 if the text is not a time between
 * 1970 and 2262. */
int wr_cli_log_time(struct weir_str text, uint64_t *time_ns);

/* Says on stderr why no line of the log could be read. Returns the exit code of the command. */
int wr_cli_log_fail(const char *command, const struct wr_lab_log_totals *totals);

#endif
