/* The routes /v1/queue and /v1/queue/…, with which operators list and change deferred requests. The
 * queue's thread does the work, and the HTTP request gets its response when the thread is done. */
#include <stdlib.h>
#include <string.h>

#include "serve/admin/admin.h"
#include "serve/admin/queue.h"
#include "serve/deliver/deliver.h"
#include "serve/service.h"

#define PAGE_DEFAULT 100u
/* Maximum number of jobs for one list. A list needs many jobs if its filter selects few of many
 * requests. */
#define ROUNDS_MAX 200u

static struct wr_serve_queue_loop *queue_of(const struct wr_serve_http_request *request)
{
	return request->server->loop->queue;
}

/* ---- totals ---- */

static int write_queue(struct wr_json_out *json, const struct wr_admin_work *work)
{
	wr_json_object(json);
	wr_json_member_seconds(json, "now", work->now_ns);
	wr_json_key(json, "queue");
	if (work->service->queue)
		wr_admin_json_queue(json, work->service->queue);
	else
		wr_json_null(json);
	wr_json_end_object(json);
	wr_buf_add_char(json->buf, '\n');
	return 0;
}

void wr_admin_queue(struct wr_serve_http_request *request)
{
	if (wr_admin_wants_events(request))
		wr_admin_live(request, write_queue, NULL);
	else
		wr_admin_reply_later(request, "application/json", write_queue, 0, NULL);
}

/* ---- responses ---- */

static void write_next(struct wr_json_out *json, const struct wr_queue_job *job)
{
	if (job->page.last)
		wr_json_member_uint(json, "next", job->page.last);
	else
		wr_json_member_null(json, "next");
	wr_json_member_uint(json, "end", job->page.end);
}

static void write_list(struct wr_json_out *json, void *context)
{
	const struct wr_admin_queue_page *page = context;

	wr_json_object(json);
	wr_json_key(json, "requests");
	wr_json_array(json);
	for (const struct wr_queue_request *each = page->first; each; each = each->next)
		wr_admin_json_deferred(json, each, false, page->hidden);
	wr_json_end_array(json);
	write_next(json, &page->job);
	wr_json_end_object(json);
}

static void write_one(struct wr_json_out *json, void *context)
{
	const struct wr_admin_queue_page *page = context;

	wr_admin_json_deferred(json, page->first, true, page->hidden);
}

static void write_changed(struct wr_json_out *json, void *context)
{
	const struct wr_admin_queue_page *page = context;

	wr_json_object(json);
	wr_json_member_uint(json, "changed", page->job.page.count);
	wr_json_member_uint(json, "left", page->job.page.left);
	write_next(json, &page->job);
	wr_json_end_object(json);
}

static void reply_result(struct wr_admin_queue_page *page)
{
	enum wr_queue_verb verb = page->job.verb;
	enum wr_queue_reason reason = page->job.reason;
	struct wr_problem problem;

	if (verb == WR_QUEUE_SHOW && reason == WR_QUEUE_OK && !page->first)
		reason = WR_QUEUE_UNKNOWN;
	if (reason == WR_QUEUE_OK) {
		wr_admin_reply(page->request, 200,
			       verb == WR_QUEUE_LIST   ? write_list
			       : verb == WR_QUEUE_SHOW ? write_one
						       : write_changed,
			       page);
		return;
	}
	if (reason == WR_QUEUE_UNKNOWN)
		wr_problem(&problem, WR_NOT_FOUND, "there is no such request");
	else
		wr_problem(&problem, WR_UNAVAILABLE, "%s", wr_queue_reason_text(reason));
	wr_serve_http_reply_problem(page->request, &problem);
}

static void end_page(struct wr_admin_queue_page *page)
{
	if (page->request)
		reply_result(page);
	wr_queue_request_free(page->first);
	free(page);
}

static void on_changed(struct wr_queue_job *job)
{
	struct wr_admin_queue_page *page = job->context;

	if (job->reason == WR_QUEUE_OK)
		wr_deliver_due(page->host, 0);
	end_page(page);
}

/* Appends the requests that a job found to the list, until the list has as many requests as the
 * client wants. Frees the remaining requests that the job found; a job for the next page finds them
 * again. */
static void append_found(struct wr_admin_queue_page *page)
{
	struct wr_queue_request *each = page->job.page.first;
	uint64_t id = 0;

	for (; each && page->found < page->wanted; page->found++) {
		*page->last = each;
		page->last = &each->next;
		id = each->id;
		each = each->next;
	}
	if (each)
		page->job.page.last = id;
	*page->last = NULL;
	wr_queue_request_free(each);
}

/* Called when a job has read some requests of the queue. Each job reads a bounded number of
 * requests, so that other jobs are not delayed. If the client wants more requests than were found
 * so far, submits the job again to read on, up to ROUNDS_MAX jobs. Otherwise responds. */
static void on_listed(struct wr_queue_job *job)
{
	struct wr_admin_queue_page *page = job->context;

	if (job->reason == WR_QUEUE_OK)
		append_found(page);
	if (job->reason != WR_QUEUE_OK || !page->request || page->found == page->wanted ||
	    job->page.last == 0 || ++page->rounds == ROUNDS_MAX) {
		end_page(page);
		return;
	}
	job->page.after = job->page.last;
	job->page.last = 0;
	wr_queue_submit(queue_of(page->request)->port, job);
}

static void on_shown(struct wr_queue_job *job)
{
	struct wr_admin_queue_page *page = job->context;

	if (job->reason == WR_QUEUE_OK)
		page->first = job->page.first;
	end_page(page);
}

