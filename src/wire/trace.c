/* Parses the header field traceparent. Called by the HTTP and gRPC handlers. */
#include "wire/trace.h"

#include "base/assert.h"
#include "base/str.h"

#define TRACE_AT 3
#define SPAN_AT (TRACE_AT + WR_TRACE_ID + 1)
#define FLAGS_AT (SPAN_AT + WR_SPAN_ID + 1)
#define LEN (FLAGS_AT + 2)

static bool is_hex(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (wr_hex(at[i]) < 0 || (at[i] >= 'A' && at[i] <= 'F'))
			return false;
	return true;
}

static bool is_zero(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != '0')
			return false;
	return true;
}

/* Reads the four parts: version, trace id, span id, flags. Versions after 00 may have more parts.
 * Version ff is invalid. */
bool wr_trace_read(struct weir_str text, struct wr_trace *trace)
{
	const char *at = text.ptr;

	wr_assert(text.ptr || text.len == 0);
	trace->known = false;
	if (text.len < LEN || at[TRACE_AT - 1] != '-' || at[SPAN_AT - 1] != '-' ||
	    at[FLAGS_AT - 1] != '-' || !is_hex(at, 2) || !is_hex(at + TRACE_AT, WR_TRACE_ID) ||
	    !is_hex(at + SPAN_AT, WR_SPAN_ID) || !is_hex(at + FLAGS_AT, 2))
		return false;
	if (memcmp(at, "ff", 2) == 0 || is_zero(at + TRACE_AT, WR_TRACE_ID) ||
	    is_zero(at + SPAN_AT, WR_SPAN_ID))
		return false;
	if (text.len > LEN && (memcmp(at, "00", 2) == 0 || at[LEN] != '-'))
		return false;
	memcpy(trace->trace_id, at + TRACE_AT, WR_TRACE_ID);
	memcpy(trace->span_id, at + SPAN_AT, WR_SPAN_ID);
	trace->known = true;
	return true;
}
