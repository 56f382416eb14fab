/* Names to addresses, without waiting: each lookup in a thread of its own, for the resolver may
 * take many seconds and libuv's four threads would be gone.
 *
 * Who asks often gives up before the answer is there. It is kept for a second, and the next one who
 * asks for the same name gets it; while a lookup is under way nobody begins another. */
#ifndef WR_NET_RESOLVE_H
#define WR_NET_RESOLVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

#define WR_NAME_ADDRESSES 8u /* of one name; more are passed over */

struct wr_names;

struct wr_addresses {
	unsigned count;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} items[WR_NAME_ADDRESSES]; /* ports are 0 */
};

/* The caller's memory until `found` or wr_names_leave. */
struct wr_name_wait {
	/* NULL: `why` says why not. Both last until it returns. */
	void (*found)(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		      const char *why);
	struct wr_name_wait *next, **back; /* not the caller's */
};

struct wr_names *wr_names_new(uv_loop_t *uv); /* NULL: no memory */

/* No answer comes any more; handles are closed, the memory goes with them. */
void wr_names_stop(struct wr_names *names);

/* `found` is called at once or later. */
void wr_names_find(struct wr_names *names, const char *name, struct wr_name_wait *wait);
void wr_names_leave(struct wr_name_wait *wait); /* fine for one that does not wait */

#endif
