/* A table that belongs to one replay. No other process can open it, and nothing of it is left behind
 * when the process ends. */
#ifndef WR_LAB_REPLAY_TABLE_H
#define WR_LAB_REPLAY_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

/* Opens a table with `memory_bytes` bytes for keys and logs; 0 means 64 MiB. With `logs`, a quarter
 * of it is for sliding window logs. The caller closes it with weir_close. Returns 0 or an error. */
int wr_lab_replay_table(uint64_t memory_bytes, bool logs, struct weir_table **table,
			struct weir_error *error);

#endif
