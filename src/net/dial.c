/* Connects sockets; see dial.h. Called by the clients of Redis, and to find out whether a process
 * listens on a Unix socket. */
#include "net/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

#define KEEPALIVE_S 15

void wr_dial_address(const struct wr_endpoint *at, union wr_dial_address *address)
{
	wr_assert(at->kind != WR_ENDPOINT_NAME);
	memset(address, 0, sizeof *address);
	if (at->kind == WR_ENDPOINT_UNIX) {
		address->local.sun_family = AF_UNIX;
		memcpy(address->local.sun_path, at->host, strnlen(at->host, WR_UNIX_PATH_MAX));
	} else if (at->kind == WR_ENDPOINT_V4) {
		address->v4.sin_family = AF_INET;
		address->v4.sin_port = htons(at->port);
		inet_pton(AF_INET, at->host, &address->v4.sin_addr);
	} else {
		address->v6.sin6_family = AF_INET6;
		address->v6.sin6_port = htons(at->port);
		inet_pton(AF_INET6, at->host, &address->v6.sin6_addr);
	}
}

static int open_socket(int family, int flags)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	int on = 1, idle = KEEPALIVE_S;

	if (fd >= 0 && family != AF_UNIX) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	}
	return fd;
}

/* Calls connect(), and calls it again if a signal interrupts it: on Linux the second call waits for
 * the attempt that the first call began. */
static int connect_to(int fd, const struct sockaddr *address)
{
	socklen_t len = address->sa_family == AF_UNIX   ? sizeof(struct sockaddr_un)
			: address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							: sizeof(struct sockaddr_in6);
	int rc;

	do
		rc = connect(fd, address, len);
	while (rc < 0 && errno == EINTR);
	return rc;
}

static int close_failed(int fd)
{
	int why = errno;

	close(fd);
	errno = why;
	return -1;
}

int wr_dial_begin(const struct sockaddr *address)
{
	int fd = open_socket(address->sa_family, SOCK_NONBLOCK);

	if (fd < 0 || connect_to(fd, address) == 0 || errno == EINPROGRESS)
		return fd;
	return close_failed(fd);
}

int wr_dial_result(int fd)
{
	int error = 0;
	socklen_t len = sizeof error;

	wr_assert(fd >= 0);
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
}

static int dial_address(const struct sockaddr *address, uint64_t timeout_us)
{
	struct timeval limit = {(time_t)(timeout_us / 1000000),
				(suseconds_t)(timeout_us % 1000000)};
	int fd = open_socket(address->sa_family, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
	    connect_to(fd, address) == 0)
		return fd;
	if (errno == EINPROGRESS || errno == EALREADY || errno == EAGAIN)
		errno = ETIMEDOUT;
	return close_failed(fd);
}

int wr_dial(const struct wr_endpoint *at, uint64_t timeout_us, struct weir_error *error)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	union wr_dial_address address;
	char port[8];
	int fd = -1, rc;

	if (at->kind == WR_ENDPOINT_UNIX) {
		wr_dial_address(at, &address);
		fd = dial_address(&address.any, timeout_us);
		if (fd < 0)
			wr_error(error, WEIR_ESYS, "%s", strerror(errno));
		return fd;
	}
	snprintf(port, sizeof port, "%u", at->port);
	rc = getaddrinfo(at->host, port, &hints, &found);
	if (rc != 0) {
		wr_error(error, WEIR_ESYS, "%s", gai_strerror(rc));
		return -1;
	}
	for (const struct addrinfo *each = found; each && fd < 0; each = each->ai_next)
		fd = dial_address(each->ai_addr, timeout_us);
	if (fd < 0)
		wr_error(error, WEIR_ESYS, "%s", strerror(errno));
	freeaddrinfo(found);
	return fd;
}

bool wr_dial_is_listening(const char *path)
{
	union wr_dial_address address = {.local = {.sun_family = AF_UNIX}};
	int fd;

	snprintf(address.local.sun_path, sizeof address.local.sun_path, "%s", path);
	fd = wr_dial_begin(&address.any);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != ECONNREFUSED && errno != ENOENT);
}
