/* Finds the admin API of a running service by --admin, or by the Unix socket in the folder of the
 * service's table, and sends one request there. Called by `weir key`, `weir pause` and
 * `weir queue`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/endpoint.h"
#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client/client.h"
#include "table/paths.h"

#define DEFAULT_PORT "127.0.0.1:9099"
#define ADDRESS_BYTES (WR_TABLE_PATHS_ADMIN + 8)
#define TOKEN_BYTES 512

#define AT(field) .at = offsetof(struct wr_cli_client_admin, field)

const struct wr_cli_option wr_cli_client_admin_options[WR_CLIENT_ADMIN_OPTIONS] = {
	{"admin", WR_OPTION_TEXT, "ADDR", NULL,
	 "the service's --admin: PORT, HOST:PORT or unix:/path", AT(admin)},
	{"token-file", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the token for a port; without --admin the\n"
	 "port is " DEFAULT_PORT,
	 AT(token_file), .variable = "WEIR_ADMIN_TOKEN_FILE"},
};

/* Writes the address of the admin API, without connecting to it. If --admin is given, the address
 * is its value. Otherwise, if a token file is given, the address is the default port. Otherwise, if
 * WEIR_ADMIN_SOCKET names a socket and neither --table nor --dir is on the command line, the
 * address is that socket. Otherwise it is the socket in the folder of the table. */
static int find_address(const struct wr_cli_client_admin *options, char address[ADDRESS_BYTES],
			struct weir_error *error)
{
	const struct wr_cli_table_choice *table = &options->table;
	const char *given = options->admin, *socket = getenv("WEIR_ADMIN_SOCKET");
	char path[WR_TABLE_PATHS_ADMIN];
	struct wr_table_paths paths;
	int rc, len;

	if (!given && options->token_file)
		given = DEFAULT_PORT;
	if (!socket || !*socket || strcmp(socket, "off") == 0 || table->name_given ||
	    table->dir_given)
		socket = NULL;
	if (given || socket) {
		len = snprintf(address, ADDRESS_BYTES, "%s%s",
			       given ? "" : "unix:", given ? given : socket);
		return len < ADDRESS_BYTES
			       ? 0
			       : wr_error(error, WEIR_EINVAL,
					  "the address of the admin API is longer than %zu bytes",
					  (size_t)ADDRESS_BYTES - 1);
	}
	rc = wr_table_paths_find(table->dir, table->name, false, &paths, error);
	if (rc < 0)
		return rc;
	rc = wr_table_paths_admin(&paths, path, error);
	if (rc < 0)
		return rc;
	snprintf(address, ADDRESS_BYTES, "unix:%s", path);
	return 0;
}

/* Returns whether users other than root and this user can create a socket in the folder of `path`.
 */
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

/* Checks which user listens at a Unix socket. In a folder that other users can write to, such as
 * /dev/shm, another user can have created the socket. In such a folder the listener must be root or
 * this user. */
static int check_listener(int fd, const char *address, struct weir_error *error)
{
	struct ucred peer = {0};
	socklen_t len = sizeof peer;

	if (!is_open_to_others(address + strlen("unix:")))
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	    (peer.uid == 0 || peer.uid == geteuid()))
		return 0;
	return wr_error(error, WEIR_ESYS,
			"user %u listens at %s, who is neither root nor this user, in a folder "
			"that others can write to: run the command as that user, or move the "
			"socket with --admin-socket",
			(unsigned)peer.uid, address);
}

/* Reads the first token of the file. The file has a token per line, as TOKEN or NAME:TOKEN, and
 * comments after #. */
static int read_token(const char *path, char token[TOKEN_BYTES], struct weir_error *error)
{
	FILE *file = fopen(path, "re");
	char line[TOKEN_BYTES];
	struct weir_str text = WR_STR("");

	if (!file)
		return wr_error_errno(error, WEIR_ESYS, "cannot read the token in %s", path);
	while (text.len == 0 && fgets(line, sizeof line, file)) {
		text = wr_str_trim(wr_str_first(wr_str(line), strcspn(line, "\r\n")));
		if (text.len && text.ptr[0] == '#')
			text.len = 0;
	}
	fclose(file);
	if (text.len == 0)
		return wr_error(error, WEIR_EINVAL, "%s contains no token", path);
	if (wr_str_has(text, ':'))
		text = wr_str_from(text, wr_str_find(text, ':') + 1);
	snprintf(token, TOKEN_BYTES, "%.*s", (int)text.len, text.ptr);
	return 0;
}

static int ask_admin(const struct wr_cli_client_admin *options, const char *method,
		     const char *path, json_t *body, struct wr_cli_client_reply *reply,
		     struct weir_error *error)
{
	char address[ADDRESS_BYTES], token[TOKEN_BYTES];
	bool is_socket, has_token = false;
	int rc = find_address(options, address, error);

	is_socket = rc == 0 && strncmp(address, "unix:", 5) == 0;
	if (rc == 0 && !is_socket && options->token_file) {
		rc = read_token(options->token_file, token, error);
		has_token = true;
	}
	if (rc == 0)
		return wr_cli_client_http(address, is_socket ? check_listener : NULL, method, path,
					  has_token ? token : NULL, body, reply, error);
	json_decref(body);
	return rc;
}

int wr_cli_client_admin(const struct wr_cli_client_admin *options, const char *command,
			const char *method, const char *path, json_t *body, json_t **answer)
{
	struct wr_cli_client_reply reply;
	struct weir_error error = {0};
	int code;

	wr_assert(options && answer);
	if (ask_admin(options, method, path, body, &reply, &error) < 0)
		return wr_cli_fail(command, &error, WR_EXIT_USAGE);
	*answer = reply.json;
	if (reply.status == 200 && reply.json)
		return WR_EXIT_YES;
	code = wr_cli_client_problem(command, &reply);
	json_decref(reply.json);
	*answer = NULL;
	return code;
}
