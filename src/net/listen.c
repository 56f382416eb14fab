/* Opens and closes listening sockets. accept.c accepts connections from them. */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/dial.h"

#define BACKLOG 4096
#define UNIX_MODE 0660
#define UNIX_OWN_MODE 0600
#define UNSENT_BYTES (64 << 10)

static int fail(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

/* Sets options of a listening socket, which its accepted connections inherit. */
static void set_options(int fd)
{
	int on = 1, idle_s = 60, interval_s = 10, count = 6, unsent_bytes = UNSENT_BYTES;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	/* Detect within two minutes that a peer has vanished. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
	/* Limit the unsent output in the kernel, which otherwise buffers megabytes per connection.
	 * Further output stays in the stream's own buffer, whose size is limited. */
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
}

/* Opens a listening TCP socket. If `shared` is true, sets SO_REUSEPORT, so that each of our loops
 * can have a socket at this address. But with SO_REUSEPORT, a second program of the same user could
 * listen at the address too. So open_address() first opens and closes a socket without `shared`,
 * which fails if another program listens there. */
static int tcp_socket(const struct addrinfo *address, bool shared)
{
	int on = 1, off = 0;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
		return fail(fd);
	if (address->ai_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, address->ai_flags ? &off : &on, sizeof off) <
		    0)
		return fail(fd);
	set_options(fd);
	if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return fail(fd);
	return fd;
}

static int cannot_listen(const char *flag, const char *text, struct weir_error *error)
{
	const char *colon = strrchr(text, ':');

	if (errno == EADDRINUSE)
		return wr_error(error, WEIR_ESYS,
				"cannot listen at %s: the address is in use by another program (ss "
				"-ltnp 'sport = :%s' shows it); stop that program, or choose "
				"another address with %s",
				text, colon ? colon + 1 : text, flag);
	if (errno == EACCES)
		return wr_error(error, WEIR_EACCESS,
				"cannot listen at %s: only root may open ports below 1024; choose "
				"another port with %s, or start weir as root: it changes to the "
				"user of --user after it has opened its ports",
				text, flag);
	if (errno == EADDRNOTAVAIL)
		return wr_error(error, WEIR_EINVAL,
				"cannot listen at %s: this machine has no such address; choose "
				"another with %s",
				text, flag);
	return wr_error_errno(error, WEIR_ESYS, "cannot listen at %s (%s)", text, flag);
}

/* Makes a copy of the listener `like`, with the address `endpoint`. `text` is this address as text.
 * Inserts the copy at the front of *list. Returns the copy, or NULL if there is no memory. */
static struct wr_listener *add_listener(const struct wr_listener *like, const char *text,
					const struct wr_endpoint *endpoint,
					struct wr_listener **list)
{
	struct wr_listener *listener = malloc(sizeof *listener);

	if (!listener)
		return NULL;
	*listener = *like;
	listener->magic = WR_LISTENER_MAGIC;
	listener->endpoint = *endpoint;
	listener->fd_count = 0;
	snprintf(listener->text, sizeof listener->text, "%s", text);
	listener->next = *list;
	*list = listener;
	return listener;
}

static int open_address(const struct wr_listener *like, const char *flag,
			const struct wr_endpoint *endpoint, const struct addrinfo *address,
			unsigned loops, struct wr_listener **list, struct weir_error *error)
{
	char text[WR_ENDPOINT_TEXT];
	struct wr_listener *listener;
	int fd;

	wr_endpoint_text(endpoint, text);
	fd = tcp_socket(address, false);
	if (fd < 0)
		return cannot_listen(flag, text, error);
	close(fd);
	listener = add_listener(like, text, endpoint, list);
	if (!listener)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	while (listener->fd_count < loops) {
		fd = tcp_socket(address, true);
		if (fd < 0)
			return cannot_listen(flag, text, error);
		listener->fds[listener->fd_count++] = fd;
	}
	return 0;
}

