/* Writes the trace of a simulation, and its first violated invariant. Called by event.c and by
 * test/sim/queue/run.c. */
#include "sim/trace.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"

void wr_sim_trace_add(FILE *out, uint64_t *hash, uint64_t time, const char *who, const char *format,
		      va_list args)
{
	char text[400];
	int len = snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64 " %s", time / 1000000,
			   time % 1000000, who);

	vsnprintf(text + len, sizeof text - (size_t)len, format, args);
	*hash = XXH3_64bits_withSeed(text, strlen(text), *hash);
	if (out)
		fprintf(out, "%s\n", text);
}

void wr_sim_failure_add(FILE *out, char failure[WR_SIM_FAILURE], const char *format, va_list args)
{
	char text[WR_SIM_FAILURE];

	vsnprintf(text, sizeof text, format, args);
	if (!failure[0])
		memcpy(failure, text, sizeof text);
	if (out)
		fprintf(out, "FAILED %s\n", text);
}
