/* weir_control_pause, weir_control_resume and weir_control_paused. A pause has a name. It applies
 * to the limits whose name in statistics is equal to the pause's name, or begins with the pause's
 * name and a slash. */
#include "table/pause.h"

#include <stdio.h>

#include <weir/control.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "limiter/scope.h"

#define HASH_TEXT 17u /* length of "#" and 16 digits */

bool wr_ask_need_is_paused(const struct weir_ask *ask, const struct wr_ask_need *need,
			   unsigned pausing)
{
	char text[WR_STAT_NAME_MAX + 1];
	struct weir_str name =
		need->rule ? need->rule->stat : wr_limiter_overrides_stat(ask->domain, text);

	return pausing & WR_PAUSING_ALL || wr_pause_covers(ask->engine->table, name);
}

static bool is_hash(struct weir_str rule, uint64_t *hash)
{
	*hash = 0;
	if (rule.len != HASH_TEXT || rule.ptr[0] != '#')
		return false;
	for (size_t i = 1; i < rule.len; i++) {
		int digit = wr_hex(rule.ptr[i]);

		if (digit < 0)
			return false;
		*hash = *hash << 4 | (uint64_t)digit;
	}
	return *hash != 0;
}

static int check_arguments(const struct weir_engine *engine, struct weir_str rule,
			   struct weir_error *error)
{
	if (!engine || (!rule.ptr && rule.len))
		return wr_error(error, WEIR_EINVAL, "the engine or the text of the rule is NULL");
	wr_assert_magic(engine, WR_ENGINE_MAGIC);
	return 0;
}

int weir_control_pause(struct weir_engine *engine, struct weir_str rule, struct weir_error *error)
{
	int rc = check_arguments(engine, rule, error);

	if (rc < 0)
		return rc;
	if (rule.len == 0)
		wr_pause_all(engine->table, true);
	else if (!wr_pause_add(engine->table, wr_pause_hash(rule.ptr, rule.len)))
		return wr_error(error, WEIR_EMANY,
				"%d names are paused already: resume one, or pause everything",
				WEIR_PAUSES_MAX);
	return wr_scope_check_moved(engine, error);
}

static bool resume_name(struct weir_table *table, struct weir_str rule)
{
	uint64_t hash;

	if (rule.len == 0)
		return wr_pause_all(table, false);
	if (wr_pause_drop(table, wr_pause_hash(rule.ptr, rule.len)))
		return true;
	return is_hash(rule, &hash) && wr_pause_drop(table, hash);
}

int weir_control_resume(struct weir_engine *engine, struct weir_str rule, struct weir_error *error)
{
	int rc = check_arguments(engine, rule, error);

	if (rc < 0)
		return rc;
	if (!resume_name(engine->table, rule))
		return wr_error(error, WEIR_ENOENT, "'%.*s' is not paused",
				rule.len < 200 ? (int)rule.len : 200, rule.len ? rule.ptr : "");
	return wr_scope_check_moved(engine, error);
}

/* Looks for a name in statistics, or a prefix of such a name, that has this hash. If one is found,
 * sets *found to it and returns true. Otherwise returns false. */
static bool find_name(const struct wr_stats *stats, uint64_t hash, char text[WR_STAT_NAME_MAX + 1],
		      struct weir_str *found)
{
	for (uint32_t slot = WEIR_STAT_RULES; stats->usable && slot < stats->map.name_count;
	     slot++) {
		struct weir_str name;

		if (!wr_stats_name(&stats->map, slot, text, &name))
			continue;
		for (size_t len = wr_pause_next_part(name, 0); len;
		     len = wr_pause_next_part(name, len))
			if (wr_pause_hash(name.ptr, len) == hash) {
				*found = wr_str_first(name, len);
				return true;
			}
	}
	return false;
}

static int report_pause(const struct weir_engine *engine, uint64_t hash, weir_pause_fn fn,
			void *context)
{
	char text[WR_STAT_NAME_MAX + 1];
	struct weir_str name;

	if (!find_name(&engine->stats, hash, text, &name)) {
		snprintf(text, sizeof text, "#%016llx", (unsigned long long)hash);
		name = (struct weir_str){text, HASH_TEXT};
	}
	return fn(context, name);
}

int weir_control_paused(struct weir_engine *engine, weir_pause_fn fn, void *context)
{
	const struct wr_control *control;
	int rc = 0;

	if (!engine || !fn)
		return WEIR_EINVAL;
	control = engine->table->control;
	if (wr_pause_state(engine->table) & WR_PAUSING_ALL)
		rc = fn(context, WR_STR(""));
	for (unsigned i = 0; i < WR_PAUSES && rc == 0; i++) {
		uint64_t hash = __atomic_load_n(&control->paused[i], __ATOMIC_ACQUIRE);

		if (hash)
			rc = report_pause(engine, hash, fn, context);
	}
	return rc;
}
