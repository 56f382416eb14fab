/* A decision as a line of JSON, for a log:
 *
 *   {"time":"2026-11-16T09:33:12.104Z","verdict":"refuse","domain":"api","rule":"api/user/1h",
 *    "key":"user=7","algorithm":"fixed_window","limit":3,"remaining":0,"retry_after":1607.896,
 *    "via":"grpc","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}
 *
 * It is about the tightest limit, which refused if the request was refused; or, where one in shadow
 * mode would have refused, about that one. */
#ifndef WR_WIRE_CHECK_DECISION_JSON_H
#define WR_WIRE_CHECK_DECISION_JSON_H

#include <weir/engine.h>

#include "limiter/text.h"
#include "wire/trace.h"

#define WR_DECISION_LINE 8192u /* no line is longer: names are cut at 512 bytes */
#define WR_DECISION_KEPT                                                                           \
	1024u /* memory for wr_ask_set_log_memory; WEIR_ASK_BYTES have it to spare */

struct wr_decision_view {
	const struct weir_ask *ask; /* decided */
	uint64_t now_ns;
	const char *via;      /* grpc, http, forward_auth, resp */
	unsigned keys;        /* enum weir_engine_keys */
	unsigned sampled_ppm; /* of decisions like this one, so many in a million are told */
	bool enforced;        /* false: the service is in shadow mode, and lets everything pass */
	const struct wr_trace *trace;
};

/* Whether it is counted: what only looks or gives back is not. */
bool wr_decision_counts(const struct weir_ask *ask);

/* Whether it was refused or put off, or would have been, were the rule enforced. */
bool wr_decision_refused(const struct weir_ask *ask);

/* The line with its line feed. */
void wr_decision_json(const struct wr_decision_view *view, struct wr_text *out);

#endif
