/* Finds the counters that a struct weir_target selects. Called by control.c and peek.c. */
#include "limiter/scope.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/versioned.h"
#include "base/str.h"

static int check_target(const struct weir_engine *engine, const struct weir_target *target,
			uint64_t now_ns, struct weir_error *error)
{
	if (!engine || (!target->entries && target->count) ||
	    (!target->domain.ptr && target->domain.len) ||
	    (!target->limit.ptr && target->limit.len))
		return wr_error(error, WEIR_EINVAL,
				"the engine, or a text or the entries of the target, is NULL");
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	if (now_ns > INT64_MAX)
		return wr_error(error, WEIR_ETIME, "now_ns is beyond 2^63-1");
	return 0;
}

int wr_scope_open(struct wr_scope *scope, struct weir_engine *engine,
		  const struct weir_target *given, uint64_t now_ns, struct weir_error *error)
{
	struct weir_target *target = &scope->target;
	int rc;

	scope->ask = NULL;
	if (!given ||
	    !wr_versioned_read(given, target, sizeof *target, offsetof(struct weir_target, limit)))
		return wr_error(error, WEIR_EINVAL,
				"the target is NULL, or target->size is not %zu", sizeof *target);
	rc = check_target(engine, target, now_ns, error);
	if (rc < 0)
		return rc;
	rc = weir_ask_init(scope->memory, sizeof scope->memory, engine, target->domain,
			   &scope->ask);
	if (rc < 0)
		return wr_error(error, rc, "%s", weir_strerror(rc));
	rc = weir_ask_add(scope->ask, target->entries, target->count, target->override, 0);
	if (rc < 0) {
		weir_ask_done(scope->ask);
		return wr_error(error, rc, "%s", weir_strerror(rc));
	}
	scope->ask->now_ns = now_ns;
	wr_ask_open_windows(scope->ask);
	return 0;
}

int wr_scope_visit(struct weir_engine *engine, const struct weir_target *target, uint64_t now_ns,
		   wr_scope_fn fn, void *context, struct weir_error *error)
{
	struct wr_scope scope;
	int rc = wr_scope_open(&scope, engine, target, now_ns, error);

	if (rc < 0)
		return rc;
	rc = wr_scope_each(&scope, fn, context, error);
	wr_scope_close(&scope);
	return rc;
}

int wr_scope_check_moved(const struct weir_engine *engine, struct weir_error *error)
{
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	return weir_moved(engine->table)
		       ? wr_error(error, WEIR_EMOVED,
				  "the table was resized during the call: open it again and "
				  "repeat the call")
		       : 0;
}

void wr_scope_close(struct wr_scope *scope)
{
	weir_ask_done(scope->ask);
}

bool wr_scope_means(const struct wr_scope *scope, const struct wr_ask_need *need)
{
	struct weir_str wanted = scope->target.limit;

	if (wanted.len == 0)
		return true;
	return need->rule &&
	       (wr_str_equal(need->rule->name, wanted) || wr_str_equal(need->rule->stat, wanted));
}

int wr_scope_each(const struct wr_scope *scope, wr_scope_fn fn, void *context,
		  struct weir_error *error)
{
	int count = 0;

	wr_assert(scope->ask);
	for (uint8_t i = 0; i < scope->ask->need_count; i++) {
		int rc;

		if (!wr_scope_means(scope, &scope->ask->needs[i]))
			continue;
		rc = fn(context, scope, &scope->ask->needs[i]);
		if (rc != 0)
			return rc;
		count++;
	}
	if (count == 0)
		return wr_error(error, WEIR_ENOENT,
				"no limit applies to this descriptor, or no limit has that name");
	return count;
}
