/* /v1/queue and below: deferred requests, for operators. Lists and changes are the queue thread's
 * work; a request here is held until that is done. */
#include <stdlib.h>
#include <string.h>

#include "serve/admin/admin.h"
#include "serve/admin/queue.h"
#include "serve/deliver/deliver.h"
#include "serve/admin/queue_json.h"
#include "serve/service.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define PAGE_USUAL 100u
#define ROUNDS_MAX 200u /* of a list that looks for few among many */

static struct wr_queue_loop *queue_of(const struct wr_http_request *request)
{
	return request->server->loop->queue;
}

/* ---- how it stands ---- */

static int write_queue(struct wr_text *out, const struct wr_admin_work *work)
{
	PUT(out, "{\"now\":");
	wr_json_put_seconds(out, work->now_ns);
	PUT(out, ",\"queue\":");
	if (work->service->queue)
		wr_queue_json(work->service->queue, out);
	else
		PUT(out, "null");
	PUT(out, "}\n");
	return 0;
}

void wr_admin_queue(struct wr_http_request *request)
{
	if (wr_admin_wants_events(request))
		wr_admin_live(request, write_queue, NULL);
	else
		wr_admin_reply_later(request, "application/json", write_queue, 0);
}

/* ---- answers ---- */

static void put_next(struct wr_text *out, const struct wr_queue_job *job)
{
	PUT(out, ",\"next\":");
	if (job->page.last)
		wr_text_number(out, job->page.last);
	else
		PUT(out, "null");
	PUT(out, ",\"end\":");
	wr_text_number(out, job->page.end);
}

static void write_list(struct wr_text *out, void *context)
{
	const struct wr_queue_page *page = context;

	PUT(out, "{\"requests\":[");
	for (const struct wr_deferred *each = page->first; each; each = each->next) {
		if (each != page->first)
			wr_text_char(out, ',');
		wr_queue_json_request(each, false, page->hidden, out);
	}
	PUT(out, "]");
	put_next(out, &page->job);
	PUT(out, "}\n");
}

static void write_one(struct wr_text *out, void *context)
{
	const struct wr_queue_page *page = context;

	wr_queue_json_request(page->first, true, page->hidden, out);
	PUT(out, "\n");
}

static void write_changed(struct wr_text *out, void *context)
{
	const struct wr_queue_page *page = context;

	PUT(out, "{\"changed\":");
	wr_text_number(out, page->job.page.count);
	wr_json_put_number(out, "left", page->job.page.left);
	put_next(out, &page->job);
	PUT(out, "}\n");
}

static void reply_failed(const struct wr_queue_page *page)
{
	struct wr_problem problem;

	if (page->job.reason == WR_QUEUE_UNKNOWN)
		wr_problem(&problem, WR_NOT_FOUND, "there is no such request");
	else
		wr_problem(&problem, WR_UNAVAILABLE, "%s", wr_queue_reason_text(page->job.reason));
	wr_http_reply_problem(page->request, &problem);
}

static void reply(struct wr_queue_page *page)
{
	static const wr_admin_writer writers[] = {[WR_QUEUE_LIST] = write_list,
						  [WR_QUEUE_SHOW] = write_one,
						  [WR_QUEUE_RETRY] = write_changed,
						  [WR_QUEUE_DROP] = write_changed};
	enum wr_queue_verb verb = page->job.verb;

	if (verb == WR_QUEUE_SHOW && page->job.reason == WR_QUEUE_OK && !page->first)
		page->job.reason = WR_QUEUE_UNKNOWN;
	if (page->job.reason != WR_QUEUE_OK)
		reply_failed(page);
	else
		wr_admin_reply(page->request, 200, "application/json", writers[verb], page);
}

static void end(struct wr_queue_page *page)
{
	if (page->request)
		reply(page);
	wr_deferred_free(page->first);
	free(page);
}

static void on_changed(struct wr_queue_job *job)
{
	struct wr_queue_page *page = job->context;

	if (job->reason == WR_QUEUE_OK)
		wr_deliver_due(page->host, 0);
	end(page);
}

/* Keeps what was found, up to what is wanted; the next page begins behind it. */
static void keep(struct wr_queue_page *page)
{
	struct wr_deferred *each = page->job.page.first;
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
	wr_deferred_free(each);
}

/* One job looks at so many and no more, so that others get their turn; where few of them fit, there
 * is another one. */
static void on_listed(struct wr_queue_job *job)
{
	struct wr_queue_page *page = job->context;

	if (job->reason == WR_QUEUE_OK)
		keep(page);
	if (job->reason != WR_QUEUE_OK || !page->request || page->found == page->wanted ||
	    job->page.last == 0 || ++page->rounds == ROUNDS_MAX) {
		end(page);
		return;
	}
	job->page.after = job->page.last;
	job->page.last = 0;
	wr_queue_submit(queue_of(page->request)->port, job);
}

