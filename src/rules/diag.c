/* Collects and prints diagnostics of rule files. A diagnostic quotes the line that it is about. */
#include "rules/diag.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/str.h"
#include "base/versioned.h"
#include "rules/load.h"

#define ITEMS_MAX 1000
#define TEXT_MAX 512
#define ARG_MAX 120
#define SOURCE_MAX 200
#define MEMORY_MAX ((size_t)8 * 1024 * 1024)

static const struct wr_diag_row table[WR_D_COUNT] = {
#define WR_DIAG_ROW(id, severity, text) {#id, WEIR_##severity, text},
	WR_DIAGNOSTICS(WR_DIAG_ROW)
#undef WR_DIAG_ROW
};

const char *wr_diag_name(enum wr_diag_id id)
{
	wr_assert(id < sizeof table / sizeof *table);
	return table[id].name;
}

/* Creates the arena for the diagnostics. weir_errors_free() frees it. */
int wr_diags_init(struct wr_diags *diags, struct weir_errors *errors)
{
	uint32_t size = errors->size;

	*diags = (struct wr_diags){.errors = errors};
	*errors = (struct weir_errors){.size = size};
	diags->arena = malloc(sizeof *diags->arena);
	if (!diags->arena)
		return WEIR_EMEMORY;
	wr_arena_init(diags->arena, MEMORY_MAX);
	errors->memory = diags->arena;
	return 0;
}

void weir_errors_free(struct weir_errors *errors)
{
	const struct weir_errors none = {.size = sizeof none};

	/* weir_rules_load refuses a struct with an invalid size, so the struct owns no memory. */
	if (!errors || !wr_versioned_size_ok(errors, WR_ERRORS_LEAST))
		return;
	if (errors->memory)
		wr_arena_free(errors->memory);
	free(errors->memory);
	wr_versioned_write(errors, &none, sizeof none);
}

/* Appends an argument that comes from a rule file. Control characters are escaped, so that the
 * argument cannot control a terminal. A long argument is cut. */
static size_t put_arg(char *out, size_t len, struct weir_str arg)
{
	size_t limit = len + ARG_MAX < TEXT_MAX - 8 ? len + ARG_MAX : TEXT_MAX - 8;

	for (size_t i = 0; i < arg.len; i++) {
		unsigned char c = (unsigned char)arg.ptr[i];

		if (len >= limit) {
			/* The cut can split a character that is not ASCII. So a last character that
			 * is not ASCII is removed. */
			while (len && ((unsigned char)out[len - 1] & 0xc0) == 0x80)
				len--;
			if (len && (unsigned char)out[len - 1] >= 0xc0)
				len--;
			return len + (size_t)snprintf(out + len, 4, "…");
		}
		if (c < 0x20 || c == 0x7f)
			len += (size_t)snprintf(out + len, 5, "\\x%02x", c);
		else
			out[len++] = (char)c;
	}
	return len;
}

static struct weir_str compose_text(char out[TEXT_MAX], const char *text,
				    const struct weir_str *args)
{
	size_t len = 0;

	for (; *text && len < TEXT_MAX - 8; text++) {
		if (text[0] == '%' && text[1] == 's') {
			len = put_arg(out, len, *args++);
			text++;
		} else {
			out[len++] = *text;
		}
	}
	return (struct weir_str){out, len};
}

static struct weir_str source_line(struct wr_diags *diags, const struct wr_rules_file *file,
				   uint32_t line)
{
	struct weir_str rest;

	if (diags->seen_file != file || diags->seen_line > line) {
		diags->seen_file = file;
		diags->seen_line = 1;
		diags->seen_at = 0;
	}
	rest = wr_str_from(file->content, diags->seen_at);
	for (; diags->seen_line < line; diags->seen_line++) {
		size_t end = wr_str_find(rest, '\n');

		if (end == rest.len)
			return WR_STR("");
		rest = wr_str_from(rest, end + 1);
		diags->seen_at += end + 1;
	}
	rest = wr_str_first(rest, wr_str_find(rest, '\n'));
	if (rest.len && rest.ptr[rest.len - 1] == '\r')
		rest.len--;
	return wr_str_first(rest, SOURCE_MAX);
}

static int make_room(struct wr_diags *diags)
{
	size_t count = diags->errors->count;
	size_t capacity = diags->capacity ? 2 * diags->capacity : 16;
	struct weir_diagnostic *items;
	uint32_t *file_order;

	if (count < diags->capacity)
		return 0;
	items = wr_arena_alloc(diags->arena, capacity * sizeof *items);
	file_order = wr_arena_alloc(diags->arena, capacity * sizeof *file_order);
	if (!items || !file_order)
		return -1;
	if (count) {
		memcpy(items, diags->items, count * sizeof *items);
		memcpy(file_order, diags->file_order, count * sizeof *file_order);
	}
	diags->items = items;
	diags->file_order = file_order;
	diags->capacity = capacity;
	diags->errors->items = items;
	return 0;
}

