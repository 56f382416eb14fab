/* The decision log: refusals up to a rate, and a share of everything else, a line of JSON each.
 *
 * A loop never waits for it. Each has a ring that only it fills and only the writing thread
 * empties; a line that finds no room there is lost, and that is counted. */
#ifndef WR_SERVE_DECIDE_LOG_H
#define WR_SERVE_DECIDE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/engine.h>

#include "serve/settings.h"
#include "wire/check/decision_json.h"

struct wr_decision_log;

/* A loop's part of it. */
struct wr_decision_lane;

/* X(field, name in metrics, what it counts) */
#define WR_DECISION_LOG_TALLY(X)                                                                   \
	X(written, "written", "lines written")                                                     \
	X(lost, "lost", "lines for which there was no room, or that could not be written")         \
	X(held, "over_rate", "refusals left out because there were too many in their second")

struct wr_decision_log_tally {
#define WR_DECISION_LOG_FIELD(field, name, what) uint64_t field;
	WR_DECISION_LOG_TALLY(WR_DECISION_LOG_FIELD)
#undef WR_DECISION_LOG_FIELD
};

/* Opens the file that the settings name; *opened is NULL if they name none. */
int wr_decision_log_open(const struct wr_settings *settings, unsigned loops,
			 struct wr_decision_log **opened, struct weir_error *error);

/* The file becomes the user's, so that he can open it again. */
void wr_decision_log_give(struct wr_decision_log *log, uid_t uid, gid_t gid);

/* Starts the writing thread. */
int wr_decision_log_start(struct wr_decision_log *log);

/* Opens the file anew, when it has been moved away. Any thread. */
void wr_decision_log_reopen(struct wr_decision_log *log);

/* Writes what is in the rings, for a second at most, and ends. No loop runs any more. NULL is fine.
 */
void wr_decision_log_close(struct wr_decision_log *log);

void wr_decision_log_sum(struct wr_decision_log *log, struct wr_decision_log_tally *tally);

/* ---- for loops ---- */

/* NULL if `log` is. */
struct wr_decision_lane *wr_decision_lane(struct wr_decision_log *log, unsigned loop);

/* What was decided, if it is to be told. The view lacks `keys` and `sampled_ppm`. */
void wr_decision_note(struct wr_decision_lane *lane, struct wr_decision_view *view);

#endif
