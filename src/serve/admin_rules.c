/* The rules in force. */
#include "serve/admin.h"
#include "wire/rules_json.h"

static void write_rules(struct wr_text *out, void *loop)
{
	wr_rules_json(wr_loop_engine(loop), out);
}

static void write_rlconfig(struct wr_text *out, void *loop)
{
	wr_rules_rlconfig(wr_loop_engine(loop), out);
}

void wr_admin_rules(struct wr_http_request *request)
{
	wr_admin_reply(request, 200, "application/json", write_rules, request->server->loop);
}

void wr_admin_rlconfig(struct wr_http_request *request)
{
	wr_admin_reply(request, 200, "text/plain; charset=utf-8", write_rlconfig,
		       request->server->loop);
}
