/* Resolves host names without blocking the loop. Each lookup has a thread of its own: getaddrinfo()
 * may take many seconds, and a few slow lookups would occupy all four threads of libuv's pool.
 *
 * Callers that ask for a name while it is being looked up share the lookup. If all of them have
 * timed out before the result arrives, the result is kept for a second for the next caller. */
#ifndef WR_NET_RESOLVE_H
#define WR_NET_RESOLVE_H

#include <stdbool.h>
#include <uv.h>

#include <weir/error.h>

#include "base/list.h"
#include "net/dial.h"

#define WR_NAME_ADDRESSES 8u /* at most this many addresses of a name are used */

struct wr_names;

struct wr_addresses {
	unsigned count;
	union wr_dial_address items[WR_NAME_ADDRESSES]; /* addresses with port 0 */
};

/* A caller that waits for a name. The caller owns the struct and keeps it until `found` is called
 * or wr_names_leave returns. */
struct wr_name_wait {
	/* Called with the result. On failure `addresses` is NULL, otherwise `error` is NULL. Both
	 * pointers are valid only during the call. */
	void (*found)(struct wr_name_wait *wait, const struct wr_addresses *addresses,
		      const struct weir_error *error);
	struct wr_list link; /* used only by resolve.c */
};

struct wr_names *wr_names_new(uv_loop_t *uv); /* returns NULL if there is no memory */

/* Cancels all lookups without calling `found`. The memory is freed after libuv has closed the
 * handles. */
void wr_names_stop(struct wr_names *names);

/* Looks `name` up and calls `found`, either before this function returns or later from the loop. */
void wr_names_find(struct wr_names *names, const char *name, struct wr_name_wait *wait);

/* Cancels the wait. Does nothing if `found` was already called. */
void wr_names_leave(struct wr_name_wait *wait);

#endif
