/* The options and errors of commands that read access logs. Called by replay and tune. */
#include "cli/options/log.h"

#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/log/fields.h"
#include "base/civil.h"

#define AT(field) .at = offsetof(struct wr_cli_log_choice, field)
#define SECONDS(n) ((uint64_t)(n)*1000000000)
#define DAY_S 86400

#define FORMAT_CHOICE(name, text, help) text " "

const struct wr_cli_option wr_cli_log_options[WR_LOG_OPTIONS] = {
	{"format", WR_OPTION_TEXT, "FORMAT", "auto",
	 "format of the log; auto: recognised from its first lines.\n"
	 "common, combined, vhost, json, csv, envoy",
	 AT(format), .choices = "auto " WR_LAB_FORMATS(FORMAT_CHOICE), .variable = WR_NO_VARIABLE},
	{"fields", WR_OPTION_REPEATED, "NAME=FIELD,…", NULL,
	 "fields of JSON and CSV, such as time=ts,client=ip,cost=tokens;\n"
	 "without it, common names are recognised",
	 AT(fields), .variable = WR_NO_VARIABLE},
	{"window", WR_OPTION_DURATION, "TIME", "5m",
	 "lines that are late by at most this time are put in order", AT(window_ns), .min = 1,
	 .max = SECONDS(7 * DAY_S), .variable = WR_NO_VARIABLE},
	{"window-lines", WR_OPTION_NUMBER, "N", "1000", "largest number of lines to put in order",
	 AT(window_lines), .min = 1, .max = 1000000, .variable = WR_NO_VARIABLE},
	{"from", WR_OPTION_TEXT, "TIME", NULL,
	 "leave out requests before this time: 2026-03-01,\n"
	 "2026-03-01T14:30:05+02:00, or seconds since 1970",
	 AT(from), .variable = WR_NO_VARIABLE},
	{"to", WR_OPTION_TEXT, "TIME", NULL, "leave out requests at and after this time", AT(to),
	 .variable = WR_NO_VARIABLE},
};

/* ---- times ---- */

/* Reads a number of exactly `digits` digits and removes it from the text. Returns -1 if the text
 * begins otherwise. */
static int64_t take_digits(struct weir_str *text, size_t digits)
{
	int64_t number = 0;

	if (text->len < digits)
		return -1;
	for (size_t i = 0; i < digits; i++) {
		if (text->ptr[i] < '0' || text->ptr[i] > '9')
			return -1;
		number = number * 10 + (text->ptr[i] - '0');
	}
	*text = wr_str_from(*text, digits);
	return number;
}

/* Removes the character from the beginning of the text. Returns false if the text begins
 * otherwise. */
static bool take_char(struct weir_str *text, char c)
{
	if (text->len == 0 || text->ptr[0] != c)
		return false;
	*text = wr_str_from(*text, 1);
	return true;
}

/* Reads "2026-03-01". Returns the days since 1970, or -1. */
static int64_t take_date(struct weir_str *text)
{
	static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int64_t year = take_digits(text, 4), month, day;

	if (year < 1970 || !take_char(text, '-'))
		return -1;
	month = take_digits(text, 2);
	if (month < 1 || month > 12 || !take_char(text, '-'))
		return -1;
	day = take_digits(text, 2);
	if (day < 1 || day > days[month - 1])
		return -1;
	return wr_days_from_date(year, (int)month, (int)day);
}

/* Reads "14:30" or "14:30:05". Returns the seconds since midnight, or -1. */
static int64_t take_clock(struct weir_str *text)
{
	int64_t hour = take_digits(text, 2), minute, second = 0;

	if (hour < 0 || hour > 23 || !take_char(text, ':'))
		return -1;
	minute = take_digits(text, 2);
	if (minute < 0 || minute > 59)
		return -1;
	if (take_char(text, ':')) {
		second = take_digits(text, 2);
		if (second < 0 || second > 59)
			return -1;
	}
	return hour * 3600 + minute * 60 + second;
}

/* Reads "", "Z", "+02:00" or "-0530" at the end of the text. Sets *offset_s to the seconds east of
 * UTC. Returns false if the text is anything else. */
static bool take_zone(struct weir_str *text, int64_t *offset_s)
{
	bool east = take_char(text, '+'), west = !east && take_char(text, '-');
	int64_t hour, minute;

	*offset_s = 0;
	if (!east && !west) {
		take_char(text, 'Z');
		return text->len == 0;
	}
	hour = take_digits(text, 2);
	take_char(text, ':');
	minute = take_digits(text, 2);
	if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || text->len)
		return false;
	*offset_s = (east ? 1 : -1) * (hour * 3600 + minute * 60);
	return true;
}

