/* weir_info(): counts the keys of a table and the used bytes of its slab. Reads all cells and the
 * headers of all blocks. */
#include "base/clock.h"
#include "base/versioned.h"
#include "table/huge.h"
#include "table/slab.h"
#include "table/table.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void count_keys(const struct weir_table *table, uint32_t now_s, struct weir_info *info)
{
	for (uint64_t r = 0; r < table->row_count; r++) {
		for (unsigned i = 0; i < WR_CELLS; i++) {
			const struct wr_cell *cell = &table->rows[r].cell[i];
			struct wr_pair hot = wr_pair_load(&cell->hot);

			if (wr_hot_state(hot) != WR_LIVE || wr_cell_fresh_s(cell) <= now_s)
				continue;
			info->keys++;
			info->keys_refused += wr_hot_refused(hot);
		}
	}
}

int weir_info(struct weir_table *table, uint64_t now_ns, struct weir_info *info)
{
	const struct wr_header *header;
	const struct wr_tallies *tallies;
	struct weir_info known, *out;

	if (!table || !info)
		return WEIR_EINVAL;
	out = wr_versioned_target(info, &known, sizeof known,
				  offsetof(struct weir_info, keys_refused));
	if (!out)
		return WEIR_EINVAL;
	header = &table->header;
	tallies = table->tallies;
	*out = (struct weir_info){.size = sizeof *out,
				  .layout = header->layout,
				  .file_bytes = header->file_bytes,
				  .memory_bytes = header->memory_bytes,
				  .cells = table->row_count * WR_CELLS,
				  .log_bytes = (uint64_t)table->span_count * table->span_bytes,
				  .log_bytes_used = wr_slab_used(table),
				  .created_ns = header->created_ns,
				  .table_id = {header->table_id[0], header->table_id[1]},
				  .superseded = weir_moved(table) != 0};
#define COPY(field, text) out->field = __atomic_load_n(&tallies->field, __ATOMIC_RELAXED);
	WR_TALLIES(COPY)
#undef COPY
	memcpy(out->path, table->path, sizeof out->path);
	count_keys(table, wr_seconds(now_ns), out);
	out->huge_bytes = wr_huge_bytes(table); /* count_keys() has mapped all pages of the keys */
	wr_versioned_write(info, out, sizeof known);
	return 0;
}

uint64_t weir_now_ns(void)
{
	return wr_clock_wall_ns();
}

const char *weir_version(void)
{
	return WEIR_VERSION;
}