static const char *copy_diag_text(struct wr_diags *diags, struct weir_str text)
{
	return wr_arena_copy(diags->arena, text.ptr, text.len);
}

void wr_diags_add(struct wr_diags *diags, enum wr_diag_id id, struct wr_rules_location at,
		  const struct weir_str *args)
{
	wr_assert(id < sizeof table / sizeof *table);
	wr_diags_add_row(diags, &table[id], at, args);
}

void wr_diags_add_row(struct wr_diags *diags, const struct wr_diag_row *row,
		      struct wr_rules_location at, const struct weir_str *args)
{
	struct weir_errors *errors = diags->errors;
	struct weir_diagnostic item = {.severity = row->severity,
				       .line = at.line,
				       .column = at.column,
				       .width = at.width ? at.width : 1,
				       .id = row->name,
				       .source = ""};
	char text[TEXT_MAX];

	if (item.severity == WEIR_ERROR)
		errors->errors++;
	else
		errors->warnings++;
	if (errors->count < ITEMS_MAX && make_room(diags) == 0) {
		item.text = copy_diag_text(diags, compose_text(text, row->text, args));
		item.file = copy_diag_text(diags, wr_str(at.file->path));
		if (at.line)
			item.source = copy_diag_text(diags, source_line(diags, at.file, at.line));
		if (item.text && item.file && item.source) {
			diags->file_order[errors->count] = at.file->index;
			diags->items[errors->count++] = item;
			return;
		}
	}
	errors->dropped++;
}

/* Insertion sort is used, because the list is short and almost sorted, and because equal items must
 * keep their order. */
void wr_diags_finish(struct wr_diags *diags)
{
	struct weir_diagnostic *items = diags->items;
	uint32_t *order = diags->file_order;

	for (size_t i = 1; i < diags->errors->count; i++) {
		struct weir_diagnostic item = items[i];
		uint32_t file = order[i];
		size_t at = i;

		for (; at; at--) {
			const struct weir_diagnostic *before = &items[at - 1];

			if (order[at - 1] < file ||
			    (order[at - 1] == file &&
			     (before->line < item.line ||
			      (before->line == item.line && before->column <= item.column))))
				break;
			items[at] = items[at - 1];
			order[at] = order[at - 1];
		}
		items[at] = item;
		order[at] = file;
	}
}

struct diag_out {
	char *text;
	size_t cap;
	size_t len;
};

static void put_text(struct diag_out *out, const char *bytes, size_t len)
{
	if (out->len + 1 < out->cap) {
		size_t room = out->cap - 1 - out->len;

		memcpy(out->text + out->len, bytes, len < room ? len : room);
	}
	out->len += len;
}

/* Writes the quoted line, in which tabs and other control characters become blanks, and a caret
 * under the location. Columns count characters, so the continuation bytes of a character do not
 * count. */
static void put_source(struct diag_out *out, const struct weir_diagnostic *d)
{
	size_t shown = 0;

	put_text(out, "    ", 4);
	for (const char *c = d->source; *c; c++) {
		put_text(out, (unsigned char)*c < 0x20 || *c == 0x7f ? " " : c, 1);
		shown += ((unsigned char)*c & 0xc0) != 0x80;
	}
	put_text(out, "\n    ", 5);
	for (uint32_t i = 1; i < d->column && i <= SOURCE_MAX; i++)
		put_text(out, " ", 1);
	put_text(out, "^", 1);
	for (uint32_t i = 1; i < d->width && d->column + i <= shown; i++)
		put_text(out, "~", 1);
	put_text(out, "\n", 1);
}

size_t weir_diagnostic_text(const struct weir_diagnostic *d, char *text, size_t cap)
{
	struct diag_out out = {text, cap, 0};
	char location[32] = "";

	if (d->line)
		snprintf(location, sizeof location, ":%u:%u", d->line, d->column);
	put_text(&out, d->file, strlen(d->file));
	put_text(&out, location, strlen(location));
	put_text(&out, d->severity == WEIR_ERROR ? ": error: " : ": warning: ",
		 d->severity == WEIR_ERROR ? 9 : 11);
	put_text(&out, d->text, strlen(d->text));
	put_text(&out, "\n", 1);
	if (d->line && *d->source)
		put_source(&out, d);
	if (cap)
		text[out.len < cap ? out.len : cap - 1] = '\0';
	return out.len;
}
