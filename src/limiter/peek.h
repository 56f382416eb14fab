/* The counters of a target as they are, those that the central store keeps included: what to ask it
 * without taking anything, and what its answer says. */
#ifndef WR_LIMITER_PEEK_H
#define WR_LIMITER_PEEK_H

#include <weir/control.h>

struct wr_peek;

/* The target has to stay until it is closed. Errors as in weir/control.h, and WEIR_EMEMORY. */
int wr_peek_open(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		 struct wr_peek **made, struct weir_error *error);
void wr_peek_close(struct wr_peek *peek);

/* A question to the store, in the format of limiter/question.h. Returns how many bytes, 0: there is
 * nothing to ask, or WEIR_EROOM. */
int wr_peek_question(const struct wr_peek *peek, void *bytes, size_t cap);

/* What the store said. Bytes that are no answer to the question are left out. */
void wr_peek_answer(struct wr_peek *peek, const void *bytes, size_t len);

/* As weir_control_get; with WEIR_COUNTER_STORE what the store answered for. */
int wr_peek_show(const struct wr_peek *peek, weir_counter_fn fn, void *context);

#endif
