/* Prints the result of weir replay as text. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/replay.h"
#include "cli/show.h"
#include "stats/words.h"

#define INDENT 2u
#define UNUSED_MAX 20u /* number of limits without requests that are named */

/* ---- the head: log, warnings, totals ---- */

static void print_log(const struct wr_cli_replay *result)
{
	const struct wr_lab_replay_totals *totals = &wr_lab_replay_report(result->replay)->totals;
	const struct wr_lab_log_totals *log = &result->log;
	char count[WR_NUMBER_WORDS], first[WR_REPLAY_WORDS], last[WR_REPLAY_WORDS];

	wr_number_words(log->lines, count);
	printf("log       %s %s", count, log->lines == 1 ? "line" : "lines");
	wr_number_words(log->unreadable, count);
	if (log->unreadable)
		printf(", %s unreadable", count);
	wr_number_words(log->reordered, count);
	if (log->reordered)
		printf(", %s put in order", count);
	wr_number_words(result->outside, count);
	if (result->outside)
		printf(", %s left out by --from and --to", count);
	putchar('\n');
	if (totals->requests) {
		wr_cli_replay_time(totals->first_ns, first);
		wr_cli_replay_time(totals->last_ns, last);
		printf("time      %s to %s UTC\n", first, last);
	}
}

static void print_warnings(const struct wr_cli_replay *result, bool utf8)
{
	const struct wr_lab_log_totals *log = &result->log;

	for (size_t i = 0; i < result->warning_count; i++) {
		fputs("warning   ", stdout);
		wr_cli_show_print(wr_str(result->warnings[i]), utf8);
		putchar('\n');
	}
	if (log->unreadable)
		puts("unreadable lines, for example");
	for (uint32_t i = 0; i < log->example_count; i++)
		printf("  %s\n", log->examples[i]);
}

static void add_total(struct wr_cli_columns *table, const char *name, uint64_t number, uint64_t all)
{
	char percent[WR_REPLAY_WORDS];

	if (number == 0)
		return;
	wr_cli_replay_percent(number, all, percent);
	wr_cli_columns_text(table, wr_str(name));
	wr_cli_columns_number(table, number);
	wr_cli_columns_text(table, wr_str(percent));
}

static void print_totals(const struct wr_lab_replay_report *report, bool utf8)
{
	const struct wr_lab_replay_totals *t = &report->totals;
	char refused[WR_REPLAY_WORDS], all[WR_REPLAY_WORDS];
	struct wr_cli_columns table;

	wr_cli_columns_begin(&table, utf8, "RESULT", "#REQUESTS", "#%", NULL);
	add_total(&table, "all", t->requests, t->requests);
	add_total(&table, "no complete request", t->no_request, t->requests);
	add_total(&table, "exempt", t->exempt, t->requests);
	add_total(&table, "no limit applies", t->unlimited, t->requests);
	add_total(&table, "admitted", t->admitted, t->requests);
	add_total(&table, "  of these delayed", t->delayed, t->requests);
	add_total(&table, "refused", t->refused, t->requests);
	add_total(&table, "deferred", t->deferred, t->requests);
	add_total(&table, "refused: malformed target", t->malformed, t->requests);
	add_total(&table, "refused: value missing", t->missing, t->requests);
	add_total(&table, "refused: too many limits", t->too_many, t->requests);
	add_total(&table, "time not usable", t->undecided, t->requests);
	putchar('\n');
	wr_cli_columns_print(&table, 0);
	wr_cli_replay_estimate(report->clients_refused, report->clients_exact, refused);
	wr_cli_replay_estimate(report->clients, report->clients_exact, all);
	printf("\n%s of %s clients had refused requests\n", refused, all);
}

/* ---- limits ---- */

