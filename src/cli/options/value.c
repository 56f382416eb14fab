/* From the text of a value to its field. */
#include "cli/options/read.h"

#include "base/duration.h"
#include "base/size.h"

/* A secret's text is nobody's business, in an error least of all. */
static void refuse(struct options_reader *reader, const struct wr_option *option, const char *where,
		   struct weir_str text, const char *what)
{
	if (option->secret)
		options_wrong(reader, where, "has a value that is not %s", what);
	else
		options_wrong(reader, where, "is '%.*s', which is not %s",
			      (int)(text.len < 200 ? text.len : 200), text.ptr, what);
}

static char *keep(struct options_reader *reader, const char *where, struct weir_str text)
{
	char *copy = wr_arena_copy(reader->arena, text.ptr, text.len);

	if (!copy)
		options_wrong(reader, where, "is more than there is memory for");
	return copy;
}

static bool is_clean(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
			return false;
	return true;
}

static bool is_choice(const char *choices, struct weir_str text)
{
	struct weir_str left = wr_str(choices);

	while (left.len) {
		size_t blank = wr_str_find(left, ' ');

		if (wr_str_equal(wr_str_first(left, blank), text))
			return true;
		left = wr_str_from(left, blank < left.len ? blank + 1 : blank);
	}
	return false;
}

static void set_text(struct options_reader *reader, const struct options_spot *spot,
		     const char *where, struct weir_str text)
{
	char what[160];

	snprintf(what, sizeof what, "one of: %s",
		 spot->option->choices ? spot->option->choices : "");
	if (spot->option->choices && !is_choice(spot->option->choices, text))
		refuse(reader, spot->option, where, text, what);
	else
		*(const char **)spot->field = keep(reader, where, text);
}

static void set_switch(struct options_reader *reader, const struct options_spot *spot,
		       const char *where, struct weir_str text)
{
	bool on = is_choice("on yes true 1", text);

	if (!on && !is_choice("off no false 0", text))
		refuse(reader, spot->option, where, text, "on or off");
	else
		*(bool *)spot->field = on;
}

/* A bound, written as the value would be. */
static void bound_text(enum wr_option_kind kind, uint64_t bound, char text[WR_DURATION_TEXT])
{
	if (kind == WR_OPTION_SIZE)
		wr_size_text(bound, text);
	else if (kind == WR_OPTION_DURATION)
		wr_duration_text(bound, text);
	else
		snprintf(text, WR_DURATION_TEXT, "%llu", (unsigned long long)bound);
}

static int parse_amount(enum wr_option_kind kind, struct weir_str text, uint64_t *value)
{
	if (kind == WR_OPTION_DURATION)
		return wr_duration_parse(text, value);
	for (size_t i = 0; kind == WR_OPTION_NUMBER && i < text.len; i++)
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return -1;
	return wr_size_parse(text, value);
}

static void set_amount(struct options_reader *reader, const struct options_spot *spot,
		       const char *where, struct weir_str text)
{
	static const char *const forms[] = {[WR_OPTION_NUMBER] = "a whole number",
					    [WR_OPTION_SIZE] = "a size such as 64M",
					    [WR_OPTION_DURATION] = "a duration such as 30s"};
	const struct wr_option *option = spot->option;
	char what[160], min[WR_DURATION_TEXT], max[WR_DURATION_TEXT];
	uint64_t value;

	if (parse_amount(option->kind, text, &value) != 0) {
		refuse(reader, option, where, text, forms[option->kind]);
		return;
	}
	if (value < option->min || (option->max && value > option->max)) {
		bound_text(option->kind, option->min, min);
		bound_text(option->kind, option->max, max);
		snprintf(what, sizeof what, "from %s to %s", min, option->max ? max : "any");
		refuse(reader, option, where, text, what);
		return;
	}
	*(uint64_t *)spot->field = value;
}

/* One item of a list or of addresses. */
static void add_item(struct options_reader *reader, const struct options_spot *spot,
		     const char *where, struct weir_str item)
{
	if (spot->option->kind == WR_OPTION_LIST) {
		struct wr_text_list *list = (struct wr_text_list *)spot->field;

		if (list->count == WR_TEXT_LIST_MAX)
			options_wrong(reader, where, "lists more than %d", WR_TEXT_LIST_MAX);
		else if ((list->items[list->count] = keep(reader, where, item)))
			list->count++;
	} else {
		struct wr_endpoint_list *list = (struct wr_endpoint_list *)spot->field;
		struct weir_error error;

		if (list->count == WR_ENDPOINTS_MAX)
			options_wrong(reader, where, "lists more than %d", WR_ENDPOINTS_MAX);
		else if (wr_endpoint_parse(item, &list->items[list->count], &error) != 0)
			options_wrong(reader, where, "%s", error.text);
		else
			list->count++;
	}
}

/* Both kinds of lists begin with their count. */
_Static_assert(offsetof(struct wr_text_list, count) == 0, "count first");
_Static_assert(offsetof(struct wr_endpoint_list, count) == 0, "count first");

static void set_list(struct options_reader *reader, const struct options_spot *spot,
		     const char *where, struct weir_str text)
{
	if (reader->set_by[spot->number] != reader->source)
		*(size_t *)spot->field = 0;
	while (text.len) {
		size_t comma = wr_str_find(text, ',');
		struct weir_str item = wr_str_trim(wr_str_first(text, comma));

		if (item.len)
			add_item(reader, spot, where, item);
		text = wr_str_from(text, comma < text.len ? comma + 1 : comma);
	}
}

void options_set(struct options_reader *reader, const struct options_spot *spot, const char *where,
		 struct weir_str text)
{
	static void (*const setters[])(struct options_reader *, const struct options_spot *,
				       const char *, struct weir_str) = {
		[WR_OPTION_TEXT] = set_text,      [WR_OPTION_LIST] = set_list,
		[WR_OPTION_SWITCH] = set_switch,  [WR_OPTION_NUMBER] = set_amount,
		[WR_OPTION_SIZE] = set_amount,    [WR_OPTION_DURATION] = set_amount,
		[WR_OPTION_ADDRESSES] = set_list,
	};

	if (text.len > WR_OPTION_VALUE || !is_clean(text)) {
		options_wrong(reader, where,
			      "has a value with control characters, or longer than %d",
			      WR_OPTION_VALUE);
		return;
	}
	if (text.len == 0 && reader->source != FROM_DEFAULT) {
		options_wrong(reader, where, "has an empty value");
		return;
	}
	setters[spot->option->kind](reader, spot, where, text);
	reader->set_by[spot->number] = reader->source;
}
