/* Writes a decision as one line of JSON, for the decision log:
 *
 *   {"time":"2026-11-16T09:33:12.104Z","verdict":"refuse","domain":"api","rule":"api/user/1h",
 *    "key":"user=7","algorithm":"fixed_window","limit":3,"remaining":0,"retry_after":1607.896,
 *    "via":"grpc","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}
 *
 * The line shows one limit, or the reason why no limit was applied. If a limit refused the request,
 * the line shows this limit. If the request was admitted but a limit in shadow mode would have
 * refused it, the line shows the limit in shadow mode. Otherwise the line shows the limit with the
 * fewest units remaining (weir_ask_tightest).
 *
 * The settlement of a request whose cost is known only after the response is a line of its own:
 *
 *   {"time":"2026-11-16T09:33:14.310Z","verdict":"settle","domain":"api","rule":"api/tenant/1m",
 *    "key":"tenant=7","algorithm":"token_bucket","reserved":2000,"actual":512,"refunded":1488,
 *    "debt":0,"via":"http"}
 */
#ifndef WR_WIRE_CHECK_DECISION_JSON_H
#define WR_WIRE_CHECK_DECISION_JSON_H

#include <weir/engine.h>

#include "base/buffer.h"
#include "wire/trace.h"

#define WR_DECISION_LINE 8192u /* maximum length of a line; names are cut at 512 bytes */
/* Size of the memory that is passed to wr_ask_set_log_memory, for the texts of descriptors. An ask
 * and this memory are allocated together, and together have at most WEIR_ASK_BYTES. */
#define WR_DECISION_TEXT_BYTES 1024u

struct wr_decision_view {
	const struct weir_ask *ask; /* the ask, which has been decided */
	uint64_t now_ns;
	const char *via; /* protocol of the request: "grpc", "http", "forward_auth" or "resp" */
	unsigned keys;   /* enum weir_engine_keys: whether and how the line shows the key */
	/* the chance with which this decision was selected for the log, in parts of a million:
	 * 1000000 if wr_decision_refused() is true, otherwise the chance of the random sample */
	unsigned sampled_ppm;
	bool enforced; /* false: the service is in shadow mode and lets every request pass */
	const struct wr_trace *trace;
};

/* Returns whether the statistics count the decision. They do not count a decision that only reads
 * counters or gives units back. */
bool wr_decision_counts(const struct weir_ask *ask);

/* Returns whether the request was refused or deferred, or whether a limit in shadow mode would have
 * refused it. */
bool wr_decision_refused(const struct weir_ask *ask);

/* Appends the JSON object and a line feed to `line`. */
void wr_decision_json(const struct wr_decision_view *view, struct wr_buf *line);

/* Returns whether the ask was settled, and a limit on units was among its limits. */
bool wr_decision_has_settlement(const struct weir_ask *ask);

/* Appends the settlement as a JSON object and a line feed. The line shows the limit whose counter
 * was changed by the most units. The caller has checked wr_decision_has_settlement(). */
void wr_decision_settlement_json(const struct wr_decision_view *view, struct wr_buf *line);

/* Returns the name of a verdict: "admit", "delay", "defer" or "refuse". */
struct weir_str wr_decision_verdict_name(int verdict);

#endif
