/* The trace of a request, from the W3C's header field `traceparent`.
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
	char trace_id[WR_TRACE_ID]; /* in lower case, without a zero at the end */
	char span_id[WR_SPAN_ID];
};

/* Reads the value of `traceparent`. Returns false if the value is malformed. The caller then
 * ignores the field, because clients may send any value. */
bool wr_trace_read(struct weir_str traceparent, struct wr_trace *trace);

#endif
