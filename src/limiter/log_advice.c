/* weir_log_advice: compares the memory for logs in a table with the memory that a new table for the
 * rules would have. Called by programs that load rules; they write the advice to their log. */
#include <stdio.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "base/versioned.h"
#include "base/size.h"

#define SHARE_NEW 4 /* with WEIR_OPEN_LOGS, a new table has a quarter of its memory for logs */

int weir_log_advice(struct weir_table *table, const struct weir_opts *given,
		    const struct weir_rules *rules, char *text, size_t size)
{
	struct weir_opts opts;
	struct weir_rules_info used = {.size = sizeof used};
	struct weir_info info = {.size = sizeof info};
	char memory[WR_SIZE_TEXT], now[WR_SIZE_TEXT], fresh[WR_SIZE_TEXT];

	/* Advice is given only if the table has less than half of the memory for logs that a new
	 * table would have. Rounding to whole spans can make the memory for logs a little smaller;
	 * such a small difference needs no advice. */
	if (!wr_versioned_read(given, &opts, sizeof opts, offsetof(struct weir_opts, name)) ||
	    weir_rules_info(rules, &used) < 0 || used.logs == 0 || opts.log_bytes ||
	    weir_info(table, opts.now_ns, &info) < 0 ||
	    info.log_bytes >= info.memory_bytes / SHARE_NEW / 2)
		return 0;
	wr_size_text(info.memory_bytes, memory);
	wr_size_text(info.log_bytes, now);
	wr_size_text(info.memory_bytes / SHARE_NEW, fresh);
	snprintf(text, size,
		 "the rules use sliding_window_log, but table %s was made with %s of %s for logs; "
		 "give logs more memory with: weir table resize %s %s --log-memory %s%s%s",
		 info.path, now, memory, opts.name ? opts.name : "default", memory, fresh,
		 opts.dir ? " --dir " : "", opts.dir ? opts.dir : "");
	return 1;
}
