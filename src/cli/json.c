#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the valid UTF-8 character at the front, or 0. */
static size_t utf8_len(const char *at, size_t left)
{
	const unsigned char *c = (const unsigned char *)at;
	size_t len = c[0] < 0x80   ? 1
		     : c[0] < 0xc2 ? 0
		     : c[0] < 0xe0 ? 2
		     : c[0] < 0xf0 ? 3
		     : c[0] < 0xf5 ? 4
				   : 0;

	if (len == 0 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
	    (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	return len;
}

json_t *wr_json_text(struct weir_str text)
{
	char *clean = malloc(3 * text.len + 1);
	size_t len = 0;
	json_t *json;

	if (!clean)
		abort();
	for (size_t i = 0; i < text.len;) {
		size_t n = utf8_len(text.ptr + i, text.len - i);

		memcpy(clean + len, n ? text.ptr + i : "\xef\xbf\xbd", n ? n : 3);
		len += n ? n : 3;
		i += n ? n : 1;
	}
	json = json_stringn(clean, len);
	free(clean);
	return json;
}

static json_t *text(const char *s)
{
	return wr_json_text((struct weir_str){s, strlen(s)});
}

json_t *wr_json_diagnostics(const struct weir_errors *errors)
{
	json_t *list = json_array();

	for (size_t i = 0; i < errors->count; i++) {
		const struct weir_diagnostic *d = &errors->items[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:o}", "severity",
						d->severity == WEIR_ERROR ? "error" : "warning",
						"id", d->id, "file", text(d->file), "line",
						(int)d->line, "column", (int)d->column, "width",
						(int)d->width, "message", text(d->text)));
	}
	return list;
}

int wr_json_print(json_t *json, int exit_code)
{
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(json);
	return exit_code;
}
