/* Serves the routes /v1/rules and /rlconfig, which show the rules in force, and /v1/rules/text,
 * which shows the rule files. */
#include "serve/admin/admin.h"
#include "serve/admin/rules_json.h"
#include "serve/service.h"

static int write_rules(struct wr_json_out *json, const struct wr_admin_work *work)
{
	wr_admin_json_rules(json, work->core->engine);
	wr_buf_add_char(json->buf, '\n');
	return 0;
}

static int write_rlconfig(struct wr_json_out *json, const struct wr_admin_work *work)
{
	wr_admin_write_rlconfig(json->buf, work->core->engine);
	return 0;
}

void wr_admin_rules(struct wr_serve_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_rules, 0, NULL);
}

void wr_admin_rlconfig(struct wr_serve_http_request *request)
{
	wr_admin_reply_later(request, "text/plain; charset=utf-8", write_rlconfig, 0, NULL);
}

static int write_text(struct wr_json_out *json, const struct wr_admin_work *work)
{
	const char *path = work->service->settings.rules ? work->service->settings.rules : "";
	int rc;

	wr_json_object(json);
	rc = wr_admin_json_health(json, work);
	wr_json_member_bytes(json, "path", wr_str(path));
	if (rc == 0)
		rc = wr_admin_json_rules_text(json, work->core->engine, path);
	wr_json_end_object(json);
	wr_buf_add_char(json->buf, '\n');
	return rc;
}

void wr_admin_rules_text(struct wr_serve_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_text, 0, NULL);
}
