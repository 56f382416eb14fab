/* The state of a deferred request for its client: the body of GET on its ticket.
 *
 *   {"ticket":"9f…","status":"waiting","position":3,"expected_delay":4.5,"tries":0,
 *    "accepted":"2026-11-16T12:00:00.000Z","expires":"2026-11-17T12:00:00.000Z"}
 *   {"ticket":"9f…","status":"delivered","http_status":201,"tries":1,"accepted":…,"finished":…}
 *   {"ticket":"9f…","status":"dead","reason":"…","http_status":503,"tries":20,"accepted":…,
 *    "finished":…}
 *
 * http_status is the API server's, of the last try; null: it never answered. A request that is
 * being delivered counts as waiting, at position 1, until the delivery has ended. */
#ifndef WR_WIRE_CHECK_TICKET_JSON_H
#define WR_WIRE_CHECK_TICKET_JSON_H

#include "wire/json.h"

enum wr_ticket_status {
	WR_TICKET_WAITING,
	WR_TICKET_DELIVERED,
	WR_TICKET_DEAD,
	WR_TICKET_DROPPED, /* by an operator */
};

struct wr_ticket_view {
	struct weir_str ticket; /* as the client has it */
	enum wr_ticket_status status;
	uint64_t position, expected_us; /* waiting */
	uint32_t tries;                 /* that had no final answer */
	uint16_t http_status;           /* 0: none */
	struct weir_str reason;         /* why it is dead */
	uint64_t accepted_us, finished_us, expires_us;
};

/* Appends the object and a line feed. */
void wr_ticket_json(const struct wr_ticket_view *view, struct wr_buf *out);

#endif
