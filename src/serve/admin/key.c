/* The routes /v1/key/… are for the key that a descriptor selects: they read or reset its counters,
 * grant more units, ban the key, or list the changes to it. After a change, the response has the
 * new counters. GET /v1/overrides, the list of bans and grants in force, is here too. */
#include <inttypes.h>
#include <stdio.h>

#include <weir/control.h>

#include "base/clock.h"
#include "base/duration.h"
#include "limiter/ban.h"
#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"
#include "serve/open.h"
#include "serve/service.h"
#include "wire/check/json.h"

#define KEY_MEMBERS "domain, entries, limit"
#define GRANT_MEMBERS "domain, entries, limit, extra, for, until"
#define BAN_MEMBERS "domain, entries, limit, for, until, lift"
#define ADD_MEMBERS "domain, entries, limit, for, until, shield"

/* The content of a request body. */
struct key_order {
	json_t *document; /* the parsed body; the strings of `target` point into it */
	struct weir_target target;
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	int64_t extra;
	uint64_t until_ns; /* 0: the body has no end time */
	bool lift, shield, has_extra;
	uint64_t now_ns;
	struct wr_loop *loop;
};

/* ---- reading ---- */

static int read_for(const json_t *value, const struct wr_wire_json_at *at, struct key_order *order,
		    struct wr_problem *problem)
{
	struct weir_str text;
	uint64_t ns;

	if (wr_wire_json_get_text(value, at, &text, problem) != 0)
		return -1;
	if (wr_str_equal(text, WR_STR("ever"))) {
		order->until_ns = WEIR_NEVER;
		return 0;
	}
	if (wr_duration_parse(text, &ns) != 0 || ns == 0 || ns > WEIR_SPAN_MAX_NS)
		return wr_problem_at(
			problem, WR_BAD_VALUE, at,
			"a duration is required, such as 90s, 15m, 1h30m, 7d, or \"ever\"");
	order->until_ns = order->now_ns + ns;
	return 0;
}

static int read_until(const json_t *value, const struct wr_wire_json_at *at,
		      struct key_order *order, struct wr_problem *problem)
{
	int64_t seconds;

	if (wr_wire_json_get_int(value, at, 0, INT64_MAX / (int64_t)WR_SECOND_NS, &seconds,
				 problem) != 0)
		return -1;
	order->until_ns = (uint64_t)seconds * WR_SECOND_NS;
	if (order->until_ns <= order->now_ns)
		return wr_problem_at(problem, WR_BAD_VALUE, at,
				     "the time is in the past; \"until\" is in seconds since 1970");
	return 0;
}

/* Returns whether `members`, a list of names separated by ", ", has this name. */
static bool may_have(const char *members, const char *name)
{
	const char *found = strstr(members, name);

	return found && (found == members || found[-1] == ' ') &&
	       (found[strlen(name)] == ',' || found[strlen(name)] == '\0');
}

static int read_member(const char *name, const json_t *value, const char *members,
		       struct key_order *order, struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, name, 0};

	if (!may_have(members, name))
		return wr_wire_json_unknown(&at, members, problem);
	if (strcmp(name, "domain") == 0)
		return wr_wire_json_get_text(value, &at, &order->target.domain, problem);
	if (strcmp(name, "entries") == 0) {
		int count = wr_check_sourced_entries(value, &at, order->entries, problem);

		order->target.entries = order->entries;
		order->target.count = count > 0 ? (size_t)count : 0;
		return count > 0 ? 0 : -1;
	}
	if (strcmp(name, "limit") == 0)
		return wr_wire_json_get_text(value, &at, &order->target.limit, problem);
	if (strcmp(name, "for") == 0)
		return read_for(value, &at, order, problem);
	if (strcmp(name, "until") == 0)
		return read_until(value, &at, order, problem);
	if (strcmp(name, "lift") == 0)
		return wr_wire_json_get_bool(value, &at, &order->lift, problem);
	if (strcmp(name, "shield") == 0)
		return wr_wire_json_get_bool(value, &at, &order->shield, problem);
	order->has_extra = true;
	return wr_wire_json_get_int(value, &at, 0, UINT32_MAX, &order->extra, problem);
}

