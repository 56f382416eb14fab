/* Where the admin API of a running service is, and what has to be shown there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/error.h"
#include "cli/client/client.h"
#include "table/paths.h"

#define USUAL_PORT "127.0.0.1:9099"
#define ADDRESS_BYTES (WR_TABLE_PATHS_ADMIN + 8)

static bool is_path(const char *text)
{
	return text && strcmp(text, "off") != 0;
}

/* A token is for a port; without one it is the socket beside the table. */
static int find_address(const struct wr_client_admin *flags, const char *token_file,
			char address[ADDRESS_BYTES], struct weir_error *error)
{
	const char *given = wr_client_setting(flags->admin, "WEIR_ADMIN", NULL);
	const char *named = wr_client_setting(NULL, "WEIR_ADMIN_SOCKET", NULL);
	char path[WR_TABLE_PATHS_ADMIN];
	struct wr_table_paths place;
	int rc, len;

	if (!given && token_file)
		given = USUAL_PORT;
	if (given || (!flags->table && !flags->dir && is_path(named))) {
		len = given ? snprintf(address, ADDRESS_BYTES, "%s", given)
			    : snprintf(address, ADDRESS_BYTES, "unix:%s", named);
		return len < ADDRESS_BYTES
			       ? 0
			       : wr_error(error, WEIR_EINVAL, "the address is too long");
	}
	rc = wr_table_paths_find(wr_client_setting(flags->dir, "WEIR_TABLE_DIR", NULL),
				 wr_client_setting(flags->table, "WEIR_TABLE", NULL), false, &place,
				 error);
	if (rc < 0)
		return rc;
	wr_table_paths_admin(&place, path);
	snprintf(address, ADDRESS_BYTES, "unix:%s", path);
	return 0;
}

/* Whether others than root and this user can put a socket into the folder of this one. */
static bool is_open_to_others(const char *path)
{
	char folder[ADDRESS_BYTES];
	struct stat info;
	char *end;

	snprintf(folder, sizeof folder, "%s", path);
	end = strrchr(folder, '/');
	if (!end)
		return true;
	end[end == folder] = '\0';
	return stat(folder, &info) != 0 || info.st_mode & (S_IWGRP | S_IWOTH);
}

/* In a folder of everybody's, such as /dev/shm, somebody else may have been first: what a command
 * says is for a service of root or of this user alone. */
static int connect_to(const char *address, struct weir_error *error)
{
	int fd = wr_client_connect(address, error);
	struct ucred peer = {0};
	socklen_t len = sizeof peer;

	if (fd < 0 || !is_open_to_others(address + strlen("unix:")))
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	    (peer.uid == 0 || peer.uid == geteuid()))
		return fd;
	close(fd);
	return wr_error(error, WEIR_ESYS,
			"user %u listens at %s, who is neither root nor this user, in a folder "
			"that others can write to: run the command as that user, or move the "
			"socket with --admin-socket",
			(unsigned)peer.uid, address);
}

int wr_client_admin(const struct wr_client_admin *flags, const char *method, const char *path,
		    json_t *body, struct wr_client_reply *reply, struct weir_error *error)
{
	const char *token_file =
		wr_client_setting(flags->token_file, "WEIR_ADMIN_TOKEN_FILE", NULL);
	char address[ADDRESS_BYTES];
	int rc = find_address(flags, token_file, address, error);

	if (rc < 0) {
		json_decref(body);
		return rc;
	}
	if (strncmp(address, "unix:", 5) == 0)
		return wr_client_http_on(connect_to(address, error), method, path, "", body, reply,
					 error);
	return wr_client_http(address, method, path, token_file, body, reply, error);
}
