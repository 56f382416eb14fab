/* Chooses the reader of a format. */
#include "lab/log_format.h"

const char *wr_lab_parse(struct wr_lab_parser *parser, char *line, size_t len,
			 struct wr_lab_slot *slot)
{
	return wr_lab_clf_read(parser, line, len, slot);
}
