/* The routes /v1/overview, /v1/rule and /v1/fleet for the dashboard. Each route responds with one
 * body or, if the Accept field asks for events, with a stream of events. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/admin/admin.h"
#include "serve/admin/watch_json.h"
#include "serve/service.h"

#define ROWS_DEFAULT 50

/* ---- the query ---- */

static int bad_argument(struct wr_problem *problem, const char *name, const char *should)
{
	return wr_problem(problem, WR_BAD_VALUE, "?%s= has to be %s", name, should);
}

/* Reads a number of the query. If the query does not have this argument, *number stays as it is. */
static int read_number(const struct wr_serve_http_request *request, const char *name, uint32_t most,
		       uint32_t *number, struct wr_problem *problem)
{
	const char *text = wr_serve_http_argument(request, name);
	char should[48];
	char *end;
	unsigned long value;

	if (!text)
		return 0;
	value = strtoul(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end && value <= most) {
		*number = (uint32_t)value;
		return 0;
	}
	snprintf(should, sizeof should, "a number up to %u", most);
	return bad_argument(problem, name, should);
}

static int read_order(const struct wr_serve_http_request *request, struct wr_admin_query *query,
		      struct wr_problem *problem)
{
	static const char *const names[] = {
#define ORDER_NAME(name, text) [name] = (text),
		WR_ADMIN_ORDERS(ORDER_NAME)
#undef ORDER_NAME
	};
	const char *text = wr_serve_http_argument(request, "by");

	if (!text)
		return 0;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], text) == 0) {
			query->order = (enum wr_admin_order)i;
			return 0;
		}
	return bad_argument(problem, "by", "busy, refused or name");
}

static int read_span(const struct wr_serve_http_request *request, struct wr_admin_query *query,
		     struct wr_problem *problem)
{
	const char *text = wr_serve_http_argument(request, "span");

	if (!text || strcmp(text, "seconds") == 0)
		query->span = WEIR_SECONDS;
	else if (strcmp(text, "minutes") == 0)
		query->span = WEIR_MINUTES;
	else
		return bad_argument(problem, "span", "seconds or minutes");
	return 0;
}

static int read_query(const struct wr_serve_http_request *request, struct wr_admin_query *query,
		      struct wr_problem *problem)
{
	const char *filter = wr_serve_http_argument(request, "filter");

	query->count = ROWS_DEFAULT;
	if (filter && strlen(filter) >= sizeof query->filter)
		return bad_argument(problem, "filter", "a part of a name, at most 63 bytes");
	snprintf(query->filter, sizeof query->filter, "%s", filter ? filter : "");
	if (read_number(request, "slot", UINT32_MAX, &query->slot, problem) != 0 ||
	    read_number(request, "first", UINT32_MAX, &query->first, problem) != 0 ||
	    read_number(request, "count", WR_ADMIN_ROWS_MAX, &query->count, problem) != 0 ||
	    read_order(request, query, problem) != 0 || read_span(request, query, problem) != 0)
		return -1;
	return 0;
}

/* ---- writing ---- */

static struct wr_admin_view begin_body(struct wr_json_out *json, const struct wr_admin_work *work)
{
	wr_json_object(json);
	wr_json_member_seconds(json, "now", work->now_ns);
	return (struct wr_admin_view){work->core->table, work->core->engine, work->now_ns};
}

static int write_overview(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct wr_admin_view view = begin_body(json, work);
	int rc;

	wr_json_key(json, "health");
	wr_json_object(json);
	rc = wr_admin_json_health(json, work);
	wr_admin_json_gauges(json, &view);
	wr_json_end_object(json);
	if (rc == 0)
		rc = wr_admin_json_overview(json, &view, work->context);
	wr_json_end_object(json);
	return rc;
}

static int write_rule(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct wr_admin_view view = begin_body(json, work);
	int rc = wr_admin_json_rule(json, &view, work->context);

	wr_json_end_object(json);
	return rc;
}

static int write_fleet(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct wr_admin_view view = begin_body(json, work);
	int rc;

	wr_json_key(json, "health");
	wr_json_object(json);
	rc = wr_admin_json_health(json, work);
	wr_json_end_object(json);
	if (rc == 0)
		rc = wr_admin_json_fleet(json, &view);
	wr_json_end_object(json);
	return rc;
}

/* ---- routes ---- */

static void reply_body(struct wr_serve_http_request *request, wr_admin_work_fn write)
{
	struct wr_admin_query *query = calloc(1, sizeof *query);
	struct wr_problem problem;

	if (!query) {
		wr_serve_http_reply(request, 500, NULL);
	} else if (read_query(request, query, &problem) != 0) {
		free(query);
		wr_serve_http_reply_problem(request, &problem);
	} else if (wr_admin_wants_events(request)) {
		wr_admin_live(request, write, query);
	} else {
		wr_admin_reply_later(request, "application/json", write, 0, query);
	}
}

void wr_admin_overview(struct wr_serve_http_request *request)
{
	reply_body(request, write_overview);
}

void wr_admin_rule(struct wr_serve_http_request *request)
{
	reply_body(request, write_rule);
}

void wr_admin_fleet(struct wr_serve_http_request *request)
{
	reply_body(request, write_fleet);
}
