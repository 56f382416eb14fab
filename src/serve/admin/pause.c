/* Serves three routes: /v1/pause stops enforcing rules, /v1/resume enforces them again, and
 * /v1/paused lists the rules that are not enforced. */
#include <weir/control.h>

#include "serve/admin/admin.h"

static int write_name(void *context, struct weir_str rule)
{
	wr_json_string(context, rule);
	return 0;
}

static void write_paused(struct wr_json_out *json, void *context)
{
	wr_json_object(json);
	wr_json_key(json, "paused");
	wr_json_array(json);
	weir_control_paused(context, write_name, json);
	wr_json_end_array(json);
	wr_json_end_object(json);
}

void wr_admin_paused(struct wr_serve_http_request *request)
{
	wr_admin_reply(request, 200, write_paused, wr_loop_engine(request->server->loop));
}

/* Reads the body {"rule": "api/ip"}, or {} for all rules. */
static int read_rule(const json_t *document, struct weir_str *rule, struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	*rule = WR_STR("");
	if (wr_wire_json_need_object(document, NULL, problem) != 0)
		return -1;
	json_object_foreach((json_t *)document, name, value) {
		struct wr_wire_json_at at = {NULL, name, 0};

		if (strcmp(name, "rule") != 0)
			return wr_wire_json_unknown(&at, "rule", problem);
		if (wr_wire_json_get_text(value, &at, rule, problem) != 0)
			return -1;
	}
	return 0;
}

static void change_enforcement(struct wr_serve_http_request *request, const char *verb,
			       int (*act)(struct weir_engine *engine, struct weir_str rule,
					  struct weir_error *error))
{
	struct weir_error error = {.text = ""};
	struct wr_problem problem;
	struct weir_str rule;
	json_t *document = wr_wire_json_read(wr_serve_http_body(request), &problem);
	int rc;

	if (!document || read_rule(document, &rule, &problem) != 0) {
		wr_serve_http_reply_problem(request, &problem);
		json_decref(document);
		return;
	}
	rc = act(wr_loop_engine(request->server->loop), rule, &error);
	if (rc < 0) {
		wr_admin_reply_error(request, rc, error.text);
	} else {
		wr_admin_log(request, 0, "%s %.*s", verb, rule.len ? (int)rule.len : 10,
			     rule.len ? rule.ptr : "everything");
		wr_admin_paused(request);
	}
	json_decref(document);
}

void wr_admin_pause(struct wr_serve_http_request *request)
{
	change_enforcement(request, "pause", weir_control_pause);
}

void wr_admin_resume(struct wr_serve_http_request *request)
{
	change_enforcement(request, "resume", weir_control_resume);
}
