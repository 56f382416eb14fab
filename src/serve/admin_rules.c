/* The rules in force. */
#include "serve/admin.h"
#include "wire/rules_json.h"

static int write_rules(struct wr_text *out, const struct wr_admin_work *work)
{
	wr_rules_json(work->world->engine, out);
	return 0;
}

static int write_rlconfig(struct wr_text *out, const struct wr_admin_work *work)
{
	wr_rules_rlconfig(work->world->engine, out);
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
