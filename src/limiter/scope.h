/* Whose counters an operator means: those of a descriptor, found out as for a request, by an ask
 * that is never decided. */
#ifndef WR_LIMITER_SCOPE_H
#define WR_LIMITER_SCOPE_H

#include <weir/control.h>

#include "limiter/ask.h"

/* A target and the limits that apply to it. */
struct wr_scope {
	_Alignas(struct weir_ask) char memory[sizeof(struct weir_ask)];
	struct weir_ask *ask;
	struct weir_target target; /* its texts and entries are the caller's */
};

/* What is done to one counter; 0 goes on. */
typedef int (*wr_scope_fn)(void *context, const struct wr_scope *scope,
			   const struct wr_ask_need *need);

/* The target has to stay until it is closed. Errors as in weir/control.h. */
int wr_scope_open(struct wr_scope *scope, struct weir_engine *engine,
		  const struct weir_target *target, uint64_t now_ns, struct weir_error *error);
void wr_scope_close(struct wr_scope *scope);

/* Whether the target names this one of its limits. */
bool wr_scope_means(const struct wr_scope *scope, const struct wr_ask_need *need);

/* Does it to every counter that is meant. Returns how many those were, what `fn` ended with, or
 * WEIR_ENOENT. */
int wr_scope_each(const struct wr_scope *scope, wr_scope_fn fn, void *context,
		  struct weir_error *error);

/* When a ban or a grant ends; 0: there is none. */
static inline uint64_t wr_override_end_ns(uint32_t until_s)
{
	return until_s == WR_FOR_GOOD ? WEIR_NEVER : until_s * 1000000000ull;
}

#endif
