/* Fills a struct weir_error; used by every layer that reports an error with a text. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int wr_error(struct weir_error *error, int code, const char *format, ...)
{
	va_list args;

	if (!error)
		return code;
	error->code = code;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return code;
}

int wr_error_errno(struct weir_error *error, int code, const char *format, ...)
{
	int saved = errno;
	va_list args;
	size_t used;

	if (!error)
		return code;
	error->code = code;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	used = strlen(error->text);
	snprintf(error->text + used, sizeof error->text - used, ": %s", strerror(saved));
	errno = saved;
	return code;
}
