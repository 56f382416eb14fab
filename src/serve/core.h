/* Which table and engine a loop works on, and which its requests began with.
 *
 * A core is a table with its engine. When the table has been resized there is a new core;
 * requests end in the one they began in. Each loop holds a core it uses (its ref there) and
 * counts its own requests, so that no word is shared on the way of a request. */
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

/* Owns both from here on; held once. NULL: no memory. */
struct wr_core *wr_core_new(struct weir_table *table, struct weir_engine *engine);
void wr_core_hold(struct wr_core *core);
void wr_core_release(struct wr_core *core); /* the last one frees table and engine */

struct wr_core_ref {
	struct wr_core *core;
	size_t asks; /* requests under way */
};

struct wr_core_refs {
	struct wr_core_ref *current;
};

/* Takes over the caller's hold on the core. Below 0: no memory, and the hold is released. */
int wr_core_refs_move(struct wr_core_refs *refs, struct wr_core *core);

struct wr_core_ref *wr_core_ref_take(struct wr_core_refs *refs);
void wr_core_ref_drop(struct wr_core_refs *refs, struct wr_core_ref *ref);

/* No request is under way any more. */
void wr_core_refs_free(struct wr_core_refs *refs);

#endif
