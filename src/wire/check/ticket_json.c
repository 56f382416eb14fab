/* Writes the JSON of a ticket, for WEIR.TICKET. Called by serve/deliver/from_resp.c. */
#include "wire/check/ticket_json.h"

#include "base/assert.h"

void wr_wire_ticket_json(const struct wr_wire_ticket_view *view, struct wr_buf *out)
{
	static const char *const names[] = {[WR_TICKET_WAITING] = "waiting",
					    [WR_TICKET_DELIVERED] = "delivered",
					    [WR_TICKET_DEAD] = "dead",
					    [WR_TICKET_DROPPED] = "dropped"};
	bool waiting = view->status == WR_TICKET_WAITING;
	struct wr_json_out json;

	wr_assert(view->status <= WR_TICKET_DROPPED);
	wr_json_begin(&json, out);
	wr_json_object(&json);
	wr_json_member_string(&json, "ticket", view->ticket);
	wr_json_member_string(&json, "status", wr_str(names[view->status]));
	if (waiting) {
		wr_json_member_uint(&json, "position", view->position);
		wr_json_member_seconds(&json, "expected_delay", view->expected_us * 1000);
	} else {
		if (view->status != WR_TICKET_DELIVERED)
			wr_json_member_bytes(&json, "reason", view->reason);
		if (view->http_status)
			wr_json_member_uint(&json, "http_status", view->http_status);
		else
			wr_json_member_null(&json, "http_status");
	}
	wr_json_member_uint(&json, "tries", view->tries);
	wr_json_key(&json, "accepted");
	wr_wire_json_time(&json, view->accepted_us * 1000);
	wr_json_key(&json, waiting ? "expires" : "finished");
	wr_wire_json_time(&json, (waiting ? view->expires_us : view->finished_us) * 1000);
	wr_json_end_object(&json);
	wr_buf_add_char(out, '\n');
}
