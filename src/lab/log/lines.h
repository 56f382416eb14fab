/* Splits the bytes of an input into lines. The lines stay where they were read: in blocks of text,
 * which live as long as a record refers to them. */
#ifndef WR_LAB_LOG_LINES_H
#define WR_LAB_LOG_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "lab/log/format.h"
#include "lab/log/input.h"

/* The size of a block, and the limit of the length of a line. A few blocks fit into the cache of a
 * processor. */
#define WR_LAB_TEXT_BYTES ((size_t)256 << 10)

struct wr_lab_text {
	struct wr_lab_text *next; /* in the list of unused blocks */
	uint32_t refs;            /* records that refer to the block, and 1 for the current block */
	uint32_t held;            /* those of the records that are in the window */
	uint32_t index;           /* number of the block */
	char bytes[WR_LAB_TEXT_BYTES + WR_LAB_PADDING];
};

/* The place in the current block. */
struct wr_lab_lines {
	struct wr_lab_text *text; /* NULL: no block yet */
	size_t at, end;           /* the bytes that are not split yet */
	bool skip;                /* the bytes up to the next line end belong to a line too long */
	bool ended;               /* the input has ended */
	bool zeros;               /* the block may contain zero bytes */
	bool returns;             /* the block may contain carriage returns */
};

enum wr_lab_line {
	WR_LAB_LINE,       /* a line; *line and *len are set */
	WR_LAB_LINE_LONG,  /* the start of a line that is longer than a block */
	WR_LAB_LINE_BLOCK, /* the caller has to call wr_lab_lines_block() */
	WR_LAB_LINE_END,   /* the input has ended */
};

/* Continues with another input. */
void wr_lab_lines_start(struct wr_lab_lines *lines);

/* Returns the next line of the input, without its end: \n, with any number of \r before it. */
enum wr_lab_line wr_lab_lines_next(struct wr_lab_lines *lines, struct wr_lab_input *input,
				   char **line, size_t *len);

/* Moves on to an unused block. Returns the block before, or NULL. The caller owns it. */
struct wr_lab_text *wr_lab_lines_block(struct wr_lab_lines *lines, struct wr_lab_text *text);

#endif
