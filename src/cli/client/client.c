/* Connects to a service, and prints the parts of its responses. Called by the commands that ask a
 * service. */
#include "cli/client/client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"

/* ---- connecting ---- */

static void set_timeouts(int fd)
{
	struct timeval span = {.tv_sec = WR_CLIENT_TIMEOUT_S};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &span, sizeof span);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &span, sizeof span);
}

static int connect_unix(const struct wr_endpoint *at)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, at->host, strlen(at->host) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Calls connect(), and waits for its end if a signal interrupts it: the kernel continues an
 * interrupted connect. */
static int connect_through_signals(int fd, const struct sockaddr *address, socklen_t len)
{
	struct pollfd made = {.fd = fd, .events = POLLOUT};
	int rc, failed = ETIMEDOUT;
	socklen_t size = sizeof failed;

	if (connect(fd, address, len) == 0)
		return 0;
	if (errno != EINTR)
		return -1;
	do
		rc = poll(&made, 1, WR_CLIENT_TIMEOUT_S * 1000);
	while (rc < 0 && errno == EINTR);
	if (rc > 0)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size);
	errno = failed;
	return failed == 0 ? 0 : -1;
}

static int connect_first(const struct addrinfo *list)
{
	int fd = -1;

	for (const struct addrinfo *i = list; i && fd < 0; i = i->ai_next) {
		fd = socket(i->ai_family, i->ai_socktype | SOCK_CLOEXEC, i->ai_protocol);
		if (fd >= 0)
			set_timeouts(fd);
		if (fd >= 0 && connect_through_signals(fd, i->ai_addr, i->ai_addrlen) != 0) {
			int saved = errno;

			close(fd);
			errno = saved;
			fd = -1;
		}
	}
	return fd;
}

static int connect_inet(const struct wr_endpoint *at)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	char port[8];
	int fd;

	snprintf(port, sizeof port, "%u", at->port);
	/* A port without a host is on this machine, where the service may listen on IPv4 or IPv6.
	 */
	if (getaddrinfo(at->kind == WR_ENDPOINT_ANY ? "localhost" : at->host, port, &hints,
			&list) != 0) {
		errno = EHOSTUNREACH;
		return -1;
	}
	fd = connect_first(list);
	freeaddrinfo(list);
	return fd;
}

int wr_client_refused(const char *address, struct weir_error *error)
{
	if (errno == EACCES)
		return wr_error(
			error, WEIR_EACCESS,
			"this user may not connect to %s: run the command as root or as the "
			"service's user, or use the port with --admin and --token-file",
			address);
	return wr_error_errno(error, WEIR_ESYS, "no service answers at %s (is weir serve running?)",
			      address);
}

int wr_client_connect(const char *address, struct weir_error *error)
{
	struct wr_endpoint at;
	int fd, rc = wr_endpoint_parse(wr_str(address), &at, error);

	if (rc < 0)
		return rc;
	fd = at.kind == WR_ENDPOINT_UNIX ? connect_unix(&at) : connect_inet(&at);
	if (fd < 0)
		return wr_client_refused(address, error);
	set_timeouts(fd);
	return fd;
}

/* ---- words ---- */

json_t *wr_client_entry(const char *word)
{
	struct weir_str text = wr_str(word);
	size_t equals = wr_str_find(text, '=');

	if (equals == 0 || equals == text.len)
		return NULL;
	return json_pack("{s:o, s:o}", "key", wr_json_text(wr_str_first(text, equals)), "value",
			 wr_json_text(wr_str_from(text, equals + 1)));
}

const char *wr_client_span(double seconds, char text[WR_CLIENT_SPAN])
{
	unsigned long whole = (unsigned long)seconds;

	if (seconds < 10)
		snprintf(text, WR_CLIENT_SPAN, "%.3g s", seconds);
	else if (seconds < 120)
		snprintf(text, WR_CLIENT_SPAN, "%.0f s", seconds);
	else if (whole < 7200)
		snprintf(text, WR_CLIENT_SPAN, "%lu m %lu s", whole / 60, whole % 60);
	else if (whole < 172800)
		snprintf(text, WR_CLIENT_SPAN, "%lu h %lu m", whole / 3600, whole / 60 % 60);
	else
		snprintf(text, WR_CLIENT_SPAN, "%lu d %lu h", whole / 86400, whole / 3600 % 24);
	return text;
}

/* Control characters are the control characters of ASCII, and U+0080 to U+009F, because many
 * terminals take U+009B for ESC [. */
size_t wr_client_control(const char *at)
{
	if ((unsigned char)at[0] < ' ' || at[0] == 0x7f)
		return 1;
	return (unsigned char)at[0] == 0xc2 && ((unsigned char)at[1] & 0xe0) == 0x80 ? 2 : 0;
}

void wr_client_print(const char *text)
{
	while (*text) {
		size_t control = wr_client_control(text);

		putchar(control ? '?' : *text);
		text += control ? control : 1;
	}
}

int wr_client_problem(const char *command, const struct wr_client_reply *reply)
{
	const char *detail = json_string_value(json_object_get(reply->json, "detail"));
	const char *pointer = json_string_value(json_object_get(reply->json, "pointer"));

	fprintf(stderr, "weir %s: the service answered %d: %s%s%s\n", command, reply->status,
		detail ? detail : reply->text, pointer && pointer[0] ? ", at " : "",
		pointer && pointer[0] ? pointer : "");
	return reply->status == 404 ? WR_EXIT_NO : WR_EXIT_USAGE;
}
