/* A request of HTTP/1.1 on a connection of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "cli/client/client.h"

#define TOKEN_BYTES 512
#define HEAD_BYTES 1024

/* The first token of the file, without its name. */
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
		return wr_error(error, WEIR_EINVAL, "%s has no token in it", path);
	if (wr_str_has(text, ':'))
		text = wr_str_from(text, wr_str_find(text, ':') + 1);
	snprintf(token, TOKEN_BYTES, "%.*s", (int)text.len, text.ptr);
	return 0;
}

static int send_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t sent = wr_client_send(fd, bytes, len);

		if (sent <= 0)
			return -1;
		bytes += sent;
		len -= (size_t)sent;
	}
	return 0;
}

static int send_request(int fd, const char *method, const char *path, const char *token,
			const char *body)
{
	char head[HEAD_BYTES + TOKEN_BYTES];
	int len = snprintf(head, sizeof head,
			   "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
			   "Content-Type: application/json\r\nContent-Length: %zu\r\n%s%s%s\r\n",
			   method, path, strlen(body), token[0] ? "Authorization: Bearer " : "",
			   token, token[0] ? "\r\n" : "");

	return send_all(fd, head, (size_t)len) != 0 ? -1 : send_all(fd, body, strlen(body));
}

/* All that comes until the end; NULL: nothing, too much, or no memory. */
static char *receive(int fd, size_t *len)
{
	size_t cap = 8192;
	char *bytes = malloc(cap);
	ssize_t got = 0;

	*len = 0;
	while (bytes && (got = wr_client_recv(fd, bytes + *len, cap - *len - 1)) > 0) {
		*len += (size_t)got;
		if (*len + 1 == cap) {
			char *more = cap < WR_CLIENT_REPLY_MAX ? realloc(bytes, cap * 2) : NULL;

			if (!more)
				break;
			bytes = more;
			cap *= 2;
		}
	}
	if (bytes && (got != 0 || *len == 0)) {
		free(bytes);
		return NULL;
	}
	if (bytes)
		bytes[*len] = '\0';
	return bytes;
}

static int parse(char *bytes, size_t len, struct wr_client_reply *reply, struct weir_error *error)
{
	const char *body = strstr(bytes, "\r\n\r\n");
	char *end;

	if (strncmp(bytes, "HTTP/1.1 ", 9) != 0 || !body)
		return wr_error(error, WEIR_EFORMAT,
				"what answers there does not speak HTTP/1.1; is it another port?");
	reply->status = (int)strtol(bytes + 9, &end, 10);
	body += 4;
	reply->json = json_loadb(body, len - (size_t)(body - bytes), JSON_ALLOW_NUL, NULL);
	snprintf(reply->text, sizeof reply->text, "%.200s", body);
	return 0;
}

static int exchange(int fd, const char *method, const char *path, const char *token,
		    const char *body, struct wr_client_reply *reply, struct weir_error *error)
{
	char *bytes = NULL;
	size_t len;
	int rc;

	if (send_request(fd, method, path, token, body) == 0)
		bytes = receive(fd, &len);
	if (!bytes)
		return wr_error_errno(error, WEIR_ESYS,
				      "the connection ended before an answer came");
	rc = parse(bytes, len, reply, error);
	free(bytes);
	return rc;
}

int wr_client_http_on(int fd, const char *method, const char *path, const char *token, json_t *body,
		      struct wr_client_reply *reply, struct weir_error *error)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	int rc = fd;

	*reply = (struct wr_client_reply){0};
	json_decref(body);
	if (fd >= 0) {
		rc = exchange(fd, method, path, token, text ? text : "", reply, error);
		close(fd);
	}
	free(text);
	return rc < 0 ? rc : 0;
}

int wr_client_http(const char *address, const char *method, const char *path,
		   const char *token_file, json_t *body, struct wr_client_reply *reply,
		   struct weir_error *error)
{
	char token[TOKEN_BYTES] = "";
	int rc = token_file ? read_token(token_file, token, error) : 0;

	return wr_client_http_on(rc < 0 ? rc : wr_client_connect(address, error), method, path,
				 token, body, reply, error);
}
