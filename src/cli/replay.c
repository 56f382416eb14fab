/* weir replay: decides the requests of a log by rules, and reports what each limit would have
 * done. */
#include "cli/replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "stats/words.h"

static struct replay_arguments {
	const char *rules, *domain, *compare, *html;
	struct wr_cli_words descriptors;
	struct wr_text_list where_answered;
	uint64_t memory_bytes;
	bool algorithms, json;
} given;
static struct wr_cli_log_choice log_choice;
static struct wr_cli_words paths;

#define AT(field) .at = offsetof(struct replay_arguments, field)

static const struct wr_cli_option deciding[] = {
	{"rules", WR_OPTION_TEXT, "PATH", NULL, "rule file or directory", AT(rules)},
	{"domain", WR_OPTION_TEXT, "NAME", NULL,
	 "domain of the rules that apply; required if several\n"
	 "domains have requests:",
	 AT(domain)},
	{"descriptor", WR_OPTION_REPEATED, "KEY=FIELD,…", NULL,
	 "for rules without requests:, such as Envoy's: makes a\n"
	 "descriptor from fields of the log, client method path\n"
	 "target host user status header.NAME, or from a constant,\n"
	 "KEY=\"TEXT\"; may be repeated",
	 AT(descriptors), .variable = WR_NO_VARIABLE},
	{"memory", WR_OPTION_SIZE, "SIZE", "64M", "memory of the table; a key needs about 44 bytes",
	 AT(memory_bytes), .min = 256 << 10, .max = (uint64_t)1 << 38, .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option comparing[] = {
	{"algorithms", WR_OPTION_SWITCH, NULL, NULL,
	 "compare the five algorithms on each limit, and their\n"
	 "errors against an exact sliding window",
	 AT(algorithms), .variable = WR_NO_VARIABLE},
	{"compare", WR_OPTION_TEXT, "PATH", NULL,
	 "other rules: reports what they change, and for whom", AT(compare),
	 .variable = WR_NO_VARIABLE},
	{"where-answered", WR_OPTION_LIST, "STATUS,…", NULL,
	 "compare with the refusals that the log records, by their\n"
	 "status: 503, 429, 5xx",
	 AT(where_answered), .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option output[] = {
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the result as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
	{"html", WR_OPTION_TEXT, "FILE", NULL,
	 "write the result as a page with plots, too; the page\n"
	 "needs no network",
	 AT(html), .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {
	WR_OPTION_GROUP("Rules", deciding, &given),
	WR_OPTION_GROUP("Comparisons", comparing, &given),
	{"Log", wr_cli_log_options, WR_LOG_OPTIONS, &log_choice},
	WR_OPTION_GROUP("Output", output, &given),
};

static const struct wr_cli_command command = {
	"replay",
	"weir replay LOG… --rules PATH [--algorithms] [--compare PATH] [--json] [--html FILE]\n"
	"\n"
	"Decides every request of a log by rules, with the code that decides in production, and\n"
	"reports for each limit which requests and which clients it would have refused. LOG is a\n"
	"file, a directory of rotated logs, or - for standard input; .gz, .xz and .zst are "
	"unpacked.\n",
	"Examples\n"
	"  weir replay access.log --rules rules.yaml\n"
	"  weir replay /var/log/nginx --rules rules.yaml --algorithms --html report.html\n"
	"  weir replay access.log --rules new.yaml --compare old.yaml --from 2026-03-01\n"
	"  weir replay envoy.log --rules envoy.yaml --descriptor remote_address=client\n"
	"\n"
	"Exit: 0 done, 1 no line of the log could be read, 2 usage error or the rules have "
	"errors.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &paths,
};

/* ---- --where-answered ---- */

/* Adds a status such as "503", or a class such as "5xx". Returns false if the text is neither. */
static bool add_status(struct weir_str text, uint8_t *statuses)
{
	bool class = text.len == 3 && wr_str_equal_nocase(wr_str_from(text, 1), WR_STR("xx"));
	unsigned first = 0, count = class ? 100 : 1;

	if (text.len != 3 || text.ptr[0] < '1' || text.ptr[0] > '5')
		return false;
	for (size_t i = 0; i < 3; i++) {
		char c = class && i ? '0' : text.ptr[i];

		if (c < '0' || c > '9')
			return false;
		first = first * 10 + (unsigned)(c - '0');
	}
	for (unsigned status = first; status < first + count; status++)
		statuses[status / 8] |= (uint8_t)(1u << status % 8);
	return true;
}

static int read_statuses(struct wr_cli_replay *result)
{
	static char text[256];
	size_t len = 0;

	for (size_t i = 0; i < given.where_answered.count; i++) {
		const char *status = given.where_answered.items[i];

		if (!add_status(wr_str(status), result->answered_statuses))
			return wr_cli_usage(
				"replay",
				"--where-answered '%s' is not a status such as 503 or 5xx", status);
		if (len < sizeof text)
			len += (size_t)snprintf(text + len, sizeof text - len, "%s%s",
						i ? ", " : "", status);
		result->answered_text = text;
	}
	return 0;
}

static bool is_answered(const struct wr_cli_replay *result, uint32_t status)
{
	return status < WR_STATUSES && (result->answered_statuses[status / 8] >> status % 8 & 1);
}

/* ---- setting up ---- */

/* Loads rules and makes a replay of them. Returns 0, or an exit code after a message. */
static int open_replay(const char *path, bool main_rules, struct wr_lab_replay **replay)
{
	struct wr_lab_replay_opts opts = {
		.domain = given.domain,
		.descriptors = given.descriptors.items,
		.descriptor_count = given.descriptors.count,
		.memory_bytes = given.memory_bytes,
		.algorithms = given.algorithms && main_rules,
		.timelines = given.html != NULL,
	};
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_error error = {0};
	struct weir_rules *rules;
	int rc = weir_rules_load(path, &rules, &errors);

	if (rc)
		wr_cli_print_errors(&errors);
	weir_errors_free(&errors);
	if (rc == WEIR_EMEMORY)
		fprintf(stderr, "weir replay: %s: out of memory\n", path);
	if (rc)
		return WR_EXIT_USAGE;
	if (wr_lab_replay_open(rules, &opts, replay, &error) == 0)
		return 0;
	weir_rules_free(rules);
	fprintf(stderr, "weir replay: %s: %s\n", path, error.text);
	return WR_EXIT_USAGE;
}

static int set_up(struct wr_cli_replay *result)
{
	int rc = read_statuses(result);

	result->rules = given.rules;
	result->other_rules = given.compare;
	if (rc == 0)
		rc = open_replay(given.rules, true, &result->replay);
	if (rc == 0 && given.compare)
		rc = open_replay(given.compare, false, &result->other);
	if (rc == 0 && ((given.compare && !wr_lab_diff_init(&result->difference)) ||
			(result->answered_text && !wr_lab_diff_init(&result->answered))))
		return wr_cli_usage("replay", "out of memory");
	return rc;
}

static void tear_down(struct wr_cli_replay *result)
{
	wr_lab_replay_close(result->replay);
	wr_lab_replay_close(result->other);
	wr_lab_diff_free(&result->difference);
	wr_lab_diff_free(&result->answered);
}

/* ---- the log ---- */

/* Decides one request by all rules. */
static void feed(struct wr_cli_replay *result, const struct wr_lab_record *record,
		 const struct wr_lab_record *next)
{
	enum wr_lab_verdict verdict = wr_lab_replay_feed(result->replay, record, next), other;

	if (result->other) {
		other = wr_lab_replay_feed(result->other, record, next);
		wr_lab_diff_feed(
			&result->difference, record,
			(const bool[2]){verdict == WR_LAB_REFUSED, other == WR_LAB_REFUSED});
	}
	if (result->answered_text)
		wr_lab_diff_feed(&result->answered, record,
				 (const bool[2]){is_answered(result, record->status),
						 verdict == WR_LAB_REFUSED});
}

static void end(struct wr_cli_replay *result)
{
	wr_lab_replay_end(result->replay);
	if (result->other) {
		wr_lab_replay_end(result->other);
		wr_lab_diff_end(&result->difference);
	}
	if (result->answered_text)
		wr_lab_diff_end(&result->answered);
}

/* Reads the log and decides its requests. Returns 0, or an exit code after a message. */
static int run(struct wr_cli_replay *result)
{
	const struct wr_lab_record *record;
	struct wr_cli_progress progress;
	struct weir_error error = {0};
	struct wr_lab_log_opts opts;
	struct wr_cli_log_span span;
	struct wr_lab_log *log;

	if (wr_cli_log_read(&log_choice, &paths, &opts, &span, &error) != 0)
		return wr_cli_fail("replay", &error, WR_EXIT_USAGE);
	wr_cli_progress_begin(&progress);
	opts.progress = wr_cli_progress_show;
	opts.context = &progress;
	if (wr_lab_log_open(&opts, &log, &error) != 0)
		return wr_cli_fail("replay", &error, WR_EXIT_NO);
	while ((record = wr_lab_log_next(log)) != NULL) {
		const struct wr_lab_record *next = wr_lab_log_peek(log);

		if (next && !wr_cli_log_span_holds(&span, next->time_ns))
			next = NULL;
		if (wr_cli_log_span_holds(&span, record->time_ns))
			feed(result, record, next);
		else
			result->outside++;
	}
	wr_cli_progress_end(&progress);
	wr_lab_log_totals(log, &result->log);
	wr_lab_log_close(log);
	end(result);
	return 0;
}

/* ---- the result ---- */

static void warn(struct wr_cli_replay *result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void warn(struct wr_cli_replay *result, const char *format, ...)
{
	va_list args;

	if (result->warning_count == WR_REPLAY_WARNINGS)
		return;
	va_start(args, format);
	vsnprintf(result->warnings[result->warning_count++], WR_REPLAY_WARNING, format, args);
	va_end(args);
}

static void warn_of_evictions(struct wr_cli_replay *result, const char *rules,
			      const struct wr_lab_replay_report *report)
{
	char count[WR_NUMBER_WORDS], full[WR_NUMBER_WORDS];

	wr_number_words(report->evicted, count);
	if (report->evicted)
		warn(result,
		     "%s: the table was too small: %s keys were evicted before they expired, so "
		     "some requests were admitted that should be refused. Use a larger --memory.",
		     rules, count);
	wr_number_words(report->log_approximate, count);
	wr_number_words(report->log_full, full);
	if (report->log_approximate || report->log_full)
		warn(result,
		     "%s: the memory for sliding window logs was too small: %s requests were "
		     "decided approximately, %s were refused. Use a larger --memory.",
		     rules, count, full);
}

static void add_warnings(struct wr_cli_replay *result)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(result->replay);
	const struct wr_lab_log_totals *log = &result->log;
	char count[WR_NUMBER_WORDS];

	if (log->unreadable * 100 > log->lines * WR_REPLAY_UNREADABLE)
		warn(result,
		     "%.1f %% of the lines could not be read: the log may have another --format.",
		     100.0 * (double)log->unreadable / (double)log->lines);
	if (log->damaged)
		warn(result, "%s", log->damage);
	for (uint32_t i = 0; i < log->note_count; i++)
		warn(result, "%s", log->notes[i]);
	wr_number_words(log->late, count);
	if (log->late)
		warn(result,
		     "%s %s dropped (%.1f %%): later than --window and --window-lines allow. If "
		     "several logs were joined, pass them as separate files.",
		     count, log->late == 1 ? "line was" : "lines were",
		     100.0 * (double)log->late / (double)log->lines);
	if (report->totals.requests == 0)
		warn(result, "no request of the log is between --from and --to.");
	else if (report->totals.unlimited + report->totals.exempt + report->totals.no_request ==
		 report->totals.requests)
		warn(result, "no limit applies to any request: weir explain --http 'METHOD PATH' "
			     "shows why.");
	warn_of_evictions(result, result->rules, report);
	if (result->other)
		warn_of_evictions(result, result->other_rules, wr_lab_replay_report(result->other));
}

static int show(struct wr_cli_replay *result)
{
	struct weir_error error = {0};

	if (result->log.records == 0)
		return wr_cli_log_fail("replay", &result->log);
	add_warnings(result);
	if (given.html && wr_cli_replay_page(result, given.html, &error) != 0)
		return wr_cli_fail("replay", &error, WR_EXIT_NO);
	if (given.json)
		return wr_cli_json_print(wr_cli_replay_json(result), WR_EXIT_YES);
	wr_cli_replay_print(result);
	return WR_EXIT_YES;
}

/* Refuses to overwrite the log or the rules. */
static int check_outputs(void)
{
	const struct wr_cli_output outputs[] = {{"--html", given.html}};
	const char *const rules[] = {given.rules, given.compare};
	int code = wr_cli_outputs_check("replay", outputs, 1, paths.items, paths.count);

	return code ? code : wr_cli_outputs_check("replay", outputs, 1, rules, 2);
}

int wr_cli_replay(int argc, char **argv)
{
	static struct wr_cli_replay result;
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (paths.count == 0)
		return wr_cli_usage("replay", "no LOG is given");
	if (!given.rules)
		return wr_cli_usage("replay", "--rules PATH is missing");
	code = check_outputs();
	if (code != 0)
		return code;
	code = set_up(&result);
	if (code == 0)
		code = run(&result);
	if (code == 0)
		code = show(&result);
	tear_down(&result);
	return code;
}
