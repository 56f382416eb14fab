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

/* Takes ownership of table and engine and returns a core with one reference, which the caller
 * holds. On failure (no memory), returns NULL, and the caller still owns table and engine. */
struct wr_core *wr_core_new(struct weir_table *table, struct weir_engine *engine);
void wr_core_hold(struct wr_core *core);
void wr_core_release(struct wr_core *core); /* the last release frees table and engine */

struct wr_core_ref {
	struct wr_core *core;
	size_t asks; /* requests in flight in this core */
};

struct wr_core_refs {
	struct wr_core_ref *current;
};

/* Makes `core` current and takes over the caller's reference to it. Returns 0. On failure (no
 * memory), returns a negative number, releases the reference and leaves the old core current. */
int wr_core_refs_move(struct wr_core_refs *refs, struct wr_core *core);

struct wr_core_ref *wr_core_ref_take(struct wr_core_refs *refs);
void wr_core_ref_drop(struct wr_core_refs *refs, struct wr_core_ref *ref);

/* The caller makes sure that no request is in flight. */
void wr_core_refs_free(struct wr_core_refs *refs);

#endif
