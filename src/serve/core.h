/* The table and engine that decide requests.
 *
 * A core is a table with its engine. A resized table makes a new core; requests in flight finish in
 * the core they began in. Each loop has its own reference to the current core and counts its own
 * requests there, so requests of different loops share no memory word. */
#ifndef WR_SERVE_CORE_H
#define WR_SERVE_CORE_H

#include <stddef.h>

#include <weir/engine.h>
#include <weir/weir.h>

struct wr_core {
	struct weir_table *table;
	struct weir_engine *engine;
	unsigned refs;
};

/* Owns table and engine from here on. The caller holds the first reference. Returns NULL without
 * memory; the caller keeps both then. */
struct wr_core *wr_core_new(struct weir_table *table, struct weir_engine *engine);
void wr_core_hold(struct wr_core *core);
void wr_core_release(struct wr_core *core); /* the last release frees table and engine */

struct wr_core_ref {
	struct wr_core *core;
	size_t asks; /* requests in flight */
};

struct wr_core_refs {
	struct wr_core_ref *current;
};

/* Makes `core` current and takes over the caller's reference to it. Returns 0. Below 0: no memory; the
 * reference is released and the old core stays current. */
int wr_core_refs_move(struct wr_core_refs *refs, struct wr_core *core);

struct wr_core_ref *wr_core_ref_take(struct wr_core_refs *refs);
void wr_core_ref_drop(struct wr_core_refs *refs, struct wr_core_ref *ref);

/* Call it when no request is in flight. */
void wr_core_refs_free(struct wr_core_refs *refs);

#endif
