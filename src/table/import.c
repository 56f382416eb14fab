/* Copies keys from one table file to another, for checkpoint, restore and resize. In a table of any
 * size, the rows of a key are computed from its tag, so cells can be copied one by one. Overrides
 * are copied separately, because each of them is in two cells. */
#include "base/versioned.h"
#include "table/ban.h"
#include "table/ban_order.h"
#include "table/deferred.h"
#include "table/file.h"
#include "table/override.h"
#include "table/pause.h"
#include "table/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

/* Number of tries to read a log. A try fails if another thread changes the log meanwhile. */
#define READ_TRIES 8

/* Reads the stamps of a log, oldest first, as they were at one moment. Returns the number of
 * stamps. Returns 0 if the fields of the block's word contradict each other or the size of the
 * block, or if the word changed during every try. */
static uint32_t read_log(const struct wr_table_log_block *log, uint64_t *stamps)
{
	for (int i = 0; i < READ_TRIES; i++) {
		struct wr_pair pair = wr_pair_load(&log->block->word);
		struct wr_table_log_word word = wr_table_log_word_of(pair);
		uint32_t slot = word.head;

		if (word.head >= log->capacity || word.count > log->capacity ||
		    word.pending > word.count)
			return 0;
		for (uint32_t k = word.count; k-- > 0;) {
			stamps[k] = k >= word.count - word.pending
					    ? word.newest_ns
					    : __atomic_load_n(&log->block->stamps[slot],
							      __ATOMIC_ACQUIRE);
			slot = slot ? slot - 1 : log->capacity - 1;
		}
		if (wr_pair_equal(pair, wr_pair_load(&log->block->word)))
			return word.count;
	}
	return 0;
}

/* Copies a ring into a block of the new table, and sets *log to the name of the block. If the new
 * table has no room for the ring, *log becomes a brief log. But a log that has to stay exact cannot
 * become brief, so *log becomes an empty log in this case. */
static void import_ring(struct weir_table *to, const struct weir_table *from,
			const struct wr_cell *cell, uint64_t now_ns, struct weir_state *log)
{
	struct wr_slab_wish wish = {.cell = cell};
	uint64_t name = log->s0, *stamps;
	struct wr_table_log_block old, taken;
	struct wr_table_log_word word;
	struct wr_brief brief;

	*log = (struct weir_state){0};
	if (!wr_slab_find(from, name, &old))
		return;
	stamps = malloc(old.capacity * sizeof *stamps);
	wish.stamps = stamps ? read_log(&old, stamps) : 0;
	wish.slot = (uint32_t)(wr_pair_load(&old.block->tenure).hi >> 32);
	if (wish.stamps && wr_slab_take(to, &wish, now_ns, &taken)) {
		memcpy(taken.block->stamps, stamps, wish.stamps * sizeof *stamps);
		word = wr_table_log_word_of(taken.block->word);
		word.newest_ns = stamps[wish.stamps - 1];
		word.head = wish.stamps - 1;
		word.count = wish.stamps;
		taken.block->word = wr_table_log_word_pair(word);
		log->s0 = taken.name;
	} else {
		if (wish.slot && wr_table_log_brief(&old, wr_pair_load(&old.block->word), wish.slot,
						    now_ns, &brief))
			*log = (struct weir_state){wr_brief_s0(&brief), wr_brief_s1(&brief)};
		wr_tally(&to->tallies->log_evicted);
	}
	free(stamps);
}

/* Copies the slots of a limit on concurrent requests into a block of the new table, and sets *state
 * to the name of the block. If the new table has no room, the state becomes empty. */
static void import_slots(struct weir_table *to, const struct weir_table *from,
			 const struct wr_cell *cell, uint64_t now_ns, struct weir_state *state)
{
	struct wr_slab_wish wish = {.cell = cell, .weight = WR_WEIGHT_ALL};
	struct wr_table_log_block old, taken;
	uint64_t name = state->s0;
	uint32_t s1 = state->s1;

	*state = (struct weir_state){0};
	if (!wr_slab_find(from, name, &old))
		return;
	wish.stamps = old.capacity;
	if (!wr_slab_take(to, &wish, now_ns, &taken)) {
		wr_tally(&to->tallies->log_evicted);
		return;
	}
	for (uint32_t i = 0; i < taken.capacity; i += 2) {
		struct wr_pair pair = {0};

		if (i < old.capacity)
			pair = wr_pair_load((struct wr_pair *)&old.block->stamps[i]);
		taken.block->stamps[i] = pair.lo;
		taken.block->stamps[i + 1] = pair.hi >> 32 << 32 | (uint32_t)taken.name;
	}
	/* If the block has got another key meanwhile, its slots may belong to that key. */
	if (!wr_block_is(old.block, name)) {
		wr_slab_release(to, taken.name);
		return;
	}
	*state = (struct weir_state){taken.name, s1};
}

