/* Counters of a descriptor: look, reset, grant, ban. Every answer shows them as they are then. */
#include <inttypes.h>
#include <stdio.h>

#include <weir/control.h>

#include "base/duration.h"
#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"
#include "wire/check/json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define KEY_MEMBERS "domain, entries, limit"
#define GRANT_MEMBERS "domain, entries, limit, extra, for, until"
#define BAN_MEMBERS "domain, entries, limit, for, until, lift"
#define SECOND_NS 1000000000ull

/* What a body asks for. */
struct order {
	json_t *document;
	struct weir_target target;
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	int64_t extra;
	uint64_t until_ns; /* 0: not said */
	bool lift, has_extra;
	uint64_t now_ns;
	struct wr_loop *loop;
};

/* ---- reading ---- */

/* "1h30m", or "ever". */
static int read_for(const json_t *value, const struct wr_json_at *at, struct order *order,
		    struct wr_problem *problem)
{
	struct weir_str text;
	uint64_t ns;

	if (wr_json_get_text(value, at, &text, problem) != 0)
		return -1;
	if (wr_str_equal(text, WR_STR("ever"))) {
		order->until_ns = WEIR_NEVER;
		return 0;
	}
	if (wr_duration_parse(text, &ns) != 0 || ns == 0 || ns > WEIR_SPAN_MAX_NS)
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "a time is written 90s, 15m, 1h30m, 7d, or \"ever\"");
	order->until_ns = order->now_ns + ns;
	return 0;
}

static int read_until(const json_t *value, const struct wr_json_at *at, struct order *order,
		      struct wr_problem *problem)
{
	int64_t seconds;

	if (wr_json_get_int(value, at, 0, INT64_MAX / (int64_t)SECOND_NS, &seconds, problem) != 0)
		return -1;
	order->until_ns = (uint64_t)seconds * SECOND_NS;
	if (order->until_ns <= order->now_ns)
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "that is over; \"until\" is in seconds since 1970");
	return 0;
}

static int read_entries(const json_t *value, const struct wr_json_at *at, struct order *order,
			struct wr_problem *problem)
{
	int count = wr_check_sourced_entries(value, at, order->entries, problem);

	order->target.entries = order->entries;
	order->target.count = count > 0 ? (size_t)count : 0;
	return count > 0 ? 0 : -1;
}

static bool may_have(const char *members, const char *name)
{
	const char *found = strstr(members, name);

	return found && (found == members || found[-1] == ' ') &&
	       (found[strlen(name)] == ',' || found[strlen(name)] == '\0');
}

static int read_member(const char *name, const json_t *value, const char *members,
		       struct order *order, struct wr_problem *problem)
{
	struct wr_json_at at = {NULL, name, 0};

	if (!may_have(members, name))
		return wr_json_unknown(&at, members, problem);
	if (strcmp(name, "domain") == 0)
		return wr_json_get_text(value, &at, &order->target.domain, problem);
	if (strcmp(name, "entries") == 0)
		return read_entries(value, &at, order, problem);
	if (strcmp(name, "limit") == 0)
		return wr_json_get_text(value, &at, &order->target.limit, problem);
	if (strcmp(name, "for") == 0)
		return read_for(value, &at, order, problem);
	if (strcmp(name, "until") == 0)
		return read_until(value, &at, order, problem);
	if (strcmp(name, "lift") == 0)
		return wr_json_get_bool(value, &at, &order->lift, problem);
	order->has_extra = true;
	return wr_json_get_int(value, &at, 0, UINT32_MAX, &order->extra, problem);
}

static int read_order(struct order *order, const char *members, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	if (wr_json_need_object(order->document, NULL, problem) != 0)
		return -1;
	json_object_foreach(order->document, name,
			    value) if (read_member(name, value, members, order, problem) !=
				       0) return -1;
	if (order->target.domain.len == 0 || order->target.count == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"domain\" and \"entries\" are needed");
	return 0;
}

/* ---- orders ---- */

static int give(struct order *order, enum wr_order_verb verb, struct weir_error *error)
{
	struct wr_order given = {.verb = verb,
				 .target = &order->target,
				 .extra = (uint32_t)order->extra,
				 .until_ns = order->lift ? 0 : order->until_ns};

	return wr_order_run(order->loop, &given, order->now_ns, error);
}

static int do_reset(struct order *order, struct weir_error *error)
{
	return give(order, WR_ORDER_RESET, error);
}

static int do_grant(struct order *order, struct weir_error *error)
{
	return give(order, WR_ORDER_GRANT, error);
}

static int do_ban(struct order *order, struct weir_error *error)
{
	return give(order, WR_ORDER_BAN, error);
}

static int check_get(const struct order *order, struct wr_problem *problem)
{
	(void)order;
	(void)problem;
	return 0;
}

static int check_grant(const struct order *order, struct wr_problem *problem)
{
	if (!order->has_extra)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"extra\" is needed: how many more; 0 ends a grant");
	if (order->extra && !order->until_ns)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"for\" or \"until\" is needed: how long the grant holds");
	return 0;
}

static int check_ban(const struct order *order, struct wr_problem *problem)
{
	if (order->lift == (order->until_ns != 0))
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "one of \"for\", \"until\" and \"lift\": true is needed");
	return 0;
}

