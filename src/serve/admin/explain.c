/* Which rule a request or a descriptor would meet, by the rules in force. Nothing is counted. */
#include <stdlib.h>

#include "serve/admin/admin.h"
#include "serve/admin/explain_find.h"

static void write_text(struct wr_text *out, void *context)
{
	wr_text_put(out, wr_str(context));
	wr_text_char(out, '\n');
}

void wr_admin_explain(struct wr_http_request *request)
{
	struct wr_problem problem;
	char *text;

	if (wr_explain_answer(wr_loop_engine(request->server->loop), wr_http_body(request), &text,
			      &problem) == 0)
		wr_admin_reply(request, 200, "application/json", write_text, text);
	else
		wr_http_reply_problem(request, &problem);
	free(text);
}