/* Listens on all addresses, with one socket for IPv4 and IPv6, or for IPv4 only if the kernel has
 * no IPv6. */
static int open_any(const struct wr_listener *like, const char *flag,
		    const struct wr_endpoint *endpoint, unsigned loops, struct wr_listener **list,
		    struct weir_error *error)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(endpoint->port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(endpoint->port)};
	struct addrinfo both = {.ai_family = AF_INET6,
				.ai_flags = 1, /* tcp_socket() reads this as: accept IPv4 too */
				.ai_addr = (struct sockaddr *)&v6,
				.ai_addrlen = sizeof v6};
	struct addrinfo old = {
		.ai_family = AF_INET, .ai_addr = (struct sockaddr *)&v4, .ai_addrlen = sizeof v4};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return open_address(like, flag, endpoint, &old, loops, list, error);
	close(fd);
	return open_address(like, flag, endpoint, &both, loops, list, error);
}

static int open_named(const struct wr_listener *like, const char *flag,
		      const struct wr_endpoint *endpoint, unsigned loops, struct wr_listener **list,
		      struct weir_error *error)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	char port[8];
	int rc;

	snprintf(port, sizeof port, "%u", endpoint->port);
	rc = getaddrinfo(endpoint->host, port, &hints, &found);
	if (rc != 0)
		return wr_error(error, WEIR_EINVAL, "%s %s: %s", flag, endpoint->host,
				gai_strerror(rc));
	rc = 0;
	for (struct addrinfo *a = found; a && rc == 0; a = a->ai_next) {
		struct wr_endpoint each = {.kind = a->ai_family == AF_INET6 ? WR_ENDPOINT_V6
									    : WR_ENDPOINT_V4,
					   .port = endpoint->port};

		getnameinfo(a->ai_addr, a->ai_addrlen, each.host, sizeof each.host, NULL, 0,
			    NI_NUMERICHOST);
		a->ai_flags = 0;
		rc = open_address(like, flag, &each, a, loops, list, error);
	}
	freeaddrinfo(found);
	return rc;
}

/* Removes the socket file of a process that has ended. Returns an error if another program listens
 * on the socket or the file is not a socket. */
static int clear_path(const struct sockaddr_un *address, const char *flag, struct weir_error *error)
{
	struct stat st;

	if (lstat(address->sun_path, &st) < 0)
		return 0; /* there is no file, or bind() will report the error */
	if (!S_ISSOCK(st.st_mode))
		return wr_error(error, WEIR_EINVAL,
				"cannot listen at unix:%s: the file exists and is not a socket; "
				"remove it, or choose another path with %s",
				address->sun_path, flag);
	if (wr_dial_is_listening(address->sun_path))
		return wr_error(
			error, WEIR_ESYS,
			"cannot listen at unix:%s: the path is in use by another program (ss -lxp "
			"shows it); stop that program, or choose another path with %s",
			address->sun_path, flag);
	unlink(address->sun_path);
	return 0;
}

static int unix_socket(const struct sockaddr_un *address, mode_t mode)
{
	mode_t before = umask(0777 & ~mode);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int rc = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)address, sizeof *address);

	umask(before);
	return rc < 0 || listen(fd, BACKLOG) < 0 ? fail(fd) : fd;
}