static int read_order(struct key_order *order, const char *members, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	if (wr_wire_json_need_object(order->document, NULL, problem) != 0)
		return -1;
	json_object_foreach(order->document, name, value) {
		if (read_member(name, value, members, order, problem) != 0)
			return -1;
	}
	if (order->target.domain.len == 0 || order->target.count == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"domain\" and \"entries\" are required");
	return 0;
}

/* ---- orders ---- */

static int check_grant(const struct key_order *order, struct wr_problem *problem)
{
	if (!order->has_extra)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"extra\" is required: the additional units; 0 ends a grant");
	if (order->extra && !order->until_ns)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"for\" or \"until\" is required: the end of the grant");
	return 0;
}

static int check_ban(const struct key_order *order, struct wr_problem *problem)
{
	if (order->lift == (order->until_ns != 0))
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "either \"for\" or \"until\", or \"lift\": true, is required");
	return 0;
}

static int check_add(const struct key_order *order, struct wr_problem *problem)
{
	if (order->until_ns == 0)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"for\" or \"until\" is required: the end of the ban");
	return 0;
}

struct key_verb {
	const char *name;
	const char *members;
	/* A function that checks the request body before an order is carried out. NULL: any body is
	 * accepted. */
	int (*check)(const struct key_order *order, struct wr_problem *problem);
	/* True if the route carries out an order, whose verb is `order`. False if it only reads. */
	bool changes;
	enum wr_order_verb order;
};

static const struct key_verb verb_get = {.name = "get", .members = KEY_MEMBERS};
static const struct key_verb verb_history = {.name = "changes", .members = KEY_MEMBERS};
static const struct key_verb verb_reset = {"reset", KEY_MEMBERS, NULL, true, WR_ORDER_RESET};
static const struct key_verb verb_grant = {"grant", GRANT_MEMBERS, check_grant, true,
					   WR_ORDER_GRANT};
static const struct key_verb verb_ban = {"ban", BAN_MEMBERS, check_ban, true, WR_ORDER_BAN};
static const struct key_verb verb_add = {"ban", ADD_MEMBERS, check_add, true, WR_ORDER_BAN};

static void describe_end(const struct key_order *order, char *text, size_t cap)
{
	if (order->lift)
		snprintf(text, cap, ", lifted");
	else if (order->until_ns == WEIR_NEVER)
		snprintf(text, cap, " forever");
	else if (order->until_ns)
		snprintf(text, cap, " for %" PRIu64 " s",
			 (order->until_ns - order->now_ns + WR_SECOND_NS - 1) / WR_SECOND_NS);
	else
		text[0] = '\0';
}

static uint64_t key_number(const struct key_order *order)
{
	return wr_admin_key_number(order->entries, order->target.count, order->target.domain);
}

static void log_change(const struct wr_serve_http_request *request, const struct key_verb *verb,
		       const struct key_order *order, int counters)
{
	char who[256], end[48], extra[24] = "";

	wr_serve_order_whom(&order->target, who, sizeof who);
	if (order->has_extra)
		snprintf(extra, sizeof extra, " %" PRId64, order->extra);
	describe_end(order, end, sizeof end);
	wr_admin_log(request, key_number(order), "%s%s %s%s: %d counter%s", verb->name, extra, who,
		     end, counters, counters == 1 ? "" : "s");
}

static void change_and_reply(struct wr_serve_http_request *request, const struct key_verb *verb,
			     const struct key_order *order)
{
	struct weir_error error = {.text = ""};
	struct wr_order given = {.verb = verb->order,
				 .target = &order->target,
				 .extra = (uint32_t)order->extra,
				 .until_ns = order->lift ? 0 : order->until_ns,
				 .flags = order->shield ? WR_BAN_SHIELD : 0};
	char address[WR_ADDRESS_TEXT] = "";
	int rc = 0;

	if (order->shield)
		rc = wr_limiter_ban_shield_address(wr_loop_engine(order->loop), &order->target,
						   order->now_ns, address, &error);
	if (rc >= 0 && verb->changes)
		rc = wr_serve_order_run(order->loop, &given, order->now_ns, &error);
	if (rc < 0) {
		wr_admin_reply_error(request, rc,
				     rc == WEIR_ENOENT ? WR_ADMIN_NO_LIMIT : error.text);
		return;
	}
	if (verb->changes)
		log_change(request, verb, order, rc);
	wr_admin_reply_counters(request, order->document, &order->target,
				verb == &verb_add ? address : NULL);
}

