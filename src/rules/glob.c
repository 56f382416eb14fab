/* Matches patterns with `*`. Used by matching and by the warnings about rules. */
#include "rules/glob.h"

bool wr_glob_match(struct weir_str pattern, struct weir_str text)
{
	size_t star = wr_str_find(pattern, '*');

	if (star == pattern.len)
		return wr_str_equal(pattern, text);
	if (!wr_str_begins(text, wr_str_first(pattern, star)))
		return false;
	text = wr_str_from(text, star);
	for (;;) {
		struct weir_str piece;
		const char *at;

		pattern = wr_str_from(pattern, star + 1);
		star = wr_str_find(pattern, '*');
		piece = wr_str_first(pattern, star);
		if (star == pattern.len)
			return wr_str_ends(text, piece);
		if (piece.len > text.len)
			return false;
		if (piece.len == 0)
			continue;
		at = memmem(text.ptr, text.len, piece.ptr, piece.len);
		if (!at)
			return false;
		text = wr_str_from(text, (size_t)(at - text.ptr) + piece.len);
	}
}

bool wr_glob_covers(struct weir_str wide, struct weir_str narrow)
{
	/* `narrow` is matched as if it were a text. Its stars are ordinary characters then, and
	 * only stars of `wide` can match them. A star of `wide` that matches a star of `narrow`
	 * also matches any other text there, so a result of true is right. */
	return wr_glob_match(wide, narrow);
}
