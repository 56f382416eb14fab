/* The routes of bans: GET /v1/bans lists the bans in force, POST /v1/bans bans a key, and POST
 * /v1/bans/release ends the ban of a key, or all bans that the request selects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/control.h>

#include "base/error.h"
#include "serve/admin/bans.h"
#include "serve/fleet/redis.h"
#include "serve/open.h"
#include "serve/service.h"
#include "wire/check/json.h"

/* ---- GET /v1/bans ---- */

static int bad_argument(struct wr_problem *problem, const char *name, const char *should)
{
	return wr_problem(problem, WR_BAD_VALUE, "?%s= has to be %s", name, should);
}

static int read_rule(const char *rule, struct wr_admin_bans_query *query)
{
	size_t len = strlen(rule);

	if (len == 0 || len >= sizeof query->rule)
		return -1;
	memcpy(query->rule, rule, len + 1);
	query->which.rule = (struct weir_str){query->rule, len};
	return 0;
}

static int read_count(const char *text, uint32_t *count)
{
	size_t len = strlen(text);

	if (len == 0 || len > 4 || len != strspn(text, "0123456789"))
		return -1;
	*count = (uint32_t)strtoul(text, NULL, 10);
	return *count >= 1 && *count <= WR_ADMIN_BANS_PAGE_MAX ? 0 : -1;
}

static int read_query(const struct wr_serve_http_request *request,
		      struct wr_admin_bans_query *query, struct wr_problem *problem)
{
	const char *kind = wr_serve_http_argument(request, "kind");
	const char *rule = wr_serve_http_argument(request, "rule");
	const char *address = wr_serve_http_argument(request, "address");
	const char *after = wr_serve_http_argument(request, "after");
	const char *count = wr_serve_http_argument(request, "count");

	query->count = WR_ADMIN_BANS_PAGE;
	query->hidden = wr_settings_keys(wr_loop_settings(request->server->loop)) != WEIR_KEYS_TEXT;
	if (kind && !wr_release_kind(&query->which, wr_str(kind)))
		return bad_argument(problem, "kind", "automatic, operator or shadow");
	if (rule && read_rule(rule, query) != 0)
		return bad_argument(problem, "rule", "a rule's name in statistics");
	if (address && !wr_release_address(&query->which, wr_str(address)))
		return bad_argument(problem, "address", "an address or a prefix");
	if (after && !wr_admin_bans_after_read(after, query))
		return bad_argument(problem, "after", "the member \"next\" of an earlier page");
	if (count && read_count(count, &query->count) != 0)
		return bad_argument(problem, "count", "a number from 1 to 1000");
	return 0;
}

static void list_bans(struct wr_serve_http_request *request)
{
	struct wr_admin_bans_query *query = calloc(1, sizeof *query);
	struct wr_problem problem;

	if (!query) {
		wr_serve_http_reply(request, 500, NULL);
	} else if (read_query(request, query, &problem) != 0) {
		free(query);
		wr_serve_http_reply_problem(request, &problem);
	} else {
		wr_admin_reply_later(request, "application/json", wr_admin_bans_write, 0, query);
	}
}

void wr_admin_bans(struct wr_serve_http_request *request)
{
	if (strcmp(request->method, "POST") == 0)
		wr_admin_ban_add(request);
	else
		list_bans(request);
}

/* ---- POST /v1/bans/release ---- */

#define RELEASE_MEMBERS "domain, entries, limit, address, rule, kind, all"

/* The content of a request body. Either `target` selects the ban, or `which` selects bans. */
struct ban_release {
	json_t *document; /* the parsed body; the strings of this struct point into it */
	struct weir_target target;
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	struct weir_str address, kind, rule;
	bool all;
};

static int read_member(const char *name, const json_t *value, struct ban_release *release,
		       struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, name, 0};
	struct {
		const char *name;
		struct weir_str *text;
	} texts[] = {{"domain", &release->target.domain},
		     {"limit", &release->target.limit},
		     {"address", &release->address},
		     {"rule", &release->rule},
		     {"kind", &release->kind}};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(name, texts[i].name) == 0)
			return wr_wire_json_get_text(value, &at, texts[i].text, problem);
	if (strcmp(name, "all") == 0)
		return wr_wire_json_get_bool(value, &at, &release->all, problem);
	if (strcmp(name, "entries") != 0)
		return wr_wire_json_unknown(&at, RELEASE_MEMBERS, problem);

	int count = wr_check_sourced_entries(value, &at, release->entries, problem);

	release->target.entries = release->entries;
	release->target.count = count > 0 ? (size_t)count : 0;
	return count > 0 ? 0 : -1;
}

/* Checks that the body selects bans in one way: by a descriptor, by conditions, or all. */
static int check_release(const struct ban_release *release, struct wr_problem *problem)
{
	bool by_key = release->target.domain.len || release->target.count;
	bool by_condition = release->address.len || release->rule.len || release->kind.len;

	if (by_key + by_condition + release->all != 1 || (release->target.limit.len && !by_key))
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "either \"domain\" and \"entries\", or \"address\", \"rule\" "
				     "or \"kind\", or \"all\": true is required");
	if (by_key && (release->target.domain.len == 0 || release->target.count == 0))
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"domain\" and \"entries\" are required");
	return 0;
}

