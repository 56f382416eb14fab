/* The lock of the shield: one shield per table, and one per network namespace. */
#ifndef WR_SHIELD_LOCK_H
#define WR_SHIELD_LOCK_H

#include <stdbool.h>

#include <weir/error.h>

/* Locks the file TABLE.shield beside the table until the process ends or the descriptor is closed,
 * and writes the process id into it. Returns the descriptor, or an error that names the process
 * that has the lock. */
int wr_nft_lock(const char *table_path, struct weir_error *error);

/* Returns whether `pid` is another process with the name of this program. */
bool wr_nft_is_shield(long pid);

#endif
