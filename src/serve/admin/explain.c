/* POST /v1/explain: shows the rule that a request or a descriptor would meet, by the rules in
 * force. Nothing is counted. */
#include <stdlib.h>
#include <string.h>

#include "serve/admin/admin.h"
#include "serve/admin/explain_find.h"

static void write_explanation(struct wr_json_out *json, void *context)
{
	wr_json_raw(json, wr_str(context));
}

void wr_admin_explain(struct wr_http_request *request)
{
	struct wr_problem problem;
	char *text;

	if (wr_explain_answer(wr_loop_engine(request->server->loop), wr_http_body(request), &text,
			      &problem) == 0)
		wr_admin_reply(request, 200, write_explanation, text);
	else
		wr_http_reply_problem(request, &problem);
	free(text);
}
