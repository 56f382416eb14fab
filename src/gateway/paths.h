/* Where things are: nginx, the module, the runtime folder; and who nginx's workers are. */
#ifndef WR_GATEWAY_PATHS_H
#define WR_GATEWAY_PATHS_H

#include "gateway/plan.h"

/* What makes a user for the gateway. */
#define WR_PLACES_USER "useradd --system --no-create-home --shell /usr/sbin/nologin weir"

/* The socket for deliveries, in a folder of its own. */
#define WR_GATEWAY_DELIVER_SOCKET "deliver/api.sock"

/* Fills in plan->nginx, module, user, group, runtime, bodies, socket, deliver. */
int wr_gateway_paths_find(struct wr_gateway_plan *plan, struct wr_arena *arena,
			  struct weir_error *error);

/* Makes the folders, or checks that they are ours and closed to others. */
int wr_places_make(const struct wr_gateway_plan *plan, struct weir_error *error);

/* Makes the file of the key that workers show to the service. Where nginx is running already, the
 * key that it has read stays, if there is one. */
int wr_places_key(const struct wr_gateway_plan *plan, bool running, struct weir_error *error);

/* Nobody but root gets to the socket for deliveries. */
void wr_places_close_delivery(const struct wr_gateway_plan *plan);

/* If nginx has made that socket, the service's user alone may connect to it, beside root. nginx
 * opens it to all, and makes it at a start or a reload. Nothing is done where the service has the
 * gateway's rights. */
void wr_places_open_delivery(const struct wr_gateway_plan *plan);

/* After nginx has ended well: removes what the gateway has made, but no folder the user named. */
void wr_places_tidy(const struct wr_gateway_plan *plan);

/* Folders of temporary files, below plan->bodies: "client_body" is client_body_temp. */
#define WR_GATEWAY_TEMPORARY_KINDS 5
extern const char *const wr_gateway_temporary_kinds[WR_GATEWAY_TEMPORARY_KINDS];

/* Holds the runtime folder for this process as long as the descriptor is open: two gateways would
 * pull one nginx to and fro. Returns the descriptor or -1. */
int wr_places_lock(const struct wr_gateway_plan *plan, struct weir_error *error);

/* `path` with the current folder before it if it is relative; NULL when memory is out. */
const char *wr_gateway_absolute_path(struct wr_arena *arena, const char *path);

/* A formatted text in the arena; never NULL unless memory is out. */
const char *wr_places_print(struct wr_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
