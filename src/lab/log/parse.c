/* Chooses the reader of a format. */
#include "lab/log/format.h"

const char *wr_lab_parse(struct wr_lab_parser *parser, char *line, size_t len,
			 struct wr_lab_slot *slot)
{
	switch (parser->format) {
	case WR_LAB_JSON:
		return wr_lab_json_read(parser, line, len, slot);
	case WR_LAB_CSV:
		return wr_lab_csv_read(parser, line, len, slot);
	case WR_LAB_ENVOY:
		return wr_lab_envoy_read(parser, line, len, slot);
	default:
		return wr_lab_clf_read(parser, line, len, slot);
	}
}
