/* Functions for deferred requests: names of their states, freeing a request, hexadecimal digits,
 * and tickets as text. Called by both backends and by src/serve. */
#include "queue/deferred.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/str.h"

const char *wr_queue_request_state_name(enum wr_queue_request_state state)
{
	static const char *const names[] = {
#define STATE_NAME(name, text) text,
		WR_QUEUE_REQUEST_STATES(STATE_NAME)
#undef STATE_NAME
	};

	return state < WR_QUEUE_REQUEST_STATE_COUNT ? names[state] : "?";
}

void wr_queue_request_free(struct wr_queue_request *first)
{
	while (first) {
		struct wr_queue_request *next = first->next;

		free(first->memory);
		first = next;
	}
}

void wr_queue_write_hex(const uint8_t *bytes, size_t count, char *digits)
{
	static const char values[] = "0123456789abcdef";

	wr_assert(bytes || count == 0);
	for (size_t i = 0; i < count; i++) {
		*digits++ = values[bytes[i] >> 4];
		*digits++ = values[bytes[i] & 15];
	}
}

bool wr_queue_parse_hex(struct weir_str digits, uint8_t *bytes, size_t count)
{
	if (digits.len != 2 * count)
		return false;
	for (size_t i = 0; i < count; i++) {
		int high = wr_hex(digits.ptr[2 * i]), low = wr_hex(digits.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void wr_ticket_text(const uint8_t ticket[WR_TICKET_BYTES], char text[WR_TICKET_TEXT])
{
	wr_queue_write_hex(ticket, WR_TICKET_BYTES, text);
	text[WR_TICKET_TEXT - 1] = 0;
}

bool wr_ticket_parse(struct weir_str text, uint8_t ticket[WR_TICKET_BYTES])
{
	return wr_queue_parse_hex(text, ticket, WR_TICKET_BYTES);
}
