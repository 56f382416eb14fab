/* The readers of the formats: a line in, a record out. */
#ifndef WR_LAB_LOG_FORMAT_H
#define WR_LAB_LOG_FORMAT_H

#include <stddef.h>

#include "lab/log_slot.h"

#define WR_LAB_PADDING 64u /* readable bytes behind every line; their values do not matter */

/* What the reader of a file has to remember from line to line. */
struct wr_lab_parser {
	enum wr_lab_format format;
	struct wr_lab_day day;
	struct wr_lab_client client;
};

/* The readers below fill in the record of a slot that wr_lab_slot_reset() has emptied. The record
 * refers to the line, which the reader changes when it decodes escapes. Returns NULL, or the reason
 * why the line is unreadable: "no time". */
const char *wr_lab_parse(struct wr_lab_parser *parser, char *line, size_t len,
			 struct wr_lab_slot *slot);

/* Reads the formats common, combined and vhost. */
const char *wr_lab_clf_read(struct wr_lab_parser *parser, char *line, size_t len,
			    struct wr_lab_slot *slot);

#endif
