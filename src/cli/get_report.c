/* What `weir get` tells: the progress, a message for each URL that failed, and the summary. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "cli/get.h"
#include "cli/show.h"

#define ENTRY_MAX ((size_t)1 << 20)

void wr_cli_get_report_begin(struct get_report *report, bool json, bool quiet)
{
	*report = (struct get_report){.json = json, .quiet = quiet};
	pthread_mutex_init(&report->lock, NULL);
	wr_cli_progress_begin(&report->progress);
	report->progress.shown &= !quiet;
	if (json)
		fputs("{\"urls\":[", stdout);
}

/* ---- waits ---- */

void wr_cli_get_report_event(void *context, const struct weir_client_event *event)
{
	struct get_report *report = context;
	uint64_t now_ns = wr_clock_mono_ns();

	if (event->kind != WEIR_EVENT_WAIT)
		return;
	pthread_mutex_lock(&report->lock);
	if (now_ns >= report->until_ns || now_ns + event->wait_ns > report->until_ns) {
		report->until_ns = now_ns + event->wait_ns;
		snprintf(report->host, sizeof report->host, "%s", event->host);
		snprintf(report->text, sizeof report->text, "%s", event->text);
	}
	pthread_mutex_unlock(&report->lock);
}

/* Writes "api.example.com: waits 12 s, told by Retry-After", or "" if nothing waits for a second. */
static void wait_text(struct get_report *report, char *text, size_t cap)
{
	uint64_t now_ns = wr_clock_mono_ns();

	pthread_mutex_lock(&report->lock);
	text[0] = '\0';
	if (report->until_ns > now_ns + WR_SECOND_NS)
		snprintf(text, cap, "%s: waits %.0f s, %s", report->host,
			 (double)(report->until_ns - now_ns) / 1e9, report->text);
	pthread_mutex_unlock(&report->lock);
}

void wr_cli_get_report_progress(struct get_report *report, double part)
{
	uint64_t ended = report->complete + report->skipped + report->failed;
	char text[256];

	if (!report->progress.shown)
		return;
	wait_text(report, text, sizeof text);
	wr_cli_progress_note(&report->progress, part, ended, "URLs", text);
}

/* ---- one URL ---- */

static void print_json(struct get_report *report, const struct get_item *item,
		       const struct weir_response *response, enum get_end end, enum get_exit code,
		       const char *why)
{
	static const char *const ends[] = {"complete", "skipped", "failed"};
	static const char *const caches[] = {"unused", "fresh", "revalidated"};
	struct wr_json_out json;
	struct wr_buf buf;

	wr_buf_init(&buf, ENTRY_MAX);
	wr_json_begin(&json, &buf);
	wr_json_object(&json);
	wr_json_member_bytes(&json, "url", wr_str(item->url));
	wr_json_member_string(&json, "result", wr_str(ends[end]));
	wr_json_member_uint(&json, "exit", code);
	wr_json_member_string_or_null(&json, "file", wr_str(end == GET_FAILED ? "" : item->name));
	wr_json_key(&json, "error");
	if (why[0])
		wr_json_bytes(&json, wr_str(why));
	else
		wr_json_null(&json);
	if (response) {
		wr_json_member_uint(&json, "status", response->status);
		wr_json_member_bytes(&json, "final_url", wr_str(response->url));
		wr_json_member_uint(&json, "bytes", item->written);
		wr_json_member_uint(&json, "resumed_at", item->offset);
		wr_json_member_uint(&json, "attempts", response->attempts);
		wr_json_member_uint(&json, "refusals", response->refusals);
		wr_json_member_uint(&json, "redirects", response->redirects);
		wr_json_member_seconds(&json, "waited", response->waited_ns);
		wr_json_member_string(&json, "cache", wr_str(caches[response->cache]));
	}
	wr_json_end_object(&json);
	if (!wr_buf_failed(&buf))
		printf("%s\n%s", report->has_json_entry ? "," : "", buf.ptr);
	report->has_json_entry = true;
	wr_buf_free(&buf);
}

/* Writes "weir get: URL: why". Control characters of the URL are escaped. */
static void print_failure(struct get_report *report, const char *url, const char *why)
{
	char shown[4 * 160 + 1];

	wr_cli_show_text(wr_str(url), 160, report->progress.utf8, shown, sizeof shown);
	wr_cli_progress_end(&report->progress);
	fprintf(stderr, "weir get: %s: %s\n", shown, why);
}