static void import_cell(struct weir_table *to, const struct weir_table *from,
			const struct wr_cell *cell, uint32_t now_s)
{
	struct wr_pair id = wr_pair_load(&cell->id);
	struct wr_pair hot = wr_pair_load(&cell->hot);
	struct weir_state state = {hot.lo, wr_hot_s1(hot)};
	struct wr_key key = {id.lo};
	uint64_t fresh_ns = wr_id_fresh_s(id) * 1000000000ull;
	unsigned harm = wr_hot_harm(hot);
	struct wr_spot spot;

	if (wr_hot_state(hot) != WR_LIVE || wr_hot_version(hot) != wr_id_version(id) ||
	    wr_id_fresh_s(id) <= now_s || wr_hot_kind(hot) == WR_KIND_OVERRIDE)
		return;
	wr_table_claim(to, key, wr_hot_kind(hot), now_s, &spot);
	wr_cell_raise_fresh(spot.cell, fresh_ns, fresh_ns);
	if (wr_hot_names_block(hot) && wr_hot_has_slots(hot))
		import_slots(to, from, spot.cell, now_s * 1000000000ull, &state);
	else if (wr_hot_names_block(hot))
		import_ring(to, from, spot.cell, now_s * 1000000000ull, &state);
	/* In layout 1, harm was the used part of the limit, as a number from 0 to 254, or 255 for a
	 * refused key. */
	if (from->header.layout == WR_LAYOUT_SHARES)
		harm = harm == 255 ? WR_HARM_REFUSED | WR_HARM_MOST / 4 : harm / 8;
	/* Taking a block for this log may have evicted this cell. Then the swap fails, and nothing
	 * is written. */
	wr_pair_cas(&spot.cell->hot, &spot.hot, wr_hot_with(spot.hot, state.s0, state.s1, harm));
}

/* Copies every key that has not expired, and the overrides, bans, orders, pauses and numbers of deferred
 * requests. Other processes may use `from` meanwhile; `to` must have no name yet. */
static void import_table(struct weir_table *to, struct weir_table *from, uint32_t now_s)
{
	static const struct wr_control no_pauses;

	wr_assert(to != from);
	for (uint64_t r = 0; r < from->row_count; r++)
		for (unsigned i = 0; i < WR_CELLS; i++)
			import_cell(to, from, &from->rows[r].cell[i], now_s);
	wr_overrides_import(to, from, now_s);
	wr_bans_import(to, from, now_s);
	wr_ban_orders_import(to, from);
	wr_pauses_hand_over(to, from, &no_pauses);
	wr_deferred_import(to, from);
}

/* Creates a file at `paths` with the contents of `from`. */
static int copy_table(struct weir_table *from, const struct wr_table_paths *paths,
		      const struct wr_file_plan *plan, struct wr_fresh_file *fresh,
		      struct weir_error *error)
{
	int rc = wr_file_make(paths, plan, fresh, error);

	if (rc == 0)
		import_table(fresh->table, from, wr_seconds(plan->now_ns));
	return rc;
}

/* Fills *paths with the path and its folder, which is "." if the path contains no slash. */
static int paths_of(const char *path, struct wr_table_paths *paths, struct weir_error *error)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (strlen(path) >= sizeof paths->path || len >= sizeof paths->dir)
		return wr_error(error, WEIR_EINVAL, "the path is too long: %.80s…", path);
	memcpy(paths->dir, slash ? path : ".", slash ? len : 1);
	paths->dir[slash ? len : 1] = 0;
	if (slash && len == 0)
		memcpy(paths->dir, "/", 2);
	memcpy(paths->path, path, strlen(path) + 1);
	paths->owner = geteuid();
	paths->group = getegid();
	paths->mode = 0600;
	return 0;
}

