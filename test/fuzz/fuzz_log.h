/* Shared by the fuzz targets of the readers of logs: reads each line of the input, and checks the
 * records. */
#ifndef TEST_FUZZ_LOG_H
#define TEST_FUZZ_LOG_H

#include "fuzz.h"

#include "base/str.h"
#include "lab/log/format.h"

/* A text of a record is in the line, or it is one of the constants. */
static inline void require_inside(struct weir_str text, const char *line, size_t len)
{
	if (text.len == 0)
		return;
	require(text.ptr >= line && text.len <= len && (size_t)(text.ptr - line) <= len - text.len);
}

static inline void require_record(const struct wr_lab_slot *slot, const char *line, size_t len)
{
	const struct wr_lab_record *record = &slot->record;

	require(record->time_ns < WR_LAB_END_S * WR_LAB_SECOND_NS);
	require(!slot->whole || record->time_ns % WR_LAB_SECOND_NS == 0);
	require(record->status < 1000 && record->cost >= 0);
	require(record->bytes <= INT64_MAX && record->duration_ns <= INT64_MAX);
	require(record->has_address == (record->client.len > 0));
	require(!record->stand_in || (record->has_address && record->address.bytes[0] == 0xfd));
	require_inside(record->client, line, len);
	require_inside(record->method, line, len);
	require_inside(record->target, line, len);
	require_inside(record->host, line, len);
	require_inside(record->user, line, len);
	require(record->header_count <= WR_LAB_HEADERS_MAX);
	for (uint32_t i = 0; i < record->header_count; i++) {
		require(record->headers[i].name.len > 0);
		require_inside(record->headers[i].value, line, len);
	}
}

/* Reads a line. The line is in memory of exactly its length and the padding. */
static inline void fuzz_line(struct wr_lab_parser *parser, struct weir_str line)
{
	static struct wr_lab_slot slot;
	char *copy = malloc(line.len + WR_LAB_PADDING);
	const char *reason;

	require(copy != NULL);
	if (line.len)
		memcpy(copy, line.ptr, line.len);
	memset(copy + line.len, '"', WR_LAB_PADDING);
	wr_lab_slot_reset(&slot);
	reason = wr_lab_parse(parser, copy, line.len, &slot);
	if (reason)
		require(reason[0] != '\0');
	else
		require_record(&slot, copy, line.len);
	free(copy);
}

static inline void fuzz_lines(struct wr_lab_parser *parser, struct weir_str text)
{
	while (text.len) {
		struct weir_str line = wr_str_first(text, wr_str_find(text, '\n'));

		text = wr_str_from(text, line.len + (line.len < text.len));
		fuzz_line(parser, line);
	}
}

/* The known names of fields, or names of the user. */
static inline struct wr_lab_fields *make_fields(const char *text)
{
	struct wr_lab_fields *fields;

	require(wr_lab_fields_new(&fields, text, NULL) == 0);
	return fields;
}

#endif