/* Reads seconds since 1970. Returns -1 if the text has anything but digits or is too large. */
static int64_t read_seconds(struct weir_str text)
{
	return text.len && text.len <= 10 && text.len != 4 ? take_digits(&text, text.len) : -1;
}

int wr_cli_log_time(struct weir_str text, uint64_t *time_ns)
{
	int64_t seconds = read_seconds(text), days, clock_s = 0, offset_s = 0;

	if (seconds < 0) {
		days = take_date(&text);
		if (days < 0)
			return -1;
		if (take_char(&text, 'T') || take_char(&text, ' '))
			clock_s = take_clock(&text);
		if (clock_s < 0 || !take_zone(&text, &offset_s))
			return -1;
		seconds = days * DAY_S + clock_s - offset_s;
	}
	if (seconds < 0 || seconds > INT64_MAX / 1000000000)
		return -1;
	*time_ns = (uint64_t)seconds * 1000000000;
	return 0;
}

/* ---- the options of a log ---- */

static enum wr_lab_format find_format(const char *name)
{
	static const struct {
		const char *name;
		enum wr_lab_format format;
	} formats[] = {
#define FORMAT_ROW(format, text, help) {text, format},
		WR_LAB_FORMATS(FORMAT_ROW)
#undef FORMAT_ROW
	};

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(name, formats[i].name) == 0)
			return formats[i].format;
	return WR_LAB_GUESS;
}

static int read_bound(const char *option, const char *text, uint64_t *time_ns,
		      struct weir_error *error)
{
	if (text && wr_cli_log_time(wr_str(text), time_ns) != 0)
		return wr_error(error, WEIR_EINVAL,
				"%s '%s' is not a time such as 2026-03-01, "
				"2026-03-01T14:30:05+02:00 or 1772375405",
				option, text);
	return 0;
}

/* Checks the text of --fields. The option is repeated only by mistake: a second list would replace the
 * first one. */
static int check_fields(const struct wr_cli_words *given, struct weir_error *error)
{
	struct weir_error why = {0};
	struct wr_lab_fields *fields;
	int rc;

	if (given->count == 0)
		return 0;
	if (given->count > 1)
		return wr_error(
			error, WEIR_EINVAL,
			"--fields is given %zu times: give it once, with commas between the "
			"names: --fields time=ts,client=ip",
			given->count);
	rc = wr_lab_fields_new(&fields, given->items[0], &why);
	if (rc)
		return wr_error(error, rc, "--fields: %s", why.text);
	wr_lab_fields_free(fields);
	return 0;
}

static int check_paths(const struct wr_cli_words *paths, struct weir_error *error)
{
	size_t standard = 0;

	for (size_t i = 0; i < paths->count; i++)
		standard += strcmp(paths->items[i], "-") == 0;
	if (standard > 1)
		return wr_error(error, WEIR_EINVAL,
				"standard input can be read once: give - only once");
	return 0;
}

int wr_cli_log_read(const struct wr_cli_log_choice *choice, const struct wr_cli_words *paths,
		    struct wr_lab_log_opts *opts, struct wr_cli_log_span *span,
		    struct weir_error *error)
{
	int rc;

	*opts = (struct wr_lab_log_opts){.paths = paths->items,
					 .path_count = paths->count,
					 .format = find_format(choice->format),
					 .fields = choice->fields.count ? choice->fields.items[0]
									: NULL,
					 .window_lines = (uint32_t)choice->window_lines,
					 .window_ns = choice->window_ns};
	*span = (struct wr_cli_log_span){.to_ns = UINT64_MAX};
	rc = check_paths(paths, error);
	if (rc == 0)
		rc = check_fields(&choice->fields, error);
	if (rc)
		return rc;
	if (read_bound("--from", choice->from, &span->from_ns, error) != 0 ||
	    read_bound("--to", choice->to, &span->to_ns, error) != 0)
		return WEIR_EINVAL;
	if (span->from_ns >= span->to_ns)
		return wr_error(error, WEIR_EINVAL, "--from %s is not before --to %s", choice->from,
				choice->to);
	return 0;
}

int wr_cli_log_fail(const char *command, const struct wr_lab_log_totals *totals)
{
	if (totals->lines == 0)
		fprintf(stderr, "weir %s: the log has no lines\n", command);
	else if (totals->lines == 1)
		fprintf(stderr,
			"weir %s: the log has 1 line, which could not be read; --format and "
			"--fields "
			"describe the log\n",
			command);
	else
		fprintf(stderr,
			"weir %s: none of the %llu lines could be read; --format and --fields "
			"describe the log\n",
			command, (unsigned long long)totals->lines);
	for (uint32_t i = 0; i < totals->example_count; i++)
		fprintf(stderr, "  %s\n", totals->examples[i]);
	if (totals->damaged)
		fprintf(stderr, "  %s\n", totals->damage);
	return WR_EXIT_NO;
}
