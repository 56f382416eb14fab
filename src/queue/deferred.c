/* States, memory and tickets of deferred requests. Called by both backends and by src/serve. */
#include "queue/deferred.h"

#include <stdlib.h>

#include "base/str.h"

const char *wr_deferred_state_name(enum wr_deferred_state state)
{
	static const char *const names[] = {
#define STATE_NAME(name, text) text,
		WR_DEFERRED_STATES(STATE_NAME)
#undef STATE_NAME
	};

	return state < WR_DEFERRED_STATE_COUNT ? names[state] : "?";
}

void wr_deferred_free(struct wr_deferred *first)
{
	while (first) {
		struct wr_deferred *next = first->next;

		free(first->memory);
		first = next;
	}
}

void wr_ticket_text(const uint8_t ticket[WR_TICKET_BYTES], char text[WR_TICKET_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < WR_TICKET_BYTES; i++) {
		*text++ = digits[ticket[i] >> 4];
		*text++ = digits[ticket[i] & 15];
	}
	*text = 0;
}

bool wr_ticket_parse(struct weir_str text, uint8_t ticket[WR_TICKET_BYTES])
{
	if (text.len != WR_TICKET_TEXT - 1)
		return false;
	for (size_t i = 0; i < WR_TICKET_BYTES; i++) {
		int high = wr_hex(text.ptr[2 * i]), low = wr_hex(text.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ticket[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}
