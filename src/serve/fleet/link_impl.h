/* Private to the connections to Redis: connect.c opens a connection; link.c sends and receives its
 * bytes, and closes the connection. */
#ifndef WR_SERVE_FLEET_LINK_IMPL_H
#define WR_SERVE_FLEET_LINK_IMPL_H

#include <openssl/ssl.h>

#include "base/list.h"
#include "serve/fleet/link.h"

enum wr_serve_redis_stage {
	WR_REDIS_NAMING,
	WR_REDIS_CONNECTING,
	WR_REDIS_HANDSHAKE,
	WR_REDIS_OPEN,
};

/* A socket with its libuv handle. The struct is freed when libuv has closed the handle. */
struct wr_serve_redis_socket {
	uv_poll_t poll;
	struct wr_serve_redis_link *self; /* NULL: the link does not use this socket any more */
	int fd;
	int polled;
};

#define WR_REDIS_LINK_MAGIC 0x726c6e6bu

struct wr_serve_redis_link {
	uint32_t magic; /* WR_REDIS_LINK_MAGIC until the struct is freed */
	struct wr_serve_redis_loop *owner;
	/* NULL: the link was closed in a callback. This struct is freed when the callback
	 * returns. */
	struct wr_central_link *link;
	enum wr_serve_redis_stage stage;
	struct wr_name_wait name;
	struct wr_addresses addresses;
	unsigned tried;
	struct wr_serve_redis_socket *socket;
	SSL *tls;
	bool unsent;             /* output remains, because the kernel did not accept all of it */
	bool inside;             /* a callback is running that can close the link */
	struct wr_list in_links; /* links this struct in owner->links */
	struct wr_list in_dirty; /* links this struct in the loop's list of links with output */
};

/* ---- link.c ---- */
void wr_serve_redis_link_drop_socket(struct wr_serve_redis_link *self);
/* Closes the link, reports `why` to its struct wr_central, and frees `self`. */
void wr_serve_redis_link_fail(struct wr_serve_redis_link *self, const char *why);
/* Like wr_serve_redis_link_fail(), for a broken connection. First reads the replies that arrived
 * before the connection broke. */
void wr_serve_redis_link_break(struct wr_serve_redis_link *self, const char *why);
/* Called at the end of a callback that can close the link. If the link was closed, frees `self` and
 * returns false. Otherwise returns true. */
bool wr_serve_redis_link_leave(struct wr_serve_redis_link *self);
/* Called when the socket of an open link is readable or writable. Sends waiting output and receives
 * replies. */
void wr_serve_redis_link_event(struct wr_serve_redis_link *self, int events);

/* ---- connect.c ---- */
void wr_serve_redis_link_poll(struct wr_serve_redis_link *self, int events);

#endif