static void write_history(struct wr_json_out *json, void *context)
{
	const struct key_order *order = context;

	wr_changes_write(wr_loop_service(order->loop)->changes, key_number(order), json);
}

static void handle_key(struct wr_serve_http_request *request, const struct key_verb *verb)
{
	struct key_order order = {.target = {.size = sizeof order.target},
				  .now_ns = wr_loop_now_ns(request->server->loop),
				  .loop = request->server->loop};
	struct wr_problem problem;

	order.document = wr_wire_json_read(wr_serve_http_body(request), &problem);
	if (!order.document || read_order(&order, verb->members, &problem) != 0 ||
	    (verb->check && verb->check(&order, &problem) != 0))
		wr_serve_http_reply_problem(request, &problem);
	else if (verb == &verb_history)
		wr_admin_reply(request, 200, write_history, &order);
	else
		change_and_reply(request, verb, &order);
	json_decref(order.document);
}

void wr_admin_key_get(struct wr_serve_http_request *request)
{
	handle_key(request, &verb_get);
}

void wr_admin_key_reset(struct wr_serve_http_request *request)
{
	handle_key(request, &verb_reset);
}

void wr_admin_key_grant(struct wr_serve_http_request *request)
{
	handle_key(request, &verb_grant);
}

void wr_admin_key_ban(struct wr_serve_http_request *request)
{
	handle_key(request, &verb_ban);
}

void wr_admin_ban_add(struct wr_serve_http_request *request)
{
	handle_key(request, &verb_add);
}

void wr_admin_key_changes(struct wr_serve_http_request *request)
{
	handle_key(request, &verb_history);
}

/* ---- overrides ---- */

struct override_list {
	struct wr_json_out *json;
	bool hidden; /* --keys hides the keys of clients */
};

/* Returns whether a rule has set the ban, or may have set it: a ban that is not in the list of bans
 * has no start, and it is not known who has set it. */
static bool may_be_automatic(const struct weir_override *override)
{
	return override->banned_until_ns &&
	       (override->ban_flags & WEIR_BAN_AUTOMATIC || override->since_ns == 0);
}

static int write_override(void *context, const struct weir_override *override)
{
	const struct override_list *list = context;
	struct wr_json_out *json = list->json;

	wr_json_object(json);
	/* A long key is cut, perhaps in the middle of a character, so it can be invalid UTF-8.
	 * wr_json_member_bytes() accepts any bytes. */
	if (override->key.len && !(list->hidden && may_be_automatic(override)))
		wr_json_member_bytes(json, "key", override->key);
	else
		wr_json_member_null(json, "key");
	wr_json_member_string_or_null(json, "rule", override->rule);
	wr_admin_json_time(json, "banned_until", override->banned_until_ns);
	wr_json_member_uint(json, "granted", override->granted);
	wr_admin_json_time(json, "granted_until", override->granted_until_ns);
	wr_admin_json_time(json, "changed_at", override->changed_ns);
	wr_json_end_object(json);
	return 0;
}

static int write_overrides(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct override_list list = {json,
				     wr_settings_keys(&work->service->settings) != WEIR_KEYS_TEXT};

	wr_json_object(json);
	wr_json_key(json, "overrides");
	wr_json_array(json);
	weir_control_overrides(work->core->engine, work->now_ns, write_override, &list);
	wr_json_end_array(json);
	wr_json_end_object(json);
	wr_buf_add_char(json->buf, '\n');
	return 0;
}

void wr_admin_overrides(struct wr_serve_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_overrides, 0, NULL);
}
