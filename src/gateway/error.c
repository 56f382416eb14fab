#include "gateway/error.h"

#include <stdarg.h>
#include <stdio.h>

int wr_gateway_fail(struct wr_gateway_error *error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return -1;
}
