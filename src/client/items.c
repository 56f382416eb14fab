/* Implements items.h. */
#include "client/items.h"

#include "base/str.h"

static void skip_blanks(struct wr_items *items)
{
	while (items->at < items->end && (*items->at == ' ' || *items->at == '\t'))
		items->at++;
}

/* Reads a text behind its opening quote. Returns false if it has no end. */
static bool take_quoted(struct wr_items *items, struct weir_str *value)
{
	const char *start = items->at;

	for (; items->at < items->end; items->at++) {
		if (*items->at == '"') {
			*value = (struct weir_str){start, (size_t)(items->at - start)};
			items->at++;
			return true;
		}
		if (*items->at == '\\' && items->at + 1 < items->end)
			items->at++;
	}
	return false;
}

/* Reads up to the next separator. */
static struct weir_str take_bare(struct wr_items *items, bool stop_at_equals)
{
	const char *start = items->at;

	while (items->at < items->end && *items->at != ',' && *items->at != ';' &&
	       !(stop_at_equals && *items->at == '='))
		items->at++;
	return wr_str_trim((struct weir_str){start, (size_t)(items->at - start)});
}

static bool take_value(struct wr_items *items, struct wr_items_piece *piece, bool stop_at_equals)
{
	skip_blanks(items);
	piece->quoted = items->at < items->end && *items->at == '"';
	if (piece->quoted) {
		items->at++;
		if (!take_quoted(items, &piece->value))
			return false;
		take_bare(items, stop_at_equals); /* skips what should not be there */
		return true;
	}
	piece->value = take_bare(items, stop_at_equals);
	return true;
}

bool wr_items_next(struct wr_items *items, struct wr_items_piece *piece)
{
	*piece = (struct wr_items_piece){.item = true};
	skip_blanks(items);
	while (items->at < items->end && (*items->at == ',' || *items->at == ';')) {
		piece->item = *items->at++ == ',';
		skip_blanks(items);
	}
	if (items->at == items->end || !take_value(items, piece, true))
		return false;
	if (items->at < items->end && *items->at == '=') {
		items->at++;
		piece->key = piece->value;
		if (!take_value(items, piece, false))
			return false;
	}
	return true;
}