static void add_limit(struct wr_cli_columns *table, const struct wr_lab_replay_limit *limit)
{
	uint64_t refused = limit->refused + limit->deferred + limit->would_refuse;
	char text[160], percent[WR_REPLAY_WORDS], keys[WR_REPLAY_WORDS], all[WR_REPLAY_WORDS];

	wr_cli_columns_text(table, limit->rule->stat);
	wr_cli_columns_text(table, wr_str(wr_cli_replay_limit(limit->rule, text, sizeof text)));
	wr_cli_columns_number(table, limit->requests);
	wr_cli_columns_number(table, limit->admitted);
	wr_cli_columns_number(table, refused);
	wr_cli_replay_percent(refused, limit->requests, percent);
	wr_cli_columns_text(table, wr_str(percent));
	wr_cli_replay_estimate(limit->keys_refused, limit->keys_exact, keys);
	wr_cli_replay_estimate(limit->keys, limit->keys_exact, all);
	wr_cli_columns_cell(table, "%s of %s", keys, all);
	wr_cli_replay_longest(limit, text);
	wr_cli_columns_text(table, wr_str(text));
	wr_cli_columns_number(table, limit->peak_offered);
	wr_cli_columns_number(table, limit->peak_admitted);
}

/* Prints the names of the limits without requests. */
static void print_unused(const struct wr_lab_replay_report *report, bool utf8)
{
	size_t unused = 0;

	for (size_t i = 0; i < report->limit_count; i++) {
		if (report->limits[i].requests || unused++ >= UNUSED_MAX)
			continue;
		fputs(unused == 1 ? "no request: " : ", ", stdout);
		wr_cli_show_print(report->limits[i].rule->stat, utf8);
	}
	if (unused > UNUSED_MAX)
		printf(" and %zu more", unused - UNUSED_MAX);
	fputs(unused ? "\n" : "", stdout);
}

static void print_limits(const struct wr_lab_replay_report *report, bool utf8)
{
	struct wr_cli_columns table;

	wr_cli_columns_begin(&table, utf8, "RULE", "LIMIT", "#REQUESTS", "#ADMITTED", "#REFUSED",
			     "#%", "#KEYS REFUSED", "#LONGEST WAIT", "#PEAK/S", "#ADMITTED/S",
			     NULL);
	for (size_t i = 0; i < report->limit_count; i++)
		if (report->limits[i].requests)
			add_limit(&table, &report->limits[i]);
	putchar('\n');
	wr_cli_columns_print(&table, 0);
	print_unused(report, utf8);
}

static void print_part(uint64_t number, const char *text)
{
	char count[WR_NUMBER_WORDS];

	wr_number_words(number, count);
	if (number)
		printf("  %s %s\n", count, text);
}

static void print_keys(const struct wr_lab_top_key *const *keys, size_t count, bool utf8)
{
	struct wr_cli_columns table;

	wr_cli_columns_begin(&table, utf8, "#REFUSED", "KEY", NULL);
	for (size_t i = 0; i < count; i++) {
		char number[WR_REPLAY_WORDS], text[WR_REPLAY_KEY];

		wr_cli_replay_estimate(keys[i]->count, keys[i]->error == 0, number);
		wr_cli_replay_key(keys[i], text);
		wr_cli_columns_text(&table, wr_str(number));
		wr_cli_columns_text(&table, wr_str(text));
	}
	wr_cli_columns_print(&table, INDENT);
}

/* Prints the details of a limit: refusals that had no effect or another cause, and the most refused
 * keys. */
static void print_details(const struct wr_lab_replay *replay, size_t at, bool utf8)
{
	const struct wr_lab_replay_limit *limit = &wr_lab_replay_report(replay)->limits[at];
	const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
	size_t count = wr_lab_replay_top(replay, at, keys);
	char text[WR_REPLAY_WORDS];

	if (count == 0 && !limit->delayed && !limit->elsewhere)
		return;
	putchar('\n');
	wr_cli_show_print(limit->rule->stat, utf8);
	putchar('\n');
	print_part(limit->would_refuse, "over the limit, but admitted: shadow mode, `enforce`, or "
					"another quota");
	print_part(limit->deferred, "deferred");
	print_part(limit->elsewhere, "refused by another limit");
	print_part(limit->never, "refused for good: waiting does not help");
	print_part(limit->delayed, "delayed");
	wr_cli_replay_wait(limit->longest_delay_ns, text);
	if (limit->delayed)
		printf("  longest delay %s\n", text);
	print_keys(keys, count, utf8);
}