int weir_checkpoint(struct weir_table *table, const char *path, uint64_t now_ns,
		    struct weir_error *error)
{
	struct wr_file_plan plan;
	struct wr_fresh_file fresh;
	struct wr_table_paths paths;
	int rc;

	if (!table || !path || !*path)
		return wr_error(error, WEIR_EINVAL, "a checkpoint needs a table and a path");
	plan = (struct wr_file_plan){.memory_bytes = table->header.memory_bytes,
				     .log_bytes = table->header.sections[WR_SECTION_SLAB].bytes,
				     .now_ns = now_ns,
				     .secret = table->secret};
	rc = paths_of(path, &paths, error);
	if (rc == 0)
		rc = copy_table(table, &paths, &plan, &fresh, error);
	if (rc != 0)
		return rc;
	if (fsync(fresh.fd) < 0)
		rc = wr_error_errno(error, WEIR_ESYS, "cannot write %s to the disk", path);
	if (rc == 0)
		rc = wr_file_replace(&fresh, path, error);
	wr_file_abandon(&fresh);
	return rc;
}

/* Writes the path of the previous layout's file, which is in the same folder: NAME.v1 for
 * NAME.v2. */
static void path_before(const struct wr_table_paths *paths, char path[sizeof paths->path])
{
	memcpy(path, paths->path, sizeof paths->path);
	path[strlen(path) - 1] = (char)('0' + WR_LAYOUT - 1);
}

/* Opens the file that a new table starts from: a checkpoint, or the table of the previous layout.
 * Returns WEIR_ENOENT if there is no such file. A table of the previous layout that cannot be read
 * is ignored. */
static int open_saved(const struct weir_opts *opts, const struct wr_table_paths *paths,
		      struct weir_table **saved, struct weir_error *error)
{
	char before[sizeof paths->path];
	int rc = WEIR_ENOENT;

	if (opts->restore_from)
		rc = wr_file_open(opts->restore_from, true, saved, error);
	if (rc != WEIR_ENOENT)
		return rc;
	path_before(paths, before);
	return wr_file_open(before, true, saved, NULL) == 0 ? 0 : WEIR_ENOENT;
}

/* Creates a new table, which is empty or has the contents of the file that open_saved() finds. */
static int make_table(const struct weir_opts *opts, const struct wr_table_paths *paths,
		      struct wr_fresh_file *fresh, struct weir_error *error)
{
	struct wr_file_plan plan = {.memory_bytes = opts->memory_bytes,
				    .log_bytes = opts->log_bytes,
				    .logs = opts->flags & WEIR_OPEN_LOGS,
				    .now_ns = opts->now_ns};
	struct weir_table *saved;
	int rc = open_saved(opts, paths, &saved, error);

	if (rc == WEIR_ENOENT)
		return wr_file_make(paths, &plan, fresh, error);
	if (rc < 0)
		return rc;
	plan.secret = saved->secret;
	plan.before = &saved->header;
	rc = copy_table(saved, paths, &plan, fresh, error);
	weir_close(saved);
	return rc;
}

/* Copies the caller's options and checks them. The caller's struct can have another size than
 * *opts, if the caller was compiled with an older or newer header. Returns 0 or WEIR_EINVAL. */
static int read_opts(const struct weir_opts *given, struct weir_opts *opts,
		     struct weir_error *error)
{
	if (!given ||
	    !wr_versioned_read(given, opts, sizeof *opts, offsetof(struct weir_opts, name)))
		return wr_error(error, WEIR_EINVAL,
				"opts->size must be %zu, or smaller for an older caller",
				sizeof *opts);
	if (opts->flags & ~(uint32_t)(WEIR_OPEN_EXISTING | WEIR_OPEN_LOGS))
		return wr_error(error, WEIR_EINVAL, "opts->flags has unknown bits: %#x",
				opts->flags);
	return 0;
}

