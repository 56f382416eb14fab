/* What the dashboard looks at: all rules, one of them, the fleet. Once, or as events. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/admin/admin.h"
#include "serve/service.h"
#include "serve/admin/watch_json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define ROWS_USUAL 50

/* ---- reading what is asked for ---- */

static int bad_argument(struct wr_problem *problem, const char *name, const char *should)
{
	return wr_problem(problem, WR_BAD_VALUE, "?%s= is %s", name, should);
}

/* A number of the query, or `otherwise` where it is not said. */
static int read_number(const struct wr_http_request *request, const char *name, uint32_t most,
		       uint32_t *number, struct wr_problem *problem)
{
	const char *text = wr_http_argument(request, name);
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

static int read_order(const struct wr_http_request *request, struct wr_watch_query *query,
		      struct wr_problem *problem)
{
	static const char *const names[] = {
#define ORDER_NAME(name, text) [name] = (text),
		WR_WATCH_ORDERS(ORDER_NAME)
#undef ORDER_NAME
	};
	const char *text = wr_http_argument(request, "by");

	if (!text)
		return 0;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], text) == 0) {
			query->order = (enum wr_watch_order)i;
			return 0;
		}
	return bad_argument(problem, "by", "busy, refused or name");
}

static int read_span(const struct wr_http_request *request, struct wr_watch_query *query,
		     struct wr_problem *problem)
{
	const char *text = wr_http_argument(request, "span");

	if (!text || strcmp(text, "seconds") == 0)
		query->span = WEIR_SECONDS;
	else if (strcmp(text, "minutes") == 0)
		query->span = WEIR_MINUTES;
	else
		return bad_argument(problem, "span", "seconds or minutes");
	return 0;
}

static int read_query(const struct wr_http_request *request, struct wr_watch_query *query,
		      struct wr_problem *problem)
{
	const char *filter = wr_http_argument(request, "filter");

	query->count = ROWS_USUAL;
	if (filter && strlen(filter) >= sizeof query->filter)
		return bad_argument(problem, "filter", "a part of a name, up to 63 bytes");
	snprintf(query->filter, sizeof query->filter, "%s", filter ? filter : "");
	return read_number(request, "slot", UINT32_MAX, &query->slot, problem) != 0 ||
			       read_number(request, "first", UINT32_MAX, &query->first, problem) !=
				       0 ||
			       read_number(request, "count", WR_WATCH_ROWS_MAX, &query->count,
					   problem) != 0 ||
			       read_order(request, query, problem) != 0 ||
			       read_span(request, query, problem) != 0
		       ? -1
		       : 0;
}

/* ---- writing ---- */

static struct wr_watch_view view_of(const struct wr_admin_work *work)
{
	return (struct wr_watch_view){work->core->table, work->core->engine, work->now_ns};
}

static void put_now(struct wr_text *out, const struct wr_admin_work *work)
{
	PUT(out, "{\"now\":");
	wr_json_put_seconds(out, work->now_ns);
	wr_text_char(out, ',');
}

static int write_overview(struct wr_text *out, const struct wr_admin_work *work)
{
	struct wr_watch_view view = view_of(work);
	int rc;

	put_now(out, work);
	PUT(out, "\"health\":{");
	rc = wr_admin_put_health(out, work);
	PUT(out, ",\"gauges\":");
	wr_gauges_json(&view, out);
	PUT(out, "},");
	if (rc == 0)
		rc = wr_overview_json(&view, work->context, out);
	PUT(out, "}");
	return rc;
}

static int write_rule(struct wr_text *out, const struct wr_admin_work *work)
{
	struct wr_watch_view view = view_of(work);
	int rc;

	put_now(out, work);
	rc = wr_rule_json(&view, work->context, out);
	PUT(out, "}");
	return rc;
}

static int write_fleet(struct wr_text *out, const struct wr_admin_work *work)
{
	struct wr_watch_view view = view_of(work);
	int rc;

	put_now(out, work);
	PUT(out, "\"health\":{");
	rc = wr_admin_put_health(out, work);
	PUT(out, "},");
	if (rc == 0)
		rc = wr_fleet_json(&view, out);
	PUT(out, "}");
	return rc;
}

/* ---- routes ---- */

static void show(struct wr_http_request *request, wr_admin_work_fn write)
{
	struct wr_watch_query *query = calloc(1, sizeof *query);
	struct wr_problem problem;

	if (!query) {
		wr_http_reply(request, 500, NULL);
	} else if (read_query(request, query, &problem) != 0) {
		free(query);
		wr_http_reply_problem(request, &problem);
	} else if (wr_admin_wants_events(request)) {
		wr_admin_live(request, write, query);
	} else {
		wr_admin_reply_with(request, "application/json", write, query);
	}
}

void wr_admin_overview(struct wr_http_request *request)
{
	show(request, write_overview);
}

void wr_admin_rule(struct wr_http_request *request)
{
	show(request, write_rule);
}

void wr_admin_fleet(struct wr_http_request *request)
{
	show(request, write_fleet);
}