static int read_release(struct ban_release *release, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	if (wr_wire_json_need_object(release->document, NULL, problem) != 0)
		return -1;
	json_object_foreach(release->document, name, value) {
		if (read_member(name, value, release, problem) != 0)
			return -1;
	}
	return check_release(release, problem);
}

/* Sets up the order that ends the selected bans, here and on the other nodes. Its target has the
 * conditions as entries. */
static void make_conditions(struct ban_release *release)
{
	const struct weir_entry given[] = {
		{.key = WR_STR("address"), .value = release->address},
		{.key = WR_STR("rule"), .value = release->rule},
		{.key = WR_STR("kind"), .value = release->kind},
	};

	release->target.entries = release->entries;
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		if (given[i].value.len)
			release->entries[release->target.count++] = given[i];
	if (release->target.count == 0)
		release->entries[release->target.count++] =
			(struct weir_entry){.key = WR_STR("all"), .value = WR_STR("")};
}

static void write_released(struct wr_json_out *json, void *context)
{
	wr_json_object(json);
	wr_json_member_uint(json, "released", *(const uint64_t *)context);
	wr_json_end_object(json);
}

/* The conditions of a release, as a thread of libuv's pool uses them. */
struct release_work {
	struct wr_release which;
	char rule[WEIR_STAT_NAME_BYTES];
};

static void write_release(struct wr_json_out *json, uint64_t released, uint64_t unlisted)
{
	wr_json_object(json);
	wr_json_member_uint(json, "released", released);
	wr_json_member_uint(json, "unlisted", unlisted);
	wr_json_end_object(json);
	wr_buf_add_char(json->buf, '\n');
}

static int release_and_write(struct wr_json_out *json, const struct wr_admin_work *work)
{
	const struct release_work *release = work->context;
	int ended = wr_release_bans(work->core->engine, &release->which, work->now_ns);

	if (ended < 0)
		return ended;
	write_release(json, (uint64_t)ended,
		      wr_release_unlisted(work->core->table, wr_seconds(work->now_ns)));
	return 0;
}

/* Ends the bans that the conditions select. The other nodes are told first. */
static void release_selected(struct wr_serve_http_request *request, struct ban_release *release)
{
	struct release_work *work = calloc(1, sizeof *work);
	struct weir_error error = {.text = ""};
	struct wr_order order = {.verb = WR_ORDER_RELEASE, .target = &release->target};
	char text[288];
	int rc;

	if (!work) {
		wr_serve_http_reply(request, 500, NULL);
		return;
	}
	make_conditions(release);
	rc = wr_release_read(&work->which, &release->target, &error);
	if (rc == 0 && work->which.rule.len >= sizeof work->rule)
		rc = wr_error(&error, WEIR_EINVAL, "no rule has such a long name");
	if (rc < 0) {
		free(work);
		wr_admin_reply_error(request, rc, error.text);
		return;
	}
	if (work->which.rule.len)
		memcpy(work->rule, work->which.rule.ptr, work->which.rule.len);
	work->which.rule.ptr = work->rule;
	wr_serve_order_publish(request->server->loop, &order,
			       wr_loop_now_ns(request->server->loop));
	wr_serve_order_release_text(&release->target, text, sizeof text);
	wr_admin_log(request, 0, "%s", text);
	wr_admin_reply_later(request, "application/json", release_and_write, 0, work);
}

static int count_banned(void *context, const struct weir_counter *counter)
{
	*(uint64_t *)context += counter->banned_until_ns || counter->shadow_ban_until_ns;
	return 0;
}

/* Without the rule, the key of its counter is not known. */
#define NO_RULE                                                                                    \
	"; if its rule was removed, release by the rule's name in statistics, or by the address "  \
	"(--rule or --address)"

/* Ends the bans of a descriptor. */
static void release_key(struct wr_serve_http_request *request, const struct ban_release *release)
{
	struct wr_loop *loop = request->server->loop;
	struct weir_error error = {.text = ""};
	struct wr_order order = {.verb = WR_ORDER_BAN, .target = &release->target};
	uint64_t now_ns = wr_loop_now_ns(loop), banned = 0;
	char whom[256];
	int rc = weir_control_get(wr_loop_engine(loop), &release->target, now_ns, count_banned,
				  &banned);

	if (rc >= 0)
		rc = wr_serve_order_run(loop, &order, now_ns, &error);
	if (rc < 0) {
		wr_admin_reply_error(request, rc,
				     rc == WEIR_ENOENT ? WR_ADMIN_NO_LIMIT NO_RULE : error.text);
		return;
	}
	wr_serve_order_whom(&release->target, whom, sizeof whom);
	wr_admin_log(request,
		     wr_admin_key_number(release->target.entries, release->target.count,
					 release->target.domain),
		     "release %s: %llu ban%s", whom, (unsigned long long)banned,
		     banned == 1 ? "" : "s");
	wr_admin_reply(request, 200, write_released, &banned);
}

void wr_admin_bans_release(struct wr_serve_http_request *request)
{
	struct ban_release release = {.target = {.size = sizeof release.target}};
	struct wr_problem problem;

	release.document = wr_wire_json_read(wr_serve_http_body(request), &problem);
	if (!release.document || read_release(&release, &problem) != 0)
		wr_serve_http_reply_problem(request, &problem);
	else if (release.target.count)
		release_key(request, &release);
	else
		release_selected(request, &release);
	json_decref(release.document);
}
