/* Reads the records of a file. */
#include "lab/log/stream.h"

#include <string.h>

#include "base/str.h"
#include "lab/log/example.h"
#include "lab/log/guess.h"

#define START_BYTES 256u /* of a line that may become an example */

/* ---- open and close ---- */

void wr_lab_stream_open(struct wr_lab_stream *stream, struct wr_lab_sources *sources,
			struct wr_lab_file *file, const struct wr_lab_lines *lines)
{
	struct weir_error error;
	uint64_t first_ns;

	*stream = (struct wr_lab_stream){
		.sources = sources, .path = file->path, .input = file->input, .lines = *lines};
	file->input = NULL;
	wr_lab_lines_start(&stream->lines);
	sources->totals.files++;
	if (!stream->input && wr_lab_input_open(file->path, &stream->input, &error) != 0) {
		stream->input = NULL;
		stream->ended = true;
		wr_lab_totals_damage(&sources->totals, file->path, error.text);
	} else if (wr_lab_guess(&stream->parser, sources->format, sources->fields, stream->input,
				&first_ns) != 0) {
		stream->ended = true;
		wr_lab_totals_damage(&sources->totals, file->path, "there is no memory to read it");
	}
}

uint64_t wr_lab_stream_bytes(const struct wr_lab_stream *stream)
{
	return stream->input ? wr_lab_input_bytes(stream->input) : 0;
}

void wr_lab_stream_close(struct wr_lab_stream *stream)
{
	const char *damage = stream->input ? wr_lab_input_damage(stream->input) : NULL;

	if (damage)
		wr_lab_totals_damage(&stream->sources->totals, stream->path, damage);
	wr_lab_input_close(stream->input);
	stream->input = NULL;
}

bool wr_lab_stream_block(struct wr_lab_stream *stream)
{
	struct wr_lab_pool *pool = &stream->sources->pool;
	struct wr_lab_text *text = wr_lab_pool_text(pool), *before;

	if (!text)
		return false;
	before = wr_lab_lines_block(&stream->lines, text);
	if (before)
		wr_lab_pool_drop(pool, before, 1);
	return true;
}

/* ---- lines ---- */

static void count_unreadable(struct wr_lab_stream *stream, const char *reason, struct weir_str line)
{
	stream->sources->totals.lines++;
	stream->sources->totals.unreadable++;
	wr_lab_totals_example(&stream->sources->totals, stream->path, stream->line_number, reason,
			      line);
}

/* Reads a line into a slot. Counts the line if it is unreadable. Readers of JSON and CSV write over
 * the line, so that an example needs a copy of its start. */
static bool parse(struct wr_lab_stream *stream, char *line, size_t len, struct wr_lab_slot *slot)
{
	struct weir_str start = {line, len};
	char copy[START_BYTES];
	const char *reason;

	if (stream->lines.zeros && memchr(line, '\0', len)) {
		count_unreadable(stream, "zero byte", start);
		return false;
	}
	/* Several lines would otherwise become the request of the first of them. */
	if (stream->lines.returns && memchr(line, '\r', len)) {
		count_unreadable(stream, "carriage return in the line", start);
		return false;
	}
	if (stream->parser.format >= WR_LAB_JSON && stream->sources->totals.example_count < 3) {
		start = wr_str_first(start, sizeof copy);
		memcpy(copy, line, start.len);
		start.ptr = copy;
	}
	wr_lab_slot_reset(slot);
	reason = wr_lab_parse(&stream->parser, line, len, slot);
	if (reason && reason != wr_lab_csv_header)
		count_unreadable(stream, reason, start);
	return !reason;
}

/* Reads a line. Returns its record, or NULL if the line has none. */
static struct wr_lab_slot *read_line(struct wr_lab_stream *stream, char *line, size_t len)
{
	struct wr_lab_slot *slot;

	stream->line_number++;
	if (len == 0)
		return NULL;
	slot = wr_lab_pool_slot(&stream->sources->pool);
	if (!slot) {
		count_unreadable(stream, "no memory", (struct weir_str){line, len});
		return NULL;
	}
	if (!parse(stream, line, len, slot)) {
		wr_lab_pool_give(&stream->sources->pool, slot);
		return NULL;
	}
	stream->sources->totals.lines++;
	slot->text = stream->lines.text;
	slot->text->refs++;
	slot->line_bytes = (uint32_t)len;
	return slot;
}

/* Reads up to the next record and sets *slot, or ends the stream. Returns false if a block is
 * needed. */
static bool read_record(struct wr_lab_stream *stream, struct wr_lab_slot **slot)
{
	char *line;
	size_t len;

	while (!stream->ended && !*slot) {
		switch (wr_lab_lines_next(&stream->lines, stream->input, &line, &len)) {
		case WR_LAB_LINE:
			*slot = read_line(stream, line, len);
			break;
		case WR_LAB_LINE_LONG:
			stream->line_number++;
			count_unreadable(stream, "longer than 256 KiB",
					 (struct weir_str){line, len});
			break;
		case WR_LAB_LINE_END:
			stream->ended = true;
			break;
		default:
			return false;
		}
	}
	return true;
}

/* ---- records ---- */

/* If a record is far ahead of the record before it, the record behind it tells whether there was a
 * pause or the time is wrong. The first record of a file is treated in the same way, because a wrong
 * time there would delay the whole file. */
bool wr_lab_stream_ready(struct wr_lab_stream *stream)
{
	uint64_t window_ns = stream->sources->window_ns;

	if (!read_record(stream, &stream->head))
		return false;
	if (!stream->head || stream->head->record.time_ns <= stream->before_ns + window_ns)
		return true;
	if (!read_record(stream, &stream->second))
		return false;
	stream->wrong = stream->second &&
			stream->second->record.time_ns + window_ns < stream->head->record.time_ns;
	return true;
}

uint64_t wr_lab_stream_time(const struct wr_lab_stream *stream)
{
	return stream->wrong ? stream->before_ns : stream->head->record.time_ns;
}

struct wr_lab_slot *wr_lab_stream_take(struct wr_lab_stream *stream)
{
	struct wr_lab_slot *slot = stream->head;

	if (!stream->wrong)
		stream->before_ns = slot->record.time_ns;
	stream->wrong = false;
	stream->head = stream->second;
	stream->second = NULL;
	return slot;
}
