/* Converts the text of an option's value and stores it in the option's field. Called by options.c
 * and file.c. */
#include "cli/options/read.h"

#include "base/assert.h"
#include "base/duration.h"
#include "base/size.h"

/* Reports an invalid value. If the option is secret, the message does not contain the value. */
static void refuse_value(struct wr_cli_options_reader *reader, const struct wr_cli_option *option,
			 const char *where, struct weir_str text, const char *what)
{
	if (option->secret)
		wr_cli_options_wrong(reader, where, "has a value that is not %s", what);
	else
		wr_cli_options_wrong(reader, where, "is '%.*s', which is not %s",
				     (int)(text.len < 200 ? text.len : 200), text.ptr, what);
}

static char *copy_value(struct wr_cli_options_reader *reader, const char *where,
			struct weir_str text)
{
	char *copy = wr_arena_copy(reader->arena, text.ptr, text.len);

	if (!copy)
		wr_cli_options_wrong(reader, where, "needs more memory than is available");
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

static void set_text(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
		     const char *where, struct weir_str text)
{
	char what[160];

	snprintf(what, sizeof what, "one of: %s", ref->option->choices ? ref->option->choices : "");
	if (ref->option->choices && !is_choice(ref->option->choices, text))
		refuse_value(reader, ref->option, where, text, what);
	else
		*(const char **)ref->field = copy_value(reader, where, text);
}

static void set_switch(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
		       const char *where, struct weir_str text)
{
	bool on = is_choice("on yes true 1", text);

	if (!on && !is_choice("off no false 0", text))
		refuse_value(reader, ref->option, where, text, "on or off");
	else
		*(bool *)ref->field = on;
}

/* Writes a bound in the format of the option's values: as a number, a size or a duration. */
static void bound_text(enum wr_cli_option_kind kind, uint64_t bound, char text[WR_DURATION_TEXT])
{
	if (kind == WR_OPTION_SIZE)
		wr_size_text(bound, text);
	else if (kind == WR_OPTION_DURATION)
		wr_duration_text(bound, text);
	else
		snprintf(text, WR_DURATION_TEXT, "%llu", (unsigned long long)bound);
}

static int parse_amount(enum wr_cli_option_kind kind, struct weir_str text, uint64_t *value)
{
	if (kind == WR_OPTION_DURATION)
		return wr_duration_parse(text, value);
	for (size_t i = 0; kind == WR_OPTION_NUMBER && i < text.len; i++)
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return -1;
	return wr_size_parse(text, value);
}

static void set_amount(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
		       const char *where, struct weir_str text)
{
	static const char *const forms[] = {[WR_OPTION_NUMBER] = "a whole number",
					    [WR_OPTION_SIZE] = "a size such as 64M",
					    [WR_OPTION_DURATION] = "a duration such as 30s"};
	const struct wr_cli_option *option = ref->option;
	char what[160], min[WR_DURATION_TEXT], max[WR_DURATION_TEXT];
	uint64_t value;

	if (parse_amount(option->kind, text, &value) != 0) {
		refuse_value(reader, option, where, text, forms[option->kind]);
		return;
	}
	if (value < option->min || (option->max && value > option->max)) {
		bound_text(option->kind, option->min, min);
		bound_text(option->kind, option->max, max);
		snprintf(what, sizeof what, option->max ? "from %s to %s" : "at least %s", min,
			 max);
		refuse_value(reader, option, where, text, what);
		return;
	}
	*(uint64_t *)ref->field = value;
}

/* Appends one item to a list of texts or of addresses. */
static void add_item(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
		     const char *where, struct weir_str item)
{
	if (ref->option->kind == WR_OPTION_LIST) {
		struct wr_text_list *list = (struct wr_text_list *)ref->field;

		if (list->count == WR_TEXT_LIST_MAX)
			wr_cli_options_wrong(reader, where, "has more than %d items",
					     WR_TEXT_LIST_MAX);
		else if ((list->items[list->count] = copy_value(reader, where, item)))
			list->count++;
	} else {
		struct wr_endpoint_list *list = (struct wr_endpoint_list *)ref->field;
		struct weir_error error;

		if (list->count == WR_ENDPOINTS_MAX)
			wr_cli_options_wrong(reader, where, "has more than %d items",
					     WR_ENDPOINTS_MAX);
		else if (wr_endpoint_parse(item, &list->items[list->count], &error) != 0)
			wr_cli_options_wrong(reader, where, "%s", error.text);
		else
			list->count++;
	}
}

/* Both kinds of lists must begin with their count, because set_list() empties a list by setting its
 * first member to 0. */
_Static_assert(offsetof(struct wr_text_list, count) == 0, "count first");
_Static_assert(offsetof(struct wr_endpoint_list, count) == 0, "count first");

/* Appends a word. The first call for a list of words allocates room for reader->words_cap words. */
void wr_cli_options_add_word(struct wr_cli_options_reader *reader, struct wr_cli_words *words,
			     const char *where, struct weir_str text)
{
	char *copy = copy_value(reader, where, text);

	if (!words->items)
		words->items =
			wr_arena_alloc(reader->arena, reader->words_cap * sizeof *words->items);
	wr_assert(words->count < reader->words_cap);
	if (!words->items)
		wr_cli_options_wrong(reader, where, "needs more memory than is available");
	else if (copy)
		words->items[words->count++] = copy;
}

static void set_repeated(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
			 const char *where, struct weir_str text)
{
	struct wr_cli_words *words = (struct wr_cli_words *)ref->field;

	if (reader->set_by[ref->number] != reader->source)
		words->count = 0;
	wr_cli_options_add_word(reader, words, where, text);
}

static void set_signed(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
		       const char *where, struct weir_str text)
{
	const struct wr_cli_option *option = ref->option;
	bool negative = text.len && text.ptr[0] == '-';
	uint64_t bound = option->max ? option->max : INT64_MAX, value;
	char what[160];

	if (parse_amount(WR_OPTION_NUMBER, wr_str_from(text, negative), &value) != 0) {
		refuse_value(reader, option, where, text, "a whole number");
	} else if (value > bound) {
		snprintf(what, sizeof what, "from -%llu to %llu", (unsigned long long)bound,
			 (unsigned long long)bound);
		refuse_value(reader, option, where, text, what);
	} else {
		*(int64_t *)ref->field = negative ? -(int64_t)value : (int64_t)value;
	}
}

static void set_list(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
		     const char *where, struct weir_str text)
{
	if (reader->set_by[ref->number] != reader->source)
		*(size_t *)ref->field = 0;
	while (text.len) {
		size_t comma = wr_str_find(text, ',');
		struct weir_str item = wr_str_trim(wr_str_first(text, comma));

		if (item.len)
			add_item(reader, ref, where, item);
		text = wr_str_from(text, comma < text.len ? comma + 1 : comma);
	}
}

void wr_cli_options_set(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
			const char *where, struct weir_str text)
{
	static void (*const setters[])(struct wr_cli_options_reader *,
				       const struct wr_cli_option_ref *, const char *,
				       struct weir_str) = {
		[WR_OPTION_TEXT] = set_text,         [WR_OPTION_LIST] = set_list,
		[WR_OPTION_REPEATED] = set_repeated, [WR_OPTION_SWITCH] = set_switch,
		[WR_OPTION_NUMBER] = set_amount,     [WR_OPTION_SIGNED] = set_signed,
		[WR_OPTION_SIZE] = set_amount,       [WR_OPTION_DURATION] = set_amount,
		[WR_OPTION_ADDRESSES] = set_list,
	};

	if (text.len > WR_OPTION_VALUE || !is_clean(text)) {
		wr_cli_options_wrong(reader, where,
				     "has a value with control characters, or longer than %d bytes",
				     WR_OPTION_VALUE);
		return;
	}
	if (text.len == 0 && reader->source != WR_FROM_DEFAULT) {
		wr_cli_options_wrong(reader, where, "has an empty value");
		return;
	}
	setters[ref->option->kind](reader, ref, where, text);
	reader->set_by[ref->number] = reader->source;
	if (ref->option->given_at && reader->source == WR_FROM_ARGUMENTS)
		*(bool *)(ref->field - ref->option->at + ref->option->given_at) = true;
}
