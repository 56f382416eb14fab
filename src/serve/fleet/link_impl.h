/* What a connection to Redis is made of: connect.c makes it, link.c carries its bytes
 * and ends it. */
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

/* A socket and its handle, which lives until libuv has closed it. */
struct wr_redis_socket {
	uv_poll_t poll;
	struct wr_redis_link *self; /* NULL: given up */
	int fd;
	int polled;
};

struct wr_redis_link {
	struct wr_redis_loop *owner;
	struct wr_link *link; /* NULL: closed while it was inside a call, freed at its end */
	enum wr_redis_stage stage;
	struct wr_name_wait name;
	struct wr_addresses addresses;
	unsigned tried;
	struct wr_redis_socket *socket;
	SSL *tls;
	bool unsent; /* the kernel takes no more for now */
	bool dirty;  /* in the loop's list */
	bool inside; /* in a call from which it may be closed */
	struct wr_redis_link *dirty_next;
	struct wr_redis_link *next, **back; /* of the loop's */
};

/* link.c */
void wr_redis_link_drop_socket(struct wr_redis_link *self);
void wr_redis_link_fail(struct wr_redis_link *self, const char *why); /* and it is gone */
/* A connection that broke off may have said why before that. It is gone after this. */
void wr_redis_link_break(struct wr_redis_link *self, const char *why);
/* After a call from which the link may be closed; false: it was, and is gone now. */
bool wr_redis_link_leave(struct wr_redis_link *self);
/* An open one can be read or written. */
void wr_redis_link_event(struct wr_redis_link *self, int events);

/* connect.c */
void wr_redis_link_poll(struct wr_redis_link *self, int events);

#endif
