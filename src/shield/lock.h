/* The lock of the shield: one shield per table, and one per network namespace. */
#ifndef WR_SHIELD_LOCK_H
#define WR_SHIELD_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include <weir/error.h>

/* Locks the file TABLE.shield beside the table until the process ends or the descriptor is closed,
 * and writes the process id into it. Returns the descriptor, or an error that names the process
 * that has the lock, if this process can see it. */
int wr_nft_lock(const char *table_path, struct weir_error *error);

/* Binds the abstract Unix socket `weir-shield`, which exists once per network namespace, until the
 * process ends or the descriptor is closed. Returns the descriptor, or WEIR_EINVAL if another shield
 * has the name. A shield runs as root, as the caller, or as `user`. Every local user can bind the
 * name; if the holder is somebody else, logs a warning and returns WEIR_ENOENT, and the caller
 * relies on the owner in the kernel's table, which needs CAP_NET_ADMIN. */
int wr_nft_lock_namespace(uid_t user, struct weir_error *error);

/* Accepts and closes the connections of other shields that asked for this process's id. */
void wr_nft_lock_answer(int fd);

/* Returns whether `pid` is another process that runs `weir shield`. The kernel gives the id of a
 * process that has ended to other processes, such as the gateway. */
bool wr_nft_is_shield(long pid);

#endif