static void on_shown(struct wr_queue_job *job)
{
	struct wr_queue_page *page = job->context;

	if (job->reason == WR_QUEUE_OK)
		page->first = job->page.first;
	end(page);
}

static void on_gone(struct wr_http_request *request)
{
	struct wr_queue_page *page = request->context;

	page->request = NULL;
}

/* ---- beginning ---- */

static struct wr_queue_page *begin(struct wr_http_request *request, enum wr_queue_verb verb)
{
	const char *keys = wr_loop_settings(request->server->loop)->keys;
	struct wr_queue_page *page = queue_of(request) ? calloc(1, sizeof *page) : NULL;
	struct wr_problem problem;

	if (!page) {
		wr_problem(&problem, queue_of(request) ? WR_UNAVAILABLE : WR_NOT_FOUND,
			   queue_of(request) ? "out of memory"
					     : "there is no queue: start weir with --queue");
		wr_http_reply_problem(request, &problem);
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
					  .page = {.max = PAGE_USUAL}};
	return page;
}

static void refuse(struct wr_queue_page *page, const struct wr_problem *problem)
{
	wr_http_reply_problem(page->request, problem);
	free(page);
}

static void submit(struct wr_queue_page *page)
{
	struct wr_http_request *request = page->request;

	request->context = page;
	wr_http_hold(request, on_gone);
	wr_queue_submit(queue_of(request)->port, &page->job);
}

void wr_admin_queue_requests(struct wr_http_request *request)
{
	struct wr_queue_page *page = begin(request, WR_QUEUE_LIST);
	struct wr_problem problem;

	if (!page)
		return;
	if (wr_queue_page_query(page, &problem) != 0) {
		refuse(page, &problem);
		return;
	}
	page->wanted = page->job.page.max;
	if (wr_queue_is_picky(&page->job.page.filter))
		page->job.page.max = WR_QUEUE_PAGE_MAX;
	submit(page);
}

void wr_admin_queue_request(struct wr_http_request *request)
{
	struct wr_queue_page *page = begin(request, WR_QUEUE_SHOW);
	struct wr_problem problem;

	if (!page)
		return;
	if (wr_queue_page_query(page, &problem) != 0)
		refuse(page, &problem);
	else if (page->job.page.filter.id)
		submit(page);
	else {
		wr_problem(&problem, WR_MISSING_MEMBER, "which one: ?id=");
		refuse(page, &problem);
	}
}

/* Which ones are meant, for people: a number, "all", or what they have in common. */
static void put_which(struct wr_text *out, const struct wr_queue_filter *filter)
{
	char digits[3];

	if (filter->id) {
		wr_text_number(out, filter->id);
		return;
	}
	PUT(out, "all");
	if (filter->states) {
		PUT(out, " that are ");
		wr_text_put(out, wr_str(wr_deferred_state_name(
					 (enum wr_deferred_state)__builtin_ctz(filter->states))));
	}
	if (filter->rule.len) {
		PUT(out, " of rule \"");
		wr_text_quoted(out, filter->rule);
		wr_text_char(out, '"');
	}
	if (filter->key)
		PUT(out, " of key ");
	for (size_t i = 0; filter->key && i < WR_LINE_KEY_BYTES; i++) {
		snprintf(digits, sizeof digits, "%02x", filter->key[i]);
		wr_text_put(out, wr_str(digits));
	}
}

static void note_order(struct wr_http_request *request, const struct wr_queue_page *page)
{
	char text[WR_DEFER_NAME_MAX * 2 + 128];
	struct wr_text which = {text, sizeof text - 1, 0};

	put_which(&which, &page->job.page.filter);
	wr_admin_log(request, 0, "queue %s %.*s",
		     page->job.verb == WR_QUEUE_DROP ? "drop" : "retry", (int)which.len, text);
}

/* An order is noted when it is given; how many it met is in the answer. */
static void change(struct wr_http_request *request, enum wr_queue_verb verb)
{
	struct wr_queue_page *page = begin(request, verb);
	struct wr_problem problem;
	json_t *document;
	int rc;

	if (!page)
		return;
	document = wr_json_read(wr_http_body(request), &problem);
	rc = document ? wr_queue_page_order(page, document, &problem) : -1;
	json_decref(document);
	if (rc != 0) {
		refuse(page, &problem);
		return;
	}
	if (page->job.page.after == 0)
		note_order(request, page);
	submit(page);
}

void wr_admin_queue_retry(struct wr_http_request *request)
{
	change(request, WR_QUEUE_RETRY);
}

void wr_admin_queue_drop(struct wr_http_request *request)
{
	change(request, WR_QUEUE_DROP);
}
