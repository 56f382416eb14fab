/* Writes the texts of descriptors for the decision log. Called by weir_ask_add and by the
 * code that writes the decision log. */
#include "limiter/log_text.h"

#include "base/assert.h"
#include "base/str.h"
#include "base/utf8.h"
#include "limiter/ask.h"
#include "limiter/text.h"

#define CUT "\xe2\x80\xa6" /* … */

void wr_ask_set_log_memory(struct weir_ask *ask, char *memory, uint16_t cap)
{
	wr_assert_magic(ask, WR_ASK_MAGIC);
	ask->log_text = memory;
	ask->log_cap = cap;
	ask->log_len = 0;
}

/* Returns the largest length up to `len` that does not end within a UTF-8 character. */
static size_t cut_at(const char *text, size_t len)
{
	size_t at = len;

	while (at > 0 && len - at < 4 && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	if (at > 0 && (unsigned char)text[at - 1] >= 0xc0 &&
	    wr_utf8_len(text + at - 1, len - (at - 1)) == 0)
		return at - 1;
	return len;
}

void wr_ask_keep_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count)
{
	struct wr_ask_descriptor *descriptor = &ask->descriptors[ask->descriptor_count - 1];
	size_t room = (size_t)ask->log_cap - ask->log_len;
	struct wr_limiter_text text = {ask->log_text + ask->log_len,
				       room < WR_LOG_TEXT_MAX ? room : WR_LOG_TEXT_MAX, 0};

	wr_assert(ask->descriptor_count > 0 && ask->log_len <= ask->log_cap);
	for (size_t i = 0; i < count && wr_limiter_text_fits(&text); i++) {
		if (i)
			wr_limiter_text_char(&text, '|');
		wr_limiter_text_put(&text, entries[i].key);
		wr_limiter_text_char(&text, '=');
		wr_limiter_text_put(&text, entries[i].value);
	}
	if (!wr_limiter_text_fits(&text)) {
		size_t mark = sizeof CUT - 1;

		text.len = text.cap > mark ? cut_at(text.at, text.cap - mark) : 0;
		if (text.cap > mark)
			wr_limiter_text_put(&text, WR_STR(CUT));
	}
	descriptor->log_at = ask->log_len;
	descriptor->log_len = (uint16_t)text.len;
	ask->log_len = (uint16_t)(ask->log_len + text.len);
}

struct weir_str wr_ask_log_text(const struct weir_ask *ask, size_t at)
{
	const struct wr_ask_descriptor *descriptor = &ask->descriptors[at];

	wr_assert_magic(ask, WR_ASK_MAGIC);
	wr_assert(at < ask->descriptor_count);
	return ask->log_text
		       ? (struct weir_str){ask->log_text + descriptor->log_at, descriptor->log_len}
		       : WR_STR("");
}
