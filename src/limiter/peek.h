/* Reads the counters that a struct weir_target selects, including counters in the central store.
 * Takes no units. */
#ifndef WR_LIMITER_PEEK_H
#define WR_LIMITER_PEEK_H

#include <weir/control.h>

struct wr_peek;

/* Finds the counters that *target selects. Its texts and entries must stay valid until
 * wr_peek_close. Returns 0, WEIR_EMEMORY, or an error of weir_control_get. */
int wr_peek_open(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		 struct wr_peek **made, struct weir_error *error);
void wr_peek_close(struct wr_peek *peek);

/* Reports that the host only tries its rules (see weir_ask_dry_run). The refusals and the level of
 * a key are then those of bans in shadow mode. */
void wr_peek_dry_run(struct wr_peek *peek);

/* Writes the question to the central store, in the format of limiter/question.h. Returns its
 * length, 0 if the central store has none of the counters, or WEIR_EROOM. */
int wr_peek_question(const struct wr_peek *peek, void *bytes, size_t cap);

/* Passes in the answer of the central store. Bytes that are not an answer to the question are
 * ignored. */
void wr_peek_answer(struct wr_peek *peek, const void *bytes, size_t len);

/* Calls `fn` for each counter, and returns the same values as weir_control_get. Counters whose
 * numbers are from the answer of the central store have the flag WEIR_COUNTER_STORE. */
int wr_peek_show(const struct wr_peek *peek, weir_counter_fn fn, void *context);

#endif
