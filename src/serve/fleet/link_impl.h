/* The inside of a connection to Redis: connect.c opens it, link.c moves its bytes and closes it. */
#ifndef WR_SERVE_FLEET_LINK_IMPL_H
#define WR_SERVE_FLEET_LINK_IMPL_H

#include <openssl/ssl.h>

#include "serve/fleet/link.h"

enum wr_redis_stage {
	WR_REDIS_NAMING,
	WR_REDIS_CONNECTING,
	WR_REDIS_HANDSHAKE,
	WR_REDIS_OPEN,
};

/* A socket with its handle. It is freed when libuv has closed the handle. */
struct wr_redis_socket {
	uv_poll_t poll;
	struct wr_redis_link *self; /* NULL: the link has dropped this socket */
	int fd;
	int polled;
};

struct wr_redis_link {
	struct wr_redis_loop *owner;
	struct wr_central_link
		*link; /* NULL: closed inside a callback; freed when the callback returns */
	enum wr_redis_stage stage;
	struct wr_name_wait name;
	struct wr_addresses addresses;
	unsigned tried;
	struct wr_redis_socket *socket;
	SSL *tls;
	bool unsent; /* the kernel accepts no more for now */
	bool dirty;  /* in the loop's list of links with output */
	bool inside; /* in a callback that may close the link */
	struct wr_redis_link *dirty_next;
	struct wr_redis_link *next, **back; /* all links of the loop */
};

/* link.c */
void wr_redis_link_drop_socket(struct wr_redis_link *self);
/* Closes the link and reports `why` to the central. `self` is freed. */
void wr_redis_link_fail(struct wr_redis_link *self, const char *why);
/* The same for a broken connection, after reading the replies that arrived before. */
void wr_redis_link_break(struct wr_redis_link *self, const char *why);
/* Ends a callback that may have closed the link. Returns false if it did; `self` is freed then. */
bool wr_redis_link_leave(struct wr_redis_link *self);
/* The socket of an open link is readable or writable. */
void wr_redis_link_event(struct wr_redis_link *self, int events);

/* connect.c */
void wr_redis_link_poll(struct wr_redis_link *self, int events);

#endif
