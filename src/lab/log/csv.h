/* Splits lines of CSV into cells. */
#ifndef WR_LAB_LOG_CSV_H
#define WR_LAB_LOG_CSV_H

#include "lab/log/format.h"

/* Splits a line into up to WR_LAB_COLUMNS cells, and decodes the quotes in place. With `escapes`,
 * \" is a quote inside of quotes, as Apache writes it. Returns the number of cells, or 0 if a quote
 * is not closed. */
uint32_t wr_lab_csv_split(char *line, size_t len, bool escapes,
			  struct weir_str cells[WR_LAB_COLUMNS]);

#endif