static void on_gone(struct wr_serve_http_request *request)
{
	struct wr_admin_queue_page *page = request->context;

	page->request = NULL;
}

/* ---- routes ---- */

/* Returns a new struct wr_admin_queue_page for the HTTP request. On failure, sends an error to the
 * client and returns NULL. */
static struct wr_admin_queue_page *make_page(struct wr_serve_http_request *request,
					     enum wr_queue_verb verb)
{
	const char *keys = wr_loop_settings(request->server->loop)->keys;
	struct wr_admin_queue_page *page = queue_of(request) ? calloc(1, sizeof *page) : NULL;
	struct wr_problem problem;

	if (!page) {
		wr_problem(&problem, queue_of(request) ? WR_UNAVAILABLE : WR_NOT_FOUND,
			   queue_of(request) ? "out of memory"
					     : "there is no queue: start weir with --queue");
		wr_serve_http_reply_problem(request, &problem);
		return NULL;
	}
	page->request = request;
	page->host = queue_of(request)->host;
	page->hidden = keys && strcmp(keys, "text") != 0;
	page->last = &page->first;
	page->job = (struct wr_queue_job){.verb = verb,
					  .done = verb == WR_QUEUE_LIST   ? on_listed
						  : verb == WR_QUEUE_SHOW ? on_shown
									  : on_changed,
					  .context = page,
					  .page = {.max = PAGE_DEFAULT}};
	return page;
}

static void refuse_page(struct wr_admin_queue_page *page, const struct wr_problem *problem)
{
	wr_serve_http_reply_problem(page->request, problem);
	free(page);
}

static void submit_page(struct wr_admin_queue_page *page)
{
	struct wr_serve_http_request *request = page->request;

	request->context = page;
	wr_serve_http_hold(request, on_gone);
	wr_queue_submit(queue_of(request)->port, &page->job);
}

void wr_admin_queue_requests(struct wr_serve_http_request *request)
{
	struct wr_admin_queue_page *page = make_page(request, WR_QUEUE_LIST);
	struct wr_problem problem;

	if (!page)
		return;
	if (wr_admin_queue_read_query(page, &problem) != 0) {
		refuse_page(page, &problem);
		return;
	}
	page->wanted = page->job.page.max;
	if (wr_admin_queue_is_filtered(&page->job.page.filter))
		page->job.page.max = WR_QUEUE_PAGE_MAX;
	submit_page(page);
}

void wr_admin_queue_request(struct wr_serve_http_request *request)
{
	struct wr_admin_queue_page *page = make_page(request, WR_QUEUE_SHOW);
	struct wr_problem problem;

	if (!page)
		return;
	if (wr_admin_queue_read_query(page, &problem) != 0)
		refuse_page(page, &problem);
	else if (page->job.page.filter.id)
		submit_page(page);
	else {
		wr_problem(&problem, WR_MISSING_MEMBER, "?id= is required");
		refuse_page(page, &problem);
	}
}

/* Describes the selected requests for the log: the id of one request, or "all" with the filter. */
static void describe_filter(struct wr_buf *out, const struct wr_queue_filter *filter)
{
	if (filter->id) {
		wr_buf_add_uint(out, filter->id);
		return;
	}
	wr_buf_add_str(out, WR_STR("all"));
	if (filter->states)
		wr_buf_printf(out, " that are %s",
			      wr_queue_request_state_name(
				      (enum wr_queue_request_state)__builtin_ctz(filter->states)));
	if (filter->rule.len) {
		char quoted[WR_DEFER_NAME_MAX * 2];
		struct wr_limiter_text text = {quoted, sizeof quoted, 0};

		wr_limiter_text_quoted(&text, filter->rule);
		wr_buf_printf(out, " of rule \"%.*s\"", (int)text.len, quoted);
	}
	if (filter->key)
		wr_buf_add_str(out, WR_STR(" of key "));
	for (size_t i = 0; filter->key && i < WR_LINE_KEY_BYTES; i++)
		wr_buf_printf(out, "%02x", filter->key[i]);
}

static void log_order(struct wr_serve_http_request *request, const struct wr_admin_queue_page *page)
{
	char text[WR_DEFER_NAME_MAX * 2 + 128];
	struct wr_buf which;

	wr_buf_init_fixed(&which, text, sizeof text);
	describe_filter(&which, &page->job.page.filter);
	wr_admin_log(request, 0, "queue %s %s", page->job.verb == WR_QUEUE_DROP ? "drop" : "retry",
		     text);
}

/* Carries out an order of an operator: retry or drop the selected requests. The order is logged
 * before the queue's thread begins. The response has the number of requests that the order changed.
 * If more selected requests remain, the client sends the order again, with the member "after". The
 * repeated order is not logged, because the log already has the first one. */
static void change_requests(struct wr_serve_http_request *request, enum wr_queue_verb verb)
{
	struct wr_admin_queue_page *page = make_page(request, verb);
	struct wr_problem problem;
	json_t *document;
	int rc;

	if (!page)
		return;
	document = wr_wire_json_read(wr_serve_http_body(request), &problem);
	rc = document ? wr_admin_queue_read_order(page, document, &problem) : -1;
	json_decref(document);
	if (rc != 0) {
		refuse_page(page, &problem);
		return;
	}
	if (page->job.page.after == 0)
		log_order(request, page);
	submit_page(page);
}

void wr_admin_queue_retry(struct wr_serve_http_request *request)
{
	change_requests(request, WR_QUEUE_RETRY);
}

void wr_admin_queue_drop(struct wr_serve_http_request *request)
{
	change_requests(request, WR_QUEUE_DROP);
}
