/* Formats a key from a rule's lists of top keys as text and as JSON. Called by top and advise. */
#include "cli/watch/key.h"

#include <stdio.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "limiter/text.h"

static struct weir_str key_text(const struct weir_top_key *key)
{
	return (struct weir_str){key->text,
				 key->text_len < WEIR_TOP_TEXT ? key->text_len : WEIR_TOP_TEXT};
}

size_t wr_cli_watch_key_text(const struct weir_top_key *key, size_t columns, bool utf8, char *text,
			     size_t cap)
{
	struct weir_str rest = key_text(key);
	char joined[3 * WEIR_TOP_TEXT + 8];
	struct wr_limiter_text out = {joined, sizeof joined, 0};

	if (key->text_kind == WEIR_TOP_NO_TEXT) {
		snprintf(joined, sizeof joined, "#%016llx", (unsigned long long)key->hash);
		return wr_cli_show_text(wr_str(joined), columns, utf8, text, cap);
	}
	for (size_t i = 0; i < rest.len; i++) {
		if (rest.ptr[i] == WEIR_TOP_BETWEEN)
			wr_limiter_text_put(&out, WR_STR(" | "));
		else
			wr_limiter_text_char(&out, rest.ptr[i]);
	}
	if (key->text_kind == WEIR_TOP_CUT)
		wr_limiter_text_put(&out, WR_STR("..."));
	return wr_cli_show_text((struct weir_str){joined, out.len}, columns, utf8, text, cap);
}

json_t *wr_cli_watch_key_json(const struct weir_top_key *key)
{
	struct weir_str rest = key_text(key);
	json_t *values = key->text_kind == WEIR_TOP_NO_TEXT ? json_null() : json_array();
	char hash[20];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)key->hash);
	while (json_is_array(values)) {
		size_t end = wr_str_find(rest, WEIR_TOP_BETWEEN);

		json_array_append_new(values, wr_wire_json_text(wr_str_first(rest, end)));
		if (end >= rest.len)
			break;
		rest = wr_str_from(rest, end + 1);
	}
	return json_pack("{s:o, s:b, s:s, s:I, s:I, s:I}", "values", values, "cut",
			 key->text_kind == WEIR_TOP_CUT, "hash", hash, "count",
			 (json_int_t)key->count, "over", (json_int_t)key->over, "noise",
			 (json_int_t)key->noise);
}
