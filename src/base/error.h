/* Functions that fill in a struct weir_error. */
#ifndef WR_BASE_ERROR_H
#define WR_BASE_ERROR_H

#include <weir/error.h>

/* Writes `code` and the formatted text to *error. `error` may be NULL. Returns `code`, so that a
 * caller can report and return an error in one statement. */
int wr_error(struct weir_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Like wr_error, but also appends ": " and the text of errno. Leaves errno unchanged. */
int wr_error_errno(struct weir_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
