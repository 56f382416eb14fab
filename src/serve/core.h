/* The table and engine that decide requests.
 *
 * A core is a table with its engine. When the table is resized, the service opens a new core;
 * requests in flight finish in the core in which they began. Each loop has its own reference to the
 * current core and counts its requests in that reference, so loops do not write to the same memory
 * word. */
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

/* Returns a core that owns the table and the engine. The caller holds the core's only reference. If
 * there is no memory, returns NULL, and the caller still owns table and engine. */
struct wr_core *wr_core_new(struct weir_table *table, struct weir_engine *engine);
void wr_core_hold(struct wr_core *core);
void wr_core_release(struct wr_core *core); /* the last release frees table and engine */

/* A loop's reference to a core. */
struct wr_core_ref {
	struct wr_core *core;
	size_t asks; /* number of the loop's requests in flight in this core */
};

struct wr_core_refs {
	struct wr_core_ref *current;
};

/* Makes `core` the loop's current core and takes over the caller's reference to `core`. Returns 0.
 * If there is no memory, releases the reference, leaves the old core current, and returns a
 * negative number. */
int wr_core_refs_move(struct wr_core_refs *refs, struct wr_core *core);

/* Counts a request in flight in the loop's reference to the current core, and returns that
 * reference. The caller passes the reference to wr_core_ref_drop when the request ends. */
struct wr_core_ref *wr_core_ref_take(struct wr_core_refs *refs);
void wr_core_ref_drop(struct wr_core_refs *refs, struct wr_core_ref *ref);

/* Releases the current core. Called when no request is in flight. */
void wr_core_refs_free(struct wr_core_refs *refs);

#endif
