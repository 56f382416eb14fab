/* Writes the state of a deferred request. A client gets it as the response to a GET of its ticket:
 *
 *   {"ticket":"9f…","status":"waiting","position":3,"expected_delay":4.5,"tries":0,
 *    "accepted":"2026-11-16T12:00:00.000Z","expires":"2026-11-17T12:00:00.000Z"}
 *   {"ticket":"9f…","status":"delivered","http_status":201,"tries":1,"accepted":…,"finished":…}
 *   {"ticket":"9f…","status":"dead","reason":"…","http_status":503,"tries":20,"accepted":…,
 *    "finished":…}
 *
 * http_status is the status of the API server's latest response, or null if the server never
 * responded. While a request is being delivered, its status is "waiting" and its position is 1. */
#ifndef WR_WIRE_CHECK_TICKET_JSON_H
#define WR_WIRE_CHECK_TICKET_JSON_H

#include "wire/json.h"

enum wr_wire_ticket_status {
	WR_TICKET_WAITING,
	WR_TICKET_DELIVERED,
	WR_TICKET_DEAD,
	WR_TICKET_DROPPED, /* an operator has removed the request from the queue */
};

struct wr_wire_ticket_view {
	struct weir_str ticket; /* the ticket in the form that the client received */
	enum wr_wire_ticket_status status;
	uint64_t position, expected_us; /* set only if the status is WR_TICKET_WAITING */
	uint32_t tries;                 /* number of failed deliveries */
	uint16_t http_status;   /* status of the API server's latest response; 0: no response */
	struct weir_str reason; /* why the request is dead */
	uint64_t accepted_us, finished_us, expires_us;
};

/* Appends the JSON object and a line feed to `out`. */
void wr_wire_ticket_json(const struct wr_wire_ticket_view *view, struct wr_buf *out);

#endif
