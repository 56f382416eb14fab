/* Recognises the format of a file from its first lines. */
#ifndef WR_LAB_LOG_GUESS_H
#define WR_LAB_LOG_GUESS_H

#include "lab/log/format.h"
#include "lab/log/input.h"

/* Prepares `parser` for a file. If `format` is WR_LAB_GUESS, the format that reads most of the
 * first lines is chosen. Sets *first_ns to the earliest time of these lines, or to UINT64_MAX if
 * none is readable. Returns 0, or WEIR_EMEMORY. */
int wr_lab_guess(struct wr_lab_parser *parser, enum wr_lab_format format,
		 struct wr_lab_fields *fields, struct wr_lab_input *input, uint64_t *first_ns);

#endif
