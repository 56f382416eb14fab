/* Recognises formats: tries the reader of each format on the first lines of a file. */
#include "lab/log/guess.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define TRIED_LINES 200u

/* The formats to try. A line that two formats can read counts for the first of them. The reader of
 * `combined` also reads `common`. */
static const enum wr_lab_format tried[] = {WR_LAB_VHOST, WR_LAB_COMBINED, WR_LAB_ENVOY, WR_LAB_JSON,
					   WR_LAB_CSV};

struct trial {
	uint32_t readable;
	uint64_t first_ns;
};

/* Reads the first lines with a parser. `copy` has room for a line and its padding. */
static struct trial try_lines(struct wr_lab_parser *parser, struct weir_str head, char *copy)
{
	struct trial trial = {.first_ns = UINT64_MAX};
	struct wr_lab_slot slot = {.many = NULL};

	for (uint32_t i = 0; i < TRIED_LINES && head.len; i++) {
		struct weir_str line = wr_str_first(head, wr_str_find(head, '\n'));

		head = wr_str_from(head, line.len + (line.len < head.len));
		if (line.len && line.ptr[line.len - 1] == '\r')
			line.len--;
		memcpy(copy, line.ptr, line.len);
		wr_lab_slot_reset(&slot);
		if (wr_lab_parse(parser, copy, line.len, &slot) != NULL)
			continue;
		trial.readable++;
		if (slot.record.time_ns < trial.first_ns)
			trial.first_ns = slot.record.time_ns;
	}
	wr_lab_slot_free(&slot);
	return trial;
}

/* Returns the complete lines of the first bytes of a file. */
static struct weir_str complete_lines(const char *head, size_t len)
{
	const char *end = len == WR_LAB_PEEK_BYTES ? memrchr(head, '\n', len) : NULL;

	return (struct weir_str){head, end ? (size_t)(end - head) : len};
}

/* Prepares the reader of a format and tries it. */
static struct trial try_format(struct wr_lab_parser *parser, struct weir_str head, char *copy)
{
	struct trial trial = {.first_ns = UINT64_MAX};
	bool header;

	if (parser->format == WR_LAB_CSV && !wr_lab_csv_start(parser, head, copy))
		return trial;
	header = parser->csv.skip;
	trial = try_lines(parser, head, copy);
	parser->csv.skip = header;
	return trial;
}

int wr_lab_guess(struct wr_lab_parser *parser, enum wr_lab_format format,
		 struct wr_lab_fields *fields, struct wr_lab_input *input, uint64_t *first_ns)
{
	struct trial best = {.first_ns = UINT64_MAX}, trial;
	size_t len;
	const char *peeked = wr_lab_input_peek(input, &len);
	char *copy = malloc(WR_LAB_PEEK_BYTES + WR_LAB_PADDING);
	struct weir_str head;

	if (!peeked || !copy) {
		free(copy);
		return WEIR_EMEMORY;
	}
	head = complete_lines(peeked, len);
	*parser = (struct wr_lab_parser){.format = format, .fields = fields};
	if (format != WR_LAB_GUESS) {
		best = try_format(parser, head, copy);
	} else {
		parser->format = WR_LAB_COMBINED; /* if no line is readable */
		for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
			struct wr_lab_parser one = {.format = tried[i], .fields = fields};

			trial = try_format(&one, head, copy);
			if (trial.readable > best.readable) {
				best = trial;
				*parser = one;
			}
		}
	}
	*first_ns = best.first_ns;
	free(copy);
	return 0;
}
