/* JSON as values of jansson, and members of objects written into a struct wr_text. Called by the
 * admin API and the subcommands. */
#include <stdlib.h>

#include "base/utf8.h"
#include "wire/json.h"

json_t *wr_json_text(struct weir_str text)
{
	char *clean = malloc(3 * text.len + 1);
	size_t len = 0;
	json_t *json;

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

static json_t *cstr_json(const char *s)
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
						"id", d->id, "file", cstr_json(d->file), "line",
						(int)d->line, "column", (int)d->column, "width",
						(int)d->width, "message", cstr_json(d->text)));
	}
	return list;
}

void wr_json_put_name(struct wr_text *out, const char *name)
{
	wr_text_char(out, ',');
	wr_json_put_text(out, wr_str(name));
	wr_text_char(out, ':');
}

void wr_json_put_number(struct wr_text *out, const char *name, uint64_t number)
{
	wr_json_put_name(out, name);
	wr_text_number(out, number);
}

void wr_json_put_flag(struct wr_text *out, const char *name, bool set)
{
	wr_json_put_name(out, name);
	wr_text_put(out, set ? WR_STR("true") : WR_STR("false"));
}
