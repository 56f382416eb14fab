/* The trace of a request, read from the header field `traceparent` of the W3C:
 *
 *   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 */
#ifndef WR_WIRE_TRACE_H
#define WR_WIRE_TRACE_H

#include <stdbool.h>

#include <weir/rules.h>

#define WR_TRACE_ID 32
#define WR_SPAN_ID 16

struct wr_trace {
	bool known;
	char trace_id
		[WR_TRACE_ID]; /* lower-case hexadecimal digits, without a zero byte at the end */
	char span_id[WR_SPAN_ID];
};

/* Reads the value of `traceparent`. Sets trace->known to true if the value is valid, otherwise to
 * false, and returns trace->known. Callers ignore a malformed value, because clients may send
 * anything. */
bool wr_trace_read(struct weir_str traceparent, struct wr_trace *trace);

#endif
