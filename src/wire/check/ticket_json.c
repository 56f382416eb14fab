#include "wire/check/ticket_json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

static void put_time(struct wr_text *out, struct weir_str name, uint64_t us)
{
	wr_text_put(out, name);
	wr_json_put_time(out, us * 1000);
}

static void put_waiting(const struct wr_ticket_view *view, struct wr_text *out)
{
	PUT(out, ",\"position\":");
	wr_text_number(out, view->position);
	PUT(out, ",\"expected_delay\":");
	wr_json_put_seconds(out, view->expected_us * 1000);
}

static void put_ended(const struct wr_ticket_view *view, struct wr_text *out)
{
	if (view->status != WR_TICKET_DELIVERED) {
		PUT(out, ",\"reason\":");
		wr_json_put_bytes(out, view->reason);
	}
	PUT(out, ",\"http_status\":");
	if (view->http_status)
		wr_text_number(out, view->http_status);
	else
		PUT(out, "null");
}

void wr_ticket_json(const struct wr_ticket_view *view, struct wr_text *out)
{
	static const char *const names[] = {[WR_TICKET_WAITING] = "waiting",
					    [WR_TICKET_DELIVERED] = "delivered",
					    [WR_TICKET_DEAD] = "dead",
					    [WR_TICKET_DROPPED] = "dropped"};

	PUT(out, "{\"ticket\":");
	wr_json_put_text(out, view->ticket);
	PUT(out, ",\"status\":");
	wr_json_put_text(out, wr_str(names[view->status]));
	if (view->status == WR_TICKET_WAITING)
		put_waiting(view, out);
	else
		put_ended(view, out);
	PUT(out, ",\"tries\":");
	wr_text_number(out, view->tries);
	put_time(out, WR_STR(",\"accepted\":"), view->accepted_us);
	if (view->status == WR_TICKET_WAITING)
		put_time(out, WR_STR(",\"expires\":"), view->expires_us);
	else
		put_time(out, WR_STR(",\"finished\":"), view->finished_us);
	PUT(out, "}\n");
}
