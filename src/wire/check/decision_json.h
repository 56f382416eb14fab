/* A decision as a line of JSON, for a log:
 *
 *   {"time":"2026-11-16T09:33:12.104Z","verdict":"refuse","domain":"api","rule":"api/user/1h",
 *    "key":"user=7","algorithm":"fixed_window","limit":3,"remaining":0,"retry_after":1607.896,
 *    "via":"grpc","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}
 *
 * The line shows the tightest limit, which refused if the request was refused. If a limit in shadow
 * mode would have refused, the line shows that limit. */
#ifndef WR_WIRE_CHECK_DECISION_JSON_H
#define WR_WIRE_CHECK_DECISION_JSON_H

#include <weir/engine.h>

#include "base/buffer.h"
#include "wire/trace.h"

#define WR_DECISION_LINE 8192u /* no line is longer: names are cut at 512 bytes */
#define WR_DECISION_KEPT                                                                           \
	1024u /* memory for wr_ask_set_log_memory; WEIR_ASK_BYTES have it to spare */

struct wr_decision_view {
	const struct weir_ask *ask; /* decided */
	uint64_t now_ns;
	const char *via;      /* grpc, http, forward_auth, resp */
	unsigned keys;        /* enum weir_engine_keys */
	unsigned sampled_ppm; /* how many decisions of this kind, in a million, are logged */
	bool enforced;        /* false: the service is in shadow mode, and lets everything pass */
	const struct wr_trace *trace;
};

/* Whether the decision is counted: one that only looks or gives back is not. */
bool wr_decision_counts(const struct weir_ask *ask);

/* Whether the request was refused or deferred, or would have been if the rule were enforced. */
bool wr_decision_refused(const struct weir_ask *ask);

/* Appends the line with its line feed. */
void wr_decision_json(const struct wr_decision_view *view, struct wr_buf *line);

#endif