/* ---- algorithms ---- */

static void print_algorithms(const struct wr_lab_replay *replay, size_t at, bool utf8)
{
	const struct wr_lab_replay_limit *limit = &wr_lab_replay_report(replay)->limits[at];
	const struct wr_lab_algorithms_limit *compared = wr_lab_replay_algorithms(replay, at);
	struct wr_cli_columns table;
	char text[160];

	putchar('\n');
	wr_cli_show_print(limit->rule->stat, utf8);
	if (compared->not_compared) {
		printf(": algorithms not compared: %s\n", compared->not_compared);
		return;
	}
	printf(": algorithms%s\n", compared->level ? ", estimated from a sample of keys" : "");
	wr_cli_columns_begin(&table, utf8, "ALGORITHM", "#ADMITTED", "#REFUSED",
			     "#WRONGLY ADMITTED", "#%", "#WRONGLY REFUSED", "#%", NULL);
	for (size_t i = 0; i < WR_LAB_ALGORITHMS; i++) {
		const struct wr_lab_algorithm *a = &compared->algorithms[i];
		struct wr_stats_limit_view view = {a->limit.algorithm, a->limit.limit,
						   i + 1 == WEIR_LEAKY_BUCKET ? a->limit.queue_size
									      : a->limit.burst,
						   a->limit.period_ns};

		wr_cli_columns_text(&table,
				    wr_str(wr_stats_limit_words(&view, NULL, text, sizeof text)));
		wr_cli_columns_number(&table, a->admitted);
		wr_cli_columns_number(&table, a->refused);
		wr_cli_columns_number(&table, a->wrongly_admitted);
		wr_cli_replay_percent(a->wrongly_admitted, compared->requests, text);
		wr_cli_columns_text(&table, wr_str(text));
		wr_cli_columns_number(&table, a->wrongly_refused);
		wr_cli_replay_percent(a->wrongly_refused, compared->requests, text);
		wr_cli_columns_text(&table, wr_str(text));
	}
	wr_cli_columns_print(&table, INDENT);
}

static void print_all_algorithms(const struct wr_lab_replay *replay, bool utf8)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(replay);
	bool any = false;

	for (size_t i = 0; i < report->limit_count; i++)
		if (wr_lab_replay_algorithms(replay, i) && report->limits[i].requests) {
			print_algorithms(replay, i, utf8);
			any = true;
		}
	if (any)
		puts("\nwrong: against an exact sliding window, which keeps the time of every "
		     "request.");
}

/* ---- comparisons ---- */

static void print_diff_keys(const struct wr_lab_diff *diff, enum wr_lab_side side,
			    const char *title, bool utf8)
{
	const struct wr_lab_top_key *keys[WR_LAB_TOP_KEYS];
	size_t count = wr_lab_diff_top(diff, side, keys);

	if (count == 0)
		return;
	printf("%s\n", title);
	print_keys(keys, count, utf8);
}

