/* File paths of a gateway (nginx, its module, the runtime folder, sockets) and the user that
 * nginx's workers run as. */
#ifndef WR_GATEWAY_PATHS_H
#define WR_GATEWAY_PATHS_H

#include "gateway/plan.h"

/* The command that creates a user for the gateway; part of error texts. */
#define WR_GATEWAY_MAKE_USER "useradd --system --no-create-home --shell /usr/sbin/nologin weir"

/* The socket for deliveries of deferred requests, relative to the runtime folder. */
#define WR_GATEWAY_DELIVER_SOCKET "deliver/api.sock"

/* Fills in plan->nginx, module, user, group, uid, gid, name, runtime, bodies, socket, link_key and
 * deliver. Returns 0, or below 0 with `error` filled in. Texts are allocated in the arena. */
int wr_gateway_paths_find(struct wr_gateway_plan *plan, struct wr_arena *arena,
			  struct weir_error *error);

/* Creates the folders, or checks that the existing ones belong to this user and that no other user
 * can write to them. Returns 0, or below 0 with `error` filled in. */
int wr_gateway_paths_make(const struct wr_gateway_plan *plan, struct weir_error *error);

/* Writes the file with the key by which workers identify themselves to the service. `running`:
 * nginx runs already and has read the key, so an existing valid file is left unchanged. Returns 0,
 * or below 0 with `error` filled in. */
int wr_gateway_write_link_key(const struct wr_gateway_plan *plan, bool running,
			      struct weir_error *error);

/* Closes the folder of the delivery socket to all users but its owner. */
void wr_gateway_close_delivery(const struct wr_gateway_plan *plan);

/* Gives the delivery socket to the service's user and then opens its folder. nginx creates the
 * socket with mode 0666 at each start and reload; until this call the closed folder protects the
 * socket. Does nothing if the service runs as the gateway's own user. */
void wr_gateway_open_delivery(const struct wr_gateway_plan *plan);

/* Removes the files and folders that the gateway has created. A folder named with --runtime stays.
 * Call it after nginx has ended without an error. */
void wr_gateway_paths_remove(const struct wr_gateway_plan *plan);

/* Kinds of temporary files. The kind "client_body" has the folder client_body_temp in plan->bodies
 * and the directive client_body_temp_path. */
#define WR_GATEWAY_TEMPORARY_KINDS 5
extern const char *const wr_gateway_temporary_kinds[WR_GATEWAY_TEMPORARY_KINDS];

/* Locks the runtime folder until the returned descriptor is closed, so that two gateways do not
 * control the same nginx. Returns the descriptor, or below 0 with `error` filled in. */
int wr_gateway_paths_lock(const struct wr_gateway_plan *plan, struct weir_error *error);

/* Returns `path`, preceded by the current folder if it is relative. NULL: the arena is full or
 * there is no current folder. */
const char *wr_gateway_absolute_path(struct wr_arena *arena, const char *path);

/* Returns a formatted text in the arena. NULL: the arena is full, or the text is longer than
 * PATH_MAX
 * + 255 bytes. */
const char *wr_gateway_print(struct wr_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
