/* File paths of a gateway (nginx, its module, the runtime folder, sockets) and the user that
 * nginx's workers run as. */
#ifndef WR_GATEWAY_PATHS_H
#define WR_GATEWAY_PATHS_H

#include "gateway/plan.h"

/* The command that creates a user for the gateway; error texts contain it. */
#define WR_GATEWAY_MAKE_USER "useradd --system --no-create-home --shell /usr/sbin/nologin weir"

/* The socket for deliveries of deferred requests, relative to the runtime folder. */
#define WR_GATEWAY_DELIVER_SOCKET "deliver/api.sock"

/* Fills in these members of the plan: nginx, module, user, group, uid, gid, name, runtime, bodies,
 * socket, link_key and deliver. The texts are allocated in the arena. Returns 0, or a number below
 * 0 with `error` filled in. */
int wr_gateway_paths_find(struct wr_gateway_plan *plan, struct wr_arena *arena,
			  struct weir_error *error);

/* Creates the folders. Checks that a folder that exists already belongs to this user and that no
 * other user can write to it. Returns 0, or a number below 0 with `error` filled in. */
int wr_gateway_paths_make(const struct wr_gateway_plan *plan, struct weir_error *error);

/* Writes the file with the link key, the secret by which nginx's workers identify themselves to the
 * service. If `running` is set, nginx runs already and has read the link key, so an existing valid
 * file is left unchanged. Returns 0, or a number below 0 with `error` filled in. */
int wr_gateway_write_link_key(const struct wr_gateway_plan *plan, bool running,
			      struct weir_error *error);

/* Changes the mode of the delivery socket's folder so that only its owner can enter it. */
void wr_gateway_close_delivery(const struct wr_gateway_plan *plan);

/* Makes the service's user the owner of the delivery socket, and then lets other users enter the
 * socket's folder. Before that, the closed folder protects the socket, because nginx creates the
 * socket with mode 0666 at each start and reload. If there is no queue, or if the service runs as
 * the gateway's own user, nothing is changed. */
void wr_gateway_open_delivery(const struct wr_gateway_plan *plan);

/* Removes the files and folders that the gateway has created, but not a folder that --runtime
 * names. Called after nginx has ended without an error. */
void wr_gateway_paths_remove(const struct wr_gateway_plan *plan);

/* The kinds of nginx's temporary files. For example, the kind "client_body" has the folder
 * client_body_temp in plan->bodies and the directive client_body_temp_path. */
#define WR_GATEWAY_TEMPORARY_KINDS 5
extern const char *const wr_gateway_temporary_kinds[WR_GATEWAY_TEMPORARY_KINDS];

/* Locks the runtime folder, so that two gateways cannot control the same nginx. Returns the file
 * descriptor of the lock file; the lock ends when the caller closes it. On failure returns a number
 * below 0 with `error` filled in. */
int wr_gateway_paths_lock(const struct wr_gateway_plan *plan, struct weir_error *error);

/* Returns `path` if it is absolute; otherwise returns the current folder and `path`, joined.
 * Returns NULL if the arena is full or there is no current folder. */
const char *wr_gateway_absolute_path(struct wr_arena *arena, const char *path);

/* Returns a formatted text in the arena. Returns NULL if the arena is full or the text is longer
 * than PATH_MAX + 255 bytes. */
const char *wr_gateway_print(struct wr_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
