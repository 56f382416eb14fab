/* Finds the counters that a struct weir_target (weir/control.h) selects. To find them, its
 * descriptor is added to an ask that is never decided. */
#ifndef WR_LIMITER_SCOPE_H
#define WR_LIMITER_SCOPE_H

#include <weir/control.h>

#include "limiter/ask.h"

/* A struct weir_target, and an ask with the limits that apply to its descriptor. */
struct wr_scope {
	_Alignas(struct weir_ask) char memory[sizeof(struct weir_ask)];
	struct weir_ask *ask;
	struct weir_target target; /* its texts and entries belong to the caller */
};

/* Called for each counter. The callback returns 0 to continue, or another value to end the
 * iteration. */
typedef int (*wr_scope_fn)(void *context, const struct wr_scope *scope,
			   const struct wr_ask_need *need);

/* Finds the limits that apply to the descriptor in *given. Texts and entries of *given must stay
 * valid until wr_scope_close. Returns 0, or an error that weir/control.h lists for functions with a
 * `target`. After success the caller must call wr_scope_close. */
int wr_scope_open(struct wr_scope *scope, struct weir_engine *engine,
		  const struct weir_target *given, uint64_t now_ns, struct weir_error *error);
void wr_scope_close(struct wr_scope *scope);

/* Returns whether scope->target selects the limit of this need. If scope->target names no limit, it
 * selects every limit. */
bool wr_scope_means(const struct wr_scope *scope, const struct wr_ask_need *need);

/* Calls `fn` for each counter that scope->target selects, and returns the number of these counters.
 * If `fn` returns a value other than 0, stops and returns this value. If no counter is selected,
 * returns WEIR_ENOENT. */
int wr_scope_each(const struct wr_scope *scope, wr_scope_fn fn, void *context,
		  struct weir_error *error);

/* Opens a scope, calls `fn` for each counter that *target selects, and closes the scope. Returns
 * the result of wr_scope_each, or an error of wr_scope_open. */
int wr_scope_visit(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		   wr_scope_fn fn, void *context, struct weir_error *error);

/* Called at the end of a function that has changed the table. Returns WEIR_EMOVED if the table was
 * resized meanwhile, because the new table may lack the change. Otherwise returns 0. */
int wr_scope_check_moved(const struct weir_engine *engine, struct weir_error *error);

/* Converts the end of a ban or grant from seconds to ns. 0 stays 0 and means that there is no ban
 * or grant. */
static inline uint64_t wr_limiter_override_end_ns(uint32_t until_s)
{
	return until_s == WR_FOR_GOOD ? WEIR_NEVER : until_s * 1000000000ull;
}

#endif