int weir_open(const struct weir_opts *given, struct weir_table **table, struct weir_error *error)
{
	struct weir_opts known = {0}, *opts = &known;
	struct wr_fresh_file fresh;
	struct wr_table_paths paths;
	char before[sizeof paths.path];
	bool existing;
	int rc = read_opts(given, opts, error);

	if (rc < 0 || !table)
		return rc < 0 ? rc
			      : wr_error(error, WEIR_EINVAL, "the pointer for the table is NULL");
	existing = opts->flags & WEIR_OPEN_EXISTING;
	rc = wr_table_paths_find(opts->dir, opts->name, !existing, &paths, error);
	if (rc == 0)
		rc = wr_file_open(paths.path, false, table, error);
	if (rc != WEIR_ENOENT || existing)
		return rc;
	rc = make_table(opts, &paths, &fresh, error);
	if (rc < 0)
		return rc;
	if (wr_file_publish(&fresh, paths.path, error) == 0) {
		path_before(&paths, before);
		unlink(before); /* the new table contains the keys of this file */
		*table = fresh.table;
		return 0;
	}
	rc = errno == EEXIST ? wr_file_open(paths.path, false, table, error) : WEIR_ESYS;
	wr_file_abandon(&fresh);
	return rc;
}

/* Gives the new table the name of the old table, and copies the changes that an operator has made
 * in the old table meanwhile. An operator's command first writes to the old table and then checks
 * whether the table was superseded. This function first marks the old table as superseded and then
 * reads the changes. So either the operator is asked to repeat the change, or the change is
 * copied. */
static int supersede_table(struct weir_table *old, struct wr_fresh_file *fresh, const char *path,
			   uint32_t now_s, struct weir_error *error)
{
	struct wr_control pauses = *fresh->table->control;
	uint64_t orders_end = wr_ban_order_end(fresh->table);
	struct wr_override_list overrides;
	int rc;

	fresh->table->tallies->fleet = __atomic_load_n(&old->tallies->fleet, __ATOMIC_RELAXED);
	fresh->table->tallies->reset_ns =
		__atomic_load_n(&old->tallies->reset_ns, __ATOMIC_RELAXED);
	if (!wr_overrides_collect(fresh->table, now_s, &overrides))
		rc = wr_error(error, WEIR_EMEMORY, "no memory to carry bans and grants over");
	else
		rc = wr_file_replace(fresh, path, error);
	if (rc == 0) {
		__atomic_store_n(&old->tallies->superseded, 1, __ATOMIC_SEQ_CST);
		wr_overrides_hand_over(fresh->table, old, &overrides, now_s);
		wr_bans_import(fresh->table, old, now_s);
		wr_ban_orders_hand_over(fresh->table, old, orders_end);
		wr_pauses_hand_over(fresh->table, old, &pauses);
		wr_deferred_import(fresh->table, old);
	}
	free(overrides.items);
	return rc;
}

int weir_resize(const struct weir_opts *given, uint64_t now_ns, struct weir_error *error)
{
	struct weir_opts known = {0}, *opts = &known;
	struct wr_fresh_file fresh;
	struct wr_file_plan plan;
	struct weir_table *old;
	struct wr_table_paths paths;
	int rc = read_opts(given, opts, error);

	if (rc == 0)
		rc = wr_table_paths_find(opts->dir, opts->name, false, &paths, error);
	if (rc == 0)
		rc = wr_file_open(paths.path, false, &old, error);
	if (rc != 0)
		return rc;
	plan = (struct wr_file_plan){.memory_bytes = opts->memory_bytes,
				     .log_bytes = opts->log_bytes,
				     .logs = opts->flags & WEIR_OPEN_LOGS,
				     .before = &old->header,
				     .now_ns = now_ns,
				     .secret = old->secret};
	rc = copy_table(old, &paths, &plan, &fresh, error);
	if (rc == 0) {
		rc = supersede_table(old, &fresh, paths.path, wr_seconds(now_ns), error);
		wr_file_abandon(&fresh);
	}
	weir_close(old);
	return rc;
}

int weir_moved(const struct weir_table *table)
{
	return __atomic_load_n(&table->tallies->superseded, __ATOMIC_ACQUIRE) ? WEIR_EMOVED : 0;
}

int weir_remove(const char *name, const char *dir, struct weir_error *error)
{
	struct wr_table_paths paths;
	int rc = wr_table_paths_find(dir, name, false, &paths, error);

	if (rc < 0)
		return rc;
	if (unlink(paths.path) < 0)
		return wr_error_errno(error, errno == ENOENT ? WEIR_ENOENT : WEIR_ESYS,
				      "cannot remove %s", paths.path);
	return 0;
}
