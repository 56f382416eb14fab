/* Filling in a struct weir_error. */
#ifndef WR_BASE_ERROR_H
#define WR_BASE_ERROR_H

#include <weir/error.h>

/* Returns `code`, so that a failure is one statement. `error` may be NULL. */
int wr_error(struct weir_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": " and the text of errno behind it. */
int wr_error_errno(struct weir_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
