/* Reports a failed wr_assert() and aborts. Uses no lock and no heap, so that it works in any state
 * of the process. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void wr_assert_failed(const char *file, int line, const char *condition)
{
	char text[512];
	int len = snprintf(text, sizeof text, "weir: %s:%d: assertion failed: %s\n", file, line,
			   condition);

	if (len >= (int)sizeof text) {
		len = (int)sizeof text - 1;
		text[len - 1] = '\n';
	}
	(void)!write(STDERR_FILENO, text, (size_t)len); /* an error of write() cannot be reported */
	abort();
}
