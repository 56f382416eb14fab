/* Escapes text for HTML and SVG; see lab/report/markup.h. */
#include "lab/report/markup.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

static const char *entity_of(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

/* The controls of direction (U+202A to U+202E, U+2066 to U+2069) would let a text reorder the words
 * that follow it on the page. */
static bool is_shown(uint32_t point)
{
	if (point < 0x20)
		return point == '\t' || point == '\n';
	return !(point >= 0x7f && point < 0xa0) && !(point >= 0x202a && point <= 0x202e) &&
	       !(point >= 0x2066 && point <= 0x2069) && (point & 0xfffe) != 0xfffe;
}

void wr_lab_markup(FILE *out, const char *text, size_t len)
{
	size_t step;

	for (size_t at = 0; at < len; at += step) {
		size_t valid = wr_utf8_len(text + at, len - at);
		const char *entity = entity_of(text[at]);

		step = valid ? valid : 1;
		if (entity)
			fputs(entity, out);
		else if (valid && is_shown(wr_utf8_point(text + at, valid)))
			fwrite(text + at, 1, valid, out);
		else
			fputs(WR_UTF8_UNKNOWN, out);
	}
}

void wr_lab_markup_text(FILE *out, const char *text)
{
	wr_lab_markup(out, text, strlen(text));
}