struct verb {
	const char *name;
	const char *members;
	int (*check)(const struct order *order, struct wr_problem *problem);
	int (*act)(struct order *order, struct weir_error *error); /* NULL: nothing changes */
};

static const struct verb get = {"get", KEY_MEMBERS, check_get, NULL};
static const struct verb reset = {"reset", KEY_MEMBERS, check_get, do_reset};
static const struct verb grant = {"grant", GRANT_MEMBERS, check_grant, do_grant};
static const struct verb ban = {"ban", BAN_MEMBERS, check_ban, do_ban};

static void describe_end(const struct order *order, char *text, size_t cap)
{
	if (order->lift)
		snprintf(text, cap, ", lifted");
	else if (order->until_ns == WEIR_NEVER)
		snprintf(text, cap, " for ever");
	else if (order->until_ns)
		snprintf(text, cap, " for %llu s",
			 (order->until_ns - order->now_ns + SECOND_NS - 1) / SECOND_NS);
	else
		text[0] = '\0';
}

static void log_change(const struct wr_http_request *request, const struct verb *verb,
		       const struct order *order, int counters)
{
	char who[256], end[48], extra[24] = "";

	wr_order_whom(&order->target, who, sizeof who);
	if (order->has_extra)
		snprintf(extra, sizeof extra, " %" PRId64, order->extra);
	describe_end(order, end, sizeof end);
	wr_admin_log(request,
		     wr_admin_key_number(order->entries, order->target.count, order->target.domain),
		     "%s%s %s%s: %d counter%s", verb->name, extra, who, end, counters,
		     counters == 1 ? "" : "s");
}

static void carry_out(struct wr_http_request *request, const struct verb *verb, struct order *order)
{
	struct weir_error error = {.text = ""};
	int rc = verb->act ? verb->act(order, &error) : 0;

	if (rc < 0) {
		wr_admin_reply_error(request, rc,
				     rc == WEIR_ENOENT ? WR_ADMIN_NO_LIMIT : error.text);
		return;
	}
	if (verb->act)
		log_change(request, verb, order, rc);
	wr_admin_reply_counters(request, order->document, &order->target);
}

struct history {
	struct wr_changes *changes;
	uint64_t key;
};

static void write_changes(struct wr_text *out, void *context)
{
	const struct history *history = context;

	wr_changes_write(history->changes, history->key, out);
}

static void show_changes(struct wr_http_request *request, const struct order *order)
{
	struct history history = {
		wr_loop_service(request->server->loop)->changes,
		wr_admin_key_number(order->entries, order->target.count, order->target.domain)};

	wr_admin_reply(request, 200, "application/json", write_changes, &history);
}

/* Without a verb: what was done. */
static void run(struct wr_http_request *request, const struct verb *verb)
{
	struct order order = {.target = {.size = sizeof order.target},
			      .now_ns = wr_loop_now_ns(request->server->loop),
			      .loop = request->server->loop};
	struct wr_problem problem;

	order.document = wr_json_read(wr_http_body(request), &problem);
	if (!order.document ||
	    read_order(&order, verb ? verb->members : KEY_MEMBERS, &problem) != 0 ||
	    (verb && verb->check(&order, &problem) != 0))
		wr_http_reply_problem(request, &problem);
	else if (!verb)
		show_changes(request, &order);
	else
		carry_out(request, verb, &order);
	json_decref(order.document);
}

void wr_admin_key_get(struct wr_http_request *request)
{
	run(request, &get);
}

void wr_admin_key_reset(struct wr_http_request *request)
{
	run(request, &reset);
}

void wr_admin_key_grant(struct wr_http_request *request)
{
	run(request, &grant);
}

void wr_admin_key_ban(struct wr_http_request *request)
{
	run(request, &ban);
}

void wr_admin_key_changes(struct wr_http_request *request)
{
	run(request, NULL);
}

/* ---- all of them ---- */

struct override_list {
	struct wr_text *out;
	bool more;
};

static int on_override(void *context, const struct weir_override *override)
{
	struct override_list *list = context;

	if (list->more)
		wr_text_char(list->out, ',');
	list->more = true;
	PUT(list->out, "{\"key\":");
	if (override->key.len) /* it may have been cut within a character */
		wr_json_put_bytes(list->out, override->key);
	else
		PUT(list->out, "null");
	PUT(list->out, ",\"rule\":");
	wr_json_put_text_or_null(list->out, override->rule);
	PUT(list->out, ",\"banned_until\":");
	wr_admin_put_time(list->out, override->banned_until_ns);
	PUT(list->out, ",\"granted\":");
	wr_text_number(list->out, override->granted);
	PUT(list->out, ",\"granted_until\":");
	wr_admin_put_time(list->out, override->granted_until_ns);
	PUT(list->out, ",\"changed_at\":");
	wr_admin_put_time(list->out, override->changed_ns);
	PUT(list->out, "}");
	return 0;
}

static int write_overrides(struct wr_text *out, const struct wr_admin_work *work)
{
	struct override_list list = {out, false};

	PUT(out, "{\"overrides\":[");
	weir_control_overrides(work->core->engine, work->now_ns, on_override, &list);
	PUT(out, "]}\n");
	return 0;
}

void wr_admin_overrides(struct wr_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_overrides, 0);
}
