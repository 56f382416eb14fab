#include "limiter/keep.h"

#include "base/str.h"
#include "base/utf8.h"
#include "limiter/ask.h"
#include "limiter/text.h"

#define CUT "\xe2\x80\xa6" /* … */

void wr_ask_keep(struct weir_ask *ask, char *memory, uint16_t cap)
{
	ask->kept = memory;
	ask->kept_cap = cap;
	ask->kept_len = 0;
}

/* Not in the middle of a character. */
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
	size_t room = (size_t)ask->kept_cap - ask->kept_len;
	struct wr_text text = {ask->kept + ask->kept_len, room < WR_KEPT_TEXT ? room : WR_KEPT_TEXT,
			       0};

	for (size_t i = 0; i < count && wr_text_fits(&text); i++) {
		if (i)
			wr_text_char(&text, '|');
		wr_text_put(&text, entries[i].key);
		wr_text_char(&text, '=');
		wr_text_put(&text, entries[i].value);
	}
	if (!wr_text_fits(&text)) {
		size_t mark = sizeof CUT - 1;

		text.len = text.cap > mark ? cut_at(text.at, text.cap - mark) : 0;
		if (text.cap > mark)
			wr_text_put(&text, WR_STR(CUT));
	}
	descriptor->kept_at = ask->kept_len;
	descriptor->kept_len = (uint16_t)text.len;
	ask->kept_len = (uint16_t)(ask->kept_len + text.len);
}

struct weir_str wr_ask_kept(const struct weir_ask *ask, size_t at)
{
	const struct wr_ask_descriptor *descriptor = &ask->descriptors[at];

	return ask->kept ? (struct weir_str){ask->kept + descriptor->kept_at, descriptor->kept_len}
			 : WR_STR("");
}
