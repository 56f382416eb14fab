/* Opens the Unix socket of the admin API, for weir's own commands. The kernel reports the user of a
 * client; root and the service's user need no token. Called when the service opens its ports. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "serve/admin/admin.h"
#include "serve/service.h"
#include "table/paths.h"

static int open_at(struct wr_service *service, const char *path, struct weir_error *error)
{
	struct wr_listener like = {.name = "admin",
				   .protocol = &wr_admin_protocol,
				   .quota = &service->admin_socket_quota,
				   .own = true};
	char text[WR_TABLE_PATHS_ADMIN + 8];

	service->admin_socket_quota.max = WR_ADMIN_SOCKET_CONNECTIONS;
	snprintf(text, sizeof text, "unix:%s", path);
	return wr_listener_open(&like, "--admin-socket", text, service->loop_count,
				&service->listeners, error);
}

/* The default socket is in the folder of the table's file, and its name is made from the name of
 * the table. So a command that knows the table finds the socket. A failure to open this socket is
 * not an error: perhaps another service with the same table has opened it, or the path is too long
 * for a socket. Commands then need --admin. */
int wr_admin_socket_open(struct wr_service *service, struct weir_error *error)
{
	const struct wr_settings *settings = &service->settings;
	struct weir_error why = {0};
	struct wr_table_paths paths;
	char path[WR_TABLE_PATHS_ADMIN];
	int rc;

	wr_assert(service->loop_count);
	if (settings->admin_socket && strcmp(settings->admin_socket, "off") != 0)
		return open_at(service, settings->admin_socket, error);
	if (settings->admin_socket ||
	    (settings->admin.count == 1 && strcmp(settings->admin.items[0], "off") == 0))
		return 0;
	rc = wr_table_paths_find(settings->table_dir, settings->table, false, &paths, &why);
	if (rc == 0)
		rc = wr_table_paths_admin(&paths, path, &why);
	if (rc == 0)
		rc = open_at(service, path, &why);
	if (rc < 0)
		wr_log(WR_LOG_INFO, "no admin socket: %s", why.text);
	return 0;
}
