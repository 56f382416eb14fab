/* The rules in force, and their files. */
#include "serve/admin/admin.h"
#include "serve/service.h"
#include "serve/admin/rules_json.h"

static int write_rules(struct wr_text *out, const struct wr_admin_work *work)
{
	wr_rules_json(work->core->engine, out);
	return 0;
}

static int write_rlconfig(struct wr_text *out, const struct wr_admin_work *work)
{
	wr_rules_rlconfig(work->core->engine, out);
	return 0;
}

void wr_admin_rules(struct wr_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_rules, 0);
}

void wr_admin_rlconfig(struct wr_http_request *request)
{
	wr_admin_reply_later(request, "text/plain; charset=utf-8", write_rlconfig, 0);
}

static int write_text(struct wr_text *out, const struct wr_admin_work *work)
{
	const char *path = work->service->settings.rules;
	int rc;

	wr_text_char(out, '{');
	rc = wr_admin_put_health(out, work);
	wr_text_put(out, WR_STR(",\"path\":"));
	wr_json_put_bytes(out, wr_str(path ? path : ""));
	wr_text_char(out, ',');
	if (rc == 0)
		rc = wr_rules_text_json(work->core->engine, path ? path : "", out);
	wr_text_put(out, WR_STR("}\n"));
	return rc;
}

void wr_admin_rules_text(struct wr_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_text, 0);
}
