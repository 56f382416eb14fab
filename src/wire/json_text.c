/* Makes values of the library jansson, for the admin API and the subcommands. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "wire/json.h"

json_t *wr_wire_json_text(struct weir_str text)
{
	char *clean = malloc(3 * text.len + 1);
	size_t len = 0;
	json_t *json;

	wr_assert(text.ptr || text.len == 0);
	if (!clean)
		abort();
	for (size_t i = 0; i < text.len;) {
		size_t n = wr_utf8_len(text.ptr + i, text.len - i);

		memcpy(clean + len, n ? text.ptr + i : WR_UTF8_UNKNOWN, n ? n : 3);
		len += n ? n : 3;
		i += n ? n : 1;
	}
	json = json_stringn(clean, len);
	free(clean);
	return json;
}

json_t *wr_wire_json_diagnostics(const struct weir_errors *errors)
{
	json_t *list = json_array();

	for (size_t i = 0; i < errors->count; i++) {
		const struct weir_diagnostic *d = &errors->items[i];

		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:o}", "severity",
				  d->severity == WEIR_ERROR ? "error" : "warning", "id", d->id,
				  "file", wr_wire_json_text(wr_str(d->file)), "line", (int)d->line,
				  "column", (int)d->column, "width", (int)d->width, "message",
				  wr_wire_json_text(wr_str(d->text))));
	}
	return list;
}
