/* Compares the names that the user gives in --fields with the files of a log. */
#ifndef WR_LAB_LOG_GIVEN_H
#define WR_LAB_LOG_GIVEN_H

#include "lab/log/format.h"
#include "lab/log/input.h"

/* Returns whether the fields of a format have names. */
bool wr_lab_format_named(enum wr_lab_format format);

/* Returns an error if the user gave names for a format without names, or 0. `path` is a file of
 * this format, or NULL if the user chose the format. */
int wr_lab_given_format(const struct wr_lab_fields *fields, enum wr_lab_format format,
			const char *path, struct weir_error *error);

/* Checks the names of columns in a CSV. `input` is a file before its first read. `certain` is false
 * if no line of the file was readable: then only a file whose first line looks like names of columns
 * is checked. Returns 0, or an error with the columns of the file. */
int wr_lab_given_columns(struct wr_lab_fields *fields, struct wr_lab_input *input, bool certain,
			 const char *path, struct weir_error *error);

/* Adds a note with the given names that no line of a log had. Called at the end of the log. */
void wr_lab_given_note(const struct wr_lab_fields *fields, struct wr_lab_log_totals *totals);

#endif
