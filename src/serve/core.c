/* Implements core.h: references to a core, which is the service's table with its engine. */
#include "serve/core.h"

#include <stdlib.h>

#include "base/assert.h"

struct wr_core *wr_core_new(struct weir_table *table, struct weir_engine *engine)
{
	struct wr_core *core = malloc(sizeof *core);

	wr_assert(table && engine);
	if (core)
		*core = (struct wr_core){.table = table, .engine = engine, .refs = 1};
	return core;
}

void wr_core_hold(struct wr_core *core)
{
	unsigned before = __atomic_fetch_add(&core->refs, 1, __ATOMIC_RELAXED);

	wr_assert(before > 0);
}

/* The decrement has acquire and release order, so that the thread that frees the core sees all
 * writes of the threads that had a reference. */
void wr_core_release(struct wr_core *core)
{
	unsigned before;

	if (!core)
		return;
	before = __atomic_fetch_sub(&core->refs, 1, __ATOMIC_ACQ_REL);
	wr_assert(before > 0);
	if (before > 1)
		return;
	weir_engine_free(core->engine);
	weir_close(core->table);
	free(core);
}

static void free_ref(struct wr_core_ref *ref)
{
	wr_core_release(ref->core);
	free(ref);
}

int wr_core_refs_move(struct wr_core_refs *refs, struct wr_core *core)
{
	struct wr_core_ref *ref = malloc(sizeof *ref);
	struct wr_core_ref *before = refs->current;

	wr_assert(core);
	if (!ref) {
		wr_core_release(core);
		return -1;
	}
	*ref = (struct wr_core_ref){.core = core};
	refs->current = ref;
	if (before && before->asks == 0)
		free_ref(before);
	return 0;
}

struct wr_core_ref *wr_core_ref_take(struct wr_core_refs *refs)
{
	wr_assert(refs->current);
	refs->current->asks++;
	return refs->current;
}

void wr_core_ref_drop(struct wr_core_refs *refs, struct wr_core_ref *ref)
{
	wr_assert(ref->asks > 0);
	if (--ref->asks == 0 && ref != refs->current)
		free_ref(ref);
}

void wr_core_refs_free(struct wr_core_refs *refs)
{
	if (!refs->current)
		return;
	wr_assert(refs->current->asks == 0);
	free_ref(refs->current);
	refs->current = NULL;
}
