/* Which trace a request belongs to: the W3C's `traceparent`.
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
	char trace_id[WR_TRACE_ID]; /* as they were written, in lower case; no zero behind them */
	char span_id[WR_SPAN_ID];
};

/* False: it is not one, and nobody is told; a client may send what it likes. */
bool wr_trace_read(struct weir_str traceparent, struct wr_trace *trace);

#endif
