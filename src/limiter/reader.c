/* The calls of weir/reader.h. */
#include "limiter/reader.h"

#include <string.h>

#include "base/str.h"

#define BOM "\xef\xbb\xbf"
#define BOM_LEN (sizeof BOM - 1)

static bool is_json(struct weir_str type)
{
	static const struct weir_str application = WR_STR("application/"), json = WR_STR("+json");
	struct weir_str subtype;

	if (!wr_str_equal_nocase(wr_str_first(type, application.len), application))
		return false;
	subtype = wr_str_from(type, application.len);
	return wr_str_equal_nocase(subtype, WR_STR("json")) ||
	       wr_str_equal_nocase(subtype, WR_STR("x-ndjson")) ||
	       wr_str_equal_nocase(subtype, WR_STR("jsonl")) ||
	       (subtype.len > json.len &&
		wr_str_equal_nocase(wr_str_from(subtype, subtype.len - json.len), json));
}

int weir_reader_format(struct weir_str content_type)
{
	struct weir_str type;

	if (!content_type.ptr)
		return 0;
	type = wr_str_trim(wr_str_first(content_type, wr_str_find(content_type, ';')));
	/* The fast path: the usual spelling of the two most frequent types. */
	if (wr_str_equal(type, WR_STR("application/json")))
		return WEIR_READER_JSON;
	if (wr_str_equal(type, WR_STR("text/event-stream")) ||
	    wr_str_equal_nocase(type, WR_STR("text/event-stream")))
		return WEIR_READER_EVENTS;
	return is_json(type) ? WEIR_READER_JSON : 0;
}

int weir_reader_check_pointer(struct weir_str pointer)
{
	struct wr_reader_pointer unused;
	bool escaped;

	return wr_reader_pointer_read(&unused, pointer, &escaped);
}

int weir_reader_init(void *memory, size_t size, const struct weir_str *pointers, size_t count,
		     int format, struct weir_reader **out)
{
	struct weir_reader *reader = memory;

	if (!memory || !pointers || !out || count == 0 || count > WEIR_READER_POINTERS_MAX ||
	    (format != WEIR_READER_JSON && format != WEIR_READER_EVENTS) ||
	    (uintptr_t)memory % _Alignof(max_align_t) != 0)
		return WEIR_EINVAL;
	if (size < WEIR_READER_BYTES)
		return WEIR_EROOM;
	/* Pointers and levels are not cleared: each is set before its first use. */
	memset(reader, 0, offsetof(struct weir_reader, json.levels));
	for (size_t i = 0; i < count; i++) {
		struct wr_reader_pointer *pointer = &reader->json.pointers[i];
		bool escaped;

		if (wr_reader_pointer_read(pointer, pointers[i], &escaped) != 0)
			return WEIR_EINVAL;
		reader->json.ends_at[pointer->steps] |= (uint8_t)(1u << i);
		reader->json.escaped |= (uint8_t)(escaped << i);
	}
	reader->magic = WR_READER_MAGIC;
	reader->format = (uint8_t)format;
	reader->json.pointer_count = (uint8_t)count;
	reader->json.lines = format == WEIR_READER_JSON;
	*out = reader;
	return 0;
}

/* Passes over a byte order mark at the beginning of the body. If only the first bytes of it are
 * there, the first line of the body is not valid in either format. */
static const char *pass_bom(struct weir_reader *reader, const char *at, const char *end)
{
	while (at < end && reader->bom_len < BOM_LEN && *at == BOM[reader->bom_len]) {
		reader->bom_len++;
		at++;
	}
	if (at == end && reader->bom_len < BOM_LEN)
		return at;
	reader->bom_done = true;
	if (reader->bom_len == 0 || reader->bom_len == BOM_LEN)
		return at;
	if (reader->format == WEIR_READER_JSON)
		wr_reader_json_break(&reader->json);
	else
		wr_reader_events_ignore_line(reader);
	return at;
}

static bool is_reader(const struct weir_reader *reader)
{
	return reader && reader->magic == WR_READER_MAGIC;
}

int weir_reader_feed(struct weir_reader *reader, const void *bytes, size_t len)
{
	const char *at = bytes, *end;

	if (!is_reader(reader) || reader->ended || (!bytes && len))
		return WEIR_EINVAL;
	if (len == 0)
		return 0;
	end = at + len;
	if (!reader->bom_done)
		at = pass_bom(reader, at, end);
	if (reader->format == WEIR_READER_JSON)
		wr_reader_json_feed(&reader->json, at, end);
	else
		wr_reader_events_feed(reader, at, end);
	return 0;
}

int weir_reader_end(struct weir_reader *reader)
{
	if (!is_reader(reader))
		return WEIR_EINVAL;
	if (reader->ended)
		return 0;
	if (reader->format == WEIR_READER_JSON)
		wr_reader_json_end(&reader->json);
	else
		wr_reader_events_end(reader);
	reader->ended = true;
	return 0;
}

int weir_reader_value(const struct weir_reader *reader, size_t i, int64_t *value)
{
	const struct wr_reader_pointer *pointer;
	bool kept;
	int result;

	if (!is_reader(reader) || !value || i >= reader->json.pointer_count)
		return WEIR_EINVAL;
	pointer = &reader->json.pointers[i];
	kept = wr_reader_pointer_keeps(pointer);
	result = kept ? pointer->kept : pointer->result;
	if (result == WEIR_READER_FOUND)
		*value = kept ? pointer->kept_value : pointer->value;
	return result == WR_READER_NULL ? WEIR_READER_INVALID : result;
}