/* Opens a Unix socket, which all loops share, because SO_REUSEPORT does not work for a path. */
static int open_unix(const struct wr_listener *like, const char *flag,
		     const struct wr_endpoint *endpoint, unsigned loops, struct wr_listener **list,
		     struct weir_error *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char text[WR_ENDPOINT_TEXT];
	struct wr_listener *listener;
	struct stat st;
	int fd;

	wr_endpoint_text(endpoint, text);
	memcpy(address.sun_path, endpoint->host, strlen(endpoint->host));
	if (clear_path(&address, flag, error) < 0)
		return WEIR_ESYS;
	fd = unix_socket(&address, like->own ? UNIX_OWN_MODE : UNIX_MODE);
	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot listen at %s (%s)", text, flag);
	listener = add_listener(like, text, endpoint, list);
	if (!listener) {
		close(fd);
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	/* A Unix socket needs no TLS: the kernel identifies the peer, and no network is used. */
	listener->tls = NULL;
	if (lstat(address.sun_path, &st) == 0) {
		listener->unix_dev = st.st_dev;
		listener->unix_ino = st.st_ino;
	}
	listener->fds[listener->fd_count++] = fd;
	if (like->group && lchown(address.sun_path, (uid_t)-1, like->group) < 0)
		return wr_error_errno(error, WEIR_ESYS, "%s: cannot change its group to %u", text,
				      (unsigned)like->group);
	while (listener->fd_count < loops) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return wr_error_errno(error, WEIR_ESYS, "%s", text);
		listener->fds[listener->fd_count++] = fd;
	}
	return 0;
}

int wr_listener_open(const struct wr_listener *like, const char *flag, const char *text,
		     unsigned loops, struct wr_listener **list, struct weir_error *error)
{
	struct weir_error why;
	struct wr_endpoint endpoint;

	wr_assert(loops > 0 && loops <= WR_LOOPS_MAX && like->quota && like->protocol);
	if (wr_endpoint_parse((struct weir_str){text, strlen(text)}, &endpoint, &why) < 0)
		return wr_error(error, WEIR_EINVAL, "%s: %s", flag, why.text);
	switch (endpoint.kind) {
	case WR_ENDPOINT_UNIX:
		return open_unix(like, flag, &endpoint, loops, list, error);
	case WR_ENDPOINT_ANY:
		return open_any(like, flag, &endpoint, loops, list, error);
	default:
		return open_named(like, flag, &endpoint, loops, list, error);
	}
}

int wr_listener_own(const struct wr_listener *listener, uid_t user, gid_t group,
		    struct weir_error *error)
{
	wr_assert_magic(listener, WR_LISTENER_MAGIC);
	if (listener->endpoint.kind != WR_ENDPOINT_UNIX ||
	    lchown(listener->endpoint.host, user, group) == 0)
		return 0;
	return wr_error_errno(error, WEIR_ESYS, "%s: cannot change its owner to %u", listener->text,
			      (unsigned)user);
}

void wr_listener_turn_away(const struct wr_listener *listener, int fd)
{
	/* The kernel passes each packet to this filter, beginning with the TCP header. Byte 13 of
	 * the TCP header contains the flags. The filter drops packets with the SYN flag. */
	static struct sock_filter drop_syn[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x02, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
	};
	static const struct sock_fprog filter = {sizeof drop_syn / sizeof *drop_syn, drop_syn};

	wr_assert_magic(listener, WR_LISTENER_MAGIC);
	if (listener->endpoint.kind != WR_ENDPOINT_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

void wr_listeners_close(struct wr_listener *list)
{
	struct wr_listener *next;
	struct stat st;

	for (; list; list = next) {
		wr_assert_magic(list, WR_LISTENER_MAGIC);
		next = list->next;
		for (unsigned i = 0; i < list->fd_count; i++)
			if (list->fds[i] >= 0)
				close(list->fds[i]);
		if (list->unix_ino && lstat(list->endpoint.host, &st) == 0 &&
		    st.st_dev == list->unix_dev && st.st_ino == list->unix_ino)
			unlink(list->endpoint.host);
		list->magic = 0;
		free(list);
	}
}

bool wr_listener_local(const struct wr_listener *listener)
{
	const struct wr_endpoint *at = &listener->endpoint;

	wr_assert_magic(listener, WR_LISTENER_MAGIC);
	return at->kind == WR_ENDPOINT_UNIX ||
	       (at->kind == WR_ENDPOINT_V4 && strncmp(at->host, "127.", 4) == 0) ||
	       (at->kind == WR_ENDPOINT_V6 && strcmp(at->host, "::1") == 0);
}
