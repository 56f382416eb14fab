/* The readers of the formats: a line in, a record out. */
#ifndef WR_LAB_LOG_FORMAT_H
#define WR_LAB_LOG_FORMAT_H

#include <stddef.h>

#include "lab/log/fields.h"
#include "lab/log/scan.h"
#include "lab/log/slot.h"

#define WR_LAB_COLUMNS 128u     /* further columns of a CSV are not read */
#define WR_LAB_REASON_BYTES 96u /* room for a reason that a reader composes */

/* The columns of a CSV. */
struct wr_lab_csv {
	bool skip;      /* the next line is the header line */
	bool escapes;   /* \" stands for a quote, as in files that Apache writes */
	uint32_t count; /* number of columns */
	struct wr_lab_meaning columns[WR_LAB_COLUMNS];
};

/* What the reader of a file has to remember from line to line. */
struct wr_lab_parser {
	enum wr_lab_format format;
	struct wr_lab_fields *fields;
	struct wr_lab_day day;
	struct wr_lab_client client;
	struct wr_lab_csv csv;
	char reason[WR_LAB_REASON_BYTES]; /* why the last line is not JSON */
};

/* The readers below fill in the record of a slot that wr_lab_slot_reset() has emptied. The record
 * refers to the line, which the reader changes when it decodes escapes. Returns NULL, or the reason
 * why the line is unreadable: "no time". The reason is valid until the next line of the parser. */
const char *wr_lab_parse(struct wr_lab_parser *parser, char *line, size_t len,
			 struct wr_lab_slot *slot);

/* Reads the formats common, combined and vhost. */
const char *wr_lab_clf_read(struct wr_lab_parser *parser, char *line, size_t len,
			    struct wr_lab_slot *slot);

/* Reads a JSON object. */
const char *wr_lab_json_read(struct wr_lab_parser *parser, char *line, size_t len,
			     struct wr_lab_slot *slot);

/* Reads a line of values separated by commas. wr_lab_csv_start() has found the columns. For the
 * header line it returns wr_lab_csv_header. */
const char *wr_lab_csv_read(struct wr_lab_parser *parser, char *line, size_t len,
			    struct wr_lab_slot *slot);

extern const char wr_lab_csv_header[];

/* Finds the columns of a CSV in its first lines: by the names of the header line, or by the values
 * if there is no header line. `copy` has room for `head`. Returns whether there is a column with
 * times. */
bool wr_lab_csv_start(struct wr_lab_parser *parser, struct weir_str head, char *copy);

/* Reads the default text format of Envoy, also with the fields that Istio adds. */
const char *wr_lab_envoy_read(struct wr_lab_parser *parser, char *line, size_t len,
			      struct wr_lab_slot *slot);

#endif
