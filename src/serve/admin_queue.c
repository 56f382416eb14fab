/* /v1/queue and below: deferred requests, for operators. Lists and changes are the queue thread's
 * work; a request here is held until that is done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/admin.h"
#include "serve/drain.h"
#include "serve/queue_json.h"
#include "serve/service.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define PAGE_USUAL 100u

/* A request of HTTP, and the job that answers it. */
struct page_job {
	struct wr_queue_job job;
	struct wr_http_request *request; /* NULL: nobody waits for it any more */
	struct wr_queue_host *host;
	bool hidden;
	char rule[WR_DEFER_NAME_MAX + 1];
	uint8_t key[WR_LINE_KEY_BYTES];
};

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

/* ---- what is asked for ---- */

static bool read_key(struct weir_str text, uint8_t key[WR_LINE_KEY_BYTES])
{
	if (text.len != 2 * WR_LINE_KEY_BYTES)
		return false;
	for (size_t i = 0; i < WR_LINE_KEY_BYTES; i++) {
		int high = wr_hex(text.ptr[2 * i]), low = wr_hex(text.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* "waiting" is also what is being delivered right now. */
static bool read_state(struct weir_str text, uint8_t *states)
{
	for (int i = 0; i < WR_DEFERRED_STATE_COUNT; i++)
		if (wr_str_equal(text, wr_str(wr_deferred_state_name((enum wr_deferred_state)i)))) {
			*states = (uint8_t)(1u << i);
			if (i == WR_DEFERRED_WAITING)
				*states |= 1u << WR_DEFERRED_DELIVERING;
			return true;
		}
	return false;
}

static bool read_number(struct weir_str text, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.ptr[i] - (unsigned)'0';

		if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return text.len > 0;
}

/* One word of what is looked for; a number may have come as one. */
static int read_word(struct page_job *page, const char *name, struct weir_str text,
		     struct wr_problem *problem)
{
	struct wr_queue_filter *filter = &page->job.page.filter;
	uint64_t number = 0;

	if (strcmp(name, "rule") == 0 && text.len <= WR_DEFER_NAME_MAX) {
		snprintf(page->rule, sizeof page->rule, "%.*s", (int)text.len, text.ptr);
		filter->rule = (struct weir_str){page->rule, text.len};
		return 0;
	}
	if (strcmp(name, "state") == 0)
		return read_state(text, &filter->states)
			       ? 0
			       : wr_problem(problem, WR_BAD_VALUE,
					    "state is waiting, delivering, delivered, dead or "
					    "dropped");
	if (strcmp(name, "key") == 0) {
		filter->key = page->key;
		return read_key(text, page->key)
			       ? 0
			       : wr_problem(problem, WR_BAD_VALUE,
					    "key is the 32 hexadecimal digits that a list shows");
	}
	if (!read_number(text, &number))
		return wr_problem(problem, WR_BAD_VALUE, "%s is not a number", name);
	if (strcmp(name, "id") == 0)
		filter->id = number;
	else if (strcmp(name, "after") == 0)
		page->job.page.after = number;
	else if (number < 1 || number > WR_QUEUE_PAGE_MAX)
		return wr_problem(problem, WR_BAD_VALUE, "count is from 1 to %u",
				  WR_QUEUE_PAGE_MAX);
	else
		page->job.page.max = (uint32_t)number;
	return 0;
}

static int read_query(struct page_job *page, struct wr_problem *problem)
{
	static const char *const names[] = {"rule", "state", "key", "id", "after", "count"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *text = wr_http_argument(page->request, names[i]);

		if (text && read_word(page, names[i], wr_str(text), problem) != 0)
			return -1;
	}
	return 0;
}

static int read_member(struct page_job *page, const char *name, const json_t *value,
		       struct wr_problem *problem)
{
	static const char members[] = "id, rule, state, key, all, after, count";
	struct wr_json_at at = {NULL, name, 0};
	struct weir_str text;
	char digits[24];
	int64_t number;

	if (strcmp(name, "rule") == 0 || strcmp(name, "state") == 0 || strcmp(name, "key") == 0) {
		if (wr_json_get_text(value, &at, &text, problem) != 0)
			return -1;
		return read_word(page, name, text, problem);
	}
	if (strcmp(name, "id") != 0 && strcmp(name, "after") != 0 && strcmp(name, "count") != 0)
		return wr_json_unknown(&at, members, problem);
	if (wr_json_get_int(value, &at, 0, INT64_MAX, &number, problem) != 0)
		return -1;
	snprintf(digits, sizeof digits, "%lld", (long long)number);
	return read_word(page, name, wr_str(digits), problem);
}

/* Which ones are to be changed. Nothing said is not all of them: that has a word of its own. */
static int read_order(struct page_job *page, const json_t *document, struct wr_problem *problem)
{
	const struct wr_queue_filter *filter = &page->job.page.filter;
	bool all = false;
	const char *name;
	json_t *value;

	if (wr_json_need_object(document, NULL, problem) != 0)
		return -1;
	json_object_foreach((json_t *)document, name, value)
	{
		struct wr_json_at at = {NULL, name, 0};

		if (strcmp(name, "all") == 0 ? wr_json_get_bool(value, &at, &all, problem) != 0
					     : read_member(page, name, value, problem) != 0)
			return -1;
	}
	if (all || filter->id || filter->key || filter->states || filter->rule.len)
		return 0;
	return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
			     "which ones: \"id\", \"rule\", \"state\", \"key\", or \"all\": true");
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
	const struct page_job *page = context;

	PUT(out, "{\"requests\":[");
	for (const struct wr_deferred *each = page->job.page.first; each; each = each->next) {
		if (each != page->job.page.first)
			wr_text_char(out, ',');
		wr_queue_json_request(each, false, page->hidden, out);
	}
	PUT(out, "]");
	put_next(out, &page->job);
	PUT(out, "}\n");
}

static void write_one(struct wr_text *out, void *context)
{
	const struct page_job *page = context;

	wr_queue_json_request(page->job.page.first, true, page->hidden, out);
	PUT(out, "\n");
}

static void write_changed(struct wr_text *out, void *context)
{
	const struct page_job *page = context;

	PUT(out, "{\"changed\":");
	wr_text_number(out, page->job.page.count);
	put_next(out, &page->job);
	PUT(out, "}\n");
}

static void reply_failed(const struct page_job *page)
{
	struct wr_problem problem;

	if (page->job.reason == WR_QUEUE_UNKNOWN)
		wr_problem(&problem, WR_NOT_FOUND, "there is no such request");
	else
		wr_problem(&problem, WR_UNAVAILABLE, "%s", wr_queue_reason_text(page->job.reason));
	wr_http_reply_problem(page->request, &problem);
}

static void reply(struct page_job *page)
{
	static const wr_admin_writer writers[] = {[WR_QUEUE_LIST] = write_list,
						  [WR_QUEUE_SHOW] = write_one,
						  [WR_QUEUE_RETRY] = write_changed,
						  [WR_QUEUE_DROP] = write_changed};
	enum wr_queue_verb verb = page->job.verb;

	if (verb == WR_QUEUE_SHOW && page->job.reason == WR_QUEUE_OK && !page->job.page.first)
		page->job.reason = WR_QUEUE_UNKNOWN;
	if (page->job.reason != WR_QUEUE_OK)
		reply_failed(page);
	else
		wr_admin_reply(page->request, 200, "application/json", writers[verb], page);
}

static void on_done(struct wr_queue_job *job)
{
	struct page_job *page = job->context;
	bool listed = job->verb == WR_QUEUE_LIST || job->verb == WR_QUEUE_SHOW;

	if (page->request)
		reply(page);
	if (!listed && job->reason == WR_QUEUE_OK)
		wr_drain_due(page->host, 0);
	if (listed && job->reason == WR_QUEUE_OK)
		wr_deferred_free(job->page.first);
	free(page);
}

static void on_gone(struct wr_http_request *request)
{
	struct page_job *page = request->context;

	page->request = NULL;
}

/* ---- beginning ---- */

static struct page_job *begin(struct wr_http_request *request, enum wr_queue_verb verb)
{
	const char *keys = wr_loop_settings(request->server->loop)->keys;
	struct page_job *page = queue_of(request) ? calloc(1, sizeof *page) : NULL;
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
	page->job = (struct wr_queue_job){
		.verb = verb, .done = on_done, .context = page, .page = {.max = PAGE_USUAL}};
	return page;
}

static void refuse(struct page_job *page, const struct wr_problem *problem)
{
	wr_http_reply_problem(page->request, problem);
	free(page);
}

static void submit(struct page_job *page)
{
	struct wr_http_request *request = page->request;

	request->context = page;
	wr_http_hold(request, on_gone);
	wr_queue_submit(queue_of(request)->port, &page->job);
}

void wr_admin_queue_requests(struct wr_http_request *request)
{
	struct page_job *page = begin(request, WR_QUEUE_LIST);
	struct wr_problem problem;

	if (!page)
		return;
	if (read_query(page, &problem) != 0)
		refuse(page, &problem);
	else
		submit(page);
}

void wr_admin_queue_request(struct wr_http_request *request)
{
	struct page_job *page = begin(request, WR_QUEUE_SHOW);
	struct wr_problem problem;

	if (!page)
		return;
	if (read_query(page, &problem) != 0)
		refuse(page, &problem);
	else if (page->job.page.filter.id)
		submit(page);
	else {
		wr_problem(&problem, WR_MISSING_MEMBER, "which one: ?id=");
		refuse(page, &problem);
	}
}

/* An order is noted when it is given; how many it met is in the answer. */
static void change(struct wr_http_request *request, enum wr_queue_verb verb)
{
	struct page_job *page = begin(request, verb);
	struct wr_problem problem;
	json_t *document;
	int rc;

	if (!page)
		return;
	document = wr_json_read(wr_http_body(request), &problem);
	rc = document ? read_order(page, document, &problem) : -1;
	json_decref(document);
	if (rc != 0) {
		refuse(page, &problem);
		return;
	}
	if (page->job.page.after == 0)
		wr_admin_log(request, 0, "queue %s %s%s%llu",
			     verb == WR_QUEUE_DROP ? "drop" : "retry",
			     page->rule[0] ? page->rule : "", page->rule[0] ? " " : "",
			     (unsigned long long)page->job.page.filter.id);
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