static void print_diff(const struct wr_lab_diff *diff, const char *first, const char *second,
		       bool utf8)
{
	const uint64_t requests[] = {diff->both, diff->only[0], diff->only[1]};
	const uint64_t clients[] = {diff->clients_both, diff->clients_only[0],
				    diff->clients_only[1]};
	const char *const names[] = {"both", first, second};
	struct wr_cli_columns table;
	char title[320];

	wr_cli_columns_begin(&table, utf8, "REFUSED BY", "#REQUESTS", "#%", "#CLIENTS", NULL);
	for (size_t i = 0; i < 3; i++) {
		char text[WR_REPLAY_WORDS];

		wr_cli_columns_cell(&table, "%s%s", i ? "only " : "", names[i]);
		wr_cli_columns_number(&table, requests[i]);
		wr_cli_replay_percent(requests[i], diff->requests, text);
		wr_cli_columns_text(&table, wr_str(text));
		wr_cli_replay_estimate(clients[i], diff->clients_exact, text);
		wr_cli_columns_text(&table, wr_str(text));
	}
	wr_cli_columns_print(&table, INDENT);
	for (size_t i = 0; i < 2; i++) {
		snprintf(title, sizeof title, "clients refused only by %s, most requests first",
			 names[i + 1]);
		print_diff_keys(diff, (enum wr_lab_side)i, title, utf8);
	}
}

static uint64_t all_refused(const struct wr_lab_replay_limit *limit)
{
	return limit->refused + limit->deferred + limit->would_refuse;
}

static void add_change(struct wr_cli_columns *table, const struct wr_rules_limit *rule,
		       const struct wr_lab_replay_limit *first,
		       const struct wr_lab_replay_limit *second)
{
	char text[160];

	wr_cli_columns_text(table, rule->stat);
	wr_cli_columns_text(
		table, wr_str(first ? wr_cli_replay_limit(first->rule, text, sizeof text) : "-"));
	wr_cli_columns_number(table, first ? all_refused(first) : 0);
	wr_cli_columns_text(
		table, wr_str(second ? wr_cli_replay_limit(second->rule, text, sizeof text) : "-"));
	wr_cli_columns_number(table, second ? all_refused(second) : 0);
}

static void print_comparison(const struct wr_cli_replay *result, bool utf8)
{
	const struct wr_lab_replay_report *first = wr_lab_replay_report(result->replay);
	const struct wr_lab_replay_report *second = wr_lab_replay_report(result->other);
	struct wr_cli_columns table;

	printf("\ncompared with %s\n", result->other_rules);
	wr_cli_columns_begin(&table, utf8, "RULE", "LIMIT", "#REFUSED", "OTHER LIMIT",
			     "#OTHER REFUSED", NULL);
	for (size_t i = 0; i < first->limit_count; i++)
		add_change(&table, first->limits[i].rule, &first->limits[i],
			   wr_cli_replay_same(second, first->limits[i].rule));
	for (size_t i = 0; i < second->limit_count; i++)
		if (!wr_cli_replay_same(first, second->limits[i].rule))
			add_change(&table, second->limits[i].rule, NULL, &second->limits[i]);
	wr_cli_columns_print(&table, INDENT);
	putchar('\n');
	print_diff(&result->difference, result->rules, result->other_rules, utf8);
}

/* ---- all ---- */

static void print_notes(const struct wr_lab_replay_report *report, bool utf8)
{
	if (report->note_count)
		putchar('\n');
	for (size_t i = 0; i < report->note_count; i++) {
		fputs("note      ", stdout);
		wr_cli_show_print(wr_str(report->notes[i]), utf8);
		putchar('\n');
	}
}

void wr_cli_replay_print(const struct wr_cli_replay *result)
{
	const struct wr_lab_replay_report *report = wr_lab_replay_report(result->replay);
	bool utf8 = wr_cli_show_setup();

	print_log(result);
	printf("rules     %s, domain ", result->rules);
	wr_cli_show_print(report->domain, utf8);
	putchar('\n');
	print_warnings(result, utf8);
	print_totals(report, utf8);
	print_limits(report, utf8);
	for (size_t i = 0; i < report->limit_count; i++)
		print_details(result->replay, i, utf8);
	print_all_algorithms(result->replay, utf8);
	if (result->other)
		print_comparison(result, utf8);
	if (result->answered_text) {
		printf("\ncompared with the requests that the log answered with %s\n",
		       result->answered_text);
		print_diff(&result->answered, "the log", "weir", utf8);
	}
	print_notes(report, utf8);
}
