/* A fast reader of checks in the usual form (json.h), without a tree of JSON values. It accepts the
 * members that json.c accepts, but only ASCII without escapes. json.c reads all other checks and
 * reports errors; the fuzzer compares the two readers. Called by serve/http/check.c. */
#include "wire/check/json.h"

struct json_cursor {
	const char *at;
	const char *end;
};

static void skip_blanks(struct json_cursor *cursor)
{
	while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' ||
					    *cursor->at == '\t' || *cursor->at == '\r'))
		cursor->at++;
}

static bool skip_char(struct json_cursor *cursor, char c)
{
	skip_blanks(cursor);
	if (cursor->at == cursor->end || *cursor->at != c)
		return false;
	cursor->at++;
	return true;
}

static bool take_text(struct json_cursor *cursor, struct weir_str *text)
{
	const char *start;

	if (!skip_char(cursor, '"'))
		return false;
	start = cursor->at;
	while (cursor->at < cursor->end && *cursor->at != '"') {
		unsigned char c = (unsigned char)*cursor->at;

		if (c < ' ' || c >= 0x80 || c == '\\')
			return false;
		cursor->at++;
	}
	*text = (struct weir_str){start, (size_t)(cursor->at - start)};
	return skip_char(cursor, '"');
}

static bool take_hits(struct json_cursor *cursor, int64_t *hits)
{
	bool negative = skip_char(cursor, '-');
	const char *start = cursor->at;
	int64_t number = 0;

	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9' &&
	       number <= WR_CHECK_HITS_MAX)
		number = number * 10 + (*cursor->at++ - '0');
	if (cursor->at == start || (*start == '0' && cursor->at - start > 1) ||
	    number > WR_CHECK_HITS_MAX || cursor->at == cursor->end)
		return false;
	*hits = negative ? -number : number;
	return *cursor->at == ',' || *cursor->at == '}' || *cursor->at <= ' ';
}

/* Reads the name of an object's next member and returns true. *first is true before the first
 * member. At the end of the object, returns false and sets *bad to false. After a syntax error,
 * returns false and sets *bad to true. */
static bool next_member(struct json_cursor *cursor, bool *first, struct weir_str *name, bool *bad)
{
	if (skip_char(cursor, '}')) {
		*bad = false;
		return false;
	}
	*bad = (!*first && !skip_char(cursor, ',')) || !take_text(cursor, name) ||
	       !skip_char(cursor, ':');
	*first = false;
	return !*bad;
}

static bool is(struct weir_str name, const char *wanted)
{
	return wr_str_equal(name, wr_str(wanted));
}

static bool take_entry(struct json_cursor *cursor, struct weir_entry *entry)
{
	bool first = true, bad, has_key = false, has_value = false;
	struct weir_str name;

	*entry = (struct weir_entry){{"", 0}, {"", 0}, {"", 0}};
	if (!skip_char(cursor, '{'))
		return false;
	while (next_member(cursor, &first, &name, &bad)) {
		bool key = is(name, "key");

		if ((!key && !is(name, "value")) || (key ? has_key : has_value) ||
		    !take_text(cursor, key ? &entry->key : &entry->value))
			return false;
		has_key |= key;
		has_value |= !key;
	}
	return !bad && entry->key.len;
}

static bool take_entries(struct json_cursor *cursor, struct wr_check_quick *quick,
			 struct wr_check_quick_descriptor *descriptor)
{
	if (descriptor->count || !skip_char(cursor, '['))
		return false;
	descriptor->first = quick->entry_count;
	do {
		if (quick->entry_count == WR_CHECK_ENTRIES_MAX ||
		    !take_entry(cursor, &quick->entries[quick->entry_count++]))
			return false;
	} while (skip_char(cursor, ','));
	descriptor->count = quick->entry_count - descriptor->first;
	return skip_char(cursor, ']');
}

static bool take_descriptor(struct json_cursor *cursor, struct wr_check_quick *quick)
{
	struct wr_check_quick_descriptor *descriptor = &quick->descriptors[quick->count++];
	bool first = true, bad;
	struct weir_str name;

	*descriptor = (struct wr_check_quick_descriptor){.hits = WEIR_HITS_UNSET};
	if (!skip_char(cursor, '{'))
		return false;
	while (next_member(cursor, &first, &name, &bad)) {
		if (is(name, "entries")
			    ? !take_entries(cursor, quick, descriptor)
			    : !is(name, "hits") || descriptor->hits != WEIR_HITS_UNSET ||
				      !take_hits(cursor, &descriptor->hits))
			return false;
	}
	return !bad && descriptor->count;
}

static bool take_descriptors(struct json_cursor *cursor, struct wr_check_quick *quick)
{
	if (quick->count || !skip_char(cursor, '['))
		return false;
	do {
		if (quick->count == WR_CHECK_QUICK_MAX || !take_descriptor(cursor, quick))
			return false;
	} while (skip_char(cursor, ','));
	return skip_char(cursor, ']');
}

static bool take_member(struct json_cursor *cursor, struct weir_str name,
			struct wr_check_quick *quick)
{
	if (is(name, "domain"))
		return quick->domain.len == 0 && take_text(cursor, &quick->domain);
	if (is(name, "descriptors"))
		return take_descriptors(cursor, quick);
	return is(name, "hits") && quick->hits == WEIR_HITS_UNSET &&
	       take_hits(cursor, &quick->hits);
}

bool wr_check_quick(struct weir_str body, struct wr_check_quick *quick)
{
	struct json_cursor cursor = {body.ptr, body.ptr + body.len};
	bool first = true, bad;
	struct weir_str name;

	quick->domain = (struct weir_str){"", 0};
	quick->hits = WEIR_HITS_UNSET;
	quick->count = quick->entry_count = 0;
	if (!skip_char(&cursor, '{'))
		return false;
	while (next_member(&cursor, &first, &name, &bad))
		if (!take_member(&cursor, name, quick))
			return false;
	skip_blanks(&cursor);
	return !bad && cursor.at == cursor.end && quick->domain.len && quick->count;
}

bool wr_check_quick_add(const struct wr_check_quick *quick, struct weir_ask *ask)
{
	if (quick->hits != WEIR_HITS_UNSET && weir_ask_hits(ask, quick->hits) != 0)
		return false;
	for (size_t i = 0; i < quick->count; i++) {
		const struct wr_check_quick_descriptor *d = &quick->descriptors[i];

		if (weir_ask_add(ask, quick->entries + d->first, d->count, NULL, d->hits) != 0)
			return false;
	}
	return true;
}
