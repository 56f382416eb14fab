/* The decision log. Each refusal is logged as a line of JSON, up to a maximum number of refusals
 * per second. A random sample of the other decisions is logged too.
 *
 * A loop never waits for the log. Each loop writes log lines into a ring of its own, which the
 * writer thread empties. A log line that does not fit into the ring is lost, and is counted as
 * lost. */
#ifndef WR_SERVE_DECIDE_LOG_H
#define WR_SERVE_DECIDE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/engine.h>

#include "serve/settings.h"
#include "wire/check/decision_json.h"

struct wr_serve_decision_log;

/* The part of the log that belongs to one loop. */
struct wr_serve_decision_lane;

/* X(field, name in metrics, description): the counters of the log. */
#define WR_DECISION_LOG_TALLY(X)                                                                   \
	X(written, "written", "lines written")                                                     \
	X(lost, "lost", "lines for which there was no room, or that could not be written")         \
	X(held, "over_rate", "refusals left out because there were too many in their second")

struct wr_serve_decision_log_tally {
#define WR_DECISION_LOG_FIELD(field, name, what) uint64_t field;
	WR_DECISION_LOG_TALLY(WR_DECISION_LOG_FIELD)
#undef WR_DECISION_LOG_FIELD
};

/* Opens the file of --decision-log and sets *opened to a new log. Without that option, sets *opened
 * to NULL. Returns 0, WEIR_EINVAL, WEIR_ESYS or WEIR_EMEMORY. */
int wr_serve_decision_log_open(const struct wr_settings *settings, unsigned loops,
			       struct wr_serve_decision_log **opened, struct weir_error *error);

/* Changes the owner of the log file, so that the service can open the file again after the process
 * has changed its user. */
void wr_serve_decision_log_give(struct wr_serve_decision_log *log, uid_t uid, gid_t gid);

/* Starts the writer thread. */
int wr_serve_decision_log_start(struct wr_serve_decision_log *log);

/* Makes the writer thread open the file again, after a log rotation. Any thread may call. */
void wr_serve_decision_log_reopen(struct wr_serve_decision_log *log);

/* Writes the lines that are still in the rings, for at most a second, and frees the log. Called
 * after all loops have ended. `log` may be NULL. */
void wr_serve_decision_log_close(struct wr_serve_decision_log *log);

void wr_serve_decision_log_sum(struct wr_serve_decision_log *log,
			       struct wr_serve_decision_log_tally *tally);

/* ---- functions for loops ---- */

/* Returns the part of the log that belongs to this loop, or NULL if `log` is NULL. */
struct wr_serve_decision_lane *wr_serve_decision_lane(struct wr_serve_decision_log *log,
						      unsigned loop);

/* Logs a refusal, unless the maximum number of refusals for this second has been logged. Logs any
 * other decision if it is in the random sample. Sets view->keys and view->sampled_ppm. */
void wr_serve_decision_note(struct wr_serve_decision_lane *lane, struct wr_decision_view *view);

/* Logs the settlement of a request, if it is in the random sample. The sample is drawn anew, so the
 * log can have the decision on a request without its settlement. Does nothing if no cost was
 * settled. Called after the ask was settled or cancelled, and before weir_ask_done. Sets view->keys
 * and view->sampled_ppm. */
void wr_serve_decision_note_settled(struct wr_serve_decision_lane *lane,
				    struct wr_decision_view *view);

#endif