void wr_cli_get_report_item(struct get_report *report, const struct get_item *item,
			    const struct weir_response *response, enum get_end end,
			    enum get_exit code, const char *why)
{
	report->complete += end == GET_COMPLETE;
	report->skipped += end == GET_SKIPPED;
	report->failed += end == GET_FAILED;
	report->bytes +=
		response && item->written > item->offset ? item->written - item->offset : 0;
	if (code != GET_OK && (report->exit == GET_OK || item->number < report->first_failed)) {
		report->exit = code;
		report->first_failed = item->number;
	}
	if (end == GET_FAILED)
		print_failure(report, item->url, why);
	if (report->json)
		print_json(report, item, response, end, code, why);
}

void wr_cli_get_report_unread(struct get_report *report, const struct get_list *list,
			      uint64_t count)
{
	if (report->exit == GET_OK) {
		report->exit = GET_READ;
		report->first_failed = count;
	}
	wr_cli_progress_end(&report->progress);
	fprintf(stderr, "weir get: cannot read %s: %s\n", list->path, strerror(list->failed_errno));
}

/* ---- the summary ---- */

static void print_totals(const struct get_report *report, const struct weir_client_info *info,
			 bool interrupted)
{
	struct wr_json_out json;
	struct wr_buf buf;

	wr_buf_init(&buf, ENTRY_MAX);
	wr_json_begin(&json, &buf);
	wr_json_object(&json);
	wr_json_member_uint(&json, "complete", report->complete);
	wr_json_member_uint(&json, "skipped", report->skipped);
	wr_json_member_uint(&json, "failed", report->failed);
	wr_json_member_uint(&json, "bytes", report->bytes);
	wr_json_member_uint(&json, "requests", info->attempts);
	wr_json_member_uint(&json, "retries", info->retries);
	wr_json_member_uint(&json, "refusals", info->refusals);
	wr_json_member_uint(&json, "failures", info->failures);
	wr_json_member_uint(&json, "waits", info->waits);
	wr_json_member_seconds(&json, "waited", info->waited_ns);
	wr_json_member_uint(&json, "cache_hits", info->cache_hits);
	wr_json_member_uint(&json, "revalidated", info->revalidated);
	wr_json_member_bool(&json, "interrupted", interrupted);
	wr_json_end_object(&json);
	printf("\n],\"totals\":%s}\n", wr_buf_str(&buf).ptr);
	wr_buf_free(&buf);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_summary(const struct get_report *report, const struct weir_client_info *info,
			  bool interrupted)
{
	uint64_t urls = report->complete + report->skipped + report->failed;
	uint64_t hits = info->cache_hits + info->revalidated;

	fprintf(stderr, "weir get: %s%llu URL%s: %llu complete, %llu skipped, %llu failed\n",
		interrupted ? "interrupted; " : "", (unsigned long long)urls, plural(urls),
		(unsigned long long)report->complete, (unsigned long long)report->skipped,
		(unsigned long long)report->failed);
	fprintf(stderr,
		"weir get: %llu request%s, %llu retr%s, %llu refusal%s, %llu wait%s (%.1f s), %llu "
		"cache hit%s, %llu bytes\n",
		(unsigned long long)info->attempts, plural(info->attempts),
		(unsigned long long)info->retries, info->retries == 1 ? "y" : "ies",
		(unsigned long long)info->refusals, plural(info->refusals),
		(unsigned long long)info->waits, plural(info->waits), (double)info->waited_ns / 1e9,
		(unsigned long long)hits, plural(hits), (unsigned long long)report->bytes);
}

enum get_exit wr_cli_get_report_end(struct get_report *report, struct weir_client *client,
				    bool interrupted)
{
	struct weir_client_info info = {.size = sizeof info};

	weir_client_info(client, &info);
	wr_cli_progress_end(&report->progress);
	if (report->json)
		print_totals(report, &info, interrupted);
	if (!report->quiet)
		print_summary(report, &info, interrupted);
	if ((fflush(stdout) != 0 || ferror(stdout)) && report->exit == GET_OK) {
		perror("weir get: standard output");
		report->exit = GET_WRITE;
	}
	pthread_mutex_destroy(&report->lock);
	return interrupted ? GET_INTERRUPTED : report->exit;
}
