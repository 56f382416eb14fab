/* The Unix socket of the admin API, for weir's own commands: root and the service's user, whom the
 * kernel names, need no token there. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "serve/admin/admin.h"
#include "serve/service.h"
#include "table/paths.h"

static bool is_word(const struct wr_text_list *list, const char *word)
{
	return list->count == 1 && strcmp(list->items[0], word) == 0;
}

/* Beside the table, where commands look for it by the table's name. */
static int find_path(const struct wr_settings *settings, char path[WR_TABLE_PATHS_ADMIN],
		     struct weir_error *error)
{
	struct wr_table_paths place;
	int rc = wr_table_paths_find(settings->table_dir, settings->table, false, &place, error);

	if (rc == 0)
		wr_table_paths_admin(&place, path);
	return rc;
}

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

/* One that was asked for has to be there. The usual one may be another service's on the same table,
 * or the path too long for a socket: then commands need --admin. */
int wr_admin_socket_open(struct wr_service *service, struct weir_error *error)
{
	const struct wr_settings *settings = &service->settings;
	struct weir_error why = {0};
	char path[WR_TABLE_PATHS_ADMIN];

	if (settings->admin_socket && strcmp(settings->admin_socket, "off") != 0)
		return open_at(service, settings->admin_socket, error);
	if (settings->admin_socket || is_word(&settings->admin, "off"))
		return 0;
	if (find_path(settings, path, &why) < 0 || open_at(service, path, &why) < 0)
		wr_log(WR_LOG_INFO, "no admin socket: %s", why.text);
	return 0;
}
