/* Connects sockets to servers. The caller chooses between a non-blocking connect for a loop and a
 * blocking connect with a timeout. */
#ifndef WR_NET_DIAL_H
#define WR_NET_DIAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include <weir/error.h>

#include "base/endpoint.h"

union wr_dial_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
};

/* Converts an endpoint to a socket address. The endpoint is an IPv4 address, an IPv6 address or a
 * Unix socket. */
void wr_dial_address(const struct wr_endpoint *at, union wr_dial_address *address);

/* Opens a non-blocking socket and begins to connect it. Returns the socket. The socket becomes
 * writable when the attempt to connect has ended; wr_dial_result then returns the outcome. On
 * failure returns -1 and sets errno. A Unix socket fails at once if the backlog of its listener is
 * full. */
int wr_dial_begin(const struct sockaddr *address);

/* Returns 0 if the socket is connected, or the errno of the failed attempt. */
int wr_dial_result(int fd);

/* Connects a blocking socket, and tries each address of a host name in turn. `timeout_us` limits
 * each attempt to connect, and later each read and each write. Returns the socket. On failure
 * returns -1 with *error filled in. Its text is the reason without the address. */
int wr_dial(const struct wr_endpoint *at, uint64_t timeout_us, struct weir_error *error);

/* Returns whether a process listens on the Unix socket at `path`. Returns false if no file is
 * there, or if the kernel refuses the connection because no process listens. After any other error,
 * such as a lack of permission, returns true, because a process may be listening. */
bool wr_dial_is_listening(const char *path);

#endif
