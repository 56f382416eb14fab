/* Splits blocks of text into lines. A line that begins in one block and ends in the next is moved to
 * the next. */
#include "lab/log/lines.h"

#include <string.h>

void wr_lab_lines_start(struct wr_lab_lines *lines)
{
	lines->at = lines->end;
	lines->ended = false;
	lines->skip = false;
}

struct wr_lab_text *wr_lab_lines_block(struct wr_lab_lines *lines, struct wr_lab_text *text)
{
	struct wr_lab_text *before = lines->text;
	size_t rest = lines->end - lines->at;

	if (before)
		memcpy(text->bytes, before->bytes + lines->at, rest);
	lines->text = text;
	lines->at = 0;
	lines->end = rest;
	return before;
}

/* Reads more bytes into the rest of the block. */
static void read_more(struct wr_lab_lines *lines, struct wr_lab_input *input)
{
	char *to = lines->text->bytes + lines->end;
	size_t got = wr_lab_input_read(input, to, WR_LAB_TEXT_BYTES - lines->end);

	lines->end += got;
	lines->ended = got == 0;
	lines->zeros |= got && memchr(to, '\0', got);
	lines->returns |= got && memchr(to, '\r', got);
}

/* Takes the bytes up to `end` as a line. `next` is the start of the next line. */
static void take(struct wr_lab_lines *lines, size_t end, size_t next, char **line, size_t *len)
{
	*line = lines->text->bytes + lines->at;
	*len = end - lines->at;
	while (*len && (*line)[*len - 1] == '\r')
		--*len;
	lines->at = next;
}

/* The rest of the block has no line end. Returns what the caller gets, or WR_LAB_LINE_BLOCK with
 * *more set if more bytes were read. */
static enum wr_lab_line extend(struct wr_lab_lines *lines, struct wr_lab_input *input, char **line,
			       size_t *len, bool *more)
{
	*more = false;
	if (lines->skip)
		lines->at = lines->end = 0; /* no record refers to this block */
	if (lines->ended) {
		if (lines->at == lines->end)
			return WR_LAB_LINE_END;
		take(lines, lines->end, lines->end, line, len);
		return WR_LAB_LINE;
	}
	if (lines->end < WR_LAB_TEXT_BYTES) {
		read_more(lines, input);
		*more = true;
	} else if (lines->at == 0) {
		take(lines, lines->end, 0, line, len);
		lines->end = 0;
		lines->skip = true;
		return WR_LAB_LINE_LONG;
	}
	return WR_LAB_LINE_BLOCK;
}

enum wr_lab_line wr_lab_lines_next(struct wr_lab_lines *lines, struct wr_lab_input *input,
				   char **line, size_t *len)
{
	size_t searched = lines->at;
	enum wr_lab_line result;
	const char *newline;
	bool more;

	if (!lines->text)
		return WR_LAB_LINE_BLOCK;
	for (;;) {
		newline = memchr(lines->text->bytes + searched, '\n', lines->end - searched);
		if (newline) {
			size_t end = (size_t)(newline - lines->text->bytes);

			take(lines, end, end + 1, line, len);
			if (!lines->skip)
				return WR_LAB_LINE;
			lines->skip = false;
			searched = lines->at;
			continue;
		}
		searched = lines->skip ? 0 : lines->end;
		result = extend(lines, input, line, len, &more);
		if (!more)
			return result;
	}
}
